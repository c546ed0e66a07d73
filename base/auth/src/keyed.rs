//! Signatures for simulators: a keyed hash. All keys follow from one seed, so everybody can check. An adversary in the simulation is given
//! only the keys of the replicas that lie, so it can forge no more than with real signatures.

use super::Authenticator;
use crate::Signature;
use quorate_types::{Random, ReplicaId};

/// Cheap, deterministic, and no secret from anyone who knows the seed: never for a real cluster.
#[derive(Clone, Copy, Debug)]
pub struct Keyed {
    me: ReplicaId,
    seed: u64,
}

impl Keyed {
    /// As this replica, in the simulation with this seed.
    pub const fn new(me: ReplicaId, seed: u64) -> Self {
        Self { me, seed }
    }

    /// The seed from which all keys follow.
    pub(super) const fn seed(&self) -> u64 {
        self.seed
    }

    fn tag(&self, signer: ReplicaId, statement: &[u8]) -> [u8; 8] {
        let mut key = Random::new(self.seed ^ u64::from(signer.number()).rotate_left(32));
        let mut hash = key.next();
        // FNV-1a over words (Fowler, Noll, Vo), under a key: nothing here need withstand cryptanalysis.
        for word in statement.chunks(8) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            hash = (hash ^ u64::from_le_bytes(bytes)).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        }
        Random::new(hash ^ statement.len() as u64).next().to_le_bytes()
    }
}

impl Authenticator for Keyed {
    fn sign(&self, statement: &[u8]) -> Signature {
        // 8 bytes always fit.
        Signature::new(&self.tag(self.me, statement)).unwrap_or(Signature::NONE)
    }
    fn verify(&self, signer: ReplicaId, statement: &[u8], signature: &Signature) -> bool {
        signature.bytes() == self.tag(signer, statement)
    }
}
