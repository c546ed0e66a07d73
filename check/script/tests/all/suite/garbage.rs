//! One replica among peers that send anything at all. It may refuse, follow or decide nonsense (with crash faults peers are
//! believed), but it never panics, and its own invariants hold.

use super::{Protocol, proposal};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use quorate_auth::Signature;
use quorate_order::OrderMessage;
use quorate_order::ledger::Proof;
use quorate_order::mod_smart::message::{Collect, Complaint, ModSmartBody as Body, ModSmartMessage};
use quorate_order::raft::message::{AppendOutcome, Entry, EntryBody, Index, Position, RaftMessage};
use quorate_order::{Anchor, Effect, Effects, Input, Order, Stored};
use quorate_types::{Digest, MembershipId, RecordId, ReplicaId, Slot, Span, Time, View};
use quorate_wire::Verified;

#[derive(Clone, Debug)]
enum Poke {
    Receive(u16, OrderMessage),
    Expire,
    Pass(u64),
    Sync,
    Propose(u64),
    Read(u64),
    Transfer(Option<u16>),
    Connected(u16),
    Disconnected(u16),
    Checkpoint,
    Trim,
    Back,
}

/// A replica by itself, with a disk.
struct Lone {
    order: Box<dyn Order>,
    now: Time,
    disk: Vec<Stored>,
    checkpoint: Option<(Slot, Anchor)>,
}

impl Lone {
    fn step(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let mut effects = Effects::new();
            self.order.step(self.now, input, &mut effects);
            self.order.invariants(true);
            inputs.extend(self.carry_out(effects));
        }
    }

    fn start(&mut self) {
        let mut effects = Effects::new();
        self.order.start(self.now, &mut effects);
        self.carry_out(effects).into_iter().for_each(|input| self.step(input));
    }

    /// Gives what follows.
    fn carry_out(&mut self, mut effects: Effects) -> Vec<Input> {
        let mut inputs = Vec::new();
        for effect in effects.drain() {
            match effect {
                Effect::Persist { id, record, .. } => {
                    self.disk.push(record);
                    assert_eq!(id.number(), self.disk.len() as u64, "records are numbered without gaps");
                }
                Effect::Load { load, records } => {
                    let read = |id: &RecordId| self.disk[id.number() as usize - 1].clone();
                    inputs.push(Input::Loaded { load, records: records.iter().map(read).collect() });
                }
                Effect::Halt(why) => panic!("a peer made it halt: {why}"),
                _ => {}
            }
        }
        inputs
    }

    fn poke(&mut self, poke: Poke) {
        match poke {
            Poke::Receive(from, message) => {
                self.step(Input::Receive(Verified::vouch(ReplicaId::new(from), message)));
            }
            Poke::Expire => {
                if let Some(deadline) = self.order.deadline() {
                    self.now = self.now.max(deadline);
                    self.step(Input::Deadline);
                }
            }
            Poke::Pass(millis) => self.now = self.now.plus(Span::from_millis(millis)),
            Poke::Sync => self.step(Input::Durable(RecordId::new(self.disk.len() as u64))),
            Poke::Propose(number) => self.step(Input::Propose(proposal(number))),
            Poke::Read(read) => self.step(Input::Read(read)),
            Poke::Transfer(to) => self.step(Input::Transfer(to.map(ReplicaId::new))),
            Poke::Connected(peer) => self.step(Input::Connected(ReplicaId::new(peer))),
            Poke::Disconnected(peer) => self.step(Input::Disconnected(ReplicaId::new(peer))),
            Poke::Checkpoint => {
                let slot = self.order.status().decided;
                if let Some(anchor) = self.order.anchor(slot).filter(|_| slot > Slot::ZERO) {
                    self.checkpoint = Some((slot, anchor));
                }
            }
            Poke::Trim => {
                if let Some((slot, _)) = self.checkpoint {
                    self.step(Input::Trim { slot });
                }
            }
            Poke::Back => {
                if let Some((slot, anchor)) = self.checkpoint.clone() {
                    self.step(Input::Installed { slot, anchor });
                }
            }
        }
    }
}

