//! Signals that a replica's program obeys.

use super::log::Levels;
use quorate_runtime::{Reloader, Stopper};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use std::io;
use std::sync::mpsc::{Receiver, channel};

/// The signals that came.
pub struct Signals(Receiver<i32>);

impl Signals {
    /// Notices signals from now on, so that one that comes while the log is read back is not lost.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn notice() -> io::Result<Self> {
        let (sender, receiver) = channel();
        let wanted = [SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];
        let mut signals = signal_hook::iterator::Signals::new(wanted)?;
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            for signal in signals.forever() {
                // Nobody listens any more once the replica is stopping: a second Ctrl-C changes nothing.
                let _ = sender.send(signal);
            }
        })?;
        Ok(Self(receiver))
    }

    /// Obeys them: SIGHUP reads certificates, SIGUSR1 logs more, SIGUSR2 logs as at the start; the first other signal stops the replica.
    /// `levels` is `None` where somebody else logs.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn obey(self, stopper: Stopper, reloader: Reloader, mut levels: Option<Levels>) -> io::Result<()> {
        let wait = move || {
            while let Ok(signal) = self.0.recv() {
                match (signal, &mut levels) {
                    (SIGHUP, _) => reloader.reload(),
                    (SIGUSR1, Some(levels)) => levels.raise(),
                    (SIGUSR2, Some(levels)) => levels.restore(),
                    (SIGUSR1 | SIGUSR2, None) => {}
                    _ => return stopper.stop(),
                }
            }
        };
        std::thread::Builder::new().name("stop".into()).spawn(wait).map(drop)
    }
}
