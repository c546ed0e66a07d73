//! The bytes that digests of objects cover: format version 1. `tests/all/reference` has the same rules in their simplest form.
//!
//! A digest is BLAKE3 with a key for each kind of input, so that an input of one kind never has the digest of another kind.
//!
//! - A record is an entry's bytes: key length and value length (4 bytes each, little-endian), key, value.
//! - A bucket has four groups. An entry's group is the upper two bits of the half byte after the longest beginning that all keys of the
//!   bucket share; a key that ends there is in the first group. A group's digest covers its records in order; an empty group's is 32 zero
//!   bytes. The bucket's digest covers the four digests of its groups.
//! - The digest of an entry whose cost is over [`BUCKET_BYTES`](super::BUCKET_BYTES) covers its lengths, its key and the digest of its
//!   value.
//! - The digest of an inner node covers the set of its symbols (4 bytes, bit 0 for "ends here", bit n + 1 for half byte n), its children's
//!   digests in order, and the half bytes from its parent's symbol to the place where it branches, one byte each.
//! - An empty store has a digest of its own.

use quorate_types::Digest;

use super::BUCKET_BYTES;
use super::bucket::Entry;
use super::symbols::{common, place_of};

const EMPTY: &[u8; 32] = b"quorate objects 1: empty        ";
const GROUP: &[u8; 32] = b"quorate objects 1: group        ";
const BUCKET: &[u8; 32] = b"quorate objects 1: bucket       ";
const LARGE: &[u8; 32] = b"quorate objects 1: large entry  ";
const VALUE: &[u8; 32] = b"quorate objects 1: large value  ";
const INNER: &[u8; 32] = b"quorate objects 1: inner        ";

/// The number of groups of a bucket.
pub(super) const GROUPS: usize = 4;
/// The digest of a group without entries.
const NO_GROUP: Digest = Digest::new([0; 32]);

fn hash(kind: &[u8; 32], bytes: &[u8]) -> Digest {
    Digest::new(*blake3::keyed_hash(kind, bytes).as_bytes())
}

/// The digest of an empty store.
pub(super) fn empty() -> Digest {
    hash(EMPTY, &[])
}

/// The digest of a large entry's value.
pub(super) fn large_value(value: &[u8]) -> Digest {
    hash(VALUE, value)
}

/// The digest of an entry in a leaf of its own.
pub(super) fn large(key: &[u8], value_bytes: u32, value: &Digest) -> Digest {
    let mut hasher = blake3::Hasher::new_keyed(LARGE);
    hasher.update(&(key.len() as u32).to_le_bytes());
    hasher.update(&value_bytes.to_le_bytes());
    hasher.update(key);
    hasher.update(value.bytes());
    Digest::new(*hasher.finalize().as_bytes())
}

/// The digest of a group with these records, one after another.
pub(super) fn group(records: &[u8]) -> Digest {
    if records.is_empty() { NO_GROUP } else { hash(GROUP, records) }
}

/// The digest of a bucket with these groups.
pub(super) fn bucket(groups: &[Digest; GROUPS]) -> Digest {
    let mut bytes = [0; 32 * GROUPS];
    for (to, group) in bytes.chunks_exact_mut(32).zip(groups) {
        to.copy_from_slice(group.bytes());
    }
    hash(BUCKET, &bytes)
}

/// The group of an entry. `place` belongs to the first symbol of its key after the beginning that all keys of its bucket share.
pub(super) fn group_of(place: u32) -> usize {
    place.saturating_sub(1) as usize >> 2
}

/// The digest of a leaf with these entries. `buffer` is working space.
pub(super) fn leaf(entries: &[Entry<'_>], buffer: &mut Vec<u8>) -> Digest {
    let ((first, value), (last, _)) = (entries[0], entries[entries.len() - 1]);
    if entries.len() == 1 && cost(first, value) > BUCKET_BYTES {
        return large(first, value.len() as u32, &large_value(value));
    }
    let shared = common(first, last);
    let mut groups = [NO_GROUP; GROUPS];
    for entries in entries
        .chunk_by(|one, other| group_of(place_of(one.0, shared)) == group_of(place_of(other.0, shared)))
    {
        buffer.clear();
        for (key, value) in entries {
            buffer.extend_from_slice(&(key.len() as u32).to_le_bytes());
            buffer.extend_from_slice(&(value.len() as u32).to_le_bytes());
            buffer.extend_from_slice(key);
            buffer.extend_from_slice(value);
        }
        groups[group_of(place_of(entries[0].0, shared))] = group(buffer);
    }
    bucket(&groups)
}

/// The digest of an inner node. `buffer` is working space.
pub(super) fn inner(
    symbols: u32,
    children: impl Iterator<Item = Digest>,
    skip: &[u8],
    buffer: &mut Vec<u8>,
) -> Digest {
    buffer.clear();
    buffer.extend_from_slice(&symbols.to_le_bytes());
    for child in children {
        buffer.extend_from_slice(child.bytes());
    }
    buffer.extend_from_slice(skip);
    hash(INNER, buffer)
}

/// The cost of an entry, by which subtrees are measured.
pub(super) fn cost(key: &[u8], value: &[u8]) -> u64 {
    8 + key.len() as u64 + value.len() as u64
}

/// Whether a subtree with this many entries and this cost is a leaf.
pub(super) fn is_leaf(count: u64, cost: u64) -> bool {
    count == 1 || cost <= BUCKET_BYTES
}

/// The bytes of keys and values in this many entries with this cost.
pub(super) fn content((count, cost): (u64, u64)) -> u64 {
    cost - 8 * count
}
