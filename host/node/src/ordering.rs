//! The instances: what their protocols want done is done here; what they decide goes to the merge (`merging.rs`).

use crate::effects::{Effect, Effects, Event};
use crate::engine;
use crate::gathering::Gathering;
use crate::journal::{Loaded, VolumeId, Volumes};
use crate::merging::FIRST;
use crate::node::Node;
use crate::stays::Birth;
use bytes::Bytes;
use quorate_admit::{Admission, AdmissionLimits};
use quorate_log::{DiskFull, Record};
use quorate_order::OrderMessage;
use quorate_order::{Effect as OrderEffect, Effects as OrderEffects, Input as OrderInput, Order, Stored};
use quorate_types::{Halt, InstanceId, RecordId, ReplicaId, Seq, Slot, Span, Time, View};
use std::collections::{BTreeSet, VecDeque};

/// When an instance goes to the replica whose turn it is; see `merging.rs`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread {
    /// When leadership changed last, or this was looked at.
    since: Time,
    /// How often it was looked at in vain, or came back.
    times: u32,
    /// It is this replica's turn.
    pub(crate) settled: bool,
}

impl Spread {
    fn began(&mut self, now: Time) {
        (self.since, self.settled) = (now, false);
    }

    pub(crate) fn since(self) -> Time {
        self.since
    }

    pub(crate) fn looked(&mut self, now: Time, in_vain: bool) {
        (self.since, self.times) = (now, if in_vain { self.times.saturating_add(1) } else { 0 });
    }

    /// When to look again: later each time.
    pub(crate) fn due(self, after: Span, most: Span) -> Time {
        let nanos = after.nanos().saturating_mul(1 << self.times.min(16));
        self.since.plus(Span::from_nanos(nanos.min(most.nanos())))
    }
}

/// A message that may not leave yet.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// The instance's record that must be durable first.
    pub(crate) after: RecordId,
    to: ReplicaId,
    message: OrderMessage,
}

/// One instance of the ordering protocol, with what ties it to the log.
pub(crate) struct Instance {
    pub(crate) id: InstanceId,
    /// What clients want of it, while it leads here.
    pub(crate) admission: Admission,
    /// How long it waits for them, if it agrees on one slot at a time.
    pub(crate) gathering: Gathering,
    pub(crate) order: Box<dyn Order>,
    /// How often it left the cluster and came back.
    pub(crate) stay: u64,
    /// Where this stay begins, if it is not the first one.
    pub(crate) birth: Option<Birth>,
    /// The log does not say that yet.
    pub(crate) unborn: bool,
    /// It takes no part any more, behind this seq.
    pub(crate) away: Option<Seq>,
    /// And says nothing any more.
    pub(crate) asleep: bool,
    /// Takes part: before that it hears and says nothing.
    pub(crate) started: bool,
    effects: OrderEffects,
    /// Where its records are.
    pub(crate) volume: VolumeId,
    pub(crate) waiting: VecDeque<Waiting>,
    pub(crate) leader: (View, Option<ReplicaId>),
    /// Members that its messages get to, and back from.
    pub(crate) connected: BTreeSet<ReplicaId>,
    /// The last of its records that the protocol knows to be durable, and what of the log was durable when that was looked up.
    durable: RecordId,
    seen: RecordId,
    /// It was stepped, or has another place in the merge, since what it wants was done last.
    pub(crate) touched: bool,
    /// The last that was handed to the merge, as the protocol counts.
    pub(crate) decided: Slot,
    /// A checkpoint that was installed before the protocol began.
    pub(crate) installed: Option<OrderInput>,
    /// Leads here since it had decided this: what commands to the engine there were before is known once that is executed.
    pub(crate) settled_at: Option<Slot>,
    /// Since when it leads here, and when to hand it to the replica whose turn it is.
    pub(crate) spread: Spread,
}

impl Instance {
    pub(crate) fn new(
        id: InstanceId,
        order: Box<dyn Order>,
        admission: AdmissionLimits,
        volume: VolumeId,
    ) -> Self {
        Self {
            id,
            admission: Admission::new(admission),
            gathering: Gathering::default(),
            order,
            stay: 0,
            birth: None,
            unborn: false,
            away: None,
            asleep: false,
            started: false,
            effects: OrderEffects::new(),
            volume,
            waiting: VecDeque::new(),
            leader: (View::ZERO, None),
            connected: BTreeSet::new(),
            durable: RecordId::ZERO,
            seen: RecordId::ZERO,
            touched: false,
            decided: Slot::ZERO,
            installed: None,
            settled_at: None,
            spread: Spread::default(),
        }
    }

