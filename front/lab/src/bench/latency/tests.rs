//! The parts that need no cluster.

use super::during::Event;
use super::{LatencyArgs, Quantiles, rates, row};
use crate::bench::paced::{LATE, Provided};
use clap::Parser;
use quorate::client::Error;
use std::time::{Duration, Instant};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: LatencyArgs,
}

fn parse(line: &str) -> Result<LatencyArgs, clap::Error> {
    Line::try_parse_from(std::iter::once("latency").chain(line.split_whitespace())).map(|line| line.args)
}

const MS: Duration = Duration::from_millis(1);

/// A measured time of 100 ms that begins 10 ms from `start`.
fn provided(start: Instant) -> Provided {
    Provided::between(start + 10 * MS, start + 110 * MS).expect("a histogram")
}

#[test]
fn options_are_read_and_nonsense_is_refused() {
    let args = parse("--rates 1000,5e4 --secs 2 --clients 2").expect("options");
    assert_eq!((args.rates, args.clients), (vec![1000.0, 50_000.0], 2));
    let args = parse("--during none,hand-over --rate 500 --state-bytes 2MiB").expect("options");
    assert_eq!(
        (args.during, args.rate, args.state_bytes),
        (vec![Event::None, Event::HandOver], Some(500.0), 2 << 20)
    );
    for line in ["--during nothing", "--rate 5", "--rates 5 --during none", "--during none --dir x"] {
        assert!(parse(line).is_err(), "{line}");
    }
    let why = |line: &str| parse(line).expect("options").check().expect_err(line).to_string();
    assert!(why("--rates 1000,0").contains("--rates and --rate are 1 to"));
    assert!(why("--callers 3").contains("--clients 1 to 1000 and no more than the callers"));
    assert!(why("--dir x").contains("--clients 1"));
    assert!(why("--queue-bytes 1KiB").contains("--queue-bytes is 1MiB to"));
    assert!(why("--timeout 0").contains("--timeout is 0.05 to 86400"));
    assert!(parse("").expect("options").check().is_ok());
}

#[test]
fn rates_are_those_that_were_asked_for_or_shares_of_the_most() {
    assert_eq!(rates(&[5.0, 7.0], 1000.0), [5.0, 7.0]);
    assert_eq!(rates(&[], 1000.0), [100.0, 250.0, 500.0, 750.0, 900.0, 1500.0, 2000.0]);
    assert!(rates(&[], 0.0).iter().all(|rate| *rate >= 1.0), "never less than one, whatever was found");
}

#[test]
fn a_call_that_is_sent_late_is_counted_and_its_latency_begins_when_it_was_due() {
    let start = Instant::now();
    let mut all = provided(start);
    let due = start + 20 * MS;
    all.was_due(due, due + LATE - Duration::from_nanos(1), true);
    all.was_due(due, due + LATE, true);
    all.was_due(due, due + 7 * MS, true);
    assert_eq!((all.due, all.sent_late, all.latest), (3, 2, 7 * MS));
    assert!(all.fell_behind());
    all.was_answered(due, due + 9 * MS);
    assert!((8_990_000..=9_010_000).contains(&all.latency.max()), "{}", all.latency.max());
    (0..197).for_each(|_| all.was_due(due, due, true));
    assert!(!all.fell_behind(), "one of a hundred may be late");
}

/// The calls that wait the longest end after the measured time.
#[test]
fn every_call_that_was_due_counts_however_late_it_ends() {
    let start = Instant::now();
    let mut all = provided(start);
    let (early, due, end) = (start + 9 * MS, start + 109 * MS, start + 110 * MS);
    for (at, sent) in
        [(early, true), (due, true), (due, true), (due, true), (due, true), (due, false), (end, true)]
    {
        all.was_due(at, at, sent);
    }
    all.was_answered(early, start + 50 * MS);
    all.was_answered(due, start + 3000 * MS);
    all.has_failed(due, start + 120 * MS, &Error::Overloaded { outcome_unknown: false });
    let late = Error::DeadlineExceeded { outcome_unknown: true, detail: String::new() };
    all.has_failed(due, start + 10_109 * MS, &late);
    all.has_failed(due, start + 120 * MS, &Error::SessionClosed);
    all.has_failed(end, start + 120 * MS, &late);
    assert_eq!((all.due, all.latency.len(), all.skipped), (5, 1, 1));
    assert_eq!((all.refused, all.timed_out, all.failed, all.errors), (1, 1, 1, 4));
    assert_eq!(all.longest_failure, 10_000 * MS);
    assert_eq!(all.answered, 1, "the one that was answered in the measured time");
    assert!(all.latency.max() > 2_880_000_000, "{}", all.latency.max());
    let row = row(50.0, Some(25.0), &all);
    assert_eq!((row.share, row.answered_per_s, row.overloaded, row.not_sent), (Some(2.0), 10.0, 1, 1));
    let ended = row.latency_ms.calls + row.overloaded + row.timed_out + row.failed + row.not_sent;
    assert_eq!(ended, row.due);
}

#[test]
fn quantiles_reach_to_the_worst_of_ten_thousand() {
    let mut all = hdrhistogram::Histogram::<u64>::new(3).expect("a histogram");
    (0..19_998).for_each(|_| all.record(1_000_000).expect("room"));
    (0..2).for_each(|_| all.record(80_000_000).expect("room"));
    let of = Quantiles::of(&all);
    assert!((of.p99_9 - 1.0).abs() < 0.01 && (of.max - 80.0).abs() < 0.1, "{of:?}");
    assert!((of.p99_99 - 1.0).abs() < 0.01, "two of 20,000 are one of 10,000: {of:?}");
    all.record(80_000_000).expect("room");
    assert!((Quantiles::of(&all).p99_99 - 80.0).abs() < 0.1);
}
