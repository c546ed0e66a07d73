//! Pins the bytes of every message of every protocol. A change to them breaks running clusters, so it has to be approved:
//! `QUORATE_APPROVE=1 cargo test -p quorate-order --test golden --test corpus` writes the fixtures and the seeds of the fuzz
//! corpus anew, and the review is the diff.

mod common;

use common::{Sample, approved, describe, fixtures, read_whole, samples};
use quorate_order::mod_smart::message::{ModSmartBody, ModSmartMessage};
use quorate_order::raft::message::RaftMessage;
use quorate_wire::FRAME_HEADER;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::sync::Once;

/// A fixture: what it is, what it decodes to, then its bytes: the header on a line of its own.
fn render(sample: &Sample) -> String {
    let bytes = sample.bytes();
    let frame = read_whole(&bytes, u32::MAX).expect("a sample is a frame").expect("a whole one");
    let mut out = format!("# {:?}: {}\n", frame.kind, sample.story);
    let _ = writeln!(out, "#   {}", describe(frame).expect("a sample decodes"));
    for (line, chunk) in bytes.chunks(FRAME_HEADER).enumerate() {
        let hex: Vec<String> = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
        let _ = writeln!(out, "{}", hex.join(" "));
        if line == 0 && bytes.len() > FRAME_HEADER {
            out.push('\n');
        }
    }
    out
}

fn parse(fixture: &str) -> Vec<u8> {
    let lines = fixture.lines().filter(|line| !line.starts_with('#'));
    lines
        .flat_map(str::split_whitespace)
        .map(|byte| u8::from_str_radix(byte, 16).expect("two hexadecimal digits"))
        .collect()
}

/// What a fixture says that its bytes are.
fn said(fixture: &str) -> String {
    fixture.lines().find_map(|line| line.strip_prefix("#   ")).expect("a fixture says what it is").into()
}

/// Once per run, before any test looks.
fn write_if_approved() {
    static WRITE: Once = Once::new();
    WRITE.call_once(|| {
        if !approved() {
            return;
        }
        let _ = fs::remove_dir_all(fixtures());
        fs::create_dir_all(fixtures()).expect("the fixtures' directory can be made");
        for sample in samples() {
            let path = fixtures().join(format!("{}.hex", sample.name));
            fs::write(path, render(&sample)).expect("a fixture can be written");
        }
    });
}

#[test]
fn no_byte_changes_unless_approved() {
    write_if_approved();
    let mut differing = Vec::new();
    for sample in samples() {
        let (path, want) = (fixtures().join(format!("{}.hex", sample.name)), render(&sample));
        let found = fs::read_to_string(&path).unwrap_or_default();
        if found != want {
            differing.push(format!("{}:\n--- pinned\n{found}+++ now\n{want}", sample.name));
        }
    }
    assert!(
        differing.is_empty(),
        "the bytes on the wire changed. If that is meant, raise the format version and run again with \
         QUORATE_APPROVE=1\n{}",
        differing.join("\n")
    );
}

/// The other direction: what stands in the files is read by today's decoders as what the files say it is.
#[test]
fn pinned_bytes_decode_to_what_the_fixture_says() {
    write_if_approved();
    for sample in samples() {
        let path = fixtures().join(format!("{}.hex", sample.name));
        let fixture = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let frame = read_whole(&parse(&fixture), 1 << 20).expect("intact").expect("whole");
        assert_eq!(describe(frame), Ok(said(&fixture)), "{}", sample.name);
    }
}

#[test]
fn every_message_has_a_fixture_and_no_fixture_is_left_over() {
    write_if_approved();
    let (mut of_raft, mut of_mod_smart, mut names) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for sample in samples() {
        assert!(names.insert(format!("{}.hex", sample.name)), "{} is there twice", sample.name);
        of_raft.extend(sample.message.get().map(variant));
        of_mod_smart
            .extend(sample.message.get().map(|message: &ModSmartMessage| mod_smart_variant(&message.body)));
    }
    assert_eq!(of_raft, (1..=8).collect(), "a message of Raft without a fixture");
    assert_eq!(of_mod_smart, (1..=20).collect(), "a message of Mod-SMaRt without a fixture");
    let files = fs::read_dir(fixtures()).expect("the fixtures' directory");
    let files: BTreeSet<String> =
        files.map(|file| file.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(files, names);
}

/// Fails to compile when a variant is added, so that somebody thinks of its fixture.
fn variant(message: &RaftMessage) -> u8 {
    match message {
        RaftMessage::RequestVote { .. } => 1,
        RaftMessage::RequestVoteReply { .. } => 2,
        RaftMessage::AppendEntries { .. } => 3,
        RaftMessage::AppendEntriesReply { .. } => 4,
        RaftMessage::TimeoutNow { .. } => 5,
        RaftMessage::ReadIndex { .. } => 6,
        RaftMessage::ReadIndexReply { .. } => 7,
        RaftMessage::NeedsCheckpoint { .. } => 8,
    }
}

/// The same for Mod-SMaRt.
fn mod_smart_variant(body: &ModSmartBody) -> u8 {
    match body {
        ModSmartBody::Propose { .. } => 1,
        ModSmartBody::Write { .. } => 2,
        ModSmartBody::Accept { .. } => 3,
        ModSmartBody::Stop { .. } => 4,
        ModSmartBody::Certificate { .. } => 5,
        ModSmartBody::StopData { .. } => 6,
        ModSmartBody::Sync { .. } => 7,
        ModSmartBody::Fetch { .. } => 8,
        ModSmartBody::Decision { .. } => 9,
        ModSmartBody::Gone { .. } => 10,
        ModSmartBody::Alive { .. } => 11,
        ModSmartBody::AliveReply { .. } => 12,
        ModSmartBody::Read { .. } => 13,
        ModSmartBody::ReadReply { .. } => 14,
        ModSmartBody::Granted { .. } => 15,
        ModSmartBody::Ask { .. } => 16,
        ModSmartBody::Probe { .. } => 17,
        ModSmartBody::Probed { .. } => 18,
        ModSmartBody::Misses { .. } => 19,
        ModSmartBody::Back { .. } => 20,
    }
}
