//! Bits that flip at rest: what is loaded is a border's exact image or nothing; a scrub finds the damage, and with the parts that
//! peers have everything gets whole again. (INV-KEEP-4, INV-KEEP-7)

use std::collections::BTreeMap;

use crate::checkpoint_common::{History, Mode, Replica, Rng, check_image, image_of};
use quorate_state::checkpoint::{
    Assembly, Image, Job, Keeper, Loaded, Manifest, Report, RotAt, encode_chunk,
};
use quorate_types::Seq;

/// The bytes of a part, as a peer has them.
fn part_of(image: &Image, part: u32) -> bytes::Bytes {
    let manifest = Manifest::of(image);
    let pieces = manifest.system().len();
    match (part as usize).checked_sub(pieces) {
        None => image.system.piece(part as usize).expect("a piece"),
        Some(chunk) => encode_chunk(image.objects.entries_at(&manifest.chunks()[chunk].path)),
    }
}

fn written(history: &History, rng: &mut Rng) -> BTreeMap<String, Vec<u8>> {
    let mut replica = Replica::new(history);
    while !replica.is_done() {
        replica.execute();
        if rng.one_in(3) {
            replica.settle();
        }
    }
    replica.settle();
    replica.disk.all()
}

/// A disk with these files, of which some bits flipped.
fn damaged<'a>(
    history: &'a History,
    files: &BTreeMap<String, Vec<u8>>,
    rng: &mut Rng,
    flips: u64,
) -> (Replica<'a>, Vec<(String, usize)>) {
    let mut replica = Replica::new(history);
    let mut places = Vec::new();
    for (name, bytes) in files {
        replica.disk.put(name, bytes.clone());
    }
    for _ in 0..flips {
        let name = files.keys().nth(rng.below(files.len() as u64) as usize).expect("a file").clone();
        // Half of the damage is where the manifest and the footers are.
        let len = files[&name].len();
        let tail = (len - 20_000.min(len)) as u64;
        let from = if rng.one_in(2) { tail } else { 0 };
        let at = (from + rng.below(len as u64 - from)) as usize;
        replica.disk.flip(&name, at, rng.next() as u32);
        places.push((name, at));
    }
    (replica, places)
}

fn fetch_missing(history: &History, damaged: &mut Assembly) -> Image {
    let border = damaged.manifest().border();
    let image = image_of(history, border);
    let missing: Vec<u32> = damaged.missing().collect();
    assert!(!missing.is_empty());
    for part in missing {
        let bytes = part_of(&image, part);
        assert!(damaged.add(part, &bytes).expect("the right bytes"));
        assert!(!damaged.add(part, &bytes).expect("the right bytes"), "it is there already");
    }
    damaged.image().expect("nothing is missing")
}

#[test]
fn rot_is_never_loaded() {
    let mut whole = 0;
    for seed in 0..120 {
        let mut rng = Rng::new(seed + 2000);
        let mode = if seed % 2 == 0 { Mode::Differential } else { Mode::Fuzzy };
        let history = History::random(&mut rng, mode, 6);
        let files = written(&history, &mut rng);
        for flips in [1, 1, 5, 40] {
            let (mut replica, _) = damaged(&history, &files, &mut rng, flips);
            let opened = replica.reopen(); // compares the image with the history
            whole += u32::from(opened.image.is_some());
            if let Some(mut damaged) = opened.damaged {
                let image = fetch_missing(&history, &mut damaged);
                check_image(&history, &image);
            }
        }
    }
    assert!(whole > 100, "{whole} loads found something");
}

#[test]
fn one_byte_never_takes_a_checkpoint() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed + 3000);
        let history = History::random(&mut rng, Mode::Differential, 4);
        let files = written(&history, &mut rng);
        let (mut replica, places) = damaged(&history, &files, &mut rng, 1);
        let opened = replica.reopen();
        assert!(opened.lost.is_empty(), "{places:?} {:?}", opened.lost);
        assert_eq!(opened.found.len(), files.len());
    }
}

/// Lets a scrub run, repairs what it reports with what peers have, and returns the places.
fn scrub_and_repair(replica: &mut Replica<'_>) -> Vec<(Seq, RotAt)> {
    let mut found = Vec::new();
    replica.reports.clear();
    replica.keeper.submit(Job::Scrub);
    replica.settle();
    assert!(matches!(replica.reports.last(), Some(Report::ScrubDone { .. })), "{:?}", replica.reports);
    for report in std::mem::take(&mut replica.reports) {
        let Report::Rot { seq, place, .. } = report else { continue };
        found.push((seq, place));
        let RotAt::Part(part) = place else { continue };
        let expected = replica.history.borders.iter().find(|border| border.seq == seq.number());
        let image = image_of(replica.history, expected.expect("a border").border);
        let wrong = Job::Repair { seq, chunk: part, bytes: vec![0; 64].into() };
        replica.keeper.submit(wrong);
        replica.settle();
        assert!(matches!(replica.reports.pop(), Some(Report::NotRepaired { .. })));
        replica.keeper.submit(Job::Repair { seq, chunk: part, bytes: part_of(&image, part) });
        replica.settle();
        assert_eq!(replica.reports.pop(), Some(Report::Repaired { seq, place }));
    }
    found
}

