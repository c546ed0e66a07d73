//! Mod-SMaRt's messages: what is encoded decodes to the same, what is cut off or too long does not decode.

mod common;

use bytes::Bytes;
use common::{batch, read_whole, request};
use proptest::prelude::*;
use quorate_auth::{Signature, Signed};
use quorate_order::ledger::Proof;
use quorate_order::mod_smart::message::{
    Collect, Complaint, FETCH_MAX, ModSmartBody as Body, ModSmartMessage, WRITES_MAX,
};
use quorate_order::{OrderMessage, protocols};
use quorate_types::{Digest, InstanceId, MembershipId, Reject, ReplicaId, Slot, View};
use quorate_wire::{Batch, MEMBERS_MAX};

fn payload_of(message: &OrderMessage) -> Bytes {
    let frame = message.frame(InstanceId::new(3)).to_vec();
    read_whole(&frame, u32::MAX).expect("intact").expect("whole").payload
}

fn digest() -> impl Strategy<Value = Digest> {
    any::<[u8; 32]>().prop_map(Digest::new)
}
fn slot() -> impl Strategy<Value = Slot> {
    any::<u64>().prop_map(Slot::new)
}
fn value() -> impl Strategy<Value = (View, Digest)> {
    (any::<u64>(), digest()).prop_map(|(view, digest)| (View::new(view), digest))
}
fn signature() -> impl Strategy<Value = Signature> {
    prop::collection::vec(any::<u8>(), 0..=64).prop_map(|bytes| Signature::new(&bytes).expect("short"))
}
fn signed() -> impl Strategy<Value = Signed> {
    prop::collection::btree_map(any::<u16>(), signature(), 0..8)
        .prop_map(|all| all.into_iter().map(|(id, signature)| (ReplicaId::new(id), signature)).collect())
}
fn proof() -> impl Strategy<Value = Proof> {
    (slot(), value(), signed()).prop_map(|(slot, (view, digest), accepts)| Proof {
        slot,
        view,
        digest,
        accepts,
    })
}
fn a_batch() -> impl Strategy<Value = Batch> {
    (0u64..5).prop_map(|count| batch(&(0..count).map(|n| request(n + 1, &["put"])).collect::<Vec<_>>()))
}
fn collect() -> impl Strategy<Value = Collect> {
    let writes = prop::collection::vec(value(), 0..=WRITES_MAX);
    (any::<u16>(), slot(), prop::option::of(value()), writes, signature()).prop_map(
        |(from, decided, lock, writes, signature)| Collect {
            from: ReplicaId::new(from),
            decided,
            lock,
            writes,
            signature,
        },
    )
}
fn collects() -> impl Strategy<Value = Vec<Collect>> {
    prop::collection::vec(collect(), 0..5).prop_map(|mut list| {
        list.sort_by_key(|collect| collect.from);
        list.dedup_by_key(|collect| collect.from);
        list
    })
}
fn complaint() -> impl Strategy<Value = Complaint> {
    prop_oneof![
        Just(Complaint::Silence),
        digest().prop_map(Complaint::Request),
        slot().prop_map(Complaint::Slot),
        Just(Complaint::Joined),
        Just(Complaint::Leaves),
        Just(Complaint::Rate),
        Just(Complaint::Rotation),
    ]
}

fn body() -> impl Strategy<Value = Body> {
    let batches = prop::collection::vec(a_batch(), 0..4);
    prop_oneof![
        (slot(), a_batch()).prop_map(|(slot, batch)| Body::Propose { slot, batch }),
        (slot(), digest()).prop_map(|(slot, digest)| Body::Write { slot, digest }),
        (slot(), digest(), signature()).prop_map(|(slot, digest, signature)| Body::Accept {
            slot,
            digest,
            signature
        }),
        (any::<u64>(), complaint(), slot(), signature()).prop_map(|(asked, why, decided, signature)| {
            Body::Stop { asked: View::new(asked), why, decided, signature }
        }),
        signed().prop_map(|stops| Body::Certificate { stops }),
        (collect(), prop::option::of(proof()), batches).prop_map(|(collect, last, batches)| Body::StopData {
            collect,
            last,
            batches
        }),
        (signed(), collects(), prop::option::of(proof()), prop::option::of(a_batch()))
            .prop_map(|(stops, collects, last, value)| Body::Sync { stops, collects, last, value }),
        (slot(), 1..=FETCH_MAX).prop_map(|(slot, count)| Body::Fetch { slot, count }),
        (proof(), a_batch()).prop_map(|(proof, batch)| Body::Decision { proof, batch }),
        (slot(), prop::option::of(proof())).prop_map(|(slot, proof)| Body::Gone { slot, proof }),
        (slot(), any::<u64>()).prop_map(|(decided, round)| Body::Alive { decided, round }),
        (slot(), any::<u64>()).prop_map(|(decided, round)| Body::AliveReply { decided, round }),
        any::<u64>().prop_map(|read| Body::Read { read }),
        (any::<u64>(), prop::option::of(slot())).prop_map(|(read, slot)| Body::ReadReply { read, slot }),
        (
            prop::collection::vec(prop::collection::vec(any::<u16>().prop_map(ReplicaId::new), 0..8), 0..4),
            slot()
        )
            .prop_map(|(sets, since)| Body::Granted { sets, since }),
        any::<u64>().prop_map(|tag| Body::Back { tag }),
        any::<u64>().prop_map(|tag| Body::Ask { tag }),
        any::<u64>().prop_map(|tag| Body::Probe { tag }),
        any::<u64>().prop_map(|tag| Body::Probed { tag }),
        (any::<u64>(), prop::collection::vec(any::<u16>().prop_map(ReplicaId::new), 0..8), signature())
            .prop_map(|(tag, ids, signature)| Body::Misses { tag, ids, signature }),
    ]
}

