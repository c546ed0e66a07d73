//! Who said what, among replicas that may lie: a MAC is BLAKE3, keyed for one sender and one receiver, over the kind
//! of a message, its number and the digest of its batch.
//!
//! Everybody can work out the keys: what they cost is measured, nothing is kept secret.

/// Size of a digest and of a MAC.
pub(crate) const BYTES: usize = 32;
/// The number of the load generator where replicas have theirs.
pub(crate) const LOAD: u8 = u8::MAX;
/// The kind of an answer to the load generator. Messages between replicas have smaller ones.
pub(crate) const ANSWER: u8 = u8::MAX;

/// 32 bytes that stand for a batch.
pub(crate) type Digest = [u8; BYTES];
/// What goes with a message that has no batch.
pub(crate) const NO_BATCH: Digest = [0; BYTES];

/// The digest of a batch.
pub(crate) fn digest(bytes: &[u8]) -> Digest {
    *blake3::hash(bytes).as_bytes()
}

/// The key for what `from` tells `to`.
pub(crate) struct Key([u8; 32]);

impl Key {
    pub(crate) fn of(from: u8, to: u8) -> Key {
        Key(blake3::derive_key("quorate floor: messages", &[from, to]))
    }

    /// The MAC over a message.
    pub(crate) fn mac(&self, kind: u8, number: u64, digest: &Digest) -> [u8; BYTES] {
        let mut said = [0u8; 1 + 8 + BYTES];
        said[0] = kind;
        said[1..9].copy_from_slice(&number.to_le_bytes());
        said[9..].copy_from_slice(digest);
        *blake3::keyed_hash(&self.0, &said).as_bytes()
    }
}

#[cfg(test)]
mod tests;
