//! The benchmarks about many instances, as short as they can be: they run, measure what they say, and refuse what makes no sense.

use crate::harness::{program, quorate};
use serde_json::Value;

/// Runs a benchmark in a directory of its own, which holds nothing afterwards.
fn bench(arguments: &str) -> Value {
    let home = tempfile::tempdir().expect("a directory");
    let all = format!("bench {arguments} --json --scratch scratch");
    let ran = program().args(all.split_whitespace()).current_dir(home.path()).output();
    let text = crate::harness::Ran::from(ran.expect("the program runs")).ok();
    let left = std::fs::read_dir(home.path().join("scratch")).expect("a directory").count();
    assert_eq!(left, 0, "nothing is left");
    serde_json::from_str(&text).expect("a JSON document")
}

fn ways(found: &Value) -> &[Value] {
    found["ways"].as_array().expect("a list")
}

#[test]
fn more_instances_are_compared_at_equal_batches() {
    let found =
        bench("instances --instances 1,3 --rounds 2 --secs 0.5 --warm 0.2 --plain --commands-per-call 16");
    assert_eq!(ways(&found).len(), 2);
    for way in ways(&found) {
        assert_eq!(way["cpu_us_per_command"]["of"], 2, "{way}");
        assert!(way["commands_per_s"]["low"].as_f64() > Some(0.0), "{way}");
        // One call in each batch; sessions are opened in batches without any.
        let per_batch = way["commands_per_batch"]["median"].as_f64();
        assert!(per_batch > Some(10.0) && per_batch < Some(20.0), "{way}");
    }
    assert_eq!(ways(&found)[0]["noop_share"]["median"], 0.0, "one instance needs no no-ops: {found}");
    assert_eq!(ways(&found)[0]["cpu_times_the_first"]["median"], 1.0);
    let refused = [
        "--instances 0",
        "--instances 33",
        "--bytes 17",
        "--commands-per-call 3000 --bytes 1024",
        "--calls 0",
        "--placement staged",
        "--placement staged --lanes 2",
        "--placement staged --lanes 3 --pillars main",
    ];
    for arguments in refused {
        let all: Vec<&str> = ["bench", "instances"].into_iter().chain(arguments.split_whitespace()).collect();
        quorate(&all).fails(2, &["--"]);
    }
}

/// The staged design is compared with the same program, where each step has a thread.
#[test]
fn staged_replicas_are_measured() {
    let found = bench(
        "instances --instances 1 --lanes 3 --placement staged --rounds 1 --secs 0.5 --warm 0.2 --commands-per-call 16",
    );
    assert_eq!((&found["placement"], &found["lanes"]), (&Value::from("staged"), &Value::from(3)));
    assert!(ways(&found)[0]["commands_per_s"]["low"].as_f64() > Some(0.0), "{found}");
    let all = "bench append --lanes 2 --placement staged";
    quorate(&all.split_whitespace().collect::<Vec<_>>())
        .fails(2, &["--placement staged needs --lanes 3 or more"]);
}

#[test]
fn stages_are_put_together_in_each_of_the_ways() {
    let found = bench("stages --rounds 2 --count 300 --commands-per-call 8");
    let named: Vec<_> = ways(&found).iter().map(|way| way["way"].as_str()).collect();
    assert_eq!(named, [Some("direct"), Some("merged"), Some("staged")]);
    for way in ways(&found) {
        assert!(way["cpu_us_per_command"]["low"].as_f64() > Some(0.0), "{way}");
        assert!(way["commands_per_s"]["low"].as_f64() > Some(0.0), "{way}");
    }
    let one = bench("stages --rounds 1 --secs 0.3 --ways merged --bytes 16 --commands-per-call 1");
    assert_eq!(ways(&one).len(), 1);
    quorate(&["bench", "stages", "--calls", "1000"]).fails(2, &["--calls is 1 to 500"]);
    quorate(&["bench", "stages", "--ways", "backwards"]).fails(2, &["staged"]);
    let each = bench("stages --rounds 1 --count 100 --commands-per-call 8 --ways merged --each");
    let stages = ways(&each)[0]["stages"].as_array().cloned().unwrap_or_default();
    let named: Vec<_> = stages.iter().map(|stage| stage["stage"].as_str().unwrap_or_default()).collect();
    assert_eq!(named, ["open", "admit", "order", "log", "execute", "reply"]);
    assert_eq!(ways(&one)[0]["stages"].as_array().map(Vec::len), Some(0), "only if asked for");
}

#[test]
fn a_model_of_more_cores_says_that_it_is_one() {
    let found = bench(
        "model --shapes 1/1 --cores 2 --bytes 16 --quota 0 --clients 4 --calls 4 --secs 0.5 --warm 0.2 --simulated 200 --beside",
    );
    let rows = found["rows"].as_array().expect("a list").clone();
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert!(row["model"]["commands_per_s"].as_f64() > Some(0.0), "{row}");
    }
    assert!(rows[0]["measured"]["commands_per_s"]["median"].as_f64() > Some(0.0), "{found}");
    assert!(rows[0]["error"].is_f64() && rows[1]["measured"].is_null(), "{found}");
    quorate(&["bench", "model", "--shapes", "1/0"]).fails(2, &["INSTANCES/LANES"]);
    quorate(&["bench", "model", "--cores", "65"]).fails(2, &["--cores"]);
}

#[test]
fn a_cluster_of_many_instances_rests_and_is_compared_with_one() {
    let found = bench("idle --instances 4 --secs 1 --pulses 3 --durability memory");
    assert_eq!((&found["instances"], &found["slots_decided"]), (&Value::from(4), &Value::from(0)), "{found}");
    let pulse = &found["pulse"];
    assert_eq!(pulse["added_ms"]["of"], 3, "{found}");
    assert!(pulse["several_ms"]["low"].as_f64() > Some(0.0), "{found}");
    assert!(bench("idle --secs 0.5 --durability memory")["pulse"].is_null());
}
