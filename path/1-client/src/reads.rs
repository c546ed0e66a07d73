//! Reads. Each goes to one replica, and to another when the first lets it wait, refuses it or is lost.
//!
//! Strong reads go to the leader first, which answers them without asking another replica; other reads are spread. Reads change nothing, so
//! asking twice is harmless, and the first answer counts.
//!
//! A session read carries the newest state that this client knows of: what its reads saw, and how far the replicas that answered its writes
//! had executed. The replica that gets it waits until its own state is as new. So no session read goes back, at whatever replica.
//!
//! Where replicas may lie, only weak reads of one replica work like this. All other reads go to all members and wait here for their answers
//! (`reach/all/unordered.rs`), or are ordered (`sessions/timers.rs`).
//!
//! INV-CLIENT-6: the session reads and strong reads of one reader never go back: an answer counts only if it is at least as new as the
//! newest state seen, and the newest write acknowledged, when the read was asked.
//! Tests: reads/tests.rs, tests/core.rs, tests/cluster.rs.

use crate::back_off::back_off;
use crate::contacts::Contacts;
use crate::effects::{CallId, Completion, ReadConsistency};
use crate::encode::{FrameWriter, READ_HEADER};
use crate::error::Error;
use crate::sessions::cost;
use crate::step::{GRAIN, NEVER, Step};
use crate::votes::{KeptAnswers, keep};
use bytes::Bytes;
use quorate_types::{ReplicaId, Seq, Span, Time, planted};
use quorate_wire::{FrameKind, ReadConsistency as Asked, ReadReply, ReadRequest, ReadStatus};
use std::collections::BTreeMap;

/// The number of readers for which the client remembers what they saw.
const READERS_MAX: usize = 65_536;
/// A replica that let a read wait is asked last for this long.
const SLOW_FOR: Span = Span::from_secs(1);

/// A read as its caller asks it.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) call: CallId,
    pub(crate) reader: u64,
    pub(crate) consistency: ReadConsistency,
    /// The answer must be at least as new as this.
    pub(crate) after: Seq,
    /// Ask only this contact.
    pub(crate) pinned: Option<usize>,
    pub(crate) query: Bytes,
    pub(crate) deadline: Time,
}

/// A member's answer to a read that all members are asked.
#[derive(Debug)]
pub(crate) struct Answer {
    from: usize,
    pub(crate) seq: Seq,
    pub(crate) status: ReadStatus,
    pub(crate) body: Bytes,
}

/// A read without an answer.
#[derive(Debug)]
struct Read {
    call: CallId,
    reader: u64,
    seen: Seq,
    consistency: ReadConsistency,
    pinned: Option<usize>,
    query: Bytes,
    deadline: Time,
    /// The contacts from which an answer is awaited, as bits.
    on: u64,
    /// The contacts that were tried in this round, as bits.
    tried: u64,
    attempt: u32,
    refused: Option<ReadStatus>,
    /// When it was last sent.
    asked: Time,
    /// When to do something about it.
    due: Time,
    /// If all members are asked: their answers.
    answers: Option<Vec<Answer>>,
}

impl Read {
    fn new(now: Time, question: Question, seen: Seq) -> Self {
        let Question { call, reader, consistency, pinned, query, deadline, .. } = question;
        Self {
            call,
            reader,
            seen,
            consistency,
            pinned,
            query,
            deadline,
            on: 0,
            tried: 0,
            attempt: 0,
            refused: None,
            asked: now,
            due: now,
            answers: None,
        }
    }
}

/// The reads to send to one member, and how well it answered.
#[derive(Debug, Default)]
struct Outbox {
    waiting: Vec<u64>,
    /// It let a read wait, so others are asked first until then.
    slow_until: Time,
}

/// A read that all members were asked, once its answer is known or given up.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) call: CallId,
    pub(crate) query: Bytes,
    pub(crate) deadline: Time,
}

