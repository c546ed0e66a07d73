//! Claims come back from their bytes, and nothing else does.

use crate::ledger::Proof;
use crate::visigoth::{Claim, Missing};
use bytes::Bytes;
use quorate_auth::Signature;
use quorate_types::{Digest, ReplicaId, Slot, View};

fn ids(numbers: &[u16]) -> Vec<ReplicaId> {
    numbers.iter().copied().map(ReplicaId::new).collect()
}

fn missing(from: u16, misses: &[u16]) -> Missing {
    let signature = Signature::new(&[from as u8; 64]).expect("as long as one is");
    Missing { from: ReplicaId::new(from), misses: ids(misses), signature }
}

fn claim() -> Claim {
    let accepts = ids(&[1, 2, 3]).into_iter().map(|id| (id, Signature::NONE)).collect();
    let proof = Proof { slot: Slot::new(9), view: View::new(2), digest: Digest::new([7; 32]), accepts };
    let said = vec![missing(1, &[4, 5]), missing(2, &[5]), missing(3, &[])];
    Claim { view: View::new(3), tag: 11, set: ids(&[1, 2, 3]), said, proof: Some(proof) }
}

#[test]
fn bytes_come_back_and_others_are_refused() {
    for claim in [claim(), Claim { proof: None, ..claim() }] {
        let bytes = claim.encode();
        assert_eq!(Claim::decode(bytes.clone()), Ok(claim));
        for len in 0..bytes.len() {
            assert!(Claim::decode(bytes.slice(..len)).is_err(), "{len} bytes");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut wrong = bytes.to_vec();
                wrong[at] ^= 1 << bit;
                if let Ok(read) = Claim::decode(wrong.clone().into()) {
                    assert_eq!(read.encode(), wrong, "it is taken as it stands");
                }
            }
        }
    }
}

#[test]
fn nobody_says_two_things() {
    let twice = Claim { set: ids(&[1, 1]), said: vec![missing(1, &[]), missing(1, &[2])], ..claim() };
    assert!(Claim::decode(twice.encode()).is_err());
    let mut many = claim().encode().to_vec();
    many[17] = 255;
    assert!(Claim::decode(Bytes::from(many)).is_err(), "so many statements are not there");
}
