//! bcrypt, which etcd hashes passwords with: so that users who come from an etcd, or go to one, keep their passwords.
//!
//! Source: N. Provos and D. Mazières, "A Future-Adaptable Password Scheme" (1999). The text of a hash: `$2a$`, the cost in two digits, `$`, 22
//! characters of salt, 31 characters of hash. As in etcd, a password counts up to its 72nd byte. Tests: `bcrypt/tests.rs`.

use bcrypt::{HashParts, Version};

#[cfg(test)]
mod tests;

/// Bytes of a salt.
pub const SALT_BYTES: usize = 16;
/// The cost that etcd uses unless it is told otherwise: the logarithm of the number of rounds.
pub const COST: u32 = 10;
/// The highest cost of a hash that is compared: it takes some seconds.
pub const COST_MAX: u32 = 16;

const COST_MIN: u32 = 4;

/// Whether these bytes look like a hash of bcrypt. All others are ours.
pub fn is_hash(hash: &[u8]) -> bool {
    hash.starts_with(b"$2")
}

/// The text of a password's hash. A cost that bcrypt does not have is the nearest one.
pub fn hash(password: &[u8], salt: &[u8; SALT_BYTES], cost: u32) -> Vec<u8> {
    let cost = cost.clamp(COST_MIN, COST_MAX);
    let made = bcrypt::hash_with_salt(password, cost, *salt).expect("bcrypt has this cost");
    made.format_for_version(Version::TwoA).into_bytes()
}

/// Whether a password has this hash.
pub fn matches(password: &[u8], hash: &[u8]) -> bool {
    let text = std::str::from_utf8(hash).ok().filter(|_| cost(hash).is_some());
    text.is_some_and(|text| bcrypt::verify(password, text).is_ok_and(|matches| matches))
}

/// The cost of a hash, if it can be compared.
pub fn cost(hash: &[u8]) -> Option<u32> {
    let parts: HashParts = std::str::from_utf8(hash).ok()?.parse().ok()?;
    Some(parts.get_cost()).filter(|cost| (COST_MIN..=COST_MAX).contains(cost))
}
