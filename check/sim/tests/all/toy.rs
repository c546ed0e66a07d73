//! A protocol of a few lines, given by its row, runs the key-value store as any other does: under faults, with checkpoints and restarts.

#[path = "../../../script/tests/all/toy/mod.rs"]
mod protocol;

use quorate_log::SyncMode;
use quorate_order::Protocol;
use quorate_sim::campaign::{Campaign, run};
use quorate_sim::{Plan, Profile};

/// Runs so many seeds of these clusters, of one replica each.
fn serves(profile: Profile, count: u64) {
    let protocol = Some(Protocol::of(&protocol::ROW));
    let profile = Profile { protocol, replicas: Some(1), ..profile };
    assert_eq!(Plan::new(1, &profile).protocol.name(), "toy");
    let summary = run(&Campaign { profile, first: 1, count, jobs: 2, failures_max: 3 }, |_, _| {});
    let told: Vec<String> =
        summary.failures.iter().map(|report| format!("seed {}: {:?}", report.seed, report.failure)).collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
    assert!(summary.commands > 10 * count, "the clusters did something: {summary:?}");
}

#[test]
fn the_toy_serves_the_key_value_store() {
    serves(Profile { faults: false, ..Profile::default() }, 10);
}

/// Power fails, disks are full and rot: what was acknowledged is there afterwards.
#[test]
fn the_toy_survives_what_one_replica_survives() {
    serves(Profile { sync: Some(SyncMode::Group), ..Profile::default() }, 30);
}
