//! What each job does, one by one: peers' questions, transfers, repairs of direction, full disks, failing disks.

use crate::checkpoint_common::{Disk, Event, History, Mode, Replica, Rng, check_image, digest_of, image_of};
use quorate_state::checkpoint::{
    Assembly, Files as _, Image, Instead, Job, Keeper, Kind, Manifest, Opened, Report, Step,
};
use quorate_state::store::Store;
use quorate_types::{Digest, Seq};

fn history(seed: u64, mode: Mode, borders: u64) -> History {
    History::random(&mut Rng::new(seed), mode, borders)
}

fn finished(history: &History) -> Replica<'_> {
    let mut replica = Replica::new(history);
    while !replica.is_done() {
        replica.execute();
        replica.settle();
    }
    replica
}

fn settle(keeper: &mut Keeper, disk: &mut Disk) -> Vec<Report> {
    let mut reports = Vec::new();
    while keeper.step(disk) != Step::Idle {
        reports.extend(keeper.reports());
    }
    reports.extend(keeper.reports());
    reports
}

fn open(disk: &mut Disk) -> (Keeper, Opened) {
    Keeper::open(disk, false).expect("the disk can be read")
}

/// Fetches a whole checkpoint by questions.
fn fetch(keeper: &mut Keeper, disk: &mut Disk, seq: Seq, digest: Digest) -> Option<Image> {
    let mut bytes = Vec::new();
    loop {
        let offset = bytes.len() as u64;
        keeper.submit(Job::ReadManifest { ticket: 1, seq, digest, offset, max: 1000 });
        let Some(Report::Manifest { ticket: 1, answer }) = settle(keeper, disk).pop() else {
            panic!("an answer")
        };
        let part = answer?;
        bytes.extend_from_slice(&part.bytes);
        if bytes.len() as u64 == part.total {
            break;
        }
    }
    let mut assembly = Assembly::new(Manifest::decode(&bytes).expect("a manifest"));
    assert_eq!(assembly.manifest().digest(), digest);
    for chunk in 0..assembly.manifest().parts() {
        keeper.submit(Job::ReadChunk { ticket: 2, seq, digest, chunk });
        let Some(Report::Chunk { ticket: 2, answer }) = settle(keeper, disk).pop() else {
            panic!("an answer")
        };
        assembly.add(chunk, &answer?).expect("what the manifest says");
    }
    assembly.image()
}

#[test]
fn peers_get_every_checkpoint_that_is_here() {
    let history = history(1, Mode::Differential, 6);
    let mut replica = finished(&history);
    for expected in &history.borders {
        let (seq, digest) = (Seq::new(expected.seq), digest_of(&history, expected.border));
        let image = fetch(&mut replica.keeper, &mut replica.disk, seq, digest).expect("it is here");
        check_image(&history, &image);
        let other = Digest::new([7; 32]);
        assert!(
            fetch(&mut replica.keeper, &mut replica.disk, seq, other).is_none(),
            "another state at this seq"
        );
    }
    let digest = digest_of(&history, 6);
    let nowhere = fetch(&mut replica.keeper, &mut replica.disk, Seq::new(3), digest);
    assert!(nowhere.is_none());
    for (offset, chunk) in [(1 << 40, u32::MAX), (u64::MAX, 1 << 20)] {
        let seq = Seq::new(history.borders[5].seq);
        replica.keeper.submit(Job::ReadManifest { ticket: 8, seq, digest, offset, max: usize::MAX });
        replica.keeper.submit(Job::ReadChunk { ticket: 9, seq, digest, chunk });
        let reports = settle(&mut replica.keeper, &mut replica.disk);
        let nothing =
            [Report::Manifest { ticket: 8, answer: None }, Report::Chunk { ticket: 9, answer: None }];
        assert_eq!(reports, nothing);
    }
}

/// Parts are small, and a checkpoint that is written takes every second step: one part a step would let a peer wait for ever.
#[test]
fn a_step_answers_many_questions() {
    let history = history(1, Mode::Fuzzy, 2);
    let mut replica = finished(&history);
    let (seq, digest) = (Seq::new(history.borders[1].seq), digest_of(&history, 2));
    for ticket in 0..200 {
        replica.keeper.submit(Job::ReadChunk { ticket, seq, digest, chunk: 1 });
    }
    let (mut steps, mut answers, mut bytes) = (0, 0, 0);
    while replica.keeper.step(&mut replica.disk) != Step::Idle {
        steps += 1;
        for report in replica.keeper.reports() {
            let Report::Chunk { answer: Some(part), .. } = report else { panic!("{report:?}") };
            (answers, bytes) = (answers + 1, bytes + part.len());
        }
    }
    assert_eq!(answers, 200);
    assert!(steps <= 5 + bytes / (256 << 10), "{steps} steps for {bytes} bytes");
}

