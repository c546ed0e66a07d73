//! A small cluster in one thread: lossy links, disks that forget what was not synced, crashes, liars, all from one seed. It watches
//! every effect of the honest ones and compares it with what any of them did before.
//!
//! Clients give every request to all replicas, which watch it; whoever leads proposes what is not decided yet. Messages travel as the
//! bytes that go over the wire.

mod changes;
mod oracle;

use super::liars::Lies;
use crate::OrderMessage;
use crate::mod_smart::evidence::Evidence;
use crate::mod_smart::message::{ModSmartBody as Body, ModSmartMessage};
use crate::mod_smart::office::Phase;
use crate::mod_smart::statements::digest_of;
use crate::mod_smart::{ModSmart, ModSmartConfig, first_anchor};
use crate::visigoth::{OracleAnswer, OracleRequest};
use crate::{Anchor, Effect, Effects, Input, Order, Random, Stored};
use changes::Changes;
use oracle::Oracle;
use quorate_auth::digest_of_request;
use quorate_auth::{Authenticator, Ed25519, Keyed, Trusting};
use quorate_types::{
    AgreedTime, Digest, FaultModel, InstanceId, ItemsBuilder, RecordId, Reject, ReplicaId, RequestNumber,
    SessionId, Slot, Span, Time, View, Visigoth,
};
use quorate_wire::{Batch, BatchHeader, FRAME_HEADER, RequestHeader, RequestKind, RequestProof, Verified};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A batch with one request, `size` bytes longer than the smallest; differs from every other with another number.
pub(super) fn batch(number: u64, size: usize) -> Batch {
    let mut items = ItemsBuilder::new();
    items.push(&vec![7; size]);
    let mut bytes = Vec::new();
    Batch::begin(&mut bytes);
    let header = RequestHeader {
        session: SessionId { index: 1, generation: 1 },
        number: RequestNumber::new(number),
        lowest_unanswered: RequestNumber::FIRST,
        kind: RequestKind::Commands,
        len: items.encoded_len() as u32,
        proof: RequestProof::None,
    };
    header.write_to(&mut bytes);
    items.write_to(&mut bytes);
    Batch::seal(
        bytes,
        BatchHeader {
            time: AgreedTime::ZERO,
            seed: number,
            count: 1,
            border: false,
            base: None,
            ruling: None,
        },
    )
}

/// The same request in another batch.
pub(super) fn another(batch: &Batch, seed: u64) -> Batch {
    let (_, _, request) = batch.requests().next().expect("one request").expect("a sound one");
    let mut bytes = Vec::new();
    Batch::begin(&mut bytes);
    bytes.extend_from_slice(request);
    Batch::seal(bytes, BatchHeader { seed, ..batch.header() })
}

pub(super) fn request_of(batch: &Batch) -> Digest {
    let (_, _, bytes) = batch.requests().next().expect("one request").expect("a sound one");
    digest_of_request(bytes)
}

pub(super) fn replica(number: usize) -> ReplicaId {
    ReplicaId::new(number as u16)
}

pub(super) fn place(id: ReplicaId) -> usize {
    usize::from(id.number())
}

const INSTANCE: InstanceId = InstanceId::new(1);

/// Of every message in the tests.
pub(super) fn encode(message: &ModSmartMessage) -> Vec<u8> {
    OrderMessage::of(message.clone()).frame(INSTANCE).to_vec()[FRAME_HEADER..].to_vec()
}

pub(super) fn decode(bytes: &[u8]) -> Option<OrderMessage> {
    crate::protocols::decode(bytes.to_vec().into()).ok().map(|(_, message)| message)
}

enum Event {
    Arrive { from: usize, to: usize, bytes: Vec<u8> },
    Synced { at: usize, life: u64 },
    Loaded { at: usize, life: u64, load: u64, records: Vec<RecordId> },
    Fetched { at: usize, life: u64, slot: u64 },
    Vouched { at: usize, life: u64, slot: Slot, digest: Digest },
    Wake { at: usize, life: u64 },
    Asked { at: usize, life: u64, request: OracleRequest },
    Answered { at: usize, life: u64, answer: OracleAnswer },
}

