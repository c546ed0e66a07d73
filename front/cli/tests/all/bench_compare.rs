//! `bench compare` with real processes, as short as it can be: what is missing is said before anything starts, and nothing is left.

use crate::harness::{Ran, program, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The etcd that other tests use, too.
fn etcd() -> Option<PathBuf> {
    let named = std::env::var_os("ETCD").map(PathBuf::from);
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/etcd-clients/etcd");
    let found = named.or_else(|| built.canonicalize().ok());
    if found.is_none() {
        quorate_skipped::skipped(
            "there is no etcd; front/cli/tests/all/etcd/build.sh builds one where Go is",
        );
    }
    found
}

/// The command in a directory of its own.
fn command(words: &str, home: &Path) -> Command {
    let mut command = program();
    command.args(words.split_whitespace()).current_dir(home);
    command
}

/// Processes whose command line names this directory.
fn processes(home: &Path) -> Vec<String> {
    let name = home.to_str().expect("a path in UTF-8");
    let lines = std::fs::read_dir("/proc").expect("Linux").flatten();
    let lines = lines.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(name))
        .collect()
}

#[test]
fn what_is_missing_is_said_before_anything_starts() {
    let home = tempfile::tempdir().expect("a directory");
    let fails = |words: &str, says: &[&str]| {
        let mut command = command(words, home.path());
        let ran = command.env_remove("ETCD").env_remove("ZOOKEEPER").output();
        Ran::from(ran.expect("the program runs")).fails(2, says);
    };
    fails(
        "bench compare etcd --program /nowhere/etcd",
        &["no etcd /nowhere/etcd (by --program)", "apt-get install etcd-server"],
    );
    fails("bench compare zookeeper", &["no ZooKeeper is named", "--jars", "ZOOKEEPER"]);
    fails("bench compare zookeeper --jars .", &["no zookeeper-VERSION.jar in ."]);
    fails("bench compare etcd --replicas 2", &["--replicas is 1 or 3"]);
    fails("bench compare etcd --callers 0", &["--callers is 1 to 100000"]);
    assert_eq!(home.path().read_dir().expect("a directory").count(), 0, "nothing was made");
}

#[test]
fn etcd_stands_beside_ours() {
    let Some(etcd) = etcd() else { return };
    let home = tempfile::tempdir().expect("a directory");
    let words = "bench compare etcd --replicas 1 --callers 8 --keys 50 --rounds 2 --secs 0.5 --warm 0.1 --scratch scratch --json --plot etcd.html";
    let mut command = command(words, home.path());
    let ran = Ran::from(command.arg("--program").arg(etcd).output().expect("the program runs"));
    let found: Value = serde_json::from_str(&ran.ok()).expect("a JSON document");
    assert_eq!(
        (&found["valid"], &found["peer"], &found["replicas"]),
        (&true.into(), &"etcd".into(), &1.into())
    );
    assert!(found["peer_version"].as_str().is_some_and(|version| version.contains('.')), "{found}");
    let rows = found["rows"].as_array().expect("a list");
    assert_eq!(rows.iter().map(|row| &row["operation"]).collect::<Vec<_>>(), ["put", "get"]);
    for row in rows {
        for side in ["our_runs", "their_runs"] {
            let runs = row[side].as_array().expect("a list");
            assert!(runs.len() == 2 && runs.iter().all(|run| run["calls"].as_u64() > Some(0)), "{row}");
        }
        for ratio in ["per_s", "cpu_us", "p50_us", "p99_us"] {
            let of = |name: &str| row["ratios"][ratio][name].as_f64().expect("a number");
            assert!(
                of("lowest") > 0.0 && of("lowest") <= of("median") && of("median") <= of("highest"),
                "{row}"
            );
        }
    }
    let html = std::fs::read_to_string(home.path().join("etcd.html")).expect("a page");
    assert!(html.contains("Ours beside etcd, ratios within a round"), "{html}");
    assert_eq!(home.path().join("scratch").read_dir().expect("a directory").count(), 0, "nothing is left");
    assert_eq!(processes(home.path()), Vec::<String>::new());
}

#[test]
fn an_interrupted_comparison_leaves_nothing() {
    let Some(etcd) = etcd() else { return };
    let home = tempfile::tempdir().expect("a directory");
    let scratch = home.path().join("scratch");
    let mut command = command("bench compare etcd --replicas 1 --callers 4 --keys 50 --secs 60", home.path());
    command.arg("--scratch").arg(&scratch).arg("--program").arg(etcd);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    // The benchmark, the etcd, and the replica.
    wait_until("both run", || processes(&scratch).len() >= 3);
    std::thread::sleep(Duration::from_millis(300));
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("an id")).expect("an id");
    let began = Instant::now();
    kill_process(pid, Signal::INT).expect("a signal");
    let ran = Ran::from(child.wait_with_output().expect("it ends"));
    ran.fails(1, &["interrupted: the servers were ended, and their files removed"]);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(processes(&scratch), Vec::<String>::new());
    assert_eq!(scratch.read_dir().expect("a directory").count(), 0, "nothing is left");
}
