//! What needs no cluster: ratios within rounds, versions, and what is said of what is missing.

use super::find::{INSTALL_ETCD, INSTALL_JAVA, INSTALL_ZOOKEEPER, etcd, jars_version, version_of_etcd};
use super::*;
use crate::bench::draw::Made;
use std::path::Path;

fn run(per_s: f64, cpu_us: f64, failed: Option<&str>) -> Run {
    Run {
        seconds: 2.0,
        calls: (per_s * 2.0) as u64,
        per_s,
        cpu_us,
        p50_us: 1e6 / per_s,
        p99_us: 4e6 / per_s,
        load_cpu_s: 0.5,
        memory_mib: 100.0,
        failed: failed.map(str::to_owned),
    }
}

/// Clusters that exist in a table only.
struct Told {
    asked: Vec<(usize, Side)>,
    ours: f64,
}

impl Pair for Told {
    fn operations(&self) -> Vec<String> {
        vec!["put".into(), "get".into()]
    }
    fn measure(&mut self, operation: usize, side: Side) -> Outcome<Run> {
        self.asked.push((operation, side));
        // The machine gets slower in each round; the ratio stays.
        let slower = 1.0 / (1 + self.asked.len() / 4) as f64;
        Ok(run(slower * if side == Side::Ours { self.ours } else { 1000.0 }, 10.0, None))
    }
}

fn document(rows: Vec<Row>) -> Document {
    let valid = rows.iter().flat_map(Row::runs).all(|run| run.failed.is_none());
    Document {
        benchmark: "compare",
        version: "1.2.3",
        subject: etcd::subject("3.6.4<b>".into()),
        durability: "group".into(),
        encrypted: false,
        fault_model: "crash",
        replicas: 3,
        callers: 64,
        connections: 12,
        bytes: 100,
        keys: 1000,
        rounds: 2,
        seconds: 2.0,
        valid,
        rows,
        machine: Machine::ask(Path::new(".")),
    }
}

#[test]
fn both_sides_are_measured_by_turns() {
    let mut pair = Told { asked: Vec::new(), ours: 3000.0 };
    let rows = rounds(&mut pair, 3).expect("rounds");
    let (ours, theirs) = (Side::Ours, Side::Theirs);
    let forth = [(0, ours), (0, theirs), (1, ours), (1, theirs)];
    let back = [(0, theirs), (0, ours), (1, theirs), (1, ours)];
    assert_eq!(pair.asked, [forth, back, forth].concat(), "every other round begins with the other side");
    assert_eq!(rows.iter().map(|row| row.operation.as_str()).collect::<Vec<_>>(), ["put", "get"]);
    let rate = rows[0].ours.per_s.expect("a rate");
    assert!(rate.lowest < rate.highest, "the machine got slower: {rate:?}");
    let ratio = rows[0].ratios.per_s.expect("a ratio");
    assert!((2.9..=3.1).contains(&ratio.median) && ratio.lowest > 1.4, "{ratio:?}");
}

#[test]
fn a_ratio_is_taken_within_a_round() {
    let row = Row::of(
        "put".into(),
        vec![run(300.0, 5.0, None), run(100.0, 15.0, None)],
        vec![run(100.0, 20.0, None), run(50.0, 30.0, None)],
    );
    assert_eq!(row.ratios.per_s, Some(Spread { median: 2.5, lowest: 2.0, highest: 3.0 }));
    assert_eq!(row.ratios.cpu_us, Some(Spread { median: 0.375, lowest: 0.25, highest: 0.5 }));
    let text = text::of(&document(vec![row]));
    for part in [
        "quorate 1.2.3 beside etcd 3.6.4<b>; 3 servers on each side, the same clients of etcd's gRPC",
        "64 callers on 12 connections, values of 100 B, 1000 keys; rounds: 2 of 2 s",
        "durability: ours each write synced before its answer (group); etcd each write synced before its answer (its default)",
        "put: ours over etcd  2.50 [2.00, 3.00]",
        "0.38 [0.25, 0.50]",
        "machine: ",
    ] {
        assert!(text.contains(part), "`{part}` is missing in {text}");
    }
}

#[test]
fn a_run_that_failed_makes_the_result_void() {
    let ours = vec![run(300.0, 5.0, None)];
    let row = Row::of("put".into(), ours, vec![run(100.0, 20.0, Some("3 calls failed"))]);
    let document = document(vec![row]);
    let text = text::of(&document);
    assert!(text.starts_with("NOT VALID") && text.contains("NOT VALID: put, etcd: 3 calls failed"), "{text}");
    let made = Made { command: "quorate".into(), version: "1.2.3", date: "today".into() };
    let html = text::page(&document).html(&made);
    assert!(html.contains("NOT VALID: put, etcd: 3 calls failed"), "{html}");
}

#[test]
fn a_side_that_answered_nothing_has_no_ratio() {
    let silent = Run { p50_us: 0.0, p99_us: 0.0, cpu_us: 0.0, ..run(0.0, 0.0, Some("no call was answered")) };
    let row = Row::of("put".into(), vec![silent.clone()], vec![silent]);
    assert_eq!(row.ratios.per_s, None);
    let document = document(vec![row]);
    let made = Made { command: "quorate".into(), version: "1.2.3", date: "today".into() };
    let html = text::page(&document).html(&made);
    assert!(html.contains("no value was measured") && !html.contains("NaN"), "{html}");
    assert!(html.contains("3.6.4&lt;b&gt;") && !html.contains("<b>"), "{html}");
    let json = quorate_command::print::json(&document).expect("JSON");
    assert!(json.contains("\"per_s\": null") && text::of(&document).contains("NOT VALID"), "{json}");
}

#[test]
fn versions_are_found() {
    assert_eq!(version_of_etcd("etcd Version: 3.6.4\nGit SHA: x\n").as_deref(), Some("3.6.4"));
    assert_eq!((version_of_etcd("cat 9.1"), version_of_etcd("etcd Version:\n")), (None, None));
    let home = tempfile::tempdir().expect("a directory");
    for name in ["zookeeper-jute-3.9.4.jar", "zookeeper-3.9.4.jar", "zookeeper-notes.txt"] {
        std::fs::write(home.path().join(name), "").expect("a file");
    }
    assert_eq!(jars_version(home.path()).expect("a version"), "3.9.4");
}

#[test]
fn what_is_missing_is_said_with_the_way_to_install_it() {
    let said = |outcome: Outcome<String>| outcome.map_err(|why| why.to_string()).expect_err("an error");
    let named = |path: &str| said(etcd(Some(Path::new(path))).map(|etcd| etcd.version));
    let none = named("/nowhere/etcd");
    assert!(
        none.contains("there is no etcd /nowhere/etcd (by --program)") && none.contains(INSTALL_ETCD),
        "{none}"
    );
    let other = named("true");
    assert!(other.contains("is no etcd") && other.contains(INSTALL_ETCD), "{other}");
    let home = tempfile::tempdir().expect("a directory");
    let empty = said(jars_version(home.path()));
    assert!(empty.contains("no zookeeper-VERSION.jar") && empty.contains(INSTALL_ZOOKEEPER), "{empty}");
    assert!(said(jars_version(&home.path().join("none"))).contains(INSTALL_ZOOKEEPER));
    assert!(INSTALL_JAVA.contains("java"));
}
