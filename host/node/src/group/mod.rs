//! A group: the part of a replica that belongs to one instance of the ordering protocol.
//!
//! Its pillar has the requests of clients until a batch of them is proposed, and the protocol, which agrees on batches with the groups of the
//! other members. The group itself has what other parts may know of it: leadership, its stay, what it decided. [`Group::settle`] carries out
//! the effects that concern only the group (messages that wait for a record, leadership, decided slots) and gives back the others. A group
//! knows no other group, no log and no connection. Its pillar may have a lane of its own; then the group has a stand-in for it.
//!
//! INV-NODE-1: a message leaves once the record that it names is durable. INV-NODE-2: what the instance decided is handed on in order, each
//! record once. Tests: group/tests.rs, check/sim.

mod admitting;
mod all;
mod apart;
mod birth;
mod bridge;
mod direct;
mod gathering;
mod held;
mod inbox;
mod lead;
mod own_lane;
mod pillar;
mod stay;

pub(crate) use admitting::{Admitting, Asker, Terrain};
pub(crate) use all::{Groups, Look, Out, born, index_of, new_instance, role_of};
pub(crate) use birth::{BORN, Birth};
pub(crate) use bridge::Locally;
pub use bridge::{Bridge, Bridges, Mail, Reports};
pub use inbox::Inbox;
pub use own_lane::OwnLane;
pub(crate) use own_lane::{Facts, Passed};

use crate::config::NodeConfig;
use crate::effects;
use crate::engine::Proposes;
use crate::journal::{VolumeId, Volumes};
use apart::{Known, StandIn};
use lead::Lead;
use own_lane::{Setting, Told};
use pillar::{Ended, Pillar};
use quorate_admit::{Admission, AdmissionLimits};
use quorate_execute::Outcome;
use quorate_log::Record;
use quorate_merge::Merge;
use quorate_order::{
    Anchor, Effect, Effects, Input as OrderInput, Nature, Order, OrderMessage, Protocol, Restored, Standing,
    Status, Stored,
};
use quorate_types::{ConnId, Halt, InstanceId, RecordId, ReplicaId, Seq, Slot, Span, Time, View};
use quorate_wire::{Batch, BatchHeader, Frame, ReplyStatus, Verified};
use stay::Stay;
use std::collections::BTreeSet;

/// The index of the first instance. It carries what concerns all instances: commands to the engine, and borders on request.
pub(crate) const FIRST: usize = 0;

/// The most that a group may have under way at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The most small batches; one if the protocol agrees on one slot at a time.
    pub(crate) batches_max: usize,
    /// The most bytes of large batches.
    pub(crate) bytes_max: usize,
    /// Whether the protocol agrees on several slots at a time.
    pub(crate) pipelined: bool,
    /// The longest time for which a slot waits for more requests.
    pub(crate) gathering_max: Span,
}

/// What a message counts on top of its batches, on its way to another lane.
const MESSAGE_BYTES: usize = 256;

/// A slot waits for more requests for at most this part of two time-outs: no leader may add more to a slot. [mod_smart L142]
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

/// The lane on which the pillar stands.
#[derive(Debug)]
enum At {
    /// The main lane.
    Main(Box<Pillar>),
    /// A lane of its own.
    Own(Box<StandIn>),
}

/// Lanes for pillars.
pub(crate) struct OwnLanes {
    pub(crate) me: ReplicaId,
    pub(crate) pace: Pace,
    /// How long a leader may be silent before the others want another one.
    pub(crate) patience: Span,
    pub(crate) protocol: Protocol,
    /// The seed of the randomness for batches.
    pub(crate) seed: u64,
    pub(crate) bridges: Box<dyn Bridges>,
}

/// One instance of the ordering protocol with its requests; see the module.
pub(crate) struct Group {
    id: InstanceId,
    stay: Stay,
    at: At,
    effects: Effects,
    volume: VolumeId,
    /// How much of the log was durable when the last durable record of the group was looked up.
    seen: RecordId,
    lead: Lead,
    /// The members that its messages reach and whose messages come back.
    connected: BTreeSet<ReplicaId>,
    /// Whether it takes part: before, it takes and sends no messages.
    started: bool,
    /// Whether it was stepped, or has another position in the merge, since its effects were carried out last.
    touched: bool,
    /// The last decided slot that was handed on, in the protocol's numbers.
    decided: Slot,
}

