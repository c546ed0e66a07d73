//! The evaluation of BFT-SMaRt, as short as it can be: each table and figure has all its clusters and loads, and the paper's numbers beside them.

use crate::harness::{Ran, program};
use serde_json::Value;
use std::fs;

fn bench(home: &std::path::Path, words: &str) -> Ran {
    let all = format!("bench {words} --out drawn --scratch scratch");
    program().args(all.split_whitespace()).current_dir(home).output().expect("the program runs").into()
}

/// Runs a table or a figure. Gives what it says, its page and its numbers.
fn drawn(what: &str, name: &str, more: &str) -> (String, String, Value) {
    let home = tempfile::tempdir().expect("a directory");
    let short = "--durability memory --rounds 1 --secs 0.2 --warm 0.05 --shared --plain";
    let said = bench(home.path(), &format!("{what} {name} {short} {more}")).ok();
    let read = |end: &str| {
        fs::read_to_string(home.path().join(format!("drawn/{name}.{end}"))).expect("what was drawn")
    };
    let left = fs::read_dir(home.path().join("scratch")).expect("a directory").count();
    assert_eq!(left, 0, "nothing is left of the clusters");
    let (html, document): (String, Value) =
        (read("html"), serde_json::from_str(&read("json")).expect("JSON"));
    assert_eq!((&document["valid"], &document["figure"]), (&true.into(), &name.into()), "{said}");
    for part in [
        "DI-FCUL-TR-2013-07",
        "Here one machine has everything",
        "machine: ",
        "durability memory, without TLS",
    ] {
        assert!(said.contains(part) && html.contains(part.trim()), "`{part}` is missing in: {said}");
    }
    assert!(!html.contains("NaN") && !html.contains("<script"), "{html}");
    for curve in list(&document["curves"]) {
        for point in list(&curve["points"]) {
            assert!(point["per_s"]["low"].as_f64() > Some(0.0) && point["per_s"]["of"] == 1, "{point}");
        }
    }
    (said, html, document)
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().expect("a list")
}

/// Fault model, protocol and replicas of each cluster, and how many loads it had.
fn clusters(document: &Value) -> Vec<String> {
    let of = |curve: &Value| {
        let word = |key: &str| curve[key].as_str().unwrap_or("none").to_owned();
        format!(
            "{} {} {}: {}",
            word("fault_model"),
            word("protocol"),
            curve["replicas"],
            list(&curve["points"]).len()
        )
    };
    list(&document["curves"]).iter().map(of).collect()
}

#[test]
fn nine_payloads_stand_beside_the_papers() {
    let (said, html, document) = drawn("table", "bft-smart-1", "--clients 8");
    assert_eq!(clusters(&document), ["byzantine mod-smart 4: 9"]);
    let cells = list(&document["cells"]);
    let numbers: Vec<_> = cells.iter().map(|cell| cell["paper_per_s"].as_f64().expect("a number")).collect();
    let paper = [83_337, 75_138, 37_320, 78_711, 72_879, 36_948, 16_309, 16_284, 15_878];
    assert_eq!(numbers, paper.map(f64::from));
    assert_eq!(cells[0]["share"]["median"], 1.0);
    for cell in cells {
        assert!(cell["floor_per_s"]["median"].as_f64() > Some(0.0), "{cell}");
        let shown = format!("{}/{}", cell["request_bytes"], cell["reply_bytes"]);
        assert!(
            said.contains(&shown) && html.contains(&format!("{shown} B")),
            "{shown} is missing in {said}"
        );
    }
    assert!(
        said.contains("0.20 of the rate of 0/0") && said.contains("null program (byzantine faults"),
        "{said}"
    );
    assert_eq!((html.matches("<figure>").count(), list(&document["shapes"]).len()), (2, 1));
}

#[test]
fn peaks_and_two_hundred_clients_stand_beside_the_papers() {
    let (said, html, document) = drawn("table", "bft-smart-2", "--clients 2,200 --no-floor");
    assert_eq!(clusters(&document), ["byzantine mod-smart 4: 2", "crash mod-smart 3: 2", "crash raft 3: 2"]);
    for peak in list(&document["peaks"]) {
        assert!(peak["per_s"]["median"].as_f64() >= peak["per_s_with_200"]["median"].as_f64(), "{peak}");
    }
    assert!(document["crash_beside_byzantine"]["median"].as_f64() > Some(0.0));
    for part in ["BFT-SMaRt", "CFT-SMaRt", "PBFT", "UpRight", "JPaxos", "90909 with 600 clients"] {
        assert!(said.contains(part) && html.contains(part), "`{part}` is missing in: {said}");
    }
    assert!(said.contains("the null program was not run"), "{said}");
}

#[test]
fn latency_throughput_and_mixes_are_drawn_for_crashes_and_lies() {
    let both =
        |loads: usize| [format!("byzantine mod-smart 4: {loads}"), format!("crash mod-smart 3: {loads}")];
    let (said, html, document) = drawn("figure", "bft-smart-4", "--clients 2,8 --no-floor");
    assert_eq!(clusters(&document), both(8));
    assert_eq!((html.matches("<figure>").count(), list(&document["crash_beside_byzantine"]).len()), (4, 8));
    assert!(said.contains("4096/4096") && said.contains("the crash mode is faster"), "{said}");

    let (said, html, document) = drawn("figure", "bft-smart-6", "--clients 8 --reads 0,50,100 --no-floor");
    assert_eq!(clusters(&document), both(6));
    let reads = list(&document["curves"][0]["points"]).iter().map(|point| point["reads_percent"].as_u64());
    assert_eq!(reads.collect::<Vec<_>>(), [0, 50, 100, 0, 50, 100].map(Some));
    assert_eq!((html.matches("<figure>").count(), list(&document["shapes"]).len()), (2, 3));
    assert!(said.contains("75 % reads") && said.contains("or the read is ordered like a command"), "{said}");
}

