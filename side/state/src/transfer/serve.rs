//! The sending side of a transfer: the keeper reads what peers ask for, and it is sent at a limited rate, so that normal traffic goes
//! first.
//!
//! A request becomes items, one per chunk, in a bounded queue of its peer; items that do not fit are refused as busy. When the bucket has
//! tokens, items leave the queues in turn, one peer after the other: a read goes to the keeper, its answer to the peer. The size of a chunk
//! is known only once it is read; until then it counts as one of usual size, and the difference is settled with the bucket afterwards.
//!
//! Invariant: INV-SERVE-1 (what waits for a peer stays within its limit; what is sent in any time is at most rate times that time, plus the
//! burst, plus the chunks being read). Tests: `side/state/tests/all/transfer_serve.rs`.

use crate::store::CHUNK_BYTES;
use bytes::Bytes;
use quorate_types::{Digest, ReplicaId, Seq, Span, Time};
use quorate_wire::{RefusedWhy, StateMessage};
use std::collections::{BTreeMap, VecDeque};
use std::mem;

/// Limits of the sending side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeLimits {
    /// Bytes per second, to all peers together. 64 MiB by default; 0 counts as 1.
    pub rate: u64,
    /// Bytes that may be sent at once after a quiet time. 1 MiB by default.
    pub burst: u64,
    /// Chunks that may wait for one peer. 1024 by default: as many small chunks as fit into a requester's window.
    pub queue: usize,
    /// Reads that may be at the keeper at once. 64 by default; 0 counts as 1.
    pub reads: usize,
    /// Bytes of a manifest in one message. 256 KiB by default; 0 counts as 1.
    pub piece: u32,
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self { rate: 64 << 20, burst: 1 << 20, queue: 1024, reads: 64, piece: 256 << 10 }
    }
}

/// What [`Serve`] reacts to.
#[derive(Clone, Debug)]
pub enum ServeInput {
    /// A member asks. Messages other than requests for manifests and chunks are ignored.
    Asked {
        /// The member.
        from: ReplicaId,
        /// The request.
        message: StateMessage,
    },
    /// The keeper answered a read.
    Answered {
        /// The number of the read.
        ticket: u64,
        /// The answer.
        answer: Answer,
    },
    /// The connection to a member is gone, so its requests are dropped.
    Disconnected(ReplicaId),
    /// The moment that [`Serve::deadline`] named has come.
    Deadline,
}

/// The keeper's answer to a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A piece of the manifest, from the offset that was asked for.
    Manifest {
        /// Bytes of the whole manifest.
        total: u64,
        /// The piece.
        bytes: Bytes,
    },
    /// The chunk.
    Chunk {
        /// The chunk.
        bytes: Bytes,
    },
    /// There is no such checkpoint, no such chunk in it, or the offset is beyond the manifest's end.
    NotHeld,
    /// The chunk or manifest is damaged.
    Rotten,
}

/// What [`Serve`] asks its host to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServeEffect {
    /// The keeper must read a piece of a manifest; its answer comes back as [`ServeInput::Answered`].
    ReadManifest {
        /// The number of the read.
        ticket: u64,
        /// The checkpoint's seq.
        seq: Seq,
        /// The checkpoint's digest.
        digest: Digest,
        /// Where the piece begins.
        offset: u64,
        /// The greatest length of the piece.
        len: u32,
    },
    /// The keeper must read a chunk; its answer comes back as [`ServeInput::Answered`].
    ReadChunk {
        /// The number of the read.
        ticket: u64,
        /// The checkpoint's seq.
        seq: Seq,
        /// The checkpoint's digest.
        digest: Digest,
        /// The chunk's number.
        chunk: u32,
    },
    /// Send a message.
    Send {
        /// The member.
        to: ReplicaId,
        /// The message.
        message: StateMessage,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Manifest { offset: u64 },
    Chunk { chunk: u32 },
}

/// Something for which a peer waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item {
    seq: Seq,
    digest: Digest,
    part: Part,
}

/// A read at the keeper. Its peer may be gone by now.
#[derive(Debug)]
struct Reading {
    to: Option<ReplicaId>,
    item: Item,
    charged: u64,
}

/// Tokens are bytes. They may go below zero; that is paid back before anything else is released.
#[derive(Debug)]
struct Bucket {
    rate: u64,
    burst: u64,
    /// In billionths of a byte, so that nothing is lost to rounding, however often it is filled.
    tokens: i128,
    filled: Time,
}

