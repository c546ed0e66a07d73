//! Requests with tags go to the leader first, and to the others only if no answer comes: each replica receives them once less.
//!
//! A leader that gets such a request proposes it like any other, and its tags show the others whose it is. If nothing of a session is
//! answered for as long as the configuration says, everything of it that only the leader got goes to all (`spread.rs`, what was missed),
//! and for a while so does everything else, at once: a second at first, twice as long each time it was not enough, a minute at most, and
//! less again when it went well for as long. When f+1 replicas name another leader, or the connection to it breaks, nothing is waited for:
//! the new one may never hear of it otherwise. New leaders propose for a second only what many replicas heard, so requests go to all then.
//!
//! Alone go the requests of sessions of which every connected replica has something over its present connection, since that is where it
//! sends replies; and not those that are sent again. What opens a session goes to all. Where nobody is named as leader, as with several instances,
//! everything does. Nothing here has a say in which answers count. Tests: first/tests.rs, tests/first.rs.

use crate::reach::CurrentLeader;
use quorate_types::{Span, Time, View};

/// Everything goes to all for so long at first.
const PAUSE_FIRST: Span = Span::from_secs(1);
/// And no longer than this.
const PAUSE_MAX: Span = Span::from_secs(60);

/// Whether the leader is first.
#[derive(Debug, Default)]
pub(super) struct First {
    /// It never is: requests have no tags, or their client does not want it.
    off: bool,
    /// It is not, before.
    from: Time,
    /// How long it was not, the last time.
    pause: Span,
}

impl First {
    pub(super) fn new(on: bool) -> Self {
        Self { off: !on, ..Self::default() }
    }

    /// Whether it is now.
    pub(super) fn is_on(&self, now: Time) -> bool {
        !self.off && now >= self.from
    }

    /// It was of no use: not for a while. Not longer for what was on its way before.
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

    /// Another one leads than `before`. Of the first one that it hears of a client knows nothing bad.
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