    /// Takes back a record of an earlier run, the log's record `id`.
    pub(crate) fn restore(
        &mut self,
        volumes: &mut Volumes,
        id: RecordId,
        record: Record,
    ) -> Result<(), Halt> {
        let own = volumes.restore(self.volume, id);
        self.durable = own;
        self.order.restore(own, Stored { kind: record.kind, head: record.head, payload: record.payload })
    }

    pub(crate) fn start(&mut self, now: Time) {
        (self.started, self.touched) = (true, true);
        self.order.start(now, &mut self.effects);
        if let Some(installed) = self.installed.take() {
            self.order.step(now, installed, &mut self.effects);
        }
    }

    pub(crate) fn step(&mut self, now: Time, input: OrderInput) {
        if self.started {
            self.touched = true;
            self.order.step(now, input, &mut self.effects);
        }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        if !self.started {
            return None;
        }
        [self.order.deadline(), self.gathering.deadline()].into_iter().flatten().min()
    }
}

impl Node {
    /// Hands an instance an input. What it wants done then is done by [`Self::after_order`].
    pub(crate) fn step_in(&mut self, at: usize, now: Time, input: OrderInput) {
        self.instances[at].step(now, input);
    }

    /// The same, of all instances that lead here.
    pub(crate) fn step_led(&mut self, now: Time, input: &OrderInput) {
        for instance in self.instances.iter_mut().filter(|instance| instance.order.standing().leading) {
            instance.step(now, input.clone());
        }
    }

    /// The same, of all that take part in the cluster.
    pub(crate) fn step_present(&mut self, now: Time, input: &OrderInput) {
        for instance in self.instances.iter_mut().filter(|instance| instance.away.is_none()) {
            instance.step(now, input.clone());
        }
    }

    /// Does what the protocols want done, until nothing is left.
    pub(crate) fn after_order(&mut self, now: Time, out: &mut Effects) {
        let mut quiet = 0;
        let mut at = 0;
        while quiet < self.instances.len() {
            quiet = if self.drain(at, now, out) { 0 } else { quiet + 1 };
            at = (at + 1) % self.instances.len();
        }
        for at in 0..self.instances.len() {
            self.release(at, out);
        }
    }

    /// Does what one protocol wants done. Whether there was anything.
    fn drain(&mut self, at: usize, now: Time, out: &mut Effects) -> bool {
        let durable = self.journal.log().durable();
        let instance = &mut self.instances[at];
        if !std::mem::take(&mut instance.touched) && instance.seen == durable && instance.effects.is_empty() {
            return false;
        }
        let mut any = false;
        loop {
            let mut effects = std::mem::take(&mut self.instances[at].effects);
            let stay = self.instances[at].stay;
            for effect in effects.drain() {
                any = true;
                // What was decided may have begun another stay: what this one wants does not matter any more.
                if self.instances[at].stay == stay {
                    self.on_order_effect(at, now, effect, out);
                }
            }
            let instance = &mut self.instances[at];
            if instance.effects.is_empty() {
                instance.effects = effects;
            }
            let durable = self.journal.log().durable();
            if std::mem::replace(&mut instance.seen, durable) != durable
                && let Some(durable) = self.journal.newly_durable(instance.volume)
            {
                instance.durable = durable;
                instance.step(now, OrderInput::Durable(durable));
            }
            if instance.effects.is_empty() {
                break;
            }
        }
        let instance = &mut self.instances[at];
        instance.touched = false;
        if instance.order.standing().settled {
            instance.settled_at.get_or_insert(instance.decided);
            self.engine.step(engine::In::Settled(instance.id));
        }
        any
    }

