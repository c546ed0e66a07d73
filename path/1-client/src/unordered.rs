//! Strong reads where replicas may lie, without ordering them: all members are asked, and what a quorum answers alike counts.
//!
//! A member answers from its own state, once it has executed everything that it had accepted when the question came
//! (docs/decisions/0020-reads-that-are-not-ordered.md says why that is linearizable). When no quorum can agree any more, since writes go on
//! there or members lie, or nothing came for a while, the query is asked once more in the order of all commands (`queries.rs`), and so are
//! all for a while: for twice as long each time, and half as long after each success.
//!
//! An answer's seq is one that the state surely reached: the (f+1)-th highest of those that the quorum named.
//!
//! INV-CLIENT-11: no such answer counts that fewer than a quorum gave. What is kept of answers is bounded for each member.
//! Tests: tests/unordered.rs, tests/liars.rs.

use crate::core::ClientCore;
use crate::effects::{CallId, Completion, Effects, ReadConsistency};
use crate::error::Error;
use crate::reads::Read;
use crate::session::{NEVER, cost};
use crate::votes::{Held, keep};
use bytes::Bytes;
use quorate_types::{Seq, Span, Time, Trust, planted};
use quorate_wire::{ReadReply, ReadStatus};

/// After the first failure reads are ordered for so long.
const PAUSE_MIN: Span = Span::from_millis(10);
const PAUSE_MAX: Span = Span::from_secs(10);

/// What a member answered.
#[derive(Debug)]
pub(crate) struct Answer {
    from: usize,
    seq: Seq,
    status: ReadStatus,
    body: Bytes,
}

/// How well it goes.
#[derive(Debug)]
pub(crate) struct Unordered {
    /// Equal answers that are needed.
    quorum: usize,
    one_correct: usize,
    /// Until then reads are ordered.
    ordered_until: Time,
    pause: Span,
    held: Held,
}

impl Unordered {
    pub(crate) fn new(trust: Trust, members: usize, bytes_max: usize) -> Self {
        let (few, one_correct) = (planted("read-of-few"), trust.truth() as usize);
        let quorum = if few { one_correct } else { trust.agreement() as usize };
        let held = Held::new(members, bytes_max);
        Self { quorum, one_correct, ordered_until: Time::ZERO, pause: Span::ZERO, held }
    }

    pub(crate) const fn held(&self) -> &Held {
        &self.held
    }

    /// A read is over.
    pub(crate) fn release(&mut self, read: &Read) {
        for answer in read.answers.iter().flatten() {
            self.held.give(answer.from, answer.body.len());
        }
    }

    /// All reads are over.
    pub(crate) fn release_all(&mut self) {
        self.held.clear();
    }

    fn failed(&mut self, now: Time) {
        self.pause = self.pause.times(2).clamp(PAUSE_MIN, PAUSE_MAX);
        self.ordered_until = now.plus(self.pause);
    }
}

/// Bytes of answers that are kept for a read.
pub(crate) fn kept(read: &Read) -> usize {
    read.answers.iter().flatten().map(|answer| answer.body.len()).sum()
}

impl ClientCore {
    /// A read where one member's answer is not enough.
    pub(crate) fn read_of_many(
        &mut self,
        now: Time,
        call: CallId,
        reader: u64,
        query: Bytes,
        deadline: Option<Time>,
        out: &mut Effects,
    ) {
        let up = self.links.iter().enumerate().filter(|(_, link)| link.up().is_some());
        let on = up.fold(0u64, |all, (index, _)| all | 1 << index);
        let many = on.count_ones() as usize >= self.unordered.quorum;
        let ordered = self.config.ordered_reads || self.config.combiner.is_some();
        if ordered || !many || self.unordered.ordered_until > now {
            return self.ordered_read(now, call, query, deadline, out);
        }
        self.queued_bytes += cost(query.len());
        let deadline = deadline.unwrap_or(NEVER);
        let due = now.plus(self.config.hedge_after).min(deadline);
        let read = Read {
            call,
            reader,
            seen: Seq::ZERO,
            consistency: ReadConsistency::Strong,
            pinned: None,
            query,
            deadline,
            on,
            tried: on,
            attempt: 0,
            refused: None,
            asked: now,
            due,
            answers: Some(Vec::new()),
        };
        let id = self.reads.insert(read);
        for (_, link) in self.links.iter_mut().enumerate().filter(|(index, _)| on & 1 << index != 0) {
            link.reads.push(id);
        }
    }

    /// A member answers a read that all were asked.
    pub(crate) fn answer_of_one(
        &mut self,
        now: Time,
        from: usize,
        reply: &ReadReply<'_>,
        payload: &Bytes,
        out: &mut Effects,
    ) -> bool {
        let Some(read) = self.reads.get_mut(reply.read) else { return false };
        let Some(answers) = &mut read.answers else { return false };
        read.on &= !(1 << from);
        let says = matches!(reply.status, ReadStatus::Done | ReadStatus::TooLarge | ReadStatus::Forbidden);
        if says && self.unordered.held.take(from, reply.body.len()) {
            let body = keep(reply.body, payload);
            answers.push(Answer { from, seq: reply.seq, status: reply.status, body });
        }
        let equal = |answer: &&Answer| answer.status == reply.status && answer.body[..] == *reply.body;
        let count = answers.iter().filter(equal).count();
        if count >= self.unordered.quorum {
            assert!(count as u32 >= self.needed, "INV-CLIENT-11: a quorum says so");
            let mut seqs: Vec<Seq> = answers.iter().filter(equal).map(|answer| answer.seq).collect();
            seqs.sort_unstable_by(|one, next| next.cmp(one));
            let seq = seqs.get(self.unordered.one_correct - 1).copied().unwrap_or_default();
            self.read_agreed(reply, seq, payload, out);
            return true;
        }
        let most = answers.iter().map(|one| {
            answers.iter().filter(|other| (one.status, &one.body) == (other.status, &other.body)).count()
        });
        let most = most.max().unwrap_or(0);
        if most + (read.on.count_ones() as usize) < self.unordered.quorum {
            self.ask_in_order(now, reply.read, out);
        }
        true
    }

    fn read_agreed(&mut self, reply: &ReadReply<'_>, seq: Seq, payload: &Bytes, out: &mut Effects) {
        let Some(read) = self.reads.remove(reply.read) else { return };
        self.unordered.release(&read);
        self.unordered.pause = self.unordered.pause.divided(2);
        self.stats.reads_unordered += 1;
        self.queued_bytes -= cost(read.query.len());
        self.reads.newest = self.reads.newest.max(seq);
        let result = match reply.status {
            ReadStatus::Done => Ok(Completion::Read { seq, body: payload.slice_ref(reply.body) }),
            ReadStatus::Forbidden => Err(Error::Forbidden { outcome_unknown: false }),
            _ => {
                let detail = "the answer is over the limit for replies; ask for less".to_owned();
                Err(Error::TooLarge { outcome_unknown: false, detail })
            }
        };
        out.complete(Some(read.call), result);
    }

    /// No quorum agrees on an answer, or none in time.
    pub(crate) fn ask_in_order(&mut self, now: Time, id: u64, out: &mut Effects) {
        let Some(read) = self.reads.remove(id) else { return };
        self.unordered.release(&read);
        self.unordered.failed(now);
        self.stats.reads_asked_again += 1;
        self.queued_bytes -= cost(read.query.len());
        let deadline = Some(read.deadline).filter(|deadline| *deadline != NEVER);
        self.ordered_read(now, read.call, read.query, deadline, out);
    }
}
