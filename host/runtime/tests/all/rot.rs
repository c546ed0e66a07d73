//! Rot in the log of one replica: where what it promised is known all the same it gets a checkpoint and goes on, elsewhere it stops.

use crate::common::{Cluster, RawClient, Sum, cluster_of};
use quorate_runtime::{Durability, Options, Replica, StartError};
use quorate_types::{Halt, SessionId};
use quorate_wire::ReadConsistency;
use std::fs::OpenOptions;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Of so many numbers a large request consists.
const NUMBERS: usize = 20_000;
/// Kinds of the protocol's records that say how it voted.
const VOTES: [u8; 2] = [2, 3];

fn start(directory: &Path) -> Cluster {
    start_of(directory, 3)
}

fn start_of(directory: &Path, replicas: u16) -> Cluster {
    cluster_of(directory, replicas, Durability::Group, Box::new(|_| Options::default()), |config| {
        config.checkpoints.interval_bytes = 1 << 20;
        config.checkpoints.interval_state_percent = 0;
        config.checkpoints.rate_bytes = 0;
    })
}

fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < until, "{what}: not within thirty seconds");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn fill(client: &mut RawClient, session: SessionId, numbers: std::ops::Range<u64>) {
    for number in numbers {
        assert!(client.add(session, number, &vec![1; NUMBERS]).is_some(), "request {number}");
    }
}

/// A block of the log's first segment: where it lies, and whether it says how the replica voted.
struct Block {
    at: usize,
    len: usize,
    votes: bool,
}

fn segment(data: &Path) -> PathBuf {
    data.join("log/00000000.segment")
}

fn blocks(data: &Path) -> Vec<Block> {
    let bytes = std::fs::read(segment(data)).unwrap();
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let (mut at, mut found) = (0, Vec::new());
    while bytes.get(at..at + 4).is_some_and(|magic| magic == b"QLOG") {
        let (len, mut votes, mut record) = (number(at + 24), false, at + 64);
        for _ in 0..number(at + 28) {
            votes |= bytes[record + 12] == 1 && VOTES.contains(&bytes[record + 14]);
            record += 24 + number(record + 4);
        }
        found.push(Block { at, len, votes });
        at += len;
    }
    found
}

fn overwrite(data: &Path, at: usize, bytes: &[u8]) {
    let mut file = OpenOptions::new().write(true).open(segment(data)).unwrap();
    file.seek(SeekFrom::Start(at as u64)).unwrap();
    file.write_all(bytes).unwrap();
}

fn flip(data: &Path, at: usize) {
    let byte = std::fs::read(segment(data)).unwrap()[at];
    overwrite(data, at, &[byte ^ 16]);
}

/// The highest seq of a finished checkpoint.
fn newest(data: &Path) -> u64 {
    let names = std::fs::read_dir(data.join("checkpoints")).unwrap().flatten();
    let seq = |entry: std::fs::DirEntry| entry.file_name().to_str()?.split_once('.')?.0.parse().ok();
    names.filter_map(seq).max().unwrap_or(0)
}

fn weak(cluster: &Cluster, at: usize) -> Option<u64> {
    let mut client = RawClient::connect(cluster.configs[at].listen_address())?;
    Some(client.read(ReadConsistency::Weak, 0).2)
}

fn small(client: &mut RawClient, session: SessionId, numbers: std::ops::Range<u64>) {
    numbers.for_each(|number| assert!(client.add(session, number, &[1]).is_some(), "request {number}"));
}

/// A client of whoever leads now, once requests are taken.
fn client(cluster: &Cluster, session: SessionId, number: u64) -> (usize, RawClient) {
    let mut found = None;
    wait("requests are taken", || {
        let (leader, mut client) = cluster.leader();
        let taken = client.add(session, number, &[1]).is_some();
        found = taken.then_some((leader, client));
        taken
    });
    found.unwrap()
}

/// What is damaged in the log of a replica that is down.
#[derive(Clone, Copy, PartialEq)]
enum Age {
    /// Something that a checkpoint holds, and entries behind it, too.
    Old,
    /// Something after the newest checkpoint.
    New,
}

