//! Disks that fill up, refuse and fail, and clocks that jump: no healthy replica stops, nothing acknowledged is lost.

use crate::common::{self, Cluster, OptionsOf, RawClient};
use bytes::Bytes;
use quorate_runtime::{Clock, Disk, Durability, FileDisk, MonotonicClock, Options, Replica};
use quorate_types::{Halt, SessionId, Span, Time};
use quorate_wire::{ReadConsistency, ReadStatus, ReplyStatus};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const EIO: i32 = 5;
const EMFILE: i32 = 24;
/// No error, but a defect of this program.
const PANIC: i32 = -1;
/// It does not return before the fault is over.
const STALL: i32 = -2;
const ENOSPC: i32 = 28;
const EDQUOT: i32 = 122;
const EROFS: i32 = 30;

/// What is wrong with one replica's disk: an error number of the system, or 0.
#[derive(Default)]
struct Faults {
    prepare: AtomicI32,
    write: AtomicI32,
    sync: AtomicI32,
}

impl Faults {
    fn check(fault: &AtomicI32) -> io::Result<()> {
        match fault.load(Ordering::SeqCst) {
            0 => Ok(()),
            PANIC => panic!("on purpose"),
            STALL => {
                while fault.load(Ordering::SeqCst) == STALL {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Ok(())
            }
            number => Err(io::Error::from_raw_os_error(number)),
        }
    }
}

struct FaultyDisk(FileDisk, Arc<Faults>);

impl Disk for FaultyDisk {
    fn segments(&self) -> io::Result<Vec<u64>> {
        self.0.segments()
    }
    fn read_segment(&self, segment: u64) -> io::Result<Bytes> {
        self.0.read_segment(segment)
    }
    fn read(&self, segment: u64, offset: u64, len: u32) -> io::Result<Bytes> {
        self.0.read(segment, offset, len)
    }
    fn write(&self, segment: u64, offset: u64, pieces: &[Bytes]) -> io::Result<()> {
        Faults::check(&self.1.write)?;
        self.0.write(segment, offset, pieces)
    }
    fn sync(&self, segments: &[u64]) -> io::Result<()> {
        Faults::check(&self.1.sync)?;
        self.0.sync(segments)
    }
    fn prepare(&self, segment: u64, bytes: u64) -> io::Result<()> {
        Faults::check(&self.1.prepare)?;
        self.0.prepare(segment, bytes)
    }
    fn remove(&self, segment: u64) -> io::Result<()> {
        self.0.remove(segment)
    }
}

/// A cluster with one set of faults per replica.
fn faulty_cluster(directory: &Path) -> (Cluster, Vec<Arc<Faults>>) {
    let faults: Vec<Arc<Faults>> = (0..3).map(|_| Arc::default()).collect();
    let root: PathBuf = directory.to_owned();
    let options: OptionsOf = {
        let faults = faults.clone();
        Box::new(move |at| {
            let log = root.join(format!("r{}", at + 1)).join("log");
            let disk = FaultyDisk(FileDisk::new(&log, None).unwrap(), faults[at].clone());
            Options { disk: Some(Arc::new(disk)), ..Options::default() }
        })
    };
    (common::cluster_with(directory, 3, Durability::Group, options), faults)
}

/// One large request per call, until a disk is full or `most` were executed; gives how many were.
fn fill(client: &mut RawClient, session: SessionId, from: u64, most: u64) -> u64 {
    let values = vec![0u64; 100_000];
    for number in from..from + most {
        while client.add(session, number, &values).is_none() {
            // The next segment is not ready yet.
            if client.refused != Some(ReplyStatus::Overloaded) {
                return number - from;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    most
}

fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < until, "{what}: not within twenty seconds");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_full_disk_refuses_writes_and_takes_them_again_when_there_is_room() {
    let directory = tempfile::tempdir().unwrap();
    let (cluster, faults) = faulty_cluster(directory.path());
    let (_, mut client) = cluster.leader();
    let session = client.open(1);
    assert_eq!(client.add(session, 1, &[7]), Some(vec![7]));
    faults.iter().for_each(|fault| fault.prepare.store(ENOSPC, Ordering::SeqCst));
    let written = fill(&mut client, session, 2, 200);
    assert!(written < 200, "the segments that are ready hold less");
    assert_eq!(client.refused, Some(ReplyStatus::DiskFull));
    // Reads go on, and so do elections: nobody has stopped.
    // While the leader hands over, a read fails and is asked again.
    wait("reads go on", || client.read(ReadConsistency::Strong, 0).2 == 7);
    assert!(cluster.running.iter().flatten().all(|running| !running.is_finished()));
    faults.iter().for_each(|fault| fault.prepare.store(0, Ordering::SeqCst));
    // The leader that was full handed over; whoever leads now takes it.
    wait("writes are taken again", || cluster.leader().1.add(session, 2 + written, &[1]) == Some(vec![8]));
}

#[test]
fn full_disks_elect_a_leader_that_confirms_reads() {
    let directory = tempfile::tempdir().unwrap();
    let (mut cluster, faults) = faulty_cluster(directory.path());
    let (leader, mut client) = cluster.leader();
    let session = client.open(1);
    assert_eq!(client.add(session, 1, &[7]), Some(vec![7]));
    faults.iter().for_each(|fault| fault.prepare.store(ENOSPC, Ordering::SeqCst));
    fill(&mut client, session, 2, 200);
    assert_eq!(client.refused, Some(ReplyStatus::DiskFull));
    drop(client);
    cluster.stop(leader).unwrap();
    let (other, mut client) = cluster.leader();
    assert_ne!(other, leader);
    let (status, _, value) = client.read(ReadConsistency::Strong, 0);
    assert_eq!((status, value), (ReadStatus::Done, 7));
}

#[test]
fn a_leader_with_a_full_disk_hands_over() {
    let directory = tempfile::tempdir().unwrap();
    let (cluster, faults) = faulty_cluster(directory.path());
    let (leader, mut client) = cluster.leader();
    let session = client.open(1);
    faults[leader].prepare.store(ENOSPC, Ordering::SeqCst);
    let written = fill(&mut client, session, 1, 200);
    assert_eq!(client.refused, Some(ReplyStatus::DiskFull));
    wait("another one leads", || cluster.leader().0 != leader);
    let (_, mut client) = cluster.leader();
    assert_eq!(fill(&mut client, session, 1 + written, 100), 100, "the others have room");
}

#[test]
fn a_follower_with_a_full_disk_catches_up_when_there_is_room() {
    let directory = tempfile::tempdir().unwrap();
    let (cluster, faults) = faulty_cluster(directory.path());
    let (leader, mut client) = cluster.leader();
    let session = client.open(1);
    let follower = (leader + 1) % 3;
    faults[follower].prepare.store(EDQUOT, Ordering::SeqCst);
    assert_eq!(fill(&mut client, session, 1, 120), 120, "the others are a majority");
    faults[follower].prepare.store(0, Ordering::SeqCst);
    let seq = client.read(ReadConsistency::Strong, 0).1;
    let mut reader = RawClient::connect(cluster.configs[follower].listen_address()).unwrap();
    wait("the follower catches up", || reader.read(ReadConsistency::Weak, 0).1 >= seq);
}

#[test]
fn a_replica_whose_sync_fails_stops_and_the_others_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let (mut cluster, faults) = faulty_cluster(directory.path());
    let (leader, mut client) = cluster.leader();
    let session = client.open(1);
    assert_eq!(client.add(session, 1, &[7]), Some(vec![7]));
    faults[leader].sync.store(EIO, Ordering::SeqCst);
    // Nobody knows whether this one is executed.
    let answer = client.add(session, 2, &[1]);
    wait("the replica stops", || cluster.running[leader].as_ref().is_some_and(|r| r.is_finished()));
    let halt = cluster.stop(leader).expect_err("it stopped by itself");
    assert!(matches!(&halt, Halt::LogWriteFailed { .. }), "{halt}");
    assert!(halt.to_string().contains("Repair or replace the disk"), "{halt}");
    let (other, mut client) = cluster.leader();
    assert_ne!(other, leader);
    let sum = client.add(session, 2, &[1]);
    assert_eq!(sum, Some(vec![8]), "executed once, whatever became of the first attempt ({answer:?})");
    // Its disk was repaired: it reads back what is there and takes part again.
    faults[leader].sync.store(0, Ordering::SeqCst);
    cluster.start(leader);
    let mut reader = RawClient::connect(cluster.configs[leader].listen_address()).unwrap();
    wait("it reads strongly", || {
        let (status, _, value) = reader.read(ReadConsistency::Strong, 0);
        status == ReadStatus::Done && value == 8
    });
}

/// The thread that writes is gone, so that nothing would become durable any more.
#[test]
fn a_replica_whose_disk_thread_panics_stops_and_the_others_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let (mut cluster, faults) = faulty_cluster(directory.path());
    let (leader, mut client) = cluster.leader();
    let session = client.open(1);
    let follower = (leader + 1) % 3;
    faults[follower].sync.store(PANIC, Ordering::SeqCst);
    assert_eq!(client.add(session, 1, &[7]), Some(vec![7]));
    wait("the replica stops", || cluster.running[follower].as_ref().is_some_and(|r| r.is_finished()));
    let halt = cluster.stop(follower).expect_err("it stopped by itself").to_string();
    assert!(halt.contains("the thread that writes the log panicked"), "{halt}");
    assert_eq!(client.add(session, 2, &[1]), Some(vec![8]));
}

#[test]
fn too_many_open_files_stop_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let (cluster, faults) = faulty_cluster(directory.path());
    let (_, mut client) = cluster.leader();
    let session = client.open(1);
    faults.iter().for_each(|fault| fault.prepare.store(EMFILE, Ordering::SeqCst));
    let written = fill(&mut client, session, 1, 200);
    assert!(written < 200, "the segments that are ready hold less");
    faults.iter().for_each(|fault| fault.prepare.store(0, Ordering::SeqCst));
    let next = written + 1;
    wait("writes are taken again", || cluster.leader().1.add(session, next, &[1]).is_some());
    assert!(cluster.running.iter().flatten().all(|running| !running.is_finished()));
}