#[test]
fn a_rotten_part_is_not_sent() {
    let history = history(2, Mode::Stop, 2);
    let mut replica = finished(&history);
    let (seq, digest) = (Seq::new(history.borders[1].seq), digest_of(&history, 2));
    let name = replica.disk.names().pop().expect("a file");
    replica.disk.flip(&name, 5000, 3);
    let mut reports = Vec::new();
    for _ in 0..2 {
        for chunk in 0..Manifest::of(&image_of(&history, 2)).parts() {
            replica.keeper.submit(Job::ReadChunk { ticket: 1, seq, digest, chunk });
        }
        reports.extend(settle(&mut replica.keeper, &mut replica.disk));
    }
    let rot = |report: &&Report| matches!(report, Report::Rot { .. });
    let refused = |report: &&Report| matches!(report, Report::Chunk { answer: None, .. });
    assert_eq!(reports.iter().filter(refused).count(), 2);
    assert_eq!(reports.iter().filter(rot).count(), 1, "questions make it known once");
    replica.keeper.submit(Job::Scrub);
    let reports = settle(&mut replica.keeper, &mut replica.disk);
    assert!(matches!(reports[..], [Report::Rot { .. }, Report::ScrubDone { .. }]), "{reports:?}");
}

/// No file descriptor, no memory: the file is sound, and is sent when there is one again. A disk that can not be read is another thing.
#[test]
fn a_system_that_is_short_of_something_is_no_rot() {
    const SHORT: [i32; 3] = [12, 23, 24];
    const BROKEN: i32 = 5;
    let history = history(2, Mode::Stop, 2);
    let (seq, digest) = (Seq::new(history.borders[1].seq), digest_of(&history, 2));
    for known in [false, true] {
        let mut replica = finished(&history);
        let ask = |replica: &mut Replica<'_>| {
            replica.keeper.submit(Job::ReadChunk { ticket: 1, seq, digest, chunk: 0 });
            settle(&mut replica.keeper, &mut replica.disk)
        };
        if known {
            ask(&mut replica); // where its parts stand was looked up before
        }
        for number in SHORT {
            replica.disk.fail_read = Some(number);
            assert_eq!(ask(&mut replica), [Report::Chunk { ticket: 1, answer: None }], "{number}");
        }
        replica.keeper.submit(Job::Scrub);
        let reports = settle(&mut replica.keeper, &mut replica.disk);
        assert!(matches!(reports[..], [Report::ScrubDone { .. }]), "{reports:?}");
        replica.disk.fail_read = None;
        let reports = ask(&mut replica);
        assert!(matches!(reports[..], [Report::Chunk { answer: Some(_), .. }]), "{reports:?}");
        replica.disk.fail_read = Some(BROKEN);
        if !known {
            replica.keeper.submit(Job::ReadChunk { ticket: 1, seq, digest, chunk: 0 });
        }
        let reports = ask(&mut replica);
        assert!(reports.iter().any(|report| matches!(report, Report::Rot { .. })), "{reports:?}");
    }
}

#[test]
fn memory_durability_holds_the_newest_image_and_touches_no_file() {
    let history = history(3, Mode::Fuzzy, 3);
    let mut disk = Disk::default();
    disk.crash_in = Some(0);
    let (mut keeper, opened) = Keeper::open(&mut disk, true).expect("nothing can go wrong");
    assert!(opened.image.is_none());
    for border in 1..=3 {
        let image = image_of(&history, border);
        keeper.submit(Job::Ahead { border, version: image.objects.clone() });
        keeper.submit(Job::Border { image, write: Some(Kind::Full) });
        keeper.submit(Job::Forget { keep: Seq::new(history.borders[border as usize - 1].seq) });
        keeper.submit(Job::Scrub);
        let reports = settle(&mut keeper, &mut disk);
        let written = |report: &&Report| matches!(report, Report::Written { bytes: 0, .. });
        assert_eq!(reports.iter().filter(written).count(), 1, "{reports:?}");
        for earlier in 1..=border {
            let (seq, digest) = (history.borders[earlier as usize - 1].seq, digest_of(&history, earlier));
            let image = fetch(&mut keeper, &mut disk, Seq::new(seq), digest);
            assert_eq!(image.is_some(), earlier == border);
        }
    }
    assert!(disk.names().is_empty());
}