impl Group {
    /// A group without a history in this stay, with its records in this volume.
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
            at: At::Main(Box::new(Pillar::new(order, admission))),
            effects: Effects::new(),
            volume,
            seen: RecordId::ZERO,
            lead: Lead::default(),
            connected: BTreeSet::new(),
            started: false,
            touched: false,
            decided: Slot::ZERO,
        }
    }

    /// Takes the pillar to a lane of its own, before its protocol starts.
    #[must_use]
    fn apart(self, lanes: &mut OwnLanes) -> Self {
        let At::Main(pillar) = self.at else { return self };
        let seed = lanes.seed ^ u64::from(self.id.number()) << 48 ^ self.stay.number() << 32;
        let OwnLanes { me, pace, patience, protocol, .. } = *lanes;
        let lane = OwnLane::new(Setting { me, id: self.id, protocol, pace, patience }, seed, *pillar);
        let known = Known::of(&lane);
        let stand_in = StandIn::new(lanes.bridges.build(self.id, lane), known);
        Self { at: At::Own(Box::new(stand_in)), ..self }
    }

    /// Looks at the pillar. While its lane has something to take, nobody may.
    fn look<R>(&self, look: impl FnOnce(&Pillar) -> R) -> R {
        match &self.at {
            At::Main(pillar) => look(pillar),
            At::Own(apart) => apart.look(|lane| look(&lane.pillar)),
        }
    }

    /// The pillar, to restore it before its protocol starts.
    fn pillar_mut(&mut self) -> &mut Pillar {
        match &mut self.at {
            At::Main(pillar) => pillar,
            At::Own(_) => panic!("INV-NODE-11 the main lane changes a pillar that its lane steps"),
        }
    }

    pub(crate) const fn id(&self) -> InstanceId {
        self.id
    }

    /// The volume of its records.
    pub(crate) const fn volume(&self) -> VolumeId {
        self.volume
    }

    /// The last decided slot that was handed on, in the protocol's numbers.
    pub(crate) const fn decided(&self) -> Slot {
        self.decided
    }

    /// Whether it takes part: before, it takes and sends no messages.
    pub(crate) const fn has_started(&self) -> bool {
        self.started
    }

    /// The view that was announced last.
    pub(crate) const fn view(&self) -> View {
        self.lead.view()
    }

    /// The leader of the view.
    pub(crate) const fn leader(&self) -> Option<ReplicaId> {
        self.lead.leader()
    }

    /// Leadership: since when, and whose turn it is.
    pub(crate) const fn lead(&self) -> &Lead {
        &self.lead
    }

    /// Which of the instance's stays this is.
    pub(crate) const fn stay(&self) -> &Stay {
        &self.stay
    }

    /// The stay, to be changed by another part.
    pub(crate) const fn stay_mut(&mut self) -> &mut Stay {
        &mut self.stay
    }

    pub(crate) fn standing(&self) -> Standing {
        match &self.at {
            At::Main(pillar) => pillar.order.standing(),
            At::Own(apart) => apart.standing(),
        }
    }

    pub(crate) fn status(&self) -> Status {
        match &self.at {
            At::Main(pillar) => pillar.order.status(),
            At::Own(apart) => apart.status(),
        }
    }

    pub(crate) fn restored(&self) -> Restored {
        self.look(|pillar| pillar.order.restored())
    }

    /// The anchor for a checkpoint at this record.
    pub(crate) fn anchor(&self, record: Slot) -> Option<Anchor> {
        self.look(|pillar| pillar.order.anchor(record))
    }

    /// Whether a checkpoint holds everything that this replica may have acknowledged.
    pub(crate) fn covers(&self, record: Slot, anchor: &Anchor) -> bool {
        self.look(|pillar| pillar.order.covers(record, anchor))
    }

    /// The lowest record of this group that must stay in the log.
    pub(crate) fn keep_from(&self) -> Option<RecordId> {
        match &self.at {
            At::Main(pillar) => pillar.order.keep_from(),
            At::Own(apart) => apart.keep_from(),
        }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        if !self.started {
            return None;
        }
        match &self.at {
            At::Main(pillar) => pillar.deadline(),
            At::Own(apart) => apart.deadline(),
        }
    }
}

/// Restoring it when the process starts.
impl Group {
    /// Restores the place where the stay begins.
    ///
    /// # Errors
    /// When the anchor is invalid.
    pub(crate) fn born(mut self, birth: Birth) -> Result<Self, Halt> {
        self.restore_anchor(birth.record, &birth.anchor)?;
        self.stay.birth = Some(birth);
        Ok(self)
    }

