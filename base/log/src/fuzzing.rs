//! Bodies of fuzz targets, as functions that stable tests also run.

use crate::format::{BLOCK_HEADER, MAGIC, RECORD_HEADER};
use crate::{LogConfig, Record, RecoverError, Recovered, Recovery, Rewrite, SECTOR};
use bytes::Bytes;
use crc32c::{crc32c, crc32c_append};
use quorate_types::{Halt, RecordId};

/// The id of the log that the bytes are taken for.
pub const LOG_ID: u64 = 0x5155_4f52_4154_4531;
/// The size of the segments that the bytes are cut into.
pub const SEGMENT_BYTES: usize = 8192;
const SEGMENTS_MAX: usize = 4;

/// The sizes that [`fuzz_segment`] works with; for making a corpus.
pub fn config() -> LogConfig {
    LogConfig {
        segment_bytes: SEGMENT_BYTES as u64,
        block_bytes_max: 2048,
        reserve_bytes: 1024,
        ..LogConfig::default()
    }
}

fn recover(first: u64, disk: &[Vec<u8>]) -> Result<(Vec<(RecordId, Record)>, Recovered), RecoverError> {
    let mut recovery = Recovery::new(LOG_ID, config(), first);
    let mut records = Vec::new();
    for (number, segment) in (first..).zip(disk) {
        recovery.segment(number, &Bytes::copy_from_slice(segment), &mut records)?;
    }
    let recovered = recovery.finish(&mut records)?;
    Ok((records, recovered))
}

fn write(disk: &mut Vec<Vec<u8>>, first: u64, rewrite: &Rewrite) {
    let place = (rewrite.segment - first) as usize;
    disk.resize(disk.len().max(place + 1), vec![0; SEGMENT_BYTES]);
    let from = rewrite.offset as usize;
    disk[place][from..from + rewrite.data.len()].copy_from_slice(&rewrite.data);
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |field| u32::from_le_bytes(*field))
}

/// Puts the right log id, position, chain and checksums into whatever looks like a block, so that the checks after the checksums are
/// reached, too.
fn seal(disk: &mut [Vec<u8>], first: u64) {
    let mut previous = 0;
    for (number, segment) in (first..).zip(disk) {
        for offset in (0..SEGMENT_BYTES).step_by(SECTOR) {
            if segment[offset..offset + MAGIC.len()] != MAGIC {
                continue;
            }
            let body = seal_records(segment, offset);
            let position = number * SEGMENT_BYTES as u64 + offset as u64;
            let header = &mut segment[offset..offset + BLOCK_HEADER];
            header[8..16].copy_from_slice(&LOG_ID.to_le_bytes());
            header[16..24].copy_from_slice(&position.to_le_bytes());
            header[52..56].copy_from_slice(&u32::to_le_bytes(previous));
            header[56..60].copy_from_slice(&body.to_le_bytes());
            previous = crc32c(&header[..60]);
            header[60..].copy_from_slice(&previous.to_le_bytes());
        }
    }
}

fn seal_records(segment: &mut [u8], offset: usize) -> u32 {
    let mut at = offset + BLOCK_HEADER;
    let mut body = 0;
    for _ in 0..u32_at(segment, offset + 28).min(64) {
        let end = at.saturating_add(RECORD_HEADER).saturating_add(u32_at(segment, at + 4) as usize);
        let Some(record) = segment.get_mut(at..end) else { break };
        let crc = crc32c(&record[4..]).to_le_bytes();
        record[..4].copy_from_slice(&crc);
        body = crc32c_append(body, &crc);
        at = end;
    }
    body
}

/// Takes any bytes for the segments of a log and recovers it. The low seven bits of the first byte are the first segment's number; if the
/// high bit is set, right checksums are put in first. Whatever the bytes are, nothing panics. A second recovery finds exactly what the
/// first accepted.
///
/// # Panics
/// When that does not hold.
pub fn fuzz_segment(data: &[u8]) {
    let Some((first, data)) = data.split_first() else { return };
    let (first, sealed) = (u64::from(*first & 0x7f), *first & 0x80 != 0);
    let mut disk: Vec<Vec<u8>> = data.chunks(SEGMENT_BYTES).take(SEGMENTS_MAX).map(<[u8]>::to_vec).collect();
    if let Some(last) = disk.last_mut() {
        last.resize(SEGMENT_BYTES, 0);
    }
    if sealed {
        seal(&mut disk, first);
    }
    let Ok((records, recovered)) = recover(first, &disk) else { return };
    let mut gaps = recovered.damage.iter().filter(|damage| damage.records() > 0);
    for pair in records.windows(2).filter(|pair| pair[0].0.next() != pair[1].0) {
        let told = gaps.find(|damage| damage.present == pair[1].0);
        assert!(told.is_some_and(|damage| damage.missing == pair[0].0.next()), "INV-LOG-9 a gap is told");
    }
    let damage = recovered.damage.clone();
    for rewrite in &recovered.rewrite {
        write(&mut disk, first, rewrite);
    }
    let position = recovered.rewritten().position();
    let again = recover(first, &disk);
    if matches!(&again, Err(RecoverError::Halt(Halt::LogInconsistent { .. }))) {
        return; // made up: the log's count of its lives is at its end
    }
    let (found, again) = again.expect("INV-LOG-8 a log that was just recovered can be recovered");
    assert!(found == records, "INV-LOG-7 the same records are found again");
    assert!(again.damage == damage, "INV-LOG-9 the same damage is found again");
    assert!(again.rewritten().position() > position, "INV-LOG-10 the second life is beyond the first");
}
