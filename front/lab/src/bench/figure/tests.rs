//! The parts that need no cluster.

use super::cop::{Shape, Way};
use super::marks::{Follow, Seen, Span, union};
use super::samples::Samples;
use super::{dfc::Mode, parse_bytes, shares};
use crate::bench::draw::{colour, number};
use crate::bench::median::Median;
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

#[test]
fn amounts_have_units() {
    let parsed = ["1024", "64KiB", "256MiB", "3 GiB", "0"].map(|text| parse_bytes(text).ok());
    assert_eq!(parsed, [Some(1024), Some(64 << 10), Some(256 << 20), Some(3 << 30), Some(0)]);
    for wrong in ["", "MiB", "-1", "1.5GiB", "1MB", "99999999999999999999", "99999999999GiB"] {
        assert!(parse_bytes(wrong).is_err(), "{wrong}");
    }
}

/// Calls of 10 ms, one every 10 ms, for a second; one of them takes 300 ms.
fn samples(began: Instant) -> Samples {
    let mut samples = Samples::new(began, 1000 * MS);
    for number in 0..100_u32 {
        let sent = began + number * 10 * MS;
        let took = if number == 50 { 300 } else { 10 };
        samples.add(sent, sent + took * MS);
    }
    samples
}

#[test]
fn calls_are_sorted_by_time() {
    let began = Instant::now();
    let samples = samples(began);
    let bins = samples.bins();
    assert_eq!(bins.len(), 10);
    // The first call of all is answered after 10 ms, the last one after the window; so the first bin has nine.
    assert_eq!(bins[0].per_s, 90.0);
    assert_eq!((bins[1].per_s, bins[1].max_ms), (100.0, Some(10.0)));
    assert!((bins[3].at_s - 0.3).abs() < 1e-9);
    assert_eq!((bins[5].max_ms, bins[8].max_ms), (Some(10.0), Some(300.0)), "where it was answered");
    assert_eq!(samples.per_s(), 99.0);
    let all = samples.quantiles();
    assert_eq!((all.calls, all.max), (100, 300.0), "also the one that was answered after the window");
    assert!((all.p50 - 10.0).abs() < 0.1 && (all.p99_99 - 300.0).abs() < 1.0, "{all:?}");
}

#[test]
fn a_time_without_answers_is_found() {
    let span = |from_s, to_s| Span { from_s, to_s };
    let silence = |samples: &Samples, within| {
        let Span { from_s, to_s } = samples.silence(within);
        (from_s * 1000.0).round() as u32..(to_s * 1000.0).round() as u32
    };
    let began = Instant::now();
    let mut samples = Samples::new(began, 1000 * MS);
    assert_eq!(silence(&samples, span(0.2, 0.5)), 0..1000, "nobody answered at all");
    for at in [700, 100, 200, 400, 650_u32] {
        samples.add(began, began + at * MS);
    }
    assert_eq!(silence(&samples, span(0.0, 1.0)), 700..1000, "until the end");
    assert_eq!(silence(&samples, span(0.3, 0.6)), 400..650, "it ends after the span");
    assert_eq!(silence(&samples, span(0.0, 0.35)), 200..400);
    assert_eq!(silence(&samples, span(0.66, 0.67)), 650..700);
}

#[test]
fn what_lies_outside_of_the_window_is_left_out() {
    let began = Instant::now() + Duration::from_secs(10);
    let mut samples = Samples::new(began, 200 * MS);
    samples.add(began - 50 * MS, began - MS);
    samples.add(began + 200 * MS, began + 201 * MS);
    assert_eq!(samples.quantiles().calls, 0);
    samples.add(began - 50 * MS, began + 150 * MS);
    let bins = samples.bins();
    assert_eq!((bins[0].max_ms, bins[1].max_ms), (None, Some(200.0)), "no answer, no value");
}

#[test]
fn calls_beside_a_checkpoint_are_told_apart() {
    let samples = samples(Instant::now());
    let span = |from_s, to_s| Span { from_s, to_s };
    let (during, beside) = samples.apart(&[span(0.605, 0.695)]);
    // Ten that were under way then, and the long one.
    assert_eq!((during.calls, beside.calls), (11, 89));
    assert!(during.max >= 300.0 && beside.max < 11.0);
    let (during, beside) = samples.apart(&[]);
    assert_eq!((during.calls, beside.calls), (0, 100));
    let (inside, outside) = samples.rates_apart(&[span(-5.0, 0.5), span(0.9, 7.0)]);
    let near = |rate: Option<f64>| rate.is_some_and(|rate| (95.0..105.0).contains(&rate));
    assert!(near(inside) && near(outside), "{inside:?}, {outside:?}");
    assert_eq!(samples.rates_apart(&[]).0, None);
    assert_eq!(samples.rates_apart(&[span(-1.0, 2.0)]).1, None);
}

