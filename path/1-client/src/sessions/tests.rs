//! Sessions alone: what is asked, true answers, and time.

use super::{Rules, Sessions, Taken};
use crate::effects::{CallId, Completion, SessionHandle};
use crate::error::Error;
use crate::step::NEVER;
use crate::step::tests::{Desk, ID, ONE, PROBE, list, say};
use crate::votes::KeptAnswers;
use bytes::Bytes;
use quorate_types::{ItemsBuilder, Seq, SessionId};
use quorate_wire::{ReplyStatus, RequestKind};

const FIRST: SessionHandle = SessionHandle { index: 0, generation: 1 };
/// Where a refusal takes nothing back.
const MANY: Rules = Rules { takes_back: 0, ..ONE };

fn sessions(rules: Rules) -> (Desk, Sessions) {
    (Desk::new(), Sessions::new(rules, PROBE, KeptAnswers::new(4, 1 << 20)))
}

fn opened(rules: Rules) -> (Desk, Sessions) {
    let (mut desk, mut sessions) = sessions(rules);
    desk.open(&mut sessions, 1, ID);
    assert_eq!(desk.ended(), [(1, Ok(Completion::Opened(FIRST, ID)))]);
    (desk, sessions)
}

fn call(desk: &mut Desk, sessions: &mut Sessions, call: u64) {
    sessions.call(&mut desk.step(), CallId(call), FIRST, list(b"x"), None, 0);
}

/// Sends what is ready: numbers and kinds.
fn send(desk: &mut Desk, sessions: &mut Sessions) -> Vec<(u64, RequestKind)> {
    let mut sent = Vec::new();
    while let Some(cell) = sessions.next_ready() {
        let session = sessions.at(cell).expect("ready");
        while let Some((number, entry)) = session.next_to_send(8) {
            sent.push((number, entry.kind));
            session.mark_sent(desk.now);
        }
        sessions.sent(&desk.step(), cell);
    }
    sent
}

fn look(desk: &mut Desk, sessions: &mut Sessions) -> bool {
    let step = desk.step();
    let looked = sessions.look(&step, 0).expect("a session");
    sessions.look_on(step.now, looked.due);
    looked.again
}

#[test]
fn calls_are_numbered_sent_and_answered() {
    let (mut desk, mut sessions) = opened(ONE);
    (2..5).for_each(|number| call(&mut desk, &mut sessions, number));
    let commands = RequestKind::Commands;
    assert_eq!(send(&mut desk, &mut sessions), [(1, commands), (2, commands), (3, commands)]);
    assert_eq!(say(&mut sessions, &mut desk, ID, 2, ReplyStatus::Done, &list(b"r")), Taken::Progress);
    assert_eq!(
        say(&mut sessions, &mut desk, ID, 2, ReplyStatus::Done, &list(b"r")),
        Taken::No,
        "it was answered"
    );
    assert_eq!(say(&mut sessions, &mut desk, ID, 4, ReplyStatus::Done, &list(b"r")), Taken::No, "never sent");
    assert_eq!(desk.ended(), [(3, Ok(Completion::Replies(list(b"r"))))]);
    assert_eq!(sessions.check(8), 2);
}

#[test]
fn what_is_silent_is_sent_again_and_what_is_idle_kept_alive() {
    let (mut desk, mut sessions) = opened(ONE);
    call(&mut desk, &mut sessions, 2);
    send(&mut desk, &mut sessions);
    assert_eq!(sessions.deadline(), desk.now.plus(desk.config.resend_after));
    desk.later(2000);
    assert!(look(&mut desk, &mut sessions));
    assert_eq!(send(&mut desk, &mut sessions), [(1, RequestKind::Commands)]);
    say(&mut sessions, &mut desk, ID, 1, ReplyStatus::Done, &list(b"r"));
    desk.later(20_000);
    assert!(!look(&mut desk, &mut sessions));
    assert_eq!(send(&mut desk, &mut sessions), [(2, RequestKind::Empty)]);
}

