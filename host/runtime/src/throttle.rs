//! Keeps the log readable when connections fail again and again. Tests: `throttle/tests.rs`.

use quorate_types::{Span, Time};

/// How many lines pass within [`WINDOW`].
const LINES: u32 = 10;
const WINDOW: Span = Span::from_secs(10);

/// Lets a few lines through and counts the others.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    since: Option<Time>,
    shown: u32,
    hidden: u64,
}

impl Throttle {
    /// Whether a line may be written now. Once lines pass again, logs how many were suppressed.
    pub(crate) fn allows(&mut self, now: Time) -> bool {
        if self.since.is_none_or(|since| now.since(since) >= WINDOW) {
            if self.hidden > 0 {
                tracing::warn!("{} more connections were refused, which is too many to list", self.hidden);
            }
            *self = Self { since: Some(now), shown: 0, hidden: 0 };
        }
        if self.shown < LINES {
            self.shown += 1;
            return true;
        }
        self.hidden += 1;
        false
    }
}

#[cfg(test)]
mod tests;