    /// Restores what a checkpoint says of it.
    ///
    /// # Errors
    /// When the anchor is invalid.
    pub(crate) fn restore_anchor(&mut self, record: Slot, anchor: &Anchor) -> Result<(), Halt> {
        self.pillar_mut().order.restore_anchor(record, anchor)?;
        self.decided = record;
        Ok(())
    }

    /// This replica once had a later checkpoint than the restored one.
    pub(crate) fn restore_outdated(&mut self) {
        self.pillar_mut().order.restore_outdated();
    }

    /// At most this many records are missing here.
    pub(crate) fn restore_gap(&mut self, missing: u64) {
        self.pillar_mut().order.restore_gap(missing);
    }

    /// Restores a record of an earlier run, which has the number `id` in the log.
    ///
    /// # Errors
    /// When the records contradict each other.
    pub(crate) fn restore(
        &mut self,
        volumes: &mut Volumes,
        id: RecordId,
        record: Record,
    ) -> Result<(), Halt> {
        let own = volumes.restore(self.volume, id);
        let pillar = self.pillar_mut();
        pillar.held.durable(own);
        pillar.order.restore(own, Stored { kind: record.kind, head: record.head, payload: record.payload })
    }
}

/// Inputs and effects.
impl Group {
    /// Starts the protocol: it takes part from now on.
    pub(crate) fn start(&mut self, now: Time) {
        (self.started, self.touched) = (true, true);
        let installed = self.stay.installed.take();
        match &mut self.at {
            At::Main(pillar) => pillar.start(now, installed, &mut self.effects),
            At::Own(apart) => apart.tell(Told::Start(installed)),
        }
    }

    /// Gives the protocol an input. [`Self::take`] then gives its effects.
    pub(crate) fn step(&mut self, now: Time, input: OrderInput) {
        if self.started {
            self.touched = true;
            match &mut self.at {
                At::Main(pillar) => pillar.order.step(now, input, &mut self.effects),
                At::Own(apart) => apart.tell(Told::Step(input)),
            }
        }
    }

    /// A member's message arrives. With too much on its way to its lane it counts as lost.
    pub(crate) fn receive(&mut self, now: Time, message: Verified<OrderMessage>) {
        match &mut self.at {
            At::Main(_) => self.step(now, OrderInput::Receive(message)),
            At::Own(apart) if apart.is_full() => {}
            At::Own(apart) => {
                let brings: usize = message.message().brings().iter().map(|batch| batch.bytes().len()).sum();
                apart.tell(Told::Receive(message, brings + MESSAGE_BYTES));
            }
        }
    }

    /// Steps the protocol if the time of [`Self::deadline`] has come. Whether it has.
    pub(crate) fn on_deadline(&mut self, now: Time) -> bool {
        let due = self.deadline().is_some_and(|deadline| deadline <= now);
        if due {
            self.step(now, OrderInput::Deadline);
        }
        due
    }

    /// The sizes in bytes of the batches that the protocol would write down because of a message.
    pub(crate) fn brought_by(&self, message: &Verified<OrderMessage>) -> Vec<u64> {
        let mut brings = message.message().brings();
        if !brings.is_empty() {
            let known = self.status().open;
            brings.retain(|batch| !known.contains(batch));
        }
        brings.iter().map(|batch| batch.bytes().len() as u64).collect()
    }

    /// Its messages reach a member and come back from now on.
    pub(crate) fn connects(&mut self, now: Time, replica: ReplicaId) {
        if self.connected.insert(replica) {
            self.step(now, OrderInput::Connected(replica));
        }
    }

    /// Its messages to or from a member may have been lost.
    pub(crate) fn disconnects(&mut self, now: Time, replica: ReplicaId) {
        if self.connected.remove(&replica) {
            self.step(now, OrderInput::Disconnected(replica));
        }
    }

    /// It has just begun: sets the members that its messages reach.
    pub(crate) fn finds(&mut self, now: Time, connected: BTreeSet<ReplicaId>) {
        self.connected = connected;
        self.greet(now);
    }

    /// Tells the protocol which members are connected.
    pub(crate) fn greet(&mut self, now: Time) {
        for replica in self.connected.clone() {
            self.step(now, OrderInput::Connected(replica));
        }
    }

    pub(crate) fn is_connected(&self, replica: ReplicaId) -> bool {
        self.connected.contains(&replica)
    }

    /// Its position in the merge changed: its effects are looked at again.
    pub(crate) fn touch(&mut self) {
        self.touched = true;
    }

