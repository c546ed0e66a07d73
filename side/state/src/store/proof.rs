//! Proofs that a key has a value, or none, for anyone who knows the root.
//!
//! A proof holds the inner nodes on the key's way, with the digests of the children beside it, and the end of the way: a whole bucket, a
//! large entry (of another key, only the value's digest), or the node that has nothing for the key.
//!
//! Tests: `tests/all/store_proof.rs`.

use std::fmt;

use quorate_types::Digest;

use super::bucket::Entry;
use super::node::Child;
use super::rules;
use super::symbols::{agreeing, place_of};
use super::{BUCKET_BYTES, KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// A proof that a key has a certain value, or none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proof {
    /// From the top.
    levels: Vec<Level>,
    end: End,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Level {
    symbols: u32,
    skip: Vec<u8>,
    /// The digests of the children beside the way; of all children if the way ends here.
    digests: Vec<Digest>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum End {
    /// The last level has nothing for the key. Without levels: the store is empty.
    Nothing,
    /// All records of a bucket.
    Bucket(Vec<u8>),
    Large {
        key: Vec<u8>,
        value: Vec<u8>,
    },
    /// A large entry with another key.
    Other {
        key: Vec<u8>,
        value_bytes: u32,
        value: Digest,
    },
}

/// Why a proof proves nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProofError {
    /// The bytes are not a proof.
    Malformed,
    /// It is about another key, or another store.
    Wrong,
}

impl fmt::Display for ProofError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "bytes that are no proof",
            Self::Wrong => "a proof about another key or another store",
        })
    }
}

impl std::error::Error for ProofError {}

const NOTHING: u8 = 0;
const BUCKET: u8 = 1;
const LARGE: u8 = 2;
const OTHER: u8 = 3;

impl Proof {
    pub(super) fn new(top: &Child, key: &[u8]) -> Self {
        let (mut levels, mut child, mut depth) = (Vec::new(), top, 0);
        while let Child::Inner(inner) = child {
            let agreed = agreeing(inner.skip(), key, depth);
            depth += agreed;
            let ends = agreed < inner.skip().len();
            let place =
                if ends { None } else { Some(place_of(key, depth)).filter(|&place| inner.has(place)) };
            let beside = inner.places().filter(|&other| Some(other) != place);
            let digests = beside.map(|other| inner.child_digest(other)).collect();
            levels.push(Level { symbols: inner.symbols(), skip: inner.skip().to_vec(), digests });
            let Some(next) = place.and_then(|place| inner.child(place)) else {
                return Self { levels, end: End::Nothing };
            };
            child = next;
            depth += 1;
        }
        let end = match child {
            Child::Bucket(bucket) => End::Bucket(bucket.records().to_vec()),
            Child::Large(large) if *large.key == *key => {
                End::Large { key: key.to_vec(), value: large.value.to_vec() }
            }
            Child::Large(large) => End::Other {
                key: large.key.to_vec(),
                value_bytes: large.value.len() as u32,
                value: large.value_digest(),
            },
            Child::None | Child::Inner(_) => End::Nothing,
        };
        Self { levels, end }
    }

    /// The value that the key has in the store with this root; `None` if it has none.
    pub fn check(&self, root: &Digest, key: &[u8]) -> Result<Option<&[u8]>, ProofError> {
        let (mut places, mut depth) = (Vec::new(), 0);
        let mut ended = self.levels.is_empty();
        for level in &self.levels {
            let agreed = agreeing(&level.skip, key, depth);
            depth += agreed;
            let place = (agreed == level.skip.len()).then(|| place_of(key, depth));
            let place = place.filter(|place| level.symbols & 1 << place != 0);
            places.push(place);
            depth += 1;
            if ended || places.len() == self.levels.len() {
                ended = place.is_none();
            } else if place.is_none() {
                return Err(ProofError::Wrong);
            }
        }
        if ended != matches!(self.end, End::Nothing) && !self.levels.is_empty() {
            return Err(ProofError::Wrong);
        }
        let mut buffer = Vec::new();
        let (value, mut below) = self.end_of(key, &mut buffer)?;
        for (level, place) in self.levels.iter().zip(places).rev() {
            below = level.digest(place, below, &mut buffer)?;
        }
        if below == *root { Ok(value) } else { Err(ProofError::Wrong) }
    }

    /// The key's value according to the end of the way, and the digest there.
    fn end_of(&self, key: &[u8], buffer: &mut Vec<u8>) -> Result<(Option<&[u8]>, Digest), ProofError> {
        Ok(match &self.end {
            End::Nothing => (None, rules::empty()),
            End::Bucket(records) => {
                let entries = read_records(records).ok_or(ProofError::Malformed)?;
                let value = entries.iter().find(|entry| entry.0 == key).map(|entry| entry.1);
                (value, rules::leaf(&entries, buffer))
            }
            End::Large { key: at, value } => {
                let digest = rules::large(at, value.len() as u32, &rules::large_value(value));
                ((at == key).then_some(value), digest)
            }
            End::Other { key: at, .. } if at == key => return Err(ProofError::Wrong),
            End::Other { key: at, value_bytes, value } => (None, rules::large(at, *value_bytes, value)),
        })
    }

