//! Clusters with Byzantine faults that were made from a backup: they outlast whatever happens in their first minute, before the first
//! write and after.

use crate::harness::{Cluster, quorate};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const KILLS: usize = 20;

/// A backup of a cluster of another protocol, of this many instances, and what was made of it.
fn restored(place: &Path, instances: &str) -> PathBuf {
    let old = Cluster::start(&["--instances", instances]);
    for key in 0..10 {
        old.ok(&["kv", "put", &format!("old/{key}"), "kept"]);
    }
    let (file, out) = (place.join("old.qbk"), place.join("restored"));
    let (file, to) = (file.to_str().expect("UTF-8"), out.to_str().expect("UTF-8"));
    old.ok(&["backup", "create", "--fresh", file]);
    // No replica of the old cluster may lie, so none signed.
    let how = ["--service", "kv", "--replicas", "4", "--fault-model", "byzantine", "--unproved"];
    quorate(&[&["backup", "restore", file, "--out", to], &how[..]].concat()).ok();
    out
}

/// The last lines of what a replica logged.
fn last_words(cluster: &Cluster, id: u16) -> String {
    let log = cluster.log(id);
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}

#[track_caller]
fn takes(cluster: &Cluster, key: &str) {
    let until = Instant::now() + Duration::from_secs(60);
    while cluster.run(&["kv", "put", key, "new", "--timeout", "5"]).code != Some(0) {
        if Instant::now() > until {
            let told = cluster.ids().into_iter().map(|id| format!("r{id}: {}\n", last_words(cluster, id)));
            panic!("{key} is not taken: {}\n{}", told.collect::<String>(), cluster.run(&["status"]).out);
        }
    }
}

#[track_caller]
fn holds_all(cluster: &Cluster, written: usize) {
    for key in 0..10 {
        assert_eq!(cluster.ok(&["kv", "get", &format!("old/{key}")]), "kept");
    }
    for key in 0..written {
        assert_eq!(cluster.ok(&["kv", "get", &format!("new/{key}")]), "new");
    }
}

/// Nothing was written between a restore, a look at what came of it, and a restart of all.
#[test]
fn a_restored_cluster_is_stopped_and_started_before_its_first_write() {
    let place = tempfile::tempdir().expect("a directory");
    let out = restored(place.path(), "2");
    for _ in 0..3 {
        let cluster = Cluster::at(&out);
        cluster.wait_for_leader();
        cluster.ids().into_iter().for_each(|id| cluster.kill(id));
        cluster.ids().into_iter().for_each(|id| cluster.restart(id));
        cluster.wait_for_leader();
    }
    let cluster = Cluster::at(&out);
    takes(&cluster, "new/0");
    holds_all(&cluster, 1);
}

/// The leader is killed before the first write, and then again and again.
#[test]
fn a_restored_cluster_survives_kills_in_its_first_minute() {
    let place = tempfile::tempdir().expect("a directory");
    let out = restored(place.path(), "1");
    let cluster = Cluster::at(&out);
    for kill in 0..KILLS {
        // Every third is no leader.
        let leader = cluster.wait_for_leader();
        let victim = if kill % 3 == 2 { leader % 4 + 1 } else { leader };
        cluster.kill(victim);
        // Three are enough; in some rounds nothing is asked of them.
        if kill % 4 != 3 {
            takes(&cluster, &format!("new/{kill}"));
        }
        cluster.restart(victim);
        if kill % 4 == 3 {
            takes(&cluster, &format!("new/{kill}"));
        }
    }
    cluster.wait_until_equal();
    holds_all(&cluster, KILLS);
}
