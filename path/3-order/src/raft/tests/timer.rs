//! The election timer by itself.

use crate::raft::RaftConfig;
use crate::raft::timer::Timer;
use quorate_types::{ReplicaId, Span, Time};

fn timer(lease: Option<u8>) -> (Timer, RaftConfig) {
    let me = ReplicaId::new(1);
    let config = RaftConfig { lease_drift_percent: lease, ..RaftConfig::new(me, vec![me], 7) };
    (Timer::new(&config), config)
}

fn at(millis: u64) -> Time {
    Time::ZERO.plus(Span::from_millis(millis))
}

/// How long it waits, drawn a hundred times.
fn waits(timer: &mut Timer) -> (Span, Span) {
    let mut all: Vec<Span> = (0..100)
        .map(|_| {
            timer.reset(at(1000));
            timer.due().expect("it wants one").since(at(1000))
        })
        .collect();
    all.sort_unstable();
    (all[0], all[99])
}

/// Time-outs lie in their range, and the range grows while elections fail, up to a limit.
#[test]
fn time_outs_grow_with_failures() {
    let (mut timer, config) = timer(None);
    let (low, high) = waits(&mut timer);
    assert!(low >= config.election_min && high < config.election_max);
    (0..10).for_each(|_| timer.fail());
    let (low, high) = waits(&mut timer);
    assert!(low >= config.election_min && high > config.election_max.times(2));
    assert!(high < config.election_max.times(3));
    timer.win();
    assert!(waits(&mut timer).1 < config.election_max);
}

/// A closed connection brings the election forward, a vote for another puts it off.
#[test]
fn hints_move_the_time_out() {
    let (mut timer, config) = timer(None);
    timer.hear_leader(at(1000));
    assert!(timer.hears_leader(at(1100)) && !timer.hears_leader(at(1000).plus(config.election_min)));
    timer.lose_leader(at(1100));
    assert!(!timer.hears_leader(at(1100)));
    assert!(timer.is_over(at(1100).plus(config.hint_delay_max)));
    timer.hold_back(at(1100));
    assert!(!timer.is_over(at(1099).plus(config.hint_delay_max)), "who asked first goes first");
    timer.stop();
    assert_eq!(timer.due(), None, "no election any more");
}

/// Where leaders may have leases, who heard one waits until its promise is over, and a little longer.
#[test]
fn promises_are_waited_for() {
    let (mut timer, config) = timer(Some(10));
    timer.hear_leader(at(1000));
    let until = at(1000).plus(config.election_min);
    assert_eq!((timer.bound(at(1001)), timer.bound(until)), (Some(until), None));
    timer.wait_for_promise(at(1001));
    assert!(timer.due().is_some_and(|due| due >= until.plus(config.hint_delay_max)));
    let (mut free, _) = self::timer(None);
    free.hear_leader(at(1000));
    assert_eq!(free.bound(at(1001)), None, "without leases nobody promises");
}
