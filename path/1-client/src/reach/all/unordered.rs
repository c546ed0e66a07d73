//! Strong reads where replicas may lie, without ordering them: all members are asked, and an answer counts that a quorum gives alike.
//!
//! A member answers from its own state, once it has executed everything that it had accepted when the question came
//! (docs/decisions/0020-reads-that-are-not-ordered.md says why that is linearizable). If no quorum can agree any more, because writes go on
//! or members lie, or if no answer came for a while, the query is asked again in the order of all commands (`sessions/timers.rs`). For a
//! while all other reads are then ordered, too: twice as long after each failure, half as long after each success.
//!
//! An answer's seq is one that the state certainly reached: the (f+1)-th highest of those that the quorum named.
//!
//! INV-CLIENT-11: such an answer counts only if a quorum gave it. The answers kept are bounded for each member.
//! Tests: unordered/tests.rs, tests/unordered.rs, tests/liars.rs.

use crate::effects::ReadConsistency;
use crate::parts::Parts;
use crate::reads::{Answer, Question, result_of};
use crate::step::Step;
use bytes::Bytes;
use quorate_types::{Seq, Span, Time, Trust, planted};
use quorate_wire::ReadReply;

/// How long reads are ordered after the first failure.
const PAUSE_MIN: Span = Span::from_millis(10);
const PAUSE_MAX: Span = Span::from_secs(10);

/// How well unordered reads work.
#[derive(Debug)]
pub(super) struct Unordered {
    /// How many equal answers are needed.
    quorum: usize,
    one_correct: usize,
    /// Until then reads are ordered.
    ordered_until: Time,
    pause: Span,
}

/// What the answers to a read amount to so far.
enum Judged {
    /// A quorum agrees, and the state certainly reached this seq.
    Agreed(Seq),
    /// No quorum can agree any more.
    Differ,
    Waits,
}

impl Unordered {
    pub(super) fn new(trust: Trust) -> Self {
        let (few, one_correct) = (planted("read-of-few"), trust.truth() as usize);
        let quorum = if few { one_correct } else { trust.agreement() as usize };
        Self { quorum, one_correct, ordered_until: Time::ZERO, pause: Span::ZERO }
    }

    /// The members changed. How well reads went so far still counts.
    pub(super) fn follow(&mut self, trust: Trust) {
        let (ordered_until, pause) = (self.ordered_until, self.pause);
        *self = Self { ordered_until, pause, ..Self::new(trust) };
    }

    /// Asks a read for which one member's answer is not enough.
    pub(super) fn read(&self, step: &mut Step<'_>, parts: &mut Parts, question: Question) {
        let on = parts.contacts.up_bits();
        let many = on.count_ones() as usize >= self.quorum;
        let ordered = step.config.ordered_reads || step.config.combiner.is_some();
        if ordered || !many || self.ordered_until > step.now {
            let (Question { call, query, deadline, .. }, seen) = (question, parts.reads.newest());
            return parts.sessions.query(step, call, query, deadline, seen);
        }
        let question = Question { consistency: ReadConsistency::Strong, pinned: None, ..question };
        parts.reads.ask_many(step, on, question);
    }

    /// A member answers a read that all members were asked.
    pub(super) fn reply(
        &mut self,
        step: &mut Step<'_>,
        parts: &mut Parts,
        from: usize,
        reply: &ReadReply<'_>,
        payload: &Bytes,
    ) {
        let needed = parts.sessions.rules().needed;
        let Some((answers, open)) = parts.reads.keep(from, reply, payload) else { return };
        match self.judge(answers, open, reply, needed) {
            Judged::Agreed(seq) => self.agreed(step, parts, seq, reply, payload),
            Judged::Differ => self.ask_in_order(step, parts, reply.read),
            Judged::Waits => {}
        }
    }

    /// `open`: how many members have not answered; `reply`: the newest answer.
    fn judge(&self, answers: &[Answer], open: usize, reply: &ReadReply<'_>, needed: u32) -> Judged {
        let equal = |answer: &&Answer| answer.status == reply.status && answer.body[..] == *reply.body;
        let count = answers.iter().filter(equal).count();
        if count >= self.quorum {
            assert!(count as u32 >= needed, "INV-CLIENT-11: a quorum says so");
            let mut seqs: Vec<Seq> = answers.iter().filter(equal).map(|answer| answer.seq).collect();
            seqs.sort_unstable_by(|one, next| next.cmp(one));
            return Judged::Agreed(seqs.get(self.one_correct - 1).copied().unwrap_or_default());
        }
        let most = answers.iter().map(|one| {
            answers.iter().filter(|other| (one.status, &one.body) == (other.status, &other.body)).count()
        });
        if most.max().unwrap_or(0) + open < self.quorum { Judged::Differ } else { Judged::Waits }
    }

    fn agreed(
        &mut self,
        step: &mut Step<'_>,
        parts: &mut Parts,
        seq: Seq,
        reply: &ReadReply<'_>,
        payload: &Bytes,
    ) {
        let Some(read) = parts.reads.take(reply.read) else { return };
        self.pause = self.pause.divided(2);
        parts.stats.reads_unordered += 1;
        parts.reads.reached(seq);
        step.out.complete(Some(read.call), result_of(reply, seq, payload));
    }

    /// No quorum agreed on an answer, or not in time, so the read is ordered.
    pub(super) fn ask_in_order(&mut self, step: &mut Step<'_>, parts: &mut Parts, read: u64) {
        let Some(read) = parts.reads.take(read) else { return };
        self.pause = self.pause.times(2).clamp(PAUSE_MIN, PAUSE_MAX);
        self.ordered_until = step.now.plus(self.pause);
        parts.stats.reads_asked_again += 1;
        let seen = parts.reads.newest();
        parts.sessions.query(step, read.call, read.query, read.deadline, seen);
    }
}

#[cfg(test)]
mod tests;
