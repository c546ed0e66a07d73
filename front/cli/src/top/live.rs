//! The live view: looks, keys and signals come as events, and each may change the screen.

use super::layout::{self, View};
use super::line::{Line, Style};
use super::look::Look;
use super::looker::{self, Looker};
use super::terminal::Terminal;
use quorate_command::cluster::ClusterArgs;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::iterator::Signals;
use std::io::Read as _;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// A look that is this much older than it should be is said to be old.
const LATE: Duration = Duration::from_secs(2);
/// How often the screen is drawn while nothing happens, so that its age is true.
const DRAW: Duration = Duration::from_secs(1);

/// What may happen.
enum Event {
    Looked(Look),
    Key(Key),
    Signal(i32),
    /// A thread ended that should not.
    Broken,
}

/// A key that means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    Sort,
    Pause,
    Help,
    Up,
    Down,
    Stop,
    Other,
}

/// The keys in what a terminal sent.
pub(super) fn keys(mut bytes: &[u8]) -> Vec<Key> {
    const ESCAPES: [(&[u8], Key); 6] = [
        (b"\x1b[A", Key::Up),
        (b"\x1bOA", Key::Up),
        (b"\x1b[B", Key::Down),
        (b"\x1bOB", Key::Down),
        (b"\x1b[5~", Key::Up),
        (b"\x1b[6~", Key::Down),
    ];
    let mut found = Vec::new();
    while let [first, ..] = bytes {
        let escape = ESCAPES.iter().find(|(escape, _)| bytes.starts_with(escape));
        let (key, length) = match escape {
            Some((escape, key)) => (*key, escape.len()),
            // Another key of several bytes, of which nothing is known but that it is one.
            None if *first == 0x1b => (Key::Other, bytes.len()),
            None => (key(*first), 1),
        };
        found.push(key);
        bytes = &bytes[length..];
    }
    found
}

const fn key(byte: u8) -> Key {
    match byte {
        // Ctrl-C, Ctrl-D and Ctrl-\ arrive as bytes, as all keys do.
        b'q' | b'Q' | 0x03 | 0x04 | 0x1c => Key::Quit,
        b's' => Key::Sort,
        b'p' => Key::Pause,
        b'h' | b'?' => Key::Help,
        b'k' => Key::Up,
        b'j' => Key::Down,
        0x1a => Key::Stop,
        _ => Key::Other,
    }
}

/// What is shown: two looks, and what the reader chose.
pub(super) struct Shown {
    looks: Option<(Option<Look>, Look)>,
    /// What came while the view was paused.
    newest: Option<(Option<Look>, Look)>,
    last: Option<(Look, Instant)>,
    pub(super) view: View,
}

impl Shown {
    pub(super) fn new(keys: bool) -> Self {
        Self { looks: None, newest: None, last: None, view: View { keys, ..View::default() } }
    }

    pub(super) fn looked(&mut self, look: Look, now: Instant) {
        let before = self.last.replace((look.clone(), now)).map(|(before, _)| before);
        let pair = Some((before, look));
        if self.view.paused { self.newest = pair } else { self.looks = pair }
    }

    /// A key was pressed. `false`: it ends the view.
    pub(super) fn pressed(&mut self, key: Key) -> bool {
        match key {
            Key::Quit => return false,
            _ if self.view.help => self.view.help = false,
            Key::Help => self.view.help = true,
            Key::Sort => (self.view.sort, self.view.above) = (self.view.sort.next(), 0),
            Key::Up => self.view.above = self.view.above.saturating_sub(1),
            Key::Down => {
                let rows = self.looks().map_or(0, |(_, now)| now.replicas().len());
                self.view.above = (self.view.above + 1).min(rows.saturating_sub(1));
            }
            Key::Pause => {
                self.view.paused = !self.view.paused;
                if let Some(newest) = self.newest.take() {
                    self.looks = Some(newest);
                }
            }
            Key::Stop | Key::Other => {}
        }
        true
    }

    /// The looks that are shown.
    pub(super) fn looks(&self) -> Option<(Option<&Look>, &Look)> {
        self.looks.as_ref().map(|(before, now)| (before.as_ref(), now))
    }