/// It comes back with what it lost, is needed for a majority, and starts again as if nothing had been.
fn comes_back(age: Age, damage: impl Fn(&Path, &Block)) {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = start(directory.path());
    let (leader, mut first) = cluster.leader();
    let session = first.open(1);
    fill(&mut first, session, 1..40);
    small(&mut first, session, 40..50);
    // Another leader: all write down a vote, or at least its view.
    cluster.stop(leader).unwrap();
    let (second, mut other) = client(&cluster, session, 50);
    cluster.start(leader);
    small(&mut other, session, 51..60);
    let mut sum = 39 * NUMBERS as u64 + 20;
    let rotten = 3 - leader - second;
    wait("all have it", || (0..3).all(|at| weak(&cluster, at) == Some(sum)));
    cluster.stop(rotten).unwrap();

    let data = cluster.configs[rotten].data.clone();
    let blocks = blocks(&data);
    let last_vote = blocks.iter().rposition(|block| block.votes).unwrap();
    let before = if age == Age::Old { last_vote / 2 } else { last_vote - 2 };
    let hit = blocks[..before].iter().rfind(|block| !block.votes).unwrap();
    assert!(hit.at > 4096, "there are votes behind it, and records before it");
    damage(&data, hit);
    let before = newest(&data);
    cluster.start(rotten);
    wait("it has caught up", || weak(&cluster, rotten) == Some(sum));
    let fetched = newest(&data) > before;
    assert_eq!(fetched, age == Age::New, "what a checkpoint holds is not missed");

    cluster.stop(leader).unwrap();
    let (_, mut one) = client(&cluster, session, 60);
    fill(&mut one, session, 61..64);
    // Once more: its log says by now that it begins anew.
    cluster.stop(rotten).unwrap();
    cluster.start(rotten);
    let (_, mut one) = client(&cluster, session, 64);
    fill(&mut one, session, 65..225);
    sum += 163 * NUMBERS as u64 + 2;
    cluster.start(leader);
    wait("the damage is trimmed away", || !segment(&data).exists());
    wait("all have it", || (0..3).all(|at| weak(&cluster, at) == Some(sum)));
    (0..3).for_each(|at| cluster.stop(at).unwrap());
    (0..3).for_each(|at| cluster.start(at));
    let (_, mut one) = cluster.leader();
    wait("it stays", || one.read(ReadConsistency::Strong, 0).2 == sum);
}

#[test]
fn a_flipped_bit_below_synced_data_costs_a_checkpoint() {
    comes_back(Age::New, |data, hit| flip(data, hit.at + 100));
}

#[test]
fn a_block_of_zeros_costs_a_checkpoint() {
    comes_back(Age::New, |data, hit| overwrite(data, hit.at, &vec![0; hit.len]));
}

/// Everything behind the checkpoint is there.
#[test]
fn damage_to_what_a_checkpoint_holds_costs_nothing() {
    comes_back(Age::Old, |data, hit| flip(data, hit.at + hit.len / 2));
}

/// Who is alone has nobody to get it from, although it knows its votes.
#[test]
fn a_replica_alone_stops() {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = start_of(directory.path(), 1);
    let (_, mut one) = cluster.leader();
    let session = one.open(1);
    small(&mut one, session, 1..20);
    cluster.stop(0).unwrap();
    cluster.start(0);
    let (_, mut one) = client(&cluster, session, 20);
    small(&mut one, session, 21..30);
    cluster.stop(0).unwrap();
    let data = cluster.configs[0].data.clone();
    let blocks = blocks(&data);
    let last_vote = blocks.iter().rposition(|block| block.votes).unwrap();
    flip(&data, blocks[last_vote - 4].at + 70);
    let error = Replica::new(cluster.configs[0].clone(), Box::<Sum>::default()).start().err().unwrap();
    assert!(error.to_string().contains("there is no other replica"), "{error}");
}

/// Nothing behind the damage says how it voted: it never votes again.
#[test]
fn where_a_vote_may_be_lost_the_replica_stops() {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = start(directory.path());
    let (leader, mut client) = cluster.leader();
    let session = client.open(1);
    for number in 1..30 {
        assert!(client.add(session, number, &[1]).is_some());
    }
    let rotten = (leader + 1) % 3;
    wait("all have it", || weak(&cluster, rotten) == Some(29));
    cluster.stop(rotten).unwrap();
    let data = cluster.configs[rotten].data.clone();
    let blocks = blocks(&data);
    let last_vote = blocks.iter().rposition(|block| block.votes).unwrap();
    assert!(blocks.len() - last_vote > 10, "many blocks without votes at the end");
    flip(&data, blocks[blocks.len() - 6].at + 70);
    let before = std::fs::read(segment(&data)).unwrap();
    for _ in 0..2 {
        let config = cluster.configs[rotten].clone();
        let Err(error) = Replica::new(config, Box::<Sum>::default()).start() else { panic!("it starts") };
        assert!(matches!(error, StartError::Halt(Halt::LogCorrupt { .. })), "{error}");
        let text = error.to_string();
        assert!(text.contains("how this replica voted") && text.contains("set up a replacement"), "{text}");
    }
    assert!(std::fs::read(segment(&data)).unwrap() == before, "it left everything as it was");
    fill(&mut client, session, 30..31);
}
