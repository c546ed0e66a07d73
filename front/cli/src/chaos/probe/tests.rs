use super::{AROUND_SLOW, Gap, Shared, measure};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

fn at(start: Instant, millis: &[u64]) -> Vec<Instant> {
    millis.iter().map(|millis| start + Duration::from_millis(*millis)).collect()
}

/// The longest gap in milliseconds, once writes flow again.
fn longest(millis: &[u64], fault: u64, now: u64) -> Option<u64> {
    let start = Instant::now();
    let when = |millis: u64| start + Duration::from_millis(millis);
    match measure(&at(start, millis), when(fault), when(now)) {
        Some(Gap::Measured { longest, .. }) => Some(longest.as_millis() as u64),
        _ => None,
    }
}

#[test]
fn writes_that_always_take_long_flow_again() {
    // Replicas 100 ms apart: a write every 200 ms, and a second without any.
    assert_eq!(longest(&[400, 600, 800, 1800, 2000, 2200, 2400], 850, 2410), Some(1000));
    assert_eq!(longest(&[400, 600, 800, 1800], 850, 1900), None);
    // Of one write before nobody can tell how long they take.
    assert_eq!(longest(&[400, 1400, 1600, 1800, 2000, 2200], 450, 2210), None);
}

#[test]
fn slow_writes_are_awaited_before_the_fault_unless_nobody_orders() {
    let shared = Shared::default();
    assert!(shared.knows_the_usual(Duration::ZERO), "without a majority there is nothing to wait for");
    shared.opened.store(true, Ordering::Release);
    assert!(!shared.knows_the_usual(AROUND_SLOW / 2));
    assert!(shared.knows_the_usual(AROUND_SLOW));
    *shared.completed.lock().expect("nobody panicked") = at(Instant::now(), &[200, 400, 600]);
    assert!(shared.knows_the_usual(Duration::ZERO));
}
