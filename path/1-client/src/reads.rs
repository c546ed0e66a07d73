//! Reads: each goes to one replica, and to another one when the first lets it wait, refuses it or is lost.
//!
//! Strong reads go to the leader first, which answers them without asking another; the others are spread. Reads change
//! nothing, so asking twice is harmless and the first answer counts.
//!
//! A session read carries the newest state that this client knows of: what its reads saw, and how far the replicas had executed that
//! answered its writes. Whatever replica it goes to waits until it is as far; so no session read goes back, wherever it goes.
//!
//! Where replicas may lie, only weak reads of one replica go this way; all others are ordered (`queries.rs`).
//!
//! INV-CLIENT-6: the session reads and strong reads of one reader never go back: no answer is taken that is older than the newest one
//! seen, or the newest write acknowledged, when the read was asked.

use crate::back_off::back_off;
use crate::core::{ClientCore, GRAIN};
use crate::effects::{CallId, Completion, Effects, ReadConsistency};
use crate::encode::{FrameWriter, READ_HEADER};
use crate::error::Error;
use crate::session::{NEVER, cost};
use crate::unordered::{self, Answer};
use bytes::Bytes;
use quorate_types::{ReplicaId, Seq, Span, Time, planted};
use quorate_wire::{FrameKind, ReadConsistency as Asked, ReadReply, ReadRequest, ReadStatus};
use std::collections::BTreeMap;

/// What so many readers saw is kept.
const READERS_MAX: usize = 65_536;
/// A replica that let a read wait is asked last for so long.
const SLOW_FOR: Span = Span::from_secs(1);

/// A set of links, as bits.
type Links = u64;

#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) call: CallId,
    pub(crate) reader: u64,
    pub(crate) seen: Seq,
    pub(crate) consistency: ReadConsistency,
    /// Only this link.
    pub(crate) pinned: Option<usize>,
    pub(crate) query: Bytes,
    pub(crate) deadline: Time,
    /// Where it waits for an answer.
    pub(crate) on: Links,
    /// Where it was tried in this round.
    pub(crate) tried: Links,
    pub(crate) attempt: u32,
    pub(crate) refused: Option<ReadStatus>,
    /// When it was last sent.
    pub(crate) asked: Time,
    /// When to do something about it.
    pub(crate) due: Time,
    /// Of a read that all are asked (`unordered.rs`): what they answered.
    pub(crate) answers: Option<Vec<Answer>>,
}

/// All reads of a client.
#[derive(Debug)]
pub(crate) struct Reads {
    reads: BTreeMap<u64, Read>,
    next: u64,
    seen: BTreeMap<u64, Seq>,
    /// A state as new as this holds every write that was acknowledged.
    written: Seq,
    /// The newest of all that was seen or written.
    pub(crate) newest: Seq,
    /// No timer of a read is earlier.
    pub(crate) due: Time,
}

impl Default for Reads {
    fn default() -> Self {
        Self {
            reads: BTreeMap::new(),
            next: 1,
            seen: BTreeMap::new(),
            written: Seq::ZERO,
            newest: Seq::ZERO,
            due: NEVER,
        }
    }
}

impl Reads {
    pub(crate) fn forget(&mut self, reader: u64) {
        self.seen.remove(&reader);
    }

    /// A replica is there that was not: reads that found none are looked at again.
    pub(crate) fn hurry(&mut self, now: Time) {
        for read in self
            .reads
            .values_mut()
            .filter(|read| read.on == 0 && read.refused.is_none() && read.answers.is_none())
        {
            read.due = now;
            self.due = now;
        }
    }

    /// Writes were acknowledged by a replica that had executed so far.
    pub(crate) fn wrote(&mut self, executed: Seq) {
        if !planted("session-read-misses-write") {
            self.written = self.written.max(executed);
        }
        self.newest = self.newest.max(executed);
    }

    fn saw(&mut self, reader: u64, seq: Seq) {
        if self.seen.len() < READERS_MAX || self.seen.contains_key(&reader) {
            let seen = self.seen.entry(reader).or_default();
            *seen = seq.max(*seen);
        }
        self.newest = self.newest.max(seq);
    }

