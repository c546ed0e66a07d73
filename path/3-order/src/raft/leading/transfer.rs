//! A leader hands its office on. docs/protocols/raft.md L61-L65.
//!
//! It stops proposing, waits until the target has everything, and asks it to start an election at once, which skips the
//! pre-vote and the others' loyalty. Where the host names no target it is by chance one of those who have all that is committed: always the
//! same one might be one that can not lead either, and hand over to this one again, and so on for ever. Whatever goes wrong, after the longest election time-out it proposes again.
//!
//! Tests: tests/leading.rs, tests/transfer.rs.

use super::progress::Progress;
use super::{Leading, Scene};
use crate::raft::message::{Index, RaftMessage};
use crate::raft::send;
use quorate_types::{MembershipId, ReplicaId, Time};

/// A transfer under way.
#[derive(Debug)]
struct Transfer {
    target: ReplicaId,
    due: Time,
    /// The target was asked.
    asked: bool,
}

/// How a leader hands over.
#[derive(Debug, Default)]
pub(super) struct Handover {
    under_way: Option<Transfer>,
    /// Somebody was asked to take over in this view. The question may arrive at any time, and then nobody waits for a promise.
    offered: bool,
    /// The change before which it tried to.
    tried_for: MembershipId,
}

/// To whom a leader may hand over if the host names nobody.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::raft) enum Heirs {
    /// To any of those, who have all that is committed.
    Any(Vec<ReplicaId>),
    /// Nobody has: to the one that has most, if one was heard lately.
    Most(Option<ReplicaId>),
}

impl Handover {
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }
    /// When it is given up.
    pub(super) fn due(&self) -> Option<Time> {
        self.under_way.as_ref().map(|transfer| transfer.due)
    }
    /// Somebody may be elected whom no promise keeps from it. [raft L136]
    pub(super) fn ends_lease(&self) -> bool {
        self.under_way.is_some() || self.offered
    }

    /// Whether it is tried for the first time before this change.
    pub(super) fn tries_for(&mut self, change: MembershipId) -> bool {
        std::mem::replace(&mut self.tried_for, change) != change
    }

    fn begin(&mut self, target: ReplicaId, due: Time) {
        self.under_way = Some(Transfer { target, due, asked: false });
    }

    /// Who is asked now to take over: the target, as soon as it has everything up to `last`, once. [raft L62]
    fn ask(&mut self, peers: &[Progress], last: Index) -> Option<ReplicaId> {
        let transfer = self.under_way.as_mut().filter(|transfer| !transfer.asked)?;
        let target = peers.iter().find(|peer| peer.id == transfer.target)?;
        transfer.asked = target.matched == last;
        self.offered |= transfer.asked;
        transfer.asked.then_some(transfer.target)
    }

    /// The question may have been lost: every heartbeat repeats it.
    fn repeat(&mut self) {
        if let Some(transfer) = &mut self.under_way {
            transfer.asked = false;
        }
    }

    /// [raft L63]
    pub(super) fn expire(&mut self, now: Time) {
        self.under_way.take_if(|transfer| now >= transfer.due);
    }
}

/// Hands over, and says who may take over.
impl Leading {
    /// Whom it may hand over to, if the host names nobody. [raft L61]
    pub(in crate::raft) fn heirs(&self, scene: &Scene<'_>) -> Heirs {
        let alive = |peer: &&Progress| scene.now.since(peer.heard) < scene.config.election_max;
        let voters = self.peers.iter().filter(|peer| scene.store.is_voter(peer.id));
        let able: Vec<_> = voters.filter(alive).collect();
        let complete = able.iter().filter(|peer| peer.matched >= scene.store.commit());
        let complete: Vec<_> = complete.map(|peer| peer.id).collect();
        if complete.is_empty() {
            Heirs::Most(able.into_iter().max_by_key(|peer| peer.matched).map(|peer| peer.id))
        } else {
            Heirs::Any(complete)
        }
    }

    /// Hands over to this one, if it votes: who does not stands for no election. [raft L61]
    pub(in crate::raft) fn hand_over(&mut self, target: ReplicaId, scene: &mut Scene<'_>) {
        let known = self.peers.iter().any(|peer| peer.id == target) && scene.store.is_voter(target);
        if self.handover.is_under_way() || !known {
            return;
        }
        // The lease ends with this. [raft L136]
        self.handover.begin(target, scene.now.plus(scene.config.election_max));
        self.advance_transfer(scene);
    }

    /// Asks the target as soon as it has everything. [raft L62]
    pub(super) fn advance_transfer(&mut self, scene: &mut Scene<'_>) {
        if !self.handover.is_under_way() {
            return;
        }
        if let Some(target) = self.handover.ask(&self.peers, scene.store.log().last().index) {
            send(scene.out, target, RaftMessage::TimeoutNow { view: scene.store.view() }, None);
        }
    }

    /// The question may have been lost: every heartbeat repeats it.
    pub(super) fn repeat_transfer(&mut self, scene: &mut Scene<'_>) {
        self.handover.repeat();
        self.advance_transfer(scene);
    }
}
