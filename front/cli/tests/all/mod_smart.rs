//! The same service under another protocol: Mod-SMaRt with crash faults and with Byzantine ones, with one instance and with several. A leader
//! dies, a replica comes back and catches up, first from the others' logs and then from a checkpoint, and the whole cluster starts again.

use crate::harness::{Cluster, Made, Server, edit, quorate, wait_until};
use std::fs;

fn put(cluster: &Cluster, key: &str, value: &str) {
    wait_until("it is written", || cluster.run(&["kv", "put", key, value, "--timeout", "5"]).code == Some(0));
}

/// Strong reads at every replica; where none of them is believed alone, one that is ordered, and then what each of them has.
fn read_everywhere(cluster: &Cluster, key: &str, value: &str) {
    let byzantine = cluster.ready["fault_model"] == "byzantine";
    if byzantine {
        assert_eq!(cluster.ok(&["kv", "get", key]), value);
    }
    for id in (1..=cluster.ready["replicas"].as_array().expect("replicas").len()).map(|id| id.to_string()) {
        if byzantine {
            let weak = ["kv", "get", key, "--weak", "--replica", &id];
            wait_until("it has executed that", || cluster.run(&weak).out.trim_end() == value);
        } else {
            assert_eq!(cluster.ok(&["kv", "get", key, "--replica", &id]), value);
        }
    }
}

fn serves(arguments: &[&str]) {
    let mut cluster = Cluster::start(arguments);
    put(&cluster, "first", "1");
    read_everywhere(&cluster, "first", "1");

    let leader = cluster.wait_for_leader();
    cluster.kill(leader);
    put(&cluster, "second", "2");
    cluster.restart(leader);
    cluster.wait_until_equal();
    read_everywhere(&cluster, "second", "2");

    assert_eq!(cluster.ctrl_c(), Some(0));
    cluster.start_dev(&[]);
    read_everywhere(&cluster, "first", "1");
    put(&cluster, "third", "3");
    read_everywhere(&cluster, "third", "3");
    assert_eq!(cluster.ctrl_c(), Some(0));
}

#[test]
fn one_service_runs_on_all_protocols() {
    serves(&["--protocol", "raft"]);
    serves(&["--protocol", "mod-smart"]);
    serves(&["--protocol", "mod-smart", "--instances", "4"]);
    serves(&["--fault-model", "byzantine"]);
    serves(&["--fault-model", "byzantine", "--instances", "4"]);
    serves(&["--fault-model", "visigoth", "--faults", "u=2,s=1,o=0,t=50"]);
    serves(&["--fault-model", "visigoth", "--faults", "u=2,s=1,o=0,t=50", "--instances", "4"]);
}

/// With borders close to each other the others give up their logs, and whoever was away needs a checkpoint.
#[test]
fn who_was_away_for_long_fetches_a_checkpoint() {
    let made = Made::three();
    for id in 1..=3 {
        let file = made.config(id);
        edit(&file, "data = \"data\"", "data = \"data\"\nprotocol = \"mod-smart\"");
        let text = "\n[checkpoints]\ninterval_bytes = 65536\ninterval_state_percent = 0\ninterval_bytes_max = 65536\nlog_bytes_max = 44040192\n";
        let all = fs::read_to_string(&file).expect("a configuration") + text;
        fs::write(&file, all).expect("it is written");
    }
    let mut servers: Vec<Server> = (1..=3).map(|id| Server::start(&made.config(id))).collect();
    let dir = made.path();
    let dir = dir.to_str().expect("UTF-8");
    let kv = |arguments: &[&str]| quorate(&[&["kv"], arguments, &["--dir", dir, "--timeout", "5"]].concat());
    let put = |key: &str, value: &str| {
        wait_until("it is written", || kv(&["put", key, value]).code == Some(0));
    };
    put("first", "1");
    drop(servers.pop());
    let value = "x".repeat(100_000);
    // More than a segment, so that the first one goes.
    for number in 0..260 {
        put(&format!("many-{}", number % 20), &value);
    }
    put("last", "2");
    servers.push(Server::start(&made.config(3)));
    servers[2].wait_until_it_says("goes on from the checkpoint");
    wait_until("it answers", || kv(&["get", "last", "--replica", "3"]).out == "2\n");
    for server in servers {
        assert_eq!(server.stop().code, Some(0));
    }
}

/// What the protocol can not do is refused, and the answer says what to do.
#[test]
fn what_mod_smart_can_not_do_is_refused() {
    let mut cluster = Cluster::start(&["--protocol", "mod-smart"]);
    assert_eq!(cluster.ready["protocol"], "mod-smart");
    cluster.wait_for_leader();
    cluster.run(&["instances", "set", "2"]).fails(1, &["the number of instances stays", "quorate backup"]);
    assert_eq!(cluster.ctrl_c(), Some(0));
    let dir = cluster.directory().to_str().expect("UTF-8").to_owned();
    let said = ["mod-smart, crash faults, not raft, crash faults", "--fresh"];
    quorate(&["dev", "--dir", &dir, "--protocol", "raft"]).fails(2, &said);
}