#[derive(Default)]
struct Machine {
    order: Option<ModSmart>,
    life: u64,
    wake: Option<Time>,
    disk: Vec<Stored>,
    gone: u64,
    /// Slots of the durable checkpoints, the newest last.
    checkpoints: Vec<(u64, Anchor)>,
    /// The log begins after this one: whoever lacks what is before is given it, and no other.
    begins_after: u64,
    unsynced: VecDeque<Stored>,
    syncing: bool,
    held: Vec<(RecordId, ReplicaId, ModSmartMessage)>,
    decided: usize,
    fetching: bool,
    /// Switched off for good.
    retired: bool,
    /// Whom it was told of when it joined.
    joined: Option<Vec<ReplicaId>>,
}

impl Machine {
    fn durable(&self) -> RecordId {
        RecordId::new(self.gone + self.disk.len() as u64)
    }
}

/// What the world looks like at its beginning.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) members: usize,
    pub(super) model: FaultModel,
    pub(super) configure: fn(ModSmartConfig) -> ModSmartConfig,
    /// Whether signatures are real ones.
    pub(super) real: bool,
    /// Whether hosts need a moment to know who sent what is proposed, and one never knows.
    pub(super) late: bool,
    /// Whether replicas join and leave.
    pub(super) changes: bool,
    /// The last slot of the state that all begin with.
    pub(super) state: u64,
}

impl Plan {
    pub(super) fn crash(members: usize) -> Self {
        let (model, configure) = (FaultModel::Crash, (|config| config) as fn(_) -> _);
        Self { members, model, configure, real: false, late: false, changes: false, state: 0 }
    }
    /// As few members as survive this, with T shorter than the time-outs.
    pub(super) fn visigoth(u: u32, s: u32, o: u32) -> Self {
        let sizes = Visigoth { u, s, o, t_ms: 20 };
        let model = FaultModel::Visigoth(sizes);
        Self { model, ..Self::crash(sizes.members_min() as usize) }
    }
    pub(super) fn byzantine(members: usize) -> Self {
        Self { model: FaultModel::Byzantine, ..Self::crash(members) }
    }
}

pub(super) struct World {
    pub(super) random: Random,
    pub(super) now: Time,
    pub(super) plan: Plan,
    seed: u64,
    machines: Vec<Machine>,
    pub(super) lies: Vec<Option<Lies>>,
    events: BTreeMap<(Time, u64), Event>,
    sequence: u64,
    /// Directed pairs that lose everything.
    pub(super) cut: BTreeSet<(usize, usize)>,
    /// Of 1000 messages so many are lost, and so many arrive twice.
    pub(super) lost: u64,
    pub(super) doubled: u64,
    pub(super) delay_max: Span,
    pub(super) sync_max: Span,
    requests: u64,
    /// What clients ask for and is not decided by any honest replica.
    pub(super) pending: BTreeMap<Digest, Batch>,
    pub(super) decided: Vec<Batch>,
    /// All that clients ever asked for: honest hosts vouch for nothing else, and nothing else is decided.
    asked: BTreeSet<Digest>,
    anchors: BTreeMap<u64, Anchor>,
    /// The digests accepted in a slot and view, by honest sender: each accepts one.
    accepted: BTreeMap<(usize, Slot, View), Digest>,
    wrote: BTreeMap<(usize, Slot, View), Digest>,
    /// What honest ones refused from liars.
    pub(super) evidence: u64,
    /// What was proved against liars.
    pub(super) proved: Vec<Evidence>,
    pub(super) overdue: u64,
    /// Whether leaders take up what clients ask for.
    pub(super) served: bool,
    pub(super) changes: Changes,
    pub(super) oracle: Oracle,
    /// Reads that were confirmed: where, and for which slot.
    pub(super) confirmed: Vec<(usize, Slot)>,
}

