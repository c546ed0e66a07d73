use super::*;
use crate::{Class, Log, LogEffect, Record};
use bytes::BytesMut;
use quorate_types::InstanceId;

const LOG_ID: u64 = 99;
const SEGMENT: usize = 8192;

fn config() -> LogConfig {
    LogConfig { segment_bytes: 8192, block_bytes_max: 2048, reserve_bytes: 1024, ..LogConfig::default() }
}

/// Segments full of records, with what the log says of them; a block lies in the last one.
fn filled(segments: usize) -> (Vec<BytesMut>, Log) {
    let mut log = Log::create(LOG_ID, config());
    let mut disk: Vec<BytesMut> = Vec::new();
    let mut size = 100;
    while disk.len() <= segments || log.position() < (segments * SEGMENT) as u64 + 512 {
        while let Some(effect) = log.poll() {
            match effect {
                LogEffect::Prepare { segment } => {
                    // Recycled: full of what was there before.
                    disk.push(disk.first().cloned().unwrap_or_else(|| BytesMut::zeroed(SEGMENT)));
                    log.prepared(segment, Ok(()));
                }
                LogEffect::Write(write) => {
                    let (data, at) = (write.data.concat(), write.offset as usize);
                    disk[write.segment as usize][at..at + data.len()].copy_from_slice(&data);
                    log.written(write.id);
                }
                LogEffect::Sync { .. } => unreachable!("every write is synced"),
            }
        }
        size = (size * 7 + 13) % 1500;
        let payload = Bytes::from(vec![size as u8; size]);
        let record =
            Record { instance: InstanceId::new(1), kind: 1, head: Bytes::from_static(b"head"), payload };
        log.append(record, Class::Data).expect("there is room");
    }
    (disk, log)
}

fn look(disk: &[BytesMut], segment: usize) -> Result<ScrubOk, Rot> {
    scrub(LOG_ID, &config(), segment as u64, &Bytes::copy_from_slice(&disk[segment]))
}

/// A segment is as it was written: all its records are there, and nobody complains.
#[test]
fn a_whole_segment_is_whole() {
    let (disk, log) = filled(4);
    for segment in 0..4 {
        let found = look(&disk, segment).expect("no rot");
        assert_eq!(Some(found.records), log.sealed_records(segment as u64));
        assert!(found.end as usize <= SEGMENT && found.end as usize > SEGMENT - 2048);
    }
    assert!(log.sealed_records(4).is_none());
}

/// A flipped bit in a block's header or records is found, at that block or, in the last one, by the records that are missing.
/// Padding and what lies behind the last block mean nothing.
#[test]
fn every_flipped_bit_that_means_something_is_found() {
    let (mut disk, log) = filled(2);
    let whole = [look(&disk, 0), look(&disk, 1)].map(|found| found.expect("no rot"));
    for (segment, whole) in whole.iter().enumerate() {
        let (mut rotten, mut missing, mut harmless) = (0, 0, 0);
        for at in 0..SEGMENT {
            disk[segment][at] ^= 1 << (at % 8);
            match look(&disk, segment) {
                Err(rot) => {
                    let (from, to) = (rot.offset as usize, at);
                    assert!(from <= to && to - from < 2048, "byte {at} is damaged, and it says {rot}");
                    rotten += 1;
                }
                Ok(found) if Some(&found.records) != log.sealed_records(segment as u64).as_ref() => {
                    assert!(found.end <= at as u64 && whole.end - found.end <= 2048);
                    missing += 1;
                }
                Ok(_) => {
                    let padded = disk[segment][at] == 1 << (at % 8);
                    assert!(padded || at as u64 >= whole.end, "byte {at} means something");
                    harmless += 1;
                }
            }
            disk[segment][at] ^= 1 << (at % 8);
        }
        let counts = (rotten, missing, harmless);
        assert!(rotten > 5000 && missing > 0 && harmless > 0, "segment {segment}: {counts:?}");
    }
}

/// Blocks in another order, of another log or another place, and a segment of another length.
#[test]
fn what_belongs_elsewhere_is_rot() {
    let (disk, _) = filled(2);
    let swapped = vec![disk[1].clone(), disk[0].clone()];
    assert_eq!(look(&swapped, 0).map_err(|rot| rot.offset), Err(0));
    let bytes = disk[0].clone().freeze();
    assert_eq!(scrub(LOG_ID + 1, &config(), 0, &bytes).map_err(|rot| rot.offset), Err(0));
    assert!(scrub(LOG_ID, &config(), 0, &bytes.slice(..SEGMENT - 512)).is_err());
    assert!(scrub(LOG_ID, &config(), 0, &Bytes::from(vec![0; SEGMENT])).is_err(), "nothing is there");
    assert!(scrub(LOG_ID, &config(), u64::MAX, &bytes).is_err());
    // A block that fell out of the middle: the next one names another one before it.
    let mut gap = disk[0].clone();
    let first = u32::from_le_bytes([gap[24], gap[25], gap[26], gap[27]]) as usize;
    let second =
        gap[first + 24..].first_chunk().map(|len| u32::from_le_bytes(*len)).expect("a length") as usize;
    gap[first..first + second].fill(0);
    assert_eq!(look(&[gap], 0).map_err(|rot| rot.offset), Err(first as u64));
}
