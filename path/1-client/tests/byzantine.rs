//! Replicas of which one may lie, one situation each: when an answer counts, who gets what, and what is said of outcomes.

mod many;

use ReplyStatus::{
    DiskFull, Done, ExpectedNumber, Forbidden, Overloaded, Position, ReplyForgotten, SessionExpired,
    SessionLimit, SessionOpened, TooLarge,
};
use many::hand::{Got, Hand, SESSION};
use many::{config, list};
use quorate_client::{CallId, Completion, Error, Input, ReadConsistency, SessionHandle};
use quorate_types::{ReplicaId, Seq, SessionId, Span, View};
use quorate_wire::{LeaderNotice, ReplyStatus, RequestKind};

const OTHER: SessionId = SessionId { index: 6, generation: 1 };

fn session() -> (Hand, SessionHandle) {
    Hand::with_session()
}

fn open(hand: &mut Hand, call: u64) -> u64 {
    hand.input(Input::Open { call: CallId(call), deadline: None });
    hand.got[0].last().expect("an opening").number
}

// Answers.

#[test]
fn two_equal_answers_of_four_count() {
    let (mut hand, handle) = session();
    hand.call(1, handle, b"x");
    hand.done(2, 1, b"yes");
    assert_eq!(hand.ended(1), None, "one may lie");
    hand.done(0, 1, b"yes");
    hand.replied(1, b"yes");
    hand.done(1, 1, b"yes");
    hand.done(3, 1, b"yes");
    assert_eq!(hand.client.waiting(), (0, 0));
    assert_eq!(
        (hand.client.stats().replies_ignored, hand.client.stats().contradictions),
        (0, 0),
        "late, not wrong"
    );
}

#[test]
fn a_liar_who_is_first_changes_nothing() {
    let (mut hand, handle) = session();
    hand.call(1, handle, b"x");
    hand.done(3, 1, b"lie");
    hand.done(0, 1, b"yes");
    assert_eq!(hand.ended(1), None);
    hand.done(1, 1, b"yes");
    hand.replied(1, b"yes");
}

#[test]
fn one_member_has_one_answer_and_the_first_counts() {
    let (mut hand, handle) = session();
    hand.call(1, handle, b"x");
    for lie in [&b"lie"[..], b"lie", b"yes", b"no"] {
        hand.done(3, 1, lie);
    }
    assert_eq!(hand.ended(1), None);
    hand.done(0, 1, b"yes");
    assert_eq!(hand.ended(1), None, "its second answer does not count");
    assert_eq!(hand.client.stats().contradictions, 2, "and is evidence");
    hand.done(2, 1, b"yes");
    hand.replied(1, b"yes");
}

#[test]
fn everything_about_an_answer_is_compared() {
    let (mut hand, handle) = session();
    hand.call(1, handle, b"x");
    let yes = list(&[b"yes"]);
    hand.say(0, SESSION, 1, Done, &yes);
    hand.say(1, SESSION, 1, ReplyForgotten, &yes);
    hand.say(2, OTHER, 1, Done, &yes);
    hand.say(2, SESSION, 2, Done, &yes);
    hand.say(2, SESSION, 1, Done, &[&yes[..], b"!"].concat());
    assert_eq!(hand.ended(1), None);
    hand.say(3, SESSION, 1, Done, &yes);
    hand.replied(1, b"yes");
}

#[test]
fn three_of_seven_are_needed() {
    let mut hand = Hand::with(7, config(3));
    let handle = hand.opened(1000, SESSION);
    hand.call(1, handle, b"x");
    hand.done(0, 1, b"lie");
    hand.done(1, 1, b"lie");
    hand.done(2, 1, b"yes");
    hand.done(3, 1, b"yes");
    assert_eq!(hand.ended(1), None);
    hand.done(4, 1, b"yes");
    hand.replied(1, b"yes");
}

#[test]
fn small_answers_in_large_frames_are_kept_apart_from_them() {
    let (mut hand, handle) = session();
    hand.call(1, handle, b"x");
    let body = list(&[b"yes"]);
    let mut payload = Vec::new();
    let number = quorate_types::RequestNumber::new(1);
    quorate_wire::Reply { session: SESSION, number, status: Done, body: &body }.write_to(&mut payload);
    quorate_wire::Reply { session: OTHER, number, status: Done, body: &vec![0; 1 << 20] }
        .write_to(&mut payload);
    let frame = quorate_wire::Frame { kind: quorate_wire::FrameKind::Replies, payload: payload.into() };
    let weak = frame.payload.clone();
    hand.frame_from(0, frame);
    assert!(weak.is_unique(), "the frame is not kept alive");
    hand.done(1, 1, b"yes");
    hand.replied(1, b"yes");
}

