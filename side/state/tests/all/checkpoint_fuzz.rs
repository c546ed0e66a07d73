//! The bodies of the fuzz targets over their corpora, over real files damaged at random, and over noise. The seeds are written by
//! `QUORATE_APPROVE=1 cargo test -p quorate-state --test all checkpoint_fuzz`.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use crate::checkpoint_common::Rng;
use quorate_state::checkpoint::fuzzing::{self, MemoryFiles, PARTIAL, SEALED, TWO};
use quorate_state::checkpoint::{Growth, Image, Job, Keeper, Kind, Manifest, Step, encode_chunk};
use quorate_state::store::Store;
use quorate_types::Seq;

type Target = (&'static str, fn(&[u8]));
const TARGETS: [Target; 3] = [
    ("checkpoint_manifest", fuzzing::manifest),
    ("checkpoint_chunk", fuzzing::chunk),
    ("checkpoint_file", fuzzing::file),
];

fn image(border: u64, entries: u64, value: usize) -> Image {
    let mut store = Store::new();
    for number in 0..entries {
        let mut bytes = vec![number as u8; value];
        if number % 4 == 0 {
            bytes.extend_from_slice(&border.to_le_bytes());
        }
        store.put(format!("{:03}", number * 31 % 1000).as_bytes(), &bytes);
    }
    let system = vec![border as u8; border as usize * 10].into();
    Image { seq: Seq::new(border * 100), border, system, objects: store.version() }
}

/// The files of two borders, and of a transfer that was interrupted.
fn files(entries: u64, value: usize) -> MemoryFiles {
    let mut files = MemoryFiles::default();
    let (mut keeper, _) = Keeper::open(&mut files, false).expect("no file is there");
    for (border, write) in [(1, Kind::Full), (2, Kind::Differential)] {
        keeper.submit(Job::Border { image: image(border, entries, value), write: Some(write) });
        while keeper.step(&mut files) != Step::Idle {}
    }
    let image = image(3, entries, value);
    let manifest = Arc::new(Manifest::of(&image));
    let upto = manifest.parts();
    keeper.submit(Job::Grow(Growth { manifest, image, upto }));
    while keeper.step(&mut files) != Step::Idle {}
    files
}

fn two(one: &[u8], other: &[u8]) -> Vec<u8> {
    [&(one.len() as u32).to_le_bytes(), one, other].concat()
}

/// Inputs that are what they should be.
fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (name, entries, value) in
        [("empty", 0, 0), ("small", 3, 20), ("buckets", 40, 300), ("chunks", 40, 2500)]
    {
        let image = image(1, entries, value);
        let mut add = |what: &str, bytes: Vec<u8>| seeds.push((format!("seed_{name}{what}"), bytes));
        match target {
            "checkpoint_manifest" => add("", Manifest::of(&image).encode()),
            "checkpoint_chunk" => {
                for (number, chunk) in image.objects.chunks().take(2).enumerate() {
                    let mut bytes = vec![chunk.path.len() as u8];
                    bytes.extend_from_slice(chunk.path.as_bytes());
                    bytes.extend_from_slice(&encode_chunk(image.objects.entries_at(&chunk.path)));
                    add(&format!("_{number}"), bytes);
                }
            }
            _ if name == "chunks" => {} // 100 KiB say no more than 12
            _ => {
                let files = files(entries, value).files;
                let [full, differential, outline, partial] =
                    [0, 1, 2, 3].map(|at| files.values().nth(at).expect("a file"));
                let sealed = [full, differential].map(|file| fuzzing::sealed(file).expect("a file"));
                add("_sealed", [&[SEALED][..], &sealed[0]].concat());
                add("_two", [&[SEALED | TWO][..], &two(&sealed[0], &sealed[1])].concat());
                if name == "small" {
                    add("_as_it_is", [&[0][..], full].concat());
                    add("_partial", [&[PARTIAL][..], &two(outline, partial)].concat());
                }
            }
        }
    }
    seeds
}

fn corpus(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

#[test]
fn corpora_never_panic() {
    for (target, body) in TARGETS {
        let folder = corpus(target);
        if std::env::var_os("QUORATE_APPROVE").is_some() {
            fs::create_dir_all(&folder).expect("the corpus can be made");
            for (name, bytes) in seeds(target) {
                fs::write(folder.join(name), bytes).expect("a seed can be written");
            }
        }
        let mut found = 0;
        for file in fs::read_dir(&folder).expect("there is a corpus") {
            body(&fs::read(file.expect("a file").path()).expect("it can be read"));
            found += 1;
        }
        assert!(found > 3, "{target} has {found} inputs");
        for (name, bytes) in seeds(target) {
            let there = fs::read(folder.join(&name)).unwrap_or_default();
            assert!(there == bytes, "{target}/{name} is not what it would be now");
        }
    }
}

#[test]
fn damaged_and_made_up_bytes_never_panic() {
    let mut rng = Rng::new(1);
    for (target, body) in TARGETS {
        let seeds = seeds(target);
        for round in 0..4000 {
            let mut bytes = seeds[rng.below(seeds.len() as u64) as usize].1.clone();
            for _ in 0..1 + round % 5 {
                let at = rng.below(bytes.len() as u64) as usize;
                match rng.below(8) {
                    0 => bytes.truncate(at.max(1)),
                    1 => bytes.insert(at, rng.next() as u8),
                    2 => drop(bytes.remove(at)),
                    3 => bytes[at] = 0xff,
                    _ => bytes[at] ^= 1 << rng.below(8),
                }
                if bytes.is_empty() {
                    break;
                }
            }
            body(&bytes);
            let noise = rng.below(300) as usize;
            body(&rng.bytes(noise));
        }
    }
}

#[test]
fn whole_seeds_are_accepted() {
    for (name, bytes) in seeds("checkpoint_manifest") {
        assert!(Manifest::decode(&bytes).is_ok(), "{name}");
    }
    // Taken apart and sealed again, files are what they were.
    let files = files(40, 300);
    let (_, opened) = Keeper::open(&mut files.clone(), false).expect("files");
    assert_eq!(opened.image.map(|image| image.digest()), Some(image(2, 40, 300).digest()));
    assert_eq!(opened.partial.len(), 2);
}
