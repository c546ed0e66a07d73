//! A client's connection: how far it has come, and what it waits for.
//!
//! Answers leave in the order of requests. Writes are ordered as they come; a read waits for the answers to all requests before it, which
//! are of its own session only. Tests: tests/all/server.rs.

use crate::op::Op;
use crate::tree::{Caller, Id};
use bytes::Bytes;
use quorate_types::Time;
use std::collections::VecDeque;

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
    /// The answer to a write, once there is one.
    Write { op: Op, answer: Option<Bytes> },
    /// A state that is at least as new as this transaction, once it is known.
    Sync { path: Bytes, zxid: Option<i64> },
    /// A read, or something about watches, of a state that is at least as new as this transaction, once it is known.
    Here { op: i32, request: Bytes, zxid: Option<i64> },
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
    /// When its session is over without a word from it.
    pub(super) timeout_ms: i32,
    /// Whether the client asked for, and understands, a word about reading only.
    pub(super) knows_read_only: bool,
    pub(super) heard: Time,
    /// Counts of what came, and of what was sent.
    pub(super) received: u64,
    pub(super) sent: u64,
    /// What is not answered, in the order of requests.
    waiting: VecDeque<Request>,
    /// The number of the first of these, counted from 0.
    first: u64,
    waiting_bytes: usize,
}

impl Conn {
    pub(super) fn new(ids: Vec<Id>, now: Time) -> Self {
        Self {
            stage: Stage::New,
            caller: Caller { session: 0, attached: 0, ids },
            timeout_ms: 0,
            knows_read_only: false,
            heard: now,
            received: 0,
            sent: 0,
            waiting: VecDeque::new(),
            first: 0,
            waiting_bytes: 0,
        }
    }

    /// Adds a request at the end. Returns its number.
    pub(super) fn push(&mut self, xid: i32, waits: Waits) -> u64 {
        let bytes = 64
            + match &waits {
                Waits::Here { request, .. } => request.len(),
                Waits::Sync { path, .. } => path.len(),
                Waits::Session { .. } | Waits::Write { .. } => 0,
            };
        self.waiting_bytes += bytes;
        self.waiting.push_back(Request { xid, waits, came: self.heard, bytes });
        self.first + self.waiting.len() as u64 - 1
    }

    /// The request that is answered next.
    pub(super) fn next(&self) -> Option<&Request> {
        self.waiting.front()
    }

    pub(super) fn pop(&mut self) -> Option<Request> {
        let request = self.waiting.pop_front()?;
        self.first += 1;
        self.waiting_bytes -= request.bytes;
        Some(request)
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
