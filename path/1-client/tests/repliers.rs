//! Who answers, where f+1 equal answers are needed: f+1 members, one of them whole, and others in their place when they are late.

mod many;

use AnswerMode::{Digests, Full, Silent};
use many::hand::{Hand, SESSION};
use many::{config, list};
use quorate_client::{Config, Effect, LetterLimits, ReplicaReply, SessionHandle};
use quorate_types::Span;
use quorate_wire::{AnswerMode, Listen, ReplyStatus, reply_digest};

const WAIT: Span = Span::from_millis(60);

/// The members that were told so, by number.
fn told(hand: &Hand, mode: AnswerMode) -> Vec<usize> {
    (0..hand.modes.len()).filter(|replica| hand.modes[*replica] == Some(mode)).collect()
}

fn only(members: &[usize]) -> usize {
    assert_eq!(members.len(), 1, "{members:?}");
    members[0]
}

/// A long answer.
fn long() -> Vec<u8> {
    vec![b'y'; 300]
}

fn digest(hand: &mut Hand, replica: usize, number: u64, reply: &[u8]) {
    let digest = reply_digest(&list(&[reply]));
    hand.say(replica, SESSION, number, ReplyStatus::DoneDigest, digest.bytes());
}

fn session() -> (Hand, SessionHandle) {
    let (hand, handle) = Hand::with_session();
    assert_eq!((told(&hand, Full).len(), told(&hand, Digests).len(), told(&hand, Silent).len()), (1, 1, 2));
    (hand, handle)
}

#[test]
fn of_seven_one_answers_whole_and_two_by_digests() {
    let hand = Hand::with(7, config(3));
    assert_eq!((told(&hand, Full).len(), told(&hand, Digests).len(), told(&hand, Silent).len()), (1, 2, 4));
}

#[test]
fn spare_repliers_answer_too() {
    let mut spare = config(3);
    spare.spare_repliers = 1;
    let hand = Hand::with(4, spare);
    assert_eq!((told(&hand, Full).len(), told(&hand, Digests).len(), told(&hand, Silent).len()), (1, 2, 1));
}

#[test]
fn clients_begin_with_different_members() {
    let firsts: Vec<usize> = (0..40).map(|seed| only(&told(&Hand::with(4, config(seed)), Full))).collect();
    for member in 0..4 {
        let count = firsts.iter().filter(|first| **first == member).count();
        assert!((3..=20).contains(&count), "{member}: {firsts:?}");
    }
}

#[test]
fn one_whole_answer_and_one_digest_count() {
    for whole_first in [true, false] {
        let (mut hand, handle) = session();
        let (whole, other) = (only(&told(&hand, Full)), only(&told(&hand, Digests)));
        hand.call(1, handle, b"x");
        if whole_first {
            hand.done(whole, 1, &long());
        }
        digest(&mut hand, other, 1, &long());
        if !whole_first {
            assert_eq!(hand.ended(1), None);
            hand.done(whole, 1, &long());
        }
        hand.replied(1, &long());
        assert_eq!(hand.client.stats().replies_ignored, 0);
    }
}

#[test]
fn digests_alone_never_count() {
    let (mut hand, handle) = session();
    hand.call(1, handle, b"x");
    for member in 0..4 {
        digest(&mut hand, member, 1, &long());
    }
    assert_eq!(hand.ended(1), None, "nobody knows what was answered");
    hand.done(2, 1, &long());
    hand.replied(1, &long());
}

#[test]
fn a_whole_answer_that_has_another_digest_does_not_count() {
    let (mut hand, handle) = session();
    let (whole, other) = (only(&told(&hand, Full)), only(&told(&hand, Digests)));
    hand.call(1, handle, b"x");
    digest(&mut hand, other, 1, &long());
    hand.done(whole, 1, b"lie");
    assert_eq!(hand.ended(1), None);
    // All are asked, and of those who agree another one is asked for the whole.
    hand.advance(WAIT);
    assert_eq!(told(&hand, Silent), Vec::<usize>::new());
    let asked = (0..4).filter(|member| *member != whole && *member != other).collect::<Vec<_>>();
    for member in &asked {
        assert_eq!(hand.got[*member].iter().filter(|got| got.number == 1).count(), 2, "sent once more");
        digest(&mut hand, *member, 1, &long());
    }
    assert_eq!(hand.ended(1), None);
    hand.advance(WAIT);
    let next = only(&told(&hand, Full));
    assert_ne!(next, whole, "it had its chance");
    hand.done(next, 1, &long());
    hand.replied(1, &long());
    // Who said something else is not asked for long.
    hand.advance(Span::from_secs(20));
    assert_ne!(only(&told(&hand, Full)), whole);
}

