//! MACs among replicas that may lie: a MAC is BLAKE3, keyed for one sender and one receiver, over the kind of a message, its number and the
//! digest of its batch.
//!
//! The keys are no secret: only the cost of MACs is measured.

/// Size of a digest and of a MAC.
pub(crate) const BYTES: usize = 32;
/// The number that stands for the load generator in place of a replica's number.
pub(crate) const LOAD: u8 = u8::MAX;
/// The number that stands for a caller with a connection of its own.
pub(crate) const CALLER: u8 = u8::MAX - 1;
/// The kind of an answer to the load generator. Messages between replicas have smaller ones.
pub(crate) const ANSWER: u8 = u8::MAX;

/// 32 bytes that stand for a batch.
pub(crate) type Digest = [u8; BYTES];
/// The digest in a message that has no batch.
pub(crate) const NO_BATCH: Digest = [0; BYTES];

/// The digest of a batch.
pub(crate) fn digest(bytes: &[u8]) -> Digest {
    *blake3::hash(bytes).as_bytes()
}

/// The key for messages from `from` to `to`.
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
