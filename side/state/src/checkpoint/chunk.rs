//! The bytes of a chunk: the number of entries, then each entry's lengths, key and value. The digest of a chunk is the tree's own digest at
//! its path, so a verified chunk is exactly the subtree that the manifest means.

use std::fmt;

use bytes::Bytes;
use quorate_types::Digest;

use super::manifest::ChunkEntry;
use crate::store::{ChunkError, Path, ReplaceError, Version, digest_of};

/// The length of the count before the entries.
const HEAD: usize = 4;
/// The length of the two lengths before a key and a value. It equals what an entry costs in the store beside its bytes.
const ENTRY_HEAD: usize = 8;

/// One entry of a chunk: its key and its value.
pub type Entry<'a> = (&'a [u8], &'a [u8]);

/// Why bytes are not the part of an image that they should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartError {
    /// They can not be decoded; the text says why.
    Malformed(&'static str),
    /// They can be decoded, but their digest is another one.
    WrongDigest,
    /// Their entries can't make a chunk there.
    Chunk(ChunkError),
    /// The image has no such part.
    NoSuchPart,
}

impl fmt::Display for PartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => write!(f, "a part that does not decode: {what}"),
            Self::WrongDigest => write!(f, "a part with another digest"),
            Self::Chunk(why) => write!(f, "a part that is no chunk: {why}"),
            Self::NoSuchPart => write!(f, "no part of the image"),
        }
    }
}

impl std::error::Error for PartError {}

impl From<ReplaceError> for PartError {
    fn from(why: ReplaceError) -> Self {
        match why {
            ReplaceError::Entries(why) => Self::Chunk(why),
            ReplaceError::Digest(_) => Self::WrongDigest,
        }
    }
}

/// How long a chunk's bytes are when its entries cost this much.
pub(crate) fn encoded_len(cost: u32) -> usize {
    cost as usize + HEAD
}

/// The bytes of a chunk with these entries, which come in key order.
pub fn encode_chunk<'a>(entries: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Bytes {
    let mut out = vec![0; HEAD];
    let mut count = 0_u32;
    for (key, value) in entries {
        out.extend_from_slice(&(key.len() as u32).to_le_bytes());
        out.extend_from_slice(&(value.len() as u32).to_le_bytes());
        out.extend_from_slice(key);
        out.extend_from_slice(value);
        count += 1;
    }
    out[..HEAD].copy_from_slice(&count.to_le_bytes());
    out.into()
}

/// Appends the bytes of one of a version's chunks: the store's own leaves, as they are.
pub(crate) fn append_chunk(version: &Version, entry: &ChunkEntry, out: &mut Vec<u8>) {
    let from = out.len();
    out.extend_from_slice(&[0; HEAD]);
    let count = version.records_at(&entry.path, out) as u32;
    out[from..from + HEAD].copy_from_slice(&count.to_le_bytes());
    assert!(
        out.len() - from == encoded_len(entry.bytes),
        "INV-KEEP-1 a chunk has the length that its tree says"
    );
}

/// The entries in a chunk's bytes, in strict key order, or an error. Allocates only in proportion to the bytes that are there.
pub fn decode_chunk(bytes: &[u8]) -> Result<Vec<Entry<'_>>, PartError> {
    let (count, mut rest) = bytes.split_first_chunk::<HEAD>().ok_or(PartError::Malformed("its count"))?;
    let count = u32::from_le_bytes(*count) as usize;
    if count == 0 || count > rest.len() / ENTRY_HEAD {
        return Err(PartError::Malformed("its count"));
    }
    let mut entries: Vec<Entry<'_>> = Vec::with_capacity(count);
    for _ in 0..count {
        let (entry, after) = decode_entry(rest).ok_or(PartError::Malformed("an entry's lengths"))?;
        if entries.last().is_some_and(|last| last.0 >= entry.0) {
            return Err(PartError::Malformed("the order of its keys"));
        }
        entries.push(entry);
        rest = after;
    }
    if rest.is_empty() { Ok(entries) } else { Err(PartError::Malformed("bytes after its entries")) }
}

fn decode_entry(bytes: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let (key_len, rest) = bytes.split_first_chunk::<4>()?;
    let (value_len, rest) = rest.split_first_chunk::<4>()?;
    let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*key_len) as usize)?;
    let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*value_len) as usize)?;
    Some(((key, value), rest))
}

/// Whether these bytes are the chunk with this digest at this path.
pub fn verify_chunk(path: &Path, digest: &Digest, bytes: &[u8]) -> Result<(), PartError> {
    let entries = decode_chunk(bytes)?;
    let found = digest_of(path, &mut entries.iter().copied()).map_err(PartError::Chunk)?;
    if found == *digest { Ok(()) } else { Err(PartError::WrongDigest) }
}