    /// What an answer to this reader must not be older than.
    fn owed(&self, reader: u64, consistency: ReadConsistency) -> Seq {
        match consistency {
            ReadConsistency::Weak => Seq::ZERO,
            ReadConsistency::Session | ReadConsistency::Strong => {
                self.seen.get(&reader).copied().unwrap_or_default().max(self.written)
            }
        }
    }

    /// Keeps a read, and returns its number.
    pub(crate) fn insert(&mut self, read: Read) -> u64 {
        let id = self.next;
        self.next += 1;
        self.due = self.due.min(read.due);
        self.reads.insert(id, read);
        id
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut Read> {
        self.reads.get_mut(&id)
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<Read> {
        self.reads.remove(&id)
    }

    /// Bytes of answers that are kept.
    pub(crate) fn held(&self) -> usize {
        self.reads.values().map(unordered::kept).sum()
    }

    pub(crate) fn check(&self) -> (usize, usize) {
        (self.reads.values().map(|read| cost(read.query.len())).sum(), self.reads.len())
    }

    pub(crate) fn stop(&mut self, out: &mut Effects) -> usize {
        self.fail_all(&Error::Stopped { outcome_unknown: false }, out)
    }

    pub(crate) fn fail_all(&mut self, error: &Error, out: &mut Effects) -> usize {
        let mut freed = 0;
        for read in std::mem::take(&mut self.reads).into_values() {
            freed += cost(read.query.len());
            out.complete(Some(read.call), Err(error.clone()));
        }
        self.due = NEVER;
        freed
    }
}

impl ClientCore {
    /// The newest state that this client knows of: what its reads saw, and what holds its writes.
    pub fn newest(&self) -> Seq {
        self.reads.newest
    }

    #[allow(clippy::too_many_arguments)]
    pub(crate) fn read(
        &mut self,
        now: Time,
        call: CallId,
        reader: u64,
        consistency: ReadConsistency,
        after: Seq,
        replica: Option<ReplicaId>,
        query: Bytes,
        deadline: Option<Time>,
        out: &mut Effects,
    ) {
        let pinned = match self.check_read(replica, &query) {
            Ok(pinned) => pinned,
            Err(error) => return out.complete(Some(call), Err(error)),
        };
        if self.may_lie() && !(pinned.is_some() && consistency == ReadConsistency::Weak) {
            return self.read_of_many(now, call, reader, query, deadline, out);
        }
        self.queued_bytes += cost(query.len());
        let deadline = deadline.unwrap_or(NEVER);
        let seen = self.reads.owed(reader, consistency).max(after);
        let read = Read {
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
        };
        let id = self.reads.insert(read);
        self.place_read(now, id);
    }

    fn check_read(&self, replica: Option<ReplicaId>, query: &Bytes) -> Result<Option<usize>, Error> {
        if self.stopped {
            return Err(Error::Stopped { outcome_unknown: false });
        }
        let pinned = match replica {
            None => None,
            Some(replica) => Some(
                self.links
                    .iter()
                    .position(|link| link.replica == replica && !link.left)
                    .ok_or(Error::UnknownReplica(replica))?,
            ),
        };
        let max = self.config.frame_bytes_max as usize;
        if query.len() + READ_HEADER > max {
            let detail = format!("a query of {} bytes, the limit is {max}", query.len());
            return Err(Error::TooLarge { outcome_unknown: false, detail });
        }
        if self.queued_bytes + cost(query.len()) > self.config.queue_bytes_max {
            return Err(Error::Overloaded { outcome_unknown: false });
        }
        Ok(pinned)
    }

    /// Gives a read to the best link that does not have it yet; without any, it waits.
    fn place_read(&mut self, now: Time, id: u64) {
        let Some(read) = self.reads.reads.get(&id) else { return };
        let choice = self.choose_link(now, id, read.consistency, read.pinned, read.on, read.tried);
        let config = &self.config;
        let Some(read) = self.reads.reads.get_mut(&id) else { return };
        let wait = if let Some(link) = choice {
            if read.tried & (1 << link) != 0 {
                read.tried = 0;
            }
            read.on |= 1 << link;
            read.tried |= 1 << link;
            read.asked = now;
            self.links[link].reads.push(id);
            config.hedge_after.times(1 << read.attempt.min(4))
        } else if read.on == 0 {
            back_off(&mut self.random, read.attempt, config.retry_min, config.retry_max)
        } else {
            // Everybody has it. What was asked long ago may be lost there: ask again.
            if now.since(read.asked) >= config.resend_after {
                read.on = 0;
            }
            config.hedge_after.times(1 << read.attempt.min(4)).min(config.resend_after)
        };
        read.attempt = read.attempt.saturating_add(1);
        read.due = now.plus(wait).min(read.deadline);
        self.reads.due = self.reads.due.min(read.due);
    }

    /// In this order: not tried in this round, not slow of late, the leader for strong reads, and by turns.
    fn choose_link(
        &self,
        now: Time,
        id: u64,
        consistency: ReadConsistency,
        pinned: Option<usize>,
        on: Links,
        tried: Links,
    ) -> Option<usize> {
        let count = self.links.len();
        let mut best: Option<((bool, bool, bool, u64), usize)> = None;
        for (index, link) in self.links.iter().enumerate() {
            let bit = 1 << index;
            if on & bit != 0 || link.up().is_none() || pinned.is_some_and(|pinned| pinned != index) {
                continue;
            }
            let leads = consistency == ReadConsistency::Strong && self.known.leader == Some(index);
            let turn = (index as u64 + id) % count as u64;
            let rank = (tried & bit != 0, link.slow_until > now, !leads, turn);
            if best.is_none_or(|(other, _)| rank < other) {
                best = Some((rank, index));
            }
        }
        best.map(|(_, index)| index)
    }

    pub(crate) fn flush_reads(&mut self, out: &mut Effects) {
        let max = self.config.frame_bytes_max as usize;
        for index in 0..self.links.len() {
            let link = &mut self.links[index];
            if link.reads.is_empty() || link.out_bytes >= self.config.connection_bytes_max {
                continue;
            }
            let waiting = std::mem::take(&mut link.reads);
            let mut writer = FrameWriter::new(FrameKind::Reads);
            for id in waiting {
                let Some(read) = self.reads.reads.get(&id) else { continue };
                let (seen, consistency, query) = (read.seen, read.consistency, read.query.clone());
                if !writer.is_empty() && writer.len() + READ_HEADER + query.len() > max {
                    self.send(index, writer.finish(), out);
                }
                let consistency = match consistency {
                    ReadConsistency::Strong => Asked::Strong,
                    ReadConsistency::Session | ReadConsistency::Weak => Asked::Weak,
                };
                writer.read(&ReadRequest { read: id, seen, consistency, query: &query });
            }
            if !writer.is_empty() {
                self.send(index, writer.finish(), out);
            }
        }
    }

    pub(crate) fn read_replies(&mut self, now: Time, from: usize, payload: &Bytes, out: &mut Effects) {
        for reply in ReadReply::walk(payload) {
            let Ok(reply) = reply else { return };
            if !self.read_reply(now, from, &reply, payload, out) {
                self.stats.replies_ignored += 1;
            }
        }
    }

    fn read_reply(
        &mut self,
        now: Time,
        from: usize,
        reply: &ReadReply<'_>,
        payload: &Bytes,
        out: &mut Effects,
    ) -> bool {
        let Some(read) = self.reads.reads.get_mut(&reply.read) else { return false };
        if read.on & (1 << from) == 0 {
            return false;
        }
        if read.answers.is_some() {
            return self.answer_of_one(now, from, reply, payload, out);
        }
        if matches!(reply.status, ReadStatus::TooLarge | ReadStatus::Forbidden)
            || (reply.status == ReadStatus::Done
                && (reply.seq >= read.seen || planted("session-read-goes-back")))
        {
            self.read_answered(reply, payload, out);
            return true;
        }
        // Refused, or older than asked for: elsewhere, after a while.
        read.on &= !(1 << from);
        read.refused = Some(reply.status);
        let wait = back_off(&mut self.random, read.attempt, self.config.retry_min, self.config.retry_max);
        read.due = now.plus(wait).min(read.deadline);
        self.reads.due = self.reads.due.min(read.due);
        true
    }

    fn read_answered(&mut self, reply: &ReadReply<'_>, payload: &Bytes, out: &mut Effects) {
        let Some(read) = self.reads.reads.remove(&reply.read) else { return };
        self.queued_bytes -= cost(read.query.len());
        if reply.status == ReadStatus::Forbidden {
            return out.complete(Some(read.call), Err(Error::Forbidden { outcome_unknown: false }));
        }
        if reply.status == ReadStatus::TooLarge {
            let detail = "the answer is over the limit for replies; ask for less".to_owned();
            return out.complete(Some(read.call), Err(Error::TooLarge { outcome_unknown: false, detail }));
        }
        // One replica's word, where it may lie: good enough for whoever asked that replica, and for nothing else.
        if !self.may_lie() {
            self.reads.saw(read.reader, reply.seq);
        }
        let body = payload.slice_ref(reply.body);
        out.complete(Some(read.call), Ok(Completion::Read { seq: reply.seq, body }));
    }

    /// The connection is gone: what waited there only goes elsewhere at once. What all were asked is looked at when it is due.
    pub(crate) fn reads_lost(&mut self, now: Time, link: usize) {
        let mut homeless = Vec::new();
        for (id, read) in &mut self.reads.reads {
            if read.on & (1 << link) != 0 {
                read.on &= !(1 << link);
                if read.on == 0 && read.answers.is_none() {
                    homeless.push(*id);
                }
            }
        }
        for id in homeless {
            self.place_read(now, id);
        }
    }

    /// The replica left the cluster: what only it was to answer is answered by nobody, and its link may become another's.
    pub(crate) fn reads_left(&mut self, link: usize, out: &mut Effects) {
        let replica = self.links[link].replica;
        let (reads, queued) = (&mut self.reads.reads, &mut self.queued_bytes);
        reads.retain(|_, read| {
            if read.pinned != Some(link) {
                return true;
            }
            *queued -= cost(read.query.len());
            out.complete(Some(read.call), Err(Error::UnknownReplica(replica)));
            false
        });
    }

    pub(crate) fn reads_due(&mut self, now: Time, out: &mut Effects) {
        let due: Vec<u64> =
            self.reads.reads.iter().filter(|(_, read)| read.due <= now).map(|(id, _)| *id).collect();
        for id in due {
            self.read_due(now, id, out);
        }
        let next = self.reads.reads.values().map(|read| read.due).min();
        self.reads.due = next.map_or(NEVER, |next| next.max(now.plus(GRAIN)));
    }

    fn read_due(&mut self, now: Time, id: u64, out: &mut Effects) {
        let Some(read) = self.reads.reads.get(&id) else { return };
        if read.deadline <= now {
            let (call, freed) = (read.call, cost(read.query.len()));
            let error = match read.refused {
                Some(ReadStatus::Overloaded) => Error::Overloaded { outcome_unknown: false },
                _ => Error::DeadlineExceeded { outcome_unknown: false, detail: self.detail() },
            };
            if let Some(read) = self.reads.remove(id) {
                self.unordered.release(&read);
            }
            self.queued_bytes -= freed;
            return out.complete(Some(call), Err(error));
        }
        if read.answers.is_some() {
            return self.ask_in_order(now, id, out);
        }
        for (index, link) in self.links.iter_mut().enumerate() {
            // Silent since it was asked: others are asked first for a while.
            if read.on & (1 << index) != 0 && link.heard <= read.asked {
                link.slow_until = now.plus(SLOW_FOR);
            }
        }
        self.place_read(now, id);
    }
}
