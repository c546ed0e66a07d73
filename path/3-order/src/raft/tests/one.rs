//! One replica, the test plays all others. Replica 0 is the one under test.

use super::world::{batch, replica};
use crate::OrderMessage;
use crate::raft::message::{AppendOutcome, Entry, EntryBody, Index, Position, RaftMessage};
use crate::raft::{Raft, RaftConfig};
use crate::{Anchor, Effect, Effects, Input, Order, Stored};
use quorate_types::{RecordId, ReplicaId, Slot, Span, Time, View};
use quorate_wire::Verified;

pub(super) struct One {
    pub(super) raft: Raft,
    pub(super) now: Time,
    pub(super) disk: Vec<Stored>,
}

pub(super) fn view(number: u64) -> View {
    View::new(number)
}
pub(super) fn index(number: u64) -> Index {
    Index::new(number)
}
pub(super) fn at(number: u64, in_view: u64) -> Position {
    Position::new(index(number), view(in_view))
}
pub(super) fn start_of(number: u64) -> Entry {
    Entry { view: view(number), body: EntryBody::ViewStart }
}
/// A batch of this view, recognised by `seed`.
pub(super) fn entry(in_view: u64, seed: u64) -> Entry {
    Entry { view: view(in_view), body: EntryBody::Batch(batch(seed, 10)) }
}
pub(super) fn append(in_view: u64, previous: Position, commit: u64, entries: Vec<Entry>) -> RaftMessage {
    RaftMessage::AppendEntries { view: view(in_view), previous, commit: index(commit), round: 0, entries }
}
pub(super) fn matched(in_view: u64, number: u64) -> RaftMessage {
    matched_in(in_view, number, 0)
}
pub(super) fn matched_in(in_view: u64, number: u64, round: u64) -> RaftMessage {
    let outcome = AppendOutcome::Matched(index(number));
    RaftMessage::AppendEntriesReply { view: view(in_view), round, outcome }
}
pub(super) fn rejected(in_view: u64, asked: u64, hint: Position) -> RaftMessage {
    let outcome = AppendOutcome::Rejected { asked: index(asked), hint };
    RaftMessage::AppendEntriesReply { view: view(in_view), round: 0, outcome }
}
pub(super) fn ask_vote(in_view: u64, last: Position) -> RaftMessage {
    RaftMessage::RequestVote { view: view(in_view), last, pre: false, transfer: false }
}
pub(super) fn ask_pre_vote(in_view: u64, last: Position) -> RaftMessage {
    RaftMessage::RequestVote { view: view(in_view), last, pre: true, transfer: false }
}
pub(super) fn vote(in_view: u64, granted: bool) -> RaftMessage {
    RaftMessage::RequestVoteReply { view: view(in_view), granted, pre: false }
}
pub(super) fn pre_vote(in_view: u64, granted: bool) -> RaftMessage {
    RaftMessage::RequestVoteReply { view: view(in_view), granted, pre: true }
}

/// What a checkpoint says whose slot lies at this position.
pub(super) fn anchor(position: Position) -> Anchor {
    let words = [position.index.number(), position.view.number()];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    Anchor::decode(&bytes).expect("short enough")
}

impl One {
    /// A replica that starts for the first time, in a cluster of so many.
    pub(super) fn new(members: usize) -> Self {
        Self::with(members, |config| config)
    }
    pub(super) fn with(members: usize, configure: impl Fn(RaftConfig) -> RaftConfig) -> Self {
        Self::restored(members, Vec::new(), configure)
    }
    /// A replica that starts with these records.
    pub(super) fn restored(
        members: usize,
        disk: Vec<Stored>,
        configure: impl Fn(RaftConfig) -> RaftConfig,
    ) -> Self {
        Self::anchored(members, None, disk, configure)
    }
    /// The same with a checkpoint before them.
    pub(super) fn anchored(
        members: usize,
        checkpoint: Option<(u64, Anchor)>,
        disk: Vec<Stored>,
        configure: impl Fn(RaftConfig) -> RaftConfig,
    ) -> Self {
        let config = RaftConfig::new(replica(0), (0..members).map(replica).collect(), 7);
        let mut raft = Raft::new(configure(config));
        if let Some((slot, anchor)) = checkpoint {
            raft.restore_anchor(Slot::new(slot), &anchor).expect("an anchor");
        }
        for (id, record) in disk.iter().enumerate() {
            raft.restore(RecordId::new(id as u64 + 1), record.clone()).expect("records that fit together");
        }
        let mut out = Effects::new();
        raft.start(Time::ZERO, &mut out);
        let mut one = Self { raft, now: Time::ZERO, disk };
        let halts = one.keep(&mut out).into_iter().find(|effect| matches!(effect, Effect::Halt(_)));
        assert_eq!(halts, None, "the records continue the checkpoint");
        one
    }