#[test]
fn a_scrub_finds_and_mends_everything() {
    let (mut parts, mut copies) = (0, 0);
    for seed in 0..100 {
        let mut rng = Rng::new(seed + 4000);
        let history = History::random(&mut rng, Mode::Differential, 4);
        let files = written(&history, &mut rng);
        let (mut replica, places) = damaged(&history, &files, &mut rng, 1);
        replica.reopen();
        let found = scrub_and_repair(&mut replica);
        parts += found.iter().filter(|(_, place)| matches!(place, RotAt::Part(_))).count();
        copies += found.iter().filter(|(_, place)| *place == RotAt::Copy).count();
        // What was captured and replaced until the border means nothing, and is not looked at.
        let (name, at) = &places[0];
        if !found.is_empty() {
            assert!(replica.disk.content(name)[*at] == files[name][*at], "seed {seed}: {name} is as it was");
            assert_eq!(replica.disk.all(), files);
        }
        assert!(scrub_and_repair(&mut replica).is_empty(), "seed {seed}: nothing is left");
        let opened = replica.reopen();
        let missing = opened.damaged.map(|damaged| damaged.missing().count());
        assert!(
            missing.is_none() && opened.lost.is_empty(),
            "seed {seed}: {missing:?} {:?} {places:?}",
            opened.lost
        );
    }
    assert!(parts > 20 && copies > 20, "{parts} rotten parts, {copies} rotten copies");
}

/// A replica that runs has a file without its end. What is gone exists twice as long as one manifest is whole.
#[test]
fn a_scrub_lengthens_a_file_that_was_cut() {
    let (mut lengthened, mut lost) = (0, 0);
    for seed in 0..100 {
        let mut rng = Rng::new(seed + 4500);
        let history = History::random(&mut rng, Mode::Differential, 4);
        let files = written(&history, &mut rng);
        let (mut replica, _) = damaged(&history, &files, &mut rng, 0);
        replica.reopen();
        let name = files.keys().nth(rng.below(files.len() as u64) as usize).expect("a file");
        let mut bytes = files[name].clone();
        // The two footers have 8 KiB together.
        bytes.truncate(bytes.len() - 1 - rng.below(9000) as usize);
        replica.disk.put(name, bytes);
        let found = scrub_and_repair(&mut replica);
        if found.iter().any(|(_, place)| *place == RotAt::Whole) {
            lost += 1;
            continue;
        }
        assert!(!found.is_empty(), "seed {seed}: nothing was found");
        assert!(replica.disk.all() == files, "seed {seed}: {name} is as it was");
        assert!(scrub_and_repair(&mut replica).is_empty(), "seed {seed}: nothing is left");
        lengthened += 1;
    }
    assert!(lengthened > 60 && lost > 0, "{lengthened} are whole again, {lost} are not");
}

#[test]
fn what_is_damaged_at_start_is_repaired_in_place() {
    let mut repaired = 0;
    for seed in 0..60 {
        let mut rng = Rng::new(seed + 5000);
        let history = History::random(&mut rng, Mode::Differential, 4);
        let files = written(&history, &mut rng);
        let (mut replica, _) = damaged(&history, &files, &mut rng, 3);
        let opened = replica.reopen();
        let Some(damaged) = opened.damaged else { continue };
        let seq = damaged.manifest().seq();
        let image = image_of(&history, damaged.manifest().border());
        for part in damaged.missing() {
            replica.keeper.submit(Job::Repair { seq, chunk: part, bytes: part_of(&image, part) });
        }
        replica.settle();
        if replica.reports.iter().any(|report| matches!(report, Report::NotRepaired { .. })) {
            continue; // where it stood is not known any more: a manifest that it builds on is lost, too
        }
        let opened = replica.reopen();
        assert!(opened.damaged.is_none(), "seed {seed}");
        assert_eq!(opened.image.map(|image| image.seq), Some(seq), "seed {seed}");
        repaired += 1;
    }
    assert!(repaired > 10, "{repaired} were repaired");
}

#[test]
fn a_replica_that_starts_from_an_older_one_writes_the_rotten_one_again() {
    let mut again = 0;
    for seed in 0..60 {
        let mut rng = Rng::new(seed + 6000);
        let mode = if seed % 2 == 0 { Mode::Differential } else { Mode::Fuzzy };
        let history = History::random(&mut rng, mode, 4);
        let files = written(&history, &mut rng);
        let (mut replica, _) = damaged(&history, &files, &mut rng, 2);
        let opened = replica.reopen();
        let Some(damaged) = opened.damaged else { continue };
        while !replica.is_done() {
            replica.execute();
            replica.settle();
        }
        let opened = replica.reopen();
        let newest = history.borders.last().expect("a border").seq;
        assert_eq!(opened.image.map(|image| image.seq.number()), Some(newest), "seed {seed}");
        let Loaded::Whole(image) = replica.keeper.load(&mut replica.disk, damaged.manifest().seq()) else {
            panic!("seed {seed}")
        };
        check_image(&history, &image);
        again += 1;
    }
    assert!(again > 10, "{again} times");
}

#[test]
fn a_newer_format_is_left_alone() {
    let mut rng = Rng::new(1);
    let history = History::random(&mut rng, Mode::Fuzzy, 2);
    let files = written(&history, &mut rng);
    for newer_footer in [false, true] {
        let mut replica = Replica::new(&history);
        let (name, mut bytes) = files.clone().pop_first().expect("a file");
        let header = if newer_footer { bytes.len() - 4096..bytes.len() } else { 0..24 };
        let header = &mut bytes[header];
        header[4] = 2;
        let sealed = header.len() - 4;
        let crc = crc32c::crc32c(&header[..sealed]);
        header[sealed..].copy_from_slice(&crc.to_le_bytes());
        replica.disk.put(&name, bytes);
        replica.disk.put("00000000000000000009.unfinished", vec![1, 2, 3]);
        let before = replica.disk.all();
        let error = Keeper::open(&mut replica.disk, false).err().expect("a newer file is refused");
        assert!(error.to_string().contains("format 2"), "{error}");
        assert_eq!(replica.disk.all(), before);
    }
}
