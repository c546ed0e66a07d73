//! Borders out of turn: a replica needs one, and the leader puts it into the log.

use quorate_types::{Span, Time};

/// The shortest time between two requests for a border out of turn.
const ASK_AGAIN: Span = Span::from_secs(2);

/// Whether this replica must order a border, and when it asked for one.
#[derive(Debug, Default)]
pub(super) struct Asking {
    /// Whether this replica leads and must order one.
    wanted: bool,
    /// When this replica last asked for one.
    asked: Option<Time>,
}

impl Asking {
    /// Notes that the leader was asked.
    pub(super) fn asked(&mut self, now: Time) {
        self.asked = Some(now);
    }

    /// Whether the leader was asked a short time ago.
    pub(super) fn lately(&self, now: Time) -> bool {
        self.asked.is_some_and(|at| now.since(at) < ASK_AGAIN)
    }

    /// When to ask again, while a border is needed.
    pub(super) fn again_at(&self) -> Time {
        self.asked.map_or(Time::ZERO, |at| at.plus(ASK_AGAIN))
    }

    /// This replica must order a border as soon as it may.
    pub(super) fn order(&mut self) {
        self.wanted = true;
    }

    /// Whether this replica must order a border.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// This replica has ordered it.
    pub(super) fn ordered(&mut self) {
        self.wanted = false;
    }
}
