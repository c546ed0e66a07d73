//! Where few replicas are slow: four survive two that are killed, and the operator is told what holds meanwhile.

use crate::harness::{Cluster, quorate, wait_until};

const MODEL: [&str; 4] = ["--fault-model", "visigoth", "--faults", "u=2,s=1,o=0,t=50"];

fn put(cluster: &Cluster, key: &str, value: &str) {
    wait_until("it is written", || cluster.run(&["kv", "put", key, value, "--timeout", "5"]).code == Some(0));
}

#[test]
fn two_of_four_go_on() {
    let mut cluster = Cluster::start(&MODEL);
    put(&cluster, "first", "1");
    let mut killed = Vec::new();
    for _ in 0..2 {
        let leader = cluster.wait_for_leader();
        cluster.kill(leader);
        killed.push(leader);
        put(&cluster, "second", &leader.to_string());
    }
    let said = "few replicas may have gone on by a grant of the oracle (instances 1)";
    // It is well all the same: a leader has all that it needs.
    wait_until("the status says so", || {
        let status = cluster.run(&["status"]);
        status.code == Some(0) && status.out.contains(said)
    });
    killed.iter().for_each(|id| cluster.restart(*id));
    cluster.wait_until_equal();
    wait_until("all count again", || !cluster.run(&["status"]).out.contains(said));
    assert_eq!(cluster.ok(&["kv", "get", "first"]), "1");

    // The oracle is a cluster of its own, and its data stays.
    let oracle = cluster.directory().join("oracle");
    let oracle = oracle.to_str().expect("UTF-8");
    let status = quorate(&["status", "--dir", oracle]);
    assert_eq!(status.code, Some(0), "{status:?}");
    assert_eq!(cluster.ctrl_c(), Some(0));
    cluster.start_dev(&[]);
    assert_eq!(cluster.ok(&["kv", "get", "first"]), "1");
    assert_eq!(cluster.ctrl_c(), Some(0));
}

#[test]
fn a_cluster_is_made_with_its_oracle() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path().join("prod");
    let dir = dir.to_str().expect("UTF-8");
    let members = "1=10.0.0.1:7000,2=10.0.0.2:7000,3=10.0.0.3:7000,4=10.0.0.4:7000";
    let init = |more: &[&str]| {
        let all = [&["init", "--dir", dir, "--members", members][..], &MODEL, more].concat();
        quorate(&all)
    };
    init(&[]).fails(2, &["two halves of the replicas", "--oracle"]);
    init(&["--oracle", "consul:10.0.0.9:8500"]).fails(2, &["etcd:HOST:PORT"]);
    init(&["--protocol", "raft", "--oracle", "etcd:10.0.0.9:2379"]).fails(2, &["--protocol mod-smart"]);
    let made = init(&["--oracle", "etcd:10.0.0.9:2379,10.0.0.10:2379"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let text = std::fs::read_to_string(format!("{dir}/replica-4/replica.toml")).expect("a configuration");
    assert!(text.contains("kind = \"etcd\"\nendpoints = [\"10.0.0.9:2379\", \"10.0.0.10:2379\"]"), "{text}");
}
