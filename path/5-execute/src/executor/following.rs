//! The final state where another executor runs ahead: it takes over what that one did, without running anything.
//!
//! INV-VERIFY-1: the final state after a batch is that of the executor ahead after it. Tests: `tests/all/verified.rs`.

use super::{Chain, Executor};
use crate::agreed::Moment;
use crate::outcomes::{Outcome, Outcomes};
use crate::sessions::Handling;
use quorate_state::store::{Changed, Store, Version};
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

    /// Takes over the next batch from an executor in the same state that ran it: its outcomes, and what it changed.
    pub(crate) fn follow(
        &mut self,
        (seq, moment): (Seq, Moment),
        batch: &Batch,
        outcomes: &Outcomes,
        changed: &Changed,
    ) {
        assert_eq!(seq, self.seq.next(), "INV-EXEC-1: batches are executed in order, each once");
        let Moment { time, due, .. } = moment;
        (self.seq, self.time) = (seq, time);
        self.sessions.expire(due);
        self.neighbours.tidy(&mut self.sessions);
        let mut done = outcomes.list().iter();
        for (header, body, _) in batch.requests().flatten() {
            if header.kind != RequestKind::System
                && let Some(outcome) = done.next()
            {
                self.follow_request(&header, body, outcome, outcomes);
            }
        }
        self.apply(changed);
    }

    /// Takes over what was changed elsewhere.
    pub(crate) fn apply(&mut self, changed: &Changed) {
        if let Some(store) = self.service.store_mut() {
            store.apply(changed);
        }
        self.deadline = self.service.next_deadline();
    }

    /// What changed since the last call, if all of it was noted ([`Store::take_changed`]).
    pub(crate) fn take_changed(&mut self) -> Option<Changed> {
        self.service.store_mut()?.take_changed()
    }

    /// Holds the same objects in this version from now on.
    pub(crate) fn hold(&mut self, objects: &Version) {
        if let Some(store) = self.service.store_mut() {
            store.roll_back(objects);
        }
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
        if !self.is_for_session(header) {
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
