//! Reads: strong ones wait until a leader confirmed a place in the global log and this replica executed it; weak ones are answered at once.

use super::Engine;
use crate::effects::Effects;
use crate::gate::Permissions;
use bytes::Bytes;
use quorate_merge::ReadEnd;
use quorate_reply::Asked;
use quorate_types::{ConnId, InstanceId, Time};
use quorate_wire::{FrameKind, OutFrame, ReadRequest, ReadStatus};

impl Engine {
    /// `owner`: whose connection it is.
    fn read(&mut self, now: Time, (conn, owner): (ConnId, u64), read: &ReadRequest<'_>) {
        match self.reads.ask(now, self.execution.state().seq(), conn, read) {
            Asked::Now => {
                self.counts.reads += 1;
                self.answers.run(now, self.execution.state(), (conn, owner), read.read, read.query);
            }
            Asked::Waits => {}
            Asked::Overloaded => self.refuse_read(conn, read.read, ReadStatus::Overloaded),
        }
    }

    /// A client reads. It is refused where the state is not `sound`, since then another replica answers, and where the client has no right
    /// to it.
    pub(crate) fn asked(
        &mut self,
        now: Time,
        (conn, owner): (ConnId, u64),
        read: &ReadRequest<'_>,
        (sound, limits): (bool, Option<&Permissions>),
    ) {
        if !sound {
            self.refuse_read(conn, read.read, ReadStatus::NoLeader);
        } else if limits.is_some_and(|limits| !limits.may_ask(self.execution.state(), read.query)) {
            self.refuse_read(conn, read.read, ReadStatus::Forbidden);
        } else {
            self.read(now, (conn, owner), read);
        }
    }

    /// A read is not answered here.
    fn refuse_read(&mut self, conn: ConnId, read: u64, why: ReadStatus) {
        self.answers.fail(self.execution.state(), conn, read, why);
    }

    /// The strong reads that wait for a leader to be asked, as one group.
    pub(crate) fn take_reads(&mut self) -> Option<u64> {
        self.reads.take_group()
    }

    /// Through which instance a leader is asked for a group; the first one if it does not matter.
    pub(crate) fn read_through(&self, has_leader: impl Fn(InstanceId) -> bool) -> Option<InstanceId> {
        // Where each replica says for itself how far it accepted, all have to speak of the same instance.
        if self.may_lie { None } else { self.merge.read_through(has_leader) }
    }

    /// What leaders confirmed is known: reads may run, or another leader is asked. Gives the groups of those.
    pub(crate) fn confirm_reads(&mut self) -> Vec<u64> {
        let mut again = Vec::new();
        if !self.merge.has_reads() {
            return again;
        }
        // Those whose clients were told that nobody answered, or went away, wait for nothing. Their place is behind what was delivered: it may not be
        // executed yet.
        let (reads, seq) = (&mut self.reads, self.execution.agreed().seq());
        self.merge.retain_reads(|group| reads.waits(group));
        self.merge.reads(|group, end| match end {
            ReadEnd::Ready => reads.confirmed(group, seq),
            ReadEnd::AskAnother => again.push(group),
        });
        again
    }

    /// Answers what may be answered. `owner`: whose connection it is now.
    pub(crate) fn run_reads(&mut self, now: Time, owner: impl Fn(ConnId) -> u64) {
        if self.reads.is_empty() && !self.answers.has_put_off() {
            return;
        }
        let (executor, answers, counts) = (self.execution.state(), &mut self.answers, &mut self.counts);
        self.reads.ready(executor.seq(), |read| {
            counts.reads += 1;
            let conn = read.key.conn;
            answers.run(now, executor, (conn, owner(conn)), read.key.read, read.query);
        });
        answers.run_put_off(now, executor, owner);
    }

    pub(super) fn fail_reads(&mut self, group: u64) {
        let (executor, answers) = (self.execution.state(), &mut self.answers);
        self.reads.failed(group, |key| answers.fail(executor, key.conn, key.read, ReadStatus::NoLeader));
    }

    /// Who waited for too long is told that nobody leads.
    pub(crate) fn expire_reads(&mut self, now: Time) {
        let (executor, answers) = (self.execution.state(), &mut self.answers);
        self.reads.expire(now, |key| answers.fail(executor, key.conn, key.read, ReadStatus::NoLeader));
    }

    /// When to call [`Self::expire_reads`].
    pub(crate) fn reads_deadline(&self) -> Option<Time> {
        self.reads.deadline()
    }

    /// When there is to be another turn for reads that were put off.
    pub(crate) fn put_off_deadline(&self) -> Option<Time> {
        self.answers.deadline()
    }

    /// Whether reads wait for the next turn: whoever sends many is not read then, where others wait behind it.
    pub(crate) fn has_put_off(&self) -> bool {
        self.answers.has_put_off()
    }

    /// Reads that wait, and the bytes of those that wait for a leader.
    pub(crate) fn waiting_reads(&self) -> (usize, usize) {
        (self.reads.len() + self.answers.waiting(), self.reads.byte_len())
    }

    pub(super) fn send_answers(&mut self, out: &mut Effects) {
        if self.answers.is_empty() {
            return;
        }
        for (conn, body) in self.answers.drain() {
            out.send(conn, OutFrame::new(FrameKind::ReadReplies, &[], vec![Bytes::from(body)]));
        }
    }

    /// The next turn has room for answers again.
    pub(crate) fn end_turn(&mut self) {
        self.answers.end_turn();
    }
}
