//! Whatever a member sends, a replica neither panics nor breaks an invariant of its own.

use super::one::{One, append, at, entry, matched, start_of};
use super::world::replica;
use crate::OrderMessage;
use crate::raft::message::{AppendOutcome, Entry, Index, Position, RaftMessage};
use crate::raft::{RaftConfig, VIEW_MAX};
use crate::{Effect, Input, Order, Random};
use quorate_types::{Reject, View};
use quorate_wire::Verified;

/// Numbers near the interesting ones: small, and at both ends of what is allowed.
fn number(random: &mut Random) -> u64 {
    match random.below(12) {
        0 => u64::MAX - random.below(3),
        1 => [VIEW_MAX.number(), 1 << 40][random.below(2) as usize] - 2 + random.below(4),
        2 => random.next(),
        _ => random.below(9),
    }
}
fn small(random: &mut Random) -> u64 {
    if random.below(40) == 0 { number(random) } else { random.below(7) }
}
fn position(random: &mut Random) -> Position {
    Position::new(Index::new(small(random)), View::new(small(random)))
}
fn entries(random: &mut Random) -> Vec<Entry> {
    let mut view = small(random);
    let mut entries = Vec::new();
    for seed in 0..random.below(5) {
        view = view.saturating_add(random.below(6) / 5);
        entries.push(if random.below(3) == 0 { start_of(view) } else { entry(view, seed) });
    }
    entries
}

fn message(random: &mut Random) -> RaftMessage {
    let view = View::new(small(random));
    match random.below(11) {
        10 => RaftMessage::NeedsCheckpoint {
            view,
            previous: position(random),
            round: number(random),
            slot: number(random),
        },
        0 => RaftMessage::RequestVote {
            view,
            last: position(random),
            pre: random.below(2) == 0,
            transfer: random.below(2) == 0,
        },
        1 | 2 => {
            RaftMessage::RequestVoteReply { view, granted: random.below(3) > 0, pre: random.below(2) == 0 }
        }
        3..=5 => RaftMessage::AppendEntries {
            view,
            previous: position(random),
            commit: Index::new(small(random)),
            round: number(random),
            entries: entries(random),
        },
        6 | 7 => {
            let outcome = if random.below(2) == 0 {
                AppendOutcome::Matched(Index::new(small(random)))
            } else {
                AppendOutcome::Rejected { asked: Index::new(small(random)), hint: position(random) }
            };
            RaftMessage::AppendEntriesReply { view, round: small(random), outcome }
        }
        8 => RaftMessage::TimeoutNow { view },
        _ if random.below(2) == 0 => RaftMessage::ReadIndex { view, read: number(random) },
        _ => RaftMessage::ReadIndexReply { view, read: number(random), slot: Some(number(random)) },
    }
}

/// A checkpoint that may be: of any slot that is not forgotten, at an index where it can lie.
fn install(one: &mut One, random: &mut Random) -> Vec<Effect> {
    let floor = one.raft.store.log().floor();
    let slot = one.raft.store.log().floor_slots() + random.below(4);
    if slot == one.raft.store.log().floor_slots() || random.below(3) > 0 {
        return Vec::new();
    }
    match one.raft.store.log().index_of(slot) {
        Some(index) => one.install(slot, one.raft.store.log().position(index)),
        None => {
            let index = one.raft.store.log().last().index.plus(1 + random.below(3)).number();
            let view = floor.view.number().max(1) + random.below(3);
            one.install(slot, at(index.max(floor.index.number() + slot), view))
        }
    }
}

fn storm(seed: u64, one: &mut One) {
    let mut random = Random::new(seed);
    let mut loads = Vec::new();
    for _ in 0..150 {
        let own_view = one.raft.status().view;
        let mut message = message(&mut random);
        if random.below(3) == 0
            && let RaftMessage::AppendEntriesReply { view, .. } | RaftMessage::AppendEntries { view, .. } =
                &mut message
        {
            *view = own_view;
        }
        let effects = match random.below(14) {
            12 => one.trim(random.below(one.raft.status().decided.number() + 1)),
            13 => install(one, &mut random),
            0 => one.expire_if_any(),
            1 => one.sync(),
            2 => one.propose(random.below(100)),
            3 => one.step(Input::Read(random.below(100))),
            4 => one.step(Input::Transfer(None)),
            5 if !loads.is_empty() => {
                let effects: Vec<Effect> = std::mem::take(&mut loads);
                one.answer_load(&effects)
            }
            _ => {
                let from = replica(random.below(4) as usize);
                one.step(Input::Receive(Verified::vouch(from, OrderMessage::of(message))))
            }
        };
        loads.extend(effects.into_iter().filter(|effect| matches!(effect, Effect::Load { .. })));
    }
}

