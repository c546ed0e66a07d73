//! Replicas of one instance with a network, disks and a clock that obey the script: no message arrives, no record becomes durable and no
//! time passes unless the script says so. The module keeps the host's part of the contract of [`Order`] in its plainest form: a message
//! leaves when the record that it waits for is durable, and a crash takes what is not durable.
//!
//! INV-SCRIPT-1: no two replicas decide different batches for a slot, in any life. INV-SCRIPT-2: a view has one leader.
//! INV-SCRIPT-3: slots are decided in order, without gaps, from the checkpoint on that a replica began with or installed.
//! INV-SCRIPT-4: records are numbered from 1 without gaps. INV-SCRIPT-8: all replicas say the same of a slot in their
//! checkpoints. INV-SCRIPT-9: only durable records are given up.
//! All are asserted after every step, together with the protocol's own.

use bytes::Bytes;
use oracle::Oracle;
use quorate_order::OrderMessage;
use quorate_order::visigoth::OracleRequest;
use quorate_order::{Anchor, Effect, Effects, Input, Order, Stored, Waited};
use quorate_types::{Digest, Halt, RecordId, Reject, ReplicaId, Slot, Span, Time, View};
use quorate_wire::{Batch, Memberships, Verified};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

mod checkpoints;
mod oracle;

pub use oracle::Asked;
pub(crate) use oracle::Rule;

/// Makes the protocol of one replica, given the replica, the members and the seed.
pub type Build = Box<dyn Fn(ReplicaId, &[ReplicaId], u64) -> Box<dyn Order>>;

/// What lies on a replica's disk.
#[derive(Clone, Copy, Debug)]
pub struct Disk<'a> {
    /// The records, without those that were trimmed.
    pub records: &'a [Stored],
    /// The number of durable records at the front of `records`.
    pub durable: usize,
    /// The newest checkpoint: its slot, and its anchor for the instance.
    pub checkpoint: Option<(Slot, &'a Anchor)>,
}

/// Panics when a message (from, to) may not leave with only these records on disk. The host obeys [`Effect::Send::after`]; this checks that
/// `after` names enough.
pub type CheckSend = fn(Disk<'_>, ReplicaId, ReplicaId, &OrderMessage);

/// Something that a replica did, or that happened to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message left.
    Sent(ReplicaId, ReplicaId, OrderMessage),
    /// A message left and was lost: the link is cut, or the receiver is down.
    Lost(ReplicaId, ReplicaId, OrderMessage),
    /// A message waits at its sender for this record.
    Held(ReplicaId, ReplicaId, OrderMessage, RecordId),
    /// A record was written, and is not durable yet.
    Persisted(ReplicaId, RecordId, Stored),
    /// Every record up to this one is durable. Only reported where syncing is not automatic.
    Durable(ReplicaId, RecordId),
    /// A slot's batch is decided.
    Decided(ReplicaId, Slot, Batch),
    /// The leader, as a replica sees it.
    Leader(ReplicaId, View, Option<ReplicaId>),
    /// A read may run once the slot is executed.
    ReadConfirmed(ReplicaId, u64, Slot),
    /// A read was not confirmed.
    ReadFailed(ReplicaId, u64),
    /// Records are read back.
    Loading(ReplicaId, u64, Vec<RecordId>),
    /// These memberships hold for a replica, and whether they are committed there.
    Members(ReplicaId, Arc<Memberships>, bool),
    /// A replica needs a checkpoint of this slot or a later one.
    Behind(ReplicaId, Slot),
    /// Records before this one are gone.
    Trimmed(ReplicaId, RecordId),
    /// A replica refused what another sent.
    Rejected(ReplicaId, ReplicaId, Reject),
    /// A replica asked its host whether clients sent a proposal, and the host does not answer yet.
    Examining(ReplicaId, Slot, Digest),
    /// A replica asks the oracle.
    Asks(ReplicaId, OracleRequest),
    /// The oracle answers: the version of the register, and its value.
    Told(ReplicaId, u64, Bytes),
    /// The oracle grants nothing of what a replica claimed, for this reason. The replica is not told the reason.
    Refused(ReplicaId, String),
    /// A replica can not continue.
    Halted(ReplicaId, Halt),
}

