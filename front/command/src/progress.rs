//! The progress bar, on standard error, and only if that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;
use std::time::Duration;

/// A bar for one part of a benchmark.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar for a part that takes about this long.
    pub fn new(what: &str, length: Duration) -> Self {
        let bar = ProgressBar::new(length.as_millis() as u64);
        if !std::io::stderr().is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        // A template of our own making is well-formed; without it the bar is plain.
        if let Ok(style) = ProgressStyle::with_template("{prefix:28} {bar:30} {msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(what.to_owned());
        Self { bar }
    }

    /// A bar for a part that reports nothing until it ends: it moves by itself.
    pub fn waiting(what: &str) -> Self {
        let progress = Self::new(what, Duration::from_secs(1));
        if let Ok(style) = ProgressStyle::with_template("{prefix:28} {spinner} {elapsed}") {
            progress.bar.set_style(style);
        }
        progress.bar.enable_steady_tick(Duration::from_millis(250));
        progress
    }

    /// A bar for a part that handles this number of bytes.
    pub fn counting(what: &str, bytes: u64) -> Self {
        Self::new(what, Duration::from_millis(bytes))
    }

    /// Notes how many bytes are done.
    pub fn count(&self, done: u64) {
        if !self.bar.is_hidden() {
            self.bar.set_position(done);
        }
    }

    /// Notes how much time has passed.
    pub fn at(&self, elapsed: Duration, message: impl FnOnce() -> String) {
        if !self.bar.is_hidden() {
            self.bar.set_position(elapsed.as_millis() as u64);
            self.bar.set_message(message());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
