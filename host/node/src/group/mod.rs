//! A group: all that one instance of the ordering protocol has to itself on this replica.
//!
//! Requests of clients wait here until a batch of them is proposed. The protocol agrees on batches with the groups of the other members.
//! What it wants done comes out effect by effect: [`Group::settle`] does what is the group's own business (messages that wait for a
//! record, who leads, what was decided) and gives back what is for others. No group knows another one, nor the log, nor a connection.
//!
//! INV-NODE-1: a message leaves once the record that it names is durable. INV-NODE-2: what the instance decided is handed on in order, each
//! record once. Tests: group/tests.rs, check/sim.

mod admitting;
mod all;
mod apart;
mod birth;
mod gathering;
mod held;
mod lead;
mod stay;

pub(crate) use admitting::{Admitting, Asker, Terrain};
pub(crate) use all::{Groups, Look, Out, born, index_of, new_instance, role_of};
pub(crate) use birth::{BORN, Birth};

use crate::config::NodeConfig;
use crate::journal::{VolumeId, Volumes};
use apart::StandIn;
use gathering::Gathering;
use held::Held;
use lead::Lead;
use quorate_admit::{Admission, AdmissionLimits};
use quorate_execute::Outcome;
use quorate_log::Record;
use quorate_merge::Merge;
use quorate_order::{
    Anchor, Effect, Effects, Input as OrderInput, Nature, Order, OrderMessage, Restored, Standing, Status,
    Stored,
};
use quorate_types::{ClientId, Halt, InstanceId, RecordId, ReplicaId, Seq, Slot, Span, Time, View};
use quorate_wire::{Batch, BatchHeader, ReplyStatus, Verified};
use stay::Stay;
use std::any::Any;
use std::collections::BTreeSet;

/// The instance that carries what is about all of them: commands to the engine itself, and borders that somebody asks for.
pub(crate) const FIRST: usize = 0;

/// What a group may have under way at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// So many small batches; one where the protocol agrees on one slot at a time.
    pub(crate) batches_max: usize,
    /// So many bytes of large ones.
    pub(crate) bytes_max: usize,
    /// The protocol agrees on several slots at a time.
    pub(crate) pipelined: bool,
    /// A slot waits for company for no longer than this.
    pub(crate) gathering_max: Span,
}

/// No slot waits for company for longer than this part of two time-outs: what any leader may add to a slot. [mod_smart L142]
const GATHERING_PART: u64 = 16;

impl Pace {
    pub(crate) fn of(config: &NodeConfig, nature: &Nature) -> Self {
        Self {
            batches_max: if nature.pipelined { config.batches_in_flight_max } else { 1 },
            bytes_max: config.bytes_in_flight_max,
            pipelined: nature.pipelined,
            gathering_max: config.order.patience().divided(GATHERING_PART),
        }
    }
}

/// One instance of the ordering protocol, with what clients want of it; see the module.
pub(crate) struct Group {
    id: InstanceId,
    stay: Stay,
    /// What clients want of it, while it leads here.
    admission: Admission,
    /// How long it waits for them, if it agrees on one slot at a time.
    gathering: Gathering,
    order: Box<dyn Order>,
    effects: Effects,
    held: Held,
    lead: Lead,
    /// Members that its messages get to, and back from.
    connected: BTreeSet<ReplicaId>,
    /// Takes part: before that it hears and says nothing.
    started: bool,
    /// It was stepped, or has another place in the merge, since what it wants was done last.
    touched: bool,
    /// The last that was handed on, as the protocol counts.
    decided: Slot,
}

impl Group {
    /// One without a history, in this stay; its records are in this volume.
    pub(crate) fn new(
        id: InstanceId,
        stay: u64,
        order: Box<dyn Order>,
        admission: AdmissionLimits,
        volume: VolumeId,
    ) -> Self {
        Self {
            id,
            stay: Stay::new(stay),
            admission: Admission::new(admission),
            gathering: Gathering::default(),
            order,
            effects: Effects::new(),
            held: Held::new(volume),
            lead: Lead::default(),
            connected: BTreeSet::new(),
            started: false,
            touched: false,
            decided: Slot::ZERO,
        }
    }