/// If it sent everything again after each wait, a cluster without room would spend its time on refusing.
#[test]
fn after_a_refusal_fewer_are_under_way_and_answers_make_it_more_again() {
    let (mut desk, mut sessions) = opened(ONE);
    (2..9).for_each(|number| call(&mut desk, &mut sessions, number));
    let numbers = |sent: Vec<(u64, RequestKind)>| sent.iter().map(|(number, _)| *number).collect::<Vec<_>>();
    assert_eq!(numbers(send(&mut desk, &mut sessions)), [1, 2, 3, 4, 5, 6, 7]);
    // There was room for four.
    for number in 5..8 {
        say(&mut sessions, &mut desk, ID, number, ReplyStatus::Overloaded, b"");
    }
    let answer = |desk: &mut Desk, sessions: &mut Sessions, number| {
        say(sessions, desk, ID, number, ReplyStatus::Done, &list(b"r"));
        numbers(send(desk, sessions))
    };
    desk.later(100);
    look(&mut desk, &mut sessions);
    assert!(send(&mut desk, &mut sessions).is_empty(), "twice as many are under way as may be");
    assert!(answer(&mut desk, &mut sessions, 1).is_empty());
    assert_eq!(answer(&mut desk, &mut sessions, 2), [5], "two answers make it three");
    assert_eq!(answer(&mut desk, &mut sessions, 3), [6]);
    assert_eq!(answer(&mut desk, &mut sessions, 4), [7]);
    // Nobody has room for anything: one is tried.
    say(&mut sessions, &mut desk, ID, 5, ReplyStatus::Overloaded, b"");
    desk.later(100);
    look(&mut desk, &mut sessions);
    assert_eq!(numbers(send(&mut desk, &mut sessions)), [5]);
    assert_eq!(answer(&mut desk, &mut sessions, 5), [6, 7]);
}

#[test]
fn a_refusal_takes_back_the_one_copy_that_there_is() {
    for (rules, unknown) in [(ONE, false), (MANY, true)] {
        let (mut desk, mut sessions) = opened(rules);
        let deadline = Some(desk.now.plus(quorate_types::Span::from_millis(5)));
        sessions.call(&mut desk.step(), CallId(2), FIRST, list(b"x"), deadline, 0);
        send(&mut desk, &mut sessions);
        say(&mut sessions, &mut desk, ID, 1, ReplyStatus::Overloaded, b"");
        assert_eq!(send(&mut desk, &mut sessions), [], "it is held");
        desk.later(5);
        assert!(sessions.is_late(desk.now, 0));
        sessions.give_up_late(&mut desk.step(), 0, "why");
        assert_eq!(desk.ended(), [(2, Err(Error::Overloaded { outcome_unknown: unknown }))]);
        look(&mut desk, &mut sessions);
        let kind = if unknown { RequestKind::Commands } else { RequestKind::Empty };
        assert_eq!(send(&mut desk, &mut sessions), [(1, kind)], "its number is used all the same");
    }
}

/// Where order matters, nothing that was asked for later is done once one call was given up.
#[test]
fn a_call_that_is_given_up_ends_a_session_in_order() {
    let (mut desk, mut sessions) = opened(ONE);
    desk.config.in_order = true;
    let deadline = Some(desk.now.plus(quorate_types::Span::from_millis(5)));
    sessions.call(&mut desk.step(), CallId(2), FIRST, list(b"x"), deadline, 0);
    send(&mut desk, &mut sessions);
    say(&mut sessions, &mut desk, ID, 1, ReplyStatus::Overloaded, b"");
    call(&mut desk, &mut sessions, 3);
    desk.later(5);
    sessions.give_up_late(&mut desk.step(), 0, "why");
    let ended = desk.ended();
    assert_eq!(ended[0], (2, Err(Error::Overloaded { outcome_unknown: false })));
    assert!(
        matches!(ended[1..], [(3, Err(Error::SessionBroken { outcome_unknown: false, .. }))]),
        "{ended:?}"
    );
    assert_eq!(send(&mut desk, &mut sessions), [], "not even an empty request takes the number");
    assert_eq!((sessions.check(8), sessions.queued()), (0, 0));
}

