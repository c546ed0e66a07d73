//! Ed25519 under the rules of ZIP-215.
//!
//! RFC 8032 leaves open which borderline signatures are valid (points of small order, encodings that are not canonical), and libraries
//! differ; some even differ between checking one signature and checking many. Replicas that disagree about a signature would disagree about
//! a proof. ZIP-215 says exactly which are valid, by an equation with the cofactor, so that checking many at once gives the result of
//! checking each.
//!
//! Checking many at once needs random factors that the signers can not foresee. They are drawn from a hash of everything that is checked:
//! equal on all replicas, and different as soon as one bit of one signature differs. Tests: auth/tests.rs.

use super::{Authenticator, Claim, Secret, Text};
use crate::Signature;
use crate::by_membership::ByMembership;
use ed25519_zebra::{Signature as Inner, SigningKey, VerificationKey, VerificationKeyBytes, batch};
use quorate_types::{MembershipId, Reject, ReplicaId, planted};
use rand_core::{TryCryptoRng, TryRng};
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

/// A member's key, ready to check with.
#[derive(Clone, Copy)]
struct Known {
    inner: VerificationKey,
    public: PublicKey,
}

impl PartialEq for Known {
    fn eq(&self, other: &Self) -> bool {
        self.public == other.public
    }
}

impl Known {
    fn new(key: [u8; 32]) -> Result<Self, Reject> {
        match VerificationKey::try_from(key) {
            Ok(inner) => Ok(Self { inner, public: PublicKey(key) }),
            Err(_) => Err(Reject::Malformed("public key")),
        }
    }
}

/// This replica's key pairs and the members' public keys.
#[derive(Clone)]
pub struct Ed25519 {
    me: ReplicaId,
    own: Vec<(PublicKey, SigningKey)>,
    members: ByMembership<Known>,
}

impl Ed25519 {
    /// Makes one of this replica's secret key and the public keys that all members have from the first membership on.
    ///
    /// # Errors
    /// When a public key is invalid.
    pub fn new(
        me: ReplicaId,
        secret: [u8; 32],
        members: impl IntoIterator<Item = (ReplicaId, PublicKey)>,
    ) -> Result<Self, Reject> {
        Self::since(MembershipId::FIRST, me, &[Secret::new(secret)], members)
    }

    /// The same of several secret keys, and of the public keys that all members have in this membership.
    ///
    /// # Errors
    /// When a public key is invalid.
    pub fn since(
        membership: MembershipId,
        me: ReplicaId,
        secrets: &[Secret],
        members: impl IntoIterator<Item = (ReplicaId, PublicKey)>,
    ) -> Result<Self, Reject> {
        let mut keys = Self { me, own: Vec::new(), members: ByMembership::default() };
        for (id, key) in members {
            keys.members.know(id, membership, Known::new(key.0)?);
        }
        secrets.iter().for_each(|secret| keys.hold(secret));
        Ok(keys)
    }

    /// The public key that belongs to a secret one.
    pub fn public(secret: [u8; 32]) -> PublicKey {
        PublicKey(VerificationKeyBytes::from(&SigningKey::from(secret)).into())
    }

    /// The public key of a member, as it is first known.
    pub fn public_of(&self, member: ReplicaId) -> Option<[u8; 32]> {
        self.members.first_of(member).map(|key| *key.public.bytes())
    }

    /// Whether this replica holds the secret half of this public key.
    pub fn holds(&self, public: &[u8; 32]) -> bool {
        self.own.iter().any(|(own, _)| own.bytes() == public)
    }

    /// The key of a member in a membership. One who joins later may not know the keys of before; the first ones that he knows stand for them,
    /// so that he can check what he is shown of earlier times.
    fn known(&self, member: ReplicaId, membership: MembershipId) -> Option<&Known> {
        self.members.of(member, membership).or_else(|| self.members.first_of(member))
    }

    /// The key with which this replica signs in a membership, if it holds it.
    fn own(&self, membership: MembershipId) -> Option<&SigningKey> {
        let public = self.known(self.me, membership)?.public;
        self.own.iter().find(|(own, _)| *own == public).map(|(_, key)| key)
    }

    fn inner(signature: &Signature) -> Option<Inner> {
        Some(Inner::from_bytes(signature.bytes().first_chunk::<64>()?))
    }
}

impl fmt::Debug for Ed25519 {
    /// Without the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.members.first().map(|(id, key)| (id, key.public))).finish()
    }
}

impl Authenticator for Ed25519 {
    fn know(&mut self, member: ReplicaId, membership: MembershipId, key: &[u8; 32]) {
        if let (Ok(_), Ok(known)) = (PublicKey::new(*key), Known::new(*key)) {
            self.members.know(member, membership, known);
        }
    }
    fn hold(&mut self, secret: &Secret) {
        let public = secret.public();
        if !self.holds(public.bytes()) {
            self.own.push((public, SigningKey::from(*secret.bytes())));
        }
    }
    fn can_sign(&self, membership: MembershipId) -> bool {
        self.own(membership).is_some()
    }
    fn sign(&self, text: &Text) -> Signature {
        let Some(own) = self.own(text.membership) else { return Signature::NONE };
        // 64 bytes always fit.
        Signature::new(&own.sign(&text.bytes).to_bytes()).unwrap_or(Signature::NONE)
    }

    fn verify(&self, signer: ReplicaId, text: &Text, signature: &Signature) -> bool {
        let (Some(key), Some(inner)) = (self.known(signer, text.membership), Self::inner(signature)) else {
            return false;
        };
        let old =
            || self.members.first_of(signer).is_some_and(|old| old.inner.verify(&inner, &text.bytes).is_ok());
        key.inner.verify(&inner, &text.bytes).is_ok() || (planted("smart-old-key") && old())
    }

    fn key(&self, member: ReplicaId, membership: MembershipId) -> Option<PublicKey> {
        self.known(member, membership).map(|key| key.public)
    }

    fn verify_all(&self, claims: &[Claim<'_>]) -> bool {
        if claims.len() < TOGETHER_MIN || planted("smart-old-key") {
            return claims.iter().all(|(signer, text, sig)| self.verify(*signer, text, sig));
        }
        let mut verifier = batch::Verifier::new();
        let mut hasher = factors();
        for (signer, text, signature) in claims {
            let key = self.known(*signer, text.membership);
            let (Some(key), Some(inner)) = (key, Self::inner(signature)) else {
                return false;
            };
            let key = key.public.bytes();
            hasher.update(key);
            hasher.update(signature.bytes());
            hasher.update(&(text.bytes.len() as u64).to_le_bytes());
            hasher.update(&text.bytes);
            verifier.queue((VerificationKeyBytes::from(*key), inner, &text.bytes));
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