    /// Whether anything happened to it since the last look. This much of the log is durable.
    pub(crate) fn has_news(&mut self, durable: RecordId) -> bool {
        std::mem::take(&mut self.touched) || self.seen != durable || !self.effects.is_empty()
    }

    /// Takes the effects of the protocol, in order. Each goes through [`Self::settle`]; the list comes back with [`Self::put_back`].
    pub(crate) fn take(&mut self) -> Effects {
        std::mem::take(&mut self.effects)
    }

    /// Takes the empty list back, to use its memory again.
    pub(crate) fn put_back(&mut self, list: Effects) {
        if self.effects.is_empty() {
            self.effects = list;
        }
    }

    /// Carries out an effect that concerns only the group, or gives it back.
    pub(crate) fn settle(&mut self, now: Time, effect: Effect) -> Option<Effect> {
        let effect = match &mut self.at {
            At::Main(pillar) => pillar.settle(effect)?,
            At::Own(_) => effect,
        };
        match &effect {
            Effect::Decided { slot, .. } => {
                assert_eq!(
                    *slot,
                    self.decided.next(),
                    "INV-NODE-2 an instance's records are handed on in order, each once"
                );
                self.decided = *slot;
            }
            Effect::LeaderChanged { view, leader, .. } => self.lead.announced(now, *view, *leader),
            _ => {}
        }
        Some(effect)
    }

    /// This much of the log is durable. Whether that is new, so that its own durable record must be looked up.
    pub(crate) fn sees(&mut self, log: RecordId) -> bool {
        std::mem::replace(&mut self.seen, log) != log
    }

    /// Its records up to this one are durable.
    pub(crate) fn is_durable(&mut self, now: Time, record: RecordId) {
        match &mut self.at {
            At::Main(pillar) if self.started => {
                self.touched = true;
                pillar.is_durable(now, record, &mut self.effects);
            }
            At::Main(pillar) => pillar.held.durable(record),
            At::Own(apart) => apart.tell(Told::Durable(record)),
        }
    }

    /// All its effects were carried out. Whether it leads here and knows everything that was decided before.
    pub(crate) fn rest(&mut self) -> bool {
        self.touched = false;
        let settled = self.standing().settled;
        if settled {
            self.lead.settle(self.decided);
        }
        settled && !self.is_apart()
    }

    /// Whether there are no effects.
    pub(crate) fn is_quiet(&self) -> bool {
        self.effects.is_empty()
    }

    /// The next message whose record is durable, if it leaves from the main lane.
    pub(crate) fn release(&mut self) -> Option<(ReplicaId, OrderMessage)> {
        match &mut self.at {
            At::Main(pillar) => pillar.release(),
            At::Own(_) => None,
        }
    }

    /// Goes on from a checkpoint. The checkpoint may be later than the damaged one from which the group went on before.
    ///
    /// # Errors
    /// When the anchor is invalid.
    pub(crate) fn go_on(&mut self, now: Time, record: Slot, anchor: &Anchor) -> Result<(), Halt> {
        self.decided = record;
        self.forget_requests();
        let installed = OrderInput::Installed { slot: record, anchor: anchor.clone() };
        if self.started {
            self.step(now, installed);
        } else if self.restored().needs_checkpoint {
            // The checkpoint that it needed is here.
            self.pillar_mut().order.restore_installed(record, anchor)?;
        } else {
            self.stay.installed = Some(installed);
        }
        Ok(())
    }

    /// Takes part if the log says where its stay begins and the stay is not over. If it has started before, the state went back to before
    /// the stay began. Whether it takes part.
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

    /// Begins the stay again, because the state went back to before it: everything that it decided is handed on again. Of what it wanted
    /// before only records count.
    fn begin_again(&mut self, now: Time, birth: Birth) {
        let mut before = self.take();
        for effect in before.drain().filter(|effect| matches!(effect, Effect::Persist { .. })) {
            self.effects.push(effect);
        }
        self.decided = birth.record;
        self.step(now, OrderInput::Installed { slot: birth.record, anchor: birth.anchor });
    }

    /// It takes no part behind this seq.
    pub(crate) fn leave(&mut self, base: Seq) {
        self.stay.away = Some(base);
        self.forget_requests();
    }

    fn forget_requests(&mut self) {
        match &mut self.at {
            At::Main(pillar) => pillar.admission.reset(),
            At::Own(apart) => apart.tell(Told::Forget),
        }
    }

    /// Sets what is known of its leadership.
    pub(crate) fn is_led(&mut self, view: View, leader: Option<ReplicaId>) {
        self.lead.keep(view, leader);
        self.pillar_mut().is_led(view, leader);
    }

