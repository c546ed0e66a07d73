//! Writes the first files of the corpora of log_segment and kv_codec: `cargo run --bin seeds` in `fuzz/`.

use quorate_kv::{Compare, Condition, KvCommand, KvError, KvQuery, KvReply, Operation, Scan};
use quorate_log::SECTOR;
use std::fs;
use std::path::Path;

const LOG_FIXTURES: [&str; 3] = [
    include_str!("../../base/log/fixtures/opening.hex"),
    include_str!("../../base/log/fixtures/one_record.hex"),
    include_str!("../../base/log/fixtures/two_records.hex"),
];

fn write(target: &str, name: &str, bytes: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder).expect("the corpus can be made");
    fs::write(folder.join(format!("seed_{name}")), bytes).expect("a seed can be written");
}

/// A block of the golden fixtures, filled up to whole sectors.
fn block(fixture: &str) -> Vec<u8> {
    let digits = fixture.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace);
    let mut bytes: Vec<u8> = digits.map(|byte| u8::from_str_radix(byte, 16).expect("hexadecimal")).collect();
    bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
    bytes
}

fn log() {
    // The high bit of the first byte asks the target to put right checksums in.
    for (flags, name) in [(0x80, "sealed"), (0, "as_written"), (0x81, "sealed_from_segment_1")] {
        for count in 0..=LOG_FIXTURES.len() {
            let blocks = LOG_FIXTURES[..count].iter().flat_map(|fixture| block(fixture));
            let bytes: Vec<u8> = std::iter::once(flags).chain(blocks).collect();
            write("log_segment", &format!("{name}_{count}_blocks"), &bytes);
        }
    }
}

fn kv() {
    let (key, value) = (&b"key"[..], &b"value"[..]);
    let scan = Scan { start: key, end: b"", limit: 10 };
    let mut conditions = [Condition::Absent, Condition::Present, Condition::Equals(value)].into_iter();
    let operations = vec![Operation::Put { key, value }, Operation::Get { key }, Operation::Delete { key }];
    let mut commands: Vec<KvCommand<'_>> = operations.iter().copied().map(KvCommand::One).collect();
    commands.push(KvCommand::Scan(scan));
    commands.extend(conditions.clone().map(|condition| KvCommand::Swap { key, condition, value }));
    let compares = conditions.by_ref().map(|condition| Compare { key, condition }).collect();
    commands.push(KvCommand::Transaction { compares, then: operations.clone(), otherwise: operations });
    let mut list: Vec<Vec<u8>> = Vec::new();
    let mut add = |encode: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = Vec::new();
        encode(&mut bytes);
        list.push(bytes);
    };
    commands.iter().for_each(|command| add(&|out| command.encode(out)));
    [KvQuery::Get { key }, KvQuery::Scan(scan)].iter().for_each(|query| add(&|out| query.encode(out)));
    let replies = [
        KvReply::Error(KvError::KeyTooLong { max: 300 }),
        KvReply::Put { replaced: true },
        KvReply::Value(Some(value)),
        KvReply::Deleted { existed: false },
        KvReply::Entries { entries: vec![(key, value)], next: Some(key) },
        KvReply::Swapped,
        KvReply::NotSwapped { current: None },
    ];
    replies.iter().for_each(|reply| add(&|out| reply.encode(out)));
    let nested = KvReply::Transaction { succeeded: true, replies: replies.to_vec() };
    add(&|out| nested.encode(out));
    for (number, bytes) in list.iter().enumerate() {
        write("kv_codec", &format!("{number:02}"), bytes);
    }
}

fn main() {
    log();
    kv();
}