#[test]
fn a_border_without_its_predecessor_is_written_full() {
    let history = history(4, Mode::Differential, 4);
    let mut disk = Disk::default();
    let (mut keeper, _) = open(&mut disk);
    let mut say = |border: u64, write| {
        keeper.submit(Job::Border { image: image_of(&history, border), write });
        let written = settle(&mut keeper, &mut disk).into_iter().find_map(|report| match report {
            Report::Written { kind, instead, .. } => Some((kind, instead)),
            _ => None,
        });
        written.map(|(kind, instead)| (kind == Kind::Full, instead))
    };
    assert_eq!(say(1, Some(Kind::Differential)), Some((true, Some(Instead::NoPrevious))));
    assert_eq!(say(2, None), None);
    assert_eq!(say(3, Some(Kind::Differential)), Some((true, Some(Instead::NoPrevious))));
    assert_eq!(say(4, Some(Kind::Differential)), Some((false, None)));
}

#[test]
fn a_chain_ends_after_64_links() {
    let (mut disk, mut store) = (Disk::default(), Store::new());
    let (mut keeper, _) = open(&mut disk);
    let mut kinds = Vec::new();
    for border in 1..=67 {
        store.put(format!("key {border}").as_bytes(), &[border as u8; 100]);
        let image =
            Image { seq: Seq::new(border * 10), border, system: vec![1; 9].into(), objects: store.version() };
        keeper.submit(Job::Border { image, write: Some(Kind::Differential) });
        for report in settle(&mut keeper, &mut disk) {
            if let Report::Written { instead, .. } = report {
                kinds.push(instead);
            }
        }
        let (_, opened) = open(&mut disk);
        let image = opened.image.expect("it can be loaded");
        assert_eq!((image.seq, image.objects.root()), (Seq::new(border * 10), store.version().root()));
    }
    assert_eq!(kinds[0], Some(Instead::NoPrevious));
    assert!(kinds[1..65].iter().all(Option::is_none), "64 links");
    assert_eq!(kinds[65], Some(Instead::ChainTooLong));
    assert_eq!(kinds[66], None);
    keeper.submit(Job::Forget { keep: Seq::new(660) });
    settle(&mut keeper, &mut disk);
    assert_eq!(disk.names().len(), 2, "the new full one, and what builds on it: {:?}", disk.names());
}

#[test]
fn forgetting_leaves_every_chain_that_is_needed() {
    let history = history(5, Mode::Differential, 10); // full ones at 1 and 6
    let mut replica = finished(&history);
    let seq = |border: usize| Seq::new(history.borders[border - 1].seq);
    let expect = |replica: &Replica<'_>, borders: &[usize]| {
        let found: Vec<Seq> = replica.keeper.checkpoints().map(|(seq, _, _)| seq).collect();
        assert_eq!(found, borders.iter().map(|border| seq(*border)).collect::<Vec<_>>());
        assert_eq!(replica.disk.names().len(), borders.len());
    };
    replica.keeper.submit(Job::Forget { keep: Seq::new(seq(4).number() + 1) });
    replica.settle();
    expect(&replica, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]); // no such checkpoint
    replica.keeper.submit(Job::Forget { keep: seq(4) });
    replica.settle();
    expect(&replica, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    replica.keeper.submit(Job::Forget { keep: seq(6) });
    replica.settle();
    expect(&replica, &[6, 7, 8, 9, 10]);
    replica.keeper.submit(Job::Forget { keep: seq(10) });
    replica.settle();
    expect(&replica, &[6, 7, 8, 9, 10]);
    assert_eq!(replica.reopen().image.map(|image| image.seq), Some(seq(10)));
}

#[test]
fn the_one_in_the_middle_is_skipped_and_its_digest_is_not() {
    let history = history(6, Mode::Stop, 4);
    let mut replica = Replica::new(&history);
    while !replica.is_done() {
        replica.execute();
        if replica.at as u64 == history.borders[0].seq {
            while replica.keeper.writing().is_none() {
                replica.step();
            }
        }
    }
    replica.settle();
    let mut says = Vec::new();
    for report in &replica.reports {
        says.push(match report {
            Report::Digest { border, .. } => format!("digest {border}"),
            Report::Written { seq, .. } => format!("written {}", seq.number()),
            Report::Skipped { seq } => format!("skipped {}", seq.number()),
            other => panic!("{other:?}"),
        });
    }
    let seq: Vec<u64> = history.borders.iter().map(|border| border.seq).collect();
    let expected = [
        "digest 1".into(),
        "digest 2".into(),
        "digest 3".into(),
        format!("skipped {}", seq[1]),
        "digest 4".into(),
        format!("skipped {}", seq[2]),
        format!("written {}", seq[0]),
        format!("written {}", seq[3]),
    ];
    assert_eq!(says, expected);
}