#[test]
fn a_replica_that_finds_no_room_says_how_much_it_needs() {
    let directory = tempfile::tempdir().unwrap();
    let config = common::config(directory.path());
    let faults: Arc<Faults> = Arc::default();
    faults.prepare.store(ENOSPC, Ordering::SeqCst);
    let log = config.data.join("log");
    let disk = FaultyDisk(FileDisk::new(&log, None).unwrap(), faults);
    let options = Options { disk: Some(Arc::new(disk)), ..Options::default() };
    let replica = Replica::new(config, Box::<common::Sum>::default()).with(options);
    let said = replica.start().err().expect("there is no room").to_string();
    for part in ["making the log's first file", log.to_str().unwrap(), "48 MiB", "No space left"] {
        assert!(said.contains(part), "`{part}` is missing in: {said}");
    }
}

#[test]
fn a_replica_whose_disk_turns_read_only_stops_and_the_others_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let (mut cluster, faults) = faulty_cluster(directory.path());
    let (leader, mut client) = cluster.leader();
    let session = client.open(1);
    let follower = (leader + 2) % 3;
    faults[follower].write.store(EROFS, Ordering::SeqCst);
    assert_eq!(client.add(session, 1, &[7]), Some(vec![7]));
    assert_eq!(client.add(session, 2, &[1]), Some(vec![8]));
    wait("the replica stops", || cluster.running[follower].as_ref().is_some_and(|r| r.is_finished()));
    let halt = cluster.stop(follower).expect_err("it stopped by itself").to_string();
    assert!(halt.contains("Read-only file system"), "{halt}");
    assert_eq!(client.add(session, 3, &[1]), Some(vec![9]));
}