    /// Leadership, to be changed when it was checked whose turn it is to lead.
    pub(crate) fn lead_mut(&mut self) -> &mut Lead {
        &mut self.lead
    }

    /// Panics with the name of a broken invariant; `durable`: its last durable record according to the log.
    pub(crate) fn invariants(&self, thorough: bool, durable: RecordId) {
        match &self.at {
            At::Main(pillar) => pillar.invariants(thorough, durable),
            At::Own(apart) => apart.invariants(thorough),
        }
    }
}

/// Its lane, if it has one of its own.
impl Group {
    /// Whether its pillar has a lane of its own.
    pub(crate) const fn is_apart(&self) -> bool {
        matches!(self.at, At::Own(_))
    }

    /// Whether its pillar leads, and proposes on the main lane.
    pub(crate) fn leads_here(&self) -> bool {
        !self.is_apart() && self.standing().leading
    }

    fn stand_in(&mut self) -> Option<&mut StandIn> {
        match &mut self.at {
            At::Main(_) => None,
            At::Own(apart) => Some(apart),
        }
    }

    /// Tells its lane the facts, if they have changed.
    pub(crate) fn learn(&mut self, facts: Facts) {
        if let Some(apart) = self.stand_in() {
            apart.learn(facts);
        }
    }

    /// Whether its lane has something to take and was not asked yet.
    pub(crate) fn asks_lane(&mut self) -> bool {
        self.stand_in().is_some_and(StandIn::asks)
    }

    /// Holds its lane, until it is asked for a turn again.
    pub(crate) fn hold_lane(&mut self) {
        if let Some(apart) = self.stand_in() {
            apart.hold();
        }
    }

    /// Its lane has a turn: the pillar takes its inputs, if there are any, and frames that came in there.
    pub(crate) fn take_turn(&mut self, now: Time, inbox: &mut Inbox, out: &mut effects::Effects) {
        if let Some(apart) = self.stand_in() {
            apart.take_turn(now, inbox, out);
        }
    }

    /// Its stay is no longer in force: its lane gives it no turns.
    fn rests(&mut self) {
        let mut effects = self.take();
        if let Some(apart) = self.stand_in() {
            apart.rests(&mut effects);
        }
        self.effects = effects;
    }

    /// Its stay is in force again.
    fn returns(&mut self) {
        if let Some(apart) = self.stand_in() {
            apart.returns();
        }
    }

    /// Whether its lane knows the connection of a frame.
    pub(crate) fn knows_on_lane(&self, conn: ConnId, frame: &Frame) -> bool {
        match &self.at {
            At::Main(_) => false,
            At::Own(apart) => apart.peek(|lane| lane.knows(conn, frame)),
        }
    }

    /// The members whose messages its lane took since the last call.
    pub(crate) fn signs(&mut self) -> Vec<ReplicaId> {
        self.stand_in().map_or_else(Vec::new, StandIn::signs)
    }

    /// The main lane hears the turns of its lane. Whether there were any.
    pub(crate) fn hear_lane(&mut self) -> bool {
        let mut effects = self.take();
        let any = self.stand_in().is_some_and(|apart| apart.hear(&mut effects));
        self.effects = effects;
        self.touched |= any;
        any
    }

    /// When its lane wants to act, or wanted to act while the process was stopped.
    pub(crate) fn wanted(&self) -> Option<Time> {
        match &self.at {
            At::Main(_) => None,
            At::Own(apart) => apart.wanted(),
        }
    }

    /// When its lane wanted to act, if that lane was stopped meanwhile.
    pub(crate) fn woke(&mut self) -> Option<Time> {
        self.stand_in()?.woke()
    }

    /// News for the merge, if its lane had a turn.
    pub(crate) fn news(&mut self) -> Option<Proposes> {
        self.stand_in()?.news()
    }

    /// The view, whether this replica leads in it, and how many questions for strong reads were answered by a lease. A protocol with a lane
    /// of its own says it as that lane knows it.
    pub(crate) fn leases(&self, me: ReplicaId) -> (View, bool, u64) {
        let me = Some(me);
        match &self.at {
            At::Main(pillar) => (self.view(), self.leader() == me, pillar.order.status().answered_by_lease),
            At::Own(apart) => {
                let own = apart.peek(|lane| lane.pillar.order.status());
                (own.view, own.leader == me, own.answered_by_lease)
            }
        }
    }
}

