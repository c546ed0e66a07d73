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

/// Replicas that are correct and late. With one of them, those that are not slow are a usual quorum; with two, few must do.
#[test]
fn slow_replicas_are_waited_for_no_longer_than_they_may_be() {
    let mut cluster = Cluster::start(&MODEL);
    let leader = cluster.wait_for_leader();
    put(&cluster, "key", "fast");
    let others: Vec<u16> = cluster.ids().into_iter().filter(|id| *id != leader).collect();
    let slow = |replica: u16, more: &[&str]| {
        let id = replica.to_string();
        cluster.ok(&[&["chaos", "slow", &id, "--no-probe"], more].concat())
    };
    let said_so = |replica: u16, ms: u32| {
        let said = format!(
            "replica {replica}: this replica is slow on purpose: what it sends to others leaves {ms} ms late"
        );
        wait_until("the status names it", || cluster.run(&["status"]).out.contains(&said));
    };
    let granted = "few replicas may have gone on by a grant of the oracle";
    let said = slow(others[0], &[]);
    let undo = format!("chaos slow --ms 0 {}", others[0]);
    assert!(said.contains("made slow by 200 ms") && said.contains(&undo), "{said}");
    said_so(others[0], 200);
    for number in 0..10 {
        put(&cluster, "key", &number.to_string());
    }
    // A machine with much else to do may make one more slow for a moment, and that passes.
    wait_until("no grant is needed with one slow replica", || {
        let status = cluster.run(&["status"]);
        status.code == Some(0) && !status.out.contains(granted)
    });

    slow(others[1], &["--ms", "400"]);
    said_so(others[1], 400);
    for number in 0..10 {
        put(&cluster, "key", &format!("few {number}"));
    }
    wait_until("the status tells of a grant", || cluster.run(&["status"]).out.contains(granted));

    // It stays slow when it is started again, but not with the next `dev`.
    cluster.restart(others[1]);
    said_so(others[1], 400);
    for replica in &others[..2] {
        let said = slow(*replica, &["--ms", "0"]);
        assert!(said.contains("made slow no more"), "{said}");
    }
    wait_until("nobody is slow, and all count", || {
        let status = cluster.run(&["status"]).out;
        !status.contains("slow on purpose") && !status.contains(granted)
    });
    cluster.wait_until_equal();
    assert_eq!(cluster.ok(&["kv", "get", "key"]), "few 9");
    slow(others[0], &[]);
    assert_eq!(cluster.ctrl_c(), Some(0));
    cluster.start_dev(&[]);
    cluster.wait_for_leader();
    assert!(!cluster.run(&["status"]).out.contains("slow on purpose"));
    assert_eq!(cluster.ctrl_c(), Some(0));
}

/// Nobody is slow by a command line of an operator; nor for ever.
#[test]
fn slow_is_for_clusters_of_dev() {
    let mut cluster = Cluster::start(&["--service", "kv"]);
    cluster.wait_for_leader();
    cluster.run(&["chaos", "slow", "1", "--ms", "10001"]).fails(2, &["--ms", "10000"]);
    cluster.run(&["chaos", "slow", "1", "--ms", "soon"]).fails(2, &["--ms"]);
    cluster.run(&["chaos", "kill", "1", "--ms", "5"]).fails(2, &["--ms is for `quorate chaos slow`"]);
    cluster.run(&["chaos", "slow", "9"]).fails(1, &["there is no replica 9"]);
    cluster.kill(1);
    cluster.run(&["chaos", "slow", "1"]).fails(1, &["quorate chaos restart 1"]);
    quorate(&["serve", "--config", "x", "--slow", "y"]).fails(2, &["--die-with-parent"]);
    assert_eq!(cluster.ctrl_c(), Some(0));
}

/// What can not be is refused before anything is made, the oracle included, and before anything is thrown away.
#[test]
fn a_cluster_that_can_not_be_leaves_nothing_behind() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path().join("dev");
    let shown = dir.to_str().expect("UTF-8");
    let dev =
        |more: &[&str]| quorate(&[&["dev", "--dir", shown, "--replicas", "3"][..], &MODEL, more].concat());
    dev(&[]).fails(2, &["3 replicas are too few", "n >= u + min(u,s) + o + 1"]);
    assert!(!dir.exists());
    std::fs::create_dir(&dir).expect("a directory");
    for file in ["dev.lock", "kept"] {
        std::fs::write(dir.join(file), "").expect("written");
    }
    dev(&["--fresh"]).fails(2, &["3 replicas are too few"]);
    assert!(dir.join("kept").exists() && !dir.join("oracle").exists());
}

#[test]
fn a_cluster_is_made_with_its_oracle() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path().join("prod");
    let dir = dir.to_str().expect("UTF-8");
    let members = "1=10.0.0.1:7000,2=10.0.0.2:7000,3=10.0.0.3:7000,4=10.0.0.4:7000";
    let init = |more: &[&str]| {
        let all = [
            &["init", "--service", "kv", "--dir", dir, "--members", members, "--health-port", "0"][..],
            &MODEL,
            more,
        ]
        .concat();
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
