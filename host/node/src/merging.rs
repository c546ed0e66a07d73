//! What the instances decide becomes one global log, which is executed (docs/protocols/merge.md).
//!
//! Instance 1 carries what is about all of them: commands to the engine itself, and borders that somebody asks for. Clients are bound to an
//! instance that leads here, by connection, so that what one connection sends stays in order.
//!
//! Tests: check/sim, front/cli/tests/all/instances.rs, `merging/tests.rs`.

use crate::effects::{Effect, Effects};
use crate::engine::{self, Done};
use crate::gate::lane_of;
use crate::group::{Group, index_of};
use crate::node::Node;
use crate::status::{InstanceStatus, InstancesStatus};
use quorate_merge::{INSTANCES_MAX, Position, RecordIndex, SLOT_MAX};
use quorate_order::Input as OrderInput;
use quorate_types::{ClientId, ConnId, InstanceId, ReplicaId, Seq, SessionId, Slot, Time};
use quorate_wire::{Batch, ReplyStatus, fill_frame, read_fill};

/// The instance that carries what is about all of them.
pub(crate) const FIRST: usize = 0;

impl Node {
    /// An instance decided its next record.
    pub(crate) fn on_decided(&mut self, at: usize, now: Time, slot: Slot, batch: Batch, out: &mut Effects) {
        let id = self.groups[at].id();
        if let Err(halt) = self.engine.decided(id, slot, batch) {
            return out.push(Effect::Halt(halt));
        }
        self.deliver(now, out);
    }

    /// Executes what is known of the global log.
    pub(crate) fn deliver(&mut self, now: Time, out: &mut Effects) {
        while let Some(done) = self.engine.next(now) {
            if let Done::Batch { seq, instance, batch } = done {
                self.on_batch(now, seq, instance, &batch, out);
            }
            self.look_at_generation(now, out);
        }
    }

    /// A batch was executed.
    fn on_batch(&mut self, now: Time, seq: Seq, instance: InstanceId, batch: &Batch, out: &mut Effects) {
        self.on_system(now, batch, out);
        self.learn_time(now);
        let at = index_of(instance);
        self.answer_admission(at);
        // What a diverged replica computes is not what the cluster did: its clients hear it from another one.
        if !self.keeping.has_diverged() {
            // Where replicas may lie, a client counts what each of them says.
            let own = self.may_lie() || self.proposed_here(at);
            let members = self.config.members.all().len();
            let replies = self.trust().answers() as usize;
            let place = self.config.members.place();
            // Who asks again is answered by all.
            let answers =
                |session: SessionId| (place + members - session.index as usize % members) % members < replies;
            self.engine.reply(own, answers);
        }
        self.heard_executed();
        self.guide.executed(self.groups.len(), &self.engine);
        self.on_executed(now, seq, batch, out);
    }

    /// Whether the batch of this instance that was taken off the merge last was proposed here, in the view in which it leads now.
    fn proposed_here(&self, at: usize) -> bool {
        let Some(instance) = self.groups.get(at) else { return false };
        let leads = instance.leader() == Some(self.config.members.me());
        let before = instance.lead().settled_at().filter(|_| leads);
        let taken = self.engine.merge().delivered_record(instance.id());
        before.zip(taken).is_some_and(|(before, record)| record.0 > before.number())
    }

    /// What came through an instance that leads here is not in flight any more where execution did not take it.
    fn answer_admission(&mut self, at: usize) {
        let me = self.config.members.me();
        let Some(instance) = self.groups.get_mut(at).filter(|instance| instance.leader() == Some(me)) else {
            return;
        };
        for outcome in self.engine.outcomes() {
            match (outcome.opening, outcome.status) {
                (Some(client), _) => {
                    instance.admission_mut().opened(ClientId::number(client), outcome.number.number())
                }
                (
                    None,
                    ReplyStatus::ExpectedNumber | ReplyStatus::Overloaded | ReplyStatus::SessionExpired,
                ) => {
                    instance.admission_mut().refused(outcome.session, outcome.number);
                }
                (None, _) => {}
            }
        }
    }

    /// The instance that carries what is about all of them.
    pub(crate) fn first(&self) -> &Group {
        &self.groups[FIRST]
    }

    /// Whether an instance that leads here may propose one more batch.
    pub(crate) fn may_propose(&self, at: usize) -> bool {
        let instance = &self.groups[at];
        instance.standing().leading && self.engine.merge().room(instance.id()) > 0
    }

    /// Proposes a batch in an instance that may.
    pub(crate) fn propose_in(&mut self, at: usize, now: Time, batch: Batch, out: &mut Effects) {
        self.engine.step(engine::In::Proposed(self.groups[at].id()));
        self.step_in(at, now, OrderInput::Propose(batch));
        self.after_order(now, out);
    }