impl World {
    pub(super) fn new(seed: u64, plan: Plan) -> Self {
        let mut world = Self {
            random: Random::new(seed),
            now: Time::ZERO,
            plan,
            seed,
            machines: (0..plan.members).map(|_| Machine::default()).collect(),
            lies: (0..plan.members).map(|_| None).collect(),
            events: BTreeMap::new(),
            sequence: 0,
            cut: BTreeSet::new(),
            lost: 0,
            doubled: 0,
            delay_max: Span::from_millis(2),
            sync_max: Span::from_millis(4),
            requests: 0,
            pending: BTreeMap::new(),
            decided: Vec::new(),
            asked: BTreeSet::new(),
            anchors: BTreeMap::new(),
            accepted: BTreeMap::new(),
            wrote: BTreeMap::new(),
            evidence: 0,
            proved: Vec::new(),
            overdue: 0,
            served: true,
            changes: Changes::new(plan.members),
            oracle: Oracle::default(),
            confirmed: Vec::new(),
        };
        world.begin_with_state();
        (0..plan.members).for_each(|at| world.start(at));
        world
    }

    /// All were given the same checkpoint, and have no log.
    fn begin_with_state(&mut self) {
        let slot = self.plan.state;
        if slot == 0 {
            return;
        }
        self.decided = (1..=slot).map(|slot| batch(slot | 1 << 40, 0)).collect();
        let anchor = first_anchor(Slot::new(slot));
        self.anchors.insert(slot, anchor.clone());
        for machine in &mut self.machines {
            machine.checkpoints.push((slot, anchor.clone()));
            machine.begins_after = slot;
        }
    }

    pub(super) fn members(&self) -> usize {
        self.machines.len()
    }
    pub(super) fn is_up(&self, at: usize) -> bool {
        self.machines[at].order.is_some()
    }
    pub(super) fn order(&self, at: usize) -> &ModSmart {
        self.machines[at].order.as_ref().expect("up")
    }
    pub(super) fn is_honest(&self, at: usize) -> bool {
        self.lies[at].is_none()
    }
    pub(super) fn decided_at(&self, at: usize) -> usize {
        self.machines[at].decided
    }
    pub(super) fn has_unsynced(&self, at: usize) -> bool {
        !self.machines[at].unsynced.is_empty()
    }
    pub(super) fn view(&self, at: usize) -> u64 {
        self.order(at).core.office.view().number()
    }
    pub(super) fn is_normal(&self, at: usize) -> bool {
        matches!(self.order(at).core.office.phase(), Phase::Normal { .. })
    }
    pub(super) fn auth(&self, at: usize) -> Keyed {
        Keyed::new(replica(at), self.seed)
    }
    pub(super) fn leader(&self) -> Option<usize> {
        let leads = |at: &usize| self.is_up(*at) && self.order(*at).standing().leading;
        (0..self.members()).filter(leads).max_by_key(|at| self.view(*at))
    }

