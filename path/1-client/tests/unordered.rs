//! Reads that are not ordered, where replicas may lie: what a quorum answers alike, and what happens when none does.

mod many;

use many::hand::{Hand, SESSION};
use many::{config, list};
use quorate_client::{Completion, Error, ReadConsistency};
use quorate_types::{Seq, Span};
use quorate_wire::ReadStatus::{Done, Forbidden, NoLeader, Overloaded, TooLarge};
use quorate_wire::{ReplyStatus, RequestKind};

fn hand(replicas: usize) -> Hand {
    let mut config = config(3);
    config.ordered_reads = false;
    Hand::with(replicas, config)
}

/// Asks, and returns the number that all members got it under.
fn ask(hand: &mut Hand, call: u64) -> u64 {
    hand.reads.iter_mut().for_each(Vec::clear);
    hand.read(call, ReadConsistency::Strong, None, None);
    let read = *hand.reads[0].first().expect("not ordered");
    assert!(hand.reads.iter().all(|reads| *reads == [read]), "all are asked: {:?}", hand.reads);
    read
}

fn read(hand: &mut Hand, call: u64) -> (u64, Vec<u8>) {
    match hand.ended(call) {
        Some(Ok(Completion::Read { seq, body })) => (seq.number(), body.to_vec()),
        other => panic!("{other:?}"),
    }
}

/// Whether the query was asked in the order of all commands, at all members.
fn is_ordered(hand: &mut Hand) -> bool {
    hand.take().iter().all(|got| got.iter().any(|got| got.kind == RequestKind::OpenSession))
}

/// `read-of-few` is found: alone, since a bug is in force in the whole process.
#[cfg(planted)]
#[test]
#[ignore = "a bug is in force in the whole process: run it alone"]
fn few_answers_are_seen_not_to_be_enough() {
    quorate_types::plant(Some("read-of-few"));
    let found = std::panic::catch_unwind(three_equal_answers_of_four_count);
    quorate_types::plant(None);
    assert!(found.is_err());
}

#[test]
fn three_equal_answers_of_four_count() {
    let mut hand = hand(4);
    let id = ask(&mut hand, 1);
    hand.answer(3, id, 7, Done, b"yes");
    hand.answer(1, id, 9, Done, b"yes");
    assert_eq!(hand.ended(1), None, "two are not enough: writes count with two, and one of them may lie");
    hand.answer(0, id, 8, Done, b"yes");
    assert_eq!(read(&mut hand, 1), (8, b"yes".to_vec()), "one of two honest ones had executed so far");
    hand.answer(2, id, 8, Done, b"yes");
    assert_eq!((hand.client.stats().reads_unordered, hand.client.waiting()), (1, (0, 0)));
    assert_eq!(hand.client.newest(), Seq::new(8));
}

#[test]
fn five_of_seven_and_four_of_five_are_needed() {
    for (replicas, quorum) in [(5, 4), (7, 5)] {
        let mut hand = hand(replicas);
        let id = ask(&mut hand, 1);
        for member in 0..quorum {
            assert_eq!(hand.ended(1), None, "{member}");
            hand.answer(member, id, 7, Done, b"yes");
        }
        assert_eq!(read(&mut hand, 1).1, b"yes");
    }
}

#[test]
fn one_who_lies_changes_nothing_and_has_one_answer() {
    let mut hand = hand(4);
    let id = ask(&mut hand, 1);
    for _ in 0..4 {
        hand.answer(2, id, u64::MAX, Done, b"lie");
    }
    hand.answer(0, id, 7, Done, b"yes");
    hand.answer(1, id, 7, Done, b"yes");
    assert_eq!(hand.ended(1), None);
    hand.answer(3, id, 7, Done, b"yes");
    assert_eq!(read(&mut hand, 1), (7, b"yes".to_vec()));
}

#[test]
fn a_seq_that_one_invents_is_not_believed() {
    let mut hand = hand(4);
    let id = ask(&mut hand, 1);
    hand.answer(2, id, u64::MAX, Done, b"yes");
    hand.answer(0, id, 7, Done, b"yes");
    hand.answer(1, id, 5, Done, b"yes");
    assert_eq!(read(&mut hand, 1), (7, b"yes".to_vec()));
}

#[test]
fn what_no_quorum_answers_alike_is_ordered() {
    let mut hand = hand(4);
    let id = ask(&mut hand, 1);
    hand.answer(0, id, 7, Done, b"old");
    hand.answer(1, id, 8, Done, b"new");
    assert!(!is_ordered(&mut hand), "three may still agree");
    hand.answer(2, id, 7, Done, b"old");
    hand.answer(3, id, 8, Done, b"new");
    assert!(is_ordered(&mut hand));
    assert_eq!((hand.client.stats().reads_unordered, hand.client.stats().reads_asked_again), (0, 1));
    // And so is what is read soon after, but no longer.
    hand.reads.iter_mut().for_each(Vec::clear);
    hand.read(2, ReadConsistency::Strong, None, None);
    assert!(hand.reads.iter().all(Vec::is_empty));
    hand.advance(Span::from_millis(25));
    let id = ask(&mut hand, 3);
    (0..3).for_each(|member| hand.answer(member, id, 9, Done, b"new"));
    assert_eq!(read(&mut hand, 3).1, b"new");
}