    /// Whether this replica leads an instance, as far as it knows.
    pub fn leads(&self) -> bool {
        let me = Some(self.config.members.me());
        let present = self.groups.iter().filter(|instance| instance.stay().is_present());
        present.map(|instance| instance.leader()).any(|leader| leader == me)
    }

    /// At the end of a turn: no-ops where something waits for them, and questions to leaders elsewhere.
    pub(crate) fn fill(&mut self, now: Time, out: &mut Effects) {
        if self.groups.len() == 1 {
            return;
        }
        for at in 0..self.groups.len() {
            if !self.groups[at].standing().leading {
                continue;
            }
            if let Some(target) = self.engine.fill(self.groups[at].id()) {
                self.step_in(at, now, OrderInput::Propose(Batch::no_op(target)));
                self.after_order(now, out);
            }
        }
        let (instances, peers) = (&self.groups, self.gate.peers());
        let mut told: Vec<ReplicaId> = Vec::new();
        self.engine.asks(|instance, place| {
            let Some(leader) = instances.of(instance).and_then(|instance| instance.leader()) else { return };
            if let Some(conn) = peers.to(leader).filter(|_| !told.contains(&leader)) {
                told.push(leader);
                out.send(conn, fill_frame(place.slot, place.instance));
            }
        });
    }

    /// Another replica waits for instances that lead here.
    pub(crate) fn on_fill(
        &mut self,
        now: Time,
        (conn, from): (ConnId, ReplicaId),
        payload: &[u8],
        out: &mut Effects,
    ) {
        match read_fill(payload) {
            // The last of all instances stands for the whole slot, however many there are.
            Ok((slot, instance))
                if (1..=INSTANCES_MAX).contains(&instance.number()) && slot.number() <= SLOT_MAX =>
            {
                let trust = self.trust();
                self.engine.step(engine::In::Wanted(from, Position { slot, instance }, trust));
            }
            Ok((slot, instance)) => {
                self.reject(now, conn, format!("there is no place {slot} of {instance}"), out)
            }
            Err(why) => self.reject(now, conn, why.to_string(), out),
        }
    }

    /// A member is there again, or was lost: what it was asked is asked again.
    pub(crate) fn ask_again(&mut self, replica: ReplicaId) {
        for instance in self.groups.iter().filter(|instance| instance.leader() == Some(replica)) {
            self.engine.step(engine::In::AskAgain(instance.id()));
        }
    }

    /// Asks a leader for all strong reads that wait for one.
    pub(crate) fn ask_for_reads(&mut self, now: Time, out: &mut Effects) {
        if let Some(group) = self.engine.take_reads() {
            self.ask_for_read(group, now);
            self.after_order(now, out);
        }
        for group in self.engine.confirm_reads() {
            self.ask_for_read(group, now);
            self.after_order(now, out);
        }
    }

    fn ask_for_read(&mut self, group: u64, now: Time) {
        let has_leader =
            |id: InstanceId| self.groups.of(id).is_some_and(|instance| instance.leader().is_some());
        let through = self.engine.read_through(has_leader);
        let at = through.map_or(FIRST, index_of);
        self.step_in(at, now, OrderInput::Read(group));
    }

    pub(crate) fn on_read_confirmed(&mut self, at: usize, group: u64, slot: Slot) {
        let instance = self.groups[at].id();
        self.engine.step(engine::In::ReadConfirmed(group, instance, RecordIndex(slot.number())));
    }

    /// Bytes that were admitted and are not decided.
    pub(crate) fn queue_bytes(&self) -> usize {
        self.groups.iter().map(Group::queue_bytes).sum()
    }

    pub(crate) fn instances_status(&self) -> InstancesStatus {
        let (merge, counts) = (self.engine.merge().status(self.now), self.engine.merge().counts());
        let each = self.groups.iter().zip(&merge.instances).map(|(instance, at)| InstanceStatus {
            instance: instance.id().number(),
            lane: 1 + lane_of(index_of(instance.id()), self.config.lanes),
            view: instance.view().number(),
            leader: instance.leader().map(ReplicaId::number),
            leading: instance.standing().leading,
            clients: self.guide.count(index_of(instance.id())),
            decided: at.decided.number(),
            waited_ms: at.waited.millis(),
            state: self.state_of(instance.id()),
        });
        let next = self.engine.merge().next_generation();
        InstancesStatus {
            count: self.engine.merge().generation().instances,
            changing_to: next.map(|next| next.instances),
            border: next.map(|next| next.first.previous().number()),
            noop_share: counts.noop_share(),
            skew: merge.skew,
            waits_for: merge.waits.map(|waits| waits.instance.number()),
            each: each.collect(),
        }
    }

    fn state_of(&self, id: InstanceId) -> &'static str {
        let here = id.number() <= self.engine.merge().generation().instances;
        match (here, self.engine.merge().stays(id)) {
            (true, true) => "here",
            (true, false) => "leaves",
            (false, true) => "comes",
            (false, false) => "away",
        }
    }
}

#[cfg(test)]
mod tests;
