//! Signatures for simulators: a keyed hash. All keys follow from one seed, so everybody can check. An adversary in the simulation is given
//! only the keys of the replicas that lie, so it can forge no more than with real signatures.

use super::{Authenticator, Secret, Text};
use crate::Signature;
use crate::by_membership::ByMembership;
use quorate_types::{MembershipId, Random, ReplicaId, planted};

/// Cheap, deterministic, and no secret from anyone who knows the seed: never for a real cluster.
///
/// Here the two halves of a key are the same bytes. A member without a key of its own has one that follows from its id.
#[derive(Clone, Debug)]
pub struct Keyed {
    me: ReplicaId,
    seed: u64,
    keys: ByMembership<[u8; 32]>,
    /// The keys that this replica holds; none: all of its own.
    held: Option<Vec<[u8; 32]>>,
}

impl Keyed {
    /// As this replica, in the simulation with this seed.
    pub fn new(me: ReplicaId, seed: u64) -> Self {
        Self { me, seed, keys: ByMembership::default(), held: None }
    }

    /// One that signs only with keys that it is given.
    #[must_use]
    pub fn that_must_hold(self) -> Self {
        Self { held: Some(Vec::new()), ..self }
    }

    /// The seed from which all keys follow.
    pub(super) const fn seed(&self) -> u64 {
        self.seed
    }

    /// Whether this replica holds this key.
    pub(super) fn holds(&self, key: &[u8; 32]) -> bool {
        self.held.as_ref().is_none_or(|held| held.contains(key))
    }

    /// The key of a member; 0 for the one that follows from its id.
    fn key_of(&self, member: ReplicaId, membership: MembershipId) -> [u8; 32] {
        self.keys.of(member, membership).copied().unwrap_or_default()
    }

    fn tag(&self, (signer, key): (ReplicaId, [u8; 32]), bytes: &[u8]) -> [u8; 8] {
        let own = fold(0, &key);
        let mut key = Random::new(self.seed ^ own ^ u64::from(signer.number()).rotate_left(32));
        // FNV-1a over words (Fowler, Noll, Vo), under a key: nothing here need withstand cryptanalysis.
        let hash = fold(key.next(), bytes);
        Random::new(hash ^ bytes.len() as u64).next().to_le_bytes()
    }
}

/// Everything of these bytes in one word. Of zeros and 0 it makes 0.
fn fold(from: u64, bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(from, |hash, word| {
        let mut bytes = [0; 8];
        bytes[..word.len()].copy_from_slice(word);
        (hash ^ u64::from_le_bytes(bytes)).wrapping_mul(0x0100_0000_01b3).rotate_left(23)
    })
}

impl Authenticator for Keyed {
    fn know(&mut self, member: ReplicaId, membership: MembershipId, key: &[u8; 32]) {
        self.keys.know(member, membership, *key);
    }
    fn hold(&mut self, secret: &Secret) {
        self.held.iter_mut().for_each(|held| held.push(*secret.bytes()));
    }
    fn can_sign(&self, membership: MembershipId) -> bool {
        let key = self.key_of(self.me, membership);
        key == [0; 32] || self.holds(&key)
    }
    fn sign(&self, text: &Text) -> Signature {
        if !self.can_sign(text.membership) {
            return Signature::NONE;
        }
        let key = self.key_of(self.me, text.membership);
        // 8 bytes always fit.
        Signature::new(&self.tag((self.me, key), &text.bytes)).unwrap_or(Signature::NONE)
    }
    fn verify(&self, signer: ReplicaId, text: &Text, signature: &Signature) -> bool {
        let right = |key| signature.bytes() == self.tag((signer, key), &text.bytes);
        right(self.key_of(signer, text.membership))
            || (planted("smart-old-key") && right(self.key_of(signer, MembershipId::FIRST)))
    }
}