    fn draw(&mut self, terminal: &Terminal, every: Duration) -> Outcome<bool> {
        let age = self.last.as_ref().map(|(_, at)| at.elapsed());
        self.view.age = age.filter(|age| *age > every + LATE && !self.view.paused);
        let Some((before, now)) = self.looks() else {
            return terminal.show(&[Line::of(Style::Plain, "asking the replicas ...")]);
        };
        terminal.show(&layout::screen(before, now, &self.view, Terminal::size()))
    }
}

/// Shows the cluster until the reader has seen enough.
pub(super) fn run(cluster: ClusterArgs, every: Duration) -> Outcome {
    let (tell, events) = mpsc::channel();
    let wanted = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, SIGCONT];
    let mut signals = Signals::new(wanted).doing("listen to signals")?;
    let terminal = Terminal::take()?;
    let mut shown = Shown::new(Terminal::has_keys());
    start(&tell, "signals", move |tell| hear(&mut signals, tell))?;
    if shown.view.keys {
        start(&tell, "keys", read_keys)?;
    }
    start(&tell, "looks", move |tell| {
        looker::repeat(Looker::new(cluster), every, |look| tell.send(Event::Looked(look)).is_ok());
    })?;
    shown.draw(&terminal, every)?;
    while turn(&events, &mut shown, &terminal, every)? {}
    Ok(ExitCode::SUCCESS)
}

/// Starts a thread that tells what happens. If it panics, that is told, too.
fn start(
    tell: &Sender<Event>,
    name: &str,
    work: impl FnOnce(&Sender<Event>) + Send + 'static,
) -> Outcome<()> {
    struct Broken(Sender<Event>);
    impl Drop for Broken {
        fn drop(&mut self) {
            if std::thread::panicking() {
                let _ = self.0.send(Event::Broken);
            }
        }
    }
    let broken = Broken(tell.clone());
    let run = move || work(&broken.0);
    std::thread::Builder::new().name(name.into()).spawn(run).doing("start a thread").map(drop)
}

/// Signals that end the view.
const ENDS: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

fn hear(signals: &mut Signals, tell: &Sender<Event>) {
    let mut ends = false;
    for signal in signals.forever() {
        if ENDS.contains(&signal) && std::mem::replace(&mut ends, true) {
            // Who asks twice does not wait for a terminal that takes nothing any more.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
        if tell.send(Event::Signal(signal)).is_err() {
            return;
        }
    }
}

fn read_keys(tell: &Sender<Event>) {
    let mut bytes = [0; 256];
    // At the end of the input the view goes on without keys.
    while let Ok(length @ 1..) = std::io::stdin().lock().read(&mut bytes) {
        if !keys(&bytes[..length]).into_iter().all(|key| tell.send(Event::Key(key)).is_ok()) {
            return;
        }
    }
}

/// Waits for what happens next. `false`: the view ends.
fn turn(events: &Receiver<Event>, shown: &mut Shown, terminal: &Terminal, every: Duration) -> Outcome<bool> {
    match events.recv_timeout(DRAW) {
        Ok(Event::Looked(look)) => shown.looked(look, Instant::now()),
        Ok(Event::Key(Key::Stop) | Event::Signal(SIGTSTP)) => {
            terminal.leave();
            signal_hook::low_level::emulate_default_handler(SIGTSTP).doing("stop")?;
            terminal.enter()?;
        }
        Ok(Event::Key(key)) => {
            if !shown.pressed(key) {
                return Ok(false);
            }
        }
        Ok(Event::Signal(signal)) if ENDS.contains(&signal) => return Ok(false),
        // Another size, or this program goes on after a stop.
        Ok(Event::Signal(_)) | Err(RecvTimeoutError::Timeout) => {}
        Ok(Event::Broken) | Err(RecvTimeoutError::Disconnected) => {
            return Err(Failure::new(
                "a part of this program failed, which is an error in it: please report it",
            ));
        }
    }
    shown.draw(terminal, every)
}
