//! Reads: a strong read waits until a leader has confirmed a place in the global log and this replica has executed up to there; a weak read
//! is answered at once.

use super::Engine;
use crate::effects::Effects;
use crate::gate::Permissions;
use bytes::Bytes;
use quorate_execute::Publisher;
use quorate_merge::ReadEnd;
use quorate_reply::Asked;
use quorate_types::{ConnId, InstanceId, Time};
use quorate_wire::{FrameKind, OutFrame, ReadConsistency, ReadRequest, ReadStatus};

impl Engine {
    /// `owner`: the client on the connection.
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

    /// Takes the reads of a client's frame. Each is refused if the state is not `sound`, since then another replica answers, or if the
    /// client has no right to it.
    pub(crate) fn asked(
        &mut self,
        now: Time,
        from: (ConnId, u64),
        frame: &[u8],
        (sound, limits): (bool, Option<&Permissions>),
    ) {
        let mut reads = ReadRequest::walk(frame).flatten();
        let mut until_next_window = 0;
        loop {
            if until_next_window == 0 {
                until_next_window = self.read_ahead(reads.clone()).max(1);
            }
            until_next_window -= 1;
            let Some(read) = reads.next() else { return };
            if !sound {
                self.refuse_read(from.0, read.read, ReadStatus::NoLeader);
            } else if limits.is_some_and(|limits| !limits.may_ask(self.execution.state(), read.query)) {
                self.refuse_read(from.0, read.read, ReadStatus::Forbidden);
            } else {
                self.read(now, from, &read);
            }
        }
    }

    /// Reads the memory that the next of these reads need, as far as they are answered at once. Gives how many of them it has seen.
    fn read_ahead<'r>(&self, reads: impl Iterator<Item = ReadRequest<'r>>) -> usize {
        let executor = self.execution.state();
        let at_once =
            |read: &ReadRequest<'_>| read.consistency == ReadConsistency::Weak && read.seen <= executor.seq();
        executor.read_ahead(reads.map(|read| if at_once(&read) { read.query } else { &[] }))
    }

    /// Refuses a read.
    fn refuse_read(&mut self, conn: ConnId, read: u64, why: ReadStatus) {
        self.answers.fail(self.execution.state(), conn, read, why);
    }

    /// Groups the strong reads for which a leader must be asked.
    pub(crate) fn take_reads(&mut self) -> Option<u64> {
        self.reads.take_group()
    }

    /// The instance through which a leader is asked for a group of reads; none if it does not matter.
    pub(crate) fn read_through(&self, has_leader: impl Fn(InstanceId) -> bool) -> Option<InstanceId> {
        // Where each replica says by itself how far it has accepted, all of them must speak of the same instance.
        if self.may_lie { None } else { self.merge.read_through(has_leader) }
    }

    /// Takes what leaders confirmed: reads may run, or another leader must be asked. Gives the groups of the latter.
    pub(crate) fn confirm_reads(&mut self) -> Vec<u64> {
        let mut again = Vec::new();
        if !self.merge.has_reads() {
            return again;
        }
        // Expired or abandoned reads wait for nothing. Their place is set behind what was delivered, which may not be executed yet.
        let (reads, seq) = (&mut self.reads, self.execution.agreed().seq());
        self.merge.retain_reads(|group| reads.waits(group));
        self.merge.reads(|group, end| match end {
            ReadEnd::Ready => reads.confirmed(group, seq),
            ReadEnd::AskAnother => again.push(group),
        });
        again
    }

    /// Publishes the final state here from now on, when it is wanted.
    pub(crate) fn publish_to(&mut self, publisher: Box<dyn Publisher>) {
        self.outside.publisher = Some(publisher);
    }

    /// Publishes the final state, before any answer leaves that says how far this replica is.
    fn publish(&mut self) {
        let Some(publisher) = &mut self.outside.publisher else { return };
        let executor = self.execution.state();
        if publisher.wants(executor.seq())
            && let Some(state) = executor.published()
        {
            publisher.publish(state);
        }
    }

    /// Takes back the published state: no reads may be answered now.
    pub(crate) fn withdraw(&mut self) {
        if let Some(publisher) = &mut self.outside.publisher {
            publisher.withdraw();
        }
    }

    /// Answers the reads that may be answered, and publishes the state for those on other threads. `owner`: the client on a connection now.
    pub(crate) fn run_reads(&mut self, now: Time, owner: impl Fn(ConnId) -> u64) {
        self.publish();
        if self.reads.is_empty() && !self.answers.has_put_off() {
            return;
        }
        let (executor, answers, counts) = (self.execution.state(), &mut self.answers, &mut self.counts);
        let ahead = |queries: &mut dyn Iterator<Item = &[u8]>| executor.read_ahead(queries);
        self.reads.ready(executor.seq(), ahead, |read| {
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

    /// Tells clients whose reads waited for too long that there is no leader.
    pub(crate) fn expire_reads(&mut self, now: Time) {
        let (executor, answers) = (self.execution.state(), &mut self.answers);
        self.reads.expire(now, |key| answers.fail(executor, key.conn, key.read, ReadStatus::NoLeader));
    }

    /// When to call [`Self::expire_reads`].
    pub(crate) fn reads_deadline(&self) -> Option<Time> {
        self.reads.deadline()
    }

    /// When the next turn is due for reads that were put off.
    pub(crate) fn put_off_deadline(&self) -> Option<Time> {
        self.answers.deadline()
    }

    /// Whether reads are put off. Clients that send many reads are then not read while others wait behind them.
    pub(crate) fn has_put_off(&self) -> bool {
        self.answers.has_put_off()
    }

    /// The number of waiting reads, and the bytes of those that wait for a leader.
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
}
