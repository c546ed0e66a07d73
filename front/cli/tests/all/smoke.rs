//! The first ten minutes of a user, with real processes.

use crate::harness::{Cluster, is_alive, quorate, wait_until};
use serde_json::Value;
use std::fs;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

#[test]
fn a_cluster_in_one_command_and_its_data_in_the_next() {
    let mut cluster = Cluster::start_as_it_is(&[]);
    assert_eq!(cluster.ids(), [1, 2, 3]);
    let status = cluster.status();
    // Clients of etcd are served, too.
    assert_eq!((&cluster.ready["service"], &cluster.ready["etcd"]), (&"etcd".into(), &status["etcd"]));
    assert_eq!(status["etcd"].as_array().map(Vec::len), Some(3), "{status}");
    assert_eq!(status["healthy"], true, "{status}");
    assert_eq!(status["leader"], cluster.ready["leader"]);
    assert_eq!(status["problems"].as_array().map(Vec::len), Some(0), "{status}");
    let table = cluster.ok(&["status"]);
    assert!(table.contains("leader") && table.contains("follower") && table.contains("group"), "{table}");

    reads_and_writes(&cluster);

    // Before what follows ends them, so that nothing is left over.
    let pids = cluster.pids();
    assert_eq!(pids.len(), 3);
    assert_eq!(cluster.ctrl_c(), Some(0));
    wait_until("no replica is left", || !pids.iter().any(|pid| is_alive(*pid)));
    assert_eq!(cluster.dev_said(), "", "a clean end makes no noise");

    cluster.run(&["kv", "get", "greeting"]).fails(1, &["no replica runs (r1 at 127.0.0.1:", "quorate dev"]);
    cluster.start_dev(&[]);
    assert_eq!(cluster.ok(&["kv", "get", "greeting"]), "goodbye");
    assert_eq!(cluster.ok(&["kv", "get", "bytes", "--hex"]), "00ff0a80");
}

fn reads_and_writes(cluster: &Cluster) {
    assert_eq!(cluster.ok(&["kv", "put", "greeting", "hello"]), "ok");
    assert_eq!(cluster.ok(&["kv", "get", "greeting"]), "hello");
    let got = json(&cluster.ok(&["kv", "get", "greeting", "--json"]));
    assert_eq!(got["value"], "hello");
    let put = json(&cluster.ok(&["kv", "put", "greeting", "hello", "--json"]));
    assert_eq!(put["replaced"], true);
    // What one program wrote, another one sees at every replica.
    let seq = put["seq"].as_u64().expect("a seq").to_string();
    for id in ["1", "2", "3"] {
        let read = cluster.ok(&["kv", "get", "greeting", "--after", &seq, "--replica", id, "--json"]);
        let read = json(&read);
        assert_eq!(read["value"], "hello");
        assert!(read["seq"].as_u64() >= put["seq"].as_u64(), "{read}");
    }
    cluster.run(&["kv", "get", "greeting", "--after", &seq, "--weak"]).fails(2, &["--weak"]);

    assert_eq!(cluster.ok(&["kv", "cas", "greeting", "goodbye", "--if", "hello"]), "ok");
    cluster
        .run(&["kv", "cas", "greeting", "again", "--if", "hello"])
        .fails(1, &["the key has the value goodbye"]);
    cluster.run(&["kv", "cas", "greeting", "again", "--if-absent"]).fails(1, &["not done"]);

    let bytes = [0, 0xff, b'\n', 0x80];
    cluster.run_with_input(&["kv", "put", "bytes", "-"], &bytes).ok();
    let raw = cluster.command(&["kv", "get", "bytes", "--raw"]).output().expect("the program runs");
    assert_eq!(raw.stdout, bytes);
    assert_eq!(cluster.ok(&["kv", "get", "6279746573", "--hex-input", "--hex"]), "00ff0a80");
    assert_eq!(cluster.ok(&["kv", "get", "bytes"]), r"\x00\xff\n\x80");

    for key in ["user/1", "user/2", "user/3", "usher"] {
        cluster.ok(&["kv", "put", key, "x"]);
    }
    assert_eq!(cluster.ok(&["kv", "scan", "--prefix", "user/", "--keys-only"]), "user/1\nuser/2\nuser/3");
    assert_eq!(cluster.ok(&["kv", "scan", "--start", "user/2", "--end", "user/9"]), "user/2\tx\nuser/3\tx");
    assert_eq!(cluster.ok(&["kv", "scan", "--prefix", "us", "--limit", "1", "--keys-only"]), "user/1");

    assert_eq!(cluster.ok(&["kv", "delete", "user/1"]), "ok");
    assert_eq!(cluster.ok(&["kv", "delete", "user/1"]), "ok (it had no value)");
    cluster.run(&["kv", "get", "user/1"]).fails(1, &["the key user/1 has no value"]);
    assert_eq!(cluster.run(&["kv", "get", "user/1", "--json"]).code, Some(1));

    for id in ["1", "2", "3"] {
        assert_eq!(
            cluster.ok(&["kv", "get", "greeting", "--replica", id]),
            "goodbye",
            "replica {id}, strong"
        );
        wait_until("a weak read sees it", || {
            cluster.run(&["kv", "get", "greeting", "--weak", "--replica", id]).out == "goodbye\n"
        });
    }
    cluster.run(&["kv", "get", "greeting", "--replica", "9"]).fails(1, &["no member"]);
}