/// All reads of a client.
#[derive(Debug)]
pub(crate) struct Reads {
    reads: BTreeMap<u64, Read>,
    next: u64,
    seen: BTreeMap<u64, Seq>,
    /// A state as new as this holds every write that was acknowledged.
    written: Seq,
    /// The newest state that was seen or written.
    newest: Seq,
    /// No timer of a read is earlier.
    due: Time,
    /// By contact.
    outboxes: Vec<Outbox>,
    /// Whether an outbox may hold something.
    unsent: bool,
    /// Bytes of the reads that wait.
    queued: usize,
    /// The bytes of kept answers, by contact.
    held: KeptAnswers,
}

impl Reads {
    /// For this many members; at most `held_max` bytes of each member's answers are kept.
    pub(crate) fn new(members: usize, held_max: usize) -> Self {
        Self {
            reads: BTreeMap::new(),
            next: 1,
            seen: BTreeMap::new(),
            written: Seq::ZERO,
            newest: Seq::ZERO,
            due: NEVER,
            outboxes: (0..members).map(|_| Outbox::default()).collect(),
            unsent: false,
            queued: 0,
            held: KeptAnswers::new(members, held_max),
        }
    }

    pub(crate) const fn queued(&self) -> usize {
        self.queued
    }
    pub(crate) const fn newest(&self) -> Seq {
        self.newest
    }
    pub(crate) const fn deadline(&self) -> Time {
        self.due
    }

    /// This reader ends.
    pub(crate) fn forget(&mut self, reader: u64) {
        self.seen.remove(&reader);
    }

    /// A replica joined and has this contact.
    pub(crate) fn joined(&mut self, contact: usize) {
        match self.outboxes.get_mut(contact) {
            Some(outbox) => *outbox = Outbox::default(),
            None => self.outboxes.push(Outbox::default()),
        }
        self.held.reach(contact);
    }

    /// A replica connected: reads that found no replica are looked at again.
    pub(crate) fn connected(&mut self, now: Time, contact: usize) {
        self.outboxes[contact].slow_until = Time::ZERO;
        for read in self
            .reads
            .values_mut()
            .filter(|read| read.on == 0 && read.refused.is_none() && read.answers.is_none())
        {
            read.due = now;
            self.due = now;
        }
    }

    /// Writes were acknowledged by a replica that had executed up to this seq.
    pub(crate) fn wrote(&mut self, executed: Seq) {
        if !planted("session-read-misses-write") {
            self.written = self.written.max(executed);
        }
        self.reached(executed);
    }

    /// The newest state is at least as new as this.
    pub(crate) fn reached(&mut self, seq: Seq) {
        self.newest = self.newest.max(seq);
    }

    fn saw(&mut self, reader: u64, seq: Seq) {
        if self.seen.len() < READERS_MAX || self.seen.contains_key(&reader) {
            let seen = self.seen.entry(reader).or_default();
            *seen = seq.max(*seen);
        }
        self.reached(seq);
    }

    /// The oldest state from which this reader's read may be answered.
    fn owed(&self, reader: u64, consistency: ReadConsistency) -> Seq {
        match consistency {
            ReadConsistency::Weak => Seq::ZERO,
            ReadConsistency::Session | ReadConsistency::Strong => {
                self.seen.get(&reader).copied().unwrap_or_default().max(self.written)
            }
        }
    }

    /// Keeps a read, and returns its number.
    fn insert(&mut self, read: Read) -> u64 {
        let id = self.next;
        self.next += 1;
        self.due = self.due.min(read.due);
        self.queued += cost(read.query.len());
        self.reads.insert(id, read);
        id
    }

    fn remove(&mut self, id: u64) -> Option<Read> {
        let read = self.reads.remove(&id)?;
        self.queued -= cost(read.query.len());
        for answer in read.answers.iter().flatten() {
            self.held.give(answer.from, answer.body.len());
        }
        Some(read)
    }

    /// Checks INV-CLIENT-4 and INV-CLIENT-10 for reads, and returns how many wait.
    pub(crate) fn check(&self) -> usize {
        let queued: usize = self.reads.values().map(|read| cost(read.query.len())).sum();
        assert!(queued == self.queued, "INV-CLIENT-4: queued bytes are what is queued");
        let answers = self.reads.values().flat_map(|read| read.answers.iter().flatten());
        let held: usize = answers.map(|answer| answer.body.len()).sum();
        assert!(held == self.held.total(), "INV-CLIENT-10: what is kept of answers is counted");
        self.reads.len()
    }

