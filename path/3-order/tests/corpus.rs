//! Runs the body of the fuzz target over its corpus, so that what fuzzing found once is tested for ever, without a nightly
//! toolchain. The seeds (`seed_*`) are made from the samples; a finding is added as a file beside them.

mod common;

use common::{approved, corpus, samples};
use quorate_wire::FRAME_HEADER;
use std::fs;

#[test]
fn messages() {
    let folder = corpus();
    fs::create_dir_all(&folder).expect("the corpus can be created");
    for sample in samples() {
        let (path, bytes) = (folder.join(format!("seed_{}", sample.name)), sample.bytes());
        if approved() {
            fs::write(&path, &bytes[FRAME_HEADER..]).expect("a seed can be written");
        }
        let found = fs::read(&path).unwrap_or_default();
        assert!(
            found == bytes[FRAME_HEADER..],
            "{path:?} is out of date; write it anew with QUORATE_APPROVE=1"
        );
    }
    for file in fs::read_dir(folder).expect("the corpus is there") {
        let path = file.expect("an entry").path();
        println!("{}", path.display());
        quorate_order::fuzzing::message(&fs::read(path).expect("a readable file"));
    }
}