struct JumpingClock(MonotonicClock, Arc<AtomicU64>);

impl Clock for JumpingClock {
    fn now(&self) -> Time {
        self.0.now().plus(Span::from_nanos(self.1.load(Ordering::SeqCst)))
    }
}

#[test]
fn clocks_that_jump_lose_nothing_and_stop_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let jumps: Vec<Arc<AtomicU64>> = (0..3).map(|_| Arc::default()).collect();
    let options: OptionsOf = {
        let jumps = jumps.clone();
        Box::new(move |at| {
            let clock = JumpingClock(MonotonicClock::new(), jumps[at].clone());
            Options { clock: Some(Arc::new(clock)), ..Options::default() }
        })
    };
    let mut cluster = common::cluster_with(directory.path(), 3, Durability::Group, options);
    let mut sum = 0;
    for (round, at) in [0usize, 1, 2, 0, 1, 2].into_iter().enumerate() {
        // Under the session's time to live, so that it must survive; then over it.
        let jump = if round < 3 { Span::from_secs(10) } else { Span::from_secs(3600) };
        jumps[at].fetch_add(jump.nanos(), Ordering::SeqCst);
        // Whoever leads may notice only now that others were silent for so long.
        let (mut client, session) = loop {
            let (_, mut client) = cluster.leader();
            if let Some(session) = client.try_open(round as u64 + 1) {
                break (client, session);
            }
        };
        sum += 1;
        assert_eq!(client.add(session, 1, &[1]), Some(vec![sum]));
    }
    assert!(cluster.running.iter().flatten().all(|running| !running.is_finished()));
    (0..3).for_each(|at| cluster.stop(at).unwrap());
}

