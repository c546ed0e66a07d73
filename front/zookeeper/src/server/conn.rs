//! A client's connection: how far it has come, and what it waits for.
//!
//! Answers leave in the order of requests. Writes are ordered as they come; a read waits for the answers to all requests before it, which
//! are of its own session only. A write behind a read that waits is not ordered before the read is answered: otherwise the read would see
//! what its client did later. Tests: tests/all/server.rs, tests/all/world.rs.

use super::Change;
use super::sasl::Sasl;
use crate::command::IDS_MAX;
use crate::error::ZkError;
use crate::op::Op;
use crate::tree::{Caller, Id};
use bytes::Bytes;
use quorate_types::Time;
use std::collections::VecDeque;

/// The longest identity, in bytes.
const ID_BYTES_MAX: usize = 1024;

/// How far a connection has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its first frame is still to come.
    New,
    /// Its session is being opened or attached. Later frames wait.
    Opening(VecDeque<Bytes>),
    /// It has a session.
    Open,
}

/// What the client gets once it may be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// The session that was opened, or attached.
    Session {
        password: [u8; 16],
        /// What the cluster says: the transaction, the session, and its attachment.
        is: (i64, i64, i32),
    },
    /// The answer to a write, once there is one. The request is here until it is ordered.
    Write { op: Op, request: Option<Bytes>, answer: Option<Bytes> },
    /// A state that is at least as new as this transaction, once it is known.
    Sync { path: Bytes, zxid: Option<i64> },
    /// A read, or something about watches, of a state that is at least as new as this transaction, once it is known.
    Here { op: i32, request: Bytes, zxid: Option<i64> },
    /// A change of the members, until it is done or refused. The request is here until it is its turn, then the change until it is known that
    /// the client may have it.
    Change { request: Option<Bytes>, change: Option<Change>, done: Option<Result<i64, ZkError>> },
}

impl Waits {
    /// Whether a write behind it has to wait.
    const fn reads(&self) -> bool {
        matches!(self, Self::Sync { .. } | Self::Here { .. } | Self::Change { .. })
    }
}

/// A request that is not answered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// The client's number.
    pub(super) xid: i32,
    pub(super) waits: Waits,
    /// When it came.
    pub(super) came: Time,
    bytes: usize,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) stage: Stage,
    /// Who the client is.
    pub(super) caller: Caller,
    /// How far it has come with SASL.
    pub(super) sasl: Sasl,
    /// When its session is over without a word from it.
    pub(super) timeout_ms: i32,
    /// Whether the client asked for, and understands, a word about reading only.
    pub(super) knows_read_only: bool,
    /// Whether it is served without anything being ordered.
    pub(super) only_reads: bool,
    pub(super) heard: Time,
    /// Counts of what came, and of what was sent.
    pub(super) received: u64,
    pub(super) sent: u64,
    /// What is not answered, in the order of requests.
    waiting: VecDeque<Request>,
    /// The number of the first of these, counted from 0.
    first: u64,
    waiting_bytes: usize,
    /// How many of them are reads, and how many are writes that are not ordered yet.
    reads: usize,
    held: usize,
}

impl Conn {
    pub(super) fn new(ids: Vec<Id>, now: Time) -> Self {
        Self {
            stage: Stage::New,
            caller: Caller { session: 0, attached: 0, ids },
            sasl: Sasl::default(),
            timeout_ms: 0,
            knows_read_only: false,
            only_reads: false,
            heard: now,
            received: 0,
            sent: 0,
            waiting: VecDeque::new(),
            first: 0,
            waiting_bytes: 0,
            reads: 0,
            held: 0,
        }
    }

    /// Adds what the client has proved to be. A client with too many identities, or with one that is too long, can not go on.
    pub(super) fn add_ids(&mut self, ids: impl IntoIterator<Item = Id>) -> bool {
        for id in ids {
            if id.id.len() > ID_BYTES_MAX {
                return false;
            }
            if !self.caller.ids.contains(&id) {
                self.caller.ids.push(id);
            }
        }
        self.caller.ids.len() <= IDS_MAX
    }

    /// Adds a request of so many bytes at the end. Returns its number. The bytes count until it is answered.
    pub(super) fn push(&mut self, xid: i32, bytes: usize, waits: Waits) -> u64 {
        let bytes = 64 + bytes;
        self.reads += usize::from(waits.reads());
        self.held += usize::from(matches!(waits, Waits::Write { request: Some(_), .. }));
        self.waiting_bytes += bytes;
        self.waiting.push_back(Request { xid, waits, came: self.heard, bytes });
        self.first + self.waiting.len() as u64 - 1
    }

    /// The request that is answered next.
    pub(super) fn next(&self) -> Option<&Request> {
        self.waiting.front()
    }

    /// If a change of the members is answered next, and it was not its turn yet: its number, and its request.
    pub(super) fn change_to_begin(&mut self) -> Option<(u64, Bytes)> {
        match &mut self.waiting.front_mut()?.waits {
            Waits::Change { request, .. } => Some((self.first, request.take()?)),
            _ => None,
        }
    }

    /// What the change of the members means that is answered next, or why it is refused.
    pub(super) fn read_change(&mut self, read: Result<Change, ZkError>) {
        if let Some(Waits::Change { change, done, .. }) = self.waiting.front_mut().map(|next| &mut next.waits)
        {
            match read {
                Ok(read) => *change = Some(read),
                Err(error) => *done = Some(Err(error)),
            }
        }
    }

    pub(super) fn pop(&mut self) -> Option<Request> {
        let request = self.waiting.pop_front()?;
        self.first += 1;
        self.waiting_bytes -= request.bytes;
        self.reads -= usize::from(request.waits.reads());
        Some(request)
    }

    /// Whether a read waits, so that a write behind it has to wait, too.
    pub(super) fn reads(&self) -> bool {
        self.reads > 0
    }

    /// The next write that may be ordered now, since no read waits before it: its number, and its request.
    pub(super) fn next_to_order(&mut self) -> Option<(u64, Op, Bytes)> {
        if self.held == 0 {
            return None;
        }
        let free = self.waiting.iter_mut().take_while(|request| !request.waits.reads());
        let mut writes = (self.first..).zip(free).filter_map(|(number, held)| match &mut held.waits {
            Waits::Write { op, request, .. } => Some((number, *op, request.take()?)),
            _ => None,
        });
        let next = writes.next()?;
        self.held -= 1;
        Some(next)
    }

    /// The request with this number, if it is not answered yet.
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Request> {
        let at = number.checked_sub(self.first)?;
        self.waiting.get_mut(usize::try_from(at).ok()?)
    }

    /// How many requests wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The memory that they take.
    pub(super) fn bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Whether the client waits for the end of its session.
    pub(super) fn ends(&self) -> bool {
        self.waiting.iter().any(|request| matches!(request.waits, Waits::Write { op: Op::CloseSession, .. }))
    }
}
