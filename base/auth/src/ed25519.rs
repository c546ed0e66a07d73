//! Ed25519 under the rules of ZIP-215.
//!
//! RFC 8032 leaves open which borderline signatures are valid (points of small order, encodings that are not canonical), and libraries
//! differ; some even differ between checking one signature and checking many. Replicas that disagree about a signature would disagree about
//! a proof. ZIP-215 says exactly which are valid, by an equation with the cofactor, so that checking many at once gives the result of
//! checking each.
//!
//! Checking many at once needs random factors that the signers can not foresee. They are drawn from a hash of everything that is checked:
//! equal on all replicas, and different as soon as one bit of one signature differs. Tests: auth/tests.rs.

use super::{Authenticator, Claim};
use crate::Signature;
use ed25519_zebra::{Signature as Inner, SigningKey, VerificationKey, VerificationKeyBytes, batch};
use quorate_types::{Reject, ReplicaId};
use rand_core::{TryCryptoRng, TryRng};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;

/// From this many signatures on, checking them together is cheaper.
pub(super) const TOGETHER_MIN: usize = 4;

/// A member's public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// The key with these bytes.
    ///
    /// # Errors
    /// When they are not a point of the curve, or are one of small order, for which anybody can make signatures.
    pub fn new(bytes: [u8; 32]) -> Result<Self, Reject> {
        let malformed = Err(Reject::Malformed("public key"));
        let Ok(key) = VerificationKey::try_from(bytes) else { return malformed };
        // R = A, s = 0 satisfies 8(sB - R - kA) = 0 for whatever message only where 8A = 0.
        let mut forged = [0; 64];
        forged[..32].copy_from_slice(&bytes);
        if key.verify(&Inner::from_bytes(&forged), b"").is_ok() { malformed } else { Ok(Self(bytes)) }
    }
    /// Any point, even an invalid key; for tests of borderline signatures.
    #[cfg(test)]
    pub(super) const fn unchecked(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
    /// Whether the owner of this key signed this statement, under the rules of this module.
    pub fn verifies(&self, statement: &[u8], signature: &Signature) -> bool {
        let (Ok(key), Some(inner)) = (VerificationKey::try_from(self.0), Ed25519::inner(signature)) else {
            return false;
        };
        key.verify(&inner, statement).is_ok()
    }
    /// Its bytes.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey(")?;
        self.0[..8].iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, ")")
    }
}

/// This replica's key pair and the members' public keys.
#[derive(Clone)]
pub struct Ed25519 {
    own: SigningKey,
    members: BTreeMap<ReplicaId, (VerificationKey, PublicKey)>,
}

impl Ed25519 {
    /// Makes one of this replica's secret key (32 random bytes) and the public keys of all members.
    ///
    /// # Errors
    /// When a public key is invalid.
    pub fn new(
        secret: [u8; 32],
        members: impl IntoIterator<Item = (ReplicaId, PublicKey)>,
    ) -> Result<Self, Reject> {
        let read = |(id, key): (ReplicaId, PublicKey)| match VerificationKey::try_from(key.0) {
            Ok(inner) => Ok((id, (inner, key))),
            Err(_) => Err(Reject::Malformed("public key")),
        };
        let members = members.into_iter().map(read).collect::<Result<_, _>>()?;
        Ok(Self { own: SigningKey::from(secret), members })
    }

    /// The public key that belongs to a secret one.
    pub fn public(secret: [u8; 32]) -> PublicKey {
        PublicKey(VerificationKeyBytes::from(&SigningKey::from(secret)).into())
    }

    /// The public key of a member, if it is known.
    pub fn public_of(&self, member: ReplicaId) -> Option<[u8; 32]> {
        self.members.get(&member).map(|(_, key)| *key.bytes())
    }

    fn inner(signature: &Signature) -> Option<Inner> {
        Some(Inner::from_bytes(signature.bytes().first_chunk::<64>()?))
    }
}

impl fmt::Debug for Ed25519 {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.members.iter().map(|(id, (_, key))| (id, key))).finish()
    }
}

impl Authenticator for Ed25519 {
    fn know(&mut self, member: ReplicaId, key: &[u8; 32]) {
        if let (Ok(public), Ok(inner)) = (PublicKey::new(*key), VerificationKey::try_from(*key)) {
            self.members.entry(member).or_insert((inner, public));
        }
    }
    fn sign(&self, statement: &[u8]) -> Signature {
        // 64 bytes always fit.
        Signature::new(&self.own.sign(statement).to_bytes()).unwrap_or(Signature::NONE)
    }

    fn verify(&self, signer: ReplicaId, statement: &[u8], signature: &Signature) -> bool {
        let (Some((key, _)), Some(inner)) = (self.members.get(&signer), Self::inner(signature)) else {
            return false;
        };
        key.verify(&inner, statement).is_ok()
    }

    fn key(&self, member: ReplicaId) -> Option<PublicKey> {
        self.members.get(&member).map(|(_, key)| *key)
    }

    fn verify_all(&self, claims: &[Claim<'_>]) -> bool {
        if claims.len() < TOGETHER_MIN {
            return claims.iter().all(|(signer, statement, sig)| self.verify(*signer, statement, sig));
        }
        let mut verifier = batch::Verifier::new();
        let mut hasher = factors();
        for (signer, statement, signature) in claims {
            let (Some((_, key)), Some(inner)) = (self.members.get(signer), Self::inner(signature)) else {
                return false;
            };
            hasher.update(&key.0);
            hasher.update(signature.bytes());
            hasher.update(&(statement.len() as u64).to_le_bytes());
            hasher.update(statement);
            verifier.queue((VerificationKeyBytes::from(key.0), inner, *statement));
        }
        verifier.verify(Factors(hasher.finalize_xof())).is_ok()
    }
}

/// A hasher for everything that is checked together; the factors are drawn from its result.
pub(super) fn factors() -> blake3::Hasher {
    blake3::Hasher::new_derive_key("quorate 2026 factors for checking signatures together")
}

/// The stream that the factors are drawn from.
pub(super) struct Factors(pub(super) blake3::OutputReader);

impl TryRng for Factors {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut word = [0; 4];
        self.0.fill(&mut word);
        Ok(u32::from_le_bytes(word))
    }
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut word = [0; 8];
        self.0.fill(&mut word);
        Ok(u64::from_le_bytes(word))
    }
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.0.fill(bytes);
        Ok(())
    }
}

impl TryCryptoRng for Factors {}
