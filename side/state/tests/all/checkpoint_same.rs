//! Files are the same on every replica, whatever its speed, its restarts and the way it came to the same states. (INV-KEEP-3)

use std::collections::BTreeMap;
use std::io;

use crate::checkpoint_common::{Disk, Event, History, Mode, Replica, Rng};
use bytes::Bytes;
use quorate_state::checkpoint::{Files, Image, Job, Keeper, Kind, Report, Step, SystemPart};
use quorate_state::store::Store;
use quorate_types::Seq;

/// Executes everything, and steps at random, but never so late that a checkpoint must be skipped. Returns all files that were
/// ever there.
fn run(replica: &mut Replica<'_>, rng: &mut Rng, crashes: bool) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let lazy = 1 + rng.below(30);
    while !replica.is_done() {
        if matches!(replica.next(), Some(Event::Border(_))) {
            // What was captured ahead may be unfinished when the border comes; the border before may not.
            let before = replica
                .history
                .borders
                .iter()
                .rev()
                .find(|b| b.seq <= replica.at as u64 && b.write.is_some());
            while before.is_some_and(|before| replica.written < before.seq) && replica.step() {}
        }
        replica.execute();
        if rng.one_in(lazy) {
            (0..rng.below(20)).for_each(|_| {
                replica.step();
            });
        }
        if crashes && rng.one_in(25) {
            collect(replica, &mut files);
            replica.crash(rng);
        }
    }
    replica.settle();
    collect(replica, &mut files);
    assert!(!replica.deviates, "nothing happened that makes other files");
    files
}

fn collect(replica: &Replica<'_>, files: &mut BTreeMap<String, Vec<u8>>) {
    for (name, bytes) in replica.disk.all().into_iter().filter(|(name, _)| !name.ends_with(".unfinished")) {
        if let Some(before) = files.insert(name.clone(), bytes.clone()) {
            assert!(before == bytes, "{name} is written again as it was");
        }
    }
}

#[test]
fn files_do_not_depend_on_speed_or_history() {
    let mut captured = 0;
    for seed in 0..60 {
        let mut rng = Rng::new(seed + 1000);
        let mode = [Mode::Fuzzy, Mode::Stop, Mode::Differential, Mode::Staggered][seed as usize % 4];
        let history = History::random(&mut rng, mode, 7);
        let mut one = Replica::new(&history);
        let mut other = Replica::with(&history, history.another_way(&mut rng));
        let first = run(&mut one, &mut rng, false);
        let second = run(&mut other, &mut rng, seed % 3 == 0);
        assert_eq!(first.keys().collect::<Vec<_>>(), second.keys().collect::<Vec<_>>(), "seed {seed}");
        for (name, bytes) in &first {
            let at = bytes.iter().zip(&second[name]).position(|(one, other)| one != other);
            let lens = (bytes.len(), second[name].len());
            assert!(*bytes == second[name], "seed {seed}: {name} differs at {at:?} of {lens:?}");
        }
        assert_eq!(first.len(), history.borders.iter().filter(|border| border.write.is_some()).count());
        captured += usize::from(mode == Mode::Fuzzy && first.values().any(|bytes| bytes.len() > 200_000));
    }
    assert!(captured > 5, "states are large enough to say something");
}

#[test]
fn a_capture_leaves_little_for_the_border() {
    let (mut disk, mut store) = (Disk::default(), Store::new());
    let (mut keeper, _) = Keeper::open(&mut disk, false).expect("an empty disk");
    let mut settle = |keeper: &mut Keeper| while keeper.step(&mut disk) != Step::Idle {};
    for number in 0..400 {
        store.put(format!("{number:04}").as_bytes(), &[number as u8; 3000]);
    }
    keeper.submit(Job::Ahead { border: 1, version: store.version() });
    settle(&mut keeper);
    let captured = keeper.writing().expect("what was captured waits for its border").1;
    assert!(captured > 1_200_000);
    store.put(b"0007", b"new");
    store.remove(b"0321");
    let image = Image { seq: Seq::new(9), border: 1, system: vec![1; 100].into(), objects: store.version() };
    keeper.submit(Job::Border { image, write: Some(Kind::Full) });
    settle(&mut keeper);
    let Some(Report::Written { bytes, instead: None, .. }) = keeper.reports().last() else {
        panic!("a report")
    };
    let after = bytes - captured;
    assert!(after < 150_000, "{captured} bytes ahead of the border, {after} at it");
}