const NANO: i128 = 1_000_000_000;

impl Bucket {
    fn new(rate: u64, burst: u64) -> Self {
        Self { rate: rate.max(1), burst, tokens: i128::from(burst) * NANO, filled: Time::ZERO }
    }
    fn fill(&mut self, now: Time) {
        let more = i128::from(now.since(self.filled).nanos()).saturating_mul(i128::from(self.rate));
        self.tokens = self.tokens.saturating_add(more).min(i128::from(self.burst.max(1)) * NANO);
        self.filled = self.filled.max(now);
    }
    fn take(&mut self, bytes: u64) {
        self.tokens -= i128::from(bytes) * NANO;
    }
    fn give_back(&mut self, bytes: u64) {
        self.tokens += i128::from(bytes) * NANO;
    }
    fn has_some(&self) -> bool {
        self.tokens > 0
    }
    /// When it has tokens again.
    fn ready(&self) -> Time {
        let lacks = (1 - self.tokens).max(0) as u128;
        let nanos = u64::try_from(lacks.div_ceil(u128::from(self.rate))).unwrap_or(u64::MAX);
        self.filled.plus(Span::from_nanos(nanos))
    }
}

/// The sending side; see the module.
#[derive(Debug)]
pub struct Serve {
    limits: ServeLimits,
    bucket: Bucket,
    queues: BTreeMap<ReplicaId, VecDeque<Item>>,
    /// The peer that was served last.
    last: Option<ReplicaId>,
    reading: BTreeMap<u64, Reading>,
    next_ticket: u64,
    sent: u64,
    /// The average length of chunks lately: an unread chunk counts as this.
    usual: u64,
}

impl Serve {
    /// Without requests.
    pub fn new(limits: ServeLimits) -> Self {
        let bucket = Bucket::new(limits.rate, limits.burst);
        let (queues, reading) = (BTreeMap::new(), BTreeMap::new());
        Self { limits, bucket, queues, last: None, reading, next_ticket: 1, sent: 0, usual: CHUNK_BYTES }
    }

    /// Reacts to one input.
    pub fn step(&mut self, now: Time, input: ServeInput, out: &mut Vec<ServeEffect>) {
        self.bucket.fill(now);
        match input {
            ServeInput::Asked { from, message } => self.asked(from, message, out),
            ServeInput::Answered { ticket, answer } => self.answered(ticket, answer, out),
            ServeInput::Disconnected(peer) => self.gone(peer),
            ServeInput::Deadline => {}
        }
        self.release(out);
        self.invariants();
    }

    /// When to call [`Self::step`] with [`ServeInput::Deadline`], if no other input comes first.
    pub fn deadline(&self) -> Option<Time> {
        (!self.queues.is_empty() && self.may_read()).then(|| self.bucket.ready())
    }

    /// Bytes of manifests and chunks sent so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether a peer waits for something.
    pub fn busy(&self) -> bool {
        !self.queues.is_empty() || !self.reading.is_empty()
    }

    fn may_read(&self) -> bool {
        self.reading.len() < self.limits.reads.max(1)
    }

    fn asked(&mut self, from: ReplicaId, message: StateMessage, out: &mut Vec<ServeEffect>) {
        let (seq, digest) = message.about();
        let mut refused = Vec::new();
        match message {
            StateMessage::FetchManifest { offset, .. } => {
                if self.enqueue(from, Item { seq, digest, part: Part::Manifest { offset } }) {
                    return;
                }
            }
            StateMessage::FetchChunks { chunks, .. } => {
                let item = |chunk| Item { seq, digest, part: Part::Chunk { chunk } };
                refused = chunks.into_iter().filter(|chunk| !self.enqueue(from, item(*chunk))).collect();
                if refused.is_empty() {
                    return;
                }
            }
            _ => return,
        }
        let message = StateMessage::Refused { seq, digest, why: RefusedWhy::Busy, chunks: refused };
        out.push(ServeEffect::Send { to: from, message });
    }

