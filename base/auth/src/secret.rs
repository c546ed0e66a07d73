//! A secret key on its way to whoever signs with it.

use crate::{Ed25519, PublicKey, Signature};
use ed25519_zebra::SigningKey;
use std::fmt;

/// The secret key of a member: 32 random bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

impl Secret {
    /// The key with these bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
    /// Its bytes.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
    /// Signs these bytes. A replica signs through its [`Authenticator`](crate::Authenticator), which knows in which membership which key counts.
    pub fn sign(&self, bytes: &[u8]) -> Signature {
        // 64 bytes always fit.
        Signature::new(&SigningKey::from(self.0).sign(bytes).to_bytes()).unwrap_or(Signature::NONE)
    }
    /// The public key that belongs to it, under Ed25519.
    pub fn public(&self) -> PublicKey {
        Ed25519::public(self.0)
    }
}

impl fmt::Debug for Secret {
    /// Shows the public half.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret(of {:?})", self.public())
    }
}