    /// Ends all reads with this error.
    pub(crate) fn fail_all(&mut self, step: &mut Step<'_>, error: &Error) {
        for read in std::mem::take(&mut self.reads).into_values() {
            step.out.complete(Some(read.call), Err(error.clone()));
        }
        self.queued = 0;
        self.held.clear();
        self.due = NEVER;
    }

    /// Asks one replica, and others when it does not answer. Strong reads go to `leader` first.
    pub(crate) fn ask(
        &mut self,
        step: &mut Step<'_>,
        contacts: &Contacts,
        leader: Option<usize>,
        question: Question,
    ) {
        let seen = self.owed(question.reader, question.consistency).max(question.after);
        let id = self.insert(Read::new(step.now, question, seen));
        self.place(step, contacts, leader, id);
    }

    /// Asks these members, all at once, and keeps their answers until the read is taken out.
    pub(crate) fn ask_many(&mut self, step: &Step<'_>, on: u64, question: Question) {
        let due = step.now.plus(step.config.hedge_after).min(question.deadline);
        let read = Read::new(step.now, question, Seq::ZERO);
        let id = self.insert(Read { on, tried: on, due, answers: Some(Vec::new()), ..read });
        self.unsent = true;
        for (index, outbox) in self.outboxes.iter_mut().enumerate() {
            if on & (1 << index) != 0 {
                outbox.waiting.push(id);
            }
        }
    }

    /// Gives a read to the best contact that does not have it yet. Without such a contact, the read waits.
    fn place(&mut self, step: &mut Step<'_>, contacts: &Contacts, leader: Option<usize>, id: u64) {
        let choice = self.choose(step.now, contacts, leader, id);
        let Some(read) = self.reads.get_mut(&id) else { return };
        let config = step.config;
        let wait = if let Some(contact) = choice {
            if read.tried & (1 << contact) != 0 {
                read.tried = 0;
            }
            read.on |= 1 << contact;
            read.tried |= 1 << contact;
            read.asked = step.now;
            self.outboxes[contact].waiting.push(id);
            self.unsent = true;
            config.hedge_after.times(1 << read.attempt.min(4))
        } else if read.on == 0 {
            back_off(step.random, read.attempt, config.retry_min, config.retry_max)
        } else {
            // Everybody has it. What was asked long ago may be lost there: ask again.
            if step.now.since(read.asked) >= config.resend_after {
                read.on = 0;
            }
            config.hedge_after.times(1 << read.attempt.min(4)).min(config.resend_after)
        };
        read.attempt = read.attempt.saturating_add(1);
        read.due = step.now.plus(wait).min(read.deadline);
        self.due = self.due.min(read.due);
    }

    /// The preferred contact, in this order: not tried in this round, not slow lately, the leader for strong reads, then by turns.
    fn choose(&self, now: Time, contacts: &Contacts, leader: Option<usize>, id: u64) -> Option<usize> {
        let read = self.reads.get(&id)?;
        let count = contacts.len();
        let mut best: Option<((bool, bool, bool, u64), usize)> = None;
        for (index, contact) in contacts.iter().enumerate() {
            let bit = 1 << index;
            if read.on & bit != 0
                || contact.up().is_none()
                || read.pinned.is_some_and(|pinned| pinned != index)
            {
                continue;
            }
            let leads = read.consistency == ReadConsistency::Strong && leader == Some(index);
            let turn = (index as u64 + id) % count as u64;
            let rank = (read.tried & bit != 0, self.outboxes[index].slow_until > now, !leads, turn);
            if best.is_none_or(|(other, _)| rank < other) {
                best = Some((rank, index));
            }
        }
        best.map(|(_, index)| index)
    }

