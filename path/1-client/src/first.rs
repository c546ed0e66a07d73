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
//! everything does. Nothing here has a say in which answers count. Tests: tests/first.rs.

use crate::core::{ClientCore, Known};
use crate::link::Link;
use crate::session::{NEVER, Phase, Session};
use quorate_types::{Span, Time, View};

/// Everything goes to all for so long at first.
const PAUSE_FIRST: Span = Span::from_secs(1);
/// And no longer than this.
const PAUSE_MAX: Span = Span::from_secs(60);

/// Whether the leader is first.
#[derive(Debug, Default)]
pub(crate) struct First {
    /// It is not, before.
    pub(crate) from: Time,
    /// How long it was not, the last time.
    pause: Span,
}

impl First {
    /// It was of no use: not for a while. Not longer for what was on its way before.
    fn pause(&mut self, now: Time) {
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
}

impl ClientCore {
    /// Who gets requests first, if anybody does now.
    pub(crate) fn first_link(&self, now: Time) -> Option<usize> {
        let on = self.config.leader_first.is_some() && self.tagging.is_some() && now >= self.first.from;
        let link = self.known.leader.filter(|_| on)?;
        self.links.get(link).filter(|link| link.up().is_some())?;
        Some(link)
    }

    /// All members that are connected, as bits.
    pub(crate) fn connected_bits(&self) -> u64 {
        let up = |(at, link): (usize, &Link)| link.up().map(|_| 1 << at);
        self.links.iter().enumerate().filter_map(up).sum()
    }

    /// Until when an answer may come to what only the leader got of a session.
    pub(crate) fn alone_until(&self, session: &Session) -> Time {
        match (session.alone(), self.config.leader_first) {
            (Some(_), Some(wait)) => session.progress.plus(wait),
            _ => NEVER,
        }
    }

    /// If none did, all get it.
    pub(crate) fn look_at_alone(&mut self, now: Time, index: u32) {
        let Some(session) = self.sessions.places[index as usize].session.as_ref() else { return };
        if self.alone_until(session) <= now {
            self.tell_all(index, self.known.leader);
            self.first.pause(now);
        }
    }

    /// What only the leader got of a session is noted as missed by all others. `leader`: who that was.
    fn tell_all(&mut self, index: u32, leader: Option<usize>) {
        let Some(session) = self.sessions.at(index) else { return };
        let alone = session.alone();
        session.alone = None;
        for (at, link) in self.links.iter_mut().enumerate() {
            if let Some(from) = alone.filter(|_| Some(at) != leader && link.up().is_some()) {
                link.missed.note(index, from);
            }
        }
    }

    fn tell_all_everything(&mut self, leader: Option<usize>) {
        for index in 0..self.sessions.places.len() as u32 {
            self.tell_all(index, leader);
        }
    }

    /// f+1 members say who leads.
    pub(crate) fn leads_now(&mut self, now: Time, before: Known) {
        if before.leader == self.known.leader && before.view == self.known.view {
            return;
        }
        self.tell_all_everything(before.leader);
        // Of the first one that it hears of it knows nothing bad.
        let newer = before.view > View::ZERO && self.known.view > before.view;
        if newer || before.leader.is_some() {
            self.first = First { from: now.plus(PAUSE_FIRST), pause: PAUSE_FIRST };
        }
    }

    /// A connection broke.
    pub(crate) fn first_lost(&mut self, link: usize) {
        if self.known.leader == Some(link) {
            self.tell_all_everything(Some(link));
        }
    }
}

impl Session {
    /// Whether its next request may go to the leader alone. `connected`: the members that are, as bits.
    pub(crate) const fn may_be_alone(&self, connected: u64) -> bool {
        let again = self.resends > 0 || self.refusals > 0 || self.sent() < self.high();
        matches!(self.phase, Phase::Open) && !again && connected & !self.met == 0
    }
}
