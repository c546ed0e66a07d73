//! `quorate bench figure` with real processes, as short as it can be.

use crate::harness::{program, quorate};
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
        crate::harness::Ran::from(
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
fn a_replica_that_was_away_is_seen_to_catch_up() {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = "bench figure catchup --state-bytes 16MiB --callers 4 --secs 15 --warm 0.1 --transfer-rates 0 \
                     --out drawn --scratch scratch";
    let ran = program().args(arguments.split_whitespace()).current_dir(directory.path()).output();
    let said = crate::harness::Ran::from(ran.expect("the program runs")).ok();
    assert!(said.contains("no limit") && said.contains("one after the other with a sync"), "{said}");
    let json = fs::read_to_string(directory.path().join("drawn/catchup.json")).expect("the numbers");
    let document: Value = serde_json::from_str(&json).expect("JSON");
    let run = &document["runs"][0];
    let (returned, caught_up) = (run["returned_s"].as_f64(), run["caught_up_s"].as_f64());
    assert!(returned >= Some(4.0) && caught_up > returned, "{run}");
    assert!(run["fetched_bytes"].as_u64() > Some(1 << 20), "the log behind the state is gone: {run}");
    assert!(document["disk_bytes_per_s"].as_f64() > Some(0.0));
    quorate(&["bench", "figure", "catchup", "--state-bytes", "1MiB"]).fails(2, &["16MiB to 1TiB"]);
}

#[test]
fn rates_are_raised_until_a_cluster_has_enough() {
    let directory = tempfile::tempdir().expect("a directory");
    let niagara = |arguments: &str| {
        let all = format!("bench figure {arguments} --out drawn --scratch scratch");
        let ran = program().args(all.split_whitespace()).current_dir(directory.path()).output();
        crate::harness::Ran::from(ran.expect("the program runs"))
    };
    niagara("niagara-3 --instances 0").fails(2, &["--instances is a list"]);
    niagara("niagara-3 --quota 2").fails(2, &["--quota is 5 to 100"]);
    niagara("niagara-4 --command-bytes 17").fails(2, &["a multiple of 8"]);
    let said = niagara(
        "niagara-3 --durability memory --instances 1,2 --quota 0 --secs 0.3 --warm 0.1 --rounds 2 --rate-first 1000000",
    )
    .ok();
    assert!(said.contains("as much of the cores as there is") && said.contains("TLS"), "{said}");
    let json = fs::read_to_string(directory.path().join("drawn/niagara-3.json")).expect("the numbers");
    let document: Value = serde_json::from_str(&json).expect("JSON");
    let curves = document["curves"].as_array().expect("a list");
    let shapes: Vec<_> = curves.iter().map(|of| (of["instances"].as_u64(), of["lanes"].as_u64())).collect();
    assert_eq!(shapes, [(Some(1), Some(1)), (Some(2), Some(3))]);
    for curve in curves {
        let last = curve["points"].as_array().and_then(|points| points.last()).expect("a point");
        let (asked, answered) = (last["requested_per_s"].as_f64(), last["provided_per_s"]["median"].as_f64());
        assert!(answered < asked && curve["most_per_s"]["low"].as_f64() > Some(0.0), "{curve}");
        assert_eq!(curve["most_per_s"]["of"], 2, "each round counts: {curve}");
    }
    niagara("niagara-4 --durability memory --instances 2 --curve lanes --quota 0 --secs 0.2 --warm 0 --rounds 1 --rate-first 9000000")
        .ok();
    let json = fs::read_to_string(directory.path().join("drawn/niagara-4.json")).expect("the numbers");
    let document: Value = serde_json::from_str(&json).expect("JSON");
    let curve = &document["curves"][0];
    assert_eq!(
        (&document["by"], &curve["instances"], &curve["lanes"]),
        (&"lanes".into(), &1.into(), &2.into())
    );
    let left = fs::read_dir(directory.path().join("scratch")).expect("a directory").count();
    assert_eq!(left, 0, "nothing is left of the clusters");
}

#[test]
fn instances_are_compared_with_a_lane_for_each_step_and_one_for_all() {
    let directory = tempfile::tempdir().expect("a directory");
    let cop = |arguments: &str| {
        let all = format!("bench figure cop {arguments} --out drawn --scratch scratch");
        let ran = program().args(all.split_whitespace()).current_dir(directory.path()).output();
        crate::harness::Ran::from(ran.expect("the program runs"))
    };
    cop("--pillars main").fails(2, &["leave out --pillars"]);
    cop("--quota 100 --instances 32").fails(2, &["need 132.00 cores", "--instances"]);
    let said = cop("--durability memory --instances 2 --quota 0 --secs 0.3 --warm 0.1 --rounds 2").ok();
    assert!(said.contains("null program (byzantine faults") && said.contains("CPU us per request"), "{said}");
    let html = fs::read_to_string(directory.path().join("drawn/cop.html")).expect("the page");
    assert_eq!(html.matches("<figure>").count(), 4, "two charts for each kind of faults");
    let json = fs::read_to_string(directory.path().join("drawn/cop.json")).expect("the numbers");
    let document: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(document["valid"], true);
    let parts = document["parts"].as_array().expect("a list");
    let replicas: Vec<_> =
        parts.iter().map(|part| (part["protocol"].as_str(), part["replicas"].as_u64())).collect();
    assert_eq!(replicas, [(Some("mod-smart"), Some(4)), (Some("raft"), Some(3))]);
    for points in parts.iter().map(|part| part["points"].as_array().expect("a list")) {
        let shape =
            |point: &Value| (point["way"].clone(), point["instances"].as_u64(), point["lanes"].as_u64());
        let shapes: Vec<_> = points.iter().map(shape).collect();
        let expected = [("pillars", 2, 3), ("staged", 1, 3), ("one-lane", 2, 1)];
        assert_eq!(shapes, expected.map(|(way, of, lanes)| (way.into(), Some(of), Some(lanes))));
        for point in points {
            let (per_s, cpu_us) = (&point["requests_per_s"], &point["cpu_us_per_request"]);
            assert!(per_s["low"].as_f64() > Some(0.0) && cpu_us["low"].as_f64() > Some(0.0), "{point}");
            assert!(per_s["low"].as_f64() <= per_s["median"].as_f64() && per_s["of"] == 2, "{point}");
        }
    }
    let left = fs::read_dir(directory.path().join("scratch")).expect("a directory").count();
    assert_eq!(left, 0, "nothing is left of the clusters");
}

#[test]
fn a_figure_is_measured_and_drawn() {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = "bench figure dfc --state-bytes 1MiB --callers 5 --secs 0.5 --warm 0.1 --modes none,differential \
                     --out drawn --scratch scratch --sync-delay-us 1000";
    let ran = program().args(arguments.split_whitespace()).current_dir(directory.path()).output();
    let said = crate::harness::Ran::from(ran.expect("the program runs")).ok();
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
    assert_eq!(html.matches("<figure>").count(), 2);
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

#[test]
fn links_are_limited_where_the_machine_can_or_it_says_what_is_missing() {
    let directory = tempfile::tempdir().expect("a directory");
    let niagara = |arguments: &str, path: Option<&str>| {
        let mut command = program();
        path.map(|path| command.env("PATH", path));
        let all = format!("bench figure niagara-5 {arguments} --out drawn --scratch scratch");
        let ran = command.args(all.split_whitespace()).current_dir(directory.path()).output();
        crate::harness::Ran::from(ran.expect("the program runs"))
    };
    niagara("--links 0", None).fails(2, &["--links is a list of numbers from 1 to 16"]);
    niagara("--link-mbit 0", None).fails(2, &["--link-mbit is 1 to 100000"]);
    niagara("", Some("/nowhere"))
        .fails(1, &["there is no `unshare` here", "this figure limits links: run it as root"]);
    let ran = niagara("--durability memory --links 2 --link-mbit 50 --callers 4 --secs 0.5 --warm 0.2", None);
    if ran.code != Some(0) {
        // Where namespaces and limits are not to be had.
        ran.fails(1, &["this figure limits links: run it as root"]);
        quorate_skipped::skipped("network namespaces and limits of links are not to be had here");
        return;
    }
    let json = fs::read_to_string(directory.path().join("drawn/niagara-5.json")).expect("the numbers");
    let document: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&document["valid"], &document["link_mbit"]), (&Value::Bool(true), &Value::from(50)));
    for (way, shape) in [("one_instance", (2, 1, 1)), ("one_per_link", (2, 2, 3))] {
        let point = &document[way][0];
        let number = |key: &str| point[key].as_u64();
        assert_eq!(
            (number("links"), number("instances"), number("lanes")),
            (Some(shape.0), Some(shape.1), Some(shape.2))
        );
        assert!(point["reads_per_s"].as_f64() > Some(0.0), "{point}");
        let writes = point["writes_per_s"].as_f64().expect("a rate");
        assert!(writes > 0.0, "{point}");
    }
}

