//! Hashes of passwords, and new tokens.
//!
//! Hashes are made and compared here, before anything is ordered: that takes long on purpose, and needs random numbers. Only the hash gets
//! into the log and the state. It is PBKDF2 with HMAC-SHA-256; the number of iterations stands in the hash. Hashes that were taken over from
//! an etcd are bcrypt's, and stay so until the password changes. Tests: `password/tests.rs`.

use crate::errors::{INTERNAL, Refusal};
use aws_lc_rs::{pbkdf2, rand};
use quorate_etcd::moving::bcrypt;
use std::num::NonZeroU32;

#[cfg(test)]
mod tests;

const REPEATS: NonZeroU32 = NonZeroU32::new(200_000).unwrap();
/// The most iterations that a hash may name; one that names more was not made here.
const REPEATS_MAX: u32 = 2_000_000;
const SALT_BYTES: usize = 16;
const HASH_BYTES: usize = 32;
/// Number of characters in a token.
const TOKEN_CHARS: usize = 32;
const CHARS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The error when the system has no random numbers.
pub(crate) const NO_CHANCE: Refusal =
    Refusal::new(INTERNAL, "etcdserver: the system gives no random numbers");

fn chance<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).ok().map(|()| bytes)
}

/// A new hash of a password: the number of iterations, the salt, the hash.
pub(crate) fn hash(password: &[u8]) -> Option<Vec<u8>> {
    let salt: [u8; SALT_BYTES] = chance()?;
    let mut hash = [0; HASH_BYTES];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, REPEATS, &salt, password, &mut hash);
    Some([&REPEATS.get().to_be_bytes()[..], &salt, &hash].concat())
}

/// Whether a password has this hash.
pub(crate) fn matches(password: &[u8], hash: &[u8]) -> bool {
    if bcrypt::is_hash(hash) {
        return bcrypt::matches(password, hash);
    }
    let Some((repeats, rest)) = hash.split_first_chunk() else { return false };
    let Some((salt, hash)) = rest.split_first_chunk::<SALT_BYTES>() else { return false };
    let Some(repeats) = NonZeroU32::new(u32::from_be_bytes(*repeats)) else { return false };
    repeats.get() <= REPEATS_MAX
        && hash.len() == HASH_BYTES
        && pbkdf2::verify(pbkdf2::PBKDF2_HMAC_SHA256, repeats, salt, password, hash).is_ok()
}

/// A random number.
pub(crate) fn number() -> Option<u64> {
    chance().map(u64::from_le_bytes)
}

/// A random token that can not be guessed.
pub(crate) fn token() -> Option<String> {
    let bytes: [u8; TOKEN_CHARS] = chance()?;
    Some(bytes.iter().map(|byte| char::from(CHARS[usize::from(byte & 63)])).collect())
}
