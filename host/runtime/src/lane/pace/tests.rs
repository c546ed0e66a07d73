use super::Pace;
use quorate_types::{Span, Time};

fn us(count: u64) -> Span {
    Span::from_nanos(count * 1000)
}

/// Turns in which the lane waits for `idle` and works for `work`. When it is after them.
fn turns(pace: &mut Pace, mut now: Time, count: u64, idle: Span, work: Span) -> Time {
    for _ in 0..count {
        let woke = now.plus(idle);
        let ends = woke.plus(work);
        pace.turned(now, woke, ends);
        now = ends;
    }
    now
}

#[test]
fn a_busy_lane_reads_those_who_send_much_now_and_then() {
    let mut pace = Pace::default();
    assert!(pace.allows(Time::from_nanos(1)));
    let now = turns(&mut pace, Time::ZERO, 1000, us(100), us(50));
    assert!(pace.allows(now), "it works for a third of the time");
    let now = turns(&mut pace, now, 1000, us(20), us(80));
    pace.served(now);
    assert!(!pace.allows(now.plus(us(19_999))) && pace.wait(now) > Span::ZERO);
    assert!(pace.allows(now.plus(us(20_000))));
    let now = turns(&mut pace, now, 1000, us(80), us(20));
    pace.served(now);
    assert!(pace.allows(now), "the past is forgotten");
}

#[test]
fn a_clock_that_jumps_stops_nobody() {
    let mut pace = Pace::default();
    let late = Time::ZERO.plus(Span::from_secs(9000));
    pace.turned(Time::ZERO, Time::ZERO, late);
    pace.served(late);
    assert!(!pace.allows(late));
    assert!(pace.allows(Time::from_nanos(5)), "it jumped back");
    turns(&mut pace, late, 1000, us(100), us(10));
    assert!(pace.allows(late));
}

#[test]
fn a_lane_that_sleeps_is_forgotten_to_have_worked() {
    use super::{MEMORY, idle_since};
    assert_eq!(idle_since(900, Span::ZERO), 900);
    assert_eq!(idle_since(900, MEMORY), 450);
    assert!(idle_since(1000, Span::from_secs(1)) < 10);
}
