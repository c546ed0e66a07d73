use super::{Clock, Jumps, MonotonicClock, Steady};
use quorate_types::{Span, Time};

#[test]
fn a_clock_jumps_ahead_and_time_does_not_go_back() {
    let jumps = Jumps::default();
    let clock = jumps.clone().over(MonotonicClock::new());
    let hour = Span::from_secs(3600);
    let before = clock.now();
    jumps.set(3_600_000);
    let ahead = clock.now();
    assert!(ahead.since(before) >= hour && ahead.since(before) < hour.times(2));
    for back in [-3_600_000, -7_200_000, i64::MIN] {
        jumps.set(back);
        let after = clock.now();
        assert!(after.since(ahead) < hour && after.plus(Span::from_millis(100)) > ahead, "{back}");
    }
    jumps.set(3_600_000);
    assert!(clock.now().since(ahead) >= hour, "it jumps ahead of where it is");
}

/// Threads that read the time at once may see it a little out of order; nothing is made of that.
#[test]
fn only_what_is_far_behind_went_back() {
    let steady = Steady::default();
    let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
    assert_eq!(steady.now(at(1000)), at(1000));
    assert_eq!(steady.now(at(900)), at(900));
    assert_eq!(steady.now(at(300)), at(1000), "time goes on from where it was");
    assert_eq!(steady.now(at(310)), at(1010));
    assert_eq!(steady.now(at(2310)), at(3010));
    assert_eq!(MonotonicClock::new().now().since(at(0)).millis() / 1000, 0);
}
