//! Builds a block from queued records without copying their payloads, and reads the records of a block.

use crate::format::{
    BLOCK_HEADER, BlockHeader, RECORD_HEADER, Record, SECTOR, decode_record, encode_record_head,
    whole_sectors,
};
use bytes::Bytes;
use crc32c::crc32c_append;
use quorate_types::RecordId;

/// Payloads up to this size are copied: that is cheaper than one more piece of a vectored write.
const COPIED_MAX: usize = 128;
static PADDING: [u8; SECTOR] = [0; SECTOR];

/// A block, ready for one vectored write.
pub(crate) struct Built {
    pub(crate) pieces: Vec<Bytes>,
    /// The checksum by which the next block names this one.
    pub(crate) crc: u32,
}

/// Builds the block of `header`, whose `len`, `count` and `body` are computed here. Calls `placed` with the offset within the block and the
/// length of each record. Two allocations for all records together.
pub(crate) fn build(
    mut header: BlockHeader,
    records: &[Record],
    mut placed: impl FnMut(u32, u32),
) -> (BlockHeader, Built) {
    let copied = |record: &Record| record.payload.len() <= COPIED_MAX;
    let own: usize = records
        .iter()
        .map(|r| RECORD_HEADER + r.head.len() + if copied(r) { r.payload.len() } else { 0 })
        .sum();
    let mut buffer = Vec::with_capacity(BLOCK_HEADER + own);
    buffer.resize(BLOCK_HEADER, 0);
    let mut len = BLOCK_HEADER as u64;
    header.body = 0;
    for (record, number) in records.iter().zip(header.first..) {
        let crc = encode_record_head(RecordId::new(number), record, &mut buffer);
        header.body = crc32c_append(header.body, &crc.to_le_bytes());
        if copied(record) {
            buffer.extend_from_slice(&record.payload);
        }
        placed(len as u32, record.stored_len() as u32);
        len += record.stored_len();
    }
    header.len = whole_sectors(len) as u32;
    header.count = records.len() as u32;
    let (bytes, crc) = header.encode();
    buffer[..BLOCK_HEADER].copy_from_slice(&bytes);
    let padding = header.len as usize - len as usize;
    (header, Built { pieces: cut_into_pieces(buffer.into(), records, padding), crc })
}

/// Puts the payloads between the parts of `buffer` that come before and after them.
fn cut_into_pieces(mut buffer: Bytes, records: &[Record], padding: usize) -> Vec<Bytes> {
    let shared = records.iter().filter(|r| r.payload.len() > COPIED_MAX).count();
    let mut pieces = Vec::with_capacity(shared * 2 + 2);
    let mut own = BLOCK_HEADER;
    for record in records {
        own += RECORD_HEADER + record.head.len();
        if record.payload.len() > COPIED_MAX {
            pieces.push(buffer.split_to(own));
            pieces.push(record.payload.clone());
            own = 0;
        } else {
            own += record.payload.len();
        }
    }
    if !buffer.is_empty() {
        pieces.push(buffer);
    }
    if padding > 0 {
        pieces.push(Bytes::from_static(&PADDING[..padding]));
    }
    pieces
}

/// Reads the records of the block that begins at `offset` of `segment` and has this header. Calls `found` for each with its offset within
/// the segment and its length. The calls count only if this returns `Ok`.
pub(crate) fn take_apart(
    segment: &Bytes,
    offset: usize,
    header: &BlockHeader,
    mut found: impl FnMut(RecordId, Record, u32, u32),
) -> Result<(), &'static str> {
    let end = offset.checked_add(header.len as usize).filter(|end| *end <= segment.len());
    let Some(end) = end else { return Err("the block is longer than its segment") };
    if header.first == 0 || header.first.checked_add(u64::from(header.count)).is_none() {
        return Err("the block's record numbers are impossible");
    }
    let mut at = offset + BLOCK_HEADER;
    let mut body = 0;
    for number in header.first..header.first + u64::from(header.count) {
        let decoded = decode_record(&segment.slice(at..end))?;
        if decoded.id.number() != number {
            return Err("a record has another number than its place in the block");
        }
        body = crc32c_append(body, &decoded.crc.to_le_bytes());
        found(decoded.id, decoded.record, at as u32, decoded.len as u32);
        at += decoded.len;
    }
    if body != header.body {
        return Err("the records are not those that the block was written with");
    }
    if whole_sectors((at - offset) as u64) != u64::from(header.len) {
        return Err("the block's length does not fit its records");
    }
    Ok(())
}