#[test]
fn each_failure_in_a_row_makes_the_pause_longer() {
    let mut hand = hand(4);
    for call in 1..=4 {
        let id = ask(&mut hand, call);
        let bodies: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
        for (member, body) in bodies.into_iter().enumerate() {
            hand.answer(member, id, 7, Done, body);
        }
        let pause = 10u64 << (call - 1);
        hand.advance(Span::from_millis(pause - 1));
        hand.reads.iter_mut().for_each(Vec::clear);
        hand.read(100 + call, ReadConsistency::Strong, None, None);
        assert!(hand.reads.iter().all(Vec::is_empty), "{call}");
        hand.advance(Span::from_millis(1));
    }
}

#[test]
fn what_is_not_answered_in_time_is_ordered() {
    let mut hand = hand(4);
    let id = ask(&mut hand, 1);
    hand.answer(0, id, 7, Done, b"yes");
    hand.answer(1, id, 7, Done, b"yes");
    hand.advance(Span::from_millis(99));
    assert!(!is_ordered(&mut hand));
    hand.advance(Span::from_millis(2));
    assert!(is_ordered(&mut hand));
    hand.answer(2, id, 7, Done, b"yes");
    assert_eq!(hand.ended(1), None, "its time was over");
}

#[test]
fn refusals_that_pass_make_it_ordered_and_others_end_it() {
    let mut hand = hand(4);
    let id = ask(&mut hand, 1);
    hand.answer(0, id, 7, Overloaded, b"");
    hand.answer(1, id, 7, NoLeader, b"");
    assert!(is_ordered(&mut hand), "three are too many to hope for");
    hand.advance(Span::from_millis(50));
    for (call, status) in [(2, Forbidden), (3, TooLarge)] {
        let id = ask(&mut hand, call);
        hand.answer(0, id, 7, status, b"");
        hand.answer(1, id, 7, status, b"");
        assert_eq!(hand.ended(call), None);
        hand.answer(2, id, 7, status, b"");
        let ended = hand.ended(call);
        assert!(
            matches!(
                ended,
                Some(Err(Error::Forbidden { .. } | Error::TooLarge { outcome_unknown: false, .. }))
            ),
            "{ended:?}"
        );
    }
}

#[test]
fn without_a_quorum_of_connections_reads_are_ordered_at_once() {
    let mut hand = hand(4);
    hand.lose(1);
    let id = {
        hand.read(1, ReadConsistency::Strong, None, None);
        hand.reads[0][0]
    };
    [0, 2, 3].into_iter().for_each(|member| hand.answer(member, id, 7, Done, b"yes"));
    assert_eq!(read(&mut hand, 1).1, b"yes", "three are enough");
    hand.lose(2);
    hand.reads.iter_mut().for_each(Vec::clear);
    hand.read(2, ReadConsistency::Strong, None, None);
    assert!(hand.reads.iter().all(Vec::is_empty));
}

#[test]
fn a_deadline_ends_a_read_and_what_is_kept_of_it() {
    let mut hand = hand(4);
    hand.reads.iter_mut().for_each(Vec::clear);
    let deadline = hand.now.plus(Span::from_millis(30));
    hand.read(1, ReadConsistency::Strong, None, Some(deadline));
    let id = hand.reads[0][0];
    hand.answer(0, id, 7, Done, &[7; 1000]);
    hand.advance(Span::from_millis(31));
    assert!(matches!(hand.ended(1), Some(Err(Error::DeadlineExceeded { outcome_unknown: false, .. }))));
    assert_eq!(hand.client.waiting(), (0, 0));
}

#[test]
fn what_one_member_makes_us_keep_of_reads_is_bounded() {
    let mut small = config(3);
    (small.ordered_reads, small.queue_bytes_max) = (false, 100_000);
    let mut hand = Hand::with(4, small);
    let ids: Vec<u64> = (1..=20).map(|call| ask(&mut hand, call)).collect();
    for id in &ids {
        hand.answer(3, *id, 7, Done, &[7; 30_000]);
    }
    // Of the first three it was kept, and with two others it counts; of those behind it was not.
    for (call, id) in (1..).zip(&ids).take(4) {
        hand.answer(0, *id, 7, Done, &[7; 30_000]);
        hand.answer(1, *id, 7, Done, &[7; 30_000]);
        assert_eq!(hand.ended(call).is_some(), call <= 3, "{call}");
    }
}

#[test]
fn writes_still_count_with_two_equal_answers() {
    let mut hand = hand(4);
    let handle = hand.opened(1000, SESSION);
    hand.call(1, handle, b"x");
    hand.say(0, SESSION, 1, ReplyStatus::Done, &list(&[b"yes"]));
    hand.say(1, SESSION, 1, ReplyStatus::Done, &list(&[b"yes"]));
    hand.replied(1, b"yes");
}
