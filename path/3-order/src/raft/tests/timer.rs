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

/// Where the words of leaders come in time a short silence is enough. It grows with delays, and after an election.
#[test]
fn a_silence_means_the_more_the_less_is_late() {
    let me = ReplicaId::new(1);
    let config = RaftConfig { adapts: true, ..RaftConfig::new(me, vec![me], 7) };
    let mut timer = Timer::new(&config);
    let (heartbeat, window) = (config.heartbeat.nanos() / 1_000_000, 16 * 300);
    let mut now = 1000;
    let mut hear = |timer: &mut Timer, late: u64, times: u64| {
        for _ in 0..times {
            now += heartbeat + late;
            timer.hear_leader(at(now));
        }
        let (low, high) = waits(timer);
        (low.nanos() / 1_000_000, high.nanos() / 1_000_000, now)
    };
    let heard_in_a_window = window / heartbeat + 2;
    let (low, high, _) = hear(&mut timer, 0, heard_in_a_window / 2);
    assert!(low >= 300 && high > 500, "nothing is known yet: {low} to {high}");
    let (low, high, now) = hear(&mut timer, 0, 2 * heard_in_a_window);
    assert!((100..110).contains(&low) && (140..150).contains(&high), "{low} to {high}");
    assert!(timer.hears_leader(at(now + 99)) && !timer.hears_leader(at(now + 100)));
    let (low, high, now) = hear(&mut timer, 20, 1);
    assert!((160..170).contains(&low) && (230..240).contains(&high), "once late: {low} to {high}");
    assert!(timer.hears_leader(at(now + 159)));
    let (low, ..) = hear(&mut timer, 0, heard_in_a_window / 2);
    assert!(low >= 160, "it is not forgotten at once");
    timer.fail();
    assert!(waits(&mut timer).0 >= config.election_min, "nor are failed elections");
    let (low, ..) = hear(&mut timer, 0, 3 * heard_in_a_window);
    assert!((100..110).contains(&low));
    // It fell silent, another one leads: for a while nobody is in a hurry.
    timer.forget_leader();
    let (low, high, _) = hear(&mut timer, 120, 1);
    assert!(low >= 300 && high > 500, "{low} to {high}");
    let mut fixed = Timer::new(&RaftConfig { adapts: false, ..config.clone() });
    let (low, ..) = hear(&mut fixed, 0, 5 * heard_in_a_window);
    assert!(low >= config.election_min.nanos() / 1_000_000);
}
