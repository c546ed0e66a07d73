//! The parts that need no cluster.

use super::curves::What;
use super::worth::{Ratio, goal};
use super::{growing, trace, worth};
use crate::bench::figure::FigureArgs;
use crate::bench::figure::closed::{self, CLIENTS, Kind, Load, floor_text, listed};
use crate::bench::median::Median;
use crate::bench::report::FloorRun;
use clap::Parser;
use quorate_command::ordering::OrderArgs;
use quorate_order::{Feature, Protocol};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: FigureArgs,
}

fn args(line: &str) -> FigureArgs {
    let words = ["figure", "visigoth-4"].into_iter().chain(line.split_whitespace());
    Line::try_parse_from(words).expect("a command line").args
}

/// Replicas, quorum, and the kind's name.
fn sizes(kinds: &[Kind]) -> Vec<(u16, u32, String)> {
    let size = |kind: &Kind| {
        let shown = kind.shown();
        (shown.replicas, shown.quorum, shown.fault_model)
    };
    kinds.iter().map(size).collect()
}

#[test]
fn clusters_have_as_many_replicas_as_their_faults_need() {
    let three = [
        (7, 4, "crash"),
        (7, 4, "crash"),
        (10, 7, "byzantine"),
        (5, 4, "visigoth u=3,s=1,o=0,t=50"),
        (6, 5, "visigoth u=3,s=1,o=1,t=50"),
    ];
    let three = three.map(|(replicas, quorum, name)| (replicas, quorum, name.to_owned()));
    assert_eq!(sizes(&worth::kinds(3, 50)), three);
    assert_eq!(sizes(&What::SameFaults.kinds(3, 50)), three);
    let one = worth::kinds(1, 50);
    assert_eq!(sizes(&one[3..])[1], (4, 3, "visigoth u=1,s=1,o=1".into()), "nothing is known of time there");
    assert!(one.iter().all(|kind| kind.refusal().is_none() && kind.shown().oracle.is_none()));
    let six = What::SixReplicas.kinds(0, 20);
    assert_eq!(
        sizes(&six).iter().map(|(replicas, quorum, _)| (*replicas, *quorum)).collect::<Vec<_>>(),
        [(6, 5), (6, 5), (6, 5), (6, 4), (6, 4)]
    );
    let trace: Vec<u16> = trace::kinds(50).iter().map(|kind| kind.replicas).collect();
    assert_eq!(trace, [7, 5, 4]);
}

#[test]
fn a_kind_is_what_the_command_line_would_say() {
    let few = Kind::visigoth(2, 1, 0, 50);
    let shown = few.shown();
    assert!(shown.oracle.is_some_and(|oracle| oracle.contains("3 processes")) && shown.refused.is_none());
    let base = args("--durability memory").measurement();
    let own = few.measurement(&base);
    assert_eq!((own.replicas(), own.durability()), (4, base.durability()));
    let choice = own.order.choice().expect("a choice");
    assert_eq!((choice.fault_model, choice.protocol), (few.model, Feature::CountOnFast.protocol()));
    let crash = Kind::crash(2, Feature::CountOnFast.protocol()).measurement(&base);
    assert_eq!(
        crash.order.choice().map(|choice| choice.protocol).ok(),
        Some(Feature::CountOnFast.protocol())
    );
    assert!(OrderArgs::surviving_by(Kind::byzantine(1).model, Protocol::default()).choice().is_err());
}

#[test]
fn what_is_refused_is_a_line_with_the_reason() {
    let refused = Kind { protocol: Protocol::default(), ..Kind::byzantine(1) };
    let why = refused.refusal().expect("raft survives no lies");
    assert!(why.starts_with("refused by this program: ") && why.contains("--protocol"), "{why}");
    assert_eq!(refused.shown().legend(), "byzantine (refused)");
    // Nothing is started for it.
    let loads = [Load::commands(1, 0)];
    let measured = closed::measure(&args("").how(), vec![refused], &loads).expect("nothing to do");
    let curve = measured[0].curve(&loads).expect("a line");
    assert!(
        curve.is_valid() && curve.trouble().is_none() && curve.points.is_empty() && curve.check.is_none()
    );
    let line = curve.refusal().expect("a reason");
    assert_eq!(line, format!("byzantine, raft, 4 replicas: {why}"));
    assert!(measured[0].times(&measured[0], 0).is_none());
}