fn tight(config: RaftConfig) -> RaftConfig {
    RaftConfig { window_bytes: 200, message_bytes_max: 100, cache_bytes: 150, ..config }
}

/// Replica 3 is no member; 1 and 2 send anything, to a follower, a candidate, and a leader with a history.
#[test]
fn no_message_breaks_a_replica() {
    for seed in 0..2000 {
        let mut one = One::with(3, tight);
        match seed % 3 {
            0 => drop(one.receive(1, append(1, at(0, 0), 0, vec![start_of(1), entry(1, 1), entry(1, 2)]))),
            1 => drop(one.expire()),
            _ => {
                one.elect();
                (1..4).for_each(|seed| drop(one.propose(seed)));
                one.sync();
                one.receive(1, matched(1, 3));
            }
        }
        storm(seed, &mut one);
    }
}

/// What can not come from a correct member is named, and changes nothing.
#[test]
fn malformed_messages_are_rejected() {
    let mut one = One::new(3);
    one.receive(1, append(2, at(0, 0), 2, vec![start_of(1), entry(1, 1), start_of(2)]));
    let vote =
        |view, last| RaftMessage::RequestVote { view: View::new(view), last, pre: false, transfer: false };
    let needs =
        |view, previous| RaftMessage::NeedsCheckpoint { view: View::new(view), previous, round: 0, slot: 1 };
    let bad: Vec<(usize, RaftMessage)> = vec![
        (3, append(2, at(3, 2), 0, vec![])),
        (0, append(2, at(3, 2), 0, vec![])),
        (1, append(u64::MAX, at(3, 2), 0, vec![])),
        (1, append(0, at(0, 0), 0, vec![])),
        (1, append(2, at(0, 1), 0, vec![])),
        (1, needs(2, at(0, 1))),
        (1, needs(2, at(4, 3))),
        (1, needs(0, at(0, 0))),
        (1, needs(2, at(u64::MAX, 2))),
        (3, needs(2, at(3, 2))),
        (1, append(2, at(3, 3), 0, vec![])),
        (1, append(2, at(u64::MAX, 2), 0, vec![])),
        (1, append(2, at(u64::MAX - 1, 2), 0, vec![entry(2, 1)])),
        (1, append(2, at(3, 2), 0, vec![entry(1, 1)])),
        (1, append(2, at(3, 2), 0, vec![entry(3, 1)])),
        (1, append(2, at(1, 1), 0, vec![entry(2, 1)])),
        (1, vote(0, at(0, 0))),
        (1, vote(3, at(9, 3))),
    ];
    for (from, message) in bad {
        let effects = one.receive(from, message.clone());
        let only =
            matches!(effects.as_slice(), [Effect::Rejected { from: who, .. }] if *who == replica(from));
        assert!(only, "{message:?}: {effects:?}");
        assert_eq!(one.raft.store.log().last(), at(3, 2));
    }
    let effects = one.receive(0, append(2, at(3, 2), 0, vec![]));
    assert_eq!(effects, vec![Effect::Rejected { from: replica(0), why: Reject::UnknownPeer }]);
}

/// The highest view that is followed leaves nothing to be elected in; the replica lives on.
#[test]
fn the_last_view_ends_elections_and_nothing_else() {
    let mut one = One::new(3);
    let last = (1 << 40) - 1;
    one.receive(1, append(last, at(0, 0), 0, vec![start_of(1)]));
    one.expire();
    assert_eq!(one.raft.status().view, View::new(last));
    one.step(Input::Disconnected(replica(1)));
    one.expire_if_any();
    one.receive(1, append(last, at(1, 1), 1, vec![entry(1, 4)]));
    assert_eq!(one.raft.store.log().last(), at(2, 1));
}
