//! Leases: a leader that knows that no other replica can be elected yet answers strong reads without asking. docs/protocols/raft.md
//! L127-L138. Leases are an option, since they make reads depend on clocks that run at nearly the same rate.
//!
//! A member that answers a message of its leader promises not to vote within election_min, except for a candidate that the leader itself
//! wants. So after a quorum answered messages that were sent at some moment, no other replica is elected until election_min has passed
//! since that moment, by the slowest clock. The leader counts from the sending, never from the answer, since the promise may be as old as
//! the sending. A replica that restarts does not know what it promised, and promises nothing new for as long.
//!
//! The time at which a lease is checked is read after the read arrived (`Order::step`). So a process that was paused between reading its
//! sockets and its clock does not take an old moment for the present one.
//!
//! Source: Ongaro's dissertation, section 6.4.1 (a lease counts from the sending of heartbeats that a quorum answered, and is given up
//! before a transfer). It does not say what followers must do; here, a promise survives restarts and closed connections.
//!
//! INV-RAFT-21. Tests: tests/leases.rs, tests/chaos.rs.

use crate::raft::RaftConfig;
use quorate_types::{Span, Time, planted};
use std::collections::VecDeque;

/// How finely the moments of rounds are told apart: this many parts of election_min are kept.
const MOMENTS: u64 = 64;

/// What a leader knows of its lease; it ends with the office. [raft L137]
#[derive(Debug, Default)]
pub(super) struct Lease {
    /// When rounds began. A round counts as begun with the last noted round before it.
    rounds: VecDeque<(u64, Time)>,
}

impl RaftConfig {
    /// How long a lease lasts, from the sending of messages that a quorum answered; none where there are no leases. [raft L127]
    pub(super) fn lease(&self) -> Option<Span> {
        let percent = 100 - u64::from(self.lease_drift_percent?.min(100));
        Some(Span::from_nanos(self.election_min.nanos() / 100 * percent))
    }
}

impl Lease {
    /// This round begins now. [raft L131]
    pub(super) fn note_round(&mut self, round: u64, now: Time, config: &RaftConfig) {
        let Some(span) = config.lease() else { return };
        let apart = config.election_min.divided(MOMENTS);
        if self.rounds.back().is_some_and(|(_, began)| began.plus(apart) > now) {
            return;
        }
        // Answers that are too old for a lease are of no use.
        while self.rounds.front().is_some_and(|(_, began)| began.plus(span) <= now) {
            self.rounds.pop_front();
        }
        self.rounds.push_back((round, now));
    }

    /// When this round began, if that is still of use: members that answer it promised something after that moment. [raft L132]
    pub(super) fn began(&self, round: u64, now: Time) -> Option<Time> {
        let begun = self.rounds.iter().rev().find(|(first, _)| *first <= round);
        begun.map(|(_, began)| if planted("lease-from-the-answer") { now } else { *began })
    }
}
