//! The instance: what its protocol wants done is done here, and what it decides is executed.

use crate::effects::{Effect, Effects, Event};
use crate::node::{INSTANCE, Node};
use crate::records::RecordMap;
use bytes::Bytes;
use quorate_log::{AppendError, Class, DiskFull, Log, Place, Record};
use quorate_order::{Effect as OrderEffect, Effects as OrderEffects, Input as OrderInput, Order, Stored};
use quorate_types::{ClientId, Halt, RecordId, ReplicaId, Seq, Slot, Time, View, planted};
use quorate_wire::raft::{EntryBody, RaftMessage};
use quorate_wire::{Batch, OrderMessage, ReplyStatus, Verified};
use std::collections::{BTreeMap, VecDeque};

/// More than a protocol's own part of a batch's record takes.
const ENTRY_HEAD_MAX: u64 = 64;

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
    pub(crate) order: Box<dyn Order>,
    /// Takes part: before that it hears and says nothing.
    pub(crate) started: bool,
    effects: OrderEffects,
    pub(crate) records: RecordMap,
    /// Records that found no room; everything persisted later waits behind them.
    unwritten: VecDeque<(RecordId, Record, Class)>,
    pub(crate) waiting: VecDeque<Waiting>,
    /// Records being read back.
    loads: BTreeMap<u64, Vec<Place>>,
    pub(crate) leader: (View, Option<ReplicaId>),
    /// The last of its records that the protocol knows to be durable.
    durable: RecordId,
    pub(crate) decided: Slot,
    /// A checkpoint that was installed before the protocol began.
    pub(crate) installed: Option<OrderInput>,
}

impl Instance {
    pub(crate) fn new(order: Box<dyn Order>) -> Self {
        Self {
            order,
            started: false,
            effects: OrderEffects::new(),
            records: RecordMap::default(),
            unwritten: VecDeque::new(),
            waiting: VecDeque::new(),
            loads: BTreeMap::new(),
            leader: (View::ZERO, None),
            durable: RecordId::ZERO,
            decided: Slot::ZERO,
            installed: None,
        }
    }

    pub(crate) fn restore(&mut self, id: RecordId, record: Record) -> Result<(), Halt> {
        if record.instance != INSTANCE {
            let why =
                format!("record {id} belongs to instance {}, which does not exist here", record.instance);
            return Err(Halt::LogInconsistent { why });
        }
        let own = self.durable.next();
        self.records.push(own, id);
        self.durable = own;
        self.order.restore(own, Stored { kind: record.kind, head: record.head, payload: record.payload })
    }

    pub(crate) fn start(&mut self, now: Time) {
        self.started = true;
        self.order.start(now, &mut self.effects);
        if let Some(installed) = self.installed.take() {
            self.order.step(now, installed, &mut self.effects);
        }
    }

    pub(crate) fn step(&mut self, now: Time, input: OrderInput) {
        if self.started {
            self.order.step(now, input, &mut self.effects);
        }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        if self.started { self.order.deadline() } else { None }
    }

    /// Whether what a message makes us persist has room. Entries without room are dropped as if lost on the way, while votes,
    /// heartbeats and the first record of a view pass: replicas with full disks still elect a leader, and it confirms reads.
    ///
    /// By the sizes of the entries, while a leader takes requests only as long as a block of any size fits: what it took fits
    /// the others, too, so that a new leader finds a majority that can hold what it has.
    pub(crate) fn fits(&self, log: &Log, message: &Verified<OrderMessage>) -> bool {
        let OrderMessage::Raft(RaftMessage::AppendEntries { entries, .. }) = message.message() else {
            return true;
        };
        let batches = entries.iter().filter_map(|entry| match &entry.body {
            EntryBody::ViewStart | EntryBody::Members(_) => None,
            EntryBody::Batch(batch) => Some(batch.bytes().len() as u64 + ENTRY_HEAD_MAX),
        });
        let mut batches = batches.peekable();
        // Many small entries count for more than a segment takes. While the disk is not full they may wait for room here: else
        // such a message would never be taken.
        let soon = !log.is_disk_full() && log.has_room() && !planted("small-entries-refused");
        batches.peek().is_none() || (self.unwritten.is_empty() && (soon || log.has_room_for(batches)))
    }

