use super::*;

fn config(mode: CheckpointMode) -> BorderConfig {
    BorderConfig {
        mode,
        interval_bytes: 10_000,
        state_percent: 0,
        interval_bytes_max: 30_000,
        ahead_percent: 30,
        full_every: 4,
        every: None,
    }
}

const START: AgreedTime = AgreedTime::from_nanos(1 << 60);

fn new(config: BorderConfig, members: usize, place: usize) -> Borders {
    Borders::new(config, members, place, START)
}

/// A batch of this many bytes, this many milliseconds after the start.
fn batch(bytes: u64, asks: bool, millis: u64) -> Executed {
    let time = AgreedTime::from_nanos(START.nanos() + millis * 1_000_000);
    Executed { bytes, asks, bounded: true, time, settled: true }
}

/// The points in a run of batches of 488 bytes, each of which counts as 1000.
fn points(borders: &mut Borders, batches: usize) -> Vec<(usize, Point)> {
    (1..=batches).filter_map(|at| Some((at, borders.executed(batch(488, false, 0))?))).collect()
}

#[test]
fn capturing_begins_before_each_border_that_is_captured() {
    let mut borders = new(config(CheckpointMode::Full), 3, 0);
    let expected =
        [(7, Point::Ahead(1)), (10, Point::Border(1)), (17, Point::Ahead(2)), (20, Point::Border(2))];
    assert_eq!(points(&mut borders, 20), expected);
}

/// Where results are verified, batches lie between a border and the ruling for the state there.
#[test]
fn the_next_border_waits_for_the_state_at_the_one_before() {
    let mut borders = new(config(CheckpointMode::Differential), 3, 0);
    assert_eq!(points(&mut borders, 10), [(7, Point::Ahead(1)), (10, Point::Border(1))]);
    let unsettled = Executed { settled: false, ..batch(4488, true, 0) };
    assert!((0..4).all(|_| borders.executed(unsettled).is_none()), "although it is asked for, and long due");
    borders.measured(1 << 30);
    assert_eq!(borders.executed(batch(488, false, 0)), Some(Point::Border(2)));
}

#[test]
fn only_full_checkpoints_are_captured_ahead() {
    let mut borders = new(config(CheckpointMode::Differential), 3, 0);
    let ahead: Vec<u64> = points(&mut borders, 100)
        .into_iter()
        .filter_map(|(_, point)| match point {
            Point::Ahead(border) => Some(border),
            Point::Border(_) => None,
        })
        .collect();
    assert_eq!(ahead, [1, 5, 9]);
    assert_eq!(borders.writes(5), Some(Writing { full: true, stops: false }));
    assert_eq!(borders.writes(6), Some(Writing { full: false, stops: false }));
}

#[test]
fn with_every_border_full_there_are_no_differences() {
    let every = BorderConfig { full_every: 1, ..config(CheckpointMode::Differential) };
    let borders = new(every, 3, 0);
    assert!((1..9).all(|border| borders.writes(border) == Some(Writing { full: true, stops: false })));
}

#[test]
fn staggered_replicas_take_turns() {
    let all: Vec<Borders> = (0..3).map(|place| new(config(CheckpointMode::Staggered), 3, place)).collect();
    for border in 1..20 {
        assert_eq!(all.iter().filter(|borders| borders.writes(border).is_some()).count(), 1);
    }
    let mut first = all[0].clone();
    // Three times as many borders, so that each replica writes once in an interval.
    let borders = points(&mut first, 40).len();
    assert_eq!(borders, 10);
}

/// A leader that asks with every batch gets one border for each share of the interval, and no more. [decision 0029]
#[test]
pub(crate) fn whoever_asks_gets_few_borders() {
    for mode in [CheckpointMode::StopAndCopy, CheckpointMode::Staggered, CheckpointMode::Differential] {
        let mut borders = new(config(mode), 3, 0);
        let asked = |at: usize| {
            let point = borders.executed(batch(488, true, 0));
            matches!(point, Some(Point::Border(_))).then_some(at)
        };
        let reached: Vec<usize> = (1..=20).filter_map(asked).collect();
        assert_eq!(reached, [4, 8, 12, 16, 20], "{mode:?}: 3333 bytes of 10000");
    }
}

#[test]
fn what_is_asked_for_early_comes_later_and_the_next_interval_begins_there() {
    let mut borders = new(config(CheckpointMode::StopAndCopy), 3, 0);
    assert_eq!(borders.executed(batch(488, true, 0)), None);
    assert!(borders.is_owed());
    assert_eq!(points(&mut borders, 3), [(3, Point::Border(1))]);
    assert!(!borders.is_owed());
    assert_eq!(points(&mut borders, 10), [(10, Point::Border(2))]);
    // Where no member lies.
    let unbounded = |asks| Executed { bounded: false, ..batch(488, asks, 0) };
    assert_eq!(borders.executed(unbounded(true)), Some(Point::Border(3)));
    assert_eq!(borders.executed(unbounded(true)), Some(Point::Border(4)));
}