/// Runs a figure of few members, as short as it can be, and reads its page and its numbers.
fn few(figure: &str, more: &str) -> (String, String, Value) {
    let directory = tempfile::tempdir().expect("a directory");
    let all =
        format!("bench figure {figure} --durability memory --rounds 1 --out drawn --scratch scratch {more}");
    let ran = program().args(all.split_whitespace()).current_dir(directory.path()).output();
    let said = crate::harness::Ran::from(ran.expect("the program runs")).ok();
    let read = |end: &str| {
        fs::read_to_string(directory.path().join(format!("drawn/{figure}.{end}"))).expect("what was drawn")
    };
    let left = fs::read_dir(directory.path().join("scratch")).expect("a directory").count();
    assert_eq!(left, 0, "nothing is left of the clusters");
    let document: Value = serde_json::from_str(&read("json")).expect("JSON");
    assert_eq!((&document["valid"], &document["tls"]), (&Value::Bool(true), &Value::Bool(true)), "{said}");
    (said, read("html"), document)
}

/// The clusters of a figure: fault model, protocol, replicas, and whether something was measured. What was not says why.
fn clusters(curves: &Value, measured: &str) -> Vec<(String, String, u64, bool)> {
    let text = |value: &Value| value.as_str().expect("a word").to_owned();
    let of = |curve: &Value| {
        let is_measured = curve[measured].as_array().is_some_and(|some| !some.is_empty());
        assert_eq!(curve["refused"].is_null(), is_measured, "{curve}");
        let replicas = curve["replicas"].as_u64().expect("a number");
        (text(&curve["fault_model"]), text(&curve["protocol"]), replicas, is_measured)
    };
    curves.as_array().expect("a list").iter().map(of).collect()
}

