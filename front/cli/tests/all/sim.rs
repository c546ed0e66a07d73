//! `quorate sim`: campaigns, one seed, what is refused, and the repeat of a run.

use crate::harness::quorate;
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

#[test]
fn a_campaign_is_clean_and_says_so() {
    let summary = json(&quorate(&["sim", "--count", "5", "--json"]).ok());
    assert_eq!(summary["runs"], 5, "{summary}");
    assert_eq!(summary["failures"].as_array().map(Vec::len), Some(0), "{summary}");
    let ran = quorate(&["sim", "--first", "7", "--count", "2", "--jobs", "1"]);
    assert_eq!(ran.err, "", "no bar where there is no terminal");
    let text = ran.ok();
    assert!(
        text.starts_with("2 runs in ") && text.contains("seeds and") && text.contains("0 failures"),
        "{text}"
    );
}

#[test]
fn a_seed_gives_the_same_run_again() {
    let hash = |more: &[&str]| {
        let report = json(&quorate(&[&["sim", "--json"], more].concat()).ok());
        report["trace_hash"].as_str().expect("a hash").to_owned()
    };
    let once = hash(&["--seed", "5"]);
    assert_eq!(once, hash(&["--seed", "5"]));
    assert_ne!(once, hash(&["--seed", "6"]));
    assert_ne!(once, hash(&["--seed", "5", "--no-faults"]), "options change the run");
}

#[test]
fn runs_are_compared_with_what_was_recorded() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let file = home.path().join("before.hashes");
    let name = file.to_str().expect("UTF-8");
    let report = json(&quorate(&["sim", "--seed", "5", "--json"]).ok());
    let hash = report["trace_hash"].as_str().expect("a hash");
    let holds = |hash: &str| {
        let line = format!("{{\"kind\":\"\",\"first\":5,\"hashes\":[\"{hash}\"]}}\n");
        std::fs::write(&file, line).expect("it can be written");
    };
    holds(hash);
    assert!(quorate(&["sim", "--compare", name]).ok().starts_with("1 runs: 0 differ"));
    holds("0123456789abcdef");
    let ran = quorate(&["sim", "--compare", name]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains("1 of 1 differ: quorate sim --seed 5 --trace all"), "{}", ran.out);
    assert_eq!(json(&quorate(&["sim", "--compare", name, "--json"]).out)["kinds"][0]["seeds"][0], 5);
    std::fs::write(&file, "something else").expect("it can be written");
    quorate(&["sim", "--compare", name]).fails(1, &["before.hashes", "line 1"]);
    quorate(&["sim", "--record", name]).fails(1, &["before.hashes", "exists"]);
    quorate(&["sim", "--record", name, "--replicas", "3"]).fails(2, &["all kinds of clusters"]);
}

#[test]
fn one_seed_is_shown() {
    let events = quorate(&["sim", "--seed", "5", "--trace", "events"]).ok();
    let all = quorate(&["sim", "--seed", "5", "--trace", "all"]).ok();
    assert!(events.contains("Leader") && events.contains("seed 5: clean"), "{events}");
    assert!(all.lines().count() > events.lines().count());
    let home = tempfile::tempdir().expect("a temporary directory");
    let page = home.path().join("run.html");
    quorate(&["sim", "--seed", "5", "--html", page.to_str().expect("UTF-8")]).ok();
    assert!(std::fs::read_to_string(page).expect("the page").contains("<svg"));
}

#[test]
fn profiles_are_taken() {
    for durability in ["group", "async", "memory"] {
        let text = quorate(&["sim", "--seed", "3", "--replicas", "2", "--durability", durability]).ok();
        assert!(text.contains("2 replicas") && text.to_lowercase().contains(durability), "{text}");
    }
}

#[test]
fn members_change_with_mod_smart() {
    quorate(&["sim", "--seed", "5", "--protocol", "mod-smart", "--changes", "true"]).ok();
    quorate(&["sim", "--seed", "5", "--fault-model", "byzantine", "--changes", "true"]).ok();
    quorate(&["sim", "--protocol", "mod-smart", "--resizes", "true"]).fails(2, &["--resizes"]);
}

#[test]
fn an_interrupted_campaign_goes_on() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let log = home.path().join("sim.log");
    let log = log.to_str().expect("UTF-8");
    let runs =
        |count: &str| json(&quorate(&["sim", "--count", count, "--log", log, "--json"]).ok())["runs"].clone();
    assert_eq!(runs("3"), 3);
    assert_eq!(runs("5"), 2, "three are in the log");
}

#[test]
fn what_makes_no_sense_is_refused() {
    quorate(&["sim", "--sed", "5"]).fails(2, &["--sed", "--seed"]);
    quorate(&["sim", "--seed", "x"]).fails(2, &["--seed"]);
    quorate(&["sim", "--count", "0"]).fails(2, &["--count"]);
    quorate(&["sim", "--trace", "events"]).fails(2, &["--seed"]);
    quorate(&["sim", "--seed", "5", "--count", "3"]).fails(2, &["--count"]);
    quorate(&["sim", "--seed", "5", "--trace", "main"]).fails(2, &["events, all"]);
    quorate(&["sim", "--seed", "5", "--html", "/nowhere/run.html"]).fails(1, &["/nowhere/run.html"]);
    quorate(&["sim", "--count", "1", "--log", "/nowhere/sim.log"]).fails(1, &["/nowhere/sim.log"]);
}

#[test]
#[cfg(not(planted))]
fn planted_bugs_need_their_build() {
    quorate(&["sim", "--planted"]).fails(2, &["RUSTFLAGS=\"--cfg planted\"", "sim --planted"]);
    quorate(&["sim", "--plant", "duplicate-runs"]).fails(2, &["--cfg planted"]);
}

/// The only build in which a run is sure to fail.
#[test]
#[cfg(planted)]
fn a_failure_names_the_command_that_repeats_it() {
    let failing = ["sim", "--plant", "duplicate-runs", "--first", "1", "--count", "1"];
    let first = quorate(&failing);
    assert_eq!(first.code, Some(1), "{}", first.out);
    let line = first.out.lines().find_map(|line| line.trim().strip_prefix("see it again: quorate "));
    let words: Vec<&str> = line.expect("the command").split(' ').collect();
    assert_eq!(words, ["sim", "--seed", "1", "--plant", "duplicate-runs", "--trace", "events"]);
    let again = quorate(&words);
    assert_eq!(again.code, Some(1), "{}", again.out);
    assert!(again.out.contains("seed 1: once:"), "{}", again.out);
    quorate(&["sim", "--plant", "no-such-bug"]).fails(2, &["no-such-bug", "duplicate-runs"]);
}
