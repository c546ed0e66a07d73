//! Strong reads at a replica that does not lead. docs/protocols/raft.md L72-L76.
//!
//! The replica asks the leader one question at a time, for all reads that wait. The reads fail when the leader changes or no answer comes.
//! `leading/reads` has the reads at a leader.
//!
//! Tests: tests/asking.rs, tests/reads.rs.

use super::send;
use super::store::Store;
use crate::raft::message::RaftMessage;
use crate::{Effect, Effects};
use quorate_types::{ReplicaId, Slot, Span, Time, View};

/// Reads that wait for an answer of the leader.
#[derive(Debug)]
pub(super) struct Asking {
    me: ReplicaId,
    /// How long a read waits for a leader, and for its answer.
    patience: Span,
    /// The number of the last question, by which a late answer is recognized.
    number: u64,
    asked: Vec<u64>,
    asked_due: Option<Time>,
    waiting: Vec<u64>,
    waiting_due: Option<Time>,
}

fn fail(reads: &mut Vec<u64>, out: &mut Effects) {
    for read in reads.drain(..) {
        out.push(Effect::ReadFailed { read });
    }
}

impl Asking {
    /// With no reads. `patience`: how long a read waits for a leader, and for its answer.
    pub(super) fn new(me: ReplicaId, patience: Span) -> Self {
        let (asked, waiting) = (Vec::new(), Vec::new());
        Self { me, patience, number: 0, asked, asked_due: None, waiting, waiting_due: None }
    }

    /// Numbers questions from `number` on.
    pub(super) fn begin(&mut self, number: u64) {
        self.number = number;
    }
    pub(super) fn deadline(&self) -> Option<Time> {
        [self.asked_due, self.waiting_due].into_iter().flatten().min()
    }

    /// [raft L72]
    pub(super) fn read(&mut self, read: u64, now: Time, store: &Store, out: &mut Effects) {
        self.waiting.push(read);
        self.waiting_due.get_or_insert(now.plus(self.patience));
        self.ask(now, store, out);
    }

    /// Sends one question for all reads that wait, if a leader is known and no question is open. [raft L73]
    pub(super) fn ask(&mut self, now: Time, store: &Store, out: &mut Effects) {
        if self.waiting.is_empty() || self.asked_due.is_some() {
            return;
        }
        let Some(leader) = store.term().leader().filter(|leader| *leader != self.me) else { return };
        std::mem::swap(&mut self.asked, &mut self.waiting);
        self.asked_due = Some(now.plus(self.patience));
        self.waiting_due = None;
        self.number = self.number.wrapping_add(1);
        let message = RaftMessage::ReadIndex { view: store.view(), read: self.number };
        send(out, leader, message, store.view_pending());
    }

    /// This replica became the leader and takes over the reads that waited for one.
    pub(super) fn take_waiting(&mut self) -> Vec<u64> {
        self.waiting_due = None;
        std::mem::take(&mut self.waiting)
    }

    /// The leader that was asked does not lead any more, so the reads fail. [raft L75]
    pub(super) fn fail_asked(&mut self, out: &mut Effects) {
        self.asked_due = None;
        fail(&mut self.asked, out);
    }

    /// [raft L76]
    pub(super) fn expire(&mut self, now: Time, store: &Store, out: &mut Effects) {
        if self.asked_due.is_some_and(|due| now >= due) {
            self.fail_asked(out);
            self.ask(now, store, out);
        }
        if self.waiting_due.is_some_and(|due| now >= due) {
            self.waiting_due = None;
            fail(&mut self.waiting, out);
        }
    }

    /// The leader answered a question. [raft L74]
    pub(super) fn on_reply(
        &mut self,
        (from, view, read, slot): (ReplicaId, View, u64, Option<u64>),
        now: Time,
        store: &Store,
        out: &mut Effects,
    ) {
        let open = self.asked_due.is_some() && self.number == read && store.term().leader() == Some(from);
        if !open {
            return;
        }
        match slot {
            Some(slot) if view == store.view() => {
                self.asked_due = None;
                for read in self.asked.drain(..) {
                    out.push(Effect::ReadConfirmed { read, slot: Slot::new(slot) });
                }
            }
            Some(_) => return,
            None => self.fail_asked(out),
        }
        self.ask(now, store, out);
    }
}
