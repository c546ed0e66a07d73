//! One numbered request of a session, and what is known of it.

use crate::effects::CallId;
use crate::votes::Votes;
use bytes::Bytes;
use quorate_types::{Seq, Time};
use quorate_wire::{ReplyStatus, RequestKind};

/// What an entry costs beside its commands, in bytes.
const ENTRY_COST: usize = 128;

/// What a call or read with this many bytes counts as, in the limit on queued bytes.
pub(crate) const fn cost(len: usize) -> usize {
    ENTRY_COST + len
}

/// What is known of a request that was over a limit, or not allowed.
#[derive(Debug)]
pub(crate) struct TooLarge {
    pub(super) detail: String,
    /// It was not allowed, rather than over a limit.
    pub(super) forbidden: bool,
    /// A copy of it may run.
    pub(super) outcome_unknown: bool,
    /// The answer to its number tells whether it ran: an empty list answers the empty request.
    pub(super) answer_tells: bool,
    /// How many copies of it may still be refused in the same way. Such a refusal says nothing about the empty request.
    pub(super) copies: u32,
}

/// What must be the same in all copies of a request, beside its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fixed {
    /// The lowest unanswered number that they name.
    pub(crate) lowest: u64,
    /// The epoch of the keys that made their tags, if they have any.
    pub(crate) epoch: u64,
}

/// One request.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The caller that waits; none after the caller gave up.
    pub(super) call: Option<CallId>,
    pub(crate) kind: RequestKind,
    pub(crate) body: Bytes,
    pub(super) deadline: Time,
    /// Copies that were sent and not refused. While there is one, the request may run.
    pub(super) open_sends: u32,
    /// The last refusal.
    pub(super) refused: Option<ReplyStatus>,
    /// It was over a limit, and an empty one took its place.
    pub(super) too_large: Option<TooLarge>,
    pub(super) done: bool,
    /// What is the same in all copies, once one was sent where replicas compare the bytes.
    pub(crate) fixed: Option<Fixed>,
    /// For a query: everything up to this seq was executed before it was asked.
    pub(super) seen: Seq,
    /// The members' answers so far, where one answer is not enough.
    pub(crate) votes: Votes,
}

impl Entry {
    pub(super) fn new(call: Option<CallId>, kind: RequestKind, body: Bytes, deadline: Time) -> Self {
        Self {
            call,
            kind,
            body,
            deadline,
            open_sends: 0,
            refused: None,
            too_large: None,
            done: false,
            fixed: None,
            seen: Seq::ZERO,
            votes: Votes::default(),
        }
    }

    /// Whether it may have changed something, or may still do so. Queries never do.
    pub(super) const fn may_run(&self) -> bool {
        self.open_sends > 0 && !matches!(self.kind, RequestKind::Query)
    }

    pub(super) fn cost(&self) -> usize {
        cost(self.body.len())
    }

    /// Replaces this request by an empty one: the number is used, and nothing runs. Returns the bytes that became free.
    ///
    /// # Panics
    /// INV-CLIENT-3 when a copy may run and the caller will not be told so.
    pub(super) fn make_empty(&mut self) -> usize {
        let told = self.too_large.as_ref().is_some_and(|too_large| too_large.outcome_unknown);
        assert!(!self.may_run() || told, "INV-CLIENT-3: what may run keeps its number and its body");
        let freed = self.body.len();
        self.fixed = None;
        self.kind = RequestKind::Empty;
        self.body = Bytes::new();
        self.refused = None;
        freed
    }
}