    fn persist(&mut self, log: &mut Log, own: RecordId, record: Stored, vital: bool) -> Result<(), Halt> {
        let class = if vital { Class::Vital } else { Class::Data };
        let record =
            Record { instance: INSTANCE, kind: record.kind, head: record.head, payload: record.payload };
        self.unwritten.push_back((own, record, class));
        self.write(log)
    }

    /// Appends what waits for room, in order.
    pub(crate) fn write(&mut self, log: &mut Log) -> Result<(), Halt> {
        while let Some((own, record, class)) = self.unwritten.pop_front() {
            match log.append(record.clone(), class) {
                Ok(id) => self.records.push(own, id),
                Err(AppendError::NoRoom) => {
                    self.unwritten.push_front((own, record, class));
                    break;
                }
                Err(why) => return Err(Halt::LogWriteFailed { why: why.to_string() }),
            }
        }
        Ok(())
    }

    /// The last of its records that is durable in the log.
    pub(crate) fn durable_in(&self, log: &Log) -> RecordId {
        self.records.own_up_to(log.durable())
    }

    /// What of its records is durable by now, if that is news.
    fn newly_durable(&mut self, log: &Log) -> Option<RecordId> {
        let durable = self.durable_in(log);
        (durable > self.durable).then(|| {
            self.durable = durable;
            durable
        })
    }
}

impl Node {
    /// Does what the protocol wants done, until nothing is left.
    pub(crate) fn after_order(&mut self, now: Time, out: &mut Effects) {
        loop {
            let mut effects = std::mem::take(&mut self.instance.effects);
            for effect in effects.drain() {
                self.on_order_effect(now, effect, out);
            }
            if self.instance.effects.is_empty() {
                self.instance.effects = effects;
            }
            if let Some(durable) = self.instance.newly_durable(&self.log) {
                self.instance.step(now, OrderInput::Durable(durable));
            }
            if self.instance.effects.is_empty() {
                break;
            }
        }
        self.release(out);
    }

    fn on_order_effect(&mut self, now: Time, effect: OrderEffect, out: &mut Effects) {
        match effect {
            OrderEffect::Persist { id, record, vital } => {
                if let Err(halt) = self.instance.persist(&mut self.log, id, record, vital) {
                    out.push(Effect::Halt(halt));
                }
            }
            OrderEffect::Send { to, message, after: Some(after) } if after > self.instance.durable => {
                self.instance.waiting.push_back(Waiting { after, to, message });
            }
            OrderEffect::Send { to, message, .. } => self.send(to, &message, out),
            OrderEffect::Decided { slot, batch } => self.on_decided(now, slot, &batch, out),
            OrderEffect::Behind { slot } => self.on_behind(now, slot, out),
            OrderEffect::Members { memberships, .. } => self.on_members(memberships),
            OrderEffect::LeaderChanged { view, leader } => self.on_leader_changed(view, leader, out),
            OrderEffect::ReadConfirmed { read, slot } => self.reads.confirmed(read, seq_of(slot)),
            OrderEffect::ReadFailed { read } => self.on_read_failed(read),
            OrderEffect::Load { load, records } => self.on_load(load, &records, out),
            OrderEffect::Rejected { from, why } => {
                self.counts.rejected += 1;
                out.event(Event::Refused {
                    text: format!("{from} sent what the protocol does not know: {why}"),
                });
            }
            OrderEffect::Halt(halt) => out.push(Effect::Halt(halt)),
        }
    }

    fn send(&self, to: ReplicaId, message: &OrderMessage, out: &mut Effects) {
        // A message to somebody who is not connected is lost, as it would be on the way.
        if let Some(conn) = self.peers.to(to) {
            out.send(conn, message.frame(INSTANCE));
        }
    }

    /// Lets the messages go whose records are durable.
    fn release(&mut self, out: &mut Effects) {
        while self.instance.waiting.front().is_some_and(|wait| wait.after <= self.instance.durable) {
            if let Some(Waiting { to, message, .. }) = self.instance.waiting.pop_front() {
                self.send(to, &message, out);
            }
        }
    }

