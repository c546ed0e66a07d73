//! What is answered where execution is, and what goes on to the lane that admits.

use super::*;
use quorate_types::ItemsBuilder;
use quorate_wire::{Reply, RequestHeader, RequestProof, write_request};

const SESSION: SessionId = SessionId { index: 3, generation: 1 };
const OTHER: SessionId = SessionId { index: 4, generation: 1 };

fn request(session: SessionId, number: u64, command: &str) -> Vec<u8> {
    let mut commands = ItemsBuilder::new();
    commands.push(command.as_bytes());
    let mut out = Vec::new();
    write_request(&mut out, session, RequestNumber::new(number), RequestNumber::FIRST, &commands);
    out
}

fn opening() -> Vec<u8> {
    let mut bytes = Vec::new();
    let header = RequestHeader {
        session: SessionId::NONE,
        number: RequestNumber::new(5),
        lowest_unanswered: RequestNumber::ZERO,
        kind: RequestKind::OpenSession,
        len: 8,
        proof: RequestProof::None,
    };
    header.write_to(&mut bytes);
    bytes.extend_from_slice(&9u64.to_le_bytes());
    bytes
}

fn terms(settled: bool, room: Room) -> Terms {
    Terms { in_flight: 0, room, room_soon: false, settled, forbids: settled, answer_bytes_max: 4096 }
}

/// Session 3 has executed 7, of which 5 is forgotten; session 4 is unknown. Commands that begin with "no" are forbidden, those that begin
/// with "free" free room.
fn sifted(requests: &[Vec<u8>], terms: &Terms) -> (Vec<Sifted>, Vec<(u64, ReplyStatus)>) {
    sifted_beside(requests, terms, (0, 1 << 20))
}

fn sifted_beside(
    requests: &[Vec<u8>],
    terms: &Terms,
    queue: (usize, usize),
) -> (Vec<Sifted>, Vec<(u64, ReplyStatus)>) {
    let mut answer = Vec::new();
    let begins = |body: &[u8], with: &[u8]| body.windows(with.len()).any(|part| part == with);
    let executed = |session, number: RequestNumber| match number.number() {
        _ if session == OTHER => Executed::NoSession,
        0..=5 => Executed::Forgotten,
        6 | 7 => Executed::Done(ReplyStatus::Done, b"kept"),
        _ => Executed::Not(RequestNumber::new(7)),
    };
    let kept = sift(
        &Bytes::from(requests.concat()),
        (terms, queue),
        executed,
        |body| !begins(body, b"no"),
        |_, body| begins(body, b"free"),
        &mut answer,
    );
    let answered = Reply::walk(&answer).map(|reply| reply.expect("our own bytes"));
    (kept, answered.map(|reply| (reply.number.number(), reply.status)).collect())
}

#[test]
fn what_was_executed_is_answered_and_the_rest_goes_on() {
    let all = [request(SESSION, 5, "a"), request(SESSION, 7, "b"), request(SESSION, 8, "c"), opening()];
    let (kept, answered) = sifted(&all, &terms(true, Room::Data));
    assert_eq!(answered, [(5, ReplyStatus::ReplyForgotten), (7, ReplyStatus::Done)]);
    let last = BTreeMap::from([(SESSION, RequestNumber::new(7))]);
    let requests = Bytes::from([request(SESSION, 8, "c"), opening()].concat());
    assert_eq!(kept, [Sifted { requests, last, frees: false }]);
}

#[test]
fn neighbours_stay_in_order_where_something_between_them_is_left_out() {
    let all = [request(SESSION, 8, "a"), request(SESSION, 6, "b"), request(SESSION, 9, "c")];
    let (kept, _) = sifted(&all, &terms(true, Room::Data));
    assert_eq!(kept[0].requests, [request(SESSION, 8, "a"), request(SESSION, 9, "c")].concat());
}

#[test]
fn an_unknown_session_is_over_or_may_still_be_opened() {
    let one = [request(OTHER, 1, "a")];
    let (kept, answered) = sifted(&one, &terms(true, Room::Data));
    assert!(
        kept[0].last.is_empty() && answered.is_empty(),
        "the leader knows whether it decided more: {kept:?}"
    );
    assert_eq!(sifted(&one, &terms(false, Room::Data)), (vec![], vec![]));
}

#[test]
fn what_a_client_may_not_run_goes_nowhere() {
    let one = [request(SESSION, 8, "no")];
    assert_eq!(sifted(&one, &terms(true, Room::Data)), (vec![], vec![(8, ReplyStatus::Forbidden)]));
    assert_eq!(sifted(&one, &terms(false, Room::Data)), (vec![], vec![]), "who knows what became of it");
}

#[test]
fn with_little_room_those_that_free_room_are_named() {
    let all = [request(SESSION, 8, "put"), request(SESSION, 9, "free")];
    let (kept, _) = sifted(&all, &terms(true, Room::Frees));
    let frees: Vec<bool> = kept.iter().map(|kept| kept.frees).collect();
    assert_eq!((frees, &kept[1].requests[..]), (vec![false, true], &request(SESSION, 9, "free")[..]));
    assert_eq!(sifted(&all, &terms(true, Room::Data)).0.len(), 1, "with room nobody asks");
}

#[test]
fn answers_have_a_limit() {
    let all: Vec<Vec<u8>> = (0..500).map(|_| request(SESSION, 7, "b")).collect();
    let (_, answered) = sifted(&all, &terms(true, Room::Data));
    assert!(!answered.is_empty() && answered.len() < 200, "{}", answered.len());
}

#[test]
fn what_is_on_its_way_has_a_limit() {
    let all = [request(SESSION, 7, "a"), request(SESSION, 8, "b"), request(SESSION, 9, "c")];
    let (kept, answered) = sifted_beside(&all, &terms(true, Room::Data), (9, 10));
    assert_eq!(kept[0].requests, all[1], "there may be one more");
    assert_eq!(answered, [(7, ReplyStatus::Done), (9, ReplyStatus::Overloaded)]);
}