fn poke(message: BoxedStrategy<OrderMessage>) -> impl Strategy<Value = Poke> {
    let anybody = || 0u16..5;
    prop_oneof![
        12 => (anybody(), message).prop_map(|(from, message)| Poke::Receive(from, message)),
        3 => Just(Poke::Expire),
        1 => (0u64..700).prop_map(Poke::Pass),
        4 => Just(Poke::Sync),
        2 => (0u64..100).prop_map(Poke::Propose),
        2 => any::<u64>().prop_map(Poke::Read),
        1 => prop::option::of(anybody()).prop_map(Poke::Transfer),
        1 => anybody().prop_map(Poke::Connected),
        1 => anybody().prop_map(Poke::Disconnected),
        1 => Just(Poke::Checkpoint),
        1 => Just(Poke::Trim),
        1 => Just(Poke::Back),
    ]
}

/// Feeds many sequences of messages; afterwards the replica restarts with what it wrote.
pub(crate) fn garbage_never_panics(protocol: Protocol) {
    let members: Vec<ReplicaId> = (1..=3).map(ReplicaId::new).collect();
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 1000, failure_persistence: None, ..Default::default() });
    let result = runner.run(&prop::collection::vec(poke((protocol.garbage)()), 1..80), |pokes| {
        let mut lone = Lone {
            order: (protocol.make)(members[0], &members, 5),
            now: Time::ZERO,
            disk: vec![],
            checkpoint: None,
        };
        lone.start();
        pokes.into_iter().for_each(|poke| lone.poke(poke));
        let mut again = (protocol.make)(members[0], &members, 6);
        // A checkpoint that was never spoken of serves as well.
        if let Some((slot, anchor)) = &lone.checkpoint {
            prop_assert_eq!(again.restore_anchor(*slot, anchor), Ok(()));
        }
        for (id, record) in (1..).zip(&lone.disk) {
            prop_assert_eq!(again.restore(RecordId::new(id), record.clone()), Ok(()));
        }
        let mut effects = Effects::new();
        again.start(lone.now, &mut effects);
        prop_assert!(!effects.drain().any(|effect| matches!(effect, Effect::Halt(_))));
        again.invariants(true);
        Ok(())
    });
    if let Err(why) = result {
        panic!("{why}");
    }
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![20 => 0u64..7, 1 => Just(u64::MAX), 1 => Just(u64::MAX - 1), 1 => Just(1 << 62), 1 => any::<u64>()]
}

fn view() -> impl Strategy<Value = View> {
    number().prop_map(View::new)
}

fn index() -> impl Strategy<Value = Index> {
    number().prop_map(Index::new)
}

fn position() -> impl Strategy<Value = Position> {
    (index(), view()).prop_map(|(index, view)| Position::new(index, view))
}

fn entry() -> impl Strategy<Value = Entry> {
    let body = prop::option::of(0u64..4)
        .prop_map(|b| b.map_or(EntryBody::ViewStart, |n| EntryBody::Batch(proposal(n))));
    (view(), body).prop_map(|(view, body)| Entry { view, body })
}

/// Messages of Raft with small numbers, which often fit together, and a few absurd ones.
pub(crate) fn raft() -> BoxedStrategy<OrderMessage> {
    let flags = || any::<(bool, bool)>();
    let outcome = prop_oneof![
        index().prop_map(AppendOutcome::Matched),
        (index(), position()).prop_map(|(asked, hint)| AppendOutcome::Rejected { asked, hint }),
    ];
    let entries = prop::collection::vec(entry(), 0..4).prop_map(|mut entries| {
        entries.sort_by_key(|entry| entry.view);
        entries
    });
    prop_oneof![
        2 => (view(), position(), flags())
            .prop_map(|(view, last, (pre, transfer))| RaftMessage::RequestVote { view, last, pre, transfer }),
        3 => (view(), flags())
            .prop_map(|(view, (granted, pre))| RaftMessage::RequestVoteReply { view, granted, pre }),
        4 => (view(), position(), index(), number(), entries).prop_map(|(view, previous, commit, round, entries)| {
            RaftMessage::AppendEntries { view, previous, commit, round, entries }
        }),
        3 => (view(), number(), outcome)
            .prop_map(|(view, round, outcome)| RaftMessage::AppendEntriesReply { view, round, outcome }),
        1 => (view(), position(), number(), number()).prop_map(|(view, previous, round, slot)| {
            RaftMessage::NeedsCheckpoint { view, previous, round, slot }
        }),
        1 => view().prop_map(|view| RaftMessage::TimeoutNow { view }),
        1 => (view(), number()).prop_map(|(view, read)| RaftMessage::ReadIndex { view, read }),
        1 => (view(), number(), prop::option::of(number()))
            .prop_map(|(view, read, slot)| RaftMessage::ReadIndexReply { view, read, slot }),
    ]
    .prop_map(OrderMessage::of)
    .boxed()
}

