//! The answers to reads: how many leave in a turn, and which reads wait for the next turn.
//!
//! Small queries can have large answers, and while these are copied and sealed no other client is served. So a turn answers about
//! [`TURN_BYTES`], and no client gets more of that than it leaves for others. Reads beyond that are put off: those of one client stay in
//! order, and clients take turns. Of the reads that a turn has left, the next turn answers at least one. A read that is answered later sees
//! no older state.
//! Tests: `answers/tests.rs`.

use crate::config::REPLY_FRAME_BYTES;
use quorate_execute::Executor;
use quorate_reply::ReadLimits;
use quorate_types::{ConnId, Span, Time};
use quorate_wire::{ReadStatus, read_reply_header};
use std::collections::{BTreeMap, VecDeque};

/// The bytes that one turn answers; the last answer may exceed them.
pub(crate) const TURN_BYTES: usize = 1 << 20;

/// A read that was put off.
#[derive(Debug)]
struct PutOff {
    conn: ConnId,
    read: u64,
    query: Box<[u8]>,
    /// When the read expires.
    until: Time,
}

/// The answers to reads that leave at the end of the turn, and the reads that are put off.
#[derive(Debug)]
pub(crate) struct Answers {
    open: BTreeMap<ConnId, Vec<u8>>,
    /// The bytes answered in this turn.
    bytes: usize,
    /// The bytes answered in this turn, by the client's number.
    of_owners: BTreeMap<u64, usize>,
    full: Vec<(ConnId, Vec<u8>)>,
    /// The reads that are put off, by the client's number.
    put_off: BTreeMap<u64, VecDeque<PutOff>>,
    /// The clients whose reads are put off, in the order of their turns.
    turns: VecDeque<u64>,
    /// The number of reads that are put off, and the bytes of their queries.
    waiting: (usize, usize),
    waiting_max: (usize, usize),
    patience: Span,
    /// Whether the turn before left some.
    left: bool,
    /// When the oldest read was put off. A turn without input goes on with these reads.
    since: Option<Time>,
}

impl Answers {
    pub(crate) fn new(limits: &ReadLimits) -> Self {
        Self {
            open: BTreeMap::new(),
            bytes: 0,
            of_owners: BTreeMap::new(),
            full: Vec::new(),
            put_off: BTreeMap::new(),
            turns: VecDeque::new(),
            waiting: (0, 0),
            waiting_max: (limits.reads_max, limits.bytes_max),
            patience: limits.patience,
            left: false,
            since: None,
        }
    }

    /// Whether this turn has room for one more answer. No client gets more than it leaves for others.
    fn has_room(&self, owner: u64) -> bool {
        let own = self.of_owners.get(&owner).copied().unwrap_or(0);
        self.bytes + own < TURN_BYTES
    }

    /// Counts an answer.
    fn answered(&mut self, owner: u64, bytes: usize) {
        self.bytes += bytes;
        *self.of_owners.entry(owner).or_default() += bytes;
    }

    /// Asks the service and keeps the answer for the client on this connection, or puts the read off.
    pub(crate) fn run(&mut self, now: Time, executor: &Executor, to: (ConnId, u64), read: u64, query: &[u8]) {
        let (conn, owner) = to;
        if self.has_room(owner) && !self.put_off.contains_key(&owner) {
            return self.answer(executor, to, read, query);
        }
        let (reads, bytes) = self.waiting;
        if reads >= self.waiting_max.0 || bytes.saturating_add(query.len()) > self.waiting_max.1 {
            return self.fail(executor, conn, read, ReadStatus::Overloaded);
        }
        self.waiting = (reads + 1, bytes + query.len());
        self.since.get_or_insert(now);
        let queue = self.put_off.entry(owner).or_default();
        if queue.is_empty() {
            self.turns.push_back(owner);
        }
        queue.push_back(PutOff { conn, read, query: query.into(), until: now.plus(self.patience) });
    }

    /// Answers as many of the reads that are put off as this turn has room for. `owner`: the client on a connection now.
    pub(crate) fn run_put_off(&mut self, now: Time, executor: &Executor, owner: impl Fn(ConnId) -> u64) {
        let mut full = VecDeque::new();
        let mut first = self.left;
        while let Some(number) = self.turns.pop_front() {
            if !first && !self.has_room(number) {
                full.push_back(number);
                continue;
            }
            let Some(queue) = self.put_off.get_mut(&number) else { continue };
            let next = queue.pop_front();
            if queue.is_empty() {
                self.put_off.remove(&number);
            } else {
                self.turns.push_back(number);
            }
            let Some(next) = next else { continue };
            self.waiting = (self.waiting.0 - 1, self.waiting.1 - next.query.len());
            if owner(next.conn) != number {
                continue; // the connection is gone
            }
            if next.until <= now {
                self.fail(executor, next.conn, next.read, ReadStatus::Overloaded);
                continue;
            }
            self.answer(executor, (next.conn, number), next.read, &next.query);
            first = false;
        }
        self.turns = full;
        if self.turns.is_empty() {
            self.since = None;
        }
    }

    fn answer(&mut self, executor: &Executor, to: (ConnId, u64), read: u64, query: &[u8]) {
        let (conn, owner) = to;
        let body = self.open.entry(conn).or_default();
        let start = body.len();
        read_reply_header(body, read, executor.seq(), ReadStatus::Done, 0);
        let begin = body.len();
        if executor.query(query, body).is_ok() {
            // The length is known only now; it is the header's last field.
            let len = (body.len() - begin) as u32;
            body[begin - 4..begin].copy_from_slice(&len.to_le_bytes());
        } else {
            body.truncate(start);
            read_reply_header(body, read, executor.seq(), ReadStatus::TooLarge, 0);
        }
        let bytes = body.len() - start;
        self.answered(owner, bytes);
        self.roll(conn);
    }

    /// Whether there are no answers to send.
    pub(crate) fn is_empty(&self) -> bool {
        self.full.is_empty() && self.open.is_empty()
    }

    /// Whether reads are put off. Clients that send many reads are then not read while others wait behind them.
    pub(crate) fn has_put_off(&self) -> bool {
        !self.turns.is_empty()
    }

    /// The number of reads that are put off.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.0
    }

    /// When the next turn is due for the reads that are put off: at once.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.since
    }

    pub(crate) fn fail(&mut self, executor: &Executor, conn: ConnId, read: u64, status: ReadStatus) {
        read_reply_header(self.open.entry(conn).or_default(), read, executor.seq(), status, 0);
        self.roll(conn);
    }

    fn roll(&mut self, conn: ConnId) {
        if self.open.get(&conn).is_some_and(|body| body.len() >= REPLY_FRAME_BYTES)
            && let Some(body) = self.open.remove(&conn)
        {
            self.full.push((conn, body));
        }
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (ConnId, Vec<u8>)> {
        self.full.drain(..).chain(std::mem::take(&mut self.open))
    }

    /// Ends the turn: the next one has room again.
    pub(crate) fn end_turn(&mut self) {
        self.bytes = 0;
        self.of_owners.clear();
        self.left = !self.turns.is_empty();
    }
}

#[cfg(test)]
mod tests;
