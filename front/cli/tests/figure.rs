//! `quorate bench figure` with real processes, as short as it can be.

mod harness;

use harness::{program, quorate};
use serde_json::Value;
use std::fs;

#[test]
fn figures_are_listed_and_wrong_ones_refused() {
    let listed = quorate(&["bench", "figure"]).ok();
    assert!(listed.contains("dfc") && listed.contains("quorate bench figure NAME"), "{listed}");
    quorate(&["bench", "figure", "nothing"]).fails(2, &["dfc"]);
    let dfc = |arguments: &[&str]| {
        let directory = tempfile::tempdir().expect("a directory");
        let mut all = vec!["bench", "figure", "dfc"];
        all.extend(arguments);
        harness::Ran::from(
            program().args(all).current_dir(directory.path()).output().expect("the program runs"),
        )
    };
    dfc(&["--callers", "0"]).fails(2, &["--callers is 1 to 10000"]);
    dfc(&["--state-bytes", "1"]).fails(2, &["--state-bytes is 1MiB"]);
    dfc(&["--state-bytes", "1 MB"]).fails(2, &["as in 256MiB"]);
    dfc(&["--modes", "full"]).fails(2, &["--interval-bytes is needed"]);
    dfc(&["--sync-delay-us", "5", "--durability", "memory"])
        .fails(2, &["does nothing with --durability memory"]);
}

#[test]
fn a_figure_is_measured_and_drawn() {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = "bench figure dfc --state-bytes 1MiB --callers 5 --secs 0.5 --warm 0.1 --modes none,differential \
                     --out drawn --scratch scratch --sync-delay-us 1000";
    let ran = program().args(arguments.split_whitespace()).current_dir(directory.path()).output();
    let said = harness::Ran::from(ran.expect("the program runs")).ok();
    for part in [
        "none",
        "differential",
        "p99.99",
        "durability group, +1 ms per sync",
        "fault model crash",
        "null program",
    ] {
        assert!(said.contains(part), "`{part}` is missing in: {said}");
    }
    let html = fs::read_to_string(directory.path().join("drawn/dfc.html")).expect("the page");
    assert_eq!(html.matches("<svg ").count(), 2);
    assert!(
        html.contains("durability group, +1 ms per sync")
            && html.contains("5 callers")
            && html.contains("cores")
    );
    let json = fs::read_to_string(directory.path().join("drawn/dfc.json")).expect("the numbers");
    let document: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&document["valid"], &document["sync_delay_us"]), (&Value::Bool(true), &Value::from(1000)));
    let runs = document["runs"].as_array().expect("a list");
    let modes: Vec<_> = runs.iter().map(|run| run["mode"].as_str()).collect();
    assert_eq!(modes, [Some("none"), Some("differential")], "in the order that was asked for");
    for run in runs {
        assert_eq!(run["bins"].as_array().map(Vec::len), Some(5));
        assert!(
            run["latency_ms"]["p50"].as_f64() >= Some(1.0),
            "each put waits for a sync with its delay: {run}"
        );
    }
    assert!(runs[0]["interval_bytes"].is_null() && runs[1]["interval_bytes"].as_u64() >= Some(65_536));
    let left = fs::read_dir(directory.path().join("scratch")).expect("a directory").count();
    assert_eq!(left, 0, "nothing is left of the clusters");
}
