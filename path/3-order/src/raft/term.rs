//! The view, the one vote in it, and who leads. docs/protocols/raft.md L2-L5, L37-L38.
//!
//! INV-RAFT-1, INV-RAFT-2. Tests: tests/term.rs, tests/election.rs, tests/restart.rs.

use crate::Effect;
use quorate_types::{RecordId, ReplicaId, View, planted};

/// What a replica knows of the view that it is in.
#[derive(Debug, Default)]
pub(super) struct Term {
    /// The view and the vote in it, as in the record `record`.
    view: View,
    voted: Option<ReplicaId>,
    record: RecordId,
    /// Who leads, as far as known.
    leader: Option<ReplicaId>,
    /// Who was seen leading in this view; never replaced within the view.
    led_by: Option<ReplicaId>,
    /// What [`Effect::LeaderChanged`] said last.
    announced: (View, Option<ReplicaId>),
}

impl Term {
    pub(super) fn view(&self) -> View {
        self.view
    }
    pub(super) fn voted(&self) -> Option<ReplicaId> {
        self.voted
    }
    /// The record that says so.
    pub(super) fn record(&self) -> RecordId {
        self.record
    }
    /// Who leads, as far as known.
    pub(super) fn leader(&self) -> Option<ReplicaId> {
        self.leader
    }

    /// Enters a higher view, or casts the one vote in the present one. It is to be written down. [raft L2-L4]
    pub(super) fn cast(&mut self, view: View, voted: Option<ReplicaId>) {
        let entered = view > self.view;
        assert!(entered || (view == self.view && self.voted.is_none()), "INV-RAFT-1: one vote in a view");
        if entered {
            self.led_by = None;
        }
        (self.view, self.voted) = (view, voted);
    }
    /// It is written down in this record.
    pub(super) fn written(&mut self, record: RecordId) {
        self.record = record;
    }
    /// A record of an earlier life says this.
    pub(super) fn restore(&mut self, view: View, voted: Option<ReplicaId>, record: RecordId) {
        (self.view, self.voted, self.record) = (view, voted, record);
    }
    /// A life begins.
    pub(super) fn begin(&mut self) {
        self.voted = self.voted.filter(|_| !planted("vote-lost-at-restart"));
    }

    /// Whether a vote in this view would be the first that anybody hears of from here. [raft L21]
    pub(super) fn is_free(&self, view: View) -> bool {
        view > self.view || (self.voted.is_none() && self.led_by.is_none())
    }
    /// Whether somebody else than this one was seen leading in this view.
    pub(super) fn is_led_by_another(&self, than: ReplicaId) -> bool {
        self.led_by.is_some_and(|leader| leader != than)
    }
    /// Whether nobody was.
    pub(super) fn is_led_by_nobody(&self) -> bool {
        self.led_by.is_none()
    }
    /// This one leads in this view, as was seen.
    pub(super) fn see_leading(&mut self, leader: ReplicaId) {
        self.led_by = Some(leader);
    }

    /// Somebody leads from here on, or nobody. Whether what was asked of the leader before is of no use any more.
    pub(super) fn set_leader(&mut self, leader: Option<ReplicaId>) -> bool {
        let other = self.leader != leader || self.announced.0 != self.view;
        self.leader = leader;
        other
    }

    /// Who leads, if that is news for the other stages.
    pub(super) fn announce(&mut self) -> Option<Effect> {
        let news =
            self.leader != self.announced.1 || (self.leader.is_some() && self.view != self.announced.0);
        news.then(|| {
            self.announced = (self.view, self.leader);
            Effect::LeaderChanged { view: self.view, leader: self.leader, rotated: false }
        })
    }

    /// Panics where it contradicts itself.
    pub(super) fn check(&self) {
        let fits = self.leader.is_none() || self.led_by == self.leader;
        assert!(fits, "INV-RAFT-2: a view has one leader");
    }
}
