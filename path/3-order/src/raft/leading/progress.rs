//! What a leader knows of one follower: how far it got, and how fast entries may be sent to it.
//!
//! A follower is probed (one message, then wait) until it accepts a position. Then entries are sent ahead of the answers, up to a window. A
//! rejection or a new connection leads back to probing.

use crate::ledger::Question;
use crate::raft::log::EntryLog;
use crate::raft::message::Index;
use quorate_types::{ReplicaId, Span, Time, planted};

/// How entries are sent to a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::raft) enum Flow {
    /// It is not known where the follower's log differs from the leader's, so one message is sent at a time.
    Probe {
        /// The one message was sent; heartbeats repeat its question.
        sent: bool,
    },
    /// It accepted a position; entries are sent as they come.
    Stream,
    /// It lacks entries before `next` that can not be sent any more: heartbeats tell it to fetch a checkpoint.
    Checkpoint,
}

/// One follower, as its leader sees it.
#[derive(Debug)]
pub(in crate::raft) struct Progress {
    pub(in crate::raft) id: ReplicaId,
    /// Up to here its log is equal to the leader's, and durable.
    pub(in crate::raft) matched: Index,
    /// The leader's round when that became known. A question of a later round was asked after it.
    matched_round: u64,
    /// The next entry to send.
    pub(in crate::raft) next: Index,
    pub(in crate::raft) flow: Flow,
    /// When a message of this view last arrived from it.
    pub(in crate::raft) heard: Time,
    /// The last round of heartbeats that it answered.
    pub(in crate::raft) round: u64,
    /// The latest known moment after which it promised not to vote.
    pub(in crate::raft) promised_after: Option<Time>,
    /// The commit index that it was told, as far as its log reaches.
    pub(in crate::raft) commit_sent: Index,
    /// Old entries that are being read from disk for it.
    pub(in crate::raft) load: Option<Question>,
    /// Whether it got, within an election time-out, everything that there was at the beginning of its last round of catching up.
    pub(in crate::raft) caught_up: bool,
    /// Where the present round of catching up ends, and when it began.
    round_end: Index,
    round_began: Time,
    matched_bytes: u64,
    sent_bytes: u64,
}

impl Progress {
    pub(in crate::raft) fn new(id: ReplicaId, next: Index, now: Time) -> Self {
        Self {
            id,
            matched: Index::ZERO,
            matched_round: 0,
            next,
            flow: Flow::Probe { sent: false },
            heard: now,
            round: 0,
            promised_after: None,
            commit_sent: Index::ZERO,
            load: None,
            caught_up: false,
            round_end: next,
            round_began: now,
            matched_bytes: 0,
            sent_bytes: 0,
        }
    }

    /// About how many bytes were sent and not acknowledged. Exactly 0 when everything was acknowledged: entries that left memory are only
    /// estimated, and no later answer would correct the estimate.
    pub(in crate::raft) fn in_flight(&self) -> u64 {
        let none = self.next <= self.matched.next() && !planted("window-by-estimate");
        if none { 0 } else { self.sent_bytes.saturating_sub(self.matched_bytes) }
    }

    /// How many of the log's `all` bytes it has not acknowledged.
    pub(in crate::raft) fn lag(&self, all: u64) -> u64 {
        all.saturating_sub(self.matched_bytes)
    }

    /// Everything before `next` was sent.
    pub(in crate::raft) fn set_next(&mut self, next: Index, log: &EntryLog) {
        self.next = next;
        self.sent_bytes = log.bytes_at(next.previous());
    }

    /// It accepted a position and is durable up to `matched`; `round` is the leader's round. [raft L57, L91]
    pub(in crate::raft) fn accept(&mut self, matched: Index, round: u64, log: &EntryLog) {
        if matched > self.matched {
            (self.matched, self.matched_round) = (matched, round);
            self.matched_bytes = log.bytes_at(matched);
        }
        if self.flow == Flow::Checkpoint && matched.next() < self.next {
            return;
        }
        self.flow = Flow::Stream;
        if self.next <= self.matched {
            self.set_next(self.matched.next(), log);
        }
    }

    /// Catching up goes in rounds. A round lasts until the follower has everything that there was at the round's beginning. A round that is
    /// short enough shows that the follower can keep up. [raft L124]
    pub(in crate::raft) fn catch_up(&mut self, log: &EntryLog, now: Time, short: Span) {
        if self.matched >= self.round_end || self.matched == log.last().index {
            self.caught_up = now.since(self.round_began) < short || self.matched == log.last().index;
            (self.round_end, self.round_began) = (log.last().index, now);
        } else if now.since(self.round_began) >= short {
            self.caught_up = false;
        }
    }

    /// Its log ends before the position `asked`, or differs there. The leader looks after `found` next; none when that lies before the
    /// log's floor.
    pub(in crate::raft) fn reject(&mut self, asked: Index, found: Option<Index>, log: &EntryLog) {
        let stale = match self.flow {
            Flow::Probe { .. } => asked != self.next.previous(),
            Flow::Stream => asked <= self.matched,
            // It says so with every heartbeat.
            Flow::Checkpoint => true,
        };
        if stale || asked <= self.matched {
            return;
        }
        // An old rejection may arrive after an answer to what came later.
        let floor = log.floor().index;
        match found.max(Some(self.matched).filter(|matched| *matched >= floor)) {
            Some(found) => {
                self.set_next(found.next(), log);
                self.flow = Flow::Probe { sent: false };
            }
            None => self.fall_behind(floor, log),
        }
    }

    /// Whether it rejects, in this round, an entry that it acknowledged; and if so, whether the question was asked after the
    /// acknowledgement. [raft L150]
    pub(in crate::raft) fn contradicts(&self, asked: Index, round: u64) -> Option<bool> {
        (asked <= self.matched).then_some(round > self.matched_round)
    }

    /// It lost entries that it had acknowledged, and may have the log up to `found`; none when that lies before the log's floor. Returns
    /// how many entries it lost at least. [raft L151]
    pub(in crate::raft) fn lose(&mut self, found: Option<Index>, log: &EntryLog) -> u64 {
        let floor = log.floor().index;
        let lost = self.matched.number() - found.unwrap_or(floor).min(self.matched).number();
        (self.matched, self.matched_bytes, self.caught_up) = (Index::ZERO, 0, false);
        match found {
            Some(found) => {
                self.set_next(found.next(), log);
                (self.flow, self.load) = (Flow::Probe { sent: false }, None);
            }
            None => self.fall_behind(floor, log),
        }
        lost
    }

    /// It needs a checkpoint that reaches `index`. [raft L89]
    pub(in crate::raft) fn fall_behind(&mut self, index: Index, log: &EntryLog) {
        self.flow = Flow::Checkpoint;
        self.load = None;
        self.set_next(index.next(), log);
    }

    /// The log's floor rose, so entries that it still needs may be gone.
    pub(in crate::raft) fn floor_rose(&mut self, log: &EntryLog) {
        let floor = log.floor().index;
        if self.next <= floor {
            self.fall_behind(floor, log);
        }
        self.load = self.load.filter(|question| question.first > floor.number());
    }

    /// What was sent may be lost, so sending begins again after what it acknowledged.
    pub(in crate::raft) fn probe_again(&mut self, log: &EntryLog) {
        if self.flow == Flow::Stream {
            self.set_next(self.matched.max(log.floor().index).next(), log);
        }
        self.flow = Flow::Probe { sent: false };
    }
}
