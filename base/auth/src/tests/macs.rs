//! Tags under requests.

use super::super::{ClientMacs, is_tag, request_statement, tag_at};
use super::*;
use quorate_types::{ClusterId, RequestNumber, SessionId};
use quorate_wire::{REQUEST_HEADER, RequestHeader, RequestKind, RequestProof, RequestTagger, RequestTags};

const CLUSTER: ClusterId = ClusterId::new(7);

fn all() -> Vec<ReplicaId> {
    (1..=4).map(id).collect()
}

fn header(number: u64, body: &[u8]) -> [u8; REQUEST_HEADER] {
    RequestHeader {
        session: SessionId { index: 3, generation: 1 },
        number: RequestNumber::new(number),
        lowest_unanswered: RequestNumber::FIRST,
        kind: RequestKind::Query,
        len: body.len() as u32,
        proof: RequestProof::Macs { members: 4 },
    }
    .bytes()
}

fn tags(keys: &dyn RequestTags, number: u64, body: &[u8]) -> Vec<u8> {
    let mut proof = Vec::new();
    keys.write(&header(number, body), body, &mut proof);
    assert_eq!(proof.len(), RequestProof::Macs { members: 4 }.byte_len());
    proof
}

fn secret_of(keys: &dyn RequestTags, replica: u16) -> [u8; 32] {
    keys.shared_with(id(replica)).expect("a member").secret
}

#[test]
fn a_tag_convinces_its_receiver_and_nobody_else() {
    let client = ClientMacs::new(CLUSTER, secret(1));
    let keys = client.keys(0, &all());
    assert!(keys.shared_with(id(5)).is_none());
    let proof = tags(&*keys, 4, b"pay bob 5");
    let statement = request_statement(CLUSTER, &header(4, b"pay bob 5"), b"pay bob 5");
    for (place, me) in (1..=4).enumerate() {
        let (key, tag) = tag_at(&proof, place).expect("four");
        let own = secret_of(&*keys, me);
        assert_eq!(key, keys.shared_with(id(me)).expect("a member").id, "all know the keys by one number");
        assert!(is_tag(&own, id(me), &statement, &tag));
        for other in (1..=4).filter(|other| *other != me) {
            assert!(!is_tag(&secret_of(&*keys, other), id(other), &statement, &tag), "another's tag");
            assert!(!is_tag(&own, id(other), &statement, &tag), "said to another one");
        }
        for wrong in [header(5, b"pay bob 5"), header(4, b"pay bob 6")] {
            let body = if wrong == header(5, b"pay bob 5") { b"pay bob 5" } else { b"pay bob 6" };
            assert!(
                !is_tag(&own, id(me), &request_statement(CLUSTER, &wrong, body), &tag),
                "another request"
            );
        }
        let elsewhere = request_statement(ClusterId::new(8), &header(4, b"pay bob 5"), b"pay bob 5");
        assert!(!is_tag(&own, id(me), &elsewhere, &tag), "another cluster");
        let stranger = ClientMacs::new(CLUSTER, secret(2)).keys(0, &all());
        assert!(!is_tag(&secret_of(&*stranger, me), id(me), &statement, &tag), "another client's key");
        for bit in 0..64 {
            let mut changed = tag;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_tag(&own, id(me), &statement, &changed), "bit {bit} changed");
        }
    }
    assert_eq!(tag_at(&proof, 4), None);
    assert_eq!(tag_at(&proof[..7], 0), None);
    assert_eq!(tag_at(&proof[..15], 0), None);
}

/// Epochs and clients have nothing in common, and each can make its keys once more.
#[test]
fn keys_follow_from_the_secret_and_the_epoch() {
    let (one, other) = (ClientMacs::new(CLUSTER, secret(1)), ClientMacs::new(CLUSTER, secret(2)));
    let elsewhere = ClientMacs::new(ClusterId::new(8), secret(1));
    let mut seen = std::collections::BTreeSet::new();
    for client in [&one, &other, &elsewhere] {
        for epoch in 0..3 {
            let keys = client.keys(epoch, &all());
            let mut ids = std::collections::BTreeSet::new();
            for me in all() {
                let key = keys.shared_with(me).expect("a member");
                assert!(seen.insert(key.secret), "no two keys are alike");
                ids.insert(key.id);
            }
            assert_eq!(ids.len(), 1);
            assert!(
                seen.insert(std::array::from_fn(|at| ids.iter().next().unwrap_or(&0).to_le_bytes()[at % 8]))
            );
        }
    }
    assert_eq!(tags(&*one.keys(2, &all()), 4, b"x"), tags(&*one.keys(2, &all()), 4, b"x"));
    assert_ne!(tags(&*one.keys(2, &all()), 4, b"x"), tags(&*one.keys(1, &all()), 4, b"x"));
    let shown = format!("{one:?} {:?}", one.keys(0, &all()));
    let hex: String = secret(1).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    assert!(!shown.contains(&hex) && !shown.contains(&format!("{}, ", secret(1)[0])), "{shown}");
}
