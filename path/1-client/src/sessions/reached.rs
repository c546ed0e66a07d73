//! Which members got what of a session, where it goes to all of them (`reach/all`).

use super::session::{Phase, Session};

/// What is known of one session. Members are bits, by contact.
#[derive(Debug, Default)]
pub(super) struct Reached {
    /// Who got something of it over the present connection, and so sends its replies there.
    met: u64,
    /// From which number on, and before which, something went to the leader only.
    alone: Option<(u64, u64)>,
    /// Who says that it is over.
    expired: u64,
}

impl Reached {
    /// From this number on everything is sent again.
    pub(super) fn rewound(&mut self, sent: u64) {
        self.alone = self.alone.map(|(from, to)| (from, to.min(sent)));
    }
}

impl Session {
    /// These members got something of it.
    pub(crate) const fn meet(&mut self, members: u64) {
        self.reached.met |= members;
    }

    /// This member got nothing of it over its present connection.
    pub(crate) const fn unmeet(&mut self, contact: usize) {
        self.reached.met &= !(1 << contact);
    }

    /// Since which number something is under way that only the leader got.
    pub(crate) fn alone(&self) -> Option<u64> {
        let (from, to) = self.reached.alone.filter(|_| self.in_flight())?;
        (to > self.base()).then_some(from.max(self.base()))
    }

    /// The entry that was marked as sent last went to the leader only.
    pub(crate) fn sent_alone(&mut self) {
        let number = self.sent().saturating_sub(1);
        let from = self.alone().map_or(number, |from| from.min(number));
        self.reached.alone = Some((from, self.sent()));
    }

    /// All get what only the leader got. Returns since which number that is.
    pub(crate) fn take_alone(&mut self) -> Option<u64> {
        let alone = self.alone();
        self.reached.alone = None;
        alone
    }

    /// Whether its next request may go to the leader alone. `connected`: the members that are, as bits.
    pub(crate) const fn may_be_alone(&self, connected: u64) -> bool {
        matches!(self.phase, Phase::Open) && !self.sends_again() && connected & !self.reached.met == 0
    }

    /// A member says that it is over. Returns how many do.
    pub(crate) const fn says_expired(&mut self, contact: usize) -> u32 {
        self.reached.expired |= 1 << contact;
        self.say_expired()
    }

    /// How many members say that it is over.
    pub(super) const fn say_expired(&self) -> u32 {
        self.reached.expired.count_ones()
    }
}