/// Requests of clients.
impl Group {
    /// Admission, if it is on the main lane.
    pub(crate) fn admission_mut(&mut self) -> Option<&mut Admission> {
        match &mut self.at {
            At::Main(pillar) => Some(&mut pillar.admission),
            At::Own(_) => None,
        }
    }

    /// Passes requests on to its lane.
    pub(crate) fn pass(&mut self, passed: Passed) {
        if let Some(apart) = self.stand_in() {
            apart.tell(Told::Requests(passed));
        }
    }

    /// A connection is gone, or its requests go through another instance.
    pub(crate) fn unbound(&mut self, conn: ConnId) {
        if let Some(apart) = self.stand_in() {
            apart.tell(Told::Unbound(conn));
        }
    }

    /// Execution goes on from a checkpoint, so it is unknown which requests are in flight.
    pub(crate) fn jumped(&mut self) {
        match &mut self.at {
            At::Main(pillar) => pillar.admission.jumped(),
            At::Own(apart) => apart.tell(Told::Jumped),
        }
    }

    /// Bytes of requests that are admitted and in no batch.
    pub(crate) fn waiting_bytes(&self) -> usize {
        match &self.at {
            At::Main(pillar) => pillar.admission.waiting_bytes(),
            At::Own(apart) => apart.waiting_bytes(),
        }
    }

    /// Proposes a batch that the main lane made.
    pub(crate) fn propose(&mut self, now: Time, batch: Batch) {
        match &mut self.at {
            At::Main(_) => self.step(now, OrderInput::Propose(batch)),
            At::Own(apart) => apart.tell(Told::Propose(batch)),
        }
    }

    /// Whether it leads here and the merge takes one more of its batches.
    pub(crate) fn may_propose(&self, merge: &Merge<Batch>) -> bool {
        self.standing().leading && merge.room(self.id) > 0
    }

    /// Whether it may propose a batch only for the time: nothing else is under way.
    pub(crate) fn is_idle(&self, merge: &Merge<Batch>) -> bool {
        let standing = self.standing();
        self.may_propose(merge) && standing.settled && standing.in_flight == 0 && self.waiting_bytes() == 0
    }

    /// Whether its last batch that left the merge was proposed here, in the view in which this replica leads now.
    pub(crate) fn proposed(&self, merge: &Merge<Batch>, me: ReplicaId) -> bool {
        let before = self.lead.settled_at().filter(|_| self.leader() == Some(me));
        let taken = merge.delivered_record(self.id);
        before.zip(taken).is_some_and(|(before, record)| record.0 > before.number())
    }

    /// One of its batches was executed. If it leads here, requests that execution refused are no longer in flight.
    pub(crate) fn answered(&mut self, outcomes: &[Outcome], me: ReplicaId) {
        if self.leader() != Some(me) {
            return;
        }
        let ended = outcomes.iter().filter_map(|outcome| match (outcome.opening, outcome.status) {
            (Some(client), _) => Some(Ended::Opening(client, outcome.number)),
            (None, ReplyStatus::ExpectedNumber | ReplyStatus::Overloaded | ReplyStatus::SessionExpired) => {
                Some(Ended::Refused(outcome.session, outcome.number))
            }
            (None, _) => None,
        });
        match &mut self.at {
            At::Main(pillar) => ended.for_each(|request| pillar.ended(request)),
            At::Own(apart) => {
                let ended: Vec<Ended> = ended.collect();
                if !ended.is_empty() {
                    apart.tell(Told::Ended(ended));
                }
            }
        }
    }

    /// Bytes of requests that were admitted and are not decided.
    pub(crate) fn queue_bytes(&self) -> usize {
        self.waiting_bytes() + self.standing().in_flight_bytes
    }

    /// Whether the next batch waits for more requests. `is_wanted`: something else waits for this instance. A pillar on a lane of its own
    /// proposes there.
    pub(crate) fn gathers(&mut self, now: Time, pace: &Pace, is_wanted: impl FnOnce() -> bool) -> bool {
        match &mut self.at {
            At::Main(pillar) => pillar.gathers(now, pace, is_wanted),
            At::Own(_) => true,
        }
    }

    /// The next batch to propose from the main lane, while the window allows.
    pub(crate) fn next_batch(
        &mut self,
        now: Time,
        pace: &Pace,
        header: impl FnOnce() -> BatchHeader,
    ) -> Option<Batch> {
        match &mut self.at {
            At::Main(pillar) => pillar.next_batch(now, pace, header),
            At::Own(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