#[test]
fn a_leader_whose_disk_stalls_hands_over() {
    let directory = tempfile::tempdir().unwrap();
    let (cluster, faults) = faulty_cluster(directory.path());
    let (leader, mut client) = cluster.leader();
    let session = client.open(1);
    assert_eq!(client.add(session, 1, &[7]), Some(vec![7]));
    faults[leader].sync.store(STALL, Ordering::SeqCst);
    // The write that finds the disk stalled is decided by the others, and by the next leader.
    let elsewhere = || {
        let (at, mut client) = cluster.leader();
        at != leader && client.add(session, 2, &[1]) == Some(vec![8])
    };
    drop(client.add(session, 2, &[1]));
    wait("another one leads and takes writes", elsewhere);
    faults[leader].sync.store(0, Ordering::SeqCst);
    assert!(cluster.running.iter().flatten().all(|running| !running.is_finished()));
}

#[test]
fn a_leader_that_alone_has_room_refuses_early_and_leaves_no_tail_that_holds_up_reads() {
    let directory = tempfile::tempdir().unwrap();
    let (mut cluster, faults) = faulty_cluster(directory.path());
    let (leader, mut client) = cluster.leader();
    let session = client.open(1);
    assert_eq!(client.add(session, 1, &[7]), Some(vec![7]));
    let others: Vec<usize> = (0..3).filter(|at| *at != leader).collect();
    others.iter().for_each(|at| faults[*at].prepare.store(ENOSPC, Ordering::SeqCst));
    fill(&mut client, session, 2, 400);
    assert_eq!(client.refused, Some(ReplyStatus::DiskFull), "a clear error, not silence");
    drop(client);
    // Whoever leads next among two of them confirms reads.
    cluster.stop(others[0]).unwrap();
    let (_, mut client) = cluster.leader();
    wait("reads go on", || client.read(ReadConsistency::Strong, 0).0 == ReadStatus::Done);
}
