use super::*;

fn config(mode: CheckpointMode) -> BorderConfig {
    BorderConfig {
        mode,
        interval_bytes: 10_000,
        state_percent: 0,
        interval_bytes_max: 30_000,
        ahead_percent: 30,
        full_every: 4,
    }
}

/// The points that a run of batches of 488 bytes passes: each counts 1000.
fn points(borders: &mut Borders, batches: usize) -> Vec<(usize, Point)> {
    (1..=batches).filter_map(|at| Some((at, borders.executed(488, false)?))).collect()
}

#[test]
fn capturing_begins_before_each_border_that_is_captured() {
    let mut borders = Borders::new(config(CheckpointMode::Full), 3, 0);
    let expected =
        [(7, Point::Ahead(1)), (10, Point::Border(1)), (17, Point::Ahead(2)), (20, Point::Border(2))];
    assert_eq!(points(&mut borders, 20), expected);
}

#[test]
fn only_full_checkpoints_are_captured_ahead() {
    let mut borders = Borders::new(config(CheckpointMode::Differential), 3, 0);
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
    let borders = Borders::new(every, 3, 0);
    assert!((1..9).all(|border| borders.writes(border) == Some(Writing { full: true, stops: false })));
}

#[test]
fn staggered_replicas_take_turns() {
    let all: Vec<Borders> =
        (0..3).map(|place| Borders::new(config(CheckpointMode::Staggered), 3, place)).collect();
    for border in 1..20 {
        assert_eq!(all.iter().filter(|borders| borders.writes(border).is_some()).count(), 1);
    }
    let mut first = all[0].clone();
    // Three times as many borders, so that each replica writes once in an interval.
    let borders = points(&mut first, 40).len();
    assert_eq!(borders, 10);
}

#[test]
fn a_batch_can_ask_for_a_border_and_the_next_interval_begins_there() {
    let mut borders = Borders::new(config(CheckpointMode::StopAndCopy), 3, 0);
    assert_eq!(points(&mut borders, 5), []);
    assert_eq!(borders.executed(488, true), Some(Point::Border(1)));
    assert_eq!(points(&mut borders, 10), [(10, Point::Border(2))]);
}

#[test]
fn a_restarted_replica_has_the_same_borders() {
    let mut whole = Borders::new(config(CheckpointMode::Differential), 3, 0);
    let all = points(&mut whole, 60);
    let mut resumed = Borders::new(config(CheckpointMode::Differential), 3, 0);
    resumed.resume(2, 0);
    let rest: Vec<_> = points(&mut resumed, 40).into_iter().map(|(at, point)| (at + 20, point)).collect();
    assert_eq!(all.iter().filter(|(at, _)| *at > 20).copied().collect::<Vec<_>>(), rest);
}

#[test]
fn the_interval_follows_the_state_within_its_bounds() {
    let mut borders =
        Borders::new(BorderConfig { state_percent: 200, ..config(CheckpointMode::StopAndCopy) }, 3, 0);
    let next = |borders: &mut Borders, state_bytes| {
        let reached = points(borders, 40)[0].0;
        borders.resume(1, state_bytes);
        reached
    };
    assert_eq!(next(&mut borders, 4_000), 10, "nothing is known of the state yet");
    assert_eq!(next(&mut borders, 9_000), 10, "the least");
    assert_eq!(next(&mut borders, 15_001), 18, "twice the state");
    assert_eq!(next(&mut borders, u64::MAX), 30, "the most");
    assert_eq!(next(&mut borders, 0), 30, "the most");
    // What the state takes is known from the last border on, not from one moment to the next.
    borders.measured(9_000);
    assert_eq!(points(&mut borders, 18), [(18, Point::Border(2))]);
    let mut staggered =
        Borders::new(BorderConfig { state_percent: 200, ..config(CheckpointMode::Staggered) }, 3, 0);
    staggered.measured(9_000);
    assert_eq!(points(&mut staggered, 6), [(6, Point::Border(1))]);
}