struct Replica {
    /// None while it is down.
    order: Option<Box<dyn Order>>,
    disk: Vec<Stored>,
    /// How many records of this life were trimmed away.
    gone: u64,
    durable: RecordId,
    /// The durable checkpoints.
    checkpoints: BTreeMap<Slot, Anchor>,
    /// The replica needs a checkpoint of this slot or a later one.
    behind: Option<Slot>,
    held: Vec<(ReplicaId, OrderMessage, RecordId)>,
    loading: VecDeque<(u64, Vec<RecordId>)>,
    /// Proposals of which the replica asked whether clients sent them; not answered yet.
    examining: VecDeque<(Slot, Digest)>,
    /// Whether the replica's host can tell what clients sent.
    vouches: bool,
    decided: Slot,
    lives: u64,
    autosync: bool,
}

impl Replica {
    /// The last record that was written.
    fn written(&self) -> RecordId {
        RecordId::new(self.gone + self.disk.len() as u64)
    }
    fn disk(&self) -> Disk<'_> {
        Disk {
            records: &self.disk,
            durable: self.durable.number().saturating_sub(self.gone) as usize,
            checkpoint: self.checkpoints.last_key_value().map(|(slot, anchor)| (*slot, anchor)),
        }
    }
}

struct Flying {
    number: u64,
    message: OrderMessage,
}

/// The replicas of one instance and everything around them.
pub struct World {
    build: Build,
    members: Vec<ReplicaId>,
    /// How many replicas are members at the beginning.
    voters: usize,
    seed: u64,
    now: Time,
    replicas: BTreeMap<ReplicaId, Replica>,
    links: BTreeMap<(ReplicaId, ReplicaId), VecDeque<Flying>>,
    cut: BTreeSet<(ReplicaId, ReplicaId)>,
    /// Links without a connection.
    closed: BTreeSet<(ReplicaId, ReplicaId)>,
    sent: u64,
    /// How long every proposal has waited when it arrives at a replica.
    waits: Span,
    autoload: bool,
    autofetch: bool,
    check_send: Option<CheckSend>,
    events: Vec<Event>,
    decided: BTreeMap<Slot, Batch>,
    anchors: BTreeMap<Slot, Anchor>,
    leaders: BTreeMap<View, ReplicaId>,
    oracle: Oracle,
}

/// More steps than this mean that the protocol never comes to rest: a bug.
const STEPS_MAX: usize = 100_000;

impl World {
    /// `n` replicas, r1 to rn, started and connected with each other. With `autosync` what they write is durable at once.
    pub fn new(n: u16, seed: u64, autosync: bool, build: Build) -> Self {
        Self::with_voters(n, n, seed, autosync, build)
    }

    /// Like [`World::new`], but only the first `voters` replicas are members at the beginning.
    pub fn with_voters(n: u16, voters: u16, seed: u64, autosync: bool, build: Build) -> Self {
        let members: Vec<ReplicaId> = (1..=n).map(ReplicaId::new).collect();
        let mut world = Self {
            build,
            voters: usize::from(voters),
            seed,
            now: Time::ZERO,
            replicas: BTreeMap::new(),
            links: BTreeMap::new(),
            cut: BTreeSet::new(),
            closed: BTreeSet::new(),
            sent: 0,
            waits: Span::ZERO,
            autoload: true,
            autofetch: false,
            check_send: None,
            events: vec![],
            decided: BTreeMap::new(),
            anchors: BTreeMap::new(),
            leaders: BTreeMap::new(),
            oracle: Oracle::default(),
            members: members.clone(),
        };
        for id in &members {
            let replica = Replica {
                order: None,
                disk: vec![],
                gone: 0,
                durable: RecordId::ZERO,
                checkpoints: BTreeMap::new(),
                behind: None,
                held: vec![],
                loading: VecDeque::new(),
                examining: VecDeque::new(),
                vouches: true,
                decided: Slot::ZERO,
                lives: 0,
                autosync,
            };
            world.replicas.insert(*id, replica);
        }
        for id in &members {
            world.start(*id);
        }
        for a in &members {
            for b in members.iter().filter(|b| *b != a) {
                world.step(*a, Input::Connected(*b));
            }
        }
        world
    }