#[test]
fn a_scan_goes_on_where_one_answer_ends() {
    for service in ["kv", "etcd"] {
        let cluster = Cluster::start(&["--service", service, "--replicas", "1"]);
        // Ten values of 200 kB are more than one answer holds.
        let value = vec![b'v'; 200_000];
        for key in 0..10 {
            cluster.run_with_input(&["kv", "put", &format!("k{key}")], &value).ok();
        }
        let keys = cluster.ok(&["kv", "scan", "--keys-only"]);
        assert_eq!(keys.lines().count(), 10, "{keys}");
        assert_eq!(cluster.ok(&["kv", "scan", "--limit", "8", "--keys-only"]).lines().count(), 8);
        let json_lines = cluster.ok(&["kv", "scan", "--json"]);
        assert_eq!(json_lines.lines().map(json).filter(|entry| entry["value"].is_string()).count(), 10);
    }
}

#[test]
fn a_killed_leader_is_replaced_and_comes_back() {
    let cluster = Cluster::start_as_it_is(&[]);
    cluster.ok(&["kv", "put", "before", "1"]);
    let leader = cluster.wait_for_leader();
    let said = cluster.ok(&["chaos", "kill", "leader"]);
    assert!(said.contains(&format!("killed replica {leader}, the leader")), "{said}");
    assert!(said.contains("longest time without a completed write: "), "{said}");
    assert!(said.contains("each write with durability group"), "{said}");

    assert_ne!(cluster.wait_for_leader(), leader);
    assert_eq!(cluster.ok(&["kv", "get", "before"]), "1");
    cluster.ok(&["kv", "put", "during", "2"]);
    let table = cluster.ok(&["status"]);
    assert!(table.contains(&format!("quorate chaos restart {leader}")), "{table}");
    let name = leader.to_string();
    cluster.run(&["chaos", "pause", &name]).fails(1, &["is down", "chaos restart"]);

    cluster.ok(&["chaos", "restart", &name]);
    cluster.wait_until_equal();
    assert_eq!(cluster.ok(&["kv", "get", "during", "--weak", "--replica", &name]), "2");
    assert_eq!(cluster.dev_said(), "", "what was asked for is no surprise");
}

#[test]
fn a_paused_leader_stalls_writes_for_the_time_of_an_election() {
    let cluster = Cluster::start(&[]);
    let said = json(&cluster.ok(&["chaos", "pause", "leader", "--json"]));
    let gap = said["gap_ms"].as_u64().unwrap_or_else(|| panic!("{said}"));
    // Nobody tells the others that it hangs: they must wait for the shortest election time-out, 300 ms.
    assert!((200..20_000).contains(&gap), "{said}");
    assert_ne!(said["leader_after"], said["leader_before"]);
    assert!(said["leader_after"].is_u64(), "{said}");
    let table = cluster.ok(&["status"]);
    let paused = &said["replicas"][0];
    assert!(table.contains(&format!("it is paused: `quorate chaos resume {paused}`")), "{table}");
    cluster.ok(&["chaos", "resume", "all", "--no-probe"]);
    cluster.wait_until_equal();
    assert_eq!(cluster.ok(&["kv", "scan"]), "", "the probe leaves nothing behind");
}

