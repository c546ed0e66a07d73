//! The bytes of block headers and record headers, drawn in docs/formats/log.md.
//!
//! Everything read here may be damaged, torn, stale or foreign. A length or offset is compared with the bytes that are there before it is
//! used. Golden bytes: `format/tests.rs`.

use bytes::Bytes;
use crc32c::{crc32c, crc32c_append};
use quorate_types::{InstanceId, RecordId};

/// Blocks begin and end at multiples of this, so no later write touches a sector that holds synced data.
pub const SECTOR: usize = 512;
/// The format that this program writes, and the newest it reads.
pub const FORMAT_VERSION: u16 = 1;
pub(crate) const BLOCK_HEADER: usize = 64;
pub(crate) const RECORD_HEADER: usize = 24;
/// The offset of the header's own checksum, which covers all bytes before it.
const HEADER_CRC: usize = 60;
pub(crate) const MAGIC: [u8; 4] = *b"QLOG";

/// A record: what a protocol hands in and gets back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The instance that it belongs to.
    pub instance: InstanceId,
    /// Its kind, as the protocol numbers its kinds.
    pub kind: u8,
    /// A small part that the protocol makes.
    pub head: Bytes,
    /// A batch, shared with others that hold it. It is copied only if it is very small.
    pub payload: Bytes,
}

impl Record {
    /// How many bytes it takes inside a block.
    pub(crate) fn stored_len(&self) -> u64 {
        RECORD_HEADER as u64 + self.head.len() as u64 + self.payload.len() as u64
    }
}

/// The first 64 bytes of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    pub(crate) log_id: u64,
    /// Where in the log this block begins.
    pub(crate) position: u64,
    /// The length of the whole block with its padding.
    pub(crate) len: u32,
    pub(crate) count: u32,
    /// The number of the first record; without records, that of the next one.
    pub(crate) first: u64,
    /// How far a sync had completed when this block was made.
    pub(crate) synced_to: u64,
    /// How often this log was opened for writing, from 1.
    pub(crate) life: u32,
    /// The header checksum of the block before; 0 for the first block.
    pub(crate) previous: u32,
    /// Checksum over the checksums of the records.
    pub(crate) body: u32,
}

/// Why there is no block of this log at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// A block of this log at the right position, in a format that this program does not know.
    Newer(u16),
    /// Anything else.
    Because(&'static str),
}

impl BlockHeader {
    /// The header's bytes, and the checksum by which the next block names this one.
    pub(crate) fn encode(&self) -> ([u8; BLOCK_HEADER], u32) {
        let mut bytes = [0; BLOCK_HEADER];
        let mut at = 0;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(&MAGIC);
        put(&FORMAT_VERSION.to_le_bytes());
        put(&0u16.to_le_bytes());
        put(&self.log_id.to_le_bytes());
        put(&self.position.to_le_bytes());
        put(&self.len.to_le_bytes());
        put(&self.count.to_le_bytes());
        put(&self.first.to_le_bytes());
        put(&self.synced_to.to_le_bytes());
        put(&self.life.to_le_bytes());
        put(&self.previous.to_le_bytes());
        put(&self.body.to_le_bytes());
        let crc = crc32c(&bytes[..HEADER_CRC]);
        bytes[HEADER_CRC..].copy_from_slice(&crc.to_le_bytes());
        (bytes, crc)
    }

    /// Reads the header that a block of log `log_id` has at `position`, with its own checksum.
    pub(crate) fn decode(bytes: &[u8], log_id: u64, position: u64) -> Result<(Self, u32), Bad> {
        let because = |why| Err(Bad::Because(why));
        let Some(bytes) = bytes.first_chunk::<BLOCK_HEADER>() else { return because("end of segment") };
        if bytes[..4] != MAGIC {
            return because("no block begins here");
        }
        let crc = u32_at(bytes, HEADER_CRC);
        if crc32c(&bytes[..HEADER_CRC]) != crc {
            return because("the block header's checksum is wrong");
        }
        if u64_at(bytes, 8) != log_id {
            return because("the block belongs to another log");
        }
        if u64_at(bytes, 16) != position {
            return because("the block belongs to another place");
        }
        let version = u16_at(bytes, 4);
        if version > FORMAT_VERSION {
            return Err(Bad::Newer(version));
        }
        if version == 0 || u16_at(bytes, 6) != 0 {
            return because("the block header has a version or flags that no program writes");
        }
        let header = Self {
            log_id,
            position,
            len: u32_at(bytes, 24),
            count: u32_at(bytes, 28),
            first: u64_at(bytes, 32),
            synced_to: u64_at(bytes, 40),
            life: u32_at(bytes, 48),
            previous: u32_at(bytes, 52),
            body: u32_at(bytes, 56),
        };
        if header.len == 0 || !(header.len as usize).is_multiple_of(SECTOR) {
            return because("the block's length is no multiple of 512");
        }
        if header.synced_to > position || !header.synced_to.is_multiple_of(SECTOR as u64) {
            return because("the block's synced mark is no place before the block");
        }
        Ok((header, crc))
    }
}

/// Appends the record's header and head to `out`. Returns the checksum of the whole record, with its payload.
pub(crate) fn encode_record_head(id: RecordId, record: &Record, out: &mut Vec<u8>) -> u32 {
    let start = out.len();
    let body = (record.head.len() + record.payload.len()) as u32;
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&body.to_le_bytes());
    out.extend_from_slice(&(record.head.len() as u32).to_le_bytes());
    out.extend_from_slice(&record.instance.number().to_le_bytes());
    out.extend_from_slice(&[record.kind, 0]);
    out.extend_from_slice(&id.number().to_le_bytes());
    out.extend_from_slice(&record.head);
    let crc = crc32c_append(crc32c(&out[start + 4..]), &record.payload);
    out[start..start + 4].copy_from_slice(&crc.to_le_bytes());
    crc
}

/// A record that was read back.
pub(crate) struct Decoded {
    pub(crate) id: RecordId,
    pub(crate) record: Record,
    pub(crate) crc: u32,
    pub(crate) len: usize,
}

/// Reads the record at the beginning of `bytes`, which may hold more after it. Copies nothing.
pub(crate) fn decode_record(bytes: &Bytes) -> Result<Decoded, &'static str> {
    let Some(header) = bytes.first_chunk::<RECORD_HEADER>() else { return Err("a record is cut off") };
    let body = u32_at(header, 4) as usize;
    let head = u32_at(header, 8) as usize;
    let len = RECORD_HEADER.checked_add(body).filter(|len| *len <= bytes.len());
    let Some(len) = len else { return Err("a record is longer than its block") };
    if head > body || header[15] != 0 {
        return Err("a record's header contradicts itself");
    }
    let crc = u32_at(header, 0);
    if crc32c(&bytes[4..len]) != crc {
        return Err("a record's checksum is wrong");
    }
    let record = Record {
        instance: InstanceId::new(u16_at(header, 12)),
        kind: header[14],
        head: bytes.slice(RECORD_HEADER..RECORD_HEADER + head),
        payload: bytes.slice(RECORD_HEADER + head..len),
    };
    Ok(Decoded { id: RecordId::new(u64_at(header, 16)), record, crc, len })
}

/// The next multiple of a sector. Lengths here are far below the point where this could overflow.
pub(crate) const fn whole_sectors(len: u64) -> u64 {
    len.next_multiple_of(SECTOR as u64)
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    // Callers pass a header array and a constant place in it.
    *bytes[at..].first_chunk().expect("a field lies inside its header")
}
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

#[cfg(test)]
mod tests;