    /// Something was written or synced.
    pub(crate) fn on_durable(&mut self, now: Time, out: &mut Effects) {
        if let Some(durable) = self.instance.newly_durable(&self.log) {
            self.instance.step(now, OrderInput::Durable(durable));
            self.after_order(now, out);
        }
        self.trim_log(out);
    }

    pub(crate) fn on_prepared(
        &mut self,
        now: Time,
        segment: u64,
        result: Result<(), DiskFull>,
        out: &mut Effects,
    ) {
        // Kept until a segment is ready: while the log tries again it does not know whether there is room.
        let (was_full, is_full) = (self.turn.disk_full, result.is_err());
        self.turn.disk_full = is_full;
        self.log.prepared(segment, result);
        if is_full {
            self.turn.retry_prepare_later(now);
        }
        if is_full != was_full {
            out.event(if is_full { Event::DiskFull } else { Event::DiskHasRoom });
        }
        if let Err(halt) = self.instance.write(&mut self.log) {
            out.push(Effect::Halt(halt));
        }
        self.after_order(now, out);
    }

    fn on_load(&mut self, load: u64, records: &[RecordId], out: &mut Effects) {
        let places: Option<Vec<Place>> =
            records.iter().map(|own| self.log.locate(self.instance.records.log(*own)?)).collect();
        let places = places.expect("INV-NODE-4 only durable records of this log are read back");
        self.instance.loads.insert(load, places.clone());
        out.push(Effect::Load { load, places });
    }

    pub(crate) fn on_loaded(&mut self, now: Time, load: u64, records: Vec<Bytes>, out: &mut Effects) {
        let Some(places) = self.instance.loads.remove(&load) else { return };
        assert_eq!(places.len(), records.len(), "INV-NODE-4 every place that was asked for is answered");
        let parsed: Result<Vec<Stored>, Halt> = places
            .iter()
            .zip(&records)
            .map(|(place, bytes)| {
                let Record { kind, head, payload, .. } = place.parse(bytes, INSTANCE)?;
                Ok(Stored { kind, head, payload })
            })
            .collect();
        match parsed {
            Ok(records) => {
                self.instance.step(now, OrderInput::Loaded { load, records });
                self.after_order(now, out);
            }
            Err(halt) => out.push(Effect::Halt(halt)),
        }
    }

    fn on_decided(&mut self, now: Time, slot: Slot, batch: &Batch, out: &mut Effects) {
        assert_eq!(slot, self.instance.decided.next(), "INV-NODE-2 slots are executed in order, each once");
        self.instance.decided = slot;
        self.executor.execute(seq_of(slot), batch, &mut self.outcomes);
        self.on_system(now, batch, out);
        self.counts.batches += 1;
        self.counts.requests += self.outcomes.list().len() as u64;
        self.learn_time(now);
        if self.instance.leader.1 == Some(self.config.members.me()) {
            for outcome in self.outcomes.list() {
                match (outcome.opening, outcome.status) {
                    (Some(client), _) => {
                        self.admission.opened(ClientId::number(client), outcome.number.number())
                    }
                    (
                        None,
                        ReplyStatus::ExpectedNumber | ReplyStatus::Overloaded | ReplyStatus::SessionExpired,
                    ) => {
                        self.admission.refused(outcome.session, outcome.number);
                    }
                    (None, _) => {}
                }
            }
        }
        // What a diverged replica computes is not what the cluster did: its clients hear it from another one.
        if self.checkpoints.diverged.is_none() {
            self.routes.route(&self.outcomes);
        }
        self.on_executed(slot, batch, out);
    }

    fn on_leader_changed(&mut self, view: View, leader: Option<ReplicaId>, out: &mut Effects) {
        if (view, leader) == self.instance.leader {
            return;
        }
        self.instance.leader = (view, leader);
        self.admission.reset();
        out.event(Event::Leader { view: view.number(), leader });
        let notice = self.leader_notice();
        for conn in self.peers.clients() {
            // Whoever waits here asks the new leader again, which then answers.
            self.routes.unbind_conn(conn);
            out.send(conn, notice.frame());
        }
    }
}

/// While there is one instance, its slots are the positions of the global log.
pub(crate) fn seq_of(slot: Slot) -> Seq {
    Seq::new(slot.number())
}

/// The other way round.
pub(crate) fn slot_of(seq: Seq) -> Slot {
    Slot::new(seq.number())
}
