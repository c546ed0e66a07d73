//! Leases: a leader that knows that nobody else can be elected yet answers strong reads without asking. docs/protocols/raft.md
//! L127-L138. An option, since it makes reads depend on clocks that run at nearly the same rate.
//!
//! Whoever answers a message of its leader promises with that not to vote within election_min, except for whom the leader itself
//! wants. So after a quorum answered what was sent at a moment, nobody is elected before election_min has passed since that moment,
//! by the slowest clock. The leader counts from the sending, never from the answer: the promise may be as old as that. A replica that
//! restarts does not know what it promised, and holds still for as long.
//!
//! The time at which a lease is looked at is read after the read arrived (`Order::step`): a process that was paused between
//! reading its clock and reading its sockets does not take an old moment for the present one.
//!
//! Source: Ongaro's dissertation, section 6.4.1 (from the sending of heartbeats that a quorum answered; given up before a transfer).
//! What followers have to do for it is spelled out here: a promise holds through restarts and closed connections.
//!
//! INV-RAFT-21. Tests: tests/leases.rs, tests/chaos.rs.

use super::{Raft, RaftConfig, Role};
use quorate_types::{ReplicaId, Span, Time, View, planted};
use std::collections::VecDeque;

/// The moments of rounds are told apart this finely, in parts of election_min: so many are kept.
const MOMENTS: u64 = 64;

/// What a leader knows of its lease; it ends with the office. [raft L137]
#[derive(Debug, Default)]
pub(super) struct Lease {
    /// When rounds began: a round counts as begun with the last one noted before it.
    rounds: VecDeque<(u64, Time)>,
    /// Somebody was asked to take over in this view. The question may arrive at any time, and then nobody waits for a promise.
    pub(super) offered: bool,
}

impl RaftConfig {
    /// How long a lease lasts from the sending of what a quorum answered; none where there are no leases. [raft L127]
    fn lease(&self) -> Option<Span> {
        let percent = 100 - u64::from(self.lease_drift_percent?.min(100));
        Some(Span::from_nanos(self.election_min.nanos() / 100 * percent))
    }
}

impl Raft {
    /// An earlier life may have promised something. One that never entered a view promised nothing. [raft L130]
    pub(super) fn promise_again(&mut self) {
        if self.term.view() > View::ZERO && !planted("restarted-votes-early") {
            self.timer.promise(self.life.now);
        }
    }

    /// A round begins now. [raft L131]
    pub(super) fn note_round(&mut self) {
        let Some(span) = self.config.lease() else { return };
        let Role::Leader(lead) = &mut self.role else { return };
        let rounds = &mut lead.lease.rounds;
        let apart = self.config.election_min.divided(MOMENTS);
        if rounds.back().is_some_and(|(_, began)| began.plus(apart) > self.life.now) {
            return;
        }
        // What is too old for a lease is of no use.
        while rounds.front().is_some_and(|(_, began)| began.plus(span) <= self.life.now) {
            rounds.pop_front();
        }
        rounds.push_back((lead.round, self.life.now));
    }

    /// Every heartbeat is a round of its own where there are leases. [raft L131]
    pub(super) fn begin_heartbeat_round(&mut self) {
        if self.config.lease_drift_percent.is_some()
            && let Role::Leader(lead) = &mut self.role
        {
            lead.round += 1;
            self.note_round();
        }
    }

    /// This replica answered a round, and so promised something after the round began. [raft L132]
    pub(super) fn note_promise(&mut self, from: ReplicaId, round: u64) {
        let Role::Leader(lead) = &mut self.role else { return };
        let begun = lead.lease.rounds.iter().rev().find(|(first, _)| *first <= round);
        let sent =
            begun.map(|(_, began)| if planted("lease-from-the-answer") { self.life.now } else { *began });
        if let Some(peer) = lead.peers.iter_mut().find(|peer| peer.id == from) {
            peer.promised_after = peer.promised_after.max(sent);
        }
    }

    /// Whether nobody else can have been elected by now. [raft L133-L135]
    pub(super) fn holds_lease(&self) -> bool {
        let Some(span) = self.config.lease() else { return false };
        let Role::Leader(lead) = &self.role else { return false };
        let me = self.config.me;
        let handing_over = lead.transfer.is_some() || lead.lease.offered;
        if self.commit < lead.start
            || (handing_over && !planted("lease-kept-over-a-transfer"))
            || !self.is_voter(me)
        {
            return false;
        }
        let lasts = |sent: Time| self.life.now < sent.plus(span);
        let promised =
            |id| lead.peers.iter().any(|peer| peer.id == id && peer.promised_after.is_some_and(lasts));
        self.has_quorum(|id| id == me || promised(id))
    }
}
