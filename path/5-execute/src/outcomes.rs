//! How the requests of one batch ended. Stage 6 (reply) sends this to the clients that are connected to this replica.

use crate::events::Events;
use crate::nested::NestedRequest;
use quorate_types::{ClientId, RequestNumber, Seq, SessionId};
use quorate_wire::{Reply, ReplyStatus};
use std::ops::Range;

/// The outcome of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The session of the request. For an opening the new session, or none when it was refused.
    pub session: SessionId,
    /// The number of the request. For an opening the client's nonce.
    pub number: RequestNumber,
    /// The status of the request.
    pub status: ReplyStatus,
    /// Where the reply's body lies in [`Outcomes::arena`].
    pub body: Range<usize>,
    /// The client that asks for a session, if the request is an opening. Its connection is found by client and nonce, since it has no
    /// session yet.
    pub opening: Option<ClientId>,
    /// The request was repeated, and its kept reply is left out because this batch's replies are over their limit. No reply is sent; the
    /// client asks again.
    pub withheld: bool,
}

/// The outcomes of one batch, one for each request, in the batch's order, with their replies in one buffer. Reused from
/// batch to batch. Where commands ask other services, a request that is under way when its batch ends has its outcome in the batch in
/// which it ends, and one that is repeated meanwhile has none.
#[derive(Debug, Default)]
pub struct Outcomes {
    seq: Seq,
    list: Vec<Outcome>,
    arena: Vec<u8>,
    events: Option<Events>,
    nested: Vec<NestedRequest>,
    begun: Vec<(SessionId, RequestNumber)>,
}

/// A larger arena is freed once it is no longer needed.
const ARENA_KEPT: usize = 4 << 20;

impl Outcomes {
    /// Outcomes of no batch.
    pub fn new() -> Self {
        Self::default()
    }
    /// The seq of the batch.
    pub fn seq(&self) -> Seq {
        self.seq
    }
    /// All outcomes in order.
    pub fn list(&self) -> &[Outcome] {
        &self.list
    }
    /// The buffer that the outcomes' ranges refer to.
    pub fn arena(&self) -> &[u8] {
        &self.arena
    }
    /// The replies to send, in order.
    pub fn replies(&self) -> impl Iterator<Item = (&Outcome, Reply<'_>)> {
        self.list.iter().filter(|outcome| !outcome.withheld).map(|outcome| (outcome, self.reply(outcome)))
    }
    /// An outcome as the reply that the client gets.
    pub fn reply(&self, outcome: &Outcome) -> Reply<'_> {
        let body = &self.arena[outcome.body.clone()];
        Reply { session: outcome.session, number: outcome.number, status: outcome.status, body }
    }

    /// Takes the events of the batch; `None` at a second call.
    pub fn take_events(&mut self) -> Option<Events> {
        self.events.take()
    }
    /// What leaves for other services at the end of the batch, in the order of services and numbers.
    pub fn nested(&self) -> &[NestedRequest] {
        &self.nested
    }
    /// The requests that came under way in the batch, where commands may ask other services. Those that ended in it have outcomes, too.
    pub fn begun(&self) -> &[(SessionId, RequestNumber)] {
        &self.begun
    }
    pub(crate) fn begins(&mut self, session: SessionId, number: RequestNumber) {
        self.begun.push((session, number));
    }
    pub(crate) fn set_nested(&mut self, nested: Vec<NestedRequest>) {
        self.nested = nested;
    }
    pub(crate) fn events(&self) -> Option<&Events> {
        self.events.as_ref()
    }
    pub(crate) fn set_events(&mut self, events: Option<Events>) {
        self.events = events;
    }

    /// Outcomes without events, whose bodies follow each other in the arena.
    pub(crate) fn from_parts(seq: Seq, list: Vec<Outcome>, arena: Vec<u8>) -> Self {
        Self { seq, list, arena, ..Self::default() }
    }

    pub(crate) fn begin(&mut self, seq: Seq) {
        (self.seq, self.events) = (seq, None);
        self.list.clear();
        self.nested.clear();
        self.begun.clear();
        self.arena.clear();
        self.arena.shrink_to(ARENA_KEPT);
    }
    /// Adds an outcome whose body `write` appends and whose status it returns. Gives back the reply.
    pub(crate) fn push(
        &mut self,
        session: SessionId,
        number: RequestNumber,
        write: impl FnOnce(&mut Vec<u8>) -> ReplyStatus,
    ) -> Reply<'_> {
        let start = self.arena.len();
        let status = write(&mut self.arena);
        let body = start..self.arena.len();
        self.list.push(Outcome { session, number, status, body, opening: None, withheld: false });
        Reply { session, number, status, body: &self.arena[start..] }
    }
    pub(crate) fn push_opening(&mut self, client: ClientId, nonce: RequestNumber, opened: Option<SessionId>) {
        let status = if opened.is_some() { ReplyStatus::SessionOpened } else { ReplyStatus::SessionLimit };
        let session = opened.unwrap_or(SessionId::NONE);
        let body = self.arena.len()..self.arena.len();
        let opening = Some(client);
        self.list.push(Outcome { session, number: nonce, status, body, opening, withheld: false });
    }
    pub(crate) fn push_withheld(&mut self, session: SessionId, number: RequestNumber, status: ReplyStatus) {
        let body = self.arena.len()..self.arena.len();
        self.list.push(Outcome { session, number, status, body, opening: None, withheld: true });
    }
}
