//! Requests with tags go to the leader first, and to the others only if no answer comes. So each other replica receives them once, not
//! twice.
//!
//! The leader proposes such a request like any other, and its tags show the others which client made it. If no answer comes to a session
//! for as long as the configuration says, everything of it that only the leader got goes to all (`spread.rs`, what was missed). For a while
//! everything else then goes to all at once, too: for a second at first, twice as long each time that this was not enough, a minute at
//! most, and shorter again after it went well for as long. When f+1 replicas name another leader, or the connection to the leader breaks,
//! the client does not wait, since the new leader may not know of the requests. A new leader proposes for a second only what many replicas
//! heard, so requests go to all during that time.
//!
//! Only the leader gets requests of sessions of which every connected replica has received something over its present connection, since
//! that is where it sends replies. Requests that are sent again go to all. An opening goes to all. Where no replica is named as leader, as
//! with several instances, everything goes to all. None of this affects which answers count. Tests: first/tests.rs, tests/first.rs.

use crate::reach::CurrentLeader;
use quorate_types::{Span, Time, View};

/// How long everything goes to all at first.
const PAUSE_FIRST: Span = Span::from_secs(1);
/// The longest such time.
const PAUSE_MAX: Span = Span::from_secs(60);

/// Whether requests go to the leader first.
#[derive(Debug, Default)]
pub(super) struct First {
    /// Never: requests have no tags, or the client does not want it.
    off: bool,
    /// Not before this time.
    from: Time,
    /// How long it was suspended the last time.
    pause: Span,
}

impl First {
    pub(super) fn new(on: bool) -> Self {
        Self { off: !on, ..Self::default() }
    }

    /// Whether requests go to the leader first now.
    pub(super) fn is_on(&self, now: Time) -> bool {
        !self.off && now >= self.from
    }

    /// It did not help, so it is suspended for a while. Failures of what was sent before a suspension do not prolong it.
    pub(super) fn failed(&mut self, now: Time) {
        if now < self.from {
            return;
        }
        let went_well = now.since(self.from).nanos().checked_div(self.pause.nanos()).unwrap_or(0);
        self.pause = match went_well {
            0 => self.pause.times(2).min(PAUSE_MAX),
            times => Span::from_nanos(self.pause.nanos() >> times.min(63)),
        };
        self.pause = self.pause.max(PAUSE_FIRST);
        self.from = now.plus(self.pause);
    }

    /// The members changed, and with them the view: everything goes to all for a while. `on`: whether the leader may come first after that.
    pub(super) fn begin_anew(&mut self, now: Time, on: bool) {
        self.off = !on;
        self.pause = PAUSE_FIRST;
        self.from = now.plus(PAUSE_FIRST);
    }

    /// The leader is another one than `before`. The first leader of which a client hears is not held against it.
    pub(super) fn led(&mut self, now: Time, before: CurrentLeader, current: CurrentLeader) {
        let newer = before.view > View::ZERO && current.view > before.view;
        if newer || before.leader.is_some() {
            self.pause = PAUSE_FIRST;
            self.from = now.plus(PAUSE_FIRST);
        }
    }
}

#[cfg(test)]
mod tests;
