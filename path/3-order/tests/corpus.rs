//! Runs the bodies of the fuzz targets over their corpora, so that what fuzzing found once is tested for ever, without a nightly
//! toolchain. The seeds (`seed_*`) are made from samples; a finding is added as a file beside them.

mod common;

use common::{approved, corpus, evidence, oracle, samples};
use quorate_order::fuzzing::{self, Members};
use quorate_order::visigoth::Register;
use quorate_wire::FRAME_HEADER;
use std::fs;

fn check(target: &str, seeds: &[(String, Vec<u8>)], run: fn(&[u8])) {
    let folder = corpus(target);
    fs::create_dir_all(&folder).expect("the corpus can be created");
    for (name, bytes) in seeds {
        let path = folder.join(name);
        if approved() {
            fs::write(&path, bytes).expect("a seed can be written");
        }
        let found = fs::read(&path).unwrap_or_default();
        assert!(found == *bytes, "{path:?} is out of date; write it anew with QUORATE_APPROVE=1");
    }
    for file in fs::read_dir(folder).expect("the corpus is there") {
        let path = file.expect("an entry").path();
        println!("{}", path.display());
        run(&fs::read(path).expect("a readable file"));
    }
}

#[test]
fn messages() {
    let payload =
        |sample: common::Sample| (format!("seed_{}", sample.name), sample.bytes()[FRAME_HEADER..].to_vec());
    let seeds: Vec<_> = samples().into_iter().map(payload).collect();
    check("order_message", &seeds, fuzzing::message);
}

#[test]
fn claims() {
    check("oracle_claims", &oracle::claims(), |bytes| drop(fuzzing::claims(bytes)));
}

/// These files are also the pinned bytes of the format: docs/formats/versions.md.
#[test]
fn evidence() {
    check("evidence", &evidence::files(), fuzzing::evidence);
}

#[test]
fn registers() {
    check("oracle_register", &oracle::registers(), fuzzing::register);
}

/// The samples are what their names say: otherwise the targets would begin with nothing but what is refused.
#[test]
fn some_are_granted_and_some_refused() {
    for (name, bytes) in oracle::claims() {
        let register = fuzzing::claims(&bytes);
        let views: Vec<u64> = register.grants().iter().map(|grant| grant.view.number()).collect();
        assert_eq!((views, register.floor().number()), (vec![2, 3, 4, 5], 4), "{name}");
    }
    for (name, bytes) in oracle::registers() {
        let members = Members::of(bytes[0]);
        let believed = Register::decode(bytes[1..].to_vec().into(), &members.voters, members.trust);
        assert_eq!(believed.is_ok(), !name.ends_with("broken"), "{name}: {believed:?}");
    }
}
