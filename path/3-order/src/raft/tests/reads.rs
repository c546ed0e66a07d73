//! Strong reads: which round confirms them, at which slot.

use super::one::{One, append, at, index, matched, matched_in, sent, sent_to, start_of, view};
use super::world::replica;
use crate::raft::message::RaftMessage;
use crate::{Effect, Input, Order};
use quorate_types::Slot;

fn read_index(in_view: u64, read: u64) -> RaftMessage {
    RaftMessage::ReadIndex { view: view(in_view), read }
}
fn confirmed(effects: &[Effect]) -> Vec<(u64, u64)> {
    let read = |effect: &Effect| match effect {
        Effect::ReadConfirmed { read, slot } => Some((*read, slot.number())),
        _ => None,
    };
    effects.iter().filter_map(read).collect()
}
fn failed(effects: &[Effect]) -> Vec<u64> {
    let read = |effect: &Effect| match effect {
        Effect::ReadFailed { read } => Some(*read),
        _ => None,
    };
    effects.iter().filter_map(read).collect()
}

/// A leader of three with slot 1 decided.
fn leader() -> One {
    let mut one = One::new(3);
    one.elect();
    one.propose(1);
    one.sync();
    one.receive(1, matched(1, 2));
    one
}

/// A read is confirmed by answers to a round that began after it arrived; reads that come meanwhile share the next.
#[test]
fn a_read_waits_for_a_round_of_its_own() {
    let mut one = leader();
    let effects = one.step(Input::Read(7));
    assert_eq!(sent(&effects).len(), 2);
    assert!(confirmed(&one.step(Input::Read(8))).is_empty());
    assert!(confirmed(&one.step(Input::Read(9))).is_empty());
    assert!(confirmed(&one.receive(1, matched_in(1, 2, 0))).is_empty(), "an answer to an older message");
    let effects = one.receive(1, matched_in(1, 2, 1));
    assert_eq!(confirmed(&effects), vec![(7, 1)]);
    assert_eq!(sent(&effects).len(), 2, "the next round begins at once");
    assert!(confirmed(&one.receive(2, matched_in(1, 1, 1))).is_empty(), "that round is over");
    assert_eq!(confirmed(&one.receive(2, matched_in(1, 1, 2))), vec![(8, 1), (9, 1)]);
}

/// The slot is the one of the read's arrival.
#[test]
fn a_read_waits_for_no_later_slot() {
    let mut one = leader();
    one.step(Input::Read(7));
    one.propose(2);
    one.sync();
    one.receive(1, matched(1, 3));
    assert_eq!(one.raft.status().decided, Slot::new(2));
    assert_eq!(confirmed(&one.receive(1, matched_in(1, 3, 1))), vec![(7, 1)]);
}

/// A new leader knows what is decided when it committed something of its own view.
#[test]
fn a_new_leader_holds_reads_until_it_committed() {
    let mut one = One::new(3);
    one.elect();
    assert!(sent(&one.step(Input::Read(1))).is_empty(), "no round yet");
    one.receive(1, matched(1, 1));
    let effects = one.sync();
    assert_eq!(sent(&effects).len(), 2, "committed: the round begins");
    assert_eq!(confirmed(&one.receive(2, matched_in(1, 0, 1))), vec![(1, 0)]);
}

/// A follower asks the leader once for all reads that wait, and believes only the answer to its last question.
#[test]
fn a_follower_asks_its_leader() {
    let mut one = One::new(3);
    one.receive(1, append(1, at(0, 0), 0, vec![start_of(1)]));
    one.sync();
    let (_, question) = sent_to(&one.step(Input::Read(1)), 1);
    let RaftMessage::ReadIndex { read, .. } = question else { panic!("{question:?}") };
    assert!(sent(&one.step(Input::Read(2))).is_empty(), "one question at a time");
    let reply = |read, slot| RaftMessage::ReadIndexReply { view: view(1), read, slot };
    assert!(confirmed(&one.receive(1, reply(read - 1, Some(3)))).is_empty(), "answers an older question");
    assert!(confirmed(&one.receive(2, reply(read, Some(3)))).is_empty(), "not from the leader");
    let effects = one.receive(1, reply(read, Some(4)));
    assert_eq!(confirmed(&effects), vec![(1, 4)]);
    let RaftMessage::ReadIndex { read: second, .. } = sent_to(&effects, 1).1 else { panic!() };
    assert!(confirmed(&one.receive(1, reply(read, Some(4)))).is_empty(), "a repeated answer");
    assert_eq!(failed(&one.receive(1, reply(second, None))), vec![2], "it does not lead any more");
}