#[test]
fn without_a_majority_the_commands_say_so() {
    let cluster = Cluster::start(&[]);
    cluster.ok(&["kv", "put", "key", "value"]);
    let said = cluster.ok(&["chaos", "kill", "1,2"]);
    assert!(said.contains("no majority runs now"), "{said}");
    let status = cluster.run(&["status"]);
    assert_eq!(status.code, Some(1));
    assert!(status.out.contains("1 of 3 replicas answer, 2 are needed"), "{}", status.out);
    cluster.run(&["kv", "put", "key", "other", "--timeout", "500ms"]).fails(1, &["no answer in time"]);
    assert_eq!(cluster.ok(&["kv", "get", "key", "--weak", "--replica", "3"]), "value");
    cluster.ok(&["chaos", "restart", "all", "--no-probe"]);
    cluster.wait_for_leader();
    let value = cluster.ok(&["kv", "get", "key"]);
    assert!(value == "value" || value == "other", "{value}");
}

#[test]
fn replicas_end_when_dev_is_killed_and_the_next_dev_goes_on() {
    let mut cluster = Cluster::start(&[]);
    cluster.ok(&["kv", "put", "key", "value"]);
    let pids = cluster.pids();
    cluster.control("pause", &[2]).expect("it is paused");
    cluster.kill_dev();
    wait_until("no replica is left", || !pids.iter().any(|pid| is_alive(*pid)));
    cluster.start_dev(&[]);
    assert_eq!(cluster.ok(&["kv", "get", "key"]), "value");
}

#[test]
fn a_replica_that_ends_by_itself_is_reported() {
    let cluster = Cluster::start(&[]);
    let pid = cluster.ready["replicas"][0]["pid"].as_i64().expect("a process id");
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("a process id");
    rustix::process::kill_process(pid, rustix::process::Signal::ABORT).expect("a signal can be sent");
    wait_until("it is reported", || {
        let said = cluster.dev_said();
        said.contains("replica 1 ended by itself (signal 6)") && said.contains("is ready on")
    });
    // One that can not start says why, at once, wherever one looks.
    let identity = cluster.directory().join("replica-1/data/identity.toml");
    let away = identity.with_extension("away");
    fs::rename(&identity, &away).expect("it can be moved");
    let (why, again) = ("identity.toml is gone", "then `quorate chaos restart 1`");
    let restart = cluster.run(&["chaos", "restart", "1", "--no-probe"]);
    restart.fails(1, &["was started, and its process ended: ", why, again]);
    let said = cluster.run(&["status"]).out;
    assert!(said.contains("its process ended: ") && said.contains(why) && said.contains(again), "{said}");
    let said = cluster.dev_said();
    assert!(
        said.contains("replica 1 ended by itself (exit code 1): ") && said.contains("Do what it says"),
        "{said}"
    );
    fs::rename(&away, &identity).expect("it can be moved");
    cluster.restart(1);
    cluster.wait_until_equal();
}

#[test]
fn one_directory_one_dev_and_fixed_choices() {
    let mut cluster = Cluster::start(&["--replicas", "1", "--durability", "memory"]);
    let dir = cluster.directory().to_str().expect("UTF-8").to_owned();
    quorate(&["dev", "--dir", &dir]).fails(1, &["another `quorate dev` runs on", "--dir"]);
    cluster.ok(&["kv", "put", "key", "value"]);
    assert_eq!(cluster.ctrl_c(), Some(0));

    quorate(&["dev", "--dir", &dir, "--replicas", "3"]).fails(2, &["--replicas 1, not 3", "--fresh"]);
    quorate(&["dev", "--dir", &dir]).fails(1, &["durability \"memory\"", "--fresh"]);
    cluster.start_dev(&["--fresh", "--service", "kv"]);
    assert_eq!(cluster.ids(), [1, 2, 3], "the choices of the run before are gone, too");
    cluster.run(&["kv", "get", "key"]).fails(1, &["has no value"]);
}

#[test]
fn dev_leaves_alone_what_it_did_not_make() {
    let home = tempfile::tempdir().expect("a temporary directory");
    fs::write(home.path().join("thesis.tex"), "years of work").expect("a file can be written");
    let dir = home.path().to_str().expect("UTF-8");
    quorate(&["dev", "--dir", dir, "--fresh"]).fails(2, &["not empty", "did not make it"]);
    let left = fs::read_to_string(home.path().join("thesis.tex")).expect("it is still there");
    assert_eq!(left, "years of work");
}