    /// Sends what is in the outboxes, as far as connections have room.
    pub(crate) fn send(&mut self, step: &mut Step<'_>, contacts: &mut Contacts) {
        if !std::mem::take(&mut self.unsent) {
            return;
        }
        let max = step.config.frame_bytes_max as usize;
        for (index, outbox) in self.outboxes.iter_mut().enumerate() {
            if outbox.waiting.is_empty() {
                continue;
            }
            if contacts.at(index).out_bytes >= step.config.connection_bytes_max {
                self.unsent = true;
                continue;
            }
            let mut writer = FrameWriter::new(FrameKind::Reads);
            for id in std::mem::take(&mut outbox.waiting) {
                let Some(read) = self.reads.get(&id) else { continue };
                if !writer.is_empty() && writer.len() + READ_HEADER + read.query.len() > max {
                    contacts.send(step, index, writer.finish());
                }
                let consistency = match read.consistency {
                    ReadConsistency::Strong => Asked::Strong,
                    ReadConsistency::Session | ReadConsistency::Weak => Asked::Weak,
                };
                writer.read(&ReadRequest { read: id, seen: read.seen, consistency, query: &read.query });
            }
            if !writer.is_empty() {
                contacts.send(step, index, writer.finish());
            }
        }
    }

    /// Whether this read waits for an answer of this member.
    pub(crate) fn waits_for(&self, id: u64, from: usize) -> bool {
        self.reads.get(&id).is_some_and(|read| read.on & (1 << from) != 0)
    }

    /// Whether many members are asked this read, so that one answer is not enough.
    pub(crate) fn asks_many(&self, id: u64) -> bool {
        self.reads.get(&id).is_some_and(|read| read.answers.is_some())
    }

    /// Takes the answer of one replica, where one is enough. `believed`: whether later reads may rely on the state that it names.
    pub(crate) fn reply(
        &mut self,
        step: &mut Step<'_>,
        from: usize,
        reply: &ReadReply<'_>,
        payload: &Bytes,
        believed: bool,
    ) {
        let Some(read) = self.reads.get_mut(&reply.read) else { return };
        if matches!(reply.status, ReadStatus::TooLarge | ReadStatus::Forbidden)
            || (reply.status == ReadStatus::Done
                && (reply.seq >= read.seen || planted("session-read-goes-back")))
        {
            let Some(read) = self.remove(reply.read) else { return };
            if believed && reply.status == ReadStatus::Done {
                self.saw(read.reader, reply.seq);
            }
            return step.out.complete(Some(read.call), result_of(reply, reply.seq, payload));
        }
        // Refused, or older than asked for: elsewhere, after a while.
        read.on &= !(1 << from);
        read.refused = Some(reply.status);
        read.due = step.retry_at(read.attempt).min(read.deadline);
        self.due = self.due.min(read.due);
    }

    /// Keeps one member's answer, where many are asked. Returns all answers so far, and how many members have not answered.
    pub(crate) fn keep(
        &mut self,
        from: usize,
        reply: &ReadReply<'_>,
        payload: &Bytes,
    ) -> Option<(&[Answer], usize)> {
        let read = self.reads.get_mut(&reply.read)?;
        let answers = read.answers.as_mut()?;
        read.on &= !(1 << from);
        let says = matches!(reply.status, ReadStatus::Done | ReadStatus::TooLarge | ReadStatus::Forbidden);
        if says && self.held.take(from, reply.body.len()) {
            let body = keep(reply.body, payload);
            answers.push(Answer { from, seq: reply.seq, status: reply.status, body });
        }
        Some((&*answers, read.on.count_ones() as usize))
    }

    /// Takes out a read that many members were asked.
    pub(crate) fn take(&mut self, id: u64) -> Option<Ended> {
        let Read { call, query, deadline, .. } = self.remove(id)?;
        Some(Ended { call, query, deadline })
    }

    /// A connection is lost. Reads that waited only there go to another replica at once. Reads that many members are asked are looked at
    /// when they are due.
    pub(crate) fn lost(
        &mut self,
        step: &mut Step<'_>,
        contacts: &Contacts,
        leader: Option<usize>,
        contact: usize,
    ) {
        self.outboxes[contact].waiting.clear();
        let mut homeless = Vec::new();
        for (id, read) in &mut self.reads {
            if read.on & (1 << contact) != 0 {
                read.on &= !(1 << contact);
                if read.on == 0 && read.answers.is_none() {
                    homeless.push(*id);
                }
            }
        }
        for id in homeless {
            self.place(step, contacts, leader, id);
        }
    }

