//! A small cluster in one thread: lossy links, disks that forget what was not synced, crashes, all from one seed. It
//! watches every effect and compares it with what any replica did before.

use crate::OrderMessage;
use crate::raft::message::{AppendOutcome, RaftMessage};
use crate::raft::persist::{RECORD_ENTRY, RECORD_FLOOR, read_entry, read_floor};
use crate::raft::{Raft, RaftConfig};
use crate::{Anchor, Effect, Effects, Input, Order, Random, Stored};
use quorate_types::{AgreedTime, RecordId, ReplicaId, Slot, Span, Time, View};
use quorate_wire::{Batch, BatchHeader, Verified};
use quorate_wire::{Membership, Memberships};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

mod changes;

/// A batch that differs from every other with another number, `size` bytes longer than the smallest.
pub(super) fn batch(number: u64, size: usize) -> Batch {
    use quorate_types::{ItemsBuilder, RequestNumber, SessionId};
    use quorate_wire::{RequestHeader, RequestKind, RequestProof};
    let mut items = ItemsBuilder::new();
    items.push(&vec![7; size]);
    let mut bytes = Vec::new();
    Batch::begin(&mut bytes);
    let (session, number_one) = (SessionId { index: 1, generation: 1 }, RequestNumber::FIRST);
    let header = RequestHeader {
        session,
        number: number_one,
        lowest_unanswered: number_one,
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

pub(super) fn replica(number: usize) -> ReplicaId {
    ReplicaId::new(number as u16)
}

/// A state that follows from the state before and a batch.
fn state_after(state: u64, batch: &Batch) -> u64 {
    Random::new(state.rotate_left(17) ^ batch.header().seed).next()
}

fn index_of(anchor: &Anchor) -> u64 {
    u64::from_le_bytes(anchor.encode()[..8].try_into().expect("an index"))
}

/// What a record does to the indexes on disk. Gives whether the log begins anew.
fn note(log: &mut BTreeSet<u64>, record: &Stored) -> bool {
    let cleared = record.kind == RECORD_FLOOR && read_floor(record).expect("a floor").2;
    if record.kind == RECORD_ENTRY {
        let (index, entry) = read_entry(record.clone()).expect("an entry");
        assert!(entry.view > View::ZERO);
        log.split_off(&index.number());
        log.insert(index.number());
    } else if cleared {
        log.clear();
    }
    cleared
}

fn place(id: ReplicaId) -> usize {
    usize::from(id.number())
}

enum Event {
    Arrive {
        from: usize,
        to: usize,
        message: RaftMessage,
    },
    Synced {
        at: usize,
        life: u64,
    },
    Loaded {
        at: usize,
        life: u64,
        load: u64,
        records: Vec<RecordId>,
    },
    /// A checkpoint of at least this slot was fetched.
    Fetched {
        at: usize,
        life: u64,
        slot: u64,
    },
    Wake {
        at: usize,
        life: u64,
    },
}

#[derive(Default)]
struct Machine {
    raft: Option<Raft>,
    life: u64,
    wake: Option<Time>,
    /// What survives a crash.
    disk: Vec<Stored>,
    /// How many records of this life were trimmed away.
    gone: u64,
    /// The indexes of the entries on disk.
    disk_log: BTreeSet<u64>,
    /// Slots and anchors of the durable checkpoints, the newest last.
    checkpoints: Vec<(u64, Anchor)>,
    fetching: bool,
    /// Records that the disk lost: so many, at most, before the one at this place.
    gaps: BTreeMap<usize, u64>,
    /// Must not take part before a checkpoint covers what it lost.
    waiting: Option<Raft>,
    /// What it lost may still keep it out.
    lossy: bool,
    unsynced: VecDeque<Stored>,
    syncing: bool,
    held: Vec<(RecordId, ReplicaId, RaftMessage)>,
    /// Slots that the service executed, also by way of a checkpoint.
    decided: usize,
    /// What they left of it.
    state: u64,
}

impl Machine {
    fn durable(&self) -> RecordId {
        RecordId::new(self.gone + self.disk.len() as u64)
    }
    fn anchored(&self) -> u64 {
        self.checkpoints.last().map_or(0, |(_, anchor)| index_of(anchor))
    }
}

/// What comes of lost records.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lossy {
    /// A vote may be among them: never again (here it did not happen, then).
    pub(super) forsaken: u64,
    /// The checkpoint and what follows the gap say all.
    pub(super) harmless: u64,
    /// A checkpoint is needed.
    pub(super) lacking: u64,
    /// One that did not cover them was refused.
    pub(super) refused: u64,
    /// One that did was installed.
    pub(super) covered: u64,
}

pub(super) struct World {
    pub(super) random: Random,
    pub(super) now: Time,
    machines: Vec<Machine>,
    /// Who votes at the beginning: so many.
    initial: usize,
    /// The membership that holds, the change that was ordered and is not over, and all memberships that were committed.
    pub(super) membership: Membership,
    pub(super) change: Option<Arc<Memberships>>,
    memberships: BTreeMap<u64, Membership>,
    events: BTreeMap<(Time, u64), Event>,
    sequence: u64,
    /// Directed pairs that lose everything.
    pub(super) cut: BTreeSet<(usize, usize)>,
    /// Of 1000 messages so many are lost, and so many arrive twice.
    pub(super) lost: u64,
    /// Whether a replica may crash between a checkpoint and its installation.
    pub(super) may_crash: bool,
    pub(super) doubled: u64,
    pub(super) delay_max: Span,
    pub(super) sync_max: Span,
    configure: fn(RaftConfig) -> RaftConfig,
    proposed: u64,
    decided: Vec<Batch>,
    /// The state after each slot, and the anchor of each slot of which there ever was a checkpoint.
    states: Vec<u64>,
    anchors: BTreeMap<u64, Anchor>,
    /// How often a checkpoint was installed that goes forward, and back.
    pub(super) installed: (u64, u64),
    /// How often records were lost, and what came of it.
    pub(super) lossy: Lossy,
    leaders: BTreeMap<View, usize>,
    votes: BTreeMap<(usize, View), usize>,
    reads: BTreeMap<(usize, u64), usize>,
    next_read: u64,
    pub(super) reads_confirmed: u64,
    /// The highest slot that a read was told to wait for.
    pub(super) read_up_to: u64,
}

impl World {
    pub(super) fn new(seed: u64, members: usize, configure: fn(RaftConfig) -> RaftConfig) -> Self {
        let mut world = Self {
            random: Random::new(seed),
            now: Time::ZERO,
            machines: (0..members).map(|_| Machine::default()).collect(),
            initial: members,
            membership: Memberships::created(&(0..members).map(replica).collect::<Vec<_>>()).now().clone(),
            change: None,
            memberships: BTreeMap::new(),
            events: BTreeMap::new(),
            sequence: 0,
            cut: BTreeSet::new(),
            lost: 0,
            may_crash: false,
            doubled: 0,
            delay_max: Span::from_millis(2),
            sync_max: Span::from_millis(4),
            configure,
            proposed: 0,
            decided: Vec::new(),
            states: vec![0],
            anchors: BTreeMap::new(),
            installed: (0, 0),
            lossy: Lossy::default(),
            leaders: BTreeMap::new(),
            votes: BTreeMap::new(),
            reads: BTreeMap::new(),
            next_read: 0,
            reads_confirmed: 0,
            read_up_to: 0,
        };
        (0..members).for_each(|at| world.start(at));
        world
    }

    pub(super) fn members(&self) -> usize {
        self.machines.len()
    }
    pub(super) fn is_up(&self, at: usize) -> bool {
        self.machines[at].raft.is_some()
    }
    pub(super) fn raft(&self, at: usize) -> &Raft {
        self.machines[at].raft.as_ref().expect("up")
    }
    pub(super) fn decided(&self) -> usize {
        self.decided.len()
    }
    pub(super) fn decided_at(&self, at: usize) -> usize {
        self.machines[at].decided
    }
    pub(super) fn reads_open(&self) -> usize {
        self.reads.len()
    }
    /// Whether a crash would lose something.
    pub(super) fn has_unsynced(&self, at: usize) -> bool {
        !self.machines[at].unsynced.is_empty()
    }
    /// Who may propose, the one in the highest view first.
    pub(super) fn leader(&self) -> Option<usize> {
        let leads = |at: &usize| self.is_up(*at) && self.raft(*at).standing().leading;
        (0..self.members()).filter(leads).max_by_key(|at| self.raft(*at).status().view)
    }

    /// Each life has a clock of its own.
    fn local(&self, at: usize) -> Time {
        self.now.plus(Span::from_nanos((at as u64 * 977 + self.machines[at].life * 131) * 1_000_003))
    }

    fn schedule(&mut self, after: Span, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now.plus(after), self.sequence), event);
    }
    fn random_span(&mut self, max: Span) -> Span {
        Span::from_nanos(self.random.below(max.nanos().max(1)))
    }

    /// The protocol with what is on disk, before its start.
    fn restored(&mut self, at: usize) -> Raft {
        let members = (0..self.initial).map(replica).collect();
        let config = RaftConfig::new(replica(at), members, self.random.next());
        let mut raft = Raft::new((self.configure)(config));
        let machine = &self.machines[at];
        if let Some((slot, anchor)) = machine.checkpoints.last() {
            raft.restore_anchor(Slot::new(*slot), anchor).expect("an anchor of ours");
        }
        for (id, record) in machine.disk.iter().enumerate() {
            if let Some(missing) = machine.gaps.get(&id) {
                raft.restore_gap(*missing);
            }
            raft.restore(RecordId::new(id as u64 + 1), record.clone())
                .expect("what was written fits together");
        }
        raft
    }

    /// Begins a life with what is on disk.
    pub(super) fn start(&mut self, at: usize) {
        assert!(!self.is_up(at));
        let raft = self.restored(at);
        assert!(raft.restored().knows_vote, "those were not lost");
        let machine = &mut self.machines[at];
        let checkpoint = machine.checkpoints.last();
        machine.decided = checkpoint.map_or(0, |(slot, _)| *slot as usize);
        machine.state = self.states[machine.decided];
        (machine.gone, machine.wake) = (0, None);
        machine.life += 1;
        if raft.restored().needs_checkpoint {
            machine.waiting = Some(raft);
            return self.fetch_later(at);
        }
        self.begin(at, raft);
    }

    fn begin(&mut self, at: usize, mut raft: Raft) {
        let mut out = Effects::new();
        let now = self.local(at);
        raft.start(now, &mut out);
        self.machines[at].raft = Some(raft);
        self.apply(at, out);
        for peer in 0..self.members() {
            self.connection(at, peer, true);
        }
        self.tell_change(at);
    }

    fn fetch_later(&mut self, at: usize) {
        let (life, slot) = (self.machines[at].life, self.machines[at].decided as u64 + 1);
        let span = self.random_span(Span::from_millis(20));
        self.schedule(span, Event::Fetched { at, life, slot });
    }

    /// A replica that is down loses records in the middle of its log. Too many at once, and no majority is left that knows
    /// anything.
    pub(super) fn lose(&mut self, at: usize) {
        let (len, lossy) =
            (self.machines[at].disk.len() as u64, self.machines.iter().filter(|m| m.lossy).count());
        if len < 3 || (!self.machines[at].lossy && lossy >= (self.members() - 1) / 2) {
            return;
        }
        let most = if self.random.below(2) == 0 { 4 } else { len };
        self.machines[at].waiting = None;
        // Often near the end, where it hurts.
        let low = if self.random.below(2) == 0 { 1 } else { len.saturating_sub(8).max(1) };
        let first = (low + self.random.below(len - low)).min(len - 2) as usize;
        let count = 1 + self.random.below(most.min(len - 1 - first as u64)) as usize;
        let others = self.random.below(3);
        let before = (self.machines[at].disk.clone(), self.machines[at].gaps.clone());
        let machine = &mut self.machines[at];
        machine.disk.drain(first..first + count);
        let mut missing = count as u64 + others;
        let gaps = std::mem::take(&mut machine.gaps);
        for (place, lost) in gaps {
            match place {
                place if place < first => drop(machine.gaps.insert(place, lost)),
                place if place <= first + count => missing += lost,
                place => drop(machine.gaps.insert(place - count, lost)),
            }
        }
        machine.gaps.insert(first, missing);
        let raft = self.restored(at);
        if !raft.restored().knows_vote {
            self.lossy.forsaken += 1;
            (self.machines[at].disk, self.machines[at].gaps) = before;
            return;
        }
        let lacks = raft.restored().needs_checkpoint;
        *(if lacks { &mut self.lossy.lacking } else { &mut self.lossy.harmless }) += 1;
        let machine = &mut self.machines[at];
        machine.lossy = true;
        let last = *machine.gaps.keys().next_back().expect("a gap");
        machine.disk_log.clear();
        for record in &machine.disk[last..] {
            note(&mut machine.disk_log, record);
        }
    }

    /// Whether it waits for a checkpoint.
    pub(super) fn is_waiting(&self, at: usize) -> bool {
        self.machines[at].waiting.is_some()
    }

    /// Somebody's newest checkpoint is here. If it does not cover what was lost, a later one is wanted.
    fn fetched_for_lost(&mut self, at: usize) {
        let from = self.random.below(self.members() as u64) as usize;
        if from != at && self.is_up(from) && self.random.below(2) == 0 {
            self.checkpoint(from, self.machines[from].decided as u64);
        }
        let newest = self.machines[from].checkpoints.last().filter(|_| from != at).cloned();
        let newest = newest.filter(|(slot, _)| *slot > self.machines[at].decided as u64);
        let some = newest.is_some();
        let covers = |(slot, anchor): &(u64, Anchor)| {
            let waiting = self.machines[at].waiting.as_ref();
            waiting.is_some_and(|raft| raft.covers(Slot::new(*slot), anchor))
        };
        let Some((slot, anchor)) = newest.filter(covers) else {
            self.lossy.refused += u64::from(some);
            if let Some(leader) = self.leader() {
                self.propose(leader, 0);
            }
            return self.fetch_later(at);
        };
        let machine = &mut self.machines[at];
        let Some(mut raft) = machine.waiting.take() else { return };
        machine.checkpoints = vec![(slot, anchor.clone())];
        if self.may_crash && self.random.below(4) == 0 {
            return;
        }
        self.lossy.covered += 1;
        raft.restore_installed(Slot::new(slot), &anchor).expect("an anchor of ours");
        let machine = &mut self.machines[at];
        machine.decided = slot as usize;
        machine.state = self.states[machine.decided];
        self.begin(at, raft);
    }

    /// Ends a life; what was not synced is gone, from some record on.
    pub(super) fn crash(&mut self, at: usize) {
        let keep = self.random.below(self.machines[at].unsynced.len() as u64 + 1);
        for _ in 0..keep {
            self.sync_one(at);
        }
        let machine = &mut self.machines[at];
        (machine.raft, machine.waiting) = (None, None);
        machine.unsynced.clear();
        machine.held.clear();
        (machine.syncing, machine.fetching) = (false, false);
        self.reads.retain(|(reader, _), _| *reader != at);
        for peer in 0..self.members() {
            self.connection(peer, at, false);
        }
    }

    /// Both ends, where they live, hear that a connection came or went.
    pub(super) fn connection(&mut self, one: usize, other: usize, up: bool) {
        for (at, peer) in [(one, other), (other, one)] {
            if one != other && self.is_up(at) && (!up || self.is_up(peer)) {
                let peer = replica(peer);
                self.step(at, if up { Input::Connected(peer) } else { Input::Disconnected(peer) });
            }
        }
    }

    pub(super) fn propose(&mut self, at: usize, size: usize) {
        self.proposed += 1;
        self.step(at, Input::Propose(batch(self.proposed, size)));
    }

    pub(super) fn read(&mut self, at: usize) {
        self.next_read += 1;
        self.reads.insert((at, self.next_read), self.decided.len());
        self.step(at, Input::Read(self.next_read));
    }

    pub(super) fn step(&mut self, at: usize, input: Input) {
        let now = self.local(at);
        let mut out = Effects::new();
        let Some(raft) = &mut self.machines[at].raft else { return };
        raft.step(now, input, &mut out);
        self.apply(at, out);
    }

    fn apply(&mut self, at: usize, mut out: Effects) {
        for effect in out.drain() {
            self.effect(at, effect);
        }
        let life = self.machines[at].life;
        if !self.machines[at].syncing && !self.machines[at].unsynced.is_empty() {
            self.machines[at].syncing = true;
            let span = self.random_span(self.sync_max);
            self.schedule(span, Event::Synced { at, life });
        }
        let Some(raft) = &self.machines[at].raft else { return };
        if raft.standing().leading {
            let other = self.leaders.insert(raft.status().view, at);
            assert!(other.is_none_or(|other| other == at), "two leaders in {}", raft.status().view);
        }
        let due = raft.deadline();
        if let Some(due) = due
            && self.machines[at].wake.is_none_or(|wake| due < wake)
        {
            self.machines[at].wake = Some(due);
            let span = due.since(self.local(at));
            self.schedule(span, Event::Wake { at, life });
        }
    }

    fn effect(&mut self, at: usize, effect: Effect) {
        let machine = &mut self.machines[at];
        match effect {
            Effect::Persist { id, record, .. } => {
                assert_eq!(id, machine.durable().plus(machine.unsynced.len() as u64 + 1));
                machine.unsynced.push_back(record);
            }
            Effect::Send { to, message, after } => {
                let message = message.take().expect("it speaks Raft");
                match after {
                    Some(after) if after > machine.durable() => {
                        machine.held.push((after, to, message));
                    }
                    _ => self.send(at, place(to), message),
                }
            }
            Effect::Decided { slot, batch } => {
                assert_eq!(slot.number(), machine.decided as u64 + 1, "slots come in order");
                machine.decided += 1;
                machine.state = state_after(machine.state, &batch);
                match self.decided.get(machine.decided - 1) {
                    Some(known) => assert!(*known == batch, "replica {at} decides something else in {slot}"),
                    None => {
                        self.decided.push(batch);
                        self.states.push(machine.state);
                    }
                }
                assert_eq!(machine.state, self.states[machine.decided], "replica {at} has another state");
            }
            Effect::ReadConfirmed { read, slot } => {
                let before = self.reads.remove(&(at, read)).expect("an open read");
                assert!(
                    slot.number() >= before as u64,
                    "read {read} at {slot}, but {before} slots were decided"
                );
                self.read_up_to = self.read_up_to.max(slot.number());
                self.reads_confirmed += 1;
            }
            Effect::ReadFailed { read } => {
                self.reads.remove(&(at, read)).expect("an open read");
            }
            Effect::Load { load, records } => {
                let (life, span) = (machine.life, self.random_span(self.sync_max));
                self.schedule(span, Event::Loaded { at, life, load, records });
            }
            Effect::LeaderChanged { .. } => {}
            Effect::Proposed { .. } => panic!("nobody wants to hear it"),
            Effect::Behind { slot } => {
                if !std::mem::replace(&mut machine.fetching, true) {
                    let (life, span) = (machine.life, self.random_span(self.sync_max));
                    self.schedule(span, Event::Fetched { at, life, slot: slot.number() });
                }
            }
            Effect::Members { memberships, committed } => self.on_members(at, &memberships, committed),
            Effect::Proved(evidence) => panic!("replica {at} accuses {}", evidence.accused),
            Effect::Link(link) => panic!("replica {at} signed {link:?}"),
            Effect::Rejected { from, why } => panic!("replica {at} rejects a message of {from}: {why}"),
            Effect::Halt(why) => panic!("replica {at} halts: {why}"),
            Effect::Overdue { .. }
            | Effect::Examine { .. }
            | Effect::Oracle(_)
            | Effect::SmallQuorums { .. } => {
                panic!("replica {at} speaks no Raft")
            }
        }
    }

    /// A message leaves: what it promises must be on disk.
    fn send(&mut self, from: usize, to: usize, message: RaftMessage) {
        let vote = match &message {
            RaftMessage::RequestVote { view, pre: false, .. } => Some((*view, from)),
            RaftMessage::RequestVoteReply { view, granted: true, pre: false } => Some((*view, to)),
            _ => None,
        };
        if let Some((view, candidate)) = vote {
            let before = *self.votes.entry((from, view)).or_insert(candidate);
            assert_eq!(before, candidate, "replica {from} votes twice in {view}");
        }
        if let RaftMessage::AppendEntriesReply { outcome: AppendOutcome::Matched(index), .. } = &message {
            let machine = &self.machines[from];
            let durable = machine.disk_log.contains(&index.number()) || machine.anchored() >= index.number();
            assert!(durable, "replica {from} acknowledges {index}, which is not durable");
        }
        let copies = 1 + u64::from(self.random.below(1000) < self.doubled);
        for _ in 0..copies {
            if self.random.below(1000) >= self.lost && !self.cut.contains(&(from, to)) {
                let span = self.random_span(self.delay_max);
                self.schedule(span, Event::Arrive { from, to, message: message.clone() });
            }
        }
    }

    fn sync_one(&mut self, at: usize) {
        let machine = &mut self.machines[at];
        let Some(record) = machine.unsynced.pop_front() else { return };
        // With this the log begins anew, whatever lies before it.
        machine.lossy &= !note(&mut machine.disk_log, &record);
        machine.disk.push(record);
    }

    fn synced(&mut self, at: usize) {
        let some = 1 + self.random.below(self.machines[at].unsynced.len() as u64);
        // Messages leave record by record, so that each is compared with the disk at its moment.
        for _ in 0..some {
            self.sync_one(at);
            self.release(at);
        }
        self.machines[at].syncing = false;
        let durable = self.machines[at].durable();
        self.step(at, Input::Durable(durable));
    }

    fn release(&mut self, at: usize) {
        let durable = self.machines[at].durable();
        let held = std::mem::take(&mut self.machines[at].held);
        for (after, to, message) in held {
            if after <= durable {
                self.send(at, place(to), message);
            } else {
                self.machines[at].held.push((after, to, message));
            }
        }
    }

    /// Makes a durable checkpoint of a slot that this replica executed and may still name; gives its slot.
    pub(super) fn checkpoint(&mut self, at: usize, slot: u64) {
        let newest = self.machines[at].checkpoints.last().map_or(0, |(slot, _)| *slot);
        if slot <= newest || slot > self.machines[at].decided as u64 {
            return;
        }
        let anchor = self.raft(at).anchor(Slot::new(slot)).expect("a slot between the floor and the last");
        let first = self.anchors.entry(slot).or_insert_with(|| anchor.clone());
        assert_eq!(*first, anchor, "replica {at} has another anchor at slot {slot}");
        self.machines[at].checkpoints.push((slot, anchor));
    }

    /// Forgets what the oldest, or a newer, of its checkpoints holds; all but that one and its successors go.
    pub(super) fn forget(&mut self, at: usize) {
        let machine = &mut self.machines[at];
        let decided = machine.decided as u64;
        let usable = machine.checkpoints.iter().filter(|(slot, _)| *slot <= decided).count() as u64;
        if usable == 0 {
            return;
        }
        let which = self.random.below(usable) as usize;
        self.machines[at].checkpoints.drain(..which);
        let slot = self.machines[at].checkpoints[0].0;
        self.step(at, Input::Trim { slot: Slot::new(slot) });
    }

    /// Deletes records that the protocol does not need any more, some or all.
    pub(super) fn trim_disk(&mut self, at: usize) {
        let Some(keep) = self.raft(at).keep_from() else { return };
        let machine = &self.machines[at];
        let most = (keep.number() - 1 - machine.gone).min(machine.disk.len() as u64);
        let count = self.random.below(most + 1);
        let machine = &mut self.machines[at];
        machine.disk.drain(..count as usize);
        machine.gone += count;
        let gaps = std::mem::take(&mut machine.gaps).into_iter();
        let left = gaps.filter(|(place, _)| *place > count as usize);
        machine.gaps = left.map(|(place, lost)| (place - count as usize, lost)).collect();
        machine.lossy &= !machine.gaps.is_empty();
    }

    /// A checkpoint arrived, from whoever has one, or could make one: it is durable, and unless a crash comes between, it is
    /// installed.
    fn fetched(&mut self, at: usize, slot: u64) {
        self.machines[at].fetching = false;
        let from = self.random.below(self.members() as u64) as usize;
        if from != at && self.is_up(from) {
            self.checkpoint(from, self.machines[from].decided as u64);
        }
        // It may have caught up meanwhile.
        let slot = slot.max(self.machines[at].decided as u64 + 1);
        let newest = self.machines[from].checkpoints.last().filter(|(have, _)| *have >= slot).cloned();
        if from == at || newest.is_none() {
            return;
        }
        let (slot, anchor) = newest.expect("there is one");
        self.take_over(at, slot, anchor);
    }

    /// A checkpoint from elsewhere becomes durable, as the only one, and then the service's state.
    fn take_over(&mut self, at: usize, slot: u64, anchor: Anchor) {
        self.machines[at].checkpoints = vec![(slot, anchor.clone())];
        if self.may_crash && self.random.below(6) == 0 {
            self.crash(at);
        } else {
            self.install(at, slot, anchor);
        }
    }

    fn install(&mut self, at: usize, slot: u64, anchor: Anchor) {
        let machine = &mut self.machines[at];
        let forward = slot > machine.decided as u64;
        machine.decided = slot as usize;
        machine.state = self.states[machine.decided];
        if forward {
            self.installed.0 += 1;
        } else {
            self.installed.1 += 1;
        }
        self.step(at, Input::Installed { slot: Slot::new(slot), anchor });
    }

    /// The service's state is replaced without need: by a newer one of another replica, or by an older one of its own.
    pub(super) fn jump(&mut self, at: usize, from: usize) {
        if from == at {
            // Back to any that is there: later ones were found wrong, and are gone. Where nothing can be read back, what all
            // forget is lost: there only one of them goes back.
            if at > 0 && !self.raft(at).config.reload {
                return;
            }
            // The log may begin with an entry that holds no slot: by index, then.
            let (floor, machine) = (self.raft(at).store.log().floor().index.number(), &self.machines[at]);
            let old = machine.checkpoints.partition_point(|(_, anchor)| index_of(anchor) < floor);
            if machine.checkpoints.len() == old {
                return;
            }
            let which = old + self.random.below((machine.checkpoints.len() - old) as u64) as usize;
            self.machines[at].checkpoints.truncate(which + 1);
            let (slot, anchor) = self.machines[at].checkpoints[which].clone();
            return self.install(at, slot, anchor);
        }
        let newest = self.machines[from].checkpoints.last().cloned();
        if let Some((slot, anchor)) = newest.filter(|(slot, _)| *slot > self.machines[at].decided as u64) {
            self.take_over(at, slot, anchor);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive { from, to, message } => {
                if !self.cut.contains(&(from, to)) {
                    let message = Verified::vouch(replica(from), OrderMessage::of(message));
                    self.step(to, Input::Receive(message));
                }
            }
            Event::Synced { at, life } if self.lives(at, life) => self.synced(at),
            Event::Loaded { at, life, load, records } if self.lives(at, life) => {
                let machine = &self.machines[at];
                // Read as late as possible: what is being read is not trimmed away.
                let read = |id: &RecordId| machine.disk[(id.number() - machine.gone) as usize - 1].clone();
                let records = records.iter().map(read).collect();
                self.step(at, Input::Loaded { load, records });
            }
            Event::Fetched { at, life, slot } if self.lives(at, life) => self.fetched(at, slot),
            Event::Fetched { at, life, .. } if self.is_waiting(at) && self.machines[at].life == life => {
                self.fetched_for_lost(at);
            }
            Event::Wake { at, life } if self.lives(at, life) => {
                let now = self.local(at);
                if self.machines[at].wake.is_some_and(|wake| wake <= now) {
                    self.machines[at].wake = None;
                    self.step(at, Input::Deadline);
                    let due = self.raft(at).deadline();
                    assert!(due.is_none_or(|due| due > now), "a deadline that was served is over");
                }
            }
            Event::Synced { .. } | Event::Loaded { .. } | Event::Wake { .. } | Event::Fetched { .. } => {}
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
        }
        self.now = end;
    }

    pub(super) fn check(&self) {
        for machine in &self.machines {
            if let Some(raft) = &machine.raft {
                raft.invariants(true);
                // What is synced here stays, or the replica knows that it does not and stays out.
                let lost = raft.status().lost;
                assert!(lost.is_empty(), "taken for having lost what they acknowledged: {lost:?}");
            }
        }
    }
}