#[test]
fn no_room_is_reported_and_leaves_nothing() {
    let history = history(7, Mode::Fuzzy, 3);
    let mut replica = Replica::new(&history);
    let mut refused = 0;
    while !replica.is_done() {
        let border = match replica.next() {
            Some(Event::Border(border) | Event::Ahead(border)) => *border,
            _ => 0,
        };
        if border > 0 {
            replica.disk.capacity = (border == 2).then(|| replica.disk.used() + 70_000);
        }
        replica.execute();
        replica.settle();
        let no_room = Report::NoRoom { seq: Seq::new(history.borders[1].seq) };
        refused = replica.reports.iter().filter(|report| **report == no_room).count();
    }
    assert_eq!(refused, 1, "{:?}", replica.reports);
    assert!(replica.disk.names().iter().all(|name| name.ends_with(".full")), "{:?}", replica.disk.names());
    assert_eq!(replica.disk.names().len(), 2);
    assert_eq!(replica.written, history.borders[2].seq);
}

#[test]
fn room_that_comes_back_before_the_border_changes_nothing() {
    let history = history(8, Mode::Fuzzy, 2);
    let expected = finished(&history).disk.all();
    let mut replica = Replica::new(&history);
    while !replica.is_done() {
        if let Some(Event::Ahead(2)) = replica.next() {
            replica.disk.capacity = Some(replica.disk.used() + 70_000);
            replica.execute();
            replica.settle();
            assert_eq!(replica.disk.names().len(), 1, "what was captured had to go");
            replica.disk.capacity = None;
        }
        replica.execute();
        replica.settle();
    }
    assert_eq!(replica.disk.all(), expected);
}

#[test]
fn a_failed_sync_ends_everything() {
    let history = history(9, Mode::Stop, 2);
    let mut replica = Replica::new(&history);
    replica.disk.fail_sync = true;
    while !replica.is_done() {
        replica.execute();
        replica.settle();
    }
    let failed =
        replica.reports.iter().position(|report| matches!(report, Report::Failed { sync: true, .. }));
    let after = &replica.reports[failed.expect("it is reported") + 1..];
    assert_eq!(after, [Report::Skipped { seq: Seq::new(history.borders[0].seq) }]);
    assert_eq!(replica.written, 0);
    replica.keeper.submit(Job::Scrub);
    assert!(!replica.step(), "nothing is tried again");
}

#[test]
fn a_failed_write_costs_one_checkpoint() {
    let history = history(10, Mode::Stop, 2);
    let mut replica = Replica::new(&history);
    replica.disk.fail_append = true;
    while !replica.is_done() {
        replica.execute();
        replica.settle();
    }
    assert!(replica.reports.iter().any(|report| matches!(report, Report::Failed { sync: false, .. })));
    assert_eq!(replica.written, history.borders[1].seq);
    assert_eq!(replica.disk.names().len(), 1);
}

#[test]
fn an_installed_image_replaces_what_went_another_way() {
    let ours = history(11, Mode::Differential, 6);
    let theirs = history(12, Mode::Stop, 3);
    let mut replica = finished(&ours);
    // Theirs has the seq of our third border, or lies before all of ours.
    for (seq, stay) in [(ours.borders[2].seq, 2), (1, 0)] {
        let image = Image { seq: Seq::new(seq), ..image_of(&theirs, 3) };
        let digest = image.digest();
        let border = Job::Border { image: image_of(&ours, 6), write: Some(Kind::Full) };
        replica.keeper.submit(border); // of the way that is given up
        replica.keeper.submit(Job::Install { image });
        let reports = settle(&mut replica.keeper, &mut replica.disk);
        let newest = reports.last().cloned();
        let Some(Report::Written { seq: found, kind: Kind::Full, .. }) = newest else { panic!("{newest:?}") };
        assert_eq!(found, Seq::new(seq));
        assert_eq!(reports[0], Report::Skipped { seq: Seq::new(ours.borders[5].seq) });
        let (_, opened) = open(&mut replica.disk);
        assert_eq!(opened.digest, Some(digest));
        assert_eq!(opened.image.map(|image| image.digest()), Some(digest));
        assert_eq!(opened.found.len(), stay + 1);
        assert_eq!(replica.disk.names().len(), stay + 1);
    }
}

