//! What is said of openings, how often, and when there is enough of it. Whole clusters are in check/sim.

use super::super::tests::LIMITS;
use super::super::{Signed, Vouching};
use super::*;
use quorate_admit::{HeardLimits, Owner};
use quorate_auth::RequestChecks;
use quorate_types::{ClusterId, FaultModel, SessionId, SessionKey};
use quorate_wire::{RequestProof, write_opening};

const ALICE: ClientId = ClientId::new(7);

fn vouching() -> Vouching {
    let signed = Signed::new(RequestChecks::Nothing, ClusterId::new(1), false);
    let limits = HeardLimits { bytes_max: 1 << 20, client_bytes_max: 1 << 20, ..LIMITS };
    Vouching::new(FaultModel::Byzantine.into(), 4, 1, limits, signed)
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

fn hear(vouching: &mut Vouching, now: Time, bytes: &Bytes) {
    let (header, body, _) = Requests::new(bytes).flatten().next().unwrap();
    let (client, _) = read_opening(body);
    assert!(vouching.heard.hear(now, Owner::Open(client), &header, bytes.clone()));
    vouching.hear_opening(now, bytes);
}

/// The nonces that are said at the end of a turn.
fn said(vouching: &mut Vouching) -> Vec<u64> {
    let saying = std::mem::take(&mut vouching.openings.saying);
    Requests::new(&saying).flatten().map(|(header, ..)| header.number.number()).collect()
}

#[test]
fn two_others_and_itself_are_enough_and_fewer_are_not() {
    let mut vouching = vouching();
    let (bytes, plain) = (keyed(ALICE, 1), request(ALICE, 2, None));
    assert!(vouching.is_everywhere(&plain), "without a key nobody asks for that");
    hear(&mut vouching, at(0), &bytes);
    assert_eq!(said(&mut vouching), [1]);
    for (member, everywhere) in [(1, false), (2, true), (3, true)] {
        assert!(!vouching.is_everywhere(&bytes));
        let told = vouching.heard.told(at(0), ReplicaId::new(member), &bytes);
        vouching.told_opening(at(1), &bytes, told);
        assert_eq!(vouching.is_everywhere(&bytes), everywhere, "r{member}");
        if everywhere {
            break;
        }
    }
    assert_eq!(said(&mut vouching), [], "once");
    vouching.heard.opened(ALICE, RequestNumber::new(1), SessionId { index: 0, generation: 1 });
    vouching.openings.opened(ALICE, RequestNumber::new(1));
    assert!(vouching.is_opened(&bytes) && !vouching.is_opened(&plain));
    vouching.told_opening(at(2), &bytes, 3);
    assert_eq!(said(&mut vouching), [], "it is over");
}

#[test]
fn who_did_not_hear_it_says_it_after_enough_others() {
    let mut vouching = vouching();
    let (bytes, other) = (keyed(ALICE, 1), request(ALICE, 1, Some(SessionKey::new([2; 32]))));
    for (member, told) in [(1, &[][..]), (2, &[1])] {
        let count = vouching.heard.told(at(0), ReplicaId::new(member), &bytes);
        vouching.told_opening(at(0), &bytes, count);
        assert_eq!(said(&mut vouching), told);
    }
    assert!(vouching.is_everywhere(&bytes));
    vouching.told_opening(at(5000), &other, 2);
    assert_eq!(said(&mut vouching), [], "under one nonce it says one thing only");
    assert!(!vouching.is_everywhere(&other));
    for _ in 0..2 {
        vouching.told_opening(at(5000), &bytes, 2);
    }
    assert_eq!(said(&mut vouching), [1], "again after a while, once");
}

/// A client with many openings does not fill what members remember of each other.
#[test]
fn of_each_client_few_are_said_at_a_time() {
    let mut vouching = vouching();
    let bob = ClientId::new(8);
    for nonce in 1..=70 {
        hear(&mut vouching, at(0), &keyed(ALICE, nonce));
        hear(&mut vouching, at(0), &keyed(bob, 100 + nonce));
    }
    let all: Vec<u64> = (1..=64).flat_map(|nonce| [nonce, 100 + nonce]).collect();
    assert_eq!(said(&mut vouching), all);
    for nonce in [1, 2] {
        vouching.heard.opened(ALICE, RequestNumber::new(nonce), SessionId { index: 0, generation: 1 });
        vouching.openings.opened(ALICE, RequestNumber::new(nonce));
    }
    vouching.say_what_waits(at(50));
    assert_eq!(said(&mut vouching), [65, 66]);
    vouching.say_what_waits(at(1040));
    assert_eq!(said(&mut vouching).len(), 62 + 64, "connections break");
    vouching.say_what_waits(at(40_000));
    vouching.heard.tidy(at(40_000), |_| false, CLAIM_TIME);
    vouching.openings.saying.clear();
    vouching.say_what_waits(at(80_000));
    assert!(vouching.openings.said.is_empty(), "nobody waits for ever");
}
