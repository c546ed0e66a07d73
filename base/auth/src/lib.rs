//! Authentication of what replicas say, as a part that can be replaced without touching a protocol.
//!
//! Two needs, kept apart. What must convince somebody who did not receive it himself is signed: an [`Authenticator`] makes and
//! checks such signatures. What only its receiver must believe is said over a link, which TLS protects. Where nobody lies nothing is
//! signed ([`Trusting`]).
//!
//! | | makes | checks | for |
//! | --- | --- | --- | --- |
//! | [`Ed25519`] | signatures | under ZIP-215 rules, alone or many at once with the same result | Byzantine faults |
//! | [`Keyed`] | short keyed hashes | by knowing everybody's key | simulators and tests: cheap and deterministic |
//! | [`Trusting`] | nothing | nothing | crash faults |
//!
//! Clients that sign do so with keys of their own ([`ClientKey`]), checked by [`RequestChecks`]. Those that trust themselves put a tag for each
//! replica under their requests ([`ClientMacs`]), which is hundreds of times cheaper and convinces its receiver only.
//!
//! Tests: base/auth/src/tests.rs.

mod ed25519;
mod keyed;
mod macs;
mod requests;
mod signature;

pub use ed25519::{Ed25519, PublicKey};
pub use keyed::Keyed;
pub use macs::{ClientMacs, Tag, is_tag, tag_at};
pub use requests::{ClientKey, KeyedClient, RequestChecks, RequestClaim, request_statement};
pub use signature::{
    SIGNATURE_MAX, Signature, Signed, bounded, decode_signed, put_signature, put_signed, read_signature,
    read_signed, write_signed,
};

use quorate_types::{Digest, ReplicaId};
use std::fmt::Debug;

/// What stands for a request: the digest of all its bytes.
pub fn digest_of_request(bytes: &[u8]) -> Digest {
    Digest::new(*blake3::hash(bytes).as_bytes())
}

/// A member, what it is to have signed, and its signature.
pub type Claim<'a> = (ReplicaId, &'a [u8], &'a Signature);

/// Makes this replica's signatures and checks those of all members.
pub trait Authenticator: Send + Debug {
    /// Signs a statement as this replica.
    fn sign(&self, statement: &[u8]) -> Signature;

    /// Whether this member signed this statement.
    fn verify(&self, signer: ReplicaId, statement: &[u8], signature: &Signature) -> bool;

    /// Whether all of these are right. All replicas come to the same result, which is that of checking one by one.
    fn verify_all(&self, claims: &[Claim<'_>]) -> bool {
        claims.iter().all(|(signer, statement, signature)| self.verify(*signer, statement, signature))
    }
}

/// Takes everybody's word: for links that are protected and members that at most crash.
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

/// With what a replica signs and checks: each of its instances is given its own [`Authenticator`] made of it.
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
    /// What one instance signs and checks with.
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