#[test]
fn another_one_answers_at_once_for_who_is_lost() {
    let (mut hand, handle) = session();
    let (whole, other) = (only(&told(&hand, Full)), only(&told(&hand, Digests)));
    hand.call(1, handle, b"x");
    digest(&mut hand, other, 1, &long());
    let before: Vec<usize> = hand.got.iter().map(Vec::len).collect();
    hand.lose(whole);
    hand.modes[whole] = None;
    let next = only(&told(&hand, Full));
    assert_ne!(next, whole);
    assert!(hand.got[next].len() > before[next], "who is to answer now gets what is under way");
    assert_eq!(told(&hand, Digests).len(), 1);
    hand.done(next, 1, &long());
    if next != other {
        hand.replied(1, &long());
    }
}

#[test]
fn who_is_late_has_others_answer_in_its_place() {
    let (mut hand, handle) = session();
    let (whole, other) = (only(&told(&hand, Full)), only(&told(&hand, Digests)));
    hand.call(1, handle, b"x");
    // Nobody answers for long: nobody is to blame.
    hand.advance(Span::from_millis(500));
    assert_eq!((only(&told(&hand, Full)), only(&told(&hand, Digests))), (whole, other));
    digest(&mut hand, other, 1, &long());
    hand.advance(WAIT);
    let next = only(&told(&hand, Full));
    assert_ne!(next, whole);
    assert_eq!(hand.modes[whole], Some(Silent));
    assert!(hand.got[next].iter().filter(|got| got.number == 1).count() == 2 || next == other);
    hand.done(next, 1, &long());
    let helper = told(&hand, Digests);
    for helper in helper {
        digest(&mut hand, helper, 1, &long());
    }
    hand.replied(1, &long());
    // It gets another chance, each time later.
    hand.advance(Span::from_millis(1500));
    assert_eq!(only(&told(&hand, Full)), whole);
    hand.call(2, handle, b"x");
    digest(&mut hand, other, 2, &long());
    hand.advance(WAIT);
    (0..4).filter(|member| *member != whole).for_each(|member| hand.done(member, 2, &long()));
    hand.replied(2, &long());
    hand.advance(Span::from_millis(1500));
    assert_ne!(only(&told(&hand, Full)), whole, "two seconds now");
    hand.advance(Span::from_millis(1000));
    assert_eq!(only(&told(&hand, Full)), whole);
}

#[test]
fn when_too_few_are_in_time_all_are_asked() {
    let (mut hand, handle) = session();
    hand.call(1, handle, b"x");
    let first = only(&told(&hand, Digests));
    hand.done(first, 1, &long());
    for _ in 0..5 {
        hand.advance(WAIT);
    }
    assert_eq!(told(&hand, Silent), Vec::<usize>::new());
    // The timers rest until the request is sent again.
    let due = hand.client.deadline().expect("sending again is due");
    assert!(due.since(hand.now) > Span::from_millis(200), "{due:?}");
    let last = (0..4).find(|member| *member != first).expect("there are four");
    digest(&mut hand, last, 1, &long());
    hand.replied(1, &long());
}

#[test]
fn who_needs_long_as_a_rule_is_not_late() {
    let (mut hand, handle) = session();
    let (whole, other) = (only(&told(&hand, Full)), only(&told(&hand, Digests)));
    // Fifteen milliseconds apart, as replicas in different places are.
    for number in 1..100 {
        hand.call(number, handle, b"x");
        digest(&mut hand, other, number, &long());
        hand.advance(Span::from_millis(15));
        hand.done(whole, number, &long());
        hand.replied(number, &long());
    }
    hand.call(100, handle, b"x");
    digest(&mut hand, other, 100, &long());
    hand.advance(Span::from_millis(100));
    assert_eq!(only(&told(&hand, Full)), whole, "six times as long as ever is no reason yet");
    hand.advance(Span::from_millis(200));
    assert_ne!(only(&told(&hand, Full)), whole);
}

#[test]
fn a_request_without_any_answer_makes_all_answer() {
    let (mut hand, handle) = session();
    hand.call(1, handle, b"x");
    hand.advance(Span::from_millis(2100));
    assert_eq!(told(&hand, Silent), Vec::<usize>::new());
    hand.advance(Span::from_secs(12));
}

