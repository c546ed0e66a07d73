//! Signatures under requests: they show everyone that the client sent the request, even replicas that did not receive it from the client.
//!
//! A client makes a key when it starts. Its public half is in the request that opens a session, and becomes part of the session's state. So
//! the decided log alone determines which signatures are right. A signature covers a hash of the cluster, the request's header and its
//! body. The header names the session and the number, so a signature fits no other request.
//!
//! The rules and factors are those of `ed25519.rs`: ZIP-215, and checking many gives the result of checking each. So it does not matter
//! which thread checks, or with which others a signature is checked. Tests: auth/tests/requests.rs.

use super::Keys;
use super::ed25519::{Ed25519, Factors, PublicKey, TOGETHER_MIN, factors};
use ed25519_zebra::{Signature as Inner, SigningKey, VerificationKey, VerificationKeyBytes, batch};
use quorate_types::{ClusterId, Digest, Random, SessionKey};
use quorate_wire::{REQUEST_HEADER, RequestSigner, SIGNATURE_BYTES};
use std::fmt;
use std::sync::Arc;

/// The statement that a request's signature covers. `signed`: the header and the body as they lie in the request.
pub fn request_statement(cluster: ClusterId, header: &[u8], body: &[u8]) -> Digest {
    let mut hasher = blake3::Hasher::new_derive_key("quorate 2026 signed request");
    hasher.update(&cluster.bits().to_le_bytes());
    hasher.update(header);
    hasher.update(body);
    Digest::new(*hasher.finalize().as_bytes())
}

/// A request's statement, the key that should have signed it, and the signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestClaim {
    /// The session's key.
    pub key: SessionKey,
    /// See [`request_statement`].
    pub statement: Digest,
    /// The bytes after the request's body.
    pub signature: [u8; SIGNATURE_BYTES],
}

/// How the signatures under requests are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestChecks {
    /// No signature is right: none is relied on.
    Nothing,
    /// Signatures of [`KeyedClient`] with this seed, for simulators.
    Keyed(u64),
    /// Signatures of [`ClientKey`].
    Ed25519,
}

impl RequestChecks {
    /// The checks that go with the replicas' own keys.
    pub const fn of(keys: &Keys) -> Self {
        match keys {
            Keys::Trusting => Self::Nothing,
            Keys::Keyed(keyed) => Self::Keyed(keyed.seed()),
            Keys::Ed25519(_) => Self::Ed25519,
        }
    }

    /// Whether a session may have these bytes as its key: only the holder of the secret can sign for such a key.
    pub fn is_key(self, key: &SessionKey) -> bool {
        match self {
            Self::Nothing => false,
            Self::Keyed(_) => true,
            Self::Ed25519 => PublicKey::new(*key.bytes()).is_ok(),
        }
    }

    /// Whether this signature is right.
    pub fn one(self, claim: &RequestClaim) -> bool {
        match self {
            Self::Nothing => false,
            Self::Keyed(seed) => claim.signature == keyed(seed, &claim.key, &claim.statement),
            Self::Ed25519 => VerificationKey::try_from(*claim.key.bytes()).is_ok_and(|key| {
                key.verify(&Inner::from_bytes(&claim.signature), claim.statement.bytes()).is_ok()
            }),
        }
    }

    /// Whether all of these are right.
    pub fn all(self, claims: &[RequestClaim]) -> bool {
        if self != Self::Ed25519 || claims.len() < TOGETHER_MIN {
            return claims.iter().all(|claim| self.one(claim));
        }
        let mut verifier = batch::Verifier::new();
        let mut hasher = factors();
        for RequestClaim { key, statement, signature } in claims {
            hasher.update(key.bytes());
            hasher.update(signature);
            hasher.update(statement.bytes());
            let key = VerificationKeyBytes::from(*key.bytes());
            verifier.queue((key, Inner::from_bytes(signature), statement.bytes()));
        }
        verifier.verify(Factors(hasher.finalize_xof())).is_ok()
    }

