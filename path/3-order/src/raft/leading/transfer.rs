//! A leader hands over its office. docs/protocols/raft.md L61-L65.
//!
//! It stops proposing, waits until the target has everything, and asks it to start an election at once, without pre-vote and without regard
//! to the present leader. If the host names no target, one is drawn at random among the members that have everything committed. A fixed
//! choice could be a member that can not lead either and hands back, again and again. If the transfer fails, the leader proposes again
//! after the longest election time-out.
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
    /// Whether the target was asked.
    asked: bool,
}

/// How a leader hands over.
#[derive(Debug, Default)]
pub(super) struct Handover {
    under_way: Option<Transfer>,
    /// A member was asked to take over in this view. That message may arrive at any time, and then no voter waits for its promise to end.
    offered: bool,
    /// The last change of membership before which a transfer was tried.
    tried_for: MembershipId,
}

/// To which members a leader may hand over if the host names none.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::raft) enum Heirs {
    /// To any of these, which have everything committed.
    Any(Vec<ReplicaId>),
    /// No member has everything committed: to the most advanced one, if one was heard lately.
    Most(Option<ReplicaId>),
}

impl Handover {
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }
    /// When the transfer is given up.
    pub(super) fn due(&self) -> Option<Time> {
        self.under_way.as_ref().map(|transfer| transfer.due)
    }
    /// Whether another replica may be elected although promises stand against it. [raft L136]
    pub(super) fn ends_lease(&self) -> bool {
        self.under_way.is_some() || self.offered
    }

    /// Whether a transfer is tried for the first time before this change.
    pub(super) fn tries_for(&mut self, change: MembershipId) -> bool {
        std::mem::replace(&mut self.tried_for, change) != change
    }

    fn begin(&mut self, target: ReplicaId, due: Time) {
        self.under_way = Some(Transfer { target, due, asked: false });
    }

    /// The member to ask now: the target, once, as soon as it has everything up to `last`. [raft L62]
    fn ask(&mut self, peers: &[Progress], last: Index) -> Option<ReplicaId> {
        let transfer = self.under_way.as_mut().filter(|transfer| !transfer.asked)?;
        let target = peers.iter().find(|peer| peer.id == transfer.target)?;
        transfer.asked = target.matched == last;
        self.offered |= transfer.asked;
        transfer.asked.then_some(transfer.target)
    }

    /// The message may have been lost, so every heartbeat repeats it.
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

/// Handing over, and the choice of the member to take over.
impl Leading {
    /// To which members it may hand over, if the host names none. [raft L61]
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

    /// Hands over to this member, if it votes; only voters stand for election. [raft L61]
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

    /// The message may have been lost, so every heartbeat repeats it.
    pub(super) fn repeat_transfer(&mut self, scene: &mut Scene<'_>) {
        self.handover.repeat();
        self.advance_transfer(scene);
    }
}
