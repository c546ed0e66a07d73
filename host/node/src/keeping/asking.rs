//! Borders out of turn: somebody needs one, and whoever leads puts it into the log.

use quorate_types::{Span, Time};

/// How often at most a border is asked for out of turn.
const ASK_AGAIN: Span = Span::from_secs(2);

/// What this replica wants, and when it asked for it.
#[derive(Debug, Default)]
pub(super) struct Asking {
    /// It leads, and is to order one.
    wanted: bool,
    /// When one was asked for last.
    asked: Option<Time>,
}

impl Asking {
    /// One is asked for, from whoever leads.
    pub(super) fn asked(&mut self, now: Time) {
        self.asked = Some(now);
    }

    /// Whether one was asked for just before.
    pub(super) fn lately(&self, now: Time) -> bool {
        self.asked.is_some_and(|at| now.since(at) < ASK_AGAIN)
    }

    /// When to ask again, as long as one is needed.
    pub(super) fn again_at(&self) -> Time {
        self.asked.map_or(Time::ZERO, |at| at.plus(ASK_AGAIN))
    }

    /// This replica is to order one as soon as it may.
    pub(super) fn order(&mut self) {
        self.wanted = true;
    }

    /// Whether it is to.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// It did.
    pub(super) fn ordered(&mut self) {
        self.wanted = false;
    }
}