    /// Which of these are right. Checks them all at once, and one by one if that fails.
    pub fn each(self, claims: &[RequestClaim]) -> Vec<bool> {
        if self.all(claims) {
            return vec![true; claims.len()];
        }
        claims.iter().map(|claim| self.one(claim)).collect()
    }
}

/// Claims that any thread may check, at any time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckWork {
    /// The number of this work; its answer names it.
    pub id: u64,
    /// How the signatures are checked.
    pub checks: RequestChecks,
    /// The claims.
    pub claims: Arc<[RequestClaim]>,
}

impl CheckWork {
    /// Which of the claims are right, in their order.
    pub fn run(&self) -> Vec<bool> {
        self.checks.each(&self.claims)
    }
}

/// The key of a client, for one cluster.
#[derive(Clone)]
pub struct ClientKey {
    cluster: ClusterId,
    secret: SigningKey,
    public: SessionKey,
}

impl ClientKey {
    /// Of 32 random bytes.
    pub fn new(cluster: ClusterId, secret: [u8; 32]) -> Self {
        let public = SessionKey::new(*Ed25519::public(secret).bytes());
        Self { cluster, secret: SigningKey::from(secret), public }
    }
}

impl fmt::Debug for ClientKey {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientKey({:?})", self.public)
    }
}

/// Signs statements that are hashed already, of whatever kind.
pub trait StatementSigner: RequestSigner {
    /// The signature of a statement.
    fn sign_statement(&self, statement: &Digest) -> [u8; SIGNATURE_BYTES];
}

impl StatementSigner for ClientKey {
    fn sign_statement(&self, statement: &Digest) -> [u8; SIGNATURE_BYTES] {
        self.secret.sign(statement.bytes()).to_bytes()
    }
}

impl StatementSigner for KeyedClient {
    fn sign_statement(&self, statement: &Digest) -> [u8; SIGNATURE_BYTES] {
        keyed(self.seed, &self.key, statement)
    }
}

impl RequestSigner for ClientKey {
    fn key(&self) -> SessionKey {
        self.public
    }
    fn sign(&self, header: &[u8; REQUEST_HEADER], body: &[u8]) -> [u8; SIGNATURE_BYTES] {
        self.sign_statement(&request_statement(self.cluster, header, body))
    }
}

/// A client's key in a simulation. It signs with a hash that anyone who knows the seed can make.
#[derive(Clone, Copy, Debug)]
pub struct KeyedClient {
    cluster: ClusterId,
    seed: u64,
    key: SessionKey,
}

impl KeyedClient {
    /// The client with this number, in the simulation with this seed.
    pub fn new(cluster: ClusterId, seed: u64, number: u64) -> Self {
        let mut random = Random::new(seed ^ number.rotate_left(40));
        let mut key = [0; SessionKey::BYTES];
        key.chunks_mut(8).for_each(|word| word.copy_from_slice(&random.next().to_le_bytes()));
        Self { cluster, seed, key: SessionKey::new(key) }
    }
}

impl RequestSigner for KeyedClient {
    fn key(&self) -> SessionKey {
        self.key
    }
    fn sign(&self, header: &[u8; REQUEST_HEADER], body: &[u8]) -> [u8; SIGNATURE_BYTES] {
        self.sign_statement(&request_statement(self.cluster, header, body))
    }
}

/// A hash that need not withstand cryptanalysis, as in `keyed.rs`.
fn keyed(seed: u64, key: &SessionKey, statement: &Digest) -> [u8; SIGNATURE_BYTES] {
    let mut hasher = blake3::Hasher::new_derive_key("quorate 2026 signed request, simulated");
    hasher.update(&seed.to_le_bytes());
    hasher.update(key.bytes());
    hasher.update(statement.bytes());
    let mut signature = [0; SIGNATURE_BYTES];
    hasher.finalize_xof().fill(&mut signature);
    signature
}