#[test]
fn faults_and_threads_are_compared() {
    let (said, html, document) =
        drawn("figure", "bft-smart-5", "--clients 8 --faults 1,2 --payloads 0/0,1024/1024 --no-floor");
    let expected = [
        "byzantine mod-smart 4: 2",
        "crash mod-smart 3: 2",
        "byzantine mod-smart 7: 2",
        "crash mod-smart 5: 2",
    ];
    assert_eq!(clusters(&document), expected);
    assert_eq!((list(&document["shares"]).len(), list(&document["crash_beside_byzantine"]).len()), (4, 4));
    assert_eq!((html.matches("<figure>").count(), list(&document["shapes"]).len()), (2, 3));
    assert!(said.contains("2 faults have these shares"), "{said}");

    let (said, html, document) = drawn("figure", "bft-smart-7", "--clients 8 --threads 2,0 --no-floor");
    let signed: Vec<_> =
        list(&document["curves"]).iter().map(|curve| curve["signed_workers"].as_u64()).collect();
    assert_eq!(signed, [None, Some(0), Some(2)]);
    for curve in &list(&document["curves"])[1..] {
        assert!(curve["signatures"]["checks_per_request"].as_f64() >= Some(1.0), "{curve}");
    }
    assert_eq!((list(&document["speedups"]).len(), html.matches("<figure>").count()), (2, 1));
    assert!(said.contains("RSA of 1024 bits") && said.contains("one core checks"), "{said}");
}

#[test]
fn what_can_not_be_is_refused_before_anything_is_measured() {
    let home = tempfile::tempdir().expect("a directory");
    for (words, why) in [
        ("table bft-smart-1 --payloads 0", "as in 0/1024"),
        ("table bft-smart-2 --clients 0", "--clients is a list"),
        ("figure bft-smart-4 --payloads 0/262145", "each up to 262144"),
        ("figure bft-smart-5 --faults 4", "--faults is a list"),
        ("figure bft-smart-6 --reads 101", "--reads"),
        ("figure bft-smart-6 --record-bytes 262145", "--record-bytes is a list"),
        ("figure bft-smart-7 --threads 65", "--threads"),
    ] {
        bench(home.path(), words).fails(2, &[why]);
    }
    assert!(!home.path().join("scratch").exists(), "nothing was measured");
}

/// Times are those of the paper divided by 40, so it takes 15 seconds.
#[test]
fn a_trace_marks_what_happens_to_the_members() {
    let home = tempfile::tempdir().expect("a directory");
    let trace =
        |more: &str| bench(home.path(), &format!("figure bft-smart-8 --rounds 1 --plain --no-floor {more}"));
    trace("--durability memory")
        .fails(2, &["a replica that was killed does not come back: say group or async"]);
    trace("--divide 61").fails(2, &["--divide is 1 to 60"]);
    let said = trace("--durability async --divide 40 --clients 4 --shared").ok();
    let read = |end: &str| {
        fs::read_to_string(home.path().join(format!("drawn/bft-smart-8.{end}"))).expect("what was drawn")
    };
    assert_eq!(fs::read_dir(home.path().join("scratch")).expect("a directory").count(), 0, "nothing is left");
    let (html, document): (String, Value) =
        (read("html"), serde_json::from_str(&read("json")).expect("JSON"));
    assert_eq!(
        (&document["valid"], &document["replicas"], &document["lie"]),
        (&true.into(), &4.into(), &Value::Null)
    );
    assert_eq!((document["paper_gap_s"].as_f64(), document["goal_gap_s"].as_f64()), (Some(20.0), Some(1.0)));
    let run = &document["runs"][0];
    let at = |what: &str, key: &str| run[what][key].as_f64().expect("a number");
    let mut last = 0.0;
    for (what, key) in [
        ("joined", "from_s"),
        ("joined", "to_s"),
        ("crashed", "from_s"),
        ("returned", "from_s"),
        ("removed", "from_s"),
        ("removed", "to_s"),
    ] {
        assert!(at(what, key) > last, "{what} {key} comes later: {run}");
        last = at(what, key);
    }
    assert_eq!(run["joined"]["replica"], 5, "a new id");
    assert_eq!(run["crashed"]["replica"], run["returned"]["replica"]);
    assert!(
        run["removed"]["replica"] != run["crashed"]["replica"] && at("removed", "replica") < 5.0,
        "{run}"
    );
    assert!(at("crashed", "silence_s") > 0.0 && at("crashed", "silence_s") < 20.0, "{run}");
    for part in [
        "joins",
        "crashes",
        "is back",
        "is removed",
        "nobody answered for",
        "twice its time-out",
        "every answer was right",
        "machine: ",
    ] {
        assert!(said.contains(part), "`{part}` is missing in: {said}");
    }
    assert!(
        html.contains("r5 joins (") && html.contains("what happened") && !html.contains("<script"),
        "{html}"
    );
    assert_eq!(run["bins"].as_array().map(Vec::len), Some(150));
}
