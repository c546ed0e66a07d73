//! `--plot` of benchmarks: a result that is drawn, with one short run, and files that are not written.

use crate::harness::{Ran, program};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The command in a directory of its own.
fn command(words: &str, home: &Path) -> Command {
    let mut command = program();
    command.args(words.split_whitespace()).current_dir(home);
    command
}

#[test]
fn pages_that_can_not_be_written_are_refused_before_anything_is_measured() {
    let home = tempfile::tempdir().expect("a directory");
    let fails = |words: &str, says: &[&str]| {
        let ran = command(words, home.path()).output();
        Ran::from(ran.expect("the program runs")).fails(2, says);
    };
    std::fs::write(home.path().join("diary.html"), "dear diary").expect("a file");
    for bench in ["kv", "append", "floor", "table", "compare etcd", "figure dfc", "gate"] {
        fails(&format!("bench {bench} --plot none/x.html"), &["there is no directory none", "make it first"]);
        fails(&format!("bench {bench} --plot diary.html"), &["name another file, or remove it first"]);
    }
    fails("bench figure --plot x.html", &["name one, as in `quorate bench figure dfc"]);
    let kept = std::fs::read_to_string(home.path().join("diary.html")).expect("it is there");
    assert_eq!((kept.as_str(), home.path().read_dir().expect("a directory").count()), ("dear diary", 1));
}

#[test]
fn a_result_is_drawn() {
    let home = tempfile::tempdir().expect("a directory");
    let words = "bench kv --callers 8 --keys 100 --durability memory --secs 0.3 --warm 0.1 --repeat 2 --scratch scratch --plot kv.html";
    let said = Ran::from(command(words, home.path()).output().expect("the program runs")).ok();
    assert!(said.ends_with("drawn: kv.html"), "{said}");
    let html = std::fs::read_to_string(home.path().join("kv.html")).expect("a page");
    for part in [
        "<td>quorate bench kv --callers 8",
        "<th scope=\"row\">durability</th><td>memory</td>",
        "<th scope=\"row\">callers</th><td>8 callers",
        "3 replicas, crash faults, raft",
        "<th scope=\"row\">floor</th>",
        "<th scope=\"row\">ratio to the floor</th>",
        "cores",
        "p99.9",
    ] {
        assert!(html.contains(part), "`{part}` is missing in {html}");
    }
    assert!(
        html.matches("<figure>").count() == 4 && html.contains("round; the null program runs between rounds")
    );
    assert!(!html.contains("NaN") && !html.contains("<script"), "{html}");
    // Again into the same file, with JSON alone on standard output.
    let floor = "bench floor --durability memory --window 64 --secs 0.2 --warm 0.1 --scratch scratch --json --plot kv.html";
    let said = Ran::from(command(floor, home.path()).output().expect("the program runs")).ok();
    serde_json::from_str::<Value>(&said).expect("a JSON document");
    let html = std::fs::read_to_string(home.path().join("kv.html")).expect("a page");
    assert!(html.contains("The null program: what this machine allows"), "{html}");
}
