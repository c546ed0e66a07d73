//! The session's order, repeated requests, sessions that end, and limits of what is under way.

use super::asking::{BANK, ask, rules};
use super::service::Step::{Add, Answer, Ask, Get, Put};
use super::world::{answer, place, reply, with_sessions};
use crate::support::{close, commands, empty, query};
use quorate_execute::{NestedRules, Schedule};
use quorate_types::Span;
use quorate_wire::ReplyStatus;

/// A session's next request waits for the one under way, whatever it is.
pub(crate) fn a_session_keeps_its_order() {
    for schedule in [Schedule::Answered, Schedule::Ring(3)] {
        let (mut replica, sessions) = with_sessions(&NestedRules { schedule, ..rules() }, 2);
        let session = sessions[0];
        let asks = [
            ask(session, 1, &[Ask(BANK), Answer, Put(1)]),
            ask(session, 2, &[Get(1), Ask(BANK), Answer]),
            query(session, 3, 1, &[1]),
            empty(session, 4, 1),
        ];
        let first = replica.run(&place(2, &asks, vec![]));
        assert_eq!((first.ended.len(), first.left.len()), (0, 1), "{schedule:?}");
        let replica = &mut replica.restarted();
        let second = replica.run(&place(3, &[], vec![answer(&first.left[0])]));
        assert_eq!((second.ended.len(), second.left.len()), (1, 1));
        let third = replica.run(&place(4, &[], vec![answer(&second.left[0])]));
        let numbers: Vec<u64> = third.ended.iter().map(|seen| seen.number).collect();
        assert_eq!(numbers, [2, 3, 4]);
        assert!(reply(&third.ended[1]).contains('='), "the query sees what was written before it");
    }
}

#[test]
fn a_session_keeps_its_order_while_requests_are_under_way() {
    a_session_keeps_its_order();
}

/// A request that is repeated while it is under way is answered when it is done, and later from the kept reply.
#[test]
fn a_repeated_request_is_answered_when_it_is_done() {
    let (mut replica, sessions) = with_sessions(&rules(), 1);
    let asks = || ask(sessions[0], 1, &[Add(1), Ask(BANK), Answer]);
    let first = replica.run(&place(2, &[asks()], vec![]));
    let again = replica.run(&place(3, &[asks(), ask(sessions[0], 3, &[])], vec![]));
    assert_eq!(again.ended.len(), 1);
    assert_eq!((again.ended[0].number, again.ended[0].status), (3, ReplyStatus::ExpectedNumber));
    assert_eq!(again.ended[0].body, 2_u64.to_le_bytes(), "the one under way is taken already");
    let done = replica.run(&place(4, &[], vec![answer(&first.left[0])]));
    let kept = replica.run(&place(5, &[asks()], vec![]));
    assert_eq!((done.ended.len(), &done.ended), (1, &kept.ended));
}

/// Several commands of one request run one after the other, each to its end.
#[test]
fn commands_of_a_request_follow_each_other() {
    use super::service::command;
    let (mut replica, sessions) = with_sessions(&rules(), 1);
    let (first, second) = (command(&[Ask(BANK), Answer, Add(1)]), command(&[Get(1), Ask(BANK), Answer]));
    let did = replica.run(&place(2, &[commands(sessions[0], 1, 1, &[&first, &second, &first])], vec![]));
    let did = replica.run(&place(3, &[], vec![answer(&did.left[0])]));
    let mut replica = replica.restarted();
    let did = replica.run(&place(4, &[], vec![answer(&did.left[0])]));
    assert!(did.ended.is_empty());
    let did = replica.run(&place(5, &[], vec![answer(&did.left[0])]));
    assert_eq!(reply(&did.ended[0]).split('|').count(), 3);
}

/// A session lives while a request of it is under way, and for its time afterwards; one that closes waits for its turn.
#[test]
fn sessions_end_after_their_requests() {
    const TTL: u64 = Span::from_secs(60).nanos();
    let rules = NestedRules { patience: Span::from_secs(1000), ..rules() };
    let (mut replica, sessions) = with_sessions(&rules, 2);
    let asks = [
        ask(sessions[0], 1, &[Ask(BANK), Answer]),
        ask(sessions[1], 1, &[Ask(BANK), Answer]),
        close(sessions[1], 2),
    ];
    let first = replica.run(&place(2, &asks, vec![]));
    replica.run(&place(3 * TTL, &[ask(sessions[1], 3, &[Add(1)])], vec![]));
    let mut replica = replica.restarted();
    assert_eq!(replica.executor().session_count(), 2, "they are not idle");
    let done = replica.run(&place(3 * TTL + 9, &[], vec![answer(&first.left[0])]));
    let how: Vec<_> = done.ended.iter().map(|seen| (seen.number, seen.status)).collect();
    let (did, expired) = (ReplyStatus::Done, ReplyStatus::SessionExpired);
    assert_eq!(how, [(1, did), (1, did), (2, did), (3, expired)], "what follows a closing has no session");
    assert_eq!(replica.executor().session_count(), 1);
    replica.run(&place(4 * TTL + 10, &[], vec![]));
    assert_eq!(replica.executor().session_count(), 0);
}

/// While too much is under way no request begins, and those under way have room to end.
#[test]
fn what_is_under_way_is_limited() {
    for limits in
        [NestedRules { requests_max: 2, ..rules() }, NestedRules { journal_bytes_max: 700, ..rules() }]
    {
        let (mut replica, sessions) = with_sessions(&limits, 3);
        let asks: Vec<_> = sessions.iter().map(|session| ask(*session, 1, &[Ask(BANK), Answer])).collect();
        let did = replica.run(&place(2, &asks, vec![]));
        assert_eq!((did.ended.len(), did.ended[0].status), (1, ReplyStatus::Overloaded));
        assert_eq!(replica.run(&place(3, &[], vec![answer(&did.left[0])])).ended.len(), 2);
        let did = replica.run(&place(4, &asks[2..], vec![]));
        assert_eq!((did.ended.len(), did.left.len()), (0, 1));
    }
}