#[test]
fn a_status_says_what_is_written() {
    let seen = |text: &str| Seen::of(text).map(|seen| (seen.done, seen.writing));
    assert_eq!(seen(r#"{"checkpoints":{"durable_seq":7,"writing":null}}"#), Some((7, None)));
    assert_eq!(seen(r#"{"checkpoints":{"durable_seq":7,"writing":9}}"#), Some((7, Some(9))));
    for other in ["", "{}", r#"{"checkpoints":3}"#, r#"{"checkpoints":{"writing":9}}"#] {
        assert_eq!(seen(other), None, "{other}");
    }
}

/// What came of answers at 0, 100, 200 ms and so on, each of which took 10 ms.
fn followed(answers: &[(u64, Option<u64>)]) -> Vec<(u128, u128)> {
    let began = Instant::now();
    let mut follow = Follow::default();
    for ((done, writing), number) in answers.iter().zip(0_u32..) {
        let asked = began + number * 100 * MS;
        follow.saw(asked, asked + 10 * MS, Seen { done: *done, writing: *writing });
    }
    let spans = follow.finish(began + 5000 * MS);
    let ms = |at: Instant| at.duration_since(began).as_millis();
    spans.into_iter().map(|(from, to)| (ms(from), ms(to))).collect()
}

#[test]
fn checkpoints_are_found_in_the_answers() {
    assert_eq!(followed(&[(0, None), (0, None)]), []);
    assert_eq!(followed(&[(0, None), (0, Some(5)), (0, Some(5)), (5, None), (5, None)]), [(100, 310)]);
    assert_eq!(
        followed(&[(0, Some(5)), (5, Some(9)), (9, None)]),
        [(0, 100), (100, 210)],
        "one after the other"
    );
    assert_eq!(followed(&[(5, None), (9, None), (9, None)]), [(0, 110)], "between two answers");
    assert_eq!(followed(&[(5, None)]), [], "it was there before");
    assert_eq!(followed(&[(5, None), (5, Some(9))]), [(100, 5000)], "not done yet");
}

#[test]
fn overlapping_spans_are_one() {
    let span = |from_s, to_s| Span { from_s, to_s };
    let all = union(vec![span(5.0, 6.0), span(1.0, 3.0), span(2.0, 2.5), span(3.0, 4.0)]);
    assert_eq!(all, [span(1.0, 4.0), span(5.0, 6.0)]);
    assert!(union(vec![]).is_empty());
}

#[test]
fn lanes_get_shares_only_where_there_are_cores_for_them() {
    assert_eq!([1, 2, 12].map(shares::lanes), [1, 3, 13]);
    // 9 lanes of 3 replicas: 1.35 cores.
    assert!(shares::check_cores(5, 9, 3, 2).is_ok());
    let refused = shares::check_cores(5, 13, 4, 2).map_err(|why| why.to_string());
    assert!(refused.is_err_and(|why| why.contains("need 2.60 cores") && why.contains("--quota 0")));
    assert!(shares::check_cores(5, 13, 4, 4).is_ok());
    assert!(shares::check_cores(0, 64, 4, 1).is_ok(), "without a limit nothing is promised");
}

#[test]
fn a_staged_replica_has_one_instance_and_as_many_lanes() {
    let shape = |instances, lanes, staged| Shape { instances, lanes, staged };
    let at = |instances| [Way::Pillars, Way::Staged, Way::OneLane].map(|way| way.shape(instances));
    assert_eq!(at(1), [shape(1, 1, false), shape(1, 3, true), shape(1, 1, false)], "the first is the last");
    assert_eq!(at(2), [shape(2, 3, false), shape(1, 3, true), shape(2, 1, false)]);
    assert_eq!(at(12), [shape(12, 13, false), shape(1, 13, true), shape(12, 1, false)]);
}

#[test]
fn ways_have_the_names_of_the_configuration() {
    let names: Vec<String> = Mode::DEFAULT.into_iter().map(quorate_command::arguments::name).collect();
    assert_eq!(names, ["none", "stop-and-copy", "full", "differential"]);
    for mode in [Mode::StopAndCopy, Mode::Staggered, Mode::Full, Mode::Differential] {
        let text = format!("mode = \"{}\"", quorate_command::arguments::name(mode));
        let parsed: Result<quorate_runtime::CheckpointConfig, _> = toml::from_str(&text);
        assert!(parsed.is_ok(), "{text}");
    }
}

#[test]
fn the_lowest_and_the_highest_value_are_kept() {
    let value = |values: &[f64]| Median::of(values.to_vec());
    let values = [(1.0, value(&[20.0, 10.0, 100.0])), (2.0, value(&[50.0])), (4.0, None)];
    let line = shares::line("a".into(), colour(0), values.into_iter());
    assert_eq!(line.points, [(1.0, Some(20.0)), (2.0, Some(50.0)), (4.0, None)]);
    assert_eq!(line.ranges, [(1.0, 10.0, 100.0)], "of several values that differ");
    assert_eq!(
        shares::cell(&Median::of(vec![7.0]).expect("a value"), number),
        "7",
        "one value has no bounds"
    );
    assert_eq!(shares::cell(&value(&[1.0, 2.0, 4.0]).expect("a value"), number), "2 [1, 4]");
}