    /// Calls `check` for every message that leaves from now on.
    pub fn check_sends(&mut self, check: CheckSend) {
        self.check_send = Some(check);
    }
    /// All replicas.
    pub fn members(&self) -> &[ReplicaId] {
        &self.members
    }
    /// The replicas that are members at the beginning.
    pub fn voters(&self) -> &[ReplicaId] {
        &self.members[..self.voters]
    }
    /// The time that all share.
    pub fn now(&self) -> Time {
        self.now
    }
    /// Everything that happened since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }
    /// The protocol of a replica that is up.
    pub fn order(&self, id: ReplicaId) -> Option<&dyn Order> {
        self.replicas.get(&id)?.order.as_deref()
    }
    /// What lies on a replica's disk.
    pub fn disk(&self, id: ReplicaId) -> Disk<'_> {
        self.replicas[&id].disk()
    }
    /// The last record that a replica wrote in this life.
    pub fn written(&self, id: ReplicaId) -> RecordId {
        self.replicas[&id].written()
    }
    /// The messages under way on a link.
    pub fn flying(&self, from: ReplicaId, to: ReplicaId) -> impl Iterator<Item = &OrderMessage> {
        self.links.get(&(from, to)).into_iter().flatten().map(|flying| &flying.message)
    }
    /// Every slot that any replica ever decided.
    pub fn decided(&self) -> &BTreeMap<Slot, Batch> {
        &self.decided
    }
    /// The replica that leads in the highest view, if any does.
    pub fn leader(&self) -> Option<ReplicaId> {
        let leads = |id: &ReplicaId| self.order(*id).filter(|order| order.standing().leading);
        let leading = self.members.iter().copied().filter(|id| leads(id).is_some());
        leading.max_by_key(|id| leads(id).map(|order| order.status().view))
    }

    fn start(&mut self, id: ReplicaId) {
        let replica = self.replicas.get_mut(&id).expect("a member");
        let seed = self.seed.wrapping_add(u64::from(id.number())).wrapping_add(replica.lives << 32);
        let mut order = (self.build)(id, &self.members[..self.voters], seed);
        replica.lives += 1;
        // What was trimmed is no part of the new life's numbers.
        replica.durable = RecordId::new(replica.disk.len() as u64);
        (replica.gone, replica.behind) = (0, None);
        let checkpoint = replica.checkpoints.last_key_value();
        if let Some((slot, anchor)) = checkpoint
            && let Err(halt) = order.restore_anchor(*slot, anchor)
        {
            self.events.push(Event::Halted(id, halt));
            return;
        }
        replica.decided = checkpoint.map_or(Slot::ZERO, |(slot, _)| *slot);
        let mut record_id = RecordId::FIRST;
        for record in &replica.disk {
            if let Err(halt) = order.restore(record_id, record.clone()) {
                self.events.push(Event::Halted(id, halt));
                return;
            }
            record_id = record_id.next();
        }
        let mut effects = Effects::new();
        order.start(self.now, &mut effects);
        replica.order = Some(order);
        self.carry_out(id, effects);
        self.sync_if_automatic(id);
    }

    /// Gives one input to a replica and carries out what follows, up to what an automatic sync brings about.
    pub fn step(&mut self, id: ReplicaId, input: Input) {
        self.step_once(id, input);
        self.sync_if_automatic(id);
    }

    fn step_once(&mut self, id: ReplicaId, input: Input) {
        let Some(order) = self.replicas.get_mut(&id).and_then(|r| r.order.as_mut()) else { return };
        let mut effects = Effects::new();
        order.step(self.now, input, &mut effects);
        self.carry_out(id, effects);
        if let Some(order) = self.order(id) {
            order.invariants(true);
        }
        self.vouch(id);
        self.answer_for_oracle();
    }

    /// From now on the replica's host can, or can not, tell what clients sent. If it can, it answers the waiting questions.
    pub fn set_vouches(&mut self, id: ReplicaId, vouches: bool) {
        if let Some(replica) = self.replicas.get_mut(&id) {
            replica.vouches = vouches;
        }
        self.vouch(id);
        self.sync_if_automatic(id);
    }

    /// From now on every proposal has waited for this long when it arrives at a replica.
    pub fn set_waits(&mut self, waits: Span) {
        self.waits = waits;
    }

    /// Answers what a replica asked about proposals.
    fn vouch(&mut self, id: ReplicaId) {
        while let Some(replica) = self.replicas.get_mut(&id).filter(|replica| replica.vouches) {
            let Some((slot, digest)) = replica.examining.pop_front() else { return };
            let since = Time::from_nanos(self.now.nanos().saturating_sub(self.waits.nanos()));
            let waited = Some(Waited { since, full: false });
            self.step_once(id, Input::Vouched { slot, digest, waited });
        }
    }

    fn sync_if_automatic(&mut self, id: ReplicaId) {
        for _ in 0..STEPS_MAX {
            let replica = &self.replicas[&id];
            if self.autoload && replica.loading.front().is_some() {
                self.load_once(id);
            } else if replica.autosync && replica.durable < replica.written() {
                self.make_durable(id, replica.written());
            } else if self.autofetch && replica.behind.is_some() && self.fetch_from_anybody(id) {
                continue;
            } else {
                return;
            }
        }
        panic!("INV-SCRIPT-5: {id} writes for ever");
    }

    fn carry_out(&mut self, id: ReplicaId, mut effects: Effects) {
        let mut asked = Vec::new();
        for effect in effects.drain() {
            let replica = self.replicas.get_mut(&id).expect("a member");
            match effect {
                Effect::Persist { id: record_id, record, vital: _ } => {
                    replica.disk.push(record.clone());
                    assert_eq!(record_id, replica.written(), "INV-SCRIPT-4: records of {id}");
                    self.events.push(Event::Persisted(id, record_id, record));
                }
                Effect::Send { to, message, after } => match after.filter(|after| *after > replica.durable) {
                    Some(after) => {
                        if !replica.autosync {
                            self.events.push(Event::Held(id, to, message.clone(), after));
                        }
                        replica.held.push((to, message, after));
                    }
                    None => self.send_own(id, to, message),
                },
                Effect::Decided { slot, batch } => self.note_decided(id, slot, batch),
                Effect::LeaderChanged { view, leader, .. } => {
                    if leader == Some(id) {
                        let first = *self.leaders.entry(view).or_insert(id);
                        assert_eq!(first, id, "INV-SCRIPT-2: {view} has two leaders");
                    }
                    self.events.push(Event::Leader(id, view, leader));
                }
                Effect::ReadConfirmed { read, slot } => {
                    self.events.push(Event::ReadConfirmed(id, read, slot))
                }
                Effect::ReadFailed { read } => self.events.push(Event::ReadFailed(id, read)),
                Effect::Load { load, records } => {
                    self.events.push(Event::Loading(id, load, records.clone()));
                    replica.loading.push_back((load, records));
                }
                Effect::Members { memberships, committed } => {
                    self.events.push(Event::Members(id, memberships, committed));
                }
                Effect::Behind { slot } => {
                    replica.behind = Some(slot);
                    self.events.push(Event::Behind(id, slot));
                }
                Effect::Rejected { from, why } => self.events.push(Event::Rejected(id, from, why)),
                Effect::Overdue { .. }
                | Effect::SmallQuorums { .. }
                | Effect::Proposed { .. }
                | Effect::Proved(_)
                | Effect::Link(_) => {}
                Effect::Oracle(request) => asked.push(request),
                Effect::Examine { slot, digest, .. } => {
                    replica.examining.push_back((slot, digest));
                    if !replica.vouches {
                        self.events.push(Event::Examining(id, slot, digest));
                    }
                }
                Effect::Halt(halt) => {
                    replica.order = None;
                    self.events.push(Event::Halted(id, halt));
                    return;
                }
            }
        }
        asked.into_iter().for_each(|request| self.asks_oracle(id, request));
    }

    fn note_decided(&mut self, id: ReplicaId, slot: Slot, batch: Batch) {
        let replica = self.replicas.get_mut(&id).expect("a member");
        assert_eq!(slot, replica.decided.next(), "INV-SCRIPT-3: {id} decides in order");
        replica.decided = slot;
        let first = self.decided.entry(slot).or_insert_with(|| batch.clone());
        assert_eq!(*first, batch, "INV-SCRIPT-1: {id} decides something else for {slot}");
        self.events.push(Event::Decided(id, slot, batch));
    }

    fn send_own(&mut self, from: ReplicaId, to: ReplicaId, message: OrderMessage) {
        if let Some(check) = self.check_send {
            let replica = &self.replicas[&from];
            check(replica.disk(), from, to, &message);
        }
        self.send(from, to, message);
    }

    /// Sends a message as if `from` had sent it; for messages that no correct replica would send.
    pub fn send(&mut self, from: ReplicaId, to: ReplicaId, message: OrderMessage) {
        let alive = self.replicas.get(&to).is_some_and(|replica| replica.order.is_some());
        if !alive || self.cut.contains(&(from, to)) || self.closed.contains(&(from, to)) {
            self.events.push(Event::Lost(from, to, message));
            return;
        }
        self.events.push(Event::Sent(from, to, message.clone()));
        self.sent += 1;
        self.links.entry((from, to)).or_default().push_back(Flying { number: self.sent, message });
    }

    /// Delivers the first message on a link. Says whether there was one.
    pub fn deliver(&mut self, from: ReplicaId, to: ReplicaId) -> bool {
        let Some(flying) = self.links.get_mut(&(from, to)).and_then(VecDeque::pop_front) else {
            return false;
        };
        self.step(to, Input::Receive(Verified::vouch(from, flying.message)));
        true
    }

    /// Loses the first message on a link. Says whether there was one.
    pub fn drop_first(&mut self, from: ReplicaId, to: ReplicaId) -> bool {
        self.links.get_mut(&(from, to)).and_then(VecDeque::pop_front).is_some()
    }

    /// Puts a copy of the first message on a link behind the last one.
    pub fn duplicate(&mut self, from: ReplicaId, to: ReplicaId) -> bool {
        let Some(link) = self.links.get_mut(&(from, to)) else { return false };
        let Some(message) = link.front().map(|flying| flying.message.clone()) else { return false };
        self.sent += 1;
        link.push_back(Flying { number: self.sent, message });
        true
    }

    /// The link whose first message was sent before all others.
    fn next_link(&self) -> Option<(ReplicaId, ReplicaId)> {
        let first = |link: &VecDeque<Flying>| link.front().map(|flying| flying.number);
        let links = self.links.iter().filter_map(|(ends, link)| Some((first(link)?, *ends)));
        links.min().map(|(_, ends)| ends)
    }

    /// Delivers in the order of sending until nothing is under way; no time passes.
    pub fn run(&mut self) {
        for _ in 0..STEPS_MAX {
            let Some((from, to)) = self.next_link() else { return };
            self.deliver(from, to);
        }
        panic!("INV-SCRIPT-5: the replicas talk for ever without any time passing");
    }

    /// Delivers the messages that are under way now, but not those that follow from them.
    pub fn deliver_round(&mut self) {
        let last = self.sent;
        while let Some((from, to)) = self.next_link() {
            let link = &self.links[&(from, to)];
            if link.front().is_none_or(|flying| flying.number > last) {
                return;
            }
            self.deliver(from, to);
        }
    }

    /// Makes everything that a replica wrote durable, or everything up to a record.
    pub fn sync(&mut self, id: ReplicaId, up_to: Option<RecordId>) {
        let written = self.replicas[&id].written();
        let up_to = up_to.map_or(written, |up_to| up_to.min(written));
        if up_to > self.replicas[&id].durable {
            self.events.push(Event::Durable(id, up_to));
            self.make_durable(id, up_to);
        }
    }

    /// Messages leave before the replica learns of the sync, which could not stop them any more.
    fn make_durable(&mut self, id: ReplicaId, up_to: RecordId) {
        let replica = self.replicas.get_mut(&id).expect("a member");
        replica.durable = up_to;
        let (leaving, held) =
            std::mem::take(&mut replica.held).into_iter().partition(|(_, _, after)| *after <= up_to);
        replica.held = held;
        let leaving: Vec<_> = leaving;
        for (to, message, _) in leaving {
            self.send_own(id, to, message);
        }
        self.step_once(id, Input::Durable(up_to));
    }

    /// Whether what this replica writes is durable at once.
    pub fn set_autosync(&mut self, id: ReplicaId, autosync: bool) {
        if let Some(replica) = self.replicas.get_mut(&id) {
            replica.autosync = autosync;
        }
        self.sync_if_automatic(id);
    }

    /// Whether reads from the log are answered at once.
    pub fn set_autoload(&mut self, autoload: bool) {
        self.autoload = autoload;
        self.members.clone().into_iter().for_each(|id| self.sync_if_automatic(id));
    }

    /// Answers the oldest read of a replica from its log. Says whether there was one.
    pub fn load(&mut self, id: ReplicaId) -> bool {
        let asked = self.load_once(id);
        self.sync_if_automatic(id);
        asked
    }

    fn load_once(&mut self, id: ReplicaId) -> bool {
        let replica = self.replicas.get_mut(&id).expect("a member");
        let Some((load, records)) = replica.loading.pop_front() else { return false };
        let read = |record: &RecordId| {
            assert!(
                *record <= replica.durable,
                "INV-SCRIPT-6: {id} reads {record} back before it is durable"
            );
            replica.disk[(record.number() - replica.gone) as usize - 1].clone()
        };
        let records = records.iter().map(read).collect();
        self.step_once(id, Input::Loaded { load, records });
        true
    }

    /// The power of a replica fails: what is not durable is gone. The other replicas are not told.
    pub fn crash(&mut self, id: ReplicaId) {
        self.stop(id);
        self.links.iter_mut().filter(|((_, to), _)| *to == id).for_each(|(_, link)| link.clear());
    }

    fn stop(&mut self, id: ReplicaId) {
        let replica = self.replicas.get_mut(&id).expect("a member");
        replica.order = None;
        replica.disk.truncate(replica.disk().durable);
        replica.held.clear();
        replica.loading.clear();
        replica.examining.clear();
        self.forget_answers(id);
    }

    /// A replica restarts so fast that messages on their way reach it after the restart and no other replica notices.
    pub fn bounce(&mut self, id: ReplicaId) {
        self.stop(id);
        self.start(id);
    }

    /// Starts a replica that is down from its durable records, and connects it.
    pub fn restart(&mut self, id: ReplicaId) {
        self.start(id);
        for other in self.members.clone() {
            if other != id && self.order(other).is_some() {
                self.connect(id, other);
            }
        }
    }

    /// Connects two replicas, and tells both.
    pub fn connect(&mut self, a: ReplicaId, b: ReplicaId) {
        for ends in [(a, b), (b, a)] {
            self.closed.remove(&ends);
        }
        self.step(a, Input::Connected(b));
        self.step(b, Input::Connected(a));
    }

    /// Breaks the connection between two replicas: messages on their way are lost, and both are told.
    pub fn disconnect(&mut self, a: ReplicaId, b: ReplicaId) {
        for ends in [(a, b), (b, a)] {
            self.links.remove(&ends);
            self.closed.insert(ends);
        }
        self.step(a, Input::Disconnected(b));
        self.step(b, Input::Disconnected(a));
    }

    /// From now on every message on this link is lost, those on their way too. Neither replica is told.
    pub fn cut(&mut self, from: ReplicaId, to: ReplicaId) {
        self.cut.insert((from, to));
        self.links.remove(&(from, to));
    }

    /// No link is cut any more.
    pub fn heal(&mut self) {
        self.cut.clear();
    }

    /// Moves a replica's clock to its deadline; the other replicas miss theirs. Says whether it has a deadline.
    pub fn expire(&mut self, id: ReplicaId) -> bool {
        let Some(deadline) = self.order(id).and_then(Order::deadline) else { return false };
        self.now = self.now.max(deadline);
        self.step(id, Input::Deadline);
        true
    }

    /// Lets time pass; every replica is told of its deadlines. Messages arrive at once if `flows`, else not at all.
    pub fn wait(&mut self, span: Span, flows: bool) {
        let end = self.now.plus(span);
        for _ in 0..STEPS_MAX {
            if flows {
                self.run();
            }
            let deadline = |id: &ReplicaId| Some((self.order(*id)?.deadline()?, *id));
            let Some((at, id)) = self.members.iter().filter_map(deadline).min().filter(|(at, _)| *at <= end)
            else {
                self.now = end;
                return;
            };
            self.now = self.now.max(at);
            self.step(id, Input::Deadline);
        }
        panic!("INV-SCRIPT-5: a deadline does not move on");
    }
}