#[test]
fn figures_of_few_members_refuse_what_can_not_be() {
    let figure = |name: &str, more: &str| {
        let directory = tempfile::tempdir().expect("a directory");
        let all = format!("bench figure {name} {more}");
        let ran = program().args(all.split_whitespace()).current_dir(directory.path()).output();
        crate::harness::Ran::from(ran.expect("the program runs"))
    };
    figure("visigoth-3", "--faults 0").fails(2, &["--faults is a list of numbers from 1 to 3"]);
    figure("visigoth-3", "--faults 4").fails(2, &["--faults is a list of numbers from 1 to 3"]);
    figure("visigoth-3", "--request-bytes 262145").fails(2, &["--request-bytes is a list"]);
    figure("visigoth-4", "--clients 0").fails(2, &["--clients is a list of numbers from 1 to 10000"]);
    figure("visigoth-5", "--t-ms 0").fails(2, &["--t-ms is 1 to 149"]);
    figure("visigoth-5", "--t-ms 150").fails(2, &["--t-ms is 1 to 149"]);
    figure("visigoth-6", "--divide 0.5").fails(2, &["--divide is 1 to 60"]);
    figure("visigoth-6", "--divide nan").fails(2, &["--divide is 1 to 60"]);
    figure("visigoth-6", "--rounds 9").fails(2, &["--rounds"]);
}

