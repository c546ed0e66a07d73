//! `bench latency` with real processes, as short as it can be: every put that was due is accounted for, also past saturation and while a
//! leader is killed, and nonsense is refused.

use crate::harness::{program, quorate};
use serde_json::Value;

/// Runs the benchmark in a directory of its own, which holds nothing afterwards.
fn bench(arguments: &str) -> Value {
    let home = tempfile::tempdir().expect("a directory");
    let all = format!("bench latency {arguments} --json --scratch scratch --no-floor");
    let ran = program().args(all.split_whitespace()).current_dir(home.path()).output();
    let text = crate::harness::Ran::from(ran.expect("the program runs")).ok();
    let left = std::fs::read_dir(home.path().join("scratch")).expect("a directory").count();
    assert_eq!(left, 0, "nothing is left");
    serde_json::from_str(&text).expect("a JSON document")
}

fn rows(found: &Value) -> &[Value] {
    found["rows"].as_array().expect("a list")
}

/// Every put that was due ended in exactly one way.
fn all_are_counted(row: &Value) {
    let count = |of: &Value| of.as_u64().unwrap_or_else(|| panic!("no number in {row}"));
    let ways = ["overloaded", "timed_out", "failed", "not_sent"].map(|way| count(&row[way]));
    let ended = count(&row["latency_ms"]["calls"]) + ways.iter().sum::<u64>();
    assert_eq!(ended, count(&row["due"]), "{row}");
    assert!(row["latency_ms"]["p50"].as_f64() <= row["latency_ms"]["p99_99"].as_f64(), "{row}");
}

#[test]
fn rates_are_chosen_by_what_the_cluster_answers() {
    let found = bench("--durability memory --secs 0.4 --warm 0.2 --callers 20");
    let most = found["most_per_s"].as_f64().expect("it was looked for");
    let shares: Vec<f64> =
        rows(&found).iter().map(|row| row["rate"].as_f64().unwrap_or(0.0) / most).collect();
    assert_eq!(shares.len(), 7);
    assert!((shares[0] - 0.1).abs() < 1e-6 && (shares[6] - 2.0).abs() < 1e-6, "{shares:?}");
    rows(&found).iter().for_each(all_are_counted);
    assert_eq!(found["valid"], true, "{found}");
}

#[test]
fn the_same_rate_is_measured_while_something_happens() {
    let found = bench(
        "--during none,checkpoint,scrub,leader,hand-over --rate 300 --state-bytes 1MiB --secs 2 --warm 0.2 \
         --callers 20 --clients 2",
    );
    let events: Vec<_> = rows(&found).iter().map(|row| row["event"].as_str().unwrap_or_default()).collect();
    assert_eq!(events, ["none", "checkpoint", "scrub", "leader", "hand-over"]);
    for row in rows(&found) {
        all_are_counted(row);
        assert!(row["due"].as_u64() >= Some(590), "{row}");
    }
    let note = |at: usize| rows(&found)[at]["note"].as_str().unwrap_or_default();
    assert!(note(2).contains("scrubs of all replicas"), "{}", note(2));
    assert!(note(3).contains("was killed at"), "{}", note(3));
    assert_eq!(found["valid"], true, "{found}");
}

#[test]
fn rates_that_make_no_sense_are_refused() {
    quorate(&["bench", "latency", "--rates", "0"]).fails(2, &["--rates and --rate are 1 to"]);
    quorate(&["bench", "latency", "--during", "sleep"]).fails(2, &["hand-over"]);
}
