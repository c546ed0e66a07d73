//! The benchmark of etcd's clients, as short as it can be: both sides run, all that is counted is there, and nonsense is refused.

use crate::harness::{program, quorate};
use serde_json::Value;
use std::path::Path;

/// Runs it in a directory of its own, which holds nothing afterwards.
fn bench(arguments: &str, etcd: &Path) -> Value {
    let home = tempfile::tempdir().expect("a directory");
    let all = format!("bench etcd {arguments} --json --scratch scratch --secs 0.5 --warm 0.1 --keys 50");
    let mut command = program();
    command.args(all.split_whitespace()).arg("--etcd").arg(etcd).current_dir(home.path());
    let text = crate::harness::Ran::from(command.output().expect("the program runs")).ok();
    let left = std::fs::read_dir(home.path().join("scratch")).expect("a directory").count();
    assert_eq!(left, 0, "nothing is left");
    serde_json::from_str(&text).expect("a JSON document")
}

/// Each run of a side did something, of which nothing is missing.
fn check(row: &Value, side: &str, observers: u64) {
    let run = &row[side]["runs"][0];
    assert!(run["calls"].as_u64() > Some(0) && run["errors"] == 0 && run["all_there"] == true, "{run}");
    if observers > 0 {
        assert_eq!((&run["events"]["observers"], &run["events"]["fault"]), (&observers.into(), &Value::Null));
        let seen = run["events"]["seen"].as_u64().expect("a number");
        // Puts before and after the measured time count, too.
        assert!(
            seen.is_multiple_of(observers) && seen / observers >= run["calls"].as_u64().unwrap(),
            "{run}"
        );
    }
}

#[test]
fn ours_is_measured_with_watches_beside_it() {
    let found =
        bench("--target ours --clients 4,9 --bytes 16 --observers 3 --watchers 1500", Path::new("none"));
    let rows = found["rows"].as_array().expect("a list");
    let kinds: Vec<_> = rows.iter().map(|row| (row["operation"].as_str(), row["clients"].as_u64())).collect();
    let (put, get) = (Some("put"), Some("get"));
    assert_eq!(kinds, [(put, Some(4)), (put, Some(9)), (get, Some(4)), (get, Some(9))]);
    for row in rows {
        check(row, "ours", if row["operation"] == "put" { 3 } else { 0 });
        assert!(row["etcd"].is_null() && row["ratios"].is_null(), "{row}");
    }
    assert_eq!(found["valid"], true);
}

#[test]
fn both_are_measured_where_there_is_an_etcd() {
    let etcd = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/etcd-clients/etcd");
    let Ok(etcd) = etcd.canonicalize() else {
        quorate_skipped::skipped(
            "there is no etcd; front/cli/tests/all/etcd/build.sh builds one where Go is",
        );
        return;
    };
    let found = bench("--operations put --clients 8 --bytes 100 --observers 2", &etcd);
    let row = &found["rows"][0];
    for side in ["ours", "etcd"] {
        check(row, side, 2);
    }
    for ratio in ["rate", "per_server_cpu_s", "p50", "p99"] {
        assert!(row["ratios"][ratio].as_f64() > Some(0.0), "{row}");
    }
}

#[test]
fn memory_of_what_was_put() {
    let found = bench("--target ours --bytes 100 --memory", Path::new("none"));
    let row = &found["rows"][0];
    assert_eq!((&row["side"], &row["bytes"], &found["keys"]), (&"ours".into(), &100.into(), &50.into()));
    let servers = row["servers"].as_array().expect("a list");
    assert_eq!(servers.len(), 3);
    for held in servers {
        let at = |name: &str| held[name].as_f64().expect("a number");
        assert!(at("anonymous_mib") > 0.0, "{held}");
        assert!(at("anonymous_mib") <= at("resident_mib") && at("resident_mib") <= at("peak_mib"), "{held}");
    }
}

#[test]
fn nonsense_is_refused() {
    let refused =
        ["--clients 0", "--connections 0", "--bytes 2000000", "--keys 0", "--secs 0", "--observers 10001"];
    for arguments in refused {
        let all: Vec<&str> = ["bench", "etcd"].into_iter().chain(arguments.split_whitespace()).collect();
        quorate(&all).fails(2, &["--"]);
    }
    let home = tempfile::tempdir().expect("a directory");
    let scratch = home.path().to_string_lossy();
    let all = ["bench", "etcd", "--target", "etcd", "--etcd", "no-such-program", "--scratch", &scratch];
    quorate(&all).fails(1, &["start no-such-program", "does --etcd or --program name it"]);
}
