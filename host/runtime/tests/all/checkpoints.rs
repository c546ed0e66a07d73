//! Checkpoints with real files: the log is trimmed, a replica goes on from them, and one that was away gets them from the others.

use crate::common::{Cluster, RawClient, cluster_of};
use quorate_runtime::{CheckpointMode, Durability, Options};
use quorate_types::SessionId;
use quorate_wire::ReadConsistency;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of batches between borders: a little over one large request.
const INTERVAL: u64 = 1 << 20;
/// Of so many numbers a large request consists.
const NUMBERS: usize = 100_000;

fn start(directory: &Path, mode: CheckpointMode, durability: Durability) -> Cluster {
    let options = Box::new(|_| Options::default());
    cluster_of(directory, 3, durability, options, move |config| {
        config.checkpoints.mode = mode;
        config.checkpoints.interval_bytes = INTERVAL;
        config.checkpoints.interval_state_percent = 0;
        config.checkpoints.full_every = 3;
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

/// Large requests, so that the log grows by segments.
fn fill(client: &mut RawClient, session: SessionId, numbers: std::ops::Range<u64>) {
    let values = vec![1u64; NUMBERS];
    for number in numbers {
        assert!(client.add(session, number, &values).is_some(), "request {number}");
    }
}

/// The files of checkpoints in a data directory, with their bytes.
fn files(data: &Path) -> BTreeMap<String, Vec<u8>> {
    let Ok(entries) = std::fs::read_dir(data.join("checkpoints")) else { return BTreeMap::new() };
    let file = |entry: std::fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let finished = name.ends_with(".full") || name.ends_with(".diff");
        Some((name, std::fs::read(entry.path()).ok()?)).filter(|_| finished)
    };
    entries.flatten().filter_map(file).collect()
}

fn first_segment_is_gone(data: &Path) -> bool {
    !data.join("log/00000000.segment").exists()
}

fn weak(cluster: &Cluster, at: usize) -> Option<u64> {
    let mut client = RawClient::connect(cluster.configs[at].listen_address())?;
    Some(client.read(ReadConsistency::Weak, 0).2)
}

fn grows_and_restarts(mode: CheckpointMode) {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = start(directory.path(), mode, Durability::Group);
    let (_, mut client) = cluster.leader();
    let session = client.open(1);
    fill(&mut client, session, 1..66);
    let sum = 65 * NUMBERS as u64;
    for config in &cluster.configs {
        wait("the log is trimmed", || first_segment_is_gone(&config.data));
    }
    if mode != CheckpointMode::Staggered {
        let newest: Vec<_> = cluster.configs.iter().map(|config| files(&config.data)).collect();
        let common = |name: &&String| newest.iter().all(|of| of.contains_key(*name));
        let names: Vec<&String> = newest[0].keys().filter(common).collect();
        assert!(!names.is_empty(), "they have files in common: {newest:?}", newest = newest[0].keys());
        for name in names {
            assert!(newest.iter().all(|of| of[name] == newest[0][name]), "{name} is the same everywhere");
        }
    }
    drop(client);
    (0..3).for_each(|at| cluster.stop(at).unwrap());
    (0..3).for_each(|at| cluster.start(at));
    let (_, mut client) = cluster.leader();
    wait("the sum is as it was", || client.read(ReadConsistency::Strong, 0).2 == sum);
    // A request that was answered is answered again, and not executed.
    fill(&mut client, session, 65..66);
    assert_eq!(client.read(ReadConsistency::Strong, 0).2, sum);
}

#[test]
fn differential_checkpoints_trim_the_log_and_give_the_state_back() {
    grows_and_restarts(CheckpointMode::Differential);
}

#[test]
fn staggered_checkpoints_trim_the_log_and_give_the_state_back() {
    grows_and_restarts(CheckpointMode::Staggered);
}

fn comes_back(durability: Durability) {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = start(directory.path(), CheckpointMode::Full, durability);
    let (leader, mut client) = cluster.leader();
    let session = client.open(1);
    fill(&mut client, session, 1..3);
    let away = (leader + 1) % 3;
    cluster.stop(away).unwrap();
    fill(&mut client, session, 3..66);
    wait("the log is trimmed", || first_segment_is_gone(&cluster.configs[leader].data));
    cluster.start(away);
    let sum = 65 * NUMBERS as u64;
    wait("it has caught up", || weak(&cluster, away) == Some(sum));
    // And it takes part: without the third one, it is needed.
    let third = (leader + 2) % 3;
    cluster.stop(third).unwrap();
    fill(&mut client, session, 66..67);
    assert!(!files(&cluster.configs[away].data).is_empty(), "what was fetched is durable");
}

#[test]
fn a_replica_that_was_away_for_long_gets_a_checkpoint() {
    comes_back(Durability::Group);
}
