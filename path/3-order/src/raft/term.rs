//! The view, the one vote in it, and its leader. docs/protocols/raft.md L2-L5, L37-L38.
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
    /// The leader, if it is known.
    leader: Option<ReplicaId>,
    /// The replica that was seen leading in this view. It is never replaced within the view.
    led_by: Option<ReplicaId>,
    /// The content of the last [`Effect::LeaderChanged`].
    announced: (View, Option<ReplicaId>),
}

impl Term {
    pub(super) fn view(&self) -> View {
        self.view
    }
    pub(super) fn voted(&self) -> Option<ReplicaId> {
        self.voted
    }
    /// The record that holds the view and the vote.
    pub(super) fn record(&self) -> RecordId {
        self.record
    }
    /// The leader, if it is known.
    pub(super) fn leader(&self) -> Option<ReplicaId> {
        self.leader
    }

    /// Enters a higher view, or casts the one vote in the present view. The caller writes it down. [raft L2-L4]
    pub(super) fn cast(&mut self, view: View, voted: Option<ReplicaId>) {
        let entered = view > self.view;
        assert!(entered || (view == self.view && self.voted.is_none()), "INV-RAFT-1: one vote in a view");
        if entered {
            self.led_by = None;
        }
        (self.view, self.voted) = (view, voted);
    }
    /// The view and the vote were written down in this record.
    pub(super) fn written(&mut self, record: RecordId) {
        self.record = record;
    }
    /// Restores the view and the vote from a record of an earlier life.
    pub(super) fn restore(&mut self, view: View, voted: Option<ReplicaId>, record: RecordId) {
        (self.view, self.voted, self.record) = (view, voted, record);
    }
    /// The start.
    pub(super) fn begin(&mut self) {
        self.voted = self.voted.filter(|_| !planted("vote-lost-at-restart"));
    }

    /// Whether a vote in this view would not contradict any message that this replica has sent. [raft L21]
    pub(super) fn is_free(&self, view: View) -> bool {
        view > self.view || (self.voted.is_none() && self.led_by.is_none())
    }
    /// Whether another replica than this was seen leading in this view.
    pub(super) fn is_led_by_another(&self, than: ReplicaId) -> bool {
        self.led_by.is_some_and(|leader| leader != than)
    }
    /// Whether no replica was seen leading in this view.
    pub(super) fn is_led_by_nobody(&self) -> bool {
        self.led_by.is_none()
    }
    /// This replica was seen leading in this view.
    pub(super) fn see_leading(&mut self, leader: ReplicaId) {
        self.led_by = Some(leader);
    }

    /// A replica leads from now on, or none. Returns whether questions to the leader before are obsolete.
    pub(super) fn set_leader(&mut self, leader: Option<ReplicaId>) -> bool {
        let other = self.leader != leader || self.announced.0 != self.view;
        self.leader = leader;
        other
    }

    /// Tells the other stages who leads, if that changed.
    pub(super) fn announce(&mut self) -> Option<Effect> {
        let news =
            self.leader != self.announced.1 || (self.leader.is_some() && self.view != self.announced.0);
        news.then(|| {
            self.announced = (self.view, self.leader);
            Effect::LeaderChanged { view: self.view, leader: self.leader, planned: false }
        })
    }

    /// Panics when the fields contradict each other.
    pub(super) fn check(&self) {
        let fits = self.leader.is_none() || self.led_by == self.leader;
        assert!(fits, "INV-RAFT-2: a view has one leader");
    }
}
