//! The progress of long work: a bar on standard error, if that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use quorate_kit::backups;
use std::io::IsTerminal as _;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(250);

/// Several pieces of work, one after the other.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// The progress before any work.
    pub(crate) fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { bar: ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()) };
        }
        let bar = ProgressBar::no_length();
        bar.enable_steady_tick(TICK);
        Self { bar }
    }

    /// Shows the progress of a backup.
    pub(crate) fn follow(&self, now: backups::Progress) {
        match now {
            backups::Progress::Waits(what) => self.waits(what),
            backups::Progress::Moves(what, bytes, all) => self.moves(what, bytes, all),
            backups::Progress::Says(text) => self.says(&text),
        }
    }

    /// Shows work of unknown length.
    fn waits(&self, what: String) {
        // A template of our own making is well-formed; without it the bar is plain.
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} {elapsed}") {
            self.bar.set_style(style);
        }
        self.bar.set_prefix(what);
    }

    /// Begins work on this number of bytes.
    pub(crate) fn begins(&self, what: &str, bytes: u64) {
        let template = "{prefix:12} {bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style);
        }
        self.bar.set_prefix(what.to_owned());
        self.bar.reset();
        self.bar.set_length(bytes);
    }

    /// Notes how many of all bytes are done; begins the work at the first call.
    fn moves(&self, what: &str, bytes: u64, all: u64) {
        if self.bar.prefix() != what {
            self.begins(what, all);
        }
        self.bar.set_length(all);
        self.bar.set_position(bytes);
    }

    /// Notes how many bytes are done.
    pub(crate) fn at(&self, bytes: u64) {
        self.bar.set_position(bytes);
    }

    /// Prints a line beside the bar.
    fn says(&self, text: &str) {
        self.bar.suspend(|| eprintln!("{text}"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
