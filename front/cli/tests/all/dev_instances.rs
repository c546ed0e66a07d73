//! `quorate dev --instances` with real processes: several leaders, one log, and rest when nobody asks for anything.

use crate::harness::{Cluster, quorate, wait_until};
use serde_json::Value;
use std::time::Duration;

fn instances(cluster: &Cluster) -> Value {
    serde_json::from_str(&cluster.ok(&["instances", "show", "--json"])).expect("a JSON document")
}

/// What is decided in each instance, as the replica that executed most sees it.
fn decided(cluster: &Cluster) -> Vec<u64> {
    let found = instances(cluster);
    let each = found["each"].as_array().expect("a list").iter();
    each.map(|one| one["decided"].as_u64().expect("a slot")).collect()
}

/// Nothing is decided any more, so the same is decided a second later.
fn rest(cluster: &Cluster) -> Vec<u64> {
    let mut before = decided(cluster);
    wait_until("the cluster comes to rest", || {
        std::thread::sleep(Duration::from_millis(300));
        let now = decided(cluster);
        std::mem::replace(&mut before, now.clone()) == now
    });
    before
}

/// Strong reads at every replica, many times, so that all instances are asked.
fn read_everywhere(cluster: &Cluster, value: &str) {
    for _ in 0..3 {
        for id in ["1", "2", "3"] {
            assert_eq!(cluster.ok(&["kv", "get", "key", "--replica", id]), value);
        }
    }
}

#[test]
fn several_leaders_one_log_and_no_work_at_rest() {
    let mut cluster = Cluster::start(&["--instances", "4"]);
    let found = instances(&cluster);
    assert_eq!(found["count"], 4, "{found}");
    wait_until("each replica leads an instance", || {
        let found = instances(&cluster);
        let each = found["each"].as_array().expect("a list").iter();
        let mut leaders: Vec<u64> = each.filter_map(|one| one["leader"].as_u64()).collect();
        leaders.sort_unstable();
        leaders.dedup();
        leaders == [1, 2, 3]
    });
    cluster.ok(&["kv", "put", "key", "even"]);
    let before = rest(&cluster);
    // Even or not: whoever is asked answers, and nobody writes for it.
    read_everywhere(&cluster, "even");
    let (after, most) = (rest(&cluster), before.iter().max().copied());
    assert!(after.iter().all(|slot| Some(*slot) <= most.map(|most| most + 1)), "{before:?} {after:?}");

    // Uneven: each command is one client's, so an instance of its choice.
    for number in 0..5 {
        cluster.ok(&["kv", "put", "key", &format!("uneven-{number}")]);
    }
    let uneven = rest(&cluster);
    read_everywhere(&cluster, "uneven-4");
    assert_eq!(rest(&cluster).len(), uneven.len());

    // Nobody asks for anything: nothing is decided, no-ops included.
    let before = rest(&cluster);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(decided(&cluster), before, "a cluster at rest decides nothing");
    let text = cluster.ok(&["instances", "show"]);
    assert!(text.contains("4 instances") && text.contains("of the global log is empty"), "{text}");

    assert_eq!(cluster.ctrl_c(), Some(0));
    let dir = cluster.directory().to_str().expect("UTF-8").to_owned();
    quorate(&["dev", "--dir", &dir, "--instances", "2"]).fails(2, &["--instances 4, not 2", "--fresh"]);
    cluster.start_dev(&[]);
    assert_eq!(instances(&cluster)["count"], 4, "the next run goes on with as many");
    read_everywhere(&cluster, "uneven-4");
}