#[test]
fn a_replica_has_a_worth_by_the_number_of_faults() {
    let more = "--faults 1,2 --clients 4 --request-bytes 0,64 --secs 0.3 --warm 0.1";
    let (said, html, document) = few("visigoth-3", more);
    assert!(
        said.contains("the paper") && said.contains("times the requests per replica CPU second of byzantine"),
        "{said}"
    );
    assert!(said.contains("null program (visigoth u=2,s=1,o=0,t=50 faults, 4 replicas"), "{said}");
    assert!(
        html.matches("<figure>").count() == 4 && html.contains("if each had a core"),
        "two charts for each size"
    );
    let of = clusters(&document["curves"], "points");
    let sizes: Vec<u64> = of.iter().map(|(_, _, replicas, _)| *replicas).collect();
    assert_eq!(sizes, [3, 3, 4, 3, 4, 5, 5, 7, 4, 5]);
    assert!(of[..9].iter().all(|(_, _, _, measured)| *measured), "{of:?}");
    for curve in document["curves"].as_array().expect("a list") {
        for point in curve["points"].as_array().expect("a list") {
            let (per_s, each) = (&point["per_s"]["median"], &point["per_s_and_replica"]["median"]);
            let replicas = curve["replicas"].as_f64().expect("a number");
            let each = each.as_f64().expect("a rate") * replicas;
            assert!(per_s.as_f64().is_some_and(|per_s| per_s > 0.0 && (each / per_s - 1.0).abs() < 1e-6));
            let oracle = point["oracle_cores"]["median"].as_f64();
            assert_eq!(oracle.is_some(), curve["oracle"].is_string(), "an oracle is counted apart: {curve}");
        }
        let measured = curve["points"].as_array().map_or(0, Vec::len);
        assert_eq!(curve["floors"].as_array().map(Vec::len), Some(measured), "one for each size");
    }
    let ratios = document["ratios"].as_array().expect("a list");
    assert_eq!(ratios.len(), 2 * 2 * 2 * 3, "sizes, faults, kinds with few slow ones, and the others");
}

#[test]
fn latency_grows_with_the_clients() {
    let more = "--faults 2 --clients 1,4 --request-bytes 64 --secs 0.3 --warm 0.1 --shared --no-floor";
    let (said, html, document) = few("visigoth-4", more);
    assert!(said.contains("which share connections") && said.contains("latencies are alike"), "{said}");
    assert_eq!((html.matches("<figure>").count(), &document["faults"]), (2, &2.into()));
    let of = clusters(&document["curves"], "points");
    let shown = |(model, protocol, replicas, _): &(String, String, u64, bool)| {
        format!("{model} {protocol} {replicas}")
    };
    let shown: Vec<String> = of.iter().map(shown).collect();
    let expected = [
        "crash raft 5",
        "crash mod-smart 5",
        "byzantine mod-smart 7",
        "visigoth u=2,s=1,o=0,t=50 mod-smart 4",
        "visigoth u=2,s=1,o=1,t=50 mod-smart 5",
    ];
    assert_eq!(shown, expected);
    for point in document["curves"][3]["points"].as_array().expect("a list") {
        assert!(point["mean_ms"]["median"].as_f64() > Some(0.0) && point["p99_ms"]["of"] == 1, "{point}");
    }
    let counts = |at: usize| document["curves"][at]["points"][1]["clients"].clone();
    assert_eq!([counts(0), counts(3)], [4, 4]);
}

#[test]
fn six_replicas_are_compared_by_their_numbers() {
    let (said, html, document) = few("visigoth-5", "--clients 4 --secs 0.3 --warm 0.1 --t-ms 120 --no-floor");
    assert!(said.contains("u for o has almost no effect") && html.contains("u=4,s=1,o=0"), "{said}");
    let of = clusters(&document["curves"], "points");
    assert!(of.len() == 5 && of.iter().all(|(_, _, replicas, _)| *replicas == 6), "{of:?}");
    assert!(of[0].3 && of[3].3 && of[4].3, "without lies, and where nothing is known of time: {of:?}");
    for curve in
        document["curves"].as_array().expect("a list").iter().filter(|curve| !curve["refused"].is_null())
    {
        let why = curve["refused"].as_str().expect("a reason");
        assert!(why.starts_with("refused by this program: ") && said.contains(why), "{said}");
        assert!(html.contains("(refused)"));
    }
}

