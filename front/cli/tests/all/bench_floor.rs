//! `bench floor`, as short as it can be: it runs for either fault model, says which it was, and refuses what makes no sense.

use crate::harness::{Ran, program, quorate};
use serde_json::Value;

fn bench(scratch: &str, more: &[&str]) -> String {
    let mut command = program();
    command.args(["bench", "floor", "--durability", "memory", "--secs", "0.2", "--warm", "0.1", "--scratch"]);
    Ran::from(command.arg(scratch).args(more).output().expect("the program runs")).ok()
}

#[test]
fn the_floor_is_there_for_either_fault_model() {
    let home = tempfile::tempdir().expect("a directory");
    let scratch = home.path().to_str().expect("a path in UTF-8");
    let json = |more: &[&str]| -> Value {
        serde_json::from_str(&bench(scratch, &[more, &["--json"]].concat())).expect("a JSON document")
    };
    let crash = json(&[]);
    assert_eq!((&crash["fault_model"], &crash["replicas"]), (&"crash".into(), &3.into()));
    assert_eq!(crash["in_flight"], Value::Null);
    let byzantine = json(&["--fault-model", "byzantine", "--in-flight", "2"]);
    assert_eq!((&byzantine["fault_model"], &byzantine["replicas"]), (&"byzantine".into(), &4.into()));
    assert_eq!(byzantine["in_flight"], 2);
    for found in [&crash, &byzantine] {
        let floors = found["floors"].as_array().expect("a list");
        assert_eq!(floors.iter().map(|floor| &floor["window"]).collect::<Vec<_>>(), [65_536, 1]);
        for floor in floors {
            assert!(floor["per_s_median"].as_f64() > Some(0.0), "{floor}");
            assert_eq!(floor["runs"][0]["replicas_agree"], true, "{floor}");
            for same in ["fault_model", "replicas", "in_flight"] {
                assert_eq!(floor["runs"][0][same], found[same], "{floor}");
            }
        }
    }
    let text = bench(scratch, &["--fault-model", "byzantine", "--window", "1"]);
    assert!(text.contains("4 replicas that agree as with byzantine faults (slots under way: 1)"), "{text}");
}

#[test]
fn callers_may_have_connections_of_their_own() {
    let home = tempfile::tempdir().expect("a directory");
    let scratch = home.path().to_str().expect("a path in UTF-8");
    let text = bench(scratch, &["--fault-model", "byzantine", "--callers", "8", "--heard-by-all"]);
    assert!(
        text.contains("8 callers with connections of their own, whose commands all replicas hear"),
        "{text}"
    );
    let found = bench(scratch, &["--fault-model", "byzantine", "--callers", "8", "--json"]);
    let found: Value = serde_json::from_str(&found).expect("a JSON document");
    assert_eq!((&found["callers"], &found["heard_by_all"]), (&8.into(), &false.into()));
    assert_eq!(found["floors"][0]["runs"][0]["callers"], serde_json::json!([8, "leader"]));
    quorate(&["bench", "floor", "--callers", "2"])
        .fails(2, &["callers with connections of their own are for Byzantine faults"]);
}

#[test]
fn slots_are_counted_where_there_are_slots() {
    quorate(&["bench", "floor", "--in-flight", "2"]).fails(2, &["in_flight is for Byzantine faults"]);
    quorate(&["bench", "floor", "--fault-model", "byzantine", "--in-flight", "0"])
        .fails(2, &["in_flight must be between 1 and 256"]);
}
