//! Ctrl-C in a benchmark that runs programs of others: they end, and their files go, before this process does. The first signal makes the
//! benchmark fail wherever it waits next, and so drops what it started; a second one ends this process at once. Replicas and programs of
//! others end with this process in any case.

use quorate_command::failure::{Doing as _, Failure, Outcome};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often it is looked whether a signal came.
const LOOK: Duration = Duration::from_millis(50);
static CAME: AtomicBool = AtomicBool::new(false);

/// From now on signals that end a process are noted here.
pub(super) fn listen() -> Outcome<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).doing("listen to signals")?;
    let run = move || {
        for signal in signals.forever() {
            if CAME.swap(true, Ordering::AcqRel) {
                // Whoever asks twice does not want to wait.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(run).doing("start a thread").map(drop)
}

/// Fails once a signal came.
pub(super) fn check() -> Outcome<()> {
    if CAME.load(Ordering::Acquire) {
        return Err(Failure::new("interrupted: the servers were ended, and their files removed"));
    }
    Ok(())
}

/// Waits for this, or for a signal.
pub(super) async fn unless<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let mut work = pin!(work);
    loop {
        match tokio::time::timeout(LOOK, work.as_mut()).await {
            Ok(done) => return done,
            Err(_) => check()?,
        }
    }
}
