//! Runs the body of the fuzz target over its corpus. The seeds (`seed_*`) are made here, of the claims in the corpus of `oracle_claims`; a
//! finding is added as a file beside them.

use super::service;
use crate::service::Ask;
use bytes::Bytes;
use quorate_order::fuzzing::{Members, STATEMENTS};
use quorate_runtime::{Group, Held};
use quorate_types::InstanceId;
use quorate_wire::Reader;
use std::fs;
use std::path::PathBuf;

fn corpus(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

/// An input that asks all of this.
fn input(asks: &[Vec<u8>]) -> Vec<u8> {
    let with_length = |ask: &Vec<u8>| [&(ask.len() as u16).to_le_bytes()[..], ask].concat();
    asks.iter().flat_map(with_length).collect()
}

fn swap(name: &'static str, version: u64, value: &'static str) -> Vec<u8> {
    let [name, value] = [name, value].map(|text| Bytes::from_static(text.as_bytes()));
    Ask::Swap { name, version, value }.encode()
}

fn read(name: &'static str) -> Vec<u8> {
    Ask::Read { name: Bytes::from_static(name.as_bytes()) }.encode()
}

fn look(instance: InstanceId, group: &Group) -> Vec<u8> {
    Ask::Look { instance, group: group.encode() }.encode()
}

fn judge(instance: InstanceId, group: &Group, claim: Bytes) -> Vec<u8> {
    Ask::Judge { instance, group: group.encode(), claim }.encode()
}

/// The claims of a seed of `oracle_claims`, and who makes them.
fn claims(sizes: &str) -> (Group, Vec<Bytes>) {
    let seed = fs::read(corpus("oracle_claims").join(format!("seed_{sizes}_signed"))).expect("a seed");
    let group = Members::of(seed[0]).group.clone().expect("they have real keys");
    let mut r = Reader::new(seed[1..].to_vec().into(), "claims");
    let mut claims = Vec::new();
    while let Ok(len) = r.u16() {
        claims.push(r.bytes(usize::from(len)).expect("a whole claim"));
    }
    (group, claims)
}

/// A cluster's claims, and somebody who says that its members are others.
fn judged(sizes: &str) -> Vec<u8> {
    let (group, claims) = claims(sizes);
    let mut forged = group.clone();
    forged.members.iter_mut().zip(&group.members[1..]).for_each(|(one, next)| one.1 = next.1);
    let (first, second) = (STATEMENTS.instance, InstanceId::new(2));
    let claim = claims[0].clone();
    let mut asks = vec![look(first, &group), look(first, &forged), judge(first, &group, Bytes::new())];
    asks.extend([judge(first, &forged, claim.clone()), judge(second, &group, claim)]);
    asks.extend(claims.into_iter().map(|claim| judge(first, &group, claim)));
    asks.extend([look(first, &group), look(first, &forged)]);
    input(&asks)
}

fn seeds() -> Vec<(String, Vec<u8>)> {
    let swaps = [
        read("a"),
        swap("a", 0, "first"),
        swap("a", 0, "late"),
        swap("b", 7, "ahead"),
        swap("a", 1, ""),
        swap("", 0, "no name"),
        read("b"),
        vec![],
        vec![0],
        vec![5, 1],
    ];
    let long = Ask::Read { name: Bytes::from(vec![b'x'; 257]) }.encode();
    let mut seeds = vec![("seed_swaps".to_owned(), input(&swaps)), ("seed_long".to_owned(), input(&[long]))];
    let sizes = ["211", "322", "311"];
    seeds.extend(sizes.map(|sizes| (format!("seed_judged_{sizes}"), judged(sizes))));
    // Members that do not lie need no judge.
    seeds.push(("seed_judged_210".to_owned(), judged("210")));
    seeds
}

#[test]
fn the_corpus() {
    let folder = corpus("oracle_service");
    fs::create_dir_all(&folder).expect("the corpus can be created");
    for (name, bytes) in seeds() {
        let path = folder.join(name);
        if std::env::var_os("QUORATE_APPROVE").is_some_and(|value| value == "1") {
            fs::write(&path, &bytes).expect("a seed can be written");
        }
        let found = fs::read(&path).unwrap_or_default();
        assert!(found == bytes, "{path:?} is out of date; write it anew with QUORATE_APPROVE=1");
    }
    for file in fs::read_dir(folder).expect("the corpus is there") {
        let path = file.expect("an entry").path();
        println!("{}", path.display());
        service(&fs::read(path).expect("a readable file"));
    }
}

/// The seeds are what their names say: otherwise the target would begin with nothing but what is refused.
#[test]
fn some_are_granted_and_some_refused() {
    for (name, bytes) in seeds() {
        let held = service(&bytes);
        let version = |held: &Result<Held, String>| held.as_ref().map(|held| held.0).ok();
        let mut versions: Vec<_> = held.iter().map(version).collect();
        versions.sort_unstable();
        let expected = match &*name {
            "seed_swaps" => vec![Some(0), Some(1), Some(2)],
            "seed_long" => vec![],
            "seed_judged_210" => vec![None, None, None],
            // Other members; the second instance, for which nobody signed; the first one.
            _ => vec![None, Some(0), Some(4)],
        };
        assert_eq!(versions, expected, "{name}");
    }
}
