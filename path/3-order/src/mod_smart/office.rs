//! The present view: its certificate, and what binds it.
//!
//! INV-SMART-7: views only grow. Tests: tests/parts.rs, tests/stops.rs.

use quorate_auth::Signed;
use quorate_types::{Digest, RecordId, ReplicaId, Slot, View};
use quorate_wire::Batch;

/// Whether votes are cast in the view.
#[derive(Debug, Default)]
pub(super) enum Phase {
    /// The view was entered, and what binds it is not known yet.
    #[default]
    Syncing,
    /// `base`: the view's first slot follows it. `forced`: the value that binds that slot, kept until the slot is decided. `settled`:
    /// everything that may have been decided in earlier views lies up to this slot.
    Normal { base: Slot, forced: Option<(Digest, Batch)>, settled: Slot },
}

impl Phase {
    /// A view in which nobody can have voted before, or which this replica only listens to, so that nothing binds it.
    pub(super) fn free_after(slot: Slot) -> Self {
        Self::Normal { base: slot.next(), forced: None, settled: slot }
    }
}

/// The present view: its certificate, and what binds it.
#[derive(Debug, Default)]
pub(super) struct Office {
    view: View,
    /// The STOPs of a quorum that asked for the view.
    certificate: Signed,
    /// The record that says in which view this replica is.
    record: RecordId,
    /// Whether this replica led the view and does not any more: it led in an earlier life and does not know what it proposed, or it heard
    /// no quorum.
    barred: bool,
    phase: Phase,
    /// The content of the last [`crate::Effect::LeaderChanged`].
    announced: (View, Option<ReplicaId>),
}

impl Office {
    pub(super) fn view(&self) -> View {
        self.view
    }
    pub(super) fn certificate(&self) -> &Signed {
        &self.certificate
    }
    pub(super) fn record(&self) -> RecordId {
        self.record
    }
    pub(super) fn is_barred(&self) -> bool {
        self.barred
    }
    pub(super) fn phase(&self) -> &Phase {
        &self.phase
    }
    /// Whether it is known what binds the view.
    pub(super) fn has_begun(&self) -> bool {
        matches!(self.phase, Phase::Normal { .. })
    }
    /// The leader, as the other stages were told.
    pub(super) fn announced(&self) -> Option<ReplicaId> {
        self.announced.1
    }

    /// Enters a later view.
    pub(super) fn enter(&mut self, view: View, certificate: Signed, phase: Phase) {
        assert!(view > self.view, "INV-SMART-7: views only grow, from {} to {view}", self.view);
        (self.view, self.certificate, self.barred, self.phase) = (view, certificate, false, phase);
    }

    /// The record that says in which view this replica is.
    pub(super) fn written(&mut self, record: RecordId) {
        self.record = record;
    }

    /// Sets the phase: what binds the view is known, or is still to be found.
    pub(super) fn begin(&mut self, phase: Phase) {
        self.phase = phase;
    }

    /// This replica leads the view no longer.
    pub(super) fn bar(&mut self) {
        self.barred = true;
    }

    /// Everything up to this slot is decided, so the value that bound that slot is dropped.
    pub(super) fn release(&mut self, decided: Slot) {
        if let Phase::Normal { base, forced, .. } = &mut self.phase
            && *base <= decided
        {
            *forced = None;
        }
    }

    /// This replica leads, or none does. Returns whether that is new for the other stages.
    pub(super) fn announce(&mut self, leader: Option<ReplicaId>) -> bool {
        let news = leader != self.announced.1 || (leader.is_some() && self.view != self.announced.0);
        if news {
            self.announced = (self.view, leader);
        }
        news
    }

    /// Restores the view from a record of an earlier life.
    pub(super) fn restore(&mut self, view: View, certificate: Signed) {
        (self.view, self.certificate) = (view, certificate);
    }
}