    pub(crate) const fn id(&self) -> InstanceId {
        self.id
    }

    /// Where its records are.
    pub(crate) const fn volume(&self) -> VolumeId {
        self.held.volume()
    }

    /// The last that was handed on, as the protocol counts.
    pub(crate) const fn decided(&self) -> Slot {
        self.decided
    }

    /// Whether it takes part: before that it hears and says nothing.
    pub(crate) const fn has_started(&self) -> bool {
        self.started
    }

    /// The view that was announced last.
    pub(crate) const fn view(&self) -> View {
        self.lead.view()
    }

    /// Who leads in it.
    pub(crate) const fn leader(&self) -> Option<ReplicaId> {
        self.lead.leader()
    }

    /// Since when, and what is known of whose turn it is.
    pub(crate) const fn lead(&self) -> &Lead {
        &self.lead
    }

    /// Which of the instance's stays this is.
    pub(crate) const fn stay(&self) -> &Stay {
        &self.stay
    }

    /// Another part says how far into its stay it is.
    pub(crate) const fn stay_mut(&mut self) -> &mut Stay {
        &mut self.stay
    }

    pub(crate) fn standing(&self) -> Standing {
        self.order.standing()
    }

    pub(crate) fn status(&self) -> Status {
        self.order.status()
    }

    pub(crate) fn restored(&self) -> Restored {
        self.order.restored()
    }

    /// What a checkpoint at this record says of it.
    pub(crate) fn anchor(&self, record: Slot) -> Option<Anchor> {
        self.order.anchor(record)
    }

    /// Whether a checkpoint holds all that it may have acknowledged.
    pub(crate) fn covers(&self, record: Slot, anchor: &Anchor) -> bool {
        self.order.covers(record, anchor)
    }

    /// The lowest of its records that must stay.
    pub(crate) fn keep_from(&self) -> Option<RecordId> {
        self.order.keep_from()
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        if !self.started {
            return None;
        }
        [self.order.deadline(), self.gathering.deadline()].into_iter().flatten().min()
    }
}

/// What it was before the process began.
impl Group {
    /// It begins there.
    ///
    /// # Errors
    /// When the anchor is none.
    pub(crate) fn born(mut self, birth: Birth) -> Result<Self, Halt> {
        self.restore_anchor(birth.record, &birth.anchor)?;
        self.stay.birth = Some(birth);
        Ok(self)
    }

    /// It goes on from what a checkpoint says of it.
    ///
    /// # Errors
    /// When the anchor is none.
    pub(crate) fn restore_anchor(&mut self, record: Slot, anchor: &Anchor) -> Result<(), Halt> {
        self.order.restore_anchor(record, anchor)?;
        self.decided = record;
        Ok(())
    }

    /// A later checkpoint than that was here.
    pub(crate) fn restore_outdated(&mut self) {
        self.order.restore_outdated();
    }

    /// So many records at most are missing here.
    pub(crate) fn restore_gap(&mut self, missing: u64) {
        self.order.restore_gap(missing);
    }

    /// Takes back a record of an earlier run, the log's record `id`.
    ///
    /// # Errors
    /// When the records do not fit together.
    pub(crate) fn restore(
        &mut self,
        volumes: &mut Volumes,
        id: RecordId,
        record: Record,
    ) -> Result<(), Halt> {
        let own = volumes.restore(self.volume(), id);
        self.held.durable(own);
        self.order.restore(own, Stored { kind: record.kind, head: record.head, payload: record.payload })
    }
}

/// What it is told, and what it wants.
impl Group {
    /// Takes part from now on.
    pub(crate) fn start(&mut self, now: Time) {
        (self.started, self.touched) = (true, true);
        self.order.start(now, &mut self.effects);
        if let Some(installed) = self.stay.installed.take() {
            self.order.step(now, installed, &mut self.effects);
        }
    }

