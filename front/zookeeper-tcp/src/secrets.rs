//! Passwords of sessions, and their digests; nonces.

use quorate_zookeeper::command::DIGEST_BYTES;
use quorate_zookeeper::server::{NONCE_BYTES, PASSWORD_BYTES, Secrets};

/// What the digests are derived for.
const PURPOSE: &str = "quorate zookeeper 2026-11 digest of a session's password";

/// Passwords from the system's source of randomness.
pub(crate) struct Real;

/// Fills bytes that nobody guesses.
pub(crate) fn fill(bytes: &mut [u8]) {
    aws_lc_rs::rand::fill(bytes).expect("the system has a source of randomness");
}

/// The digest of a session's password, as it is kept.
pub fn session_digest(password: &[u8]) -> [u8; DIGEST_BYTES] {
    blake3::derive_key(PURPOSE, password)
}

impl Secrets for Real {
    fn password(&mut self) -> [u8; PASSWORD_BYTES] {
        let mut password = [0; PASSWORD_BYTES];
        fill(&mut password);
        password
    }

    fn digest(&self, password: &[u8]) -> [u8; DIGEST_BYTES] {
        session_digest(password)
    }

    fn nonce(&mut self) -> [u8; NONCE_BYTES] {
        let mut nonce = [0; NONCE_BYTES];
        fill(&mut nonce);
        nonce
    }
}