/// Reads fail when the leader changes, or when nobody answers; they wait for a leader for a while.
#[test]
fn reads_fail_in_the_end() {
    let mut one = One::new(3);
    one.step(Input::Read(1));
    one.receive(1, append(1, at(0, 0), 0, vec![start_of(1)]));
    let effects = one.receive(2, append(2, at(0, 0), 0, vec![]));
    assert_eq!(failed(&effects), vec![1], "asked in view 1");

    let mut one = One::new(3);
    one.step(Input::Read(1));
    one.wait(300);
    assert_eq!(failed(&one.step(Input::Deadline)), vec![1], "no leader in time");

    let mut one = leader();
    one.step(Input::Read(1));
    one.receive(2, read_index(1, 77));
    let effects = one.receive(1, matched(3, 0));
    assert_eq!(failed(&effects), vec![1], "it leads no more");
    let (_, reply) = sent_to(&effects, 2);
    assert!(matches!(reply, RaftMessage::ReadIndexReply { read: 77, slot: None, .. }), "{reply:?}");
}

/// A leader answers a follower's question, and tells it the commit index at once.
#[test]
fn a_follower_that_reads_is_told_of_the_commit() {
    let mut one = leader();
    one.receive(2, matched(1, 2));
    let mut all = one.receive(2, read_index(1, 5));
    let effects = one.receive(1, matched_in(1, 2, 1));
    let to_reader: Vec<_> = sent(&effects).into_iter().filter(|(to, ..)| *to == replica(2)).collect();
    assert!(matches!(
        to_reader.last(),
        Some((_, _, RaftMessage::ReadIndexReply { read: 5, slot: Some(1), .. }))
    ));
    all.extend(effects);
    let told = sent(&all).into_iter().any(|(to, _, message)| {
        to == replica(2) && matches!(message, RaftMessage::AppendEntries { commit, .. } if commit == index(2))
    });
    assert!(told, "{all:?}");
}

/// A member alone confirms at once.
#[test]
fn a_single_member_reads_at_once() {
    let mut one = One::new(1);
    one.sync();
    one.sync();
    one.propose(1);
    one.sync();
    assert_eq!(confirmed(&one.step(Input::Read(3))), vec![(3, 1)]);
}

/// One member can not fill the leader with reads.
#[test]
fn a_members_open_reads_are_bounded() {
    let mut one = leader();
    let rejected = (0..200).filter(|read| {
        let effects = one.receive(2, read_index(1, *read));
        effects.iter().any(|effect| matches!(effect, Effect::Rejected { .. }))
    });
    assert_eq!(rejected.count(), 200 - 64);
}

/// A restarted replica numbers its questions anew, so that an answer to a question of its earlier life is known as one.
#[test]
fn questions_of_two_lives_have_different_numbers() {
    let mut numbers = Vec::new();
    let mut disk = Vec::new();
    for _ in 0..3 {
        let mut one = One::restored(3, disk, |config| config);
        let leader = append(1 + numbers.len() as u64, at(0, 0), 0, vec![]);
        one.receive(1, leader);
        let (_, question) = sent_to(&one.step(Input::Read(1)), 1);
        let RaftMessage::ReadIndex { read, .. } = question else { panic!("{question:?}") };
        assert!(!numbers.contains(&read));
        numbers.push(read);
        disk = one.disk;
    }
}
