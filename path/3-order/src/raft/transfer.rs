//! A leader hands its office on. docs/protocols/raft.md L61-L65.
//!
//! It stops proposing, waits until the target has everything, and asks it to start an election at once, which skips the
//! pre-vote and the others' loyalty. Where the host names no target it is by chance one of those who have all that is committed: always the
//! same one might be one that can not lead either, and hand over to this one again, and so on for ever. Whatever goes wrong, after the longest election time-out it proposes again.
//!
//! Tests: tests/transfer.rs.

use super::{Raft, Role, reject, send};
use crate::Effects;
use crate::raft::message::RaftMessage;
use quorate_types::{Reject, ReplicaId, Time, View};

/// A transfer under way.
#[derive(Debug)]
pub(super) struct Transfer {
    target: ReplicaId,
    pub(super) due: Time,
    /// The target was asked.
    asked: bool,
}

impl Raft {
    /// [raft L61]
    pub(super) fn on_transfer(&mut self, target: Option<ReplicaId>, out: &mut Effects) {
        let members = self.membership().clone();
        let Role::Leader(lead) = &mut self.role else { return };
        if lead.transfer.is_some() {
            return;
        }
        // Who does not vote stands for no election.
        let mut voters = lead.peers.iter().filter(|peer| members.is_voter(peer.id));
        let alive = |heard: Time| self.life.now.since(heard) < self.config.election_max;
        let chosen = match target {
            Some(id) => voters.find(|peer| peer.id == id),
            None => {
                let able: Vec<_> = voters.filter(|peer| alive(peer.heard)).collect();
                let complete: Vec<_> = able.iter().filter(|peer| peer.matched >= self.commit).collect();
                match complete.len() as u64 {
                    0 => able.into_iter().max_by_key(|peer| peer.matched),
                    many => Some(*complete[self.timer.draw(many) as usize]),
                }
            }
        };
        let Some(chosen) = chosen else { return };
        let due = self.life.now.plus(self.config.election_max);
        // The lease ends with this. [raft L136]
        lead.transfer = Some(Transfer { target: chosen.id, due, asked: false });
        self.advance_transfer(out);
    }

    /// Asks the target as soon as it has everything. [raft L62]
    pub(super) fn advance_transfer(&mut self, out: &mut Effects) {
        let Role::Leader(lead) = &mut self.role else { return };
        let Some(transfer) = lead.transfer.as_mut().filter(|transfer| !transfer.asked) else { return };
        let target = lead.peers.iter().find(|peer| peer.id == transfer.target);
        if target.is_some_and(|peer| peer.matched == self.log.last().index) {
            transfer.asked = true;
            lead.lease.offered = true;
            send(out, transfer.target, RaftMessage::TimeoutNow { view: self.term.view() }, None);
        }
    }

    /// The question may have been lost: every heartbeat repeats it.
    pub(super) fn repeat_transfer(&mut self, out: &mut Effects) {
        if let Role::Leader(lead) = &mut self.role
            && let Some(transfer) = &mut lead.transfer
        {
            transfer.asked = false;
        }
        self.advance_transfer(out);
    }

    /// [raft L63]
    pub(super) fn expire_transfer(&mut self) {
        if let Role::Leader(lead) = &mut self.role
            && lead.transfer.as_ref().is_some_and(|transfer| self.life.now >= transfer.due)
        {
            lead.transfer = None;
        }
    }

    /// [raft L64-L65]
    pub(super) fn on_timeout_now(&mut self, from: ReplicaId, view: View, out: &mut Effects) {
        if view != self.term.view() || !matches!(self.role, Role::Follower) || !self.may_stand() {
            return;
        }
        if self.term.is_led_by_another(from) {
            return reject(out, from, Reject::NotAllowed("raft: only the leader hands on its office"));
        }
        self.become_candidate(true, out);
    }
}
