//! Authentication of what replicas say. It can be replaced without touching a protocol.
//!
//! There are two needs. A statement that must convince replicas which did not receive it from its author is signed; an [`Authenticator`]
//! makes and checks such signatures. A message that only its receiver must believe is sent over a link, which TLS protects. Where no
//! replica lies, nothing is signed ([`Trusting`]).
//!
//! | | makes | checks | for |
//! | --- | --- | --- | --- |
//! | [`Ed25519`] | signatures | under ZIP-215 rules, alone or many at once with the same result | Byzantine faults |
//! | [`Keyed`] | short keyed hashes | by knowing everybody's key | simulators and tests: cheap and deterministic |
//! | [`Trusting`] | nothing | nothing | crash faults |
//!
//! Clients that sign do so with keys of their own ([`ClientKey`]), checked by [`RequestChecks`]. Other clients put a tag for each replica
//! under their requests ([`ClientMacs`]), which is hundreds of times cheaper but convinces only the replica that it is for.
//!
//! Tests: base/auth/src/tests.rs.

mod administration;
mod by_membership;
pub mod chain;
mod checkpoint;
mod ed25519;
pub mod fuzzing;
mod keyed;
mod macs;
mod requests;
mod secret;
mod signature;

pub use administration::{administration_statement, is_signed_by};
pub use chain::{MembershipLink, Unproven};
pub use checkpoint::{CHECKPOINT_PROOF_BYTES_MAX, CheckpointProof, KnownKeys, NoProof, checkpoint_statement};
pub use ed25519::{Ed25519, PublicKey};
pub use keyed::Keyed;
pub use macs::{ClientMacs, Tag, is_tag, tag_at};
pub use requests::{
    CheckWork, ClientKey, KeyedClient, RequestChecks, RequestClaim, StatementSigner, request_statement,
};
pub use secret::Secret;
pub use signature::{
    SIGNATURE_MAX, Signature, Signed, bounded, decode_signed, put_signature, put_signed, read_signature,
    read_signed, write_signed,
};

use quorate_types::{Digest, MembershipId, ReplicaId};
use std::fmt::Debug;

/// The digest of all bytes of a request, which stands for the request.
pub fn digest_of_request(bytes: &[u8]) -> Digest {
    Digest::new(*blake3::hash(bytes).as_bytes())
}

/// What a member signs: the bytes of a statement, and the membership in which it is made. That tells which key counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The membership.
    pub membership: MembershipId,
    /// The bytes; they name the membership, too.
    pub bytes: Vec<u8>,
}

/// A member, what it is said to have signed, and its signature.
pub type Claim<'a> = (ReplicaId, &'a Text, &'a Signature);

/// Makes this replica's signatures and checks those of all members. A member's key may be another one from some membership on; what was
/// signed in earlier memberships is still checked with the key of then.
pub trait Authenticator: Send + Debug {
    /// Signs as this replica, with the key that is its own in the text's membership. [`Signature::NONE`] where it does not hold that key: it
    /// never signs with another one.
    fn sign(&self, text: &Text) -> Signature;

    /// Whether this replica holds the key that is its own in this membership.
    fn can_sign(&self, _membership: MembershipId) -> bool {
        true
    }

    /// Whether this member signed this, with the key that was its own in the text's membership.
    fn verify(&self, signer: ReplicaId, text: &Text, signature: &Signature) -> bool;

    /// In this membership the member has this public key. What was said of a membership before stays.
    fn know(&mut self, member: ReplicaId, membership: MembershipId, key: &[u8; 32]) {
        let _ = (member, membership, key);
    }

    /// From now on this replica holds this secret key, too.
    fn hold(&mut self, secret: &Secret) {
        let _ = secret;
    }

    /// The public key with which anybody can check what this member signed in this membership. There is none where nothing is signed, and in
    /// simulators.
    fn key(&self, _member: ReplicaId, _membership: MembershipId) -> Option<PublicKey> {
        None
    }
    /// Whether all of these are right. All replicas come to the same result, which is that of checking one by one.
    fn verify_all(&self, claims: &[Claim<'_>]) -> bool {
        claims.iter().all(|(signer, text, signature)| self.verify(*signer, text, signature))
    }
}

/// Believes everyone: for protected links and members that only crash.
#[derive(Clone, Copy, Debug)]
pub struct Trusting;

impl Authenticator for Trusting {
    fn sign(&self, _text: &Text) -> Signature {
        Signature::NONE
    }
    fn verify(&self, _signer: ReplicaId, _text: &Text, _signature: &Signature) -> bool {
        true
    }
}

/// The keys with which a replica signs and checks. Each of its instances gets an [`Authenticator`] made of them.
#[derive(Clone, Debug)]
pub enum Keys {
    /// Nobody signs: crash faults.
    Trusting,
    /// Hashes that everybody can check: simulators and tests.
    Keyed(Keyed),
    /// Signatures: Byzantine faults. Shows only public keys.
    Ed25519(Box<Ed25519>),
}

impl Keys {
    /// The public key of a member's signatures, as the configuration names it, if there are such keys.
    pub fn public_of(&self, member: ReplicaId) -> Option<[u8; 32]> {
        match self {
            Self::Ed25519(keys) => keys.public_of(member),
            Self::Trusting | Self::Keyed(_) => None,
        }
    }

    /// Whether this replica holds the secret half of this public key. Where nothing is signed it needs none.
    pub fn holds(&self, public: &[u8; 32]) -> bool {
        match self {
            Self::Trusting => true,
            Self::Keyed(keyed) => keyed.holds(public),
            Self::Ed25519(keys) => keys.holds(public),
        }
    }

    /// From now on this replica holds this secret key, too.
    pub fn hold(&mut self, secret: &Secret) {
        match self {
            Self::Trusting => {}
            Self::Keyed(keyed) => keyed.hold(secret),
            Self::Ed25519(keys) => keys.hold(secret),
        }
    }

    /// The authenticator of one instance.
    pub fn build(&self) -> Box<dyn Authenticator> {
        match self {
            Self::Trusting => Box::new(Trusting),
            Self::Keyed(keyed) => Box::new(keyed.clone()),
            Self::Ed25519(keys) => keys.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
