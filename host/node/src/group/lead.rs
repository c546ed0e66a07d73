//! Which replica leads an instance, and since when; and whether it is the replica whose turn it is (`leading/`).

use quorate_types::{ReplicaId, Slot, Span, Time, View};

/// The leadership that was announced last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lead {
    view: View,
    leader: Option<ReplicaId>,
    /// What was decided when this replica began to lead. Once that is executed, this replica knows all earlier commands to the engine.
    settled_at: Option<Slot>,
    /// When leadership changed last, or when it was last checked whose turn it is.
    since: Time,
    /// How often that was checked in vain, or how often the instance came back.
    times: u32,
    /// Whether it is this replica's turn.
    pub(crate) settled: bool,
}

impl Lead {
    pub(super) const fn view(&self) -> View {
        self.view
    }

    pub(super) const fn leader(&self) -> Option<ReplicaId> {
        self.leader
    }

    /// Another view or another leader was announced.
    pub(crate) fn announced(&mut self, now: Time, view: View, leader: Option<ReplicaId>) {
        (self.view, self.leader, self.settled_at) = (view, leader, None);
        (self.since, self.settled) = (now, false);
    }

    /// Keeps what is known of leadership while the instance is silent.
    pub(super) fn keep(&mut self, view: View, leader: Option<ReplicaId>) {
        (self.view, self.leader) = (view, leader);
    }

    /// This replica leads and knows everything up to this slot.
    pub(crate) fn settle(&mut self, decided: Slot) {
        self.settled_at.get_or_insert(decided);
    }

    /// What was decided when this replica had begun to lead.
    pub(crate) const fn settled_at(&self) -> Option<Slot> {
        self.settled_at
    }

    pub(crate) const fn since(&self) -> Time {
        self.since
    }

    /// It was checked whose turn it is: this replica's, or not.
    pub(crate) fn looked(&mut self, now: Time, mine: bool) {
        self.settled = mine;
        (self.since, self.times) = (now, if mine { 0 } else { self.times.saturating_add(1) });
    }

    /// When to check again: later each time.
    pub(crate) fn due(&self, after: Span, most: Span) -> Time {
        let nanos = after.nanos().saturating_mul(1 << self.times.min(16));
        self.since.plus(Span::from_nanos(nanos.min(most.nanos())))
    }
}
