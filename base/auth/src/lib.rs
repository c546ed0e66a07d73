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
mod ed25519;
mod keyed;
mod macs;
mod requests;
mod signature;

pub use administration::{administration_statement, is_signed_by};
pub use ed25519::{Ed25519, PublicKey};
pub use keyed::Keyed;
pub use macs::{ClientMacs, Tag, is_tag, tag_at};
pub use requests::{
    CheckWork, ClientKey, KeyedClient, RequestChecks, RequestClaim, StatementSigner, request_statement,
};
pub use signature::{
    SIGNATURE_MAX, Signature, Signed, bounded, decode_signed, put_signature, put_signed, read_signature,
    read_signed, write_signed,
};

use quorate_types::{Digest, ReplicaId};
use std::fmt::Debug;

/// The digest of all bytes of a request, which stands for the request.
pub fn digest_of_request(bytes: &[u8]) -> Digest {
    Digest::new(*blake3::hash(bytes).as_bytes())
}

/// A member, a statement, and the signature that the member is said to have made of it.
pub type Claim<'a> = (ReplicaId, &'a [u8], &'a Signature);

/// Makes this replica's signatures and checks those of all members.
pub trait Authenticator: Send + Debug {
    /// Signs a statement as this replica.
    fn sign(&self, statement: &[u8]) -> Signature;

    /// Whether this member signed this statement.
    fn verify(&self, signer: ReplicaId, statement: &[u8], signature: &Signature) -> bool;

    /// A member joined, with this public key. The key that is known for a member stays.
    fn know(&mut self, member: ReplicaId, key: &[u8; 32]) {
        let _ = (member, key);
    }

    /// The public key with which anybody can check what this member signed. There is none where nothing is signed, and in simulators.
    fn key(&self, _member: ReplicaId) -> Option<PublicKey> {
        None
    }
    /// Whether all of these are right. All replicas come to the same result, which is that of checking one by one.
    fn verify_all(&self, claims: &[Claim<'_>]) -> bool {
        claims.iter().all(|(signer, statement, signature)| self.verify(*signer, statement, signature))
    }
}

/// Believes everyone: for protected links and members that only crash.
#[derive(Clone, Copy, Debug)]
pub struct Trusting;

impl Authenticator for Trusting {
    fn sign(&self, _statement: &[u8]) -> Signature {
        Signature::NONE
    }
    fn verify(&self, _signer: ReplicaId, _statement: &[u8], _signature: &Signature) -> bool {
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
    /// The public key of a member's signatures, if it is known and there are such keys.
    pub fn public_of(&self, member: ReplicaId) -> Option<[u8; 32]> {
        match self {
            Self::Ed25519(keys) => keys.public_of(member),
            Self::Trusting | Self::Keyed(_) => None,
        }
    }

    /// The authenticator of one instance.
    pub fn build(&self) -> Box<dyn Authenticator> {
        match self {
            Self::Trusting => Box::new(Trusting),
            Self::Keyed(keyed) => Box::new(*keyed),
            Self::Ed25519(keys) => keys.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