#[test]
fn goals_are_those_for_three_faults() {
    assert_eq!([0, 1023, 1024].map(|bytes| goal(3, bytes, true)), [Some(1.8); 3]);
    assert_eq!([0, 1023, 1024].map(|bytes| goal(3, bytes, false)), [Some(1.0), Some(1.0), Some(1.25)]);
    assert_eq!((goal(2, 0, true), goal(1, 1024, false)), (None, None));
    let ratio = |times: Option<f64>| Ratio {
        faults: 3,
        request_bytes: 1024,
        of: "few".into(),
        beside: "many".into(),
        times: times.and_then(|times| Median::of(vec![times])),
        times_each: Median::of(vec![2.0]),
        goal: goal(3, 1024, true),
    };
    let text = |times| ratio(Some(times)).text().expect("a line");
    assert!(text(1.8).contains("few: 1.800 times") && text(1.8).contains("of many (goal 1.8: reached);"));
    assert!(text(1.8).ends_with("if each replica had a core, 2.000 times the requests for each"));
    assert!(text(1.79).contains("(goal 1.8: MISSED);"));
    assert_eq!(ratio(None).text(), None);
}

#[test]
fn loads_grow_with_the_largest_request() {
    let args = args("--clients 1,8,2 --request-bytes 16,0");
    let load = Load::commands;
    assert_eq!(growing(&args), [load(1, 16), load(8, 16), load(2, 16)]);
    assert_eq!((args.closed.clients_most(), listed(&args.closed.clients(&CLIENTS))), (8, "1, 8, 2".into()));
    let loads = [load(1, 0), load(8, 0), load(2, 0), load(4, 1024)];
    assert_eq!(closed::floors(&loads), [load(8, 0), load(4, 1024)], "the null program beside the most");
}

#[test]
fn the_null_program_is_a_median_too() {
    let run = |per_s| FloorRun {
        fault_model: "crash".into(),
        replicas: 5,
        in_flight: None,
        window: 8,
        callers: None,
        batch_bytes: 1 << 20,
        seconds: 1.0,
        per_s,
        p50_us: 10.0,
        p99_us: 20.0,
        per_replica_cpu_s: (per_s > 2.0).then_some(100.0),
        replicas_agree: per_s < 9.0,
    };
    let load = Load::commands(8, 0);
    let runs = [run(1.0), run(3.0), run(2.0)];
    let floor = closed::null(&runs.iter().collect::<Vec<_>>(), load).expect("runs");
    assert_eq!((floor.per_s.median, floor.per_replica_cpu_s.map(|per| per.of)), (2.0, Some(1)));
    assert!(
        floor_text(&floor).contains("commands of 16 B, 8 outstanding: 2.00 [1.00, 3.00]/s"),
        "{}",
        floor_text(&floor)
    );
    assert!(closed::null(&[], load).is_none());
    let wrong = closed::null(&[&run(9.0)], load).expect("a run");
    assert!(floor_text(&wrong).ends_with("NOT VALID: its replicas disagree"));
}

#[test]
fn small_quorums_are_seen_in_a_status() {
    let status = |small: &str| format!("{{\"instances\":{{\"each\":[{{\"id\":1}},{{\"id\":2{small}}}]}}}}");
    assert!(trace::uses_small_quorums(&status(",\"small_quorums\":{\"for_ms\":3}")));
    for none in [status(""), status(",\"small_quorums\":null"), "{}".into(), "no status".into()] {
        assert!(!trace::uses_small_quorums(&none), "{none}");
    }
}