    fn keep(&mut self, out: &mut Effects) -> Vec<Effect> {
        let effects: Vec<_> = out.drain().collect();
        for effect in &effects {
            if let Effect::Persist { id, record, .. } = effect {
                self.disk.push(record.clone());
                assert_eq!(id.number(), self.disk.len() as u64, "records are numbered without gaps");
            }
        }
        self.raft.invariants(true);
        effects
    }

    pub(super) fn step(&mut self, input: Input) -> Vec<Effect> {
        let mut out = Effects::new();
        self.raft.step(self.now, input, &mut out);
        self.keep(&mut out)
    }
    pub(super) fn receive(&mut self, from: usize, message: RaftMessage) -> Vec<Effect> {
        self.step(Input::Receive(Verified::vouch(replica(from), OrderMessage::of(message))))
    }
    pub(super) fn propose(&mut self, seed: u64) -> Vec<Effect> {
        self.step(Input::Propose(batch(seed, 10)))
    }
    pub(super) fn durable(&mut self, record: u64) -> Vec<Effect> {
        self.step(Input::Durable(RecordId::new(record)))
    }
    /// Everything written so far is durable.
    pub(super) fn sync(&mut self) -> Vec<Effect> {
        self.durable(self.disk.len() as u64)
    }
    pub(super) fn wait(&mut self, millis: u64) {
        self.now = self.now.plus(Span::from_millis(millis));
    }
    pub(super) fn trim(&mut self, slot: u64) -> Vec<Effect> {
        self.step(Input::Trim { slot: Slot::new(slot) })
    }
    pub(super) fn install(&mut self, slot: u64, position: Position) -> Vec<Effect> {
        self.step(Input::Installed { slot: Slot::new(slot), anchor: anchor(position) })
    }
    /// Moves on to the deadline.
    pub(super) fn expire(&mut self) -> Vec<Effect> {
        self.now = self.now.max(self.raft.deadline().expect("a deadline"));
        self.step(Input::Deadline)
    }
    /// Moves on to the deadline, if there is one.
    pub(super) fn expire_if_any(&mut self) -> Vec<Effect> {
        if self.raft.deadline().is_some() { self.expire() } else { Vec::new() }
    }
    /// Reads records back, as a log does.
    pub(super) fn answer_load(&mut self, effects: &[Effect]) -> Vec<Effect> {
        let load = effects.iter().find_map(|effect| match effect {
            Effect::Load { load, records } => Some((*load, records.clone())),
            _ => None,
        });
        let (load, records) = load.expect("a question to the disk");
        let records = records.iter().map(|id| self.disk[id.number() as usize - 1].clone()).collect();
        self.step(Input::Loaded { load, records })
    }

    /// Wins an election for the next view, with the votes of as few others as possible; its first record is not durable.
    pub(super) fn elect(&mut self) -> Vec<Effect> {
        let members = self.members();
        self.expire();
        let next = self.raft.status().view.number() + 1;
        for from in 1..=members / 2 {
            self.receive(from, pre_vote(next, true));
        }
        self.sync();
        let mut effects = Vec::new();
        for from in 1..=members / 2 {
            effects.extend(self.receive(from, vote(next, true)));
        }
        assert!(self.raft.standing().leading, "elected");
        effects
    }

    pub(super) fn members(&self) -> usize {
        self.raft.config.members.len()
    }
}

/// The messages among effects: to whom, after which record, what.
pub(super) fn sent(effects: &[Effect]) -> Vec<(ReplicaId, Option<u64>, RaftMessage)> {
    let message = |effect: &Effect| match effect {
        Effect::Send { to, message, after } => {
            Some((*to, after.map(RecordId::number), message.get::<RaftMessage>()?.clone()))
        }
        _ => None,
    };
    effects.iter().filter_map(message).collect()
}

/// The one message to this replica.
pub(super) fn sent_to(effects: &[Effect], to: usize) -> (Option<u64>, RaftMessage) {
    let mut all: Vec<_> = sent(effects).into_iter().filter(|(id, ..)| *id == replica(to)).collect();
    assert_eq!(all.len(), 1, "one message to replica {to}: {effects:?}");
    let (_, after, message) = all.remove(0);
    (after, message)
}

pub(super) fn decided(effects: &[Effect]) -> Vec<u64> {
    let slot = |effect: &Effect| match effect {
        Effect::Decided { batch, .. } => Some(batch.header().seed),
        _ => None,
    };
    effects.iter().filter_map(slot).collect()
}

/// Entries in the messages to one follower.
pub(super) fn entries_to(effects: &[Effect], to: usize) -> usize {
    let count = |(id, _, message): &(ReplicaId, Option<u64>, RaftMessage)| match message {
        RaftMessage::AppendEntries { entries, .. } if *id == replica(to) => entries.len(),
        _ => 0,
    };
    sent(effects).iter().map(count).sum()
}