    /// Tells the protocol something. What it wants done then comes out of [`Self::take`].
    pub(crate) fn step(&mut self, now: Time, input: OrderInput) {
        if self.started {
            self.touched = true;
            self.order.step(now, input, &mut self.effects);
        }
    }

    /// The time is up that [`Self::deadline`] named, if it is. Whether that is so.
    pub(crate) fn on_deadline(&mut self, now: Time) -> bool {
        let due = self.deadline().is_some_and(|deadline| deadline <= now);
        if due {
            self.step(now, OrderInput::Deadline);
        }
        due
    }

    /// How many bytes each batch has that a message makes it write down.
    pub(crate) fn brought_by(&self, message: &Verified<OrderMessage>) -> Vec<u64> {
        let mut brings = message.message().brings();
        if !brings.is_empty() {
            let known = self.status().open;
            brings.retain(|batch| !known.contains(batch));
        }
        brings.iter().map(|batch| batch.bytes().len() as u64).collect()
    }

    /// Its messages get to a member and back from now on.
    pub(crate) fn connects(&mut self, now: Time, replica: ReplicaId) {
        if self.connected.insert(replica) {
            self.step(now, OrderInput::Connected(replica));
        }
    }

    /// They may have been lost.
    pub(crate) fn disconnects(&mut self, now: Time, replica: ReplicaId) {
        if self.connected.remove(&replica) {
            self.step(now, OrderInput::Disconnected(replica));
        }
    }

    /// It begins only now: these are whom its messages get to.
    pub(crate) fn finds(&mut self, now: Time, connected: BTreeSet<ReplicaId>) {
        self.connected = connected;
        self.greet(now);
    }

    /// Tells the protocol who is there.
    pub(crate) fn greet(&mut self, now: Time) {
        for replica in self.connected.clone() {
            self.step(now, OrderInput::Connected(replica));
        }
    }

    pub(crate) fn is_connected(&self, replica: ReplicaId) -> bool {
        self.connected.contains(&replica)
    }

    /// It has another place in the merge: what it wants is looked at again.
    pub(crate) fn touch(&mut self) {
        self.touched = true;
    }

    /// Whether anything happened to it since it was looked at last, with so much of the log durable.
    pub(crate) fn has_news(&mut self, durable: RecordId) -> bool {
        std::mem::take(&mut self.touched) || !self.held.has_seen(durable) || !self.effects.is_empty()
    }

    /// What the protocol wants done, in order; each goes through [`Self::settle`], the list comes back with [`Self::put_back`].
    pub(crate) fn take(&mut self) -> Effects {
        std::mem::take(&mut self.effects)
    }

    /// The list is empty, and its memory is used again.
    pub(crate) fn put_back(&mut self, list: Effects) {
        if self.effects.is_empty() {
            self.effects = list;
        }
    }

    /// Does what is the group's own business, and gives back what is for others.
    pub(crate) fn settle(&mut self, now: Time, effect: Effect) -> Option<Effect> {
        match effect {
            Effect::Send { to, message, after: Some(after) } if self.held.holds(after) => {
                self.held.hold(after, to, message);
                return None;
            }
            Effect::Decided { slot, .. } => {
                assert_eq!(
                    slot,
                    self.decided.next(),
                    "INV-NODE-2 an instance's records are handed on in order, each once"
                );
                self.decided = slot;
            }
            Effect::LeaderChanged { view, leader, .. } => {
                if !self.lead.announced(now, view, leader) {
                    return None;
                }
                self.admission.reset();
                self.gathering.reset();
            }
            _ => {}
        }
        Some(effect)
    }

    /// So much of the log is durable. Whether it has to be looked up what that means for its own records.
    pub(crate) fn sees(&mut self, log: RecordId) -> bool {
        self.held.sees(log)
    }