#[test]
fn throughput_is_traced_over_a_crash_and_a_sleep() {
    let (said, html, document) = few("visigoth-6", "--clients 4 --request-bytes 64 --divide 25 --no-floor");
    assert!(said.contains("small quorums were in use from"), "two of four go on by a grant: {said}");
    assert!(html.contains("crash, sleep") && said.contains("nobody notices the crash"), "{said}");
    let of = clusters(&document["traces"], "runs");
    assert_eq!(of.iter().map(|(_, _, replicas, _)| *replicas).collect::<Vec<_>>(), [7, 5, 4]);
    for run in [&document["traces"][0]["runs"][0], &document["traces"][2]["runs"][0]] {
        let at = |key: &str| run[key].as_f64().expect("a moment");
        assert!(at("crash_s") < at("sleep_s") && at("sleep_s") < at("wake_s"), "{run}");
        assert!(run["crashed"] != run["slept"] && run["per_s_asleep"].as_f64() > Some(0.0), "{run}");
        assert_eq!(run["bins"].as_array().map(Vec::len), Some(96));
    }
}

#[test]
fn an_oracle_is_started_beside_few_members_and_counted_apart() {
    let directory = tempfile::tempdir().expect("a directory");
    let model = "--fault-model visigoth --faults u=2,s=1,o=0,t=120 --durability memory --secs 0.3 --warm 0.1 --no-floor";
    let bench = |name: &str| {
        let all = format!("bench {name} {model} --scratch scratch");
        let ran = program().args(all.split_whitespace()).current_dir(directory.path()).output();
        crate::harness::Ran::from(ran.expect("the program runs")).ok()
    };
    let said = bench("bft --clients 4");
    assert!(
        said.contains("oracle, beside the replicas: 3 processes of this program")
            && said.contains("4 replicas"),
        "{said}"
    );
    let document: Value = serde_json::from_str(&bench("kv --json --callers 4")).expect("JSON");
    let run = &document["runs"][0];
    assert!(run["oracle_cpu"]["user_s"].is_number(), "{run}");
    assert_eq!((run["replicas"].as_array().map(Vec::len), &document["valid"]), (Some(4), &true.into()));
    let left = fs::read_dir(directory.path().join("scratch")).expect("a directory").count();
    assert_eq!(left, 0, "nothing is left of the oracle, either");
}

#[test]
fn bugs_of_threads_are_counted_with_each_mixer() {
    let directory = tempfile::tempdir().expect("a directory");
    let eve = |arguments: &str| {
        let all = format!("bench figure eve-9 --durability memory --out drawn --scratch scratch {arguments}");
        let ran = program().args(all.split_whitespace()).current_dir(directory.path()).output();
        crate::harness::Ran::from(ran.expect("the program runs"))
    };
    eve("--requests 99").fails(2, &["--requests is 100 to 1000000000"]);
    eve("--t-ms 0").fails(2, &["--t-ms"]);
    let said = eve("--requests 20001 --secs 0.5 --warm 0.1 --rounds 1").ok();
    for part in ["group all", "original", "fullest object", "(73)", "(82 %)"] {
        assert!(said.contains(part), "`{part}` is missing in: {said}");
    }
    let read = |end: &str| {
        fs::read_to_string(directory.path().join(format!("drawn/eve-9.{end}"))).expect("what was drawn")
    };
    let html = read("html");
    assert!(html.contains("20100 requests in batches of 100, two replicas with 16 workers"), "{html}");
    let document: Value = serde_json::from_str(&read("json")).expect("JSON");
    assert_eq!((&document["valid"], &document["figure"]), (&Value::Bool(true), &"eve-9".into()), "{said}");
    let mixers = document["mixers"].as_array().expect("a list");
    assert_eq!(mixers.len(), 5);
    for of in mixers {
        let number = |key: &str| of[key].as_u64().expect("a number");
        assert_eq!(number("manifested"), number("masked") + number("identical"), "{of}");
        assert_eq!((number("batches"), of["per_s"]["of"].as_u64()), (201, Some(1)), "{of}");
        assert!(of["per_s"]["median"].as_f64() > Some(0.0), "{of}");
    }
    assert!(mixers[0]["manifested"].as_u64() > Some(0), "{}", mixers[0]);
    let original = &mixers[4];
    assert_eq!(original["manifested"], 0, "a right mixer lets nobody race: {original}");
    assert_eq!(original["beside_original"]["median"], 1.0);
    assert!((14.0..16.0).contains(&document["perfect"]["waves"].as_f64().expect("a number")));
    let left = fs::read_dir(directory.path().join("scratch")).expect("a directory").count();
    assert_eq!(left, 0, "nothing is left of the clusters");
}
