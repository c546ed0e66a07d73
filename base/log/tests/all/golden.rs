//! The bytes of whole blocks. A change here is a change of the format on disk: it needs a new format version, and
//! docs/formats/log.md. The files in `fixtures/` hold 16 bytes a line; zeros up to the end of the sector are left out.

use crate::common::{self, record, recover, small_config};
use quorate_log::{Class, Log, LogEffect, SECTOR};
use std::collections::BTreeMap;
use std::fmt::Write as _;

const LOG_ID: u64 = common::LOG_ID;

fn hex(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let mut text = String::new();
    for line in bytes[..end].chunks(16) {
        for (place, byte) in line.iter().enumerate() {
            let space = if place == 0 { "" } else { " " };
            let _ = write!(text, "{space}{byte:02x}");
        }
        text.push('\n');
    }
    text
}

fn check(name: &str, bytes: &[u8], fixture: &str) {
    assert!(bytes.len().is_multiple_of(SECTOR));
    let found = hex(bytes);
    assert_eq!(found, fixture, "{name} differs; the bytes are now:\n{found}");
}

/// A log that had one record of one block synced, and then got two more in one block.
fn blocks() -> Vec<Vec<u8>> {
    let mut log = Log::create(LOG_ID, small_config());
    let mut blocks = Vec::new();
    let batches = [
        vec![record(1, 2, b"head", b"payload")],
        vec![record(2, 3, b"view 5", b""), record(1, 2, b"slot 9", &[0xab; 150])],
    ];
    for batch in batches {
        while let Some(effect) = log.poll() {
            let LogEffect::Prepare { segment } = effect else { panic!("{effect:?}") };
            log.prepared(segment, Ok(()));
        }
        for record in batch {
            log.append(record, Class::Data).unwrap();
        }
        let Some(LogEffect::Write(write)) = log.poll() else { panic!("a write") };
        log.written(write.id);
        blocks.push(write.data.concat());
    }
    blocks
}

#[test]
fn a_block_with_one_record() {
    check("one_record.hex", &blocks()[0], include_str!("../../fixtures/one_record.hex"));
}

#[test]
fn a_block_with_two_records() {
    check("two_records.hex", &blocks()[1], include_str!("../../fixtures/two_records.hex"));
}

#[test]
fn the_opening_block_after_them() {
    let mut segment = blocks().concat();
    segment.resize(small_config().segment_bytes as usize, 0);
    let (records, recovered) = recover(&small_config(), &BTreeMap::from([(0, segment)]));
    assert_eq!(records.len(), 3);
    let opening = recovered.unwrap().rewrite.pop().unwrap();
    check("opening.hex", &opening.data, include_str!("../../fixtures/opening.hex"));
}

/// The bytes of a fixture, filled up to whole sectors.
fn bytes(fixture: &str) -> Vec<u8> {
    let byte = |text| u8::from_str_radix(text, 16).expect("hexadecimal");
    let mut bytes: Vec<u8> = fixture.split_whitespace().map(byte).collect();
    bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
    bytes
}

/// What a program of format 1 wrote is read. When there is another format, these files stay, as those of the first.
#[test]
fn a_log_of_format_1_is_read() {
    let blocks =
        [include_str!("../../fixtures/one_record.hex"), include_str!("../../fixtures/two_records.hex")];
    let mut segment = blocks.map(bytes).concat();
    segment.resize(small_config().segment_bytes as usize, 0);
    let (records, recovered) = recover(&small_config(), &BTreeMap::from([(0, segment)]));
    assert!(recovered.is_ok_and(|recovered| recovered.damage.is_empty()));
    let expected = [
        record(1, 2, b"head", b"payload"),
        record(2, 3, b"view 5", b""),
        record(1, 2, b"slot 9", &[0xab; 150]),
    ];
    let found: Vec<_> = records.into_iter().map(|(id, record)| (id.number(), record)).collect();
    assert_eq!(found, (1..).zip(expected).collect::<Vec<_>>());
}