    /// Adds an item, if there is room; returns whether there was. An item that waits already is not added again: a requester that lost
    /// patience asks again.
    fn enqueue(&mut self, from: ReplicaId, item: Item) -> bool {
        let max = self.limits.queue.max(1);
        let queue = self.queues.entry(from).or_default();
        // A requester fetches one checkpoint at a time; what it asked for of another one it has given up.
        queue.retain(|waits| (waits.seq, waits.digest) == (item.seq, item.digest));
        if queue.contains(&item) {
            return true;
        }
        if queue.len() < max {
            queue.push_back(item);
            return true;
        }
        false
    }

    /// Gives reads to the keeper while the bucket allows it.
    fn release(&mut self, out: &mut Vec<ServeEffect>) {
        while self.may_read() && self.bucket.has_some() {
            let Some((to, item)) = self.next_item() else { return };
            let ticket = self.next_ticket;
            self.next_ticket += 1;
            let Item { seq, digest, part } = item;
            let (charged, effect) = match part {
                Part::Manifest { offset } => {
                    let len = self.limits.piece.max(1);
                    (u64::from(len), ServeEffect::ReadManifest { ticket, seq, digest, offset, len })
                }
                Part::Chunk { chunk } => (self.usual, ServeEffect::ReadChunk { ticket, seq, digest, chunk }),
            };
            self.bucket.take(charged);
            self.reading.insert(ticket, Reading { to: Some(to), item, charged });
            out.push(effect);
        }
    }

    /// The first item of the peer after the one that was served last.
    fn next_item(&mut self) -> Option<(ReplicaId, Item)> {
        let after = |(peer, _): &(&ReplicaId, _)| self.last.is_none_or(|last| **peer > last);
        let next = self.queues.iter().find(after).or_else(|| self.queues.iter().next());
        let peer = *next?.0;
        self.last = Some(peer);
        let queue = self.queues.get_mut(&peer)?;
        let item = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(&peer);
        }
        Some((peer, item?))
    }

    fn answered(&mut self, ticket: u64, answer: Answer, out: &mut Vec<ServeEffect>) {
        let Some(Reading { to, item, charged }) = self.reading.remove(&ticket) else { return };
        self.bucket.give_back(charged);
        let Some(to) = to else { return };
        let Item { seq, digest, part } = item;
        let refused = |why| {
            let chunks = match part {
                Part::Manifest { .. } => Vec::new(),
                Part::Chunk { chunk } => vec![chunk],
            };
            StateMessage::Refused { seq, digest, why, chunks }
        };
        let message = match (answer, part) {
            (Answer::Manifest { total, bytes }, Part::Manifest { offset }) => {
                self.charge(bytes.len());
                StateMessage::Manifest { seq, digest, offset, total, bytes }
            }
            (Answer::Chunk { bytes }, Part::Chunk { chunk }) => {
                self.charge(bytes.len());
                self.usual = (self.usual * 7 + (bytes.len() as u64).min(CHUNK_BYTES)) / 8;
                StateMessage::Chunk { seq, digest, chunk, bytes }
            }
            (Answer::NotHeld, _) => {
                // Nothing else of it is there either: one refusal answers all that the peer waits for.
                self.drop_of(to, seq, digest);
                refused(RefusedWhy::NotHeld)
            }
            (Answer::Rotten, _) => refused(RefusedWhy::Rotten),
            (Answer::Manifest { .. } | Answer::Chunk { .. }, _) => {
                panic!("INV-SERVE-2: the keeper answers what it was asked")
            }
        };
        out.push(ServeEffect::Send { to, message });
    }

    fn charge(&mut self, bytes: usize) {
        self.bucket.take(bytes as u64);
        self.sent = self.sent.saturating_add(bytes as u64);
    }

    fn drop_of(&mut self, peer: ReplicaId, seq: Seq, digest: Digest) {
        if let Some(queue) = self.queues.get_mut(&peer) {
            queue.retain(|item| (item.seq, item.digest) != (seq, digest));
            if queue.is_empty() {
                self.queues.remove(&peer);
            }
        }
    }

    fn gone(&mut self, peer: ReplicaId) {
        self.queues.remove(&peer);
        for reading in self.reading.values_mut().filter(|reading| reading.to == Some(peer)) {
            mem::take(&mut reading.to);
        }
    }

    fn invariants(&self) {
        let max = self.limits.queue.max(1);
        let bounded = self.queues.values().all(|queue| !queue.is_empty() && queue.len() <= max);
        assert!(bounded && self.reading.len() <= self.limits.reads.max(1), "INV-SERVE-1: queues are bounded");
    }
}