/// All were late for long, and asked in vain. Who is first again then, and lies, is looked at again when the request is sent again.
#[test]
fn who_lies_once_all_were_asked_in_vain_is_found_out() {
    let (mut hand, handle) = session();
    let liar = only(&told(&hand, Full));
    hand.call(1, handle, b"x");
    hand.done(liar, 1, b"lie");
    // The others are cut off for a while.
    for _ in 0..70 {
        hand.advance(Span::from_secs(2));
    }
    for _ in 0..20 {
        for member in (0..4).filter(|member| *member != liar) {
            if hand.modes[member] == Some(Full) {
                hand.done(member, 1, &long());
            } else if hand.modes[member] == Some(Digests) {
                digest(&mut hand, member, 1, &long());
            }
        }
        hand.advance(Span::from_millis(500));
    }
    hand.replied(1, &long());
}

// What a host is told of each member.

fn hearing() -> Hand {
    Hand::with(4, Config { tells_replies: true, letters: Some(LetterLimits::default()), ..config(3) })
}

/// Who said what, and what counts, in the order in which it came.
fn lines(hand: &mut Hand) -> Vec<String> {
    let line = |effect| match effect {
        Effect::Replied(ReplicaReply { replica, session, number, status, body }) => {
            assert_eq!(session, SESSION);
            format!("{replica} {number} {status:?} {}", body.len())
        }
        Effect::Believed { session, number, replies } => {
            assert_eq!(session, SESSION);
            format!("{number} counts: {:?}", replies.map(|replies| replies.len()))
        }
        Effect::Letter { number, missed, .. } => format!("letter {number}, {missed} missed"),
        other => panic!("{other:?}"),
    };
    std::mem::take(&mut hand.told).into_iter().map(line).collect()
}

/// With a host that is told replies nobody is silent, and late and wrong answers are passed on, too.
#[test]
fn each_members_reply_is_told() {
    let mut hand = hearing();
    let handle = hand.opened(1000, SESSION);
    assert!(hand.modes.iter().all(|mode| matches!(mode, Some(AnswerMode::Full | AnswerMode::Digests))));
    hand.call(1, handle, b"x");
    hand.done(0, 1, b"lie");
    hand.done(2, 1, b"yes!");
    assert_eq!(lines(&mut hand), ["r1 #1 Done 11", "r3 #1 Done 12"]);
    hand.done(1, 1, b"yes!");
    assert_eq!(lines(&mut hand), ["r2 #1 Done 12", "#1 counts: Some(12)"]);
    hand.replied(1, b"yes!");
    hand.done(3, 1, b"yes!");
    hand.done(3, 2, b"of nothing");
    assert_eq!(lines(&mut hand), ["r4 #1 Done 12"], "late, and a request that was never sent");
}

/// Members are told once in which sessions the client listens, and again when they are connected anew, with the letters that it has.
#[test]
fn members_are_told_where_the_client_listens() {
    let mut hand = hearing();
    hand.opened(1000, SESSION);
    let first = vec![Listen { session: SESSION, after: 0 }];
    assert_eq!(hand.listens, vec![first; 4]);
    for replica in [0, 1, 3] {
        hand.letter(replica, 1, b"news");
    }
    assert_eq!(lines(&mut hand), ["letter 1, 0 missed"]);
    assert_eq!(hand.client.stats().letters_ignored, 1);
    hand.listens.iter_mut().for_each(Vec::clear);
    hand.lose(2);
    hand.back(2);
    assert_eq!(hand.listens[2], [Listen { session: SESSION, after: 1 }]);
    assert!([0, 1, 3].iter().all(|replica| hand.listens[*replica].is_empty()));
    hand.letter(2, 3, b"more");
    hand.letter(0, 3, b"more");
    hand.advance(Span::from_millis(1001));
    assert_eq!(lines(&mut hand), ["letter 3, 1 missed"]);
}

/// A client that wants no letters says nothing of them, and ignores those that come.
#[test]
fn nobody_need_listen() {
    let (mut hand, _) = Hand::with_session();
    (0..4).for_each(|replica| hand.letter(replica, 1, b"news"));
    assert!(hand.told.is_empty() && hand.listens.iter().all(Vec::is_empty));
    assert_eq!(hand.client.stats().letters_ignored, 4);
}
