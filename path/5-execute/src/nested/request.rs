//! Requests under way: those that began, or wait for their turn, and have not ended.

use super::call::Want;
use super::chain::Chain;
use super::journal::Journal;
use super::runner::Runner;
use super::service::Answer;
use crate::context::Context;
use bytes::Bytes;
use quorate_types::{Items, RequestNumber, SessionId};
use quorate_wire::RequestKind;
use std::collections::{BTreeMap, BTreeSet};

/// A request's place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) seq: u64,
    /// Its index in the batch; those of other services follow those of clients.
    pub(super) index: u32,
}

/// What a request waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// Its turn.
    Turn,
    /// The end of its session's request before it.
    Session,
    Lock(Bytes),
    /// The answer to the question with this number.
    Answer(u32),
}

/// A request under way.
pub(super) struct Request {
    pub(super) number: RequestNumber,
    pub(super) kind: RequestKind,
    pub(super) ctx: Context,
    pub(super) chain: Chain,
    pub(super) body: Bytes,
    /// The replies to the commands before the present one, and their bytes.
    pub(super) replies: Vec<Bytes>,
    pub(super) replies_bytes: usize,
    pub(super) journal: Journal,
    /// Answers that are there and were not taken.
    pub(super) answers: BTreeMap<u32, Answer>,
    /// Questions without an answer.
    pub(super) open: BTreeSet<u32>,
    pub(super) locks: BTreeSet<Bytes>,
    pub(super) halt: Halt,
    pub(super) runner: Option<Runner>,
}

impl Request {
    pub(super) fn new(
        (number, kind): (RequestNumber, RequestKind),
        body: Bytes,
        ctx: Context,
        chain: Chain,
    ) -> Self {
        Self {
            number,
            kind,
            ctx,
            chain,
            body,
            replies: Vec::new(),
            replies_bytes: 0,
            journal: Journal::default(),
            answers: BTreeMap::new(),
            open: BTreeSet::new(),
            locks: BTreeSet::new(),
            halt: Halt::Turn,
            runner: None,
        }
    }

    pub(super) fn session(&self) -> SessionId {
        self.ctx.session()
    }

    /// The index of the present command in the request.
    pub(super) fn command(&self) -> u32 {
        self.replies.len() as u32
    }

    /// The commands that have not ended; the first one is the present one.
    pub(super) fn commands(&self) -> Vec<Bytes> {
        let commands = Items::parse(&self.body).expect("INV-EXEC-2: commands are a list");
        commands.iter().skip(self.replies.len()).map(|command| self.body.slice_ref(command)).collect()
    }

    /// How many bytes count for it.
    pub(super) fn bytes(&self) -> u64 {
        let answers: usize = self.answers.values().map(Answer::content_len).sum();
        128 + (self.body.len() + self.replies_bytes + answers) as u64 + self.journal.bytes()
    }

    /// Takes over the reply to the present command, and begins with the next one. Of replies that are longer than `replies_max` bytes together,
    /// which is too long to be sent, it keeps so many and one more.
    pub(super) fn end_command(&mut self, mut reply: Vec<u8>, replies_max: usize) {
        reply.truncate((replies_max + 1).saturating_sub(self.replies_bytes));
        self.replies_bytes += reply.len();
        self.replies.push(reply.into());
        self.journal = Journal::default();
        self.answers.clear();
        self.open.clear();
        self.halt = Halt::Turn;
        self.runner = None;
    }

    /// Whether a question with this number was asked and its answer not taken.
    pub(super) fn awaits(&self, ticket: u32) -> bool {
        self.open.contains(&ticket) || self.answers.contains_key(&ticket)
    }
}

impl From<Want> for Halt {
    fn from(want: Want) -> Self {
        match want {
            Want::Nothing => Self::Turn,
            Want::Lock(name) => Self::Lock(name),
            Want::Answer(ticket) => Self::Answer(ticket),
        }
    }
}