/// Nothing is written, and a replica needs a border.
#[test]
fn an_idle_cluster_has_borders_too() {
    let large = BorderConfig {
        interval_bytes: 256 << 20,
        interval_bytes_max: 1 << 30,
        ..config(CheckpointMode::Full)
    };
    let mut borders = new(large, 4, 0);
    let reached: Vec<u64> =
        (1..=33).filter(|second| borders.executed(batch(88, true, second * 1000)).is_some()).collect();
    assert_eq!(reached, [8, 16, 24, 32], "64 MiB at 8 MiB a second");
    // One was long ago.
    borders.resume(7, START, 0);
    assert_eq!(borders.executed(batch(88, true, 9000)), Some(Point::Border(8)));
    // Time alone brings no border, and time that goes back counts for nothing.
    assert_eq!(borders.executed(batch(88, false, 90_000)), None);
    assert_eq!(borders.executed(batch(88, false, 0)), None);
}

#[test]
fn a_restarted_replica_has_the_same_borders() {
    let mut whole = new(config(CheckpointMode::Differential), 3, 0);
    let all = points(&mut whole, 60);
    let mut resumed = new(config(CheckpointMode::Differential), 3, 0);
    resumed.resume(2, START, 0);
    let rest: Vec<_> = points(&mut resumed, 40).into_iter().map(|(at, point)| (at + 20, point)).collect();
    assert_eq!(all.iter().filter(|(at, _)| *at > 20).copied().collect::<Vec<_>>(), rest);
}

#[test]
fn the_interval_follows_the_state_within_its_bounds() {
    let mut borders = new(BorderConfig { state_percent: 200, ..config(CheckpointMode::StopAndCopy) }, 3, 0);
    let next = |borders: &mut Borders, state_bytes| {
        let reached = points(borders, 40)[0].0;
        borders.resume(1, START, state_bytes);
        reached
    };
    assert_eq!(next(&mut borders, 4_000), 10, "nothing is known of the state yet");
    assert_eq!(next(&mut borders, 9_000), 10, "the least");
    assert_eq!(next(&mut borders, 15_001), 18, "twice the state");
    assert_eq!(next(&mut borders, u64::MAX), 30, "the most");
    assert_eq!(next(&mut borders, 0), 30, "the most");
    // The size of the state takes effect from the last border on, and not before.
    borders.measured(9_000);
    assert_eq!(points(&mut borders, 18), [(18, Point::Border(2))]);
    let mut staggered = new(BorderConfig { state_percent: 200, ..config(CheckpointMode::Staggered) }, 3, 0);
    staggered.measured(9_000);
    assert_eq!(points(&mut staggered, 6), [(6, Point::Border(1))]);
}

/// Replicas that differ find that out although little is written.
#[test]
fn a_border_comes_by_time_where_little_is_written() {
    let by_time = BorderConfig { every: Some(Span::from_secs(60)), ..config(CheckpointMode::Differential) };
    let mut borders = new(by_time, 3, 0);
    assert_eq!(borders.executed(batch(8, false, 59_999)), None);
    assert_eq!(borders.executed(batch(8, false, 60_000)), Some(Point::Border(1)));
    borders.measured(0);
    assert_eq!(
        borders.executed(batch(8, false, 119_000)),
        None,
        "a minute after the last one, not after the start"
    );
    let unsettled = Executed { settled: false, ..batch(8, false, 120_000) };
    assert_eq!(borders.executed(unsettled), None, "the state at the last border is not final yet");
    assert_eq!(borders.executed(batch(8, false, 121_000)), Some(Point::Border(2)));
    // Bytes bring one, too, and the minute begins anew.
    borders.measured(0);
    assert_eq!(borders.executed(batch(20_000, false, 130_000)), Some(Point::Border(3)));
    borders.measured(0);
    assert_eq!(borders.executed(batch(8, false, 181_000)), None);
    assert_eq!(borders.executed(batch(8, false, 190_000)), Some(Point::Border(4)));
}

/// A large state is not written again for a few commands.
#[test]
fn a_border_by_time_waits_for_a_part_of_the_state() {
    let by_time = BorderConfig { every: Some(Span::from_secs(1)), ..config(CheckpointMode::Full) };
    let mut borders = new(by_time, 3, 0);
    borders.resume(1, START, 200_000);
    let reached = (1..=10).find(|second| borders.executed(batch(488, false, second * 1000)).is_some());
    assert_eq!(reached, Some(4), "1000 bytes each, and a fiftieth of the state is 4000");
}
