//! The parts that need no cluster.

use super::payloads::{Cell, paper, shapes};
use super::{
    Payload, PayloadArgs, Shape, above, all_of, below, byzantine, crash, mixes, payload, peaks, trace, words,
};
use crate::bench::bft::Mix;
use crate::bench::figure::FigureArgs;
use crate::bench::load::{Call, Work as _};
use crate::bench::median::Median;
use crate::bench::options::{Args, Command};
use clap::Parser;
use quorate_order::Feature;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: FigureArgs,
}

#[derive(Parser)]
struct Bench {
    #[command(flatten)]
    args: Args,
}

#[test]
fn sizes_are_read_as_the_paper_writes_them() {
    assert_eq!("0/1024".parse(), Ok(payload(0, 1024)));
    assert_eq!(" 262144/ 0".parse(), Ok(payload(262_144, 0)));
    for wrong in ["", "0", "0/", "/0", "0/262145", "1/2/3", "-1/0"] {
        let why = wrong.parse::<Payload>().expect_err(wrong);
        assert!(why.contains("as in 0/1024"), "{why}");
    }
    assert!(
        words(&[payload(0, 0), payload(100, 1024)]).starts_with("requests and replies of 0/0, 100/1024 B")
    );
    let of = |payloads| PayloadArgs { payloads };
    assert_eq!(of(vec![payload(1, 2)]).or(&[payload(0, 0)]), [payload(1, 2)]);
    assert_eq!(of(Vec::new()).or(&[payload(0, 0)]), [payload(0, 0)]);
}

#[test]
fn the_tables_are_commands_and_take_none_of_the_other_tables_options() {
    let parse = |line: &str| Bench::try_parse_from(line.split_whitespace());
    for name in ["bft-smart-1", "bft-smart-2"] {
        let bench = parse(&format!("bench table {name} --rounds 2 --clients 4,8 --json")).expect("a command");
        assert!(bench.args.json && matches!(bench.args.command, Command::Table(_)));
    }
    assert!(parse("bench table --rounds 2").is_ok() && parse("bench table --keys-many bft-smart-1").is_err());
    assert!(parse("bench table bft-smart-3").is_err());
}

#[test]
fn clusters_are_those_of_the_paper() {
    let sizes = [1, 2, 3].map(|faults| (byzantine(faults).replicas, crash(faults).replicas));
    assert_eq!(sizes, [(4, 3), (7, 5), (10, 7)]);
    assert!(crash(1).protocol == Feature::SurviveLies.protocol() && crash(1).refusal().is_none());
    let signed = byzantine(1).signed(2);
    assert!(signed.refusal().is_none() && signed.shown().name().ends_with("signed, 2 workers"));
    let settings = signed.settings();
    assert_eq!(settings, [("", "workers", toml::Value::Integer(2))]);
    assert!(byzantine(1).signed(0).settings().is_empty() && byzantine(1).settings().is_empty());
    let why = crash(1).signed(1).refusal().expect("nobody signs there");
    assert!(why.contains("leave --authentication out"), "{why}");
}

/// A liar and a crash are two faults.
#[test]
fn the_trace_has_replicas_for_its_faults() {
    let of = |liar| {
        let kind = trace::kind(liar);
        (kind.replicas, kind.faults, kind.shown().quorum)
    };
    assert_eq!((of(false), of(true)), ((4, 1, 3), (7, 2, 5)));
    let line = |more: &str| {
        let words = ["figure", "bft-smart-8"].into_iter().chain(more.split_whitespace());
        Line::try_parse_from(words).map(|line| line.args)
    };
    let usual = line("").expect("a command line");
    assert_eq!((usual.few.divided().ok(), usual.smart.liar), (Some(10.0), false), "a minute");
    assert!(line("--liar").expect("a command line").smart.liar);
    assert!(line("--divide 0.5").expect("a command line").few.divided().is_err());
}

#[test]
fn options_have_the_papers_numbers() {
    let args = Line::try_parse_from(["figure", "bft-smart-6"]).expect("a command line").args;
    assert_eq!((args.smart.reads, args.smart.record_bytes), (vec![0, 25, 50, 75, 95, 100], vec![100, 1024]));
    assert!(Line::try_parse_from(["figure", "bft-smart-6", "--reads", "101"]).is_err());
    assert_eq!(paper(payload(0, 0)), Some((83_337.0, 1.0)));
    assert_eq!(paper(payload(4096, 4096)), None);
    let (_, share) = paper(payload(1024, 0)).expect("it is there");
    assert!((share - 0.196).abs() < 1e-3, "{share}");
    assert_eq!(peaks::PAPER.len(), 5);
}

/// Of three rounds.
fn median(low: f64, median: f64, high: f64) -> Median {
    Median::of(vec![high, low, median]).expect("rounds")
}

fn cell(payload: Payload, share: Median) -> Cell {
    Cell {
        payload,
        per_s: share,
        share: Some(share),
        floor_per_s: None,
        paper_per_s: None,
        paper_share: None,
    }
}

#[test]
fn a_shape_goes_the_same_way_or_not() {
    let shape = |request: Median, reply| {
        let shapes = shapes(&[cell(payload(1024, 0), request), cell(payload(0, 1024), reply)]);
        shapes.iter().map(Shape::text).collect::<Vec<_>>().join("\n")
    };
    let large = median(0.4, 0.45, 0.5);
    let alike = shape(median(0.1, 0.2, 0.3), large);
    assert!(alike.ends_with("here: 0.20 and 0.45: the same way"), "{alike}");
    assert!(shape(median(0.6, 0.7, 0.8), large).ends_with("the OTHER way"));
    assert!(shape(median(0.1, 0.2, 0.41), large).ends_with("no verdict"), "rounds overlap");
    assert!(shapes(&[cell(payload(1024, 0), large)]).is_empty(), "there is nothing to compare");
}

#[test]
fn verdicts_need_all_rounds() {
    let times = median(0.9, 1.0, 1.2);
    assert_eq!(
        [0.8, 0.9, 1.2, 1.3].map(|number| above(&times, number)),
        [Some(true), None, None, Some(false)]
    );
    assert_eq!(below(&times, &median(1.3, 1.4, 1.5)), Some(true));
    assert_eq!(below(&times, &median(0.1, 0.2, 0.8)), Some(false));
    assert_eq!(below(&times, &times), None);
    let all = |verdicts: &[Option<bool>]| all_of(verdicts.iter().copied());
    assert_eq!((all(&[Some(true); 2]), all(&[Some(true), None])), (Some(true), None));
    assert_eq!(all(&[None, Some(false), Some(true)]), Some(false));
    let one = |value| median(value - 0.1, value, value + 0.1);
    let points = [(0, one(1.0)), (75, one(3.0)), (100, one(2.0))];
    assert_eq!(
        (mixes::best(&points).map(|best| best.0), mixes::best_is_inside(&points)),
        (Some(75), Some(true))
    );
    assert_eq!(mixes::best_is_inside(&[(0, one(1.0)), (50, one(2.0)), (100, one(3.0))]), Some(false));
    assert_eq!(mixes::best_is_inside(&points[..2]), None);
}

#[test]
fn of_a_hundred_requests_so_many_read() {
    for percent in [0, 25, 95, 100] {
        let mut mix = Mix::reading(percent, 100, 100);
        let reads = (0..1000).filter(|slot| matches!(mix.next(slot % 7), Call::Read(..))).count();
        assert_eq!(reads, 10 * percent as usize);
    }
    let mut commands = Mix::commands(0, 0);
    assert!((0..100).all(|slot| matches!(commands.next(slot), Call::Commands(_))));
}