#[test]
fn what_changes_all_the_time_is_not_captured() {
    let (mut disk, mut store) = (Disk::default(), Store::new());
    let (mut keeper, _) = Keeper::open(&mut disk, false).expect("an empty disk");
    let mut settle = |keeper: &mut Keeper| while keeper.step(&mut disk) != Step::Idle {};
    let key = |number: u32| number.to_be_bytes().map(|byte| byte.wrapping_mul(83));
    (0..1024).for_each(|number| assert!(!store.put(&key(number), &[1; 3000])));
    let border = |number: u64, store: &Store| {
        let (seq, objects) = (Seq::new(10 * number), store.version());
        Job::Border {
            image: Image { seq, border: number, system: SystemPart::default(), objects },
            write: Some(Kind::Full),
        }
    };
    keeper.submit(border(1, &store));
    settle(&mut keeper);
    // The last byte counts least in the order of keys: a fourth of all chunks, and all keys in them.
    let busy = |store: &mut Store, value: u8| {
        (0..256).for_each(|number| _ = store.put(&key(number), &[value; 3000]))
    };
    busy(&mut store, 2);
    keeper.submit(Job::Ahead { border: 2, version: store.version() });
    settle(&mut keeper);
    let captured = keeper.writing().expect("what was captured waits for its border").1;
    assert!((2_000_000..2_500_000).contains(&captured), "{captured}");
    busy(&mut store, 3);
    keeper.submit(border(2, &store));
    settle(&mut keeper);
    let bytes = keeper.reports().filter_map(|report| match report {
        Report::Written { bytes, .. } => Some(bytes),
        _ => None,
    });
    let bytes: Vec<u64> = bytes.collect();
    assert_eq!(bytes.len(), 2);
    assert_eq!(bytes[0], bytes[1], "nothing is in the file twice");
}

#[test]
fn a_differential_checkpoint_holds_what_changed() {
    let mut rng = Rng::new(11);
    let history = History::random(&mut rng, Mode::Differential, 10);
    let mut replica = Replica::new(&history);
    run(&mut replica, &mut rng, false);
    let (mut full, mut differential) = (Vec::new(), Vec::new());
    for report in &replica.reports {
        match report {
            Report::Written { kind: Kind::Full, bytes, .. } => full.push(*bytes),
            Report::Written { bytes, .. } => differential.push(*bytes),
            _ => {}
        }
    }
    assert_eq!((full.len(), differential.len()), (2, 8));
    assert!(differential.iter().sum::<u64>() / 8 < full.iter().sum::<u64>() / 2, "{full:?} {differential:?}");
}

/// Counts syncs, and what is written at once.
struct Counting {
    disk: Disk,
    syncs: Vec<u64>,
    since: u64,
}

impl Files for Counting {
    fn list(&mut self) -> io::Result<Vec<String>> {
        self.disk.list()
    }
    fn len(&mut self, name: &str) -> io::Result<u64> {
        self.disk.len(name)
    }
    fn read(&mut self, name: &str, offset: u64, len: usize) -> io::Result<Bytes> {
        self.disk.read(name, offset, len)
    }
    fn create(&mut self, name: &str) -> io::Result<()> {
        self.disk.create(name)
    }
    fn append(&mut self, name: &str, parts: &[Bytes]) -> io::Result<()> {
        self.since += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        self.disk.append(name, parts)
    }
    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.write_at(name, offset, bytes)
    }
    fn truncate(&mut self, name: &str, len: u64) -> io::Result<()> {
        self.disk.truncate(name, len)
    }
    fn sync(&mut self, name: &str) -> io::Result<()> {
        self.syncs.push(std::mem::take(&mut self.since));
        self.disk.sync(name)
    }
    fn publish(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.disk.publish(from, to)
    }
    fn delete(&mut self, name: &str) -> io::Result<()> {
        self.disk.delete(name)
    }
}

#[test]
fn steps_are_small_and_the_disk_is_kept_up_to_date() {
    const MIB: u64 = 1 << 20;
    let mut files = Counting { disk: Disk::default(), syncs: Vec::new(), since: 0 };
    let mut store = Store::new();
    for number in 0..600 {
        store.put(format!("{number:04}").as_bytes(), &[number as u8; 50_000]);
    }
    let (mut keeper, _) = Keeper::open(&mut files, false).expect("an empty disk");
    let image =
        Image { seq: Seq::new(9), border: 1, system: vec![1; 300_000].into(), objects: store.version() };
    keeper.submit(Job::Border { image, write: Some(Kind::Full) });
    keeper.submit(Job::Scrub);
    while let Step::Worked { bytes, .. } = keeper.step(&mut files) {
        assert!(bytes <= MIB + MIB / 8, "{bytes} bytes in one step");
    }
    assert!(
        files.syncs.len() > 3 && files.syncs.iter().all(|bytes| *bytes <= 9 * MIB + MIB / 8),
        "{:?}",
        files.syncs
    );
}

#[test]
fn digests_are_computed_in_small_steps() {
    let (mut disk, mut store) = (Disk::default(), Store::new());
    for number in 0..8_000_u64 {
        store.put(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes(), &[number as u8; 1000]);
    }
    let (mut keeper, _) = Keeper::open(&mut disk, false).expect("an empty disk");
    let image =
        Image { seq: Seq::new(9), border: 1, system: SystemPart::default(), objects: store.version() };
    keeper.submit(Job::Border { image, write: None });
    let mut steps = 0;
    while keeper.reports().next().is_none() {
        assert_ne!(keeper.step(&mut disk), Step::Idle);
        steps += 1;
    }
    assert!(steps > 8, "8 MB of objects in {steps} steps");
}