#[test]
fn what_one_member_makes_us_keep_is_bounded() {
    let mut limited = config(3);
    limited.queue_bytes_max = 100_000;
    let mut hand = Hand::with(4, limited);
    let handle = hand.opened(1000, SESSION);
    for call in 1..=100 {
        hand.call(call, handle, b"x");
    }
    let large = vec![7; 30_000];
    for number in 1..=100 {
        hand.done(3, number, &large);
    }
    // The first three of its answers were kept, and no more.
    for number in 1..=100 {
        hand.done(2, number, &large[..]);
        assert_eq!(hand.ended(number).is_some(), number <= 3, "{number}");
        if number == 4 {
            break;
        }
    }
    for number in 4..=100 {
        hand.done(0, number, b"yes");
        hand.done(1, number, b"yes");
        hand.replied(number, b"yes");
    }
}

// Who gets what.

#[test]
fn all_members_get_the_same_bytes_at_once() {
    let (mut hand, handle) = session();
    for call in 1..=100 {
        hand.call(call, handle, b"12345678");
    }
    let got = hand.take();
    assert_eq!(got[0].len(), 100);
    assert!(got.iter().all(|other| *other == got[0]));
}

#[test]
fn a_dead_member_costs_nothing() {
    let (mut hand, handle) = session();
    hand.lose(2);
    hand.call(1, handle, b"x");
    assert_eq!(hand.numbers(), [vec![1], vec![1], vec![], vec![1]]);
    let asked = hand.now;
    hand.done(0, 1, b"yes");
    hand.done(1, 1, b"yes");
    hand.replied(1, b"yes");
    assert_eq!(hand.now, asked, "and no time");
}

#[test]
fn who_comes_back_gets_what_is_unanswered_and_nobody_else_does() {
    let (mut hand, handle) = session();
    hand.lose(2);
    for call in 1..=3 {
        hand.call(call, handle, b"x");
    }
    let first = hand.take();
    for replica in [0, 1] {
        hand.done(replica, 1, b"yes");
    }
    hand.back(2);
    let got = hand.take();
    assert_eq!([got[0].len(), got[1].len(), got[3].len()], [0, 0, 0]);
    assert_eq!(got[2], first[0][1..], "the same bytes, though the first is answered by now");
    hand.call(4, handle, b"x");
    assert_eq!(hand.numbers(), [vec![4], vec![4], vec![4], vec![4]]);
}

#[test]
fn an_opening_goes_to_who_comes_back_too() {
    let mut hand = Hand::new();
    hand.lose(2);
    let nonce = open(&mut hand, 1);
    hand.take();
    hand.back(2);
    assert_eq!(hand.numbers(), [vec![], vec![], vec![nonce], vec![]]);
}

#[test]
fn who_takes_nothing_is_passed_over_and_gets_the_rest_later() {
    let mut limited = config(3);
    limited.connection_bytes_max = 3000;
    limited.frame_bytes_max = 2000;
    let mut hand = Hand::with(4, limited);
    let handle = hand.opened(1000, SESSION);
    hand.stuck.insert(1);
    for call in 1..=20 {
        hand.call(call, handle, &[call as u8; 500]);
    }
    let got = hand.take();
    assert_eq!([got[0].len(), got[2].len(), got[3].len()], [20, 20, 20]);
    let stopped = got[1].len();
    assert!((1..20).contains(&stopped), "{stopped} of 20");
    for number in 1..=10 {
        hand.done(0, number, b"yes");
        hand.done(2, number, b"yes");
    }
    hand.drained(1);
    let rest = hand.take();
    assert_eq!(rest[1], got[0][stopped.max(10)..], "in order, without what is answered");
    assert!(rest[0].is_empty() && rest[2].is_empty());
}