fn slot() -> impl Strategy<Value = Slot> {
    number().prop_map(Slot::new)
}

fn digest() -> impl Strategy<Value = Digest> {
    (0u64..4).prop_map(|number| Digest::new(*blake3::hash(proposal(number).bytes()).as_bytes()))
}

fn value() -> impl Strategy<Value = (View, Digest)> {
    (view(), digest())
}

fn collect() -> impl Strategy<Value = Collect> {
    (0u16..5, slot(), prop::option::of(value()), prop::collection::vec(value(), 0..3)).prop_map(
        |(from, decided, lock, writes)| Collect {
            from: ReplicaId::new(from),
            decided,
            lock,
            writes,
            signature: Signature::NONE,
        },
    )
}

fn signed() -> impl Strategy<Value = Vec<(ReplicaId, Signature)>> {
    prop::collection::btree_set(0u16..5, 0..4)
        .prop_map(|ids| ids.into_iter().map(|id| (ReplicaId::new(id), Signature::NONE)).collect())
}

fn proof() -> impl Strategy<Value = Proof> {
    (slot(), view(), digest(), signed()).prop_map(|(slot, view, digest, accepts)| Proof {
        slot,
        view,
        digest,
        accepts,
    })
}

fn body() -> impl Strategy<Value = Body> {
    let batch = || (0u64..4).prop_map(proposal);
    let why = prop_oneof![
        Just(Complaint::Silence),
        digest().prop_map(Complaint::Request),
        slot().prop_map(Complaint::Slot),
        Just(Complaint::Joined),
        Just(Complaint::Leaves),
    ];
    let collects = prop::collection::vec(collect(), 0..4).prop_map(|mut list| {
        list.sort_by_key(|collect| collect.from);
        list
    });
    let batches = prop::collection::vec(batch(), 0..3);
    let signature = Signature::NONE;
    prop_oneof![
        4 => (slot(), batch()).prop_map(|(slot, batch)| Body::Propose { slot, batch }),
        3 => (slot(), digest()).prop_map(|(slot, digest)| Body::Write { slot, digest }),
        4 => (slot(), digest()).prop_map(move |(slot, digest)| Body::Accept { slot, digest, signature }),
        3 => (view(), why, slot()).prop_map(move |(asked, why, decided)| Body::Stop { asked, why, decided, signature }),
        2 => signed().prop_map(|stops| Body::Certificate { stops }),
        3 => (collect(), prop::option::of(proof()), batches)
            .prop_map(|(collect, last, batches)| Body::StopData { collect, last, batches }),
        3 => (signed(), collects, prop::option::of(proof()), prop::option::of(batch()))
            .prop_map(|(stops, collects, last, value)| Body::Sync { stops, collects, last, value }),
        1 => (slot(), 1u16..5).prop_map(|(slot, count)| Body::Fetch { slot, count }),
        3 => (proof(), batch()).prop_map(|(proof, batch)| Body::Decision { proof, batch }),
        1 => (slot(), prop::option::of(proof())).prop_map(|(slot, proof)| Body::Gone { slot, proof }),
        1 => (slot(), number()).prop_map(|(decided, round)| Body::Alive { decided, round }),
        1 => (slot(), number()).prop_map(|(decided, round)| Body::AliveReply { decided, round }),
        1 => number().prop_map(|read| Body::Read { read }),
        1 => (number(), prop::option::of(slot())).prop_map(|(read, slot)| Body::ReadReply { read, slot }),
    ]
}

/// Messages of Mod-SMaRt with small numbers, which often fit together, and a few absurd ones.
pub(crate) fn mod_smart() -> BoxedStrategy<OrderMessage> {
    (view(), body())
        .prop_map(|(view, body)| {
            let membership = MembershipId::FIRST;
            OrderMessage::of(ModSmartMessage { membership, view, body })
        })
        .boxed()
}
