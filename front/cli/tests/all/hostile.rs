//! A crowd that keeps to no rule, against a cluster of real processes: `quorate bench hostile`, small. What others notice of it in time
//! is a measurement, which stands in docs/performance.md; here is what must hold on every machine.

use crate::harness::{program, quorate};
use serde_json::Value;

/// Runs the benchmark in a directory of its own.
fn hostile(more: &[&str]) -> Value {
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut command = program();
    command.args(["bench", "hostile", "--json", "--connections", "400", "--callers", "4", "--secs", "4"]);
    let ran: crate::harness::Ran =
        command.args(more).current_dir(home.path()).output().expect("the program runs").into();
    serde_json::from_str(&ran.ok()).expect("a JSON document")
}

fn check(found: &Value) {
    let number = |pointer: &str| {
        found.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{pointer}: {found}"))
    };
    // The others work on: everything that they put succeeds, on all replicas.
    for half in ["alone", "beside_the_crowd"] {
        assert_eq!(number(&format!("/{half}/errors")), 0.0, "{found}");
        assert!(number(&format!("/{half}/puts")) > 0.0, "{found}");
    }
    assert_eq!(found["check"]["passed"], true, "{found}");
    // Replicas stay connected, and an operator gets through.
    assert_eq!(found["seen"]["answered"], 3, "{found}");
    assert_eq!(found["seen"]["all_follow"], true, "{found}");
    assert_eq!(found["seen"]["same_leader"], true, "{found}");
    // Memory and places stay within their limits.
    assert!(number("/memory_mib") < number("/memory_max_mib"), "{found}");
    assert!(number("/seen/buffers/bytes") <= number("/seen/buffers/bytes_max"), "{found}");
    assert!(number("/seen/seats/clients") <= number("/seen/seats/clients_max"), "{found}");
    assert!(number("/seen/seats/strangers") <= number("/seen/seats/strangers_max"), "{found}");
    assert!(number("/seen/seats/largest_client") <= number("/seen/seats/per_client_max"), "{found}");
    // The crowd was there, and was told what is wrong with it.
    assert!(number("/crowd/welcomed") > 0.0 && number("/crowd/flooded") > 0.0, "{found}");
    assert!(number("/crowd/turned_away") > 0.0 && number("/crowd/cut") > 0.0, "{found}");
    let told = found["crowd"]["refused"].as_object().expect("a list");
    for part in ["limits.connections_per_client", "is over the limit of", "malformed frame header"] {
        assert!(told.keys().any(|text| text.contains(part)), "nobody was told `{part}`: {told:?}");
    }
}

#[test]
fn a_crowd_with_certificates() {
    check(&hostile(&[]));
}

#[test]
fn a_crowd_where_connections_are_plain() {
    check(&hostile(&["--plain"]));
}

#[test]
fn a_crowd_has_a_size() {
    quorate(&["bench", "hostile", "--connections", "10"]).fails(2, &["--connections is 100 to 100000"]);
}