    fn on_order_effect(&mut self, at: usize, now: Time, effect: OrderEffect, out: &mut Effects) {
        let instance = &mut self.instances[at];
        match effect {
            OrderEffect::Persist { id, record, vital } => {
                self.journal.persist((instance.volume, id), instance.id, record, vital, out);
            }
            OrderEffect::Send { to, message, after: Some(after) } if after > instance.durable => {
                instance.waiting.push_back(Waiting { after, to, message });
            }
            OrderEffect::Send { to, message, .. } => self.send(at, to, &message, out),
            OrderEffect::Decided { slot, batch } => self.on_decided(at, now, slot, batch, out),
            OrderEffect::Behind { slot } => self.on_behind(at, now, slot, out),
            OrderEffect::Examine { slot, digest, batch } => self.on_examine(at, slot, digest, batch, out),
            OrderEffect::Overdue { request } => self.on_overdue(request, out),
            OrderEffect::Members { memberships, .. } => self.on_members(at, memberships),
            OrderEffect::LeaderChanged { view, leader, rotated } => {
                self.on_leader_changed(at, now, (view, leader), rotated, out);
            }
            OrderEffect::ReadConfirmed { read, slot } => self.on_read_confirmed(at, read, slot),
            OrderEffect::ReadFailed { read } => self.engine.step(engine::In::ReadFailed(read)),
            OrderEffect::Load { load, records } => self.journal.load(instance.volume, load, &records, out),
            OrderEffect::Rejected { from, why } => {
                self.rejected += 1;
                self.intake.note(now, from, &why);
                out.event(Event::Refused {
                    text: format!("{from} sent what the protocol does not know: {why}"),
                });
            }
            OrderEffect::Halt(halt) => out.push(Effect::Halt(halt)),
        }
    }

    fn send(&self, at: usize, to: ReplicaId, message: &OrderMessage, out: &mut Effects) {
        // A message to somebody who is not connected is lost, as it would be on the way.
        if let Some(conn) = self.peers.way(to, at) {
            out.send(conn, message.frame(self.instances[at].id));
        }
    }

    /// Lets the messages go whose records are durable.
    fn release(&mut self, at: usize, out: &mut Effects) {
        let durable = self.instances[at].durable;
        while self.instances[at].waiting.front().is_some_and(|wait| wait.after <= durable) {
            if let Some(Waiting { to, message, .. }) = self.instances[at].waiting.pop_front() {
                self.send(at, to, &message, out);
            }
        }
    }

    /// Something was written or synced.
    pub(crate) fn on_durable(&mut self, now: Time, out: &mut Effects) {
        self.after_order(now, out);
        self.trim_log(out);
    }

    pub(crate) fn on_prepared(
        &mut self,
        now: Time,
        segment: u64,
        result: Result<(), DiskFull>,
        out: &mut Effects,
    ) {
        self.journal.prepared(now, segment, result, out);
        self.after_order(now, out);
    }

    pub(crate) fn on_loaded(&mut self, now: Time, load: u64, records: &[Bytes], out: &mut Effects) {
        match self.journal.loaded(load, records) {
            None => {}
            Some(Ok(Loaded { volume, load, records })) => {
                let all = self.instances.iter_mut();
                for instance in all.filter(|instance| instance.volume == volume) {
                    instance.step(now, OrderInput::Loaded { load, records: records.clone() });
                }
                self.after_order(now, out);
            }
            Some(Err(halt)) => out.push(Effect::Halt(halt)),
        }
    }

    /// Volumes of stays that nobody knows any more go.
    pub(crate) fn close_volumes(&mut self) {
        let live: BTreeSet<VolumeId> = self.stays().map(|instance| instance.volume).collect();
        self.journal.retain_volumes(|volume| live.contains(&volume));
    }

    fn on_leader_changed(
        &mut self,
        at: usize,
        now: Time,
        (view, leader): (View, Option<ReplicaId>),
        rotated: bool,
        out: &mut Effects,
    ) {
        let many = self.instances.len() > 1;
        let instance = &mut self.instances[at];
        if (view, leader) == instance.leader {
            return;
        }
        instance.leader = (view, leader);
        if at == FIRST {
            self.engine.led(now, leader.is_some());
        }
        let instance = &mut self.instances[at];
        instance.admission.reset();
        instance.gathering.reset();
        instance.settled_at = None;
        instance.spread.began(now);
        let id = instance.id;
        self.engine.step(engine::In::Led(id, self.role_of(leader)));
        out.event(Event::Leader { view: view.number(), leader, instance: many.then_some(id) });
        self.intake_led(now, at, rotated);
        if self.may_lie() {
            // Clients ask all replicas, whoever leads, and some of them the leader first.
            for conn in self.peers.clients() {
                out.send(conn, self.leader_notice(conn).frame());
            }
            return;
        }
        for conn in self.peers.clients() {
            // Whoever waits here asks the new leader again, which then answers.
            if !many || self.bindings.is_bound(conn, at) {
                self.engine.step(engine::In::Unbound(conn));
            }
        }
        self.tell_clients(many.then_some(at), out);
        self.bindings.forget_instance(at);
    }
}