#[test]
fn who_is_slow_gets_something_of_each_session_in_turn() {
    let mut limited = config(3);
    limited.connection_bytes_max = 1500;
    limited.frame_bytes_max = 2100;
    let mut hand = Hand::with(4, limited);
    let handles = [hand.opened(1000, SESSION), hand.opened(1001, OTHER)];
    hand.stuck.insert(1);
    hand.call(99, handles[0], &[1; 2000]);
    hand.take();
    for call in 1..=20 {
        hand.call(call, handles[call as usize % 2], &[1; 500]);
    }
    let conn = hand.conn(1).expect("connected");
    let mut seen = Vec::new();
    for _ in 0..3 {
        hand.input(Input::Written { conn, bytes: usize::MAX });
        let got = hand.take().remove(1);
        assert!((1..8).contains(&got.len()), "{} at once", got.len());
        seen.extend(got.iter().map(|got| (got.session, got.number)));
    }
    for session in [SESSION, OTHER] {
        let numbers: Vec<u64> =
            seen.iter().filter(|(of, _)| *of == session).map(|(_, number)| *number).collect();
        assert!(!numbers.is_empty() && numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{seen:?}");
    }
}

#[test]
fn while_nobody_has_room_everything_waits() {
    let mut limited = config(3);
    limited.connection_bytes_max = 1000;
    let mut hand = Hand::with(4, limited);
    let handle = hand.opened(1000, SESSION);
    hand.stuck.extend(0..4);
    for call in 1..=20 {
        hand.call(call, handle, &[1; 500]);
    }
    let sent = hand.numbers();
    assert!(sent.iter().all(|numbers| *numbers == sent[0] && numbers.len() < 20), "{sent:?}");
    (0..4).for_each(|replica| hand.drained(replica));
    let rest = hand.numbers();
    for replica in 0..4 {
        assert_eq!([&sent[replica][..], &rest[replica][..]].concat(), (1..=20).collect::<Vec<u64>>());
    }
}

#[test]
fn what_is_unanswered_is_sent_to_all_again_after_a_while() {
    let (mut hand, handle) = session();
    hand.call(1, handle, b"x");
    let first = hand.take();
    hand.advance(Span::from_millis(1900));
    assert_eq!(hand.numbers().concat().len(), 0, "and before that nobody is asked anything");
    hand.advance(Span::from_millis(200));
    assert_eq!(hand.take(), first);
}

#[test]
fn many_sessions_share_a_frame_and_each_is_caught_up() {
    let (mut hand, handle) = session();
    let other = hand.opened(1001, OTHER);
    hand.lose(3);
    hand.call(1, handle, b"a");
    hand.call(2, other, b"b");
    hand.call(3, handle, b"c");
    let sent = hand.take();
    hand.back(3);
    let mut caught: Vec<Got> = hand.take().remove(3);
    caught.sort_by_key(|got| (got.session, got.number));
    let mut sent = sent[0].clone();
    sent.sort_by_key(|got| (got.session, got.number));
    assert_eq!(caught, sent);
}

// Refusals.

#[test]
fn one_refusal_means_nothing() {
    let (mut hand, handle) = session();
    for status in [Overloaded, DiskFull, TooLarge, Forbidden, ExpectedNumber, ReplyForgotten, SessionExpired]
    {
        hand.call(1, handle, b"x");
        let number = hand.take()[0][0].number;
        hand.refuse(3, number, status);
        hand.refuse(3, number, status);
        hand.advance(Span::from_millis(500));
        assert_eq!(hand.ended(1), None, "{status:?}");
        // What looks like an answer makes others answer, too (`repliers.rs`).
        let again = hand.numbers().concat().len();
        assert!(again == 0 || status == ReplyForgotten, "{status:?}: nothing is sent again for it");
        hand.done(0, number, b"yes");
        hand.done(1, number, b"yes");
        hand.replied(1, b"yes");
    }
}

#[test]
fn when_enough_have_no_room_it_is_sent_to_all_again_soon() {
    let (mut hand, handle) = session();
    hand.call(1, handle, b"x");
    hand.take();
    hand.refuse(0, 1, Overloaded);
    hand.refuse(1, 1, DiskFull);
    hand.advance(Span::from_millis(100));
    assert_eq!(hand.numbers().concat().len(), 0, "they do not say the same");
    hand.refuse(3, 1, Overloaded);
    hand.advance(Span::from_millis(100));
    assert_eq!(hand.numbers(), [vec![1], vec![1], vec![1], vec![1]]);
    // What took effect is forgotten: the next time enough must say it again.
    hand.refuse(2, 1, Overloaded);
    hand.advance(Span::from_millis(100));
    assert_eq!(hand.numbers().concat().len(), 0);
    hand.done(2, 1, b"yes");
    hand.done(1, 1, b"yes");
    hand.replied(1, b"yes");
}

#[test]
fn after_a_refusal_for_want_of_room_the_answers_are_acknowledged() {
    let (mut hand, handle) = session();
    hand.call(1, handle, b"a");
    hand.call(2, handle, b"b");
    hand.call(3, handle, b"c");
    let lowest = |hand: &mut Hand| hand.take()[0].iter().map(|got| got.lowest).collect::<Vec<_>>();
    assert_eq!(lowest(&mut hand), [1, 1, 1]);
    for replica in [0, 1] {
        hand.done(replica, 1, b"yes");
    }
    hand.advance(Span::from_millis(2100));
    assert_eq!(lowest(&mut hand), [1, 1], "the same bytes as before");
    for replica in [0, 1] {
        hand.say(replica, SESSION, 2, Overloaded, b"not kept");
    }
    hand.advance(Span::from_millis(100));
    assert_eq!(lowest(&mut hand), [1, 1], "other members may have kept the copies that they got");
    for replica in [0, 1] {
        hand.refuse(replica, 2, Overloaded);
    }
    hand.advance(Span::from_millis(100));
    assert_eq!(lowest(&mut hand), [2, 1], "or there would never be room; the other one is as it was");
}

#[test]
fn a_gap_that_enough_see_is_filled() {
    let (mut hand, handle) = session();
    (1..=3).for_each(|call| hand.call(call, handle, b"x"));
    hand.take();
    let said = |hand: &mut Hand, replica: usize, number: u64, wanted: u64| {
        hand.say(replica, SESSION, number, ExpectedNumber, &wanted.to_le_bytes());
    };
    said(&mut hand, 3, 3, 1);
    said(&mut hand, 2, 3, 2);
    assert_eq!(hand.numbers().concat().len(), 0);
    said(&mut hand, 0, 3, 2);
    assert_eq!(hand.numbers(), [vec![2, 3], vec![2, 3], vec![2, 3], vec![2, 3]]);
}

#[test]
fn a_caller_who_gives_up_is_told_that_the_outcome_is_unknown() {
    let (mut hand, handle) = session();
    let soon = hand.now.plus(Span::from_millis(50));
    hand.call_until(1, handle, b"x", Some(soon));
    hand.call(2, handle, b"y");
    let sent = hand.take();
    for replica in 0..4 {
        hand.refuse(replica, 1, Overloaded);
    }
    hand.advance(Span::from_millis(100));
    let error = hand.ended(1).expect("late").expect_err("late");
    assert!(matches!(error, Error::Overloaded { outcome_unknown: true }), "{error}");
    // It keeps its number and its body: somebody may have taken it.
    let again = hand.take();
    assert_eq!((again[0][0].number, &again[0][0].body), (1, &sent[0][0].body));
    for number in [1, 2] {
        hand.done(0, number, b"ran");
        hand.done(1, number, b"ran");
    }
    hand.replied(2, b"ran");
}

#[test]
fn what_was_sent_to_nobody_did_not_run() {
    let (mut hand, handle) = session();
    (0..4).for_each(|replica| hand.lose(replica));
    let soon = hand.now.plus(Span::from_millis(50));
    hand.call_until(1, handle, b"x", Some(soon));
    hand.advance(Span::from_millis(100));
    let error = hand.ended(1).expect("late").expect_err("late");
    assert!(matches!(&error, Error::DeadlineExceeded { outcome_unknown: false, .. }), "{error}");
    assert!(error.to_string().contains("0 of 4 replicas are connected, 2 equal"), "{error}");
    hand.back(0);
    assert_eq!(hand.numbers().concat().len(), 0, "and never will");
}

#[test]
fn what_enough_will_never_take_makes_room_for_an_empty_one() {
    for (status, text) in [(TooLarge, &b"not executed: over the size limit"[..]), (Forbidden, b"")] {
        for (answer, unknown) in [(list(&[]), false), (list(&[b"ran"]), true)] {
            let (mut hand, handle) = session();
            hand.call(1, handle, b"x");
            hand.call(2, handle, b"y");
            hand.take();
            hand.say(3, SESSION, 1, status, text);
            assert_eq!(hand.numbers().concat().len(), 0);
            hand.say(0, SESSION, 1, status, text);
            let kinds: Vec<_> = hand.take()[2].iter().map(|got| (got.number, got.kind)).collect();
            assert_eq!(kinds, [(1, RequestKind::Empty), (2, RequestKind::Commands)]);
            // The others say the same of what was replaced.
            hand.say(1, SESSION, 1, status, text);
            hand.say(2, SESSION, 1, status, text);
            assert_eq!(hand.ended(1), None, "what ran is not known yet");
            assert_eq!(hand.numbers().concat().len(), 0, "and the empty one is on its way");
            hand.say(1, SESSION, 1, Done, &answer);
            hand.say(2, SESSION, 1, Done, &answer);
            let error = hand.ended(1).expect("answered").expect_err("refused");
            assert_eq!(error.is_outcome_unknown(), unknown, "{error}");
            assert_eq!(matches!(error, Error::Forbidden { .. }), status == Forbidden);
            hand.done(0, 2, b"yes");
            hand.done(1, 2, b"yes");
            hand.replied(2, b"yes");
        }
    }
}

#[test]
fn replies_that_are_too_large_are_told_as_unknown() {
    let (mut hand, handle) = session();
    hand.call(1, handle, b"x");
    hand.say(0, SESSION, 1, TooLarge, b"executed, but its replies are over a limit");
    hand.say(2, SESSION, 1, TooLarge, b"executed, but its replies are over a limit");
    let error = hand.ended(1).expect("answered").expect_err("too large");
    assert!(matches!(error, Error::TooLarge { outcome_unknown: true, .. }), "{error}");
    assert_eq!(hand.client.waiting(), (0, 0));
}

// Sessions.

#[test]
fn a_liar_names_another_session() {
    let mut hand = Hand::new();
    let nonce = open(&mut hand, 1);
    hand.say(3, OTHER, nonce, SessionOpened, b"");
    hand.say(0, SESSION, nonce, SessionOpened, b"");
    assert_eq!(hand.ended(1), None);
    hand.say(2, SESSION, nonce, SessionOpened, b"");
    let Some(Ok(Completion::Opened(handle, _))) = hand.ended(1) else { panic!("opened") };
    hand.take();
    hand.call(2, handle, b"x");
    assert_eq!(hand.take()[3][0].session, SESSION);
}

#[test]
fn an_opening_that_came_too_late_is_answered_anew() {
    let mut hand = Hand::new();
    let nonce = open(&mut hand, 1);
    hand.say(0, OTHER, nonce, SessionOpened, b"");
    // That one expired before anybody else heard of it.
    hand.say(1, SESSION, nonce, SessionOpened, b"");
    hand.say(0, SESSION, nonce, SessionOpened, b"");
    assert!(matches!(hand.ended(1), Some(Ok(Completion::Opened(..)))));
}

#[test]
fn refusals_to_open_need_two_as_well() {
    let mut hand = Hand::new();
    let nonce = open(&mut hand, 1);
    for status in [SessionLimit, Overloaded, DiskFull] {
        hand.say(3, SessionId::NONE, nonce, status, b"");
    }
    hand.advance(Span::from_millis(100));
    assert_eq!(hand.ended(1), None);
    assert_eq!(hand.numbers()[0], [nonce]);
    hand.say(0, SessionId::NONE, nonce, Overloaded, b"");
    hand.say(1, SessionId::NONE, nonce, Overloaded, b"");
    hand.advance(Span::from_millis(100));
    assert_eq!(hand.numbers(), vec![vec![nonce]; 4], "asked again");
    hand.say(0, SessionId::NONE, nonce, SessionLimit, b"");
    hand.say(1, SessionId::NONE, nonce, SessionLimit, b"");
    assert_eq!(hand.ended(1), Some(Err(Error::SessionLimit)));
}

#[test]
fn a_session_is_over_when_enough_say_so() {
    let (mut hand, handle) = session();
    hand.call(1, handle, b"x");
    hand.call(2, handle, b"y");
    hand.refuse(3, 1, SessionExpired);
    hand.refuse(3, 2, SessionExpired);
    assert_eq!((hand.ended(1), hand.ended(2)), (None, None));
    hand.refuse(0, 2, SessionExpired);
    for call in [1, 2] {
        assert_eq!(hand.ended(call), Some(Err(Error::SessionExpired { outcome_unknown: true })));
    }
    hand.call(3, handle, b"z");
    assert_eq!(hand.ended(3), Some(Err(Error::SessionExpired { outcome_unknown: false })));
}

#[test]
fn a_session_that_enough_saw_closed_is_closed() {
    for last in [Done, SessionExpired] {
        let (mut hand, session) = session();
        hand.input(Input::Close { call: Some(CallId(1)), session, deadline: None });
        hand.say(3, SESSION, 1, Done, &list(&[]));
        hand.say(0, SESSION, 1, SessionExpired, b"");
        assert_eq!(hand.ended(1), None);
        let body = if last == Done { list(&[]) } else { vec![] };
        hand.say(1, SESSION, 1, last, &body);
        assert_eq!(hand.ended(1), Some(Ok(Completion::Closed)));
    }
}

// Words that nobody's alone is enough for.

#[test]
fn nobody_alone_names_the_leader() {
    let mut hand = Hand::new();
    assert_eq!(hand.client.leader(), Some(ReplicaId::new(1)));
    let notice = |view, leader| {
        many::frame(&LeaderNotice { view: View::new(view), leader: Some(ReplicaId::new(leader)) }.frame())
    };
    hand.frame_from(3, notice(1 << 60, 4));
    assert_eq!(hand.client.leader(), Some(ReplicaId::new(1)));
    hand.frame_from(1, notice(2, 2));
    hand.frame_from(2, notice(2, 2));
    assert_eq!(hand.client.leader(), Some(ReplicaId::new(2)));
}

#[test]
fn nobody_alone_says_how_far_the_cluster_is() {
    let mut hand = Hand::new();
    hand.say(3, SessionId::NONE, u64::MAX, Position, b"");
    assert_eq!(hand.client.newest(), Seq::ZERO);
    hand.say(0, SessionId::NONE, 40, Position, b"");
    hand.say(1, SessionId::NONE, 30, Position, b"");
    assert_eq!(hand.client.newest(), Seq::new(40), "two say that it is at least there");
}

#[test]
fn nobody_alone_decides_the_cluster_or_the_members() {
    let mut hand = Hand::unconnected(4, config(3));
    hand.dead.extend(1..4);
    hand.cluster = 666;
    hand.advance(Span::from_millis(10));
    hand.cluster = 9;
    (1..4).for_each(|replica| hand.back(replica));
    assert!((0..4).all(|replica| hand.conn(replica).is_some()));
    let member = |replica| quorate_wire::Member {
        replica: ReplicaId::new(replica),
        role: quorate_wire::MemberRole::Voter,
        address: "evil:1".into(),
        incarnation: quorate_types::Incarnation::new(1),
        life: 1,
        key: None,
    };
    let members = quorate_wire::Membership::new(quorate_types::MembershipId::new(9), vec![member(9)]);
    let members = quorate_wire::Memberships::one(members.expect("a membership"));
    hand.frame_from(0, many::frame(&quorate_wire::members_frame(&members)));
    assert_eq!(hand.client.known().count(), 4);
}

#[test]
fn only_so_many_refusals_that_nothing_can_count_any_more_are_an_answer() {
    let mut hand = Hand::unconnected(4, config(3));
    hand.refusing.extend([2, 3]);
    hand.dead.extend([0, 1]);
    hand.advance(Span::from_millis(10));
    hand.input(Input::Open { call: CallId(1), deadline: None });
    hand.read(2, ReadConsistency::Strong, None, None);
    hand.read(3, ReadConsistency::Weak, Some(1), None);
    hand.advance(Span::from_secs(2));
    assert_eq!([hand.ended(1), hand.ended(2), hand.ended(3)], [None, None, None]);
    hand.refusing.insert(1);
    hand.dead.remove(&1);
    hand.advance(Span::from_secs(2));
    for call in 1..=3 {
        assert!(matches!(hand.ended(call), Some(Err(Error::Refused { .. }))), "{call}");
    }
    assert_eq!(hand.client.waiting(), (0, 0));
}

// Ordered reads.

/// The nonce of the session for reads, as replicas got it.
fn reads_opening(hand: &mut Hand) -> u64 {
    let got = hand.take();
    assert_eq!(got[0].len(), 1);
    assert!(got.iter().all(|other| *other == got[0]));
    assert_eq!(got[0][0].kind, RequestKind::OpenSession);
    got[0][0].number
}

fn confirm(hand: &mut Hand, nonce: u64, session: SessionId) {
    hand.say(0, session, nonce, SessionOpened, b"");
    hand.say(1, session, nonce, SessionOpened, b"");
}

fn read_body(hand: &mut Hand, call: u64) -> (Seq, Vec<u8>) {
    match hand.ended(call) {
        Some(Ok(Completion::Read { seq, body })) => (seq, body.to_vec()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn reads_are_ordered_in_a_session_of_their_own() {
    let mut hand = Hand::new();
    hand.say(0, SessionId::NONE, 40, Position, b"");
    hand.say(1, SessionId::NONE, 40, Position, b"");
    for (call, consistency) in
        [(1, ReadConsistency::Strong), (2, ReadConsistency::Session), (3, ReadConsistency::Weak)]
    {
        hand.read(call, consistency, None, None);
    }
    let nonce = reads_opening(&mut hand);
    confirm(&mut hand, nonce, SESSION);
    let got = hand.take();
    assert!(got.iter().all(|other| *other == got[0]));
    let asked: Vec<_> = got[0].iter().map(|got| (got.number, got.kind, &got.body[..])).collect();
    assert_eq!(asked, [1, 2, 3].map(|number| (number, RequestKind::Query, &b"query"[..])));
    for number in 1..=3 {
        hand.done(3, number, b"lie");
        hand.done(2, number, b"answer");
        assert_eq!(hand.ended(number), None);
        hand.done(1, number, b"answer");
        assert_eq!(read_body(&mut hand, number), (Seq::new(40), b"answer".to_vec()));
    }
    hand.read(4, ReadConsistency::Strong, None, None);
    assert_eq!(hand.numbers()[0], [4], "the same session");
}

#[test]
fn reads_are_asked_again_when_their_session_expired() {
    let mut hand = Hand::new();
    hand.say(0, SessionId::NONE, 40, Position, b"");
    hand.say(1, SessionId::NONE, 40, Position, b"");
    hand.read(1, ReadConsistency::Strong, None, None);
    hand.read(2, ReadConsistency::Strong, None, None);
    let nonce = reads_opening(&mut hand);
    confirm(&mut hand, nonce, SESSION);
    hand.take();
    hand.done(0, 1, b"first");
    hand.done(1, 1, b"first");
    assert_eq!(read_body(&mut hand, 1).1, b"first");
    hand.refuse(0, 2, SessionExpired);
    hand.refuse(2, 2, SessionExpired);
    let again = reads_opening(&mut hand);
    assert_ne!(again, nonce);
    confirm(&mut hand, again, OTHER);
    assert_eq!(hand.take()[1].iter().map(|got| (got.session, got.number)).collect::<Vec<_>>(), [(OTHER, 1)]);
    for replica in [2, 3] {
        hand.say(replica, OTHER, 1, Done, &list(&[b"second"]));
    }
    assert_eq!(read_body(&mut hand, 2), (Seq::new(40), b"second".to_vec()));
    assert_eq!(hand.client.waiting(), (0, 0));
}

#[test]
fn a_session_for_reads_that_is_not_used_is_not_kept_alive() {
    let mut hand = Hand::new();
    hand.read(1, ReadConsistency::Strong, None, None);
    let nonce = reads_opening(&mut hand);
    confirm(&mut hand, nonce, SESSION);
    hand.done(0, 1, b"a");
    hand.done(1, 1, b"a");
    hand.take();
    hand.advance(Span::from_secs(55));
    assert_eq!(hand.numbers().concat().len(), 0);
    hand.read(2, ReadConsistency::Strong, None, None);
    assert_ne!(reads_opening(&mut hand), nonce, "it may be over by now");
}

#[test]
fn the_session_for_reads_is_closed_at_the_end() {
    let mut hand = Hand::new();
    hand.read(1, ReadConsistency::Strong, None, None);
    let nonce = reads_opening(&mut hand);
    confirm(&mut hand, nonce, SESSION);
    hand.done(0, 1, b"a");
    hand.done(1, 1, b"a");
    hand.take();
    hand.input(Input::EndReads);
    assert_eq!(hand.take()[0].iter().map(|got| got.kind).collect::<Vec<_>>(), [RequestKind::CloseSession]);
    hand.say(0, SESSION, 2, Done, &list(&[]));
    hand.say(1, SESSION, 2, Done, &list(&[]));
    assert_eq!(hand.client.waiting(), (0, 0));
}

#[test]
fn a_late_read_changed_nothing() {
    let mut hand = Hand::new();
    let soon = hand.now.plus(Span::from_millis(50));
    hand.read(1, ReadConsistency::Strong, None, Some(soon));
    let nonce = reads_opening(&mut hand);
    hand.advance(Span::from_millis(60));
    assert!(matches!(hand.ended(1), Some(Err(Error::DeadlineExceeded { outcome_unknown: false, .. }))));
    confirm(&mut hand, nonce, SESSION);
    assert_eq!(hand.numbers().concat().len(), 0, "nobody waits for it");
    let soon = hand.now.plus(Span::from_millis(50));
    hand.read(2, ReadConsistency::Strong, None, Some(soon));
    assert_eq!(hand.numbers()[0], [1]);
    hand.advance(Span::from_millis(60));
    assert!(matches!(hand.ended(2), Some(Err(Error::DeadlineExceeded { outcome_unknown: false, .. }))));
    hand.input(Input::Stop);
}

#[test]
fn a_read_that_enough_refuse_for_good_ends_at_once() {
    for (status, text) in [(TooLarge, &b"not executed: over the size limit"[..]), (Forbidden, b"")] {
        let mut hand = Hand::new();
        hand.read(1, ReadConsistency::Strong, None, None);
        let nonce = reads_opening(&mut hand);
        confirm(&mut hand, nonce, SESSION);
        hand.take();
        hand.say(0, SESSION, 1, status, text);
        hand.say(1, SESSION, 1, status, text);
        let error = hand.ended(1).expect("ended").expect_err("refused");
        assert!(!error.is_outcome_unknown(), "{error}");
        assert_eq!(hand.take()[3][0].kind, RequestKind::Empty, "its number is used");
    }
    let mut hand = Hand::new();
    hand.read(1, ReadConsistency::Strong, None, None);
    let nonce = reads_opening(&mut hand);
    hand.say(0, SessionId::NONE, nonce, SessionLimit, b"");
    hand.say(1, SessionId::NONE, nonce, SessionLimit, b"");
    assert_eq!(hand.ended(1), Some(Err(Error::SessionLimit)));
    assert_eq!(hand.client.waiting(), (0, 0));
}

#[test]
fn an_answer_that_is_too_large_is_told() {
    let mut hand = Hand::new();
    hand.read(1, ReadConsistency::Strong, None, None);
    let nonce = reads_opening(&mut hand);
    confirm(&mut hand, nonce, SESSION);
    hand.say(0, SESSION, 1, TooLarge, b"executed, but");
    hand.say(1, SESSION, 1, TooLarge, b"executed, but");
    assert!(matches!(hand.ended(1), Some(Err(Error::TooLarge { outcome_unknown: false, .. }))));
}

#[test]
fn a_weak_read_of_one_replica_is_its_own_word() {
    let mut hand = Hand::new();
    hand.read(1, ReadConsistency::Weak, Some(3), None);
    assert_eq!(hand.numbers().concat().len(), 0, "nothing is ordered");
    let read = hand.reads[2][0];
    let mut payload = Vec::new();
    quorate_wire::read_reply_header(&mut payload, read, Seq::new(77), quorate_wire::ReadStatus::Done, 1);
    payload.push(b'!');
    hand.frame_from(
        2,
        quorate_wire::Frame { kind: quorate_wire::FrameKind::ReadReplies, payload: payload.into() },
    );
    assert_eq!(read_body(&mut hand, 1), (Seq::new(77), b"!".to_vec()));
    assert_eq!(hand.client.newest(), Seq::ZERO, "nobody else believes it");
    hand.read(2, ReadConsistency::Strong, Some(3), None);
    reads_opening(&mut hand);
}

#[test]
fn stopping_tells_all() {
    let (mut hand, handle) = session();
    hand.call(1, handle, b"x");
    hand.read(2, ReadConsistency::Strong, None, None);
    hand.done(3, 1, b"lie");
    hand.input(Input::Stop);
    assert_eq!(hand.ended(1), Some(Err(Error::Stopped { outcome_unknown: true })));
    assert_eq!(hand.ended(2), Some(Err(Error::Stopped { outcome_unknown: false })));
    assert_eq!(hand.client.waiting(), (0, 0));
}
