//! The bodies of the fuzz targets. Stable tests run them over the corpora.

use crate::{CheckpointProof, Ed25519, KnownKeys, MembershipLink};
use bytes::Bytes;
use quorate_types::{FaultModel, Faults, MembershipId, ReplicaId};
use quorate_wire::{Member, Membership};

/// A membership that has nothing in common with those of the seeds but its number and the ids.
fn others() -> Membership {
    let member = |id: u16| Member {
        key: Some(*Ed25519::public([0x5a ^ id as u8; 32]).bytes()),
        ..Member::voter(ReplicaId::new(id))
    };
    Membership::new(MembershipId::FIRST, (1..=4).map(member).collect()).expect("four voters")
}

/// A file with a membership link: these bytes, and the same with a right checksum in the place of the last 8. The decoder returns for any
/// bytes, and what it accepts encodes to the same bytes. Who knows members with other keys believes none of it.
///
/// # Panics
/// When that does not hold.
pub fn membership_link(data: &[u8]) {
    let sealed = MembershipLink::sealed(data[..data.len().saturating_sub(8)].to_vec());
    for bytes in [Bytes::copy_from_slice(data), sealed] {
        if let Ok(link) = MembershipLink::decode(&bytes) {
            assert_eq!(link.encode(), bytes);
            let _ = link.file_name();
            let faults = Faults::of(FaultModel::Byzantine);
            assert!(link.verify(link.cluster, &others(), faults).is_err(), "strangers' keys count");
            let by_itself = link.before().map(|before| link.verify(link.cluster, before, faults));
            assert!(by_itself.is_none_or(|next| next.is_err() || next.as_ref() == Ok(link.now())));
        }
    }
}

/// The proof of a checkpoint: these bytes, and the same with a right checksum in the place of the last 8. The decoder returns for any bytes, and
/// what it accepts encodes to the same bytes. Who knows other keys believes none of it.
///
/// # Panics
/// When that does not hold.
pub fn checkpoint_proof(data: &[u8]) {
    let sealed = CheckpointProof::sealed(data[..data.len().saturating_sub(8)].to_vec());
    for bytes in [Bytes::copy_from_slice(data), sealed] {
        if let Ok(proof) = CheckpointProof::decode(&bytes) {
            assert_eq!(proof.encode(), bytes);
            let key = |(id, at): (ReplicaId, usize)| (id, vec![Ed25519::public([0xa5 ^ at as u8; 32])]);
            let others: KnownKeys = proof.signers().into_iter().zip(0..).map(key).collect();
            let of = (proof.cluster, proof.seq, proof.digest);
            assert!(proof.verify(of, &others, 1).is_err(), "strangers' keys count");
        }
    }
}
