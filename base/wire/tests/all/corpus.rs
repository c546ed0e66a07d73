//! Runs the bodies of the fuzz targets over their corpora, so that what fuzzing found once is tested for ever, without a
//! nightly toolchain. The seeds (`seed_*`) are made from the samples; a finding is added as a file beside them.

use crate::common::{approved, batches, corpus, samples};
use quorate_wire::{FRAME_HEADER, FrameKind, fuzzing};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The seeds of every target: file name and bytes.
fn seeds() -> BTreeMap<&'static str, Vec<(String, Vec<u8>)>> {
    let (mut streams, mut payloads) = (Vec::new(), Vec::new());
    let mut all = Vec::new();
    for sample in samples() {
        let bytes = sample.frame.to_vec();
        let kind = FrameKind::ALL.iter().position(|kind| *kind == sample.frame.kind()).expect("a kind");
        let name = format!("seed_{}", sample.name);
        payloads.push((name.clone(), [&[kind as u8], &bytes[FRAME_HEADER..]].concat()));
        all.extend_from_slice(&bytes);
        streams.push((name, bytes));
    }
    streams.push(("seed_all_frames".into(), all));
    let batches =
        batches().into_iter().map(|(name, b)| (format!("seed_{name}"), b.bytes().to_vec())).collect();
    BTreeMap::from([("wire_stream", streams), ("wire_payload", payloads), ("wire_batch", batches)])
}

fn check(target: &str, run: fn(&[u8])) {
    let seeds = seeds().remove(target).expect("the target has seeds");
    let folder = corpus(target);
    if approved() {
        write(&folder, &seeds);
    }
    for (name, bytes) in &seeds {
        let found = fs::read(folder.join(name)).unwrap_or_default();
        assert!(&found == bytes, "{target}/{name} is out of date; write it anew with QUORATE_APPROVE=1");
    }
    for file in fs::read_dir(&folder).expect("the corpus is there") {
        let path = file.expect("an entry").path();
        println!("{}", path.display());
        run(&fs::read(path).expect("a readable file"));
    }
}

fn write(folder: &Path, seeds: &[(String, Vec<u8>)]) {
    fs::create_dir_all(folder).expect("the corpus can be created");
    for file in fs::read_dir(folder).expect("the corpus is there") {
        let path = file.expect("an entry").path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("seed_")) {
            fs::remove_file(path).expect("an old seed can be removed");
        }
    }
    for (name, bytes) in seeds {
        fs::write(folder.join(name), bytes).expect("a seed can be written");
    }
}

#[test]
fn streams() {
    check("wire_stream", fuzzing::stream);
}

#[test]
fn payloads() {
    check("wire_payload", fuzzing::any_payload);
}

#[test]
fn batches_of_requests() {
    check("wire_batch", fuzzing::batch);
}
