//! `bench kv` with real processes, as short as it can be: it starts a cluster that executes as is wanted, and says so.

use crate::harness::{Ran, program, quorate};
use serde_json::Value;

#[test]
fn the_clusters_executor_can_be_chosen() {
    let home = tempfile::tempdir().expect("a directory");
    let all = "bench kv --callers 8 --keys 100 --durability memory --secs 0.3 --warm 0.1 --no-floor --json --scratch scratch \
               --executor ordered --workers 2 --verify";
    let ran = program().args(all.split_whitespace()).current_dir(home.path()).output();
    let text = Ran::from(ran.expect("the program runs")).ok();
    let found: Value = serde_json::from_str(&text).expect("a JSON document");
    assert!(text.contains("executed ordered with 2 workers, verified"), "{found}");
}

#[test]
fn a_cluster_that_runs_already_has_its_own_executor() {
    quorate(&["bench", "kv", "--verify", "--dir", "anywhere"]).fails(2, &["leave them out"]);
    quorate(&["bench", "kv", "--workers", "2"]).fails(2, &["--workers needs --executor"]);
}
