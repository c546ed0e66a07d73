//! Pins the bytes of every kind of frame and every message. A change to them breaks running clusters, so it has to be
//! approved: `QUORATE_APPROVE=1 cargo test -p quorate-wire --test all golden` writes the fixtures and the seeds of the fuzz
//! corpus anew, and the review is the diff.

use crate::common::{Sample, approved, describe, fixtures, read_whole, samples};
use quorate_wire::{FRAME_HEADER, FrameKind, StateMessage};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::sync::Once;

/// A fixture: what it is, what it decodes to, then its bytes: the header on a line of its own.
fn render(sample: &Sample) -> String {
    let bytes = sample.frame.to_vec();
    let frame = read_whole(&bytes, u32::MAX).expect("a sample is a frame").expect("a whole one");
    let mut out = format!("# {:?}: {}\n", frame.kind, sample.story);
    for line in describe(frame).expect("a sample decodes") {
        let _ = writeln!(out, "#   {line}");
    }
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
        let said: Vec<String> =
            fixture.lines().filter_map(|l| l.strip_prefix("#   ")).map(Into::into).collect();
        assert_eq!(describe(frame), Ok(said), "{}", sample.name);
    }
}

#[test]
fn every_kind_and_every_message_has_a_fixture_and_no_fixture_is_left_over() {
    write_if_approved();
    let (mut kinds, mut of_state, mut names) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for sample in samples() {
        assert!(names.insert(format!("{}.hex", sample.name)), "{} is there twice", sample.name);
        let frame = read_whole(&sample.frame.to_vec(), u32::MAX).expect("intact").expect("whole");
        kinds.insert(frame.kind);
        if frame.kind == FrameKind::State {
            of_state.insert(state_variant(&StateMessage::decode(frame.payload).expect("a message")));
        }
    }
    assert_eq!(kinds, FrameKind::ALL.iter().copied().collect());
    assert_eq!(of_state, (1..=7).collect(), "a message about the state without a fixture");
    let files = fs::read_dir(fixtures()).expect("the fixtures' directory");
    let files: BTreeSet<String> =
        files.map(|file| file.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(files, names);
}

/// Fails to compile when a variant is added, so that somebody thinks of its fixture.
fn state_variant(message: &StateMessage) -> u8 {
    match message {
        StateMessage::Digest { .. } => 1,
        StateMessage::FetchManifest { .. } => 2,
        StateMessage::Manifest { .. } => 3,
        StateMessage::FetchChunks { .. } => 4,
        StateMessage::Chunk { .. } => 5,
        StateMessage::Refused { .. } => 6,
        StateMessage::WantBorder { .. } => 7,
    }
}
