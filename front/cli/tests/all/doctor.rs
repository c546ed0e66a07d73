//! `quorate doctor` with real directories, ports and clusters.

use crate::harness::{Cluster, Made, edit, free_ports, pid, program, quorate, wait_until};
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn doctor(arguments: &[&str]) -> crate::harness::Ran {
    let mut all = vec!["doctor", "--seconds", "0.1"];
    all.extend(arguments);
    quorate(&all)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

/// Every file below, with its length.
fn files(directory: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory can be read").flatten() {
        let facts = entry.metadata().expect("it is there");
        if facts.is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push((entry.path(), facts.len()));
        }
    }
    found.sort();
    found
}

#[test]
fn the_disk_of_any_directory_is_measured() {
    let directory = tempfile::tempdir().expect("a directory");
    let said = doctor(&["--dir", text(directory.path())]).ok();
    for part in [
        "append and sync",
        "4 KiB",
        "64 KiB",
        "1024 KiB",
        "MB/s",
        "what to expect",
        "group commits",
        "clock source",
    ] {
        assert!(said.contains(part), "`{part}` is missing in: {said}");
    }
    assert!(files(directory.path()).is_empty(), "nothing is left");
    // Without anything to look at, it is the working directory's.
    let here = program().args(["doctor", "--seconds", "0.1"]).current_dir(directory.path()).output();
    let here: crate::harness::Ran = here.expect("the program runs").into();
    assert!(here.ok().contains("disk of ."));
}

#[test]
fn a_new_cluster_is_fit_to_start() {
    let made = Made::three();
    let document = json(&doctor(&["--dir", text(&made.path()), "--json"]).ok());
    assert_eq!(document["healthy"], true, "{document}");
    let syncs = document["disks"][0]["syncs"].as_array().expect("a list");
    assert_eq!(document["disks"].as_array().map(Vec::len), Some(1), "one disk, however many replicas");
    for (sync, bytes) in syncs.iter().zip([4096, 65_536, 1 << 20]) {
        assert_eq!(sync["bytes"], bytes);
        let [p50, p99, max] = ["p50_us", "p99_us", "max_us"].map(|key| sync[key].as_f64().expect("a number"));
        assert!(0.0 < p50 && p50 <= p99 && p99 <= max, "{sync}");
    }
    for (replica, id) in document["replicas"].as_array().expect("a list").iter().zip(1..) {
        assert_eq!(
            (&replica["replica"], &replica["address"]),
            (&Value::from(id), &Value::from("free")),
            "{replica}"
        );
        assert_eq!(replica["not_reached"].as_array().map(Vec::len), Some(2));
    }
    assert!(document["replicas"][2]["replica"] == 3);
    doctor(&["--config", text(&made.config(2))]).ok();
    let before = files(&made.path());
    doctor(&["--dir", text(&made.path())]).ok();
    assert_eq!(files(&made.path()), before, "nothing is changed");
}

#[test]
fn what_keeps_a_replica_from_running_is_a_problem_with_a_remedy() {
    let ports = free_ports(1);
    let made = Made::new(&[(1, format!("127.0.0.1:{}", ports[0])), (2, "192.0.2.1:7000".into())]);
    let taken = TcpListener::bind(("127.0.0.1", ports[0])).expect("the port is free");
    let ran = doctor(&["--dir", text(&made.path())]);
    assert_eq!(ran.code, Some(1));
    let listens = "another process listens on 127.0.0.1";
    assert!(ran.out.contains(listens) && ran.out.contains("choose another port"), "{}", ran.out);
    assert!(ran.out.contains("belongs to another machine"), "replica 2, which is no problem: {}", ran.out);
    drop(taken);
    doctor(&["--dir", text(&made.path())]).ok();

    let ran = doctor(&["--config", text(&made.config(2))]);
    assert!(ran.code == Some(1) && ran.out.contains("this machine has no such address"), "{ran:?}");

    fs::rename(made.data(1), made.path().join("elsewhere")).expect("it can be moved");
    let ran = doctor(&["--config", text(&made.config(1))]);
    assert!(ran.code == Some(1) && ran.out.contains("has no data directory at"), "{ran:?}");
    fs::rename(made.path().join("elsewhere"), made.data(1)).expect("it can be moved");

    edit(&made.config(1), "mode = \"group\"", "mode = \"most\"");
    let ran = doctor(&["--dir", text(&made.path())]);
    assert!(ran.code == Some(1) && ran.out.contains("problem: the configuration"), "{ran:?}");
    doctor(&["--config", text(&made.config(1))]).fails(2, &["is not usable", "memory"]);
}

