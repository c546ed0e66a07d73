use super::{Jumps, MonotonicClock};
use quorate_types::Span;

#[test]
fn a_clock_jumps_both_ways_and_goes_on() {
    let jumps = Jumps::default();
    let clock = jumps.clone().over(MonotonicClock::new());
    let hour = Span::from_secs(3600);
    let before = clock.now();
    jumps.set(3_600_000);
    let ahead = clock.now();
    assert!(ahead.since(before) >= hour && ahead.since(before) < hour.times(2));
    jumps.set(-3_600_000);
    let behind = clock.now();
    assert!(before.since(behind) > Span::ZERO && before.since(behind) <= hour);
    assert!(clock.now() >= behind);
    jumps.set(i64::MIN);
    assert!(clock.now() < behind, "as far as it goes");
}