#[test]
fn an_install_that_is_asked_for_again_does_not_begin_anew() {
    let history = history(14, Mode::Stop, 3);
    let image = image_of(&history, 3);
    let mut last = 0;
    for steps in 0.. {
        let (mut disk, mut reports) = (Disk::default(), Vec::new());
        let (mut keeper, _) = open(&mut disk);
        keeper.submit(Job::Install { image: image.clone() });
        let done = (0..steps).any(|_| keeper.step(&mut disk) == Step::Idle);
        reports.extend(keeper.reports());
        keeper.submit(Job::Install { image: image.clone() });
        reports.extend(settle(&mut keeper, &mut disk));
        let skipped = reports.iter().any(|report| matches!(report, Report::Skipped { .. }));
        assert!(!skipped, "after {steps} steps: {reports:?}");
        assert!(reports.iter().any(|report| matches!(report, Report::Written { .. })));
        last = steps;
        if done {
            break;
        }
    }
    assert!(last > 3, "it takes several steps");
}

#[test]
fn discarding_leaves_what_is_agreed() {
    let history = history(13, Mode::Differential, 6);
    let mut replica = finished(&history);
    let above = Seq::new(history.borders[3].seq);
    replica.keeper.submit(Job::Border { image: image_of(&history, 6), write: Some(Kind::Full) });
    replica.keeper.submit(Job::Discard { above });
    // Execution goes on from there, and comes to the same borders again.
    let again = Job::Border { image: image_of(&history, 5), write: Some(Kind::Differential) };
    replica.keeper.submit(again);
    let reports = settle(&mut replica.keeper, &mut replica.disk);
    assert_eq!(reports[0], Report::Skipped { seq: Seq::new(history.borders[5].seq) });
    let kind = reports.iter().find_map(|report| match report {
        Report::Written { kind, .. } => Some(*kind),
        _ => None,
    });
    assert_eq!(kind, Some(Kind::Differential));
    assert_eq!(replica.disk.names().len(), 5);
    assert_eq!(replica.reopen().image.map(|image| image.border), Some(5));
}

/// What a capture leaves out follows from the border before it, also when later ones are given up before its turn comes.
#[test]
fn what_is_given_up_changes_nothing_of_what_stays() {
    // Of several chunks, of which some change before each border.
    let image = |border: u64| {
        let mut store = Store::new();
        for key in 0..3000_u64 {
            let value = if key / 300 < border { border } else { 0 };
            store.put(&key.to_be_bytes(), &[value as u8; 200]);
        }
        Image { seq: Seq::new(border * 10), border, system: vec![7; 100].into(), objects: store.version() }
    };
    let file = |disk: &mut Disk, seq: Seq| {
        let name =
            disk.names().into_iter().find(|name| name.starts_with(&format!("{:020}", seq.number())))?;
        let len = disk.len(&name).expect("it is there");
        Some(disk.read(&name, 0, len as usize).expect("it can be read"))
    };
    let run = |steps: usize, discards: bool| {
        let mut disk = Disk::default();
        let (mut keeper, _) = open(&mut disk);
        keeper.submit(Job::Border { image: image(1), write: None });
        keeper.submit(Job::Ahead { border: 2, version: image(2).objects });
        keeper.submit(Job::Border { image: image(2), write: Some(Kind::Full) });
        let mut reached = false;
        for _ in 0..steps {
            keeper.step(&mut disk);
            let digest = |report: &Report| matches!(report, Report::Digest { border: 2, .. });
            reached |= keeper.reports().any(|report| digest(&report));
        }
        // Before its border is reached a capture is given up, too.
        if !reached {
            return None;
        }
        if discards {
            keeper.submit(Job::Discard { above: image(2).seq });
        }
        settle(&mut keeper, &mut disk);
        Some(file(&mut disk, image(2).seq).expect("it is written"))
    };
    for steps in 0..40 {
        assert!(run(steps, true) == run(steps, false), "after {steps} steps");
    }
    assert!(run(39, true).is_some());
}

#[test]
fn a_border_that_waits_for_the_one_before_says_that_writing_is_too_slow() {
    let history = history(14, Mode::Stop, 3);
    let mut disk = Disk::default();
    let (mut keeper, _) = open(&mut disk);
    keeper.submit(Job::Border { image: image_of(&history, 1), write: Some(Kind::Full) });
    while keeper.writing().is_none() {
        assert!(!keeper.is_behind());
        assert_ne!(keeper.step(&mut disk), Step::Idle);
    }
    assert!(!keeper.is_behind(), "one at a time");
    keeper.submit(Job::Border { image: image_of(&history, 2), write: Some(Kind::Full) });
    while !keeper.is_behind() {
        assert_ne!(keeper.step(&mut disk), Step::Idle, "its digest comes first");
    }
    settle(&mut keeper, &mut disk);
    assert!(!keeper.is_behind());
}