#[test]
fn a_wrong_command_line_is_refused() {
    doctor(&["--dir", "/does/not/exist"]).fails(2, &["there is no directory"]);
    doctor(&["--config", "/does/not/exist.toml"]).fails(2, &["can not read the configuration"]);
    quorate(&["doctor", "--seconds", "0"]).fails(2, &["--seconds is 0.05 to 86400"]);
    let made = Made::three();
    let client = made.path().join("client.toml");
    doctor(&["--config", text(&client)]).fails(2, &["is for clients", "replica.toml", "--dir"]);
}

#[test]
fn a_running_cluster_is_left_alone() {
    let cluster = Cluster::start(&[]);
    cluster.ok(&["kv", "put", "key", "value"]);
    let document = json(&doctor(&["--dir", text(cluster.directory()), "--json"]).ok());
    for replica in document["replicas"].as_array().expect("a list") {
        assert_eq!(replica["address"], "running", "{replica}");
        let pid = replica["pid"].as_i64().expect("a process id");
        assert!(cluster.pids().iter().any(|other| i64::from(other.as_raw_nonzero().get()) == pid));
        assert_eq!(replica["reached_us"].as_object().map(serde_json::Map::len), Some(2), "{replica}");
        assert!(replica["log_bytes"].as_u64() > Some(0), "{replica}");
    }
    // As other commands, it finds the cluster that the environment names.
    let said = cluster.ok(&["doctor", "--seconds", "0.1"]);
    assert!(said.contains("runs (pid"), "{said}");
    assert_eq!(cluster.ok(&["kv", "get", "key"]), "value");
    assert_eq!(cluster.status()["problems"].as_array().map(Vec::len), Some(0));
    assert_eq!(cluster.dev_said(), "");
}

#[test]
fn it_may_be_interrupted_at_any_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut child = program()
        .args(["doctor", "--seconds", "60", "--dir", text(directory.path())])
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("the program runs");
    let proc = format!("/proc/{}/fd", child.id());
    // Until it has its file: a file of this directory that is open and has no name.
    wait_until("it measures", || {
        let open = fs::read_dir(&proc).into_iter().flatten().flatten();
        open.filter_map(|fd| fs::read_link(fd.path()).ok())
            .any(|file| text(&file).starts_with(text(directory.path())) && text(&file).ends_with("(deleted)"))
    });
    std::thread::sleep(Duration::from_millis(100));
    // Not SIGINT: whoever runs the tests in the background may have it ignored, and that is inherited.
    kill_process(pid(&child), Signal::TERM).expect("a signal can be sent");
    assert!(!child.wait().expect("it ends").success());
    assert!(files(directory.path()).is_empty(), "nothing is left");
}

#[test]
fn memory_is_no_disk() {
    let shm = Path::new("/dev/shm");
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    if !mounts.lines().any(|line| line.split(' ').nth(1) == Some("/dev/shm") && line.contains(" tmpfs ")) {
        quorate_skipped::skipped("there is no tmpfs at /dev/shm");
        return;
    }
    let said = doctor(&["--dir", text(shm)]).ok();
    assert!(said.contains("is on tmpfs") && said.contains("nothing in it survives"), "{said}");
}
