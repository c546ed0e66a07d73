//! Where commands may ask other services: requests come under way, answers have their places, and nested requests leave with the outcomes of
//! their batch. All of it is in [`Nested`]; here it meets the sessions and the batch.

use super::{Executor, answer};
use crate::checkpoint::CheckpointError;
use crate::context::Context;
use crate::neighbours::Neighbours;
use crate::nested::{
    Answered, Arrival, Chain, Ground, Nested, NestedCounts, NestedPart, NestedReport, NestedRequest,
    ServiceId,
};
use crate::outcomes::Outcomes;
use crate::sessions::{Handling, SessionTable};
use bytes::Bytes;
use quorate_types::{AgreedTime, RequestNumber, Seq, planted};
use quorate_wire::{
    NeighbourCommand, Relation, ReplyStatus, RequestHeader, RequestKind, RequestProof, split_answer,
    split_nested,
};

impl Executor {
    /// Does something with the requests under way, if commands may ask other services.
    fn with_nested<T>(
        &mut self,
        out: &mut Outcomes,
        work: impl FnOnce(&mut Nested, &mut Ground<'_>) -> T,
    ) -> Option<T> {
        let nested = self.nested.as_mut()?;
        let (service, sessions, time) = (&mut *self.service, &mut self.sessions, self.time);
        Some(work(nested, &mut Ground { service, sessions, out, time }))
    }

    /// A batch begins: what was not answered in time is not known.
    pub(super) fn begin_nested(&mut self, ctx: Context, count: u32, due: AgreedTime, out: &mut Outcomes) {
        self.with_nested(out, |nested, ground| {
            nested.begin(ctx, count);
            nested.due(due, ground);
        });
    }

    /// A request of a batch, where commands may ask other services. Gives the answer that it brings, if it is one and counts.
    pub(super) fn take_up(
        &mut self,
        header: &RequestHeader,
        body: &[u8],
        ctx: Context,
        out: &mut Outcomes,
    ) -> Option<Arrival> {
        if !self.is_for_session(header) {
            out.push(header.session, header.number, |_| ReplyStatus::SessionExpired);
            return None;
        }
        match header.kind {
            RequestKind::Answer => {
                let answered = self.answered(header, body)?;
                // It takes its number as any request does, so it counts once.
                self.run(header, body, &ctx, None, out).then_some(Arrival::Answer(answered))
            }
            RequestKind::Nested => {
                let (chain, commands) = split_nested(body)?;
                let chain = Chain::of(chain.map(ServiceId).collect());
                let len = commands.len() as u32;
                let header = RequestHeader { kind: RequestKind::Commands, len, ..*header };
                self.accept(&header, commands, ctx, chain, out);
                None
            }
            _ => {
                self.accept(header, body, ctx, Chain::client(), out);
                None
            }
        }
    }

    /// The answer in a request of a backend's session.
    fn answered(&self, header: &RequestHeader, body: &[u8]) -> Option<Answered> {
        let (known, session) = self.neighbours.of_session(header.session)?;
        let number = RequestNumber::new(known.neighbour.position(session, header.number.number()));
        let (status, body) = split_answer(body)?;
        let body = Bytes::copy_from_slice(body);
        Some(Answered { backend: ServiceId(known.neighbour.service), number, status, body })
    }

    /// Whether a request is of the kind that its session is for: nested requests are for callers, and answers for backends. A forgotten
    /// neighbour has no more requests.
    pub(super) fn is_for_session(&self, header: &RequestHeader) -> bool {
        let owner = match header.kind {
            RequestKind::Nested => Relation::Caller,
            RequestKind::Answer => Relation::Backend,
            // No client owns a session of a neighbour.
            _ => return true,
        };
        let known = self.neighbours.of_session(header.session);
        known.is_some_and(|(known, _)| known.neighbour.relation == owner && !known.leaves)
    }

    /// Another service becomes a neighbour, or is none any more, right behind the batch that says so.
    ///
    /// # Errors
    /// The reason why nothing changes.
    pub fn neighbour(&mut self, command: &NeighbourCommand) -> Result<(), String> {
        self.neighbours.carry_out(command, &mut self.sessions, self.time)
    }

    /// The number of this service, if its commands may ask others.
    pub fn service_id(&self) -> Option<ServiceId> {
        self.nested.as_ref().map(|nested| nested.service_id())
    }

    /// The services that this one asks, and those that ask it.
    pub fn neighbours(&self) -> &Neighbours {
        &self.neighbours
    }

    /// A request comes under way, unless its session does not take it.
    pub(super) fn accept(
        &mut self,
        header: &RequestHeader,
        body: &[u8],
        ctx: Context,
        chain: Chain,
        out: &mut Outcomes,
    ) {
        let Some(nested) = &self.nested else { return };
        let is_full = nested.is_full(body);
        let full = out.arena().len() as u64 > self.sessions.limits().reply_bytes_per_batch_max;
        let (id, number) = (header.session, header.number);
        let closes = header.kind == RequestKind::CloseSession;
        let client = match self.sessions.handling(header) {
            Handling::UnderWay => return,
            // Closing frees what the session keeps, so it needs no room.
            Handling::Run { .. } | Handling::Overloaded if closes => None,
            Handling::Run { .. } if full || is_full => {
                out.push(id, number, |_| ReplyStatus::Overloaded);
                return;
            }
            Handling::Run { client } => Some(client),
            handling => return answer(id, number, handling, full, out),
        };
        let Some(client) = client.or_else(|| self.sessions.client(id)) else { return };
        let place = (ctx.with_session(client, id), chain);
        out.begins(id, number);
        self.with_nested(out, |nested, ground| nested.accept(header, body, place, ground));
    }

    /// What a batch brings from other services, after its requests.
    pub(crate) fn hear(&mut self, arrivals: &[Arrival], out: &mut Outcomes) {
        for arrival in arrivals {
            match arrival {
                Arrival::Answer(answered) => {
                    self.with_nested(out, |nested, ground| nested.answered(answered, ground));
                }
                Arrival::Request(session, request) => {
                    let NestedRequest { number, lowest_unanswered, chain, commands, .. } = request;
                    let header = RequestHeader {
                        session: *session,
                        number: *number,
                        lowest_unanswered: *lowest_unanswered,
                        kind: RequestKind::Commands,
                        len: commands.len() as u32,
                        proof: RequestProof::None,
                    };
                    let Some(nested) = &mut self.nested else { return };
                    let ctx = nested.next_ctx();
                    self.accept(&header, commands, ctx, chain.clone(), out);
                }
            }
        }
    }

    /// The batch ends, with all that is final together with it: nested requests leave.
    pub(crate) fn close(&mut self, out: &mut Outcomes) {
        if self.nested.is_some()
            && let Some(requests) = self.with_nested(out, |nested, ground| nested.close(ground))
        {
            out.set_nested(requests);
        }
    }

    /// The requests under way of a checkpoint.
    pub(super) fn restored_nested(
        &mut self,
        seq: Seq,
        time: AgreedTime,
        part: Option<NestedPart>,
        sessions: &mut SessionTable,
    ) -> Result<Option<Box<Nested>>, CheckpointError> {
        let restored = match (self.service.journaled(), part) {
            (None, None) => return Ok(None),
            (Some((service, _)), Some(part)) => Nested::restored(service, part, sessions, time)?,
            (Some(_), None) => {
                return Err(CheckpointError::Malformed(
                    "no requests under way, of a service that asks others",
                ));
            }
            (None, Some(_)) => {
                return Err(CheckpointError::Malformed("requests under way, of a service that asks nobody"));
            }
        };
        #[cfg_attr(not(planted), allow(unused_mut))]
        let mut restored = Box::new(restored);
        if planted("lock-kept-over-a-rollback") && seq < self.seq {
            #[cfg(planted)]
            self.nested.iter().for_each(|before| restored.keep_locks(before));
        }
        if let Some(before) = &self.nested {
            restored.go_on_from(before);
        }
        Ok(Some(restored))
    }

    /// The nested requests without an answer, as they left: what a host sends again after a restart.
    pub fn unanswered(&self) -> impl Iterator<Item = NestedRequest> {
        self.nested.iter().flat_map(|nested| nested.unanswered())
    }

    /// How many requests are under way.
    pub fn under_way(&self) -> usize {
        self.nested.as_ref().map_or(0, |nested| nested.under_way())
    }

    /// Numbers about nested requests, if commands may ask other services.
    pub fn nested_counts(&self) -> Option<NestedCounts> {
        self.nested.as_ref().map(|nested| nested.counts())
    }

    /// Takes the reports of commands that were ended; the first 64 since the last call.
    pub fn take_reports(&mut self) -> Vec<NestedReport> {
        self.nested.as_mut().map(|nested| nested.take_reports()).unwrap_or_default()
    }

    /// At most so many commands stay running between their legs from now on; the others run again from their journals. Each replica chooses for
    /// itself, and nothing but time depends on it.
    pub fn keep_running(&mut self, most: usize) {
        if let Some(nested) = &mut self.nested {
            nested.keep_running(most);
        }
    }
}