    /// The members changed: takes out all reads that many members were asked, to ask them again. Answers so far are forgotten.
    pub(crate) fn take_many(&mut self) -> Vec<Question> {
        self.take_which(|read| read.answers.is_some())
    }

    /// Takes out all reads that wait, to be asked again in another way.
    pub(crate) fn take_all(&mut self) -> Vec<Question> {
        self.take_which(|_| true)
    }

    fn take_which(&mut self, which: impl Fn(&Read) -> bool) -> Vec<Question> {
        let these: Vec<u64> = self.reads.iter().filter(|(_, read)| which(read)).map(|(id, _)| *id).collect();
        let taken = these.into_iter().filter_map(|id| self.remove(id));
        let question = |Read { call, reader, seen, consistency, pinned, query, deadline, .. }: Read| {
            Question { call, reader, consistency, after: seen, pinned, query, deadline }
        };
        taken.map(question).collect()
    }

    /// The replica left the cluster. It will not answer reads that only it could answer, and its contact may be given to another replica.
    pub(crate) fn left(&mut self, step: &mut Step<'_>, contact: usize, replica: ReplicaId) {
        let (reads, queued) = (&mut self.reads, &mut self.queued);
        reads.retain(|_, read| {
            if read.pinned != Some(contact) {
                return true;
            }
            *queued -= cost(read.query.len());
            step.out.complete(Some(read.call), Err(Error::UnknownReplica(replica)));
            false
        });
    }

    /// The numbers of the reads that are due. Call [`Self::look_on`] after looking at all of them.
    pub(crate) fn due(&self, now: Time) -> Vec<u64> {
        self.reads.iter().filter(|(_, read)| read.due <= now).map(|(id, _)| *id).collect()
    }

    /// All due reads were looked at.
    pub(crate) fn look_on(&mut self, now: Time) {
        let next = self.reads.values().map(|read| read.due).min();
        self.due = next.map_or(NEVER, |next| next.max(now.plus(GRAIN)));
    }

    /// Whether the deadline of a read's caller has passed.
    pub(crate) fn is_late(&self, now: Time, id: u64) -> bool {
        self.reads.get(&id).is_some_and(|read| read.deadline <= now)
    }

    /// Tells a read's caller that its time is up. `detail`: why there is no answer, for people.
    pub(crate) fn give_up(&mut self, step: &mut Step<'_>, id: u64, detail: String) {
        let Some(read) = self.remove(id) else { return };
        let error = match read.refused {
            Some(ReadStatus::Overloaded) => Error::Overloaded { outcome_unknown: false },
            _ => Error::DeadlineExceeded { outcome_unknown: false, detail },
        };
        step.out.complete(Some(read.call), Err(error));
    }

    /// A read has waited long enough, so another replica is asked, too.
    pub(crate) fn hedge(&mut self, step: &mut Step<'_>, contacts: &Contacts, leader: Option<usize>, id: u64) {
        let Some(read) = self.reads.get(&id) else { return };
        for (index, contact) in contacts.iter().enumerate() {
            // Silent since it was asked: others are asked first for a while.
            if read.on & (1 << index) != 0 && contact.heard <= read.asked {
                self.outboxes[index].slow_until = step.now.plus(SLOW_FOR);
            }
        }
        self.place(step, contacts, leader, id);
    }
}

/// What a caller is told of an answer that counts; the answer is from the state at this seq.
pub(crate) fn result_of(reply: &ReadReply<'_>, seq: Seq, payload: &Bytes) -> Result<Completion, Error> {
    match reply.status {
        ReadStatus::Done => Ok(Completion::Read { seq, body: payload.slice_ref(reply.body) }),
        ReadStatus::Forbidden => Err(Error::Forbidden { outcome_unknown: false }),
        _ => {
            let detail = "the answer is over the limit for replies; ask for less".to_owned();
            Err(Error::TooLarge { outcome_unknown: false, detail })
        }
    }
}

#[cfg(test)]
mod tests;
