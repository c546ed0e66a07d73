//! Disks that are really full: writes are refused and reads go on, nobody stops, and writes, checkpoints and transfers resume by
//! themselves when there is room again. Needs the right to mount a tmpfs; without it these tests say so and do nothing.

use crate::filled::damage;
use crate::filled::filling::Filler;
use crate::filled::looking::{
    checkpoints, executed, finish, has_problem, number, problems, wait_for_checkpoint, wait_until_sound,
    wait_well,
};
use crate::filled::settings::{SEGMENT_MIB, Settings};
use crate::rig::cluster::{Cluster, REPLICAS, wait};
use crate::rig::load::{Load, Plan};
use crate::rig::random::Random;
use crate::rig::{recorder, tmpfs, verify};
use quorate::client::{Error, ReadOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
const PLAN: Plan = Plan {
    waiting: 4,
    pipelined: 1,
    chains: 1,
    keys: 6,
    pause: Duration::from_millis(20),
    padding: 0,
    replicas: REPLICAS as u64,
};

/// Large values under a few keys, to fill disks.
fn large(cluster: &Cluster) -> Filler {
    Filler::new(cluster, 4, 128 << 10)
}

fn is_full(cluster: &Cluster, at: usize) -> bool {
    let problems = problems(cluster, at).unwrap_or_default();
    problems.iter().any(|problem| problem.starts_with("the disk is full: writes"))
}

fn skip(why: &str) {
    quorate_skipped::skipped(format!("no tmpfs can be mounted here: {why}"));
}

#[test]
fn one_full_disk_holds_up_nobody_else() {
    let mut random = Random::from_environment("tmpfs");
    let mut cluster = Cluster::new("tmpfs-one", 24, &mut random);
    let place = match cluster.move_to_tmpfs(&[2], 80) {
        Ok(place) => place,
        Err(why) => return skip(&why),
    };
    cluster.heal();
    cluster.wait_for_leader();
    cluster.make_leader(0);
    let mut load = Load::start(&cluster, PLAN, &mut random);
    let mut filler = large(&cluster);
    filler.write_until(|| is_full(&cluster, 2)).unwrap();
    // What is left of its last segment, and then more than it can take.
    filler.write_until(|| executed(&cluster, 2) + 100 < executed(&cluster, 0)).unwrap();
    assert!(is_full(&cluster, 2) && !is_full(&cluster, 0) && !is_full(&cluster, 1));
    load.wait_for_progress(200, &mut cluster);
    // It starts again with a full disk, too.
    cluster.kill(2);
    cluster.start(2);
    wait("it says again that its disk is full", || is_full(&cluster, 2));
    load.wait_for_progress(100, &mut cluster);
    tmpfs::resize(&place, 400);
    wait("its disk has room", || !is_full(&cluster, 2));
    filler.check();
    verify::finish(&mut cluster, &mut load, PLAN.keys);
}

#[test]
fn a_leader_with_a_full_disk_does_not_hold_up_the_others() {
    let mut random = Random::from_environment("tmpfs-leader");
    let mut cluster = Cluster::new("tmpfs-leader", 24, &mut random);
    let place = match cluster.move_to_tmpfs(&[2], 80) {
        Ok(place) => place,
        Err(why) => return skip(&why),
    };
    cluster.heal();
    cluster.wait_for_leader();
    cluster.make_leader(2);
    let mut load = Load::start(&cluster, PLAN, &mut random);
    let mut filler = large(&cluster);
    filler.write_until(|| executed(&cluster, 2) + 100 < executed(&cluster, 0)).unwrap();
    load.wait_for_progress(200, &mut cluster);
    assert_ne!(cluster.leader(), Some(2), "it could not take what it would have to lead");
    tmpfs::resize(&place, 400);
    filler.check();
    verify::finish(&mut cluster, &mut load, PLAN.keys);
}

#[test]
fn when_all_disks_are_full_reads_go_on_and_writes_resume_by_themselves() {
    let mut random = Random::from_environment("tmpfs-all");
    let mut cluster = Cluster::new("tmpfs-all", 20, &mut random);
    // Two segments for each, what is kept for checkpoints, and something that can be deleted.
    let place = match cluster.move_to_tmpfs(&[0, 1, 2], 315) {
        Ok(place) => place,
        Err(why) => return skip(&why),
    };
    let ballast = place.join("ballast");
    std::fs::write(&ballast, vec![1; (170 * MIB) as usize]).unwrap();
    cluster.heal();
    cluster.wait_for_leader();
    let mut load = Load::start(&cluster, PLAN, &mut random);
    // So many keys that the state fills the disks. A log that does is trimmed, and writes go on.
    let mut filler = Filler::new(&cluster, 2000, 128 << 10);
    filler.put("goes").unwrap();
    let refused = filler.write_until(|| false).unwrap_err();
    assert!(matches!(refused, Error::DiskFull { .. }), "{refused}");
    wait("clients are told that the disks are full", || load.recorder.refused_full() > 20);
    assert!((0..REPLICAS).any(|at| is_full(&cluster, at)));
    fill_up(&place.join("crumbs"));
    let reader = cluster.client(Duration::from_secs(10));
    let read = |options| reader.read(recorder::get("k0"), options).map(|read| read.seq);
    read(ReadOptions::STRONG).expect("strong reads go on");
    read(ReadOptions::WEAK).expect("weak reads go on");
    assert!(matches!(filler.delete("goes"), Ok(true)), "what makes room is still taken");
    assert!(matches!(filler.put("goes"), Err(Error::DiskFull { .. })));
    // A leader is elected although not a byte is left, and a replica starts again.
    let leader = cluster.wait_for_leader();
    cluster.kill(leader);
    cluster.wait_for_leader();
    read(ReadOptions::STRONG).expect("strong reads go on");
    cluster.start(leader);
    wait("it is back", || cluster.status(leader).is_some());
    read(ReadOptions::STRONG).expect("strong reads go on");
    filler.check();
    std::fs::remove_file(&ballast).unwrap();
    load.wait_for_progress(300, &mut cluster);
    filler.write().expect("large values are taken again, too");
    filler.check();
    verify::finish(&mut cluster, &mut load, PLAN.keys);
}

#[test]
fn deletes_end_disks_that_data_filled() {
    let mut random = Random::from_environment("tmpfs-deletes");
    let mut cluster = Cluster::new("tmpfs-deletes", SEGMENT_MIB, &mut random);
    Settings { interval_bytes: 512 << 10, ..Settings::default() }.configure(&cluster);
    if let Err(why) = cluster.move_to_tmpfs(&[0, 1, 2], 400) {
        return skip(&why);
    }
    cluster.heal();
    cluster.wait_for_leader();
    let mut load = Load::start(&cluster, PLAN, &mut random);
    let mut filler = Filler::new(&cluster, 3000, 128 << 10);
    // Twice: what was kept for this is there again.
    for _ in 0..2 {
        let refused = filler.write_until(|| false).unwrap_err();
        assert!(matches!(refused, Error::DiskFull { .. }), "{refused}");
        wait_well(&mut cluster, "they do not help themselves", |cluster| {
            std::thread::sleep(Duration::from_secs(3));
            (0..REPLICAS).any(|at| is_full(cluster, at))
        });
        let until = Instant::now() + crate::rig::cluster::LIMIT;
        while !matches!(filler.delete_oldest(), Ok(false)) {
            assert!(Instant::now() < until, "deletes are refused");
        }
        wait_well(&mut cluster, "all have room again", |cluster| {
            (0..REPLICAS).all(|at| cluster.status(at).is_some() && !is_full(cluster, at))
        });
        load.wait_for_progress(100, &mut cluster);
        filler.write().expect("large values are taken again, too");
    }
    filler.check();
    verify::finish(&mut cluster, &mut load, PLAN.keys);
}

/// Somebody else's file, which takes every byte that there is, and every one that gets free.
struct Foreign {
    file: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Foreign {
    fn grow(file: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stops, mut out) = (stop.clone(), std::fs::File::create(&file).unwrap());
        let thread = std::thread::spawn(move || {
            while !stops.load(Ordering::Acquire) {
                for piece in [MIB as usize, 4096, 1] {
                    while out.write_all(&vec![1; piece]).is_ok() {}
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Self { file, stop, thread: Some(thread) }
    }

    fn remove(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
            let _ = std::fs::remove_file(&self.file);
        }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.end();
    }
}

/// The number of the log's first file.
fn first_segment(cluster: &Cluster, at: usize) -> u64 {
    let files = std::fs::read_dir(cluster.log(at)).unwrap();
    let number = |name: String| name.strip_suffix(".segment")?.parse().ok();
    files
        .filter_map(|file| number(file.ok()?.file_name().into_string().ok()?))
        .min()
        .expect("a log has files")
}

#[test]
fn checkpoints_that_do_not_fit_are_written_when_there_is_room_again() {
    let mut random = Random::from_environment("tmpfs-checkpoints");
    let mut cluster = Cluster::new("tmpfs-checkpoints", SEGMENT_MIB, &mut random);
    Settings { mode: "full", interval_bytes: 512 << 10, ..Settings::default() }.configure(&cluster);
    let place = match cluster.move_to_tmpfs(&[0, 1, 2], 240) {
        Ok(place) => place,
        Err(why) => return skip(&why),
    };
    cluster.heal();
    cluster.wait_for_leader();
    let mut load = Load::start(&cluster, Plan { padding: 1000, ..PLAN }, &mut random);
    let mut filler = Filler::new(&cluster, 32, 64 << 10);
    filler.fill();
    wait_for_checkpoint(&mut cluster, &[0, 1, 2], 0);

    // Checkpoints are being written all the time while the last bytes go.
    let foreign = Foreign::grow(place.join("foreign"));
    let refused = filler.write_until(|| false).unwrap_err();
    assert!(matches!(refused, Error::DiskFull { .. }), "{refused}");
    wait_well(&mut cluster, "clients are told that the disks are full", |_| {
        load.recorder.refused_full() > 20
    });
    let says =
        |part: &'static str| move |cluster: &Cluster| (0..REPLICAS).any(|at| has_problem(cluster, at, part));
    wait_well(&mut cluster, "somebody says that writes are refused", says("the disk is full: writes"));
    wait_well(&mut cluster, "somebody says that checkpoints do not fit", says("was not written"));
    let reader = cluster.client(Duration::from_secs(10));
    let read = |options| reader.read(recorder::get("k0"), options).map(|read| read.seq);
    read(ReadOptions::STRONG).expect("strong reads go on");
    let leader = cluster.wait_for_leader();
    cluster.kill(leader);
    cluster.wait_for_leader();
    read(ReadOptions::STRONG).expect("strong reads go on");
    cluster.start(leader);
    wait_well(&mut cluster, "it is back", |cluster| cluster.status(leader).is_some());
    read(ReadOptions::WEAK).expect("weak reads go on");
    filler.check();

    let seen: Vec<_> = (0..REPLICAS).map(|at| checkpoints(&cluster, at)).collect();
    let segments: Vec<u64> = (0..REPLICAS).map(|at| first_segment(&cluster, at)).collect();
    foreign.remove();
    load.wait_for_progress(200, &mut cluster);
    let until = Instant::now() + crate::rig::cluster::LIMIT;
    // So much that each of them needs another file for its log, and must have let one go.
    while (0..REPLICAS).any(|at| first_segment(&cluster, at) == segments[at]) {
        assert!(Instant::now() < until, "the logs are not trimmed");
        filler.fill();
    }
    for (at, before) in seen.iter().enumerate() {
        wait_until_sound(&mut cluster, at);
        for what in ["durable_seq", "agreed_seq", "trimmed"] {
            assert!(
                number(&cluster, at, what) > before[what].as_u64().unwrap(),
                "replica {}: {what}, {before}",
                at + 1
            );
        }
        // What did not fit left nothing behind.
        assert!(damage::checkpoints(&cluster, at).len() <= 4, "{:?}", damage::checkpoints(&cluster, at));
    }
    finish(&mut cluster, &mut load, PLAN.keys, Some(&mut filler));
}

#[test]
fn a_state_that_does_not_fit_is_installed_when_there_is_room() {
    let mut random = Random::from_environment("tmpfs-transfer");
    let mut cluster = Cluster::new("tmpfs-transfer", SEGMENT_MIB, &mut random);
    Settings { interval_bytes: 512 << 10, ..Settings::default() }.configure(&cluster);
    let place = match cluster.move_to_tmpfs(&[2], 90) {
        Ok(place) => place,
        Err(why) => return skip(&why),
    };
    cluster.heal();
    cluster.wait_for_leader();
    let mut load = Load::start(&cluster, PLAN, &mut random);
    let mut filler = Filler::new(&cluster, 32, 64 << 10);
    filler.fill();
    load.wait_for_progress(50, &mut cluster);
    let had = executed(&cluster, 2);
    cluster.kill(2);
    for _ in 0..8 {
        filler.fill();
    }
    wait_well(&mut cluster, "the log that it lacks is gone", |cluster| {
        (0..2).all(|at| number(cluster, at, "trimmed") > had)
    });
    let foreign = Foreign::grow(place.join("foreign"));
    let printed = cluster.printed(2).len();
    cluster.start(2);
    wait_well(&mut cluster, "it says what is wrong", |cluster| has_problem(cluster, 2, "was not written"));
    // It goes on as before until there is room, and says so now and then only.
    let begin = Instant::now();
    load.wait_for_progress(100, &mut cluster);
    std::thread::sleep(Duration::from_secs(2).saturating_sub(begin.elapsed()));
    let said = cluster.printed(2).split_off(printed);
    let lines = said.matches("was not written").count();
    assert!(lines as u64 <= 10 + 4 * begin.elapsed().as_secs(), "it says so {lines} times");
    assert!(has_problem(&cluster, 2, "was not written") && executed(&cluster, 2) < executed(&cluster, 0));
    foreign.remove();
    wait_until_sound(&mut cluster, 2);
    cluster.kill(0);
    load.wait_for_progress(30, &mut cluster);
    cluster.start(0);
    finish(&mut cluster, &mut load, PLAN.keys, Some(&mut filler));
}

/// Takes every byte that is left.
fn fill_up(file: &Path) {
    let mut file = std::fs::File::create(file).unwrap();
    for piece in [MIB as usize, 4096, 1] {
        while file.write_all(&vec![1; piece]).is_ok() {}
    }
}
