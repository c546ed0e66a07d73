//! Which tags are taken, under which keys, and that keys are bounded.

use super::super::signed::Signed;
use super::super::tests::LIMITS;
use super::*;
use crate::members::tests::Nothing;
use quorate_auth::{ClientMacs, RequestChecks};
use quorate_execute::{Outcomes, SessionLimits};
use quorate_types::{AgreedTime, Digest, FaultModel, RequestNumber, Seq, SessionId, Slot};
use quorate_wire::{
    Batch, BatchHeader, REQUEST_HEADER, RequestKind, RequestTagger, RequestTags, write_opening,
};

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
    Batch::seal(bytes, BatchHeader { time: AgreedTime::ZERO, seed: 0, count: 1, border: false, base: None })
}

fn held(request: &[u8]) -> Held {
    Held::new(Slot::FIRST, Digest::new([0; 32]), batch(request))
}

/// The session is client 1's.
fn executor() -> Executor {
    let mut executor = Executor::new(Box::new(Nothing), SessionLimits::default(), AgreedTime::ZERO);
    let body = write_opening(ClientId::new(1), None);
    let opening = raw(SessionId::NONE, RequestKind::OpenSession, &body, None);
    executor.execute(Seq::new(1), &batch(&opening), &mut Outcomes::new());
    assert_eq!(executor.client(SESSION), Some(ClientId::new(1)));
    executor
}

fn vouching(me: u16) -> Vouching {
    let signed = Signed::new(RequestChecks::Nothing, CLUSTER, false);
    let mut vouching = Vouching::new(FaultModel::Byzantine.into(), 4, 1, LIMITS, signed);
    vouching.tags = Tags::new(CLUSTER, ReplicaId::new(me), members().into_iter());
    vouching
}

fn learn(vouching: &mut Vouching, me: u16, client: u64, keys: &dyn RequestTags) {
    let key = keys.shared_with(ReplicaId::new(me)).expect("a member");
    vouching.tags.learn(ClientId::new(client), &[key]);
}

#[test]
fn a_right_tag_is_enough_and_no_other_is() {
    let executor = executor();
    let keys = ClientMacs::new(CLUSTER, [1; 32]).keys(0, &members());
    let next = ClientMacs::new(CLUSTER, [1; 32]).keys(1, &members());
    let request = raw(SESSION, RequestKind::Query, b"pay bob 5", Some(&*keys));
    for me in 1..=4 {
        let mut vouching = vouching(me);
        let mut waits = held(&request);
        assert!(!vouching.knows_all(&executor, true, &mut waits), "without a key");
        learn(&mut vouching, me, 2, &*keys);
        assert!(!vouching.knows_all(&executor, true, &mut waits), "another client's key");
        learn(&mut vouching, me, 1, &*keys);
        assert!(!vouching.knows_all(&executor, false, &mut held(&request)), "where tags do not count");
        assert!(vouching.knows_all(&executor, true, &mut waits), "once the key is there");
        learn(&mut vouching, me, 1, &*next);
        assert!(vouching.knows_all(&executor, true, &mut held(&request)), "after the key was replaced");
        let own = REQUEST_HEADER + 9 + 8 + 8 * (usize::from(me) - 1);
        for at in [8, 16, REQUEST_HEADER + 8, own, own + 7] {
            let mut wrong = request.clone();
            wrong[at] ^= 2;
            assert!(!vouching.knows_all(&executor, true, &mut held(&wrong)), "byte {at} is another one");
        }
        let plain = raw(SESSION, RequestKind::Query, b"pay bob 5", None);
        assert!(!vouching.knows_all(&executor, true, &mut held(&plain)), "without tags");
    }
}

/// A key of the same number that is another one, as somebody else would guess it.
#[test]
fn keys_are_bounded_for_each_client_and_in_all() {
    let mut vouching = vouching(1);
    let key = |id| SharedKey { id, secret: [id as u8; 32] };
    for id in 0..1000 {
        vouching.tags.learn(ClientId::new(1), &[key(id), key(id)]);
    }
    assert_eq!(vouching.tags.keys.len(), OF_CLIENT_MAX);
    assert!(vouching.tags.keys.contains_key(&(ClientId::new(1), 999)), "the last ones are known");
    for client in 2..KEYS_MAX as u64 + 9 {
        vouching.tags.learn(ClientId::new(client), &[key(1)]);
    }
    vouching.invariants();
    assert_eq!(vouching.tags.keys.len(), KEYS_MAX);
}
