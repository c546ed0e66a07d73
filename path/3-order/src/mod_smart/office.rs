//! The view, what made it, and what binds it.
//!
//! INV-SMART-7: views only grow. Tests: tests/parts.rs, tests/stops.rs.

use quorate_auth::Signed;
use quorate_types::{Digest, RecordId, ReplicaId, Slot, View};
use quorate_wire::Batch;

/// Whether votes are cast.
#[derive(Debug, Default)]
pub(super) enum Phase {
    /// The view is entered, and what binds it is not known.
    #[default]
    Syncing,
    /// Its first slot is known; if a value binds that, it is here until it is decided.
    /// `settled`: everything that may have been decided before lies up to there.
    Normal { base: Slot, forced: Option<(Digest, Batch)>, settled: Slot },
}

impl Phase {
    /// A view begins of which everybody knows that nothing was voted on before, or whoever is in it need not know.
    pub(super) fn free_after(slot: Slot) -> Self {
        Self::Normal { base: slot.next(), forced: None, settled: slot }
    }
}

/// The view, what made it, and what binds it.
#[derive(Debug, Default)]
pub(super) struct Office {
    view: View,
    /// The STOPs that made the view.
    certificate: Signed,
    /// The record that says in which view this replica is.
    record: RecordId,
    /// It led this view and does not any more: in an earlier life, of which it does not know what it proposed, or because it reached
    /// nobody.
    barred: bool,
    phase: Phase,
    /// What [`crate::Effect::LeaderChanged`] said last.
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
    /// Who leads, as the other stages were told.
    pub(super) fn announced(&self) -> Option<ReplicaId> {
        self.announced.1
    }

    /// A later view is entered.
    pub(super) fn enter(&mut self, view: View, certificate: Signed, phase: Phase) {
        assert!(view > self.view, "INV-SMART-7: views only grow, from {} to {view}", self.view);
        (self.view, self.certificate, self.barred, self.phase) = (view, certificate, false, phase);
    }

    /// This record says so.
    pub(super) fn written(&mut self, record: RecordId) {
        self.record = record;
    }

    /// What binds the view is known now, or is still to be found.
    pub(super) fn begin(&mut self, phase: Phase) {
        self.phase = phase;
    }

    /// Whoever leads it is this replica, and does not any more.
    pub(super) fn bar(&mut self) {
        self.barred = true;
    }

    /// Everything up to this slot is decided: what bound that binds nothing more.
    pub(super) fn release(&mut self, decided: Slot) {
        if let Phase::Normal { base, forced, .. } = &mut self.phase
            && *base <= decided
        {
            *forced = None;
        }
    }

    /// A checkpoint holds what bound the view.
    pub(super) fn release_all(&mut self) {
        if let Phase::Normal { forced, .. } = &mut self.phase {
            *forced = None;
        }
    }

    /// This one leads, or nobody. Whether that is news for the other stages.
    pub(super) fn announce(&mut self, leader: Option<ReplicaId>) -> bool {
        let news = leader != self.announced.1 || (leader.is_some() && self.view != self.announced.0);
        if news {
            self.announced = (self.view, leader);
        }
        news
    }

    /// A record of an earlier life says this.
    pub(super) fn restore(&mut self, view: View, certificate: Signed) {
        (self.view, self.certificate) = (view, certificate);
    }
}