    /// Its records up to this one are durable.
    pub(crate) fn is_durable(&mut self, now: Time, record: RecordId) {
        self.held.durable(record);
        self.step(now, OrderInput::Durable(record));
    }

    /// All that it wanted is done. Whether it leads here, and knows all that was decided before.
    pub(crate) fn rest(&mut self) -> bool {
        self.touched = false;
        let settled = self.standing().settled;
        if settled {
            self.lead.settle(self.decided);
        }
        settled
    }

    /// Whether nothing is wanted.
    pub(crate) fn is_quiet(&self) -> bool {
        self.effects.is_empty()
    }

    /// The next message whose record is durable.
    pub(crate) fn release(&mut self) -> Option<(ReplicaId, OrderMessage)> {
        self.held.release()
    }

    /// It goes on from a checkpoint, which may be later than the damaged one that it went on from before.
    ///
    /// # Errors
    /// When the anchor is none.
    pub(crate) fn go_on(&mut self, now: Time, record: Slot, anchor: &Anchor) -> Result<(), Halt> {
        self.decided = record;
        self.admission.reset();
        let installed = OrderInput::Installed { slot: record, anchor: anchor.clone() };
        if self.started {
            self.step(now, installed);
        } else if self.restored().needs_checkpoint {
            // What it needed is here now.
            self.order.restore_installed(record, anchor)?;
        } else {
            self.stay.installed = Some(installed);
        }
        Ok(())
    }

    /// Takes part, if the log says where it begins and it is not over. Where it did before, the state went back to before its stay began.
    /// Whether it does.
    pub(crate) fn wakes(&mut self, now: Time) -> bool {
        if self.stay.unborn || !self.stay.is_present() {
            return false;
        }
        match self.stay.birth.clone().filter(|_| self.started) {
            Some(birth) => self.begin_again(now, birth),
            None => self.start(now),
        }
        self.touched = true;
        true
    }

    /// The state went back to before its stay began: all that it decided is handed on again.
    fn begin_again(&mut self, now: Time, birth: Birth) {
        self.decided = birth.record;
        self.step(now, OrderInput::Installed { slot: birth.record, anchor: birth.anchor });
    }

    /// It takes no part any more, behind this seq.
    pub(crate) fn leave(&mut self, base: Seq) {
        self.stay.away = Some(base);
        self.admission.reset();
    }

    /// Of who leads, this is known.
    pub(crate) fn is_led(&mut self, view: View, leader: Option<ReplicaId>) {
        self.lead.keep(view, leader);
    }

    /// It was looked at whose turn it is to lead.
    pub(crate) fn lead_mut(&mut self) -> &mut Lead {
        &mut self.lead
    }

    /// Panics with the name of an invariant that does not hold; `durable`: what the log says of its records.
    pub(crate) fn invariants(&self, thorough: bool, durable: RecordId) {
        self.order.invariants(thorough);
        let first = self.held.awaited();
        assert!(
            first.is_none_or(|after| after > durable),
            "INV-NODE-1 a message waits although {first:?} is durable"
        );
    }
}

/// Its lane, where it has one of its own.
impl Group {
    /// The protocol has a lane of its own, once it has started.
    #[must_use]
    pub(crate) fn apart(mut self) -> Self {
        self.order = Box::new(StandIn::new(self.order));
        self
    }

    fn stand_in(&mut self) -> Option<&mut StandIn> {
        (&mut *self.order as &mut dyn Any).downcast_mut()
    }

    /// Whether its lane has to be asked to take what it was told.
    pub(crate) fn asks_lane(&mut self) -> bool {
        self.stand_in().is_some_and(StandIn::asks)
    }

    /// Its lane has its turn, if there is something to take.
    pub(crate) fn take_turn(&mut self, now: Time) {
        if let Some(order) = self.stand_in() {
            order.take_turn(now);
        }
    }

