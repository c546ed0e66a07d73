//! Who leads an instance, and since when; whether it goes to the replica whose turn it is (`leading/`).

use quorate_types::{ReplicaId, Slot, Span, Time, View};

/// Who leads, as it was announced last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lead {
    view: View,
    leader: Option<ReplicaId>,
    /// This replica leads since this was decided: what commands to the engine there were before is known once that is executed.
    settled_at: Option<Slot>,
    /// When leadership changed last, or it was looked at whose turn it is.
    since: Time,
    /// How often that was looked at in vain, or the instance came back.
    times: u32,
    /// It is this replica's turn.
    pub(crate) settled: bool,
}

impl Lead {
    pub(super) const fn view(&self) -> View {
        self.view
    }

    pub(super) const fn leader(&self) -> Option<ReplicaId> {
        self.leader
    }

    /// Another view, or another leader. Whether that is so.
    pub(crate) fn announced(&mut self, now: Time, view: View, leader: Option<ReplicaId>) -> bool {
        if (view, leader) == (self.view, self.leader) {
            return false;
        }
        (self.view, self.leader, self.settled_at) = (view, leader, None);
        (self.since, self.settled) = (now, false);
        true
    }

    /// It is one that says nothing any more, or nothing yet: of that view this is known.
    pub(super) fn keep(&mut self, view: View, leader: Option<ReplicaId>) {
        (self.view, self.leader) = (view, leader);
    }

    /// Who leads here knows all that was decided before this.
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

    /// It was looked at whose turn it is: this replica's, or in vain.
    pub(crate) fn looked(&mut self, now: Time, mine: bool) {
        self.settled = mine;
        (self.since, self.times) = (now, if mine { 0 } else { self.times.saturating_add(1) });
    }

    /// When to look again: later each time.
    pub(crate) fn due(&self, after: Span, most: Span) -> Time {
        let nanos = after.nanos().saturating_mul(1 << self.times.min(16));
        self.since.plus(Span::from_nanos(nanos.min(most.nanos())))
    }
}
