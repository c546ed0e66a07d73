//! Looks for rot in a segment that is not written to any more, while the log is in use.
//!
//! The blocks must chain from the segment's start, every record must be right, and no block may lie after the end, since that would mean
//! that something before it is missing. The segment alone can not tell whether its last blocks are missing: the caller compares
//! [`ScrubOk::records`] with [`crate::Log::sealed_records`].
//!
//! Tests: scrub/tests.rs.

use crate::block::take_apart;
use crate::config::LogConfig;
use crate::format::{Bad, BlockHeader, SECTOR};
use crate::recover::{Chain, check_continues};
use bytes::Bytes;
use quorate_types::RecordId;
use std::fmt;
use std::ops::Range;

/// A segment without rot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubOk {
    /// The records that it holds: the first, and the one after the last. Compare with [`crate::Log::sealed_records`].
    pub records: Range<RecordId>,
    /// Where its last block ends.
    pub end: u64,
}

/// Where the bytes are not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rot {
    /// The first byte, within the segment, of the block that is damaged.
    pub offset: u64,
    /// What is wrong.
    pub why: String,
}

impl fmt::Display for Rot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.offset, self.why)
    }
}

impl std::error::Error for Rot {}

/// Checks one segment that is full: nothing is written to it any more, and everything in it was synced.
///
/// # Errors
/// The first block that is damaged or missing.
pub fn scrub(log_id: u64, config: &LogConfig, segment: u64, bytes: &Bytes) -> Result<ScrubOk, Rot> {
    let rot = |offset: usize, why: &str| Rot { offset: offset as u64, why: why.to_owned() };
    if bytes.len() as u64 != config.segment_bytes {
        return Err(rot(bytes.len(), "the segment has another length"));
    }
    let start = segment.saturating_mul(config.segment_bytes);
    let (mut chain, mut offset, mut first): (Option<Chain>, usize, u64) = (None, 0, 0);
    while offset < bytes.len() {
        let header = BlockHeader::decode(&bytes[offset..], log_id, start + offset as u64);
        let (header, crc) = match (header, &chain) {
            (Ok(found), None) => found,
            (Ok(found), Some(chain)) if check_continues(chain, &found.0).is_ok() => found,
            (Err(Bad::Because(why)), None) => return Err(rot(offset, why)),
            (Err(Bad::Newer(_)), _) => return Err(rot(offset, "a block claims to be of a newer format")),
            (Ok(_) | Err(Bad::Because(_)), Some(_)) => break,
        };
        take_apart(bytes, offset, &header, |_, _, _, _| {}).map_err(|why| rot(offset, why))?;
        if chain.is_none() {
            first = header.first;
        }
        chain = Some(Chain::after(&header, crc));
        offset += header.len as usize;
    }
    // What lies behind the last block was never written, or is stale. A block that was written after everything up to here and
    // more was synced says that one is damaged here.
    for at in (offset..bytes.len()).step_by(SECTOR) {
        let behind = BlockHeader::decode(&bytes[at..], log_id, start + at as u64);
        if behind.is_ok_and(|(header, _)| header.synced_to > start + offset as u64) {
            return Err(rot(
                offset,
                "no block continues the chain here, and one that was written later lies behind",
            ));
        }
    }
    let next = chain.map_or(first, |chain| chain.next);
    Ok(ScrubOk { records: RecordId::new(first)..RecordId::new(next), end: offset as u64 })
}

#[cfg(test)]
mod tests;
