//! The final state where another executor runs ahead: it takes over what that one did, without running anything.
//!
//! INV-VERIFY-1: the final state after a batch is that of the executor ahead after it. Tests: `tests/all/verified.rs`.

use super::{Chain, Executor};
use crate::agreed::Moment;
use crate::outcomes::{Outcome, Outcomes};
use crate::sessions::Handling;
use quorate_state::store::{Store, Version};
use quorate_types::Seq;
use quorate_wire::{Batch, RequestHeader, RequestKind, read_opening};

impl Executor {
    /// Another executor in the same state, with a service of its own. `None` if the service has no twin.
    pub(crate) fn twin(&mut self) -> Option<Self> {
        let service = self.service.twin()?;
        let image = self.image().ok()?;
        let mut twin = Self::new(service, self.sessions.limits().clone(), self.time);
        twin.chain = self.chain;
        twin.restore_image(&image.system, &image.objects).ok()?;
        Some(twin)
    }

    /// What was ruled about results, if they are verified.
    pub(crate) fn chain(&self) -> Option<Chain> {
        self.chain
    }

    pub(crate) fn set_chain(&mut self, chain: Chain) {
        self.chain = Some(chain);
    }

    /// The objects, if the service has them in the store.
    pub(crate) fn in_store(&self) -> Option<Version> {
        self.service.store().map(Store::version)
    }

    /// Takes over the next batch from an executor in the same state that ran it: its outcomes, and the objects after it.
    pub(crate) fn follow(
        &mut self,
        (seq, moment): (Seq, Moment),
        batch: &Batch,
        outcomes: &Outcomes,
        objects: &Version,
    ) {
        assert_eq!(seq, self.seq.next(), "INV-EXEC-1: batches are executed in order, each once");
        let Moment { time, due, .. } = moment;
        (self.seq, self.time) = (seq, time);
        self.sessions.expire(due);
        let mut done = outcomes.list().iter();
        for (header, body, _) in batch.requests().flatten() {
            if header.kind != RequestKind::System
                && let Some(outcome) = done.next()
            {
                self.follow_request(&header, body, outcome, outcomes);
            }
        }
        self.take_objects(objects);
    }

    /// Takes over the objects.
    pub(crate) fn take_objects(&mut self, objects: &Version) {
        if let Some(store) = self.service.store_mut() {
            *store = Store::from_version(objects);
        }
        self.deadline = self.service.next_deadline();
    }

    fn follow_request(
        &mut self,
        header: &RequestHeader,
        body: &[u8],
        outcome: &Outcome,
        outcomes: &Outcomes,
    ) {
        let (id, number) = (header.session, header.number);
        if header.kind == RequestKind::OpenSession {
            let (client, key) = read_opening(body);
            self.sessions.open(client, number.number(), key, self.time);
            return;
        }
        let full = outcome.body.start as u64 > self.sessions.limits().reply_bytes_per_batch_max;
        match self.sessions.handling(header) {
            Handling::Run { .. } | Handling::Overloaded if header.kind == RequestKind::CloseSession => {
                self.sessions.remove(id);
            }
            Handling::Run { .. } if !full => {
                let reply = outcomes.reply(outcome);
                self.sessions.record(id, number, reply.status, reply.body, self.time);
            }
            _ => {}
        }
    }
}