    /// The bytes of the proof, for [`Proof::decode`].
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = (self.levels.len() as u32).to_le_bytes().to_vec();
        for level in &self.levels {
            bytes.extend_from_slice(&level.symbols.to_le_bytes());
            put_bytes(&mut bytes, &level.skip);
            bytes.push(level.digests.len() as u8);
            level.digests.iter().for_each(|digest| bytes.extend_from_slice(digest.bytes()));
        }
        match &self.end {
            End::Nothing => bytes.push(NOTHING),
            End::Bucket(records) => {
                bytes.push(BUCKET);
                put_bytes(&mut bytes, records);
            }
            End::Large { key, value } => {
                bytes.push(LARGE);
                put_bytes(&mut bytes, key);
                put_bytes(&mut bytes, value);
            }
            End::Other { key, value_bytes, value } => {
                bytes.push(OTHER);
                put_bytes(&mut bytes, key);
                bytes.extend_from_slice(&value_bytes.to_le_bytes());
                bytes.extend_from_slice(value.bytes());
            }
        }
        bytes
    }

    /// Reads a proof. Allocates only in proportion to the bytes that are there.
    pub fn decode(bytes: &[u8]) -> Result<Self, ProofError> {
        let mut rest = bytes;
        match decode(&mut rest) {
            Some(proof) if rest.is_empty() => Ok(proof),
            _ => Err(ProofError::Malformed),
        }
    }
}

impl Level {
    /// The node's digest, from those beside the way and the one on it.
    fn digest(&self, place: Option<u32>, below: Digest, buffer: &mut Vec<u8>) -> Result<Digest, ProofError> {
        let mut digests = self.digests.clone();
        if let Some(place) = place {
            let at = (self.symbols & ((1 << place) - 1)).count_ones() as usize;
            if at > digests.len() {
                return Err(ProofError::Wrong);
            }
            digests.insert(at, below);
        }
        if digests.len() != self.symbols.count_ones() as usize {
            return Err(ProofError::Wrong);
        }
        Ok(rules::inner(self.symbols, digests.into_iter(), &self.skip, buffer))
    }
}

fn decode(rest: &mut &[u8]) -> Option<Proof> {
    let count = u32::from_le_bytes(*take_chunk(rest)?);
    let mut levels = Vec::new();
    for _ in 0..count {
        let symbols = u32::from_le_bytes(*take_chunk(rest)?);
        let skip = take_bytes(rest, 2 * KEY_BYTES_MAX)?.to_vec();
        let [digests] = *take_chunk(rest)?;
        if symbols >> 17 != 0 || symbols.count_ones() < 2 || skip.iter().any(|&nibble| nibble > 15) {
            return None;
        }
        let digests = (0..digests).map(|_| take_digest(rest)).collect::<Option<_>>()?;
        levels.push(Level { symbols, skip, digests });
    }
    let [kind] = *take_chunk(rest)?;
    let end = match kind {
        NOTHING => End::Nothing,
        BUCKET => End::Bucket(take_bytes(rest, BUCKET_BYTES as usize)?.to_vec()),
        LARGE => {
            let key = take_bytes(rest, KEY_BYTES_MAX)?.to_vec();
            End::Large { key, value: take_bytes(rest, VALUE_BYTES_MAX)?.to_vec() }
        }
        OTHER => End::Other {
            key: take_bytes(rest, KEY_BYTES_MAX)?.to_vec(),
            value_bytes: u32::from_le_bytes(*take_chunk(rest)?),
            value: take_digest(rest)?,
        },
        _ => return None,
    };
    Some(Proof { levels, end })
}

fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    to.extend_from_slice(bytes);
}

fn take_bytes<'a>(rest: &mut &'a [u8], max: usize) -> Option<&'a [u8]> {
    let length = u32::from_le_bytes(*take_chunk(rest)?) as usize;
    if length > max { None } else { rest.split_off(..length) }
}

fn take_chunk<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (chunk, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(chunk)
}

fn take_digest(rest: &mut &[u8]) -> Option<Digest> {
    Some(Digest::new(*take_chunk(rest)?))
}

/// The entries of these records, if they are sorted and there are some.
fn read_records(mut rest: &[u8]) -> Option<Vec<Entry<'_>>> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    while !rest.is_empty() {
        let key = u32::from_le_bytes(*take_chunk(&mut rest)?) as usize;
        let value = u32::from_le_bytes(*take_chunk(&mut rest)?) as usize;
        let entry = (rest.split_off(..key)?, rest.split_off(..value)?);
        if entries.last().is_some_and(|last| last.0 >= entry.0) {
            return None;
        }
        entries.push(entry);
    }
    (!entries.is_empty()).then_some(entries)
}
