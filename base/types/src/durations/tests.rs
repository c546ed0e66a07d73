//! Each duration is in the bucket of the first bound that it does not exceed.

use super::*;

#[test]
fn each_duration_is_in_its_bucket() {
    for (nanos, bound_us) in [
        (0, 16),
        (1, 16),
        (16_000, 16),
        (16_001, 32),
        (32_000, 32),
        (32_001, 64),
        (1_000_000, 1024),
        (16_777_216_000, 16_777_216),
    ] {
        let mut durations = Durations::NONE;
        durations.add(Span::from_nanos(nanos));
        let first = durations.buckets().find(|(_, count)| *count == 1).map(|(bound, _)| bound.nanos());
        assert_eq!(first, Some(bound_us * 1000), "{nanos} ns");
        assert_eq!((durations.count(), durations.sum().nanos()), (1, nanos));
    }
}

#[test]
fn what_takes_longest_counts_and_has_no_bound() {
    let mut durations = Durations::NONE;
    for nanos in [16_777_216_001, u64::MAX] {
        durations.add(Span::from_nanos(nanos));
    }
    assert!(durations.buckets().all(|(_, count)| count == 0));
    assert_eq!((durations.count(), durations.sum().nanos()), (2, u64::MAX), "the sum does not overflow");
}

#[test]
fn buckets_add_up() {
    let mut durations = Durations::NONE;
    (0..1000).for_each(|ms| durations.add(Span::from_millis(ms)));
    let counts: Vec<u64> = durations.buckets().map(|(_, count)| count).collect();
    assert!(counts.is_sorted());
    assert_eq!((counts.last().copied(), durations.count()), (Some(1000), 1000));
    let text = serde_json::to_value(durations).unwrap();
    assert_eq!((text["count"].as_u64(), text["sum_s"].as_f64()), (Some(1000), Some(499.5)));
    assert_eq!(text["buckets"][0], serde_json::json!([0.000_016, 1]));
}
