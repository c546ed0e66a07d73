//! What a redesign is compared with: recorded trace hashes.

use quorate_sim::hashes::{Compared, compare, kinds, read, record};
use std::collections::BTreeSet;
use std::io::ErrorKind;

#[test]
fn no_kind_of_cluster_comes_twice() {
    let kinds: Vec<String> = kinds().iter().map(|profile| profile.arguments()).collect();
    assert_eq!(kinds.iter().collect::<BTreeSet<_>>().len(), kinds.len());
    for wanted in ["", "--protocol mod-smart --instances 8", "--fault-model byzantine --focus idle"] {
        assert!(kinds.iter().any(|kind| kind == wanted), "{wanted}: {kinds:?}");
    }
}

#[test]
fn what_is_recorded_comes_again_and_what_differs_is_named() {
    let kinds = [kinds()[1], kinds()[2]];
    let mut file = Vec::new();
    let mut told = Vec::new();
    let runs =
        record(&kinds, 3, 2, &mut file, |done, total| told.push((done, total))).expect("it is written");
    assert_eq!((runs, told), (4, vec![(1, 4), (2, 4), (3, 4), (4, 4)]), "as many of each kind");

    let mut recorded = read(&*file).expect("it was written so");
    let same = |kind: &str| Compared { kind: kind.into(), runs: 2, differ: vec![] };
    let found = compare(&recorded, 1, |_, _| {});
    assert_eq!(found, [same("--instances 1"), same("--instances 2")]);

    recorded[1].1.hashes[1] = "0".repeat(16);
    let found = compare(&recorded, 2, |_, _| {});
    assert_eq!(found, [same("--instances 1"), Compared { differ: vec![2], ..same("--instances 2") }]);
}

#[test]
fn what_is_no_record_is_refused() {
    let refused = |file: &str, says: &str| {
        let why = read(file.as_bytes()).expect_err("it is none");
        assert_eq!(why.kind(), ErrorKind::InvalidData);
        assert!(why.to_string().contains(says), "{why}");
    };
    let line = |kind: &str| format!("{{\"kind\":\"{kind}\",\"first\":1,\"hashes\":[]}}\n");
    assert_eq!(read(line("").as_bytes()).expect("one kind, and nothing of it").len(), 1);
    refused(&(line("") + "something else\n"), "line 2");
    refused(&line("--protocol paxos"), "no kind of cluster here is `--protocol paxos`");
}
