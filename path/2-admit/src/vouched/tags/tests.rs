//! Which tags are taken, under which keys, and that keys are bounded.

use super::super::Vouched;
use super::super::proposals::HeldProposal;
use super::super::tests::{LIMITS, Open, vouched};
use super::*;
use quorate_auth::{ClientMacs, RequestChecks};
use quorate_types::{AgreedTime, Digest, RequestNumber, SessionId, Slot};
use quorate_wire::{Batch, BatchHeader, REQUEST_HEADER, RequestKind, RequestTagger, RequestTags};

const CLUSTER: ClusterId = ClusterId::new(7);
const SESSION: SessionId = SessionId { index: 0, generation: 1 };

fn members() -> Vec<ReplicaId> {
    (1..=4).map(ReplicaId::new).collect()
}

fn raw(session: SessionId, kind: RequestKind, body: &[u8], keys: Option<&dyn RequestTags>) -> Vec<u8> {
    let proof = keys.map_or(RequestProof::None, |_| RequestProof::Macs { members: 4 });
    let (number, len) = (RequestNumber::FIRST, body.len() as u32);
    let header = RequestHeader { session, number, lowest_unanswered: number, kind, len, proof };
    let mut bytes = [&header.bytes()[..], body].concat();
    if let Some(keys) = keys {
        keys.write(&header.bytes(), body, &mut bytes);
    }
    bytes
}

fn batch(request: &[u8]) -> Batch {
    let mut bytes = Vec::new();
    Batch::begin(&mut bytes);
    bytes.extend_from_slice(request);
    Batch::seal(
        bytes,
        BatchHeader { time: AgreedTime::ZERO, seed: 0, count: 1, border: false, base: None, ruling: None },
    )
}

fn held(request: &[u8]) -> HeldProposal {
    HeldProposal::new(Slot::FIRST, Digest::new([0; 32]), batch(request))
}

/// The session is client 1's.
fn sessions() -> Open {
    Open([(SESSION, (ClientId::new(1), None))].into())
}

fn intake(me: u16) -> Vouched {
    let mut intake = vouched(CLUSTER, LIMITS, RequestChecks::Nothing);
    intake.tags = Tags::new(CLUSTER, ReplicaId::new(me), members().into_iter());
    intake
}

fn learn(intake: &mut Vouched, me: u16, client: u64, keys: &dyn RequestTags) {
    let key = keys.shared_with(ReplicaId::new(me)).expect("a member");
    intake.tags.learn(ClientId::new(client), &[key]);
}

#[test]
fn a_right_tag_is_enough_and_no_other_is() {
    let sessions = sessions();
    let keys = ClientMacs::new(CLUSTER, [1; 32]).keys(0, &members());
    let next = ClientMacs::new(CLUSTER, [1; 32]).keys(1, &members());
    let request = raw(SESSION, RequestKind::Query, b"pay bob 5", Some(&*keys));
    for me in 1..=4 {
        let mut intake = intake(me);
        let mut waits = held(&request);
        assert!(!intake.knows_all(&sessions, true, &mut waits), "without a key");
        learn(&mut intake, me, 2, &*keys);
        assert!(!intake.knows_all(&sessions, true, &mut waits), "another client's key");
        learn(&mut intake, me, 1, &*keys);
        assert!(!intake.knows_all(&sessions, false, &mut held(&request)), "where tags do not count");
        assert!(intake.knows_all(&sessions, true, &mut waits), "once the key is there");
        learn(&mut intake, me, 1, &*next);
        assert!(intake.knows_all(&sessions, true, &mut held(&request)), "after the key was replaced");
        let own = REQUEST_HEADER + 9 + 8 + 8 * (usize::from(me) - 1);
        for at in [8, 16, REQUEST_HEADER + 8, own, own + 7] {
            let mut wrong = request.clone();
            wrong[at] ^= 2;
            assert!(!intake.knows_all(&sessions, true, &mut held(&wrong)), "byte {at} is another one");
        }
        let plain = raw(SESSION, RequestKind::Query, b"pay bob 5", None);
        assert!(!intake.knows_all(&sessions, true, &mut held(&plain)), "without tags");
    }
}

/// A key of the same number that is another one, as somebody else would guess it.
#[test]
fn keys_are_bounded_for_each_client_and_in_all() {
    let mut intake = intake(1);
    let key = |id| SharedKey { id, secret: [id as u8; 32] };
    for id in 0..1000 {
        intake.tags.learn(ClientId::new(1), &[key(id), key(id)]);
    }
    assert_eq!(intake.tags.keys.len(), OF_CLIENT_MAX);
    assert!(intake.tags.keys.contains_key(&(ClientId::new(1), 999)), "the last ones are known");
    for client in 2..KEYS_MAX as u64 + 9 {
        intake.tags.learn(ClientId::new(client), &[key(1)]);
    }
    intake.invariants();
    assert_eq!(intake.tags.keys.len(), KEYS_MAX);
}
