//! `quorate chaos`: networks that break, disks that rot or fill, clocks that jump, with real processes; what is mended, what clients are told,
//! and what is refused. tests/all/smoke.rs has kill and pause, few.rs slow, lies.rs lie.

use crate::harness::{Cluster, Made, PATIENCE, Ran, quorate, wait_until};
use quorate_etcd_grpc::pb::etcdserverpb::kv_client::KvClient;
use quorate_etcd_grpc::pb::etcdserverpb::lease_client::LeaseClient;
use quorate_etcd_grpc::pb::etcdserverpb::{LeaseGrantRequest, LeaseTimeToLiveRequest, PutRequest};
use serde_json::Value;
use std::fs;
use std::path::Path;
use tonic::transport::Endpoint;

/// How long a call waits that may be refused.
const SOON: &str = "2s";
/// The smallest files of a log, so that few writes fill them.
const SMALL_FILES: [&str; 2] = ["--set", "durability.segment_mib=20"];

fn json(ran: Ran) -> Value {
    serde_json::from_str(&ran.ok()).expect("JSON")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn others(cluster: &Cluster, but: u16) -> Vec<u16> {
    cluster.ids().into_iter().filter(|id| *id != but).collect()
}

fn executed(cluster: &Cluster, id: u16) -> u64 {
    let status = cluster.status();
    status["replicas"][usize::from(id) - 1]["status"]["executed"].as_u64().unwrap_or(0)
}

/// Writes a value of a million bytes, under another key each time.
fn put_much(cluster: &Cluster, number: usize) -> Ran {
    let value = vec![b'a' + (number % 20) as u8; 1_000_000];
    cluster.run_with_input(&["kv", "put", &format!("much-{number}"), "--timeout", SOON], &value)
}

/// Writes or deletes little, and does not wait long where it is refused.
fn try_kv(cluster: &Cluster, call: &[&str]) -> Ran {
    cluster.run(&[&["kv"], call, &["--timeout", SOON]].concat())
}

#[test]
fn a_leader_that_is_cut_off_is_replaced_and_follows_again() {
    let cluster = Cluster::start(&[]);
    cluster.ok(&["kv", "put", "before", "1"]);
    let old = cluster.wait_for_leader();
    let said = json(cluster.run(&["chaos", "partition", "leader", "--json"]));
    let new = said["leader_after"].as_u64().expect("the others elected one") as u16;
    assert_eq!(said["replicas"], serde_json::json!([old]));
    assert_eq!(said["others"], serde_json::json!(others(&cluster, old)));
    assert_eq!((&said["leader_before"], &said["majority"]), (&Value::from(old), &Value::from(true)));
    assert_ne!(new, old, "{said}");
    assert!(said["view_changes"].as_u64() >= Some(1) && said["gap_ms"].is_u64(), "{said}");
    assert_eq!(said["undo"], "quorate chaos heal");
    let problems = said["problems"].to_string();
    assert!(
        problems.contains(&format!("this replica is cut off from replica {old} on purpose")),
        "{problems}"
    );

    // Who is cut off hears nothing, also once it made all its connections anew; clients reach it.
    let at = executed(&cluster, old);
    for number in 0..20 {
        cluster.ok(&["kv", "put", "during", &number.to_string()]);
        if number == 10 {
            assert_eq!(executed(&cluster, old), at, "nothing came through");
            cluster.restart(old);
        }
    }
    wait_until("the others went on", || others(&cluster, old).iter().all(|id| executed(&cluster, *id) > at));
    assert!(executed(&cluster, old) <= at, "nothing came through");
    let said = cluster.ok(&["chaos", "heal"]);
    assert!(said.contains("ended the partition"), "{said}");
    cluster.wait_until_equal();
    wait_until("nobody is cut off", || !cluster.run(&["status"]).out.contains("cut off"));
    assert_eq!(cluster.ok(&["kv", "get", "before"]), "1");
    assert_eq!(cluster.ok(&["kv", "get", "during"]), "19");
    cluster.run(&["chaos", "heal"]).fails(1, &["there is no partition"]);
}

#[test]
fn sides_without_a_majority_wait_until_they_meet_on_all_lanes() {
    let cluster =
        Cluster::start(&["--protocol", "mod-smart", "--replicas", "4", "--instances", "3", "--lanes", "3"]);
    cluster.ok(&["kv", "put", "before", "1"]);
    let said = cluster.ok(&["chaos", "partition", "1,2"]);
    assert!(said.contains("cut off replicas 1, 2") && said.contains("from replicas 3, 4"), "{said}");
    assert!(said.contains("no majority runs and reaches each other now"), "{said}");
    for round in 0..3 {
        let waits = cluster.run(&["kv", "put", "during", &round.to_string(), "--timeout", "1s"]);
        assert_eq!(waits.code, Some(1), "{waits:?}");
    }
    // Another partition takes the place of the first one, and three are a majority.
    let said = cluster.ok(&["chaos", "partition", "4"]);
    assert!(said.contains("cut off replica 4") && said.contains("from replicas 1, 2, 3"), "{said}");
    wait_until("three go on", || cluster.run(&["kv", "put", "after", "2"]).code == Some(0));
    cluster.ok(&["chaos", "heal", "--no-probe"]);
    cluster.wait_until_equal();
    assert_eq!(cluster.ok(&["kv", "get", "before"]), "1");
    assert_eq!(cluster.ok(&["kv", "get", "after"]), "2");
}

#[test]
fn a_checkpoint_that_rots_is_mended_at_once() {
    let cluster = Cluster::start(&[]);
    cluster
        .run(&["chaos", "corrupt-disk", "2"])
        .fails(1, &["replica 2 has no checkpoint", "quorate backup create"]);
    (0..40).for_each(|at| drop(cluster.ok(&["kv", "put", &format!("key-{at}"), &"value".repeat(200)])));
    let place = tempfile::tempdir().expect("a directory");
    cluster.ok(&["backup", "create", "--fresh", text(&place.path().join("a.qbk"))]);
    wait_until("three durable checkpoints", || {
        let status = cluster.status();
        let durable = |at: usize| status["replicas"][at]["status"]["checkpoints"]["durable_seq"].as_u64();
        (0..3).all(|at| durable(at) > Some(0))
    });
    let directory = cluster.replica_directory(2).join("data/checkpoints");
    let sound: Vec<_> = fs::read_dir(&directory)
        .expect("it is there")
        .map(|entry| entry.expect("an entry").path())
        .map(|path| (fs::read(&path).expect("a file"), path))
        .collect();
    let said = json(cluster.run(&["chaos", "corrupt-disk", "2", "--json"]));
    let damage = &said["damage"][0];
    let file = Path::new(damage["file"].as_str().expect("a file"));
    assert!(file.starts_with(&directory) && damage["bytes"].as_u64() > Some(0), "{said}");
    let scrub = &said["scrubs"][0];
    assert_eq!((&scrub["replica"], &scrub["damaged"]), (&Value::from(2), &Value::from(0)), "{said}");
    assert!(scrub["mended"].as_u64() >= Some(1), "{said}");
    assert!(cluster.log(2).contains("is damaged on this disk"), "{}", cluster.log(2));
    for (bytes, path) in &sound {
        assert!(fs::read(path).is_ok_and(|now| now == *bytes), "{} is as it was", path.display());
    }
    let said = cluster.ok(&["chaos", "corrupt-disk", "2"]);
    assert!(
        said.contains("changed the checkpoint of replica 2") && said.contains("found and mended"),
        "{said}"
    );
    assert!(said.contains(text(file)), "{said}");

    // One that does not run finds it when it starts.
    cluster.kill(2);
    let said = cluster.ok(&["chaos", "corrupt-disk", "2"]);
    assert!(said.contains("not scrubbed") && said.contains("quorate chaos restart 2"), "{said}");
    cluster.ok(&["chaos", "restart", "dead"]);
    cluster.wait_until_equal();
    let said = cluster.ok(&["scrub", "2"]);
    assert!(said.contains("all of it is sound"), "{said}");
}

#[test]
fn a_log_that_rots_is_left_behind_by_a_checkpoint() {
    let cluster = Cluster::start(&SMALL_FILES);
    cluster
        .run(&["chaos", "corrupt-disk", "2", "--what", "log"])
        .fails(1, &["no file of the log of replica 2"]);
    let files = || fs::read_dir(cluster.replica_directory(2).join("data/log")).map_or(0, Iterator::count);
    let mut number = 0;
    wait_until("some files of the log are full", || {
        number += 1;
        drop(put_much(&cluster, number).ok());
        number > 45 && files() >= 3
    });
    let said = json(cluster.run(&["chaos", "corrupt-disk", "2", "--what", "log", "--json"]));
    let file = said["damage"][0]["file"].as_str().expect("a file");
    assert!(file.ends_with(".segment"), "{said}");
    let scrub = &said["scrubs"][0];
    assert_eq!(scrub["damaged"], 0, "{said}");
    assert!(scrub["mended"].as_u64() >= Some(1), "{said}");
    wait_until("the damaged file is not needed any more", || !Path::new(file).exists());
    cluster.wait_until_equal();
}

/// Fills disks with as many values as they take. Gives their number.
fn fill(cluster: &Cluster, replicas: &str) -> usize {
    put_much(cluster, 0).ok();
    let said = cluster.ok(&["chaos", "fill-disk", replicas]);
    let named = replicas.replace(',', ", ");
    assert!(said.contains(&format!("left 0 MiB of room on the disk of replicas {named}")), "{said}");
    assert!(said.contains(&format!("undo it with `quorate chaos fill-disk --off {replicas}`")), "{said}");
    let refused = |number: &usize| {
        let ran = put_much(cluster, *number);
        (ran.code != Some(0))
            .then(|| ran.fails(1, &["the cluster's disks have no room for writes"]))
            .is_some()
    };
    let taken = (1..200).find(refused).expect("what is ready holds less");
    // Long before its time-out, which is 10 s.
    cluster.run(&["kv", "put", "another", "1"]).fails(1, &["the cluster's disks have no room for writes"]);
    for id in replicas.split(',') {
        wait_until("the status names them", || {
            let ran = cluster.run(&["status"]);
            let said = ran.out;
            ran.code == Some(1)
                && said.contains("problem: writes are refused: too few replicas have room")
                && !said.contains("MiB left: free space before it is full")
                && said.contains(&format!("replica {id}: the disk is full: writes are refused"))
                && said.contains(&format!("replica {id}: the disk of this replica is full on purpose"))
        });
    }
    taken
}

/// A checkpoint takes the room that was kept for it, and the log before it goes.
#[test]
fn deletes_end_full_disks() {
    let cluster = Cluster::start(&SMALL_FILES);
    cluster.run(&["chaos", "fill-disk", "1", "--off"]).fails(1, &["the disk of replica 1 is not full"]);
    let taken = fill(&cluster, "1,2,3");
    for number in 1..taken {
        let key = format!("much-{number}");
        wait_until("a delete is taken", || try_kv(&cluster, &["delete", &key]).code == Some(0));
    }
    wait_until("writes go on", || try_kv(&cluster, &["put", "another", "2"]).code == Some(0));
    wait_until("no disk is full", || !cluster.run(&["status"]).out.contains("disk is full"));
    assert_eq!(cluster.ok(&["kv", "get", "another"]), "2");
    assert_eq!(cluster.ok(&["kv", "get", "much-0"]).len(), 1_000_000);
    cluster.wait_until_equal();
}

/// Deleted values stay until they are compacted, so that deletes free nothing at once.
#[test]
fn full_disks_of_the_service_etcd_take_deletes() {
    let cluster = Cluster::start(&[&SMALL_FILES[..], &["--service", "etcd"]].concat());
    fill(&cluster, "1,2");
    wait_until("a delete is taken", || try_kv(&cluster, &["delete", "much-1"]).code == Some(0));
    assert_eq!(cluster.run(&["kv", "get", "much-1"]).code, Some(1), "it is gone");
    wait_until("a strong read is answered", || cluster.run(&["kv", "get", "much-0"]).code == Some(0));
    let said = cluster.ok(&["chaos", "fill-disk", "--off", "1,2"]);
    assert!(said.contains("gave all its room back"), "{said}");
    wait_until("writes go on", || try_kv(&cluster, &["put", "another", "2"]).code == Some(0));
    wait_until("no disk is full", || !cluster.run(&["status"]).out.contains("disk is full"));
    cluster.wait_until_equal();
    assert_eq!(cluster.ok(&["kv", "get", "another"]), "2");
}

/// An hour is far more than the time after which others elect: it counts as a pause, which agreed time leaves out.
#[test]
fn a_lease_outlives_a_leader_whose_clock_jumps() {
    const TTL: i64 = 600;
    let cluster = Cluster::start(&["--service", "etcd", "--plain"]);
    let addresses = cluster.ready["etcd"].as_array().expect("addresses").clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let channels: Vec<_> = addresses
        .iter()
        .map(|address| {
            let address = format!("http://{}", address.as_str().expect("an address"));
            let _context = runtime.enter();
            Endpoint::from_shared(address).expect("an address").timeout(PATIENCE).connect_lazy()
        })
        .collect();
    let grant = LeaseGrantRequest { ttl: TTL, id: 0 };
    let granted = runtime.block_on(LeaseClient::new(channels[0].clone()).lease_grant(grant));
    let lease = granted.expect("it is granted").into_inner().id;
    for jump in ["3600000", "3600000", "3600000", "3600000", "3600000", "-1000"] {
        cluster.wait_for_leader();
        let said = json(cluster.run(&["chaos", "clock-jump", "leader", "--ms", jump, "--json"]));
        assert!(said["gap_ms"].is_u64() && said["leader_after"].is_u64(), "{said}");
        for channel in &channels {
            // Agreed time advances with what is ordered.
            let put = PutRequest { key: b"key".to_vec().into(), lease, ..PutRequest::default() };
            let done = runtime.block_on(KvClient::new(channel.clone()).put(put));
            assert!(done.is_ok(), "the lease is there: {done:?}");
            let ask = LeaseTimeToLiveRequest { id: lease, keys: false };
            let asked = runtime.block_on(LeaseClient::new(channel.clone()).lease_time_to_live(ask));
            let left = asked.expect("an answer").into_inner().ttl;
            assert!(left > 0 && left <= TTL, "{left} s are left");
        }
    }
    cluster.wait_until_equal();
}

#[test]
fn only_the_dead_are_restarted() {
    let cluster = Cluster::start(&[]);
    let pids = || cluster.control("list", &[]).expect("dev answers")["replicas"].clone();
    let before = pids();
    let said = cluster.ok(&["chaos", "restart", "dead"]);
    assert_eq!(said, "no replica is dead, so none was restarted");
    assert_eq!(pids(), before);
    cluster.kill(3);
    cluster.ok(&["chaos", "pause", "1", "--no-probe"]);
    let said = cluster.run(&["status"]).out;
    assert!(said.contains("it is paused: `quorate chaos resume 1`"), "{said}");
    assert!(!said.contains("chaos restart 1"), "{said}");
    let said = cluster.ok(&["chaos", "restart", "dead", "--no-probe"]);
    assert!(said.contains("restarted replica 3"), "{said}");
    let after = pids();
    assert_eq!(
        (&after[0], &after[1]),
        (&serde_json::json!({ "replica": 1, "pid": before[0]["pid"], "life": "paused" }), &before[1])
    );
    assert_eq!(after[2]["life"], "running");
    assert_ne!(after[2]["pid"], before[2]["pid"]);
    cluster.ok(&["chaos", "resume", "1"]);
    cluster.wait_until_equal();
}

#[test]
fn what_can_not_be_done_is_refused_with_a_way_out() {
    let cluster = Cluster::start(&["--durability", "memory"]);
    let refused = |arguments: &[&str], code: i32, says: &[&str]| {
        cluster.run(&[&["chaos"], arguments].concat()).fails(code, says);
    };
    for fault in ["partition", "corrupt-disk", "fill-disk", "pause"] {
        refused(&[fault, "9"], 1, &["there is no replica 9"]);
        refused(&[fault, "dead"], 2, &["dead is for `quorate chaos restart`"]);
        refused(&[fault], 2, &["name a replica"]);
    }
    refused(&["partition", "all"], 1, &["a partition has two sides", "not all"]);
    refused(&["heal", "1"], 2, &["takes no replica"]);
    for fault in ["corrupt-disk", "fill-disk"] {
        refused(&[fault, "1"], 1, &["keep nothing on their disks", "quorate dev --durability group"]);
    }
    refused(&["clock-jump", "1"], 2, &["--ms"]);
    refused(&["clock-jump", "1", "--ms", "0"], 2, &["does not jump"]);
    refused(&["clock-jump", "1", "--ms", "86400001"], 2, &["86400000"]);
    refused(&["slow", "1", "--ms", "-1"], 2, &["0 to 10000"]);
    refused(&["kill", "1", "--mib", "1"], 2, &["quorate chaos fill-disk"]);
    refused(&["kill", "1", "--what", "log"], 2, &["quorate chaos corrupt-disk"]);
    refused(&["fill-disk", "1", "--mib", "1", "--off"], 2, &["--mib", "--off"]);
    cluster.kill(1);
    refused(&["clock-jump", "1", "--ms", "5"], 1, &["is down", "quorate chaos restart 1"]);

    // A replica that `dev` did not start can not be hurt.
    let made = Made::three();
    let config = made.path().join("client.toml");
    for fault in ["partition", "corrupt-disk", "fill-disk"] {
        quorate(&["chaos", fault, "1", "--config", text(&config)]).fails(1, &["no `quorate dev` runs"]);
    }
    quorate(&["serve", "--config", text(&made.config(1)), "--hurt", "x"]).fails(2, &["--die-with-parent"]);
}
