//! A small cluster in one thread: lossy links, disks that forget what was not synced, crashes, all from one seed. It
//! watches every effect and compares it with what any replica did before.

use crate::raft::persist::{RECORD_ENTRY, read_entry};
use crate::raft::{Raft, RaftConfig};
use crate::{Effect, Effects, Input, Order, Random, Stored};
use quorate_types::{AgreedTime, RecordId, ReplicaId, Span, Time, View};
use quorate_wire::raft::{AppendOutcome, RaftMessage};
use quorate_wire::{Batch, BatchHeader, OrderMessage, Verified};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A batch that differs from every other with another number, `size` bytes longer than the smallest.
pub(super) fn batch(number: u64, size: usize) -> Batch {
    use quorate_types::{ItemsBuilder, RequestNumber, SessionId};
    use quorate_wire::{RequestHeader, RequestKind};
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
    };
    header.write_to(&mut bytes);
    items.write_to(&mut bytes);
    Batch::seal(bytes, BatchHeader { time: AgreedTime::ZERO, seed: number, count: 1 })
}

pub(super) fn replica(number: usize) -> ReplicaId {
    ReplicaId::new(number as u16)
}

fn place(id: ReplicaId) -> usize {
    usize::from(id.number())
}

enum Event {
    Arrive { from: usize, to: usize, message: RaftMessage },
    Synced { at: usize, life: u64 },
    Loaded { at: usize, life: u64, load: u64, records: Vec<Stored> },
    Wake { at: usize, life: u64 },
}

#[derive(Default)]
struct Machine {
    raft: Option<Raft>,
    life: u64,
    wake: Option<Time>,
    /// What survives a crash.
    disk: Vec<Stored>,
    /// The views of the entries on disk.
    disk_log: Vec<View>,
    unsynced: VecDeque<Stored>,
    syncing: bool,
    held: Vec<(RecordId, ReplicaId, RaftMessage)>,
    decided: usize,
}

pub(super) struct World {
    pub(super) random: Random,
    pub(super) now: Time,
    machines: Vec<Machine>,
    events: BTreeMap<(Time, u64), Event>,
    sequence: u64,
    /// Directed pairs that lose everything.
    pub(super) cut: BTreeSet<(usize, usize)>,
    /// Of 1000 messages so many are lost, and so many arrive twice.
    pub(super) lost: u64,
    pub(super) doubled: u64,
    pub(super) delay_max: Span,
    pub(super) sync_max: Span,
    configure: fn(RaftConfig) -> RaftConfig,
    proposed: u64,
    decided: Vec<Batch>,
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
            events: BTreeMap::new(),
            sequence: 0,
            cut: BTreeSet::new(),
            lost: 0,
            doubled: 0,
            delay_max: Span::from_millis(2),
            sync_max: Span::from_millis(4),
            configure,
            proposed: 0,
            decided: Vec::new(),
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
        let leads = |at: &usize| self.is_up(*at) && self.raft(*at).leading();
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

    /// Begins a life with what is on disk.
    pub(super) fn start(&mut self, at: usize) {
        assert!(!self.is_up(at));
        let members = (0..self.members()).map(replica).collect();
        let config = RaftConfig::new(replica(at), members, self.random.next());
        let mut raft = Raft::new((self.configure)(config));
        for (id, record) in self.machines[at].disk.iter().enumerate() {
            raft.restore(RecordId::new(id as u64 + 1), record.clone())
                .expect("what was written fits together");
        }
        let machine = &mut self.machines[at];
        machine.life += 1;
        machine.decided = 0;
        machine.wake = None;
        let mut out = Effects::new();
        let now = self.local(at);
        raft.start(now, &mut out);
        self.machines[at].raft = Some(raft);
        self.apply(at, out);
        for peer in 0..self.members() {
            self.connection(at, peer, true);
        }
    }

    /// Ends a life; what was not synced is gone, from some record on.
    pub(super) fn crash(&mut self, at: usize) {
        let keep = self.random.below(self.machines[at].unsynced.len() as u64 + 1);
        for _ in 0..keep {
            self.sync_one(at);
        }
        let machine = &mut self.machines[at];
        machine.raft = None;
        machine.unsynced.clear();
        machine.held.clear();
        machine.syncing = false;
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
        if raft.leading() {
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
                assert_eq!(id.number(), (machine.disk.len() + machine.unsynced.len()) as u64 + 1);
                machine.unsynced.push_back(record);
            }
            Effect::Send { to, message: OrderMessage::Raft(message), after } => match after {
                Some(after) if after.number() > machine.disk.len() as u64 => {
                    machine.held.push((after, to, message));
                }
                _ => self.send(at, place(to), message),
            },
            Effect::Decided { slot, batch } => {
                assert_eq!(slot.number(), machine.decided as u64 + 1, "slots come in order");
                machine.decided += 1;
                match self.decided.get(machine.decided - 1) {
                    Some(known) => assert!(*known == batch, "replica {at} decides something else in {slot}"),
                    None => self.decided.push(batch),
                }
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
                let read = |id: &RecordId| machine.disk[id.number() as usize - 1].clone();
                let records = records.iter().map(read).collect();
                let (life, span) = (machine.life, self.random_span(self.sync_max));
                self.schedule(span, Event::Loaded { at, life, load, records });
            }
            Effect::LeaderChanged { .. } => {}
            Effect::Rejected { from, why } => panic!("replica {at} rejects a message of {from}: {why}"),
            Effect::Halt(why) => panic!("replica {at} halts: {why}"),
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
            let durable = self.machines[from].disk_log.len() as u64;
            assert!(durable >= index.number(), "replica {from} acknowledges {index}, {durable} are durable");
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
        if record.kind == RECORD_ENTRY {
            let (index, entry) = read_entry(record.clone()).expect("an entry");
            machine.disk_log.truncate(index.number() as usize - 1);
            machine.disk_log.push(entry.view);
        }
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
        let durable = RecordId::new(self.machines[at].disk.len() as u64);
        self.step(at, Input::Durable(durable));
    }

    fn release(&mut self, at: usize) {
        let durable = RecordId::new(self.machines[at].disk.len() as u64);
        let held = std::mem::take(&mut self.machines[at].held);
        for (after, to, message) in held {
            if after <= durable {
                self.send(at, place(to), message);
            } else {
                self.machines[at].held.push((after, to, message));
            }
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive { from, to, message } => {
                if !self.cut.contains(&(from, to)) {
                    let message = Verified::vouch(replica(from), OrderMessage::Raft(message));
                    self.step(to, Input::Receive(message));
                }
            }
            Event::Synced { at, life } if self.lives(at, life) => self.synced(at),
            Event::Loaded { at, life, load, records } if self.lives(at, life) => {
                self.step(at, Input::Loaded { load, records });
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
            Event::Synced { .. } | Event::Loaded { .. } | Event::Wake { .. } => {}
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
            }
        }
    }
}