fn message() -> impl Strategy<Value = OrderMessage> {
    (any::<u64>(), any::<u64>(), body()).prop_map(|(membership, view, body)| {
        let (membership, view) = (MembershipId::new(membership), View::new(view));
        OrderMessage::of(ModSmartMessage { membership, view, body })
    })
}

proptest! {
    #[test]
    fn messages_survive_the_wire(message in message()) {
        prop_assert_eq!(protocols::decode(payload_of(&message)), Ok((InstanceId::new(3), message)));
    }

    #[test]
    fn cut_off_messages_are_refused(message in message(), at in any::<prop::sample::Index>()) {
        let whole = payload_of(&message);
        prop_assert!(protocols::decode(whole.slice(..at.index(whole.len()))).is_err());
    }

    #[test]
    fn longer_messages_are_refused(message in message()) {
        let mut bytes = payload_of(&message).to_vec();
        bytes.push(0);
        prop_assert!(protocols::decode(bytes.into()).is_err());
    }

    #[test]
    fn changed_bytes_never_panic(message in message(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = payload_of(&message).to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok((instance, read)) = protocols::decode(bytes.into()) {
            let again = read_whole(&read.frame(instance).to_vec(), u32::MAX).expect("intact").expect("whole");
            prop_assert_eq!(protocols::decode(again.payload), Ok((instance, read)));
        }
    }

    #[test]
    fn proofs_survive_the_log(proof in proof()) {
        let mut bytes = Vec::new();
        proof.write_to(&mut bytes);
        prop_assert_eq!(Proof::decode(bytes.clone().into()), Ok(proof));
        bytes.push(0);
        prop_assert!(Proof::decode(bytes.into()).is_err());
    }
}

fn whole(body: Body) -> OrderMessage {
    let (membership, view) = (MembershipId::FIRST, View::FIRST);
    OrderMessage::of(ModSmartMessage { membership, view, body })
}

/// Offset of the body: instance, protocol, kind, membership, view.
const BODY: usize = 2 + 2 + 1 + 8 + 8;

#[test]
fn lists_name_each_member_once_and_are_counted_before_room_is_made() {
    let list = |ids: &[u16]| ids.iter().map(|id| (ReplicaId::new(*id), Signature::NONE)).collect();
    let decode = |ids: &[u16]| protocols::decode(payload_of(&whole(Body::Certificate { stops: list(ids) })));
    assert!(decode(&[1, 2, 7]).is_ok());
    assert!(decode(&[1, 1]).is_err(), "one member twice");
    assert!(decode(&[2, 1]).is_err(), "out of order");
    let mut bytes = payload_of(&whole(Body::Certificate { stops: list(&[1]) })).to_vec();
    bytes[BODY] = MEMBERS_MAX as u8 + 1;
    assert!(matches!(protocols::decode(bytes.into()), Err(Reject::TooLarge { .. })));
}

#[test]
fn questions_for_too_many_slots_are_refused() {
    let mut bytes = payload_of(&whole(Body::Fetch { slot: Slot::FIRST, count: 1 })).to_vec();
    for (count, fits) in [(0, false), (1, true), (FETCH_MAX, true), (FETCH_MAX + 1, false), (u16::MAX, false)]
    {
        bytes[BODY + 8..BODY + 10].copy_from_slice(&count.to_le_bytes());
        assert_eq!(protocols::decode(bytes.clone().into()).is_ok(), fits, "{count} slots");
    }
}

#[test]
fn a_signature_has_a_limit() {
    assert!(Signature::new(&[0; 64]).is_ok());
    assert!(matches!(Signature::new(&[0; 65]), Err(Reject::TooLarge { .. })));
}
