//! What a replica takes for signed, how often it looks, and what it forgets.

use super::super::Vouched;
use super::super::heard::Owner;
use super::super::proposals::HeldProposal;
use super::super::tests::{LIMITS, Open, vouched};
use super::*;
use crate::facts::Sessions;
use quorate_auth::ClientKey;
use quorate_types::{AgreedTime, ClientId, ItemsBuilder, Slot};
use quorate_wire::{Batch, BatchHeader, REQUEST_HEADER, RequestKind, RequestProof, RequestSigner};

const CLUSTER: ClusterId = ClusterId::new(7);
const WITH: SessionId = SessionId { index: 0, generation: 1 };
const WITHOUT: SessionId = SessionId { index: 1, generation: 1 };

fn key(number: u8) -> ClientKey {
    ClientKey::new(CLUSTER, [number; 32])
}

fn raw(
    session: SessionId,
    number: u64,
    kind: RequestKind,
    body: &[u8],
    signer: Option<&ClientKey>,
) -> Vec<u8> {
    let header = RequestHeader {
        session,
        number: RequestNumber::new(number),
        lowest_unanswered: RequestNumber::FIRST,
        kind,
        len: body.len() as u32,
        proof: if signer.is_some() { RequestProof::Signature } else { RequestProof::None },
    };
    let mut bytes = header.bytes().to_vec();
    bytes.extend_from_slice(body);
    bytes.extend(signer.iter().flat_map(|signer| signer.sign(&header.bytes(), body)));
    bytes
}

fn request(session: SessionId, number: u64, text: &str, signer: Option<&ClientKey>) -> Vec<u8> {
    let (mut commands, mut body) = (ItemsBuilder::new(), Vec::new());
    commands.push(text.as_bytes());
    commands.write_to(&mut body);
    raw(session, number, RequestKind::Commands, &body, signer)
}

fn batch(requests: &[Vec<u8>]) -> Batch {
    let mut bytes = Vec::new();
    Batch::begin(&mut bytes);
    requests.iter().for_each(|request| bytes.extend_from_slice(request));
    let count = requests.len() as u32;
    Batch::seal(
        bytes,
        BatchHeader { time: AgreedTime::ZERO, seed: 0, count, border: false, base: None, ruling: None },
    )
}

/// The first client signs, with its first key; the second does not.
fn sessions() -> Open {
    let with = (WITH, (ClientId::new(1), Some(key(1).key())));
    Open([with, (WITHOUT, (ClientId::new(2), None))].into())
}

fn intake() -> Vouched {
    vouched(CLUSTER, LIMITS, RequestChecks::Ed25519)
}

fn held(requests: &[Vec<u8>]) -> HeldProposal {
    HeldProposal::new(Slot::FIRST, Digest::new([0; 32]), batch(requests))
}

fn hear(intake: &mut Vouched, client: u64, bytes: &[u8]) {
    let (header, ..) = Requests::new(bytes).flatten().next().unwrap();
    let owner = Owner::Open(ClientId::new(client));
    assert!(intake.heard.hear(Time::ZERO, owner, &header, Bytes::copy_from_slice(bytes)));
}

/// Nothing of it came from a client: the signatures are enough, and are looked at once.
#[test]
fn what_is_signed_is_vouched_for_and_checked_once() {
    let (sessions, mut intake) = (sessions(), intake());
    let requests: Vec<_> = (1..=6).map(|n| request(WITH, n, "pay bob 5", Some(&key(1)))).collect();
    assert!(!intake.knows_all(&sessions, false, &mut held(&requests)), "not where signatures do not count");
    assert_eq!(intake.signed.checked, 0);
    assert!(intake.knows_all(&sessions, true, &mut held(&requests)));
    assert!(intake.knows_all(&sessions, true, &mut held(&requests)), "in another view");
    let whole: Vec<(SessionKey, &[u8])> = requests.iter().map(|bytes| (key(1).key(), &bytes[..])).collect();
    assert_eq!(intake.signed.check(&whole), [true; 6], "or when it leads itself");
    assert_eq!(intake.signed.checked, 6);
    intake.signed.executed(WITH, RequestNumber::new(4));
    assert_eq!(intake.signed.right.len(), 2, "what is executed is forgotten");
    intake.invariants();
}