    /// Its view, whether it leads here, and how many questions for strong reads it answered by a lease: as its lane knows it, where it has
    /// one.
    pub(crate) fn leases(&self, me: ReplicaId) -> (View, bool, u64) {
        let (answered, me) = (self.status().answered_by_lease, Some(me));
        match (&*self.order as &dyn Any).downcast_ref::<StandIn>().map(StandIn::own_status) {
            Some(own) => (own.view, own.leader == me, own.answered_by_lease),
            None => (self.view(), self.leader() == me, answered),
        }
    }

    /// The main lane hears what its lane did until now. Whether there was anything.
    pub(crate) fn hear_lane(&mut self) -> bool {
        let mut effects = self.take();
        let any = self.stand_in().is_some_and(|order| order.hear(&mut effects));
        self.effects = effects;
        self.touched |= any;
        any
    }
}

/// What clients want of it.
impl Group {
    pub(crate) fn admission(&self) -> &Admission {
        &self.admission
    }

    pub(crate) fn admission_mut(&mut self) -> &mut Admission {
        &mut self.admission
    }

    /// Whether it leads here, and the merge takes one more batch of it.
    pub(crate) fn may_propose(&self, merge: &Merge<Batch>) -> bool {
        self.standing().leading && merge.room(self.id) > 0
    }

    /// Whether it may propose a batch for the time alone: nothing else is under way.
    pub(crate) fn is_idle(&self, merge: &Merge<Batch>) -> bool {
        let standing = self.standing();
        self.may_propose(merge)
            && standing.settled
            && standing.in_flight == 0
            && self.admission.waiting_bytes() == 0
    }

    /// Whether its batch that was taken off the merge last was proposed here, in the view in which this replica leads now.
    pub(crate) fn proposed(&self, merge: &Merge<Batch>, me: ReplicaId) -> bool {
        let before = self.lead.settled_at().filter(|_| self.leader() == Some(me));
        let taken = merge.delivered_record(self.id);
        before.zip(taken).is_some_and(|(before, record)| record.0 > before.number())
    }

    /// A batch of it was executed. If it leads here, what came through it is not in flight any more where execution did not take it.
    pub(crate) fn answered(&mut self, outcomes: &[Outcome], me: ReplicaId) {
        if self.leader() != Some(me) {
            return;
        }
        for outcome in outcomes {
            match (outcome.opening, outcome.status) {
                (Some(client), _) => self.admission.opened(ClientId::number(client), outcome.number.number()),
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

    /// Bytes that were admitted and are not decided.
    pub(crate) fn queue_bytes(&self) -> usize {
        self.admission.waiting_bytes() + self.standing().in_flight_bytes
    }

    /// Whether the next batch waits for more of those who asked lately. `is_wanted`: something else waits for this instance.
    pub(crate) fn gathers(&mut self, now: Time, pace: &Pace, is_wanted: impl FnOnce() -> bool) -> bool {
        let standing = self.order.standing();
        if pace.pipelined || !standing.leading {
            self.gathering.reset();
            return false;
        }
        self.gathering.stop();
        if standing.in_flight > 0 {
            return false;
        }
        let waiting = self.admission.waiting();
        self.gathering.idle(now, waiting);
        if self.admission.is_full() || is_wanted() {
            return false;
        }
        self.gathering.waits(now, waiting, pace.gathering_max)
    }

    /// The next batch to propose, while the window allows: a few small ones, so that what arrives meanwhile piles up into larger ones, and
    /// large ones up to a limit in bytes.
    pub(crate) fn next_batch(
        &mut self,
        now: Time,
        pace: &Pace,
        header: impl FnOnce() -> BatchHeader,
    ) -> Option<Batch> {
        let standing = self.order.standing();
        let few = standing.in_flight < pace.batches_max;
        let large = self.admission.is_full() && standing.in_flight_bytes < pace.bytes_max;
        if (!few && !large) || standing.holds_back {
            return None;
        }
        let batch = self.admission.seal(header())?;
        self.gathering.proposed(now, batch.header().count);
        Some(batch)
    }
}

#[cfg(test)]
mod tests;
