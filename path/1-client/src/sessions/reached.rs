//! Which members got which requests of a session, where requests go to all members (`reach/all`).

use super::session::{Phase, Session};
use crate::config::Config;
use crate::step::NEVER;
use quorate_types::Time;

/// What is known of one session. Sets of members are bits, by contact.
#[derive(Debug, Default)]
pub(super) struct Reached {
    /// Members that got something of the session over their present connection, and so send replies there.
    met: u64,
    /// The range of numbers, from the first to before the second, of which something went only to the leader.
    alone: Option<(u64, u64)>,
    /// Since when something is.
    alone_since: Time,
    /// Members that say the session is over.
    expired: u64,
}

impl Reached {
    /// Everything from this number on is sent again.
    pub(super) fn rewound(&mut self, sent: u64) {
        self.alone = self.alone.map(|(from, to)| (from, to.min(sent)));
    }
}

impl Session {
    /// These members got something of the session.
    pub(crate) const fn meet(&mut self, members: u64) {
        self.reached.met |= members;
    }

    /// This member got nothing of the session over its present connection.
    pub(crate) const fn unmeet(&mut self, contact: usize) {
        self.reached.met &= !(1 << contact);
    }

    /// The first number under way that only the leader got.
    pub(crate) fn alone(&self) -> Option<u64> {
        let (from, to) = self.reached.alone.filter(|_| self.in_flight())?;
        (to > self.base()).then_some(from.max(self.base()))
    }

    /// The entry that was marked as sent last went only to the leader.
    pub(crate) fn sent_alone(&mut self, now: Time) {
        let number = self.sent().saturating_sub(1);
        let before = self.alone();
        if before.is_none() {
            self.reached.alone_since = now;
        }
        let from = before.map_or(number, |from| from.min(number));
        self.reached.alone = Some((from, self.sent()));
    }

    /// Until when to wait for an answer to what only the leader got.
    pub(crate) fn alone_until(&self, config: &Config) -> Time {
        match (self.alone(), config.leader_first) {
            // What was sent earlier, to all, may wait for longer than that already.
            (Some(_), Some(wait)) => self.pace.progress.max(self.reached.alone_since).plus(wait),
            _ => NEVER,
        }
    }

    /// All members get what only the leader got. Returns its first number.
    pub(crate) fn take_alone(&mut self) -> Option<u64> {
        let alone = self.alone();
        self.reached.alone = None;
        alone
    }

    /// Whether the session's next request may go to the leader only. `connected`: the connected members, as bits.
    pub(crate) const fn may_be_alone(&self, connected: u64) -> bool {
        matches!(self.phase, Phase::Open) && !self.sends_again() && connected & !self.reached.met == 0
    }

    /// A member says that the session is over. Returns how many members do.
    pub(crate) const fn says_expired(&mut self, contact: usize) -> u32 {
        self.reached.expired |= 1 << contact;
        self.say_expired()
    }

    /// How many members say that the session is over.
    pub(super) const fn say_expired(&self) -> u32 {
        self.reached.expired.count_ones()
    }
}
