//! What is said of openings, how often, and when there is enough of it. Whole clusters are in check/sim.

use super::super::Vouched;
use super::super::heard::{HeardLimits, Owner};
use super::super::tests::{LIMITS, vouched};
use super::*;
use quorate_auth::RequestChecks;
use quorate_types::{ClusterId, ReplicaId, SessionId, SessionKey};
use quorate_wire::{RequestHeader, RequestProof, write_opening};

const ALICE: ClientId = ClientId::new(7);

fn intake() -> Vouched {
    let limits = HeardLimits { bytes_max: 1 << 20, client_bytes_max: 1 << 20, ..LIMITS };
    vouched(ClusterId::new(1), limits, RequestChecks::Nothing)
}

/// This many members say that they heard this.
fn so_many(intake: &mut Vouched, now: Time, bytes: &[u8], members: usize) {
    if members >= intake.one_honest() && !intake.is_opened(bytes) {
        intake.openings.told(now, bytes);
    }
}

fn at(millis: u64) -> Time {
    Time::ZERO.plus(Span::from_millis(millis))
}

fn request(client: ClientId, nonce: u64, key: Option<SessionKey>) -> Bytes {
    let (body, number) = (write_opening(client, key), RequestNumber::new(nonce));
    let proof = if key.is_some() { RequestProof::Signature } else { RequestProof::None };
    let (kind, len) = (RequestKind::OpenSession, body.len() as u32);
    let header =
        RequestHeader { session: SessionId::NONE, number, lowest_unanswered: number, kind, len, proof };
    let mut bytes = header.bytes().to_vec();
    bytes.extend_from_slice(&body);
    bytes.resize(bytes.len() + proof.byte_len(), 7);
    Bytes::from(bytes)
}

fn keyed(client: ClientId, nonce: u64) -> Bytes {
    request(client, nonce, Some(SessionKey::new([1; 32])))
}

fn hear(intake: &mut Vouched, now: Time, bytes: &Bytes) {
    let (header, body, _) = Requests::new(bytes).flatten().next().unwrap();
    let (client, _) = read_opening(body);
    assert!(intake.heard.hear(now, Owner::Open(client), &header, bytes.clone()));
    intake.openings.hear(now, &intake.heard, bytes);
}

/// The nonces that are said at the end of a turn.
fn said(intake: &mut Vouched) -> Vec<u64> {
    let saying = std::mem::take(&mut intake.openings.saying);
    Requests::new(&saying).flatten().map(|(header, ..)| header.number.number()).collect()
}

#[test]
fn two_others_and_itself_are_enough_and_fewer_are_not() {
    let mut intake = intake();
    let (bytes, plain) = (keyed(ALICE, 1), request(ALICE, 2, None));
    assert!(intake.is_everywhere(&plain), "without a key nobody asks for that");
    hear(&mut intake, at(0), &bytes);
    assert_eq!(said(&mut intake), [1]);
    for (member, everywhere) in [(1, false), (2, true), (3, true)] {
        assert!(!intake.is_everywhere(&bytes));
        let count = intake.heard.told(at(0), ReplicaId::new(member), &bytes);
        so_many(&mut intake, at(1), &bytes, count);
        assert_eq!(intake.is_everywhere(&bytes), everywhere, "r{member}");
        if everywhere {
            break;
        }
    }
    assert_eq!(said(&mut intake), [], "once");
    intake.heard.opened(ALICE, RequestNumber::new(1), SessionId { index: 0, generation: 1 });
    intake.openings.opened(ALICE, RequestNumber::new(1));
    assert!(intake.is_opened(&bytes) && !intake.is_opened(&plain));
    so_many(&mut intake, at(2), &bytes, 3);
    assert_eq!(said(&mut intake), [], "it is over");
}

#[test]
fn who_did_not_hear_it_says_it_after_enough_others() {
    let mut intake = intake();
    let (bytes, other) = (keyed(ALICE, 1), request(ALICE, 1, Some(SessionKey::new([2; 32]))));
    for (member, told) in [(1, &[][..]), (2, &[1])] {
        let count = intake.heard.told(at(0), ReplicaId::new(member), &bytes);
        so_many(&mut intake, at(0), &bytes, count);
        assert_eq!(said(&mut intake), told);
    }
    assert!(intake.is_everywhere(&bytes));
    so_many(&mut intake, at(5000), &other, 2);
    assert_eq!(said(&mut intake), [], "under one nonce it says one thing only");
    assert!(!intake.is_everywhere(&other));
    for _ in 0..2 {
        so_many(&mut intake, at(5000), &bytes, 2);
    }
    assert_eq!(said(&mut intake), [1], "again after a while, once");
}

/// A client with many openings does not fill what members remember of each other.
#[test]
fn of_each_client_few_are_said_at_a_time() {
    let mut intake = intake();
    let bob = ClientId::new(8);
    for nonce in 1..=70 {
        hear(&mut intake, at(0), &keyed(ALICE, nonce));
        hear(&mut intake, at(0), &keyed(bob, 100 + nonce));
    }
    let all: Vec<u64> = (1..=64).flat_map(|nonce| [nonce, 100 + nonce]).collect();
    assert_eq!(said(&mut intake), all);
    for nonce in [1, 2] {
        intake.heard.opened(ALICE, RequestNumber::new(nonce), SessionId { index: 0, generation: 1 });
        intake.openings.opened(ALICE, RequestNumber::new(nonce));
    }
    intake.openings.say_what_waits(at(50), &intake.heard);
    assert_eq!(said(&mut intake), [65, 66]);
    intake.openings.say_what_waits(at(1040), &intake.heard);
    assert_eq!(said(&mut intake).len(), 62 + 64, "connections break");
    intake.openings.say_what_waits(at(40_000), &intake.heard);
    intake.heard.tidy(at(40_000), |_| false, CLAIM_TIME);
    intake.openings.saying.clear();
    intake.openings.say_what_waits(at(80_000), &intake.heard);
    assert!(intake.openings.said.is_empty(), "nobody waits for ever");
}