/// What a leader altered, made up, or takes from elsewhere.
#[test]
fn what_is_signed_wrong_is_not_vouched_for() {
    let (sessions, mut intake) = (sessions(), intake());
    let right = request(WITH, 1, "pay bob 5", Some(&key(1)));
    let mut altered = right.clone();
    altered[REQUEST_HEADER + 9] ^= 1;
    let mut another_number = right.clone();
    another_number[8] = 2;
    let mut another_lowest = right.clone();
    another_lowest[16] = 0;
    let unsigned = request(WITH, 1, "pay bob 5", None);
    let of_another = request(WITH, 1, "pay bob 5", Some(&key(2)));
    let without_key = request(WITHOUT, 1, "pay bob 5", Some(&key(1)));
    for wrong in [altered, another_number, another_lowest, unsigned, of_another, without_key] {
        assert!(!intake.knows_all(&sessions, true, &mut held(std::slice::from_ref(&wrong))), "{wrong:?}");
        let all = [right.clone(), wrong.clone()];
        assert!(!intake.knows_all(&sessions, true, &mut held(&all)), "nor among others");
        let (header, ..) = Requests::new(&wrong).flatten().next().unwrap();
        if let Some(key) = sessions.key(header.session) {
            assert_eq!(intake.signed.check(&[(key, &wrong)]), [false], "nor proposed");
        }
    }
    assert!(intake.knows_all(&sessions, true, &mut held(&[right])));
}

/// A proposal with a wrong signature waits until that request is heard; looking again and again costs nothing.
#[test]
fn a_wrong_signature_is_looked_at_once() {
    let (sessions, mut intake) = (sessions(), intake());
    let signed = |n, signer| request(WITH, n, "pay bob 5", Some(&key(signer)));
    let requests = [signed(1, 1), signed(2, 2), signed(3, 1), signed(4, 2), signed(5, 1)];
    let mut held = held(&requests);
    assert!(!intake.knows_all(&sessions, true, &mut held));
    assert_eq!((held.known, intake.signed.checked), (1, 5 + 2), "all together, then up to the wrong one");
    for _ in 0..5 {
        assert!(!intake.knows_all(&sessions, true, &mut held));
    }
    assert_eq!(intake.signed.checked, 7);
    hear(&mut intake, 1, &requests[1]);
    assert!(!intake.knows_all(&sessions, true, &mut held));
    assert_eq!((held.known, intake.signed.checked), (3, 9));
    hear(&mut intake, 1, &requests[3]);
    assert!(intake.knows_all(&sessions, true, &mut held));
    assert_eq!(intake.signed.checked, 10);
}

/// What came from its client is not checked by who only vouches for it.
#[test]
fn what_was_heard_is_not_checked() {
    let (sessions, mut intake) = (sessions(), intake());
    let (wrong, plain) = (request(WITH, 1, "x", Some(&key(2))), request(WITHOUT, 1, "y", None));
    hear(&mut intake, 1, &wrong);
    hear(&mut intake, 2, &plain);
    assert!(intake.knows_all(&sessions, true, &mut held(&[wrong, plain])));
    assert_eq!(intake.signed.checked, 0);
}

/// Whoever closes many sessions leaves no trace for ever.
#[test]
fn what_is_remembered_is_bounded() {
    let mut signed = Signed::new(RequestChecks::Nothing, CLUSTER, false);
    let bytes = request(WITH, 1, "x", Some(&key(1)));
    let (header, ..) = Requests::new(&bytes).flatten().next().unwrap();
    for number in 0..RIGHT_MAX as u64 + 9 {
        signed.remember(&RequestHeader { number: RequestNumber::new(number), ..header }, &bytes);
    }
    signed.invariants();
    assert_eq!(signed.right.len(), RIGHT_MAX);
}