#[test]
fn the_number_that_the_cluster_expects_is_sent() {
    let (mut desk, mut sessions) = opened(ONE);
    (2..5).for_each(|number| call(&mut desk, &mut sessions, number));
    send(&mut desk, &mut sessions);
    let expect = |number: u64| number.to_le_bytes();
    assert_eq!(say(&mut sessions, &mut desk, ID, 3, ReplyStatus::ExpectedNumber, &expect(2)), Taken::Yes);
    assert_eq!(send(&mut desk, &mut sessions).len(), 2, "from the second on");
    say(&mut sessions, &mut desk, ID, 3, ReplyStatus::ExpectedNumber, &expect(9));
    let broken = |result: &Result<Completion, Error>| matches!(result, Err(Error::SessionBroken { .. }));
    assert!(desk.ended().iter().all(|(_, result)| broken(result)));
    assert_eq!((sessions.check(8), sessions.queued()), (0, 0));
}

#[test]
fn what_is_unanswered_when_a_session_ends_is_told() {
    let (mut desk, mut sessions) = opened(ONE);
    call(&mut desk, &mut sessions, 2);
    send(&mut desk, &mut sessions);
    call(&mut desk, &mut sessions, 3);
    say(&mut sessions, &mut desk, ID, 1, ReplyStatus::SessionExpired, b"");
    let expired = |outcome_unknown| Err(Error::SessionExpired { outcome_unknown });
    assert_eq!(desk.ended(), [(2, expired(true)), (3, expired(false))]);
    call(&mut desk, &mut sessions, 4);
    assert_eq!(desk.ended(), [(4, expired(false))]);
}

/// Members that will not take a request may have a copy of it: the answer to its number tells what ran.
#[test]
fn the_answer_tells_whether_the_empty_one_ran() {
    let mut nothing = Vec::new();
    ItemsBuilder::new().write_to(&mut nothing);
    for (answer, outcome_unknown) in [(nothing.into(), false), (list(b"ran"), true)] {
        let (mut desk, mut sessions) = opened(MANY);
        call(&mut desk, &mut sessions, 2);
        send(&mut desk, &mut sessions);
        let number = quorate_types::RequestNumber::new(1);
        let refusal =
            quorate_wire::Reply { session: ID, number, status: ReplyStatus::TooLarge, body: b"long" };
        assert_eq!(sessions.declined(&mut desk.step(), 0, &refusal), Taken::Progress);
        assert_eq!(send(&mut desk, &mut sessions), [(1, RequestKind::Empty)]);
        say(&mut sessions, &mut desk, ID, 1, ReplyStatus::Done, &answer);
        let detail = "long".to_owned();
        assert_eq!(desk.ended(), [(2, Err(Error::TooLarge { outcome_unknown, detail }))]);
    }
}

#[test]
fn queries_are_asked_again_in_another_session_when_theirs_ends() {
    let (mut desk, mut sessions) = sessions(ONE);
    let open = |sessions: &mut Sessions, desk: &mut Desk, id: SessionId| {
        let cell = sessions.next_ready().expect("a session for queries");
        let nonce = sessions.at(cell).and_then(super::Session::send_opening).expect("it is opened");
        say(sessions, desk, id, nonce, ReplyStatus::SessionOpened, b"");
        assert_eq!(send(desk, sessions), [(1, RequestKind::Query)]);
    };
    sessions.query(&mut desk.step(), CallId(2), Bytes::from_static(b"?"), NEVER, Seq::new(40));
    open(&mut sessions, &mut desk, ID);
    say(&mut sessions, &mut desk, ID, 1, ReplyStatus::SessionExpired, b"");
    assert_eq!(desk.ended(), [], "nobody is told");
    let other = SessionId { index: 6, generation: 2 };
    open(&mut sessions, &mut desk, other);
    say(&mut sessions, &mut desk, other, 1, ReplyStatus::Done, &list(b"answer"));
    let answer = Completion::Read { seq: Seq::new(40), body: Bytes::from_static(b"answer") };
    assert_eq!(desk.ended(), [(2, Ok(answer))]);
}
