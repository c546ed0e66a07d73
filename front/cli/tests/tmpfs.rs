//! Disks that are really full: writes are refused and reads go on, nobody stops, and writes resume by themselves when there is
//! room again. Needs the right to mount a tmpfs; without it these tests say so and do nothing.

#[path = "kills/mod.rs"]
mod kills;

use kills::cluster::{Cluster, REPLICAS, wait};
use kills::load::{Load, Plan};
use kills::random::Random;
use kills::{recorder, tmpfs, verify};
use quorate::client::{BlockingClient, BlockingSession, Error, ReadOptions};
use quorate_kv::{KvCommand, KvReply, Operation};
use std::path::Path;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const VALUE_BYTES: usize = 128 << 10;
const KEYS: u64 = 4;
const PLAN: Plan =
    Plan { waiting: 4, pipelined: 1, chains: 1, keys: 6, pause: Duration::from_millis(20), padding: 0 };

/// Writes large values, one after the other, to fill disks.
struct Filler {
    client: BlockingClient,
    session: BlockingSession,
    next: u64,
    /// The last write that was acknowledged, by key.
    done: Vec<u64>,
}

impl Filler {
    fn new(cluster: &Cluster) -> Self {
        let client = cluster.client(Duration::from_secs(2));
        let session = client.open_session().unwrap();
        Self { client, session, next: 1, done: vec![0; KEYS as usize] }
    }

    fn write(&mut self) -> Result<(), Error> {
        let (number, at) = (self.next, self.next % KEYS);
        self.next += 1;
        let key = format!("fill/{at}");
        let mut value = format!("{number:010}").into_bytes();
        value.resize(VALUE_BYTES, b'-');
        let mut bytes = Vec::new();
        KvCommand::One(Operation::Put { key: key.as_bytes(), value: &value }).encode(&mut bytes);
        self.session.call_one(&bytes)?;
        self.done[at as usize] = number;
        Ok(())
    }

    /// Writes until something is the case, or nothing more is taken.
    fn write_until(&mut self, mut done: impl FnMut() -> bool) -> Result<(), Error> {
        for _ in 0..4000 {
            if self.next.is_multiple_of(8) && done() {
                return Ok(());
            }
            self.write()?;
        }
        panic!("500 MiB were written, and it is still not the case");
    }

    /// No acknowledged write is missing.
    fn check(&self) {
        for (at, done) in self.done.iter().enumerate() {
            let read = self.client.read(recorder::get(&format!("fill/{at}")), ReadOptions::STRONG).unwrap();
            let Ok(KvReply::Value(Some(value))) = KvReply::decode(&read.body) else {
                panic!("no value of fill/{at}")
            };
            let number: u64 = recorder::text(&value[..10]).parse().unwrap();
            assert!(
                number >= *done && number < self.next,
                "fill/{at} holds {number}, acknowledged is {done}"
            );
        }
    }
}

fn is_full(cluster: &Cluster, at: usize) -> bool {
    let status = cluster.status(at).unwrap_or_default();
    let problems = status["problems"].as_array().cloned().unwrap_or_default();
    problems.iter().any(|problem| problem.as_str().is_some_and(|text| text.starts_with("the disk is full")))
}

fn executed(cluster: &Cluster, at: usize) -> u64 {
    cluster.status(at).and_then(|status| status["executed"].as_u64()).unwrap_or_default()
}

fn skip(why: &str) {
    println!("SKIPPED: no tmpfs can be mounted here: {why}");
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
    let mut filler = Filler::new(&cluster);
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
    let mut filler = Filler::new(&cluster);
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
    // Two segments for each, and something that can be deleted.
    let place = match cluster.move_to_tmpfs(&[0, 1, 2], 210) {
        Ok(place) => place,
        Err(why) => return skip(&why),
    };
    let ballast = place.join("ballast");
    std::fs::write(&ballast, vec![1; (80 * MIB) as usize]).unwrap();
    cluster.heal();
    cluster.wait_for_leader();
    let mut load = Load::start(&cluster, PLAN, &mut random);
    let mut filler = Filler::new(&cluster);
    let refused = filler.write_until(|| false).unwrap_err();
    assert!(matches!(refused, Error::DiskFull { .. }), "{refused}");
    wait("clients are told that the disks are full", || load.recorder.refused_full() > 20);
    assert!((0..REPLICAS).any(|at| is_full(&cluster, at)));
    fill_up(&place.join("crumbs"));
    let reader = cluster.client(Duration::from_secs(10));
    let read = |options| reader.read(recorder::get("k0"), options).map(|read| read.seq);
    read(ReadOptions::STRONG).expect("strong reads go on");
    read(ReadOptions::WEAK).expect("weak reads go on");
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

/// Takes every byte that is left.
fn fill_up(file: &Path) {
    use std::io::Write as _;
    let mut file = std::fs::File::create(file).unwrap();
    for piece in [MIB as usize, 4096, 1] {
        while file.write_all(&vec![1; piece]).is_ok() {}
    }
}