    fn local(&self, at: usize) -> Time {
        self.now.plus(Span::from_nanos((at as u64 * 977 + self.machines[at].life * 131) * 1_000_003))
    }
    fn schedule(&mut self, after: Span, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now.plus(after), self.sequence), event);
    }
    /// How long something takes a replica.
    fn takes(&mut self, at: usize, max: Span) -> Span {
        let span = self.random_span(max);
        if self.lies[at].as_ref().is_some_and(Lies::is_fast) { Span::ZERO } else { span }
    }
    fn random_span(&mut self, max: Span) -> Span {
        Span::from_nanos(self.random.below(max.nanos().max(1)))
    }

    fn restored(&mut self, at: usize) -> ModSmart {
        let members = self.machines[at].joined.clone();
        let members = members.unwrap_or_else(|| (0..self.plan.members).map(replica).collect());
        let config = ModSmartConfig::new(replica(at), members, self.plan.model, self.random.next());
        let auth: Box<dyn Authenticator> = match self.plan.model {
            model if !model.may_lie() => Box::new(Trusting),
            _ if self.plan.real => {
                let secret = |at: usize| [at as u8 + 1; 32];
                let keys = (0..self.plan.members).map(|at| (replica(at), Ed25519::public(secret(at))));
                Box::new(Ed25519::new(replica(at), secret(at), keys).expect("keys of ours"))
            }
            _ => Box::new(self.auth(at)),
        };
        let mut order = ModSmart::new((self.plan.configure)(config), auth);
        let machine = &self.machines[at];
        if let Some((slot, anchor)) = machine.checkpoints.last() {
            order.restore_anchor(Slot::new(*slot), anchor).expect("an anchor of ours");
        }
        for (id, record) in (1..).zip(&machine.disk) {
            order.restore(RecordId::new(id), record.clone()).expect("what was written fits together");
        }
        order
    }

    pub(super) fn start(&mut self, at: usize) {
        assert!(!self.is_up(at));
        let mut order = self.restored(at);
        let machine = &mut self.machines[at];
        machine.decided = machine.checkpoints.last().map_or(0, |(slot, _)| *slot as usize);
        (machine.gone, machine.wake) = (0, None);
        machine.life += 1;
        let mut out = Effects::new();
        order.start(self.local(at), &mut out);
        self.machines[at].order = Some(order);
        self.apply(at, out);
        let pending: Vec<_> = self.pending.keys().copied().collect();
        pending.into_iter().for_each(|request| self.step(at, Input::Watch(request)));
        for peer in 0..self.members() {
            self.connection(at, peer, true);
        }
    }

    /// Ends a life; what was not synced is gone, from some record on.
    pub(super) fn crash(&mut self, at: usize) {
        if self.random.below(3) == 0 {
            // It may hold more than what is left of the log shows.
            self.checkpoint(at, self.machines[at].decided as u64);
        }
        let keep = self.random.below(self.machines[at].unsynced.len() as u64 + 1);
        (0..keep).for_each(|_| self.sync_one(at));
        let machine = &mut self.machines[at];
        machine.order = None;
        machine.unsynced.clear();
        machine.held.clear();
        (machine.syncing, machine.fetching) = (false, false);
        for peer in 0..self.members() {
            self.connection(peer, at, false);
        }
    }

    /// This replica gets no turn for so long: what would have come then comes after it.
    pub(super) fn pause(&mut self, at: usize, span: Span) {
        let end = self.now.plus(span);
        let of_it = |event: &Event| match event {
            Event::Arrive { to, .. } => *to == at,
            Event::Synced { at: who, .. }
            | Event::Loaded { at: who, .. }
            | Event::Fetched { at: who, .. }
            | Event::Vouched { at: who, .. }
            | Event::Wake { at: who, .. }
            | Event::Answered { at: who, .. } => *who == at,
            Event::Asked { .. } => false,
        };
        while let Some((key, _)) = self.events.iter().find(|(key, event)| key.0 < end && of_it(event)) {
            let key = *key;
            let event = self.events.remove(&key).expect("found just now");
            self.sequence += 1;
            self.events.insert((end, self.sequence), event);
        }
        self.run(span);
    }

    pub(super) fn connection(&mut self, one: usize, other: usize, up: bool) {
        for (at, peer) in [(one, other), (other, one)] {
            if one != other && self.is_up(at) && (!up || self.is_up(peer)) {
                let peer = replica(peer);
                self.step(at, if up { Input::Connected(peer) } else { Input::Disconnected(peer) });
            }
        }
    }

    /// A client asks all for something.
    pub(super) fn ask(&mut self, size: usize) -> Digest {
        self.requests += 1;
        let batch = batch(self.requests, size);
        let request = request_of(&batch);
        self.pending.insert(request, batch);
        self.asked.insert(request);
        for at in 0..self.members() {
            self.step(at, Input::Watch(request));
        }
        request
    }

    /// Whoever leads takes up what is not decided.
    pub(super) fn serve(&mut self) {
        for at in 0..self.members() {
            let free = self.is_up(at)
                && self.order(at).standing().leading
                && self.order(at).standing().in_flight == 0;
            let count = self.pending.len() as u64;
            if free && count > 0 && self.served {
                let which = self.random.below(count) as usize;
                let batch = self.pending.values().nth(which).cloned().expect("there are so many");
                self.step(at, Input::Propose(batch));
            }
        }
    }

    pub(super) fn step(&mut self, at: usize, input: Input) {
        let now = self.local(at);
        let mut out = Effects::new();
        let Some(order) = &mut self.machines[at].order else { return };
        order.step(now, input, &mut out);
        self.apply(at, out);
    }

    fn apply(&mut self, at: usize, mut out: Effects) {
        let mut vouched = Vec::new();
        for effect in out.drain() {
            match effect {
                Effect::Examine { slot, digest, batch } => {
                    assert_eq!(digest, digest_of(&batch), "replica {at} asks about what it was sent");
                    assert!(!self.changes.knows(&batch), "replica {at} asks about what it knows itself");
                    if !self.is_honest(at) || self.asked.contains(&request_of(&batch)) {
                        vouched.push((slot, digest));
                    }
                }
                effect => self.effect(at, effect),
            }
        }
        let life = self.machines[at].life;
        for (slot, digest) in vouched {
            if !self.plan.late {
                self.step(at, Input::Vouched { slot, digest, waited: None });
            } else if at != self.unsure() {
                let span = self.random_span(Span::from_millis(20));
                self.schedule(span, Event::Vouched { at, life, slot, digest });
            }
        }
        if !self.machines[at].syncing && !self.machines[at].unsynced.is_empty() {
            self.machines[at].syncing = true;
            let span = self.takes(at, self.sync_max);
            self.schedule(span, Event::Synced { at, life });
        }
        let Some(order) = &self.machines[at].order else { return };
        if let Some(due) = order.deadline()
            && self.machines[at].wake.is_none_or(|wake| due < wake)
        {
            self.machines[at].wake = Some(due);
            let span = due.since(self.local(at));
            self.schedule(span, Event::Wake { at, life });
        }
    }

    /// Who never knows who sent what, where that is so; no liar.
    fn unsure(&self) -> usize {
        (self.seed as usize + self.members() - 1) % self.members()
    }

    fn effect(&mut self, at: usize, effect: Effect) {
        match effect {
            Effect::Persist { id, record, .. } => {
                let machine = &mut self.machines[at];
                assert_eq!(id, machine.durable().plus(machine.unsynced.len() as u64 + 1));
                machine.unsynced.push_back(record);
            }
            Effect::Send { to, message, after } => {
                let message = message.take().expect("it speaks Mod-SMaRt");
                match after {
                    Some(after) if after > self.machines[at].durable() => {
                        self.machines[at].held.push((after, to, message));
                    }
                    _ => self.leave(at, place(to), message),
                }
            }
            Effect::Decided { slot, batch } => self.note_decided(at, slot, batch),
            Effect::Load { load, records } => {
                let (life, span) = (self.machines[at].life, self.takes(at, self.sync_max));
                self.schedule(span, Event::Loaded { at, life, load, records });
            }
            Effect::Behind { slot } => {
                if !std::mem::replace(&mut self.machines[at].fetching, true) {
                    let (life, span) = (self.machines[at].life, self.takes(at, self.sync_max));
                    self.schedule(span, Event::Fetched { at, life, slot: slot.number() });
                }
            }
            Effect::Overdue { .. } => self.overdue += 1,
            Effect::Rejected { from, why } => {
                let gone = self.plan.changes && why == Reject::UnknownPeer;
                let liars = gone || !self.is_honest(at) || !self.is_honest(place(from));
                assert!(liars, "replica {at} refuses what the honest {from} sent: {why}");
                self.evidence += 1;
            }
            Effect::Link(link) => panic!("{link:?} is signed with keys that nobody else has"),
            Effect::Proved(evidence) => {
                let accused = evidence.accused;
                assert!(
                    !self.is_honest(place(accused)),
                    "replica {at} accuses the honest {accused}: {evidence:?}"
                );
                let auth = self.auth(at);
                let right = evidence
                    .key
                    .map_or_else(|| evidence.verify_as_member(&auth), |key| evidence.verify(&key));
                assert_eq!(right, Ok(()), "replica {at} proves nothing");
                assert_eq!(Evidence::decode(evidence.encode()).as_ref(), Ok(&*evidence));
                self.proved.push(*evidence);
            }
            Effect::Halt(why) => panic!("replica {at} halts: {why}"),
            Effect::Members { memberships, committed } => self.on_members(at, &memberships, committed),
            Effect::ReadConfirmed { slot, .. } => self.confirmed.push((at, slot)),
            Effect::LeaderChanged { .. } | Effect::ReadFailed { .. } | Effect::SmallQuorums { .. } => {}
            Effect::Proposed { .. } => panic!("nobody wants to hear it"),
            Effect::Oracle(request) => self.ask_oracle(at, request),
            Effect::Examine { .. } => panic!("replica {at} speaks something else"),
        }
    }

    fn note_decided(&mut self, at: usize, slot: Slot, batch: Batch) {
        let machine = &mut self.machines[at];
        assert_eq!(slot.number(), machine.decided as u64 + 1, "replica {at}: slots come in order");
        machine.decided += 1;
        let decided = machine.decided;
        if !self.is_honest(at) {
            return;
        }
        assert!(
            self.asked.contains(&request_of(&batch)) || self.changes.knows(&batch),
            "replica {at} decides what nobody asked for in {slot}"
        );
        match self.decided.get(decided - 1) {
            Some(known) => assert!(*known == batch, "replica {at} decides something else in {slot}"),
            None => {
                self.pending.remove(&request_of(&batch));
                self.decided.push(batch);
            }
        }
    }

    /// A message leaves its sender; liars change their minds here.
    fn leave(&mut self, from: usize, to: usize, message: ModSmartMessage) {
        let Some(mut lies) = self.lies[from].take() else {
            self.check_honest(from, &message);
            return self.send(from, to, encode(&message));
        };
        if let Some(request) = lies.false_wish(&mut self.random, message.view) {
            self.ask_oracle(from, request);
        }
        let list = lies.instead(&mut self.random, to, message);
        self.lies[from] = Some(lies);
        for (to, bytes) in list {
            self.send(from, to % self.members(), bytes);
        }
    }

    /// What an honest one promises it promises once.
    fn check_honest(&mut self, from: usize, message: &ModSmartMessage) {
        self.changes.look(from, message);
        let (list, slot, digest) = match &message.body {
            Body::Write { slot, digest } => (&mut self.wrote, *slot, *digest),
            Body::Accept { slot, digest, .. } => (&mut self.accepted, *slot, *digest),
            _ => return,
        };
        let first = *list.entry((from, slot, message.view)).or_insert(digest);
        assert_eq!(first, digest, "replica {from} votes twice on {slot} in {}", message.view);
    }

    pub(super) fn send(&mut self, from: usize, to: usize, bytes: Vec<u8>) {
        let copies = 1 + u64::from(self.random.below(1000) < self.doubled);
        for _ in 0..copies {
            if from != to && self.random.below(1000) >= self.lost && !self.cut.contains(&(from, to)) {
                let span = self.takes(from, self.delay_max);
                self.schedule(span, Event::Arrive { from, to, bytes: bytes.clone() });
            }
        }
    }

    fn sync_one(&mut self, at: usize) {
        let machine = &mut self.machines[at];
        machine.disk.extend(machine.unsynced.pop_front());
    }

    fn synced(&mut self, at: usize) {
        let some = 1 + self.random.below(self.machines[at].unsynced.len() as u64);
        (0..some).for_each(|_| self.sync_one(at));
        self.machines[at].syncing = false;
        let durable = self.machines[at].durable();
        let (leaving, held) = std::mem::take(&mut self.machines[at].held)
            .into_iter()
            .partition(|(after, ..)| *after <= durable);
        self.machines[at].held = held;
        let leaving: Vec<_> = leaving;
        for (_, to, message) in leaving {
            self.leave(at, place(to), message);
        }
        self.step(at, Input::Durable(durable));
    }

    /// Makes a durable checkpoint of a slot that this replica executed and may still name.
    pub(super) fn checkpoint(&mut self, at: usize, slot: u64) {
        let newest = self.machines[at].checkpoints.last().map_or(0, |(slot, _)| *slot);
        if slot <= newest || slot > self.machines[at].decided as u64 {
            return;
        }
        let anchor = self.order(at).anchor(Slot::new(slot)).expect("a slot between the floor and the last");
        let first = self.anchors.entry(slot).or_insert_with(|| anchor.clone());
        assert_eq!(*first, anchor, "replica {at} has another anchor at slot {slot}");
        self.machines[at].checkpoints.push((slot, anchor));
    }

    /// Forgets what the oldest, or a newer, of its checkpoints holds, and deletes records that are not needed.
    pub(super) fn forget(&mut self, at: usize) {
        let decided = self.machines[at].decided as u64;
        let usable = self.machines[at].checkpoints.iter().filter(|(slot, _)| *slot <= decided).count() as u64;
        if usable > 0 {
            let which = self.random.below(usable) as usize;
            self.machines[at].checkpoints.drain(..which);
            let slot = self.machines[at].checkpoints[0].0;
            self.machines[at].begins_after = slot;
            self.step(at, Input::Trim { slot: Slot::new(slot) });
        }
        let Some(keep) = self.order(at).keep_from() else { return };
        let machine = &mut self.machines[at];
        let most = (keep.number() - 1).saturating_sub(machine.gone).min(machine.disk.len() as u64);
        let count = self.random.below(most + 1);
        machine.disk.drain(..count as usize);
        machine.gone += count;
    }

    /// A checkpoint of an honest replica arrived: one that stands for what it forgot, since nobody else may vouch for a later one.
    fn fetched(&mut self, at: usize, slot: u64) {
        self.machines[at].fetching = false;
        let from = self.random.below(self.members() as u64) as usize;
        if from == at || !self.is_honest(from) || self.is_retired(from) {
            return;
        }
        let slot = slot.max(self.machines[at].decided as u64 + 1);
        let known = self.machines[from].begins_after;
        let offered =
            self.machines[from].checkpoints.iter().find(|(have, _)| *have == known && *have >= slot);
        if let Some((slot, anchor)) = offered.cloned() {
            self.machines[at].checkpoints = vec![(slot, anchor.clone())];
            self.machines[at].begins_after = slot;
            self.machines[at].decided = slot as usize;
            self.step(at, Input::Installed { slot: Slot::new(slot), anchor });
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive { from, to, bytes } => {
                if !self.cut.contains(&(from, to))
                    && let Some(message) = decode(&bytes)
                {
                    if let Some(lies) = &mut self.lies[to] {
                        lies.hear(&message);
                    }
                    self.step(to, Input::Receive(Verified::vouch(replica(from), message)));
                }
            }
            Event::Synced { at, life } if self.lives(at, life) => self.synced(at),
            Event::Loaded { at, life, load, records } if self.lives(at, life) => {
                let machine = &self.machines[at];
                let read = |id: &RecordId| machine.disk[(id.number() - machine.gone) as usize - 1].clone();
                let records = records.iter().map(read).collect();
                self.step(at, Input::Loaded { load, records });
            }
            Event::Fetched { at, life, slot } if self.lives(at, life) => self.fetched(at, slot),
            Event::Vouched { at, life, slot, digest } if self.lives(at, life) => {
                self.step(at, Input::Vouched { slot, digest, waited: None });
            }
            Event::Asked { at, life, request } => self.on_asked(at, life, request),
            Event::Answered { at, life, answer } if self.lives(at, life) => self.on_answered(at, answer),
            Event::Wake { at, life } if self.lives(at, life) => {
                let now = self.local(at);
                if self.machines[at].wake.is_some_and(|wake| wake <= now) {
                    self.machines[at].wake = None;
                    self.step(at, Input::Deadline);
                    let due = self.order(at).deadline();
                    assert!(due.is_none_or(|due| due > now), "a deadline that was served is over");
                }
            }
            _ => {}
        }
    }

    fn lives(&self, at: usize, life: u64) -> bool {
        self.is_up(at) && self.machines[at].life == life
    }

    /// Runs everything that happens within the span.
    pub(super) fn run(&mut self, span: Span) {
        let end = self.now.plus(span);
        while let Some(entry) = self.events.first_entry() {
            if entry.key().0 > end {
                break;
            }
            let ((time, _), event) = entry.remove_entry();
            self.now = time;
            self.handle(event);
            self.serve();
        }
        self.now = end;
    }

    /// Runs until this holds, or for so long.
    pub(super) fn run_until(&mut self, span: Span, holds: impl Fn(&Self) -> bool) -> bool {
        let end = self.now.plus(span);
        while self.now < end {
            if holds(self) {
                return true;
            }
            self.run(Span::from_millis(10));
        }
        holds(self)
    }

    /// Everything works from now on, except that liars lie.
    pub(super) fn heal(&mut self) {
        (self.lost, self.doubled) = (0, 0);
        self.delay_max = Span::from_millis(2);
        self.sync_max = Span::from_millis(4);
        self.cut.clear();
        for at in 0..self.members() {
            if !self.is_up(at) && !self.is_retired(at) {
                self.start(at);
            }
        }
        for at in 0..self.members() {
            (0..at).for_each(|peer| self.connection(at, peer, true));
        }
    }

    /// Whether everything that was asked for is decided by all honest replicas.
    pub(super) fn is_done(&self) -> bool {
        let end = self.decided.len();
        let current: Vec<usize> = self.current().into_iter().filter(|at| self.is_honest(*at)).collect();
        self.pending.is_empty() && current.iter().all(|at| self.decided_at(*at) == end)
    }

    pub(super) fn check(&self) {
        for machine in &self.machines {
            if let Some(order) = &machine.order {
                order.invariants(true);
            }
        }
    }

    /// Where everybody stands, for people.
    pub(super) fn describe(&self) -> String {
        let mut text = format!("{} decided, {} pending;", self.decided.len(), self.pending.len());
        for at in 0..self.members() {
            let lies = self.lies[at].as_ref().map(|lies| format!(" lies by {:?}", lies.how));
            match &self.machines[at].order {
                Some(order) => {
                    let phase = format!("{:?}", order.core.office.phase());
                    let phase: String = phase.chars().take(40).collect();
                    text += &format!(
                        " r{at}: {} leader {} slot {} {phase}{};",
                        order.core.office.view(),
                        order.core.leader(),
                        order.core.decided(),
                        lies.unwrap_or_default()
                    );
                }
                None => text += &format!(" r{at} down;"),
            }
        }
        text
    }
}

/// The digest of a batch, for tests that forge votes.
pub(super) fn value(batch: &Batch) -> Digest {
    digest_of(batch)
}
