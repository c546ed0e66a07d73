//! The arithmetic of prices, against sums by hand.

use super::Shape;
use super::prices::{Costs, PerBatch, Taken, prices};

const LARGE: Taken = Taken { leader_ns: 4_000.0, follower_ns: 1_500.0, calls_per_batch: 100.0 };

fn costs(taken: Taken) -> Costs {
    Costs { bytes: 16, call_bytes: 1000, execute_ns: 500.0, taken }
}

#[test]
fn what_small_batches_cost_more_is_the_price_of_batches() {
    // 99 batches more for 100 calls, and 9.9 and 5.94 us more for each call.
    let small = Taken { leader_ns: 13_900.0, follower_ns: 7_440.0, calls_per_batch: 1.0 };
    let batch = PerBatch::between(LARGE, small);
    assert!((batch.leader_ns - 10_000.0).abs() < 1e-6, "{batch:?}");
    assert!((batch.follower_ns - 6_000.0).abs() < 1e-6, "{batch:?}");
    // Small batches that are no dearer, as when the machine had little time for the large ones, cost nothing.
    let same = PerBatch::between(LARGE, Taken { leader_ns: 3_000.0, ..small });
    assert_eq!(same.leader_ns, 0.0);
}

#[test]
fn prices_add_up_to_what_was_measured() {
    let batch = PerBatch { leader_ns: 9_000.0, follower_ns: 6_000.0 };
    let prices = prices(costs(LARGE), batch, 7.0);
    // A leader has three frames more than a follower.
    assert_eq!((prices.frame, prices.slot, prices.hand), (1_000.0, 4_000.0, 7.0));
    assert_eq!(prices.execute, 500.0);
    // 4000 - 9000 / 100 - 500, and (1500 - 6000 / 100 - 500) / 1000.
    assert!((prices.call - 3_410.0).abs() < 1e-9, "{prices:?}");
    assert!((prices.byte - 0.94).abs() < 1e-9, "{prices:?}");
    let follower = prices.byte * 1000.0 + prices.execute + (2.0 * prices.frame + prices.slot) / 100.0;
    assert!((follower - LARGE.follower_ns).abs() < 1e-6);
}

#[test]
fn no_price_is_below_nothing() {
    let cheap = Taken { leader_ns: 400.0, follower_ns: 300.0, calls_per_batch: 1.0 };
    let prices = prices(costs(cheap), PerBatch { leader_ns: 50.0, follower_ns: 900.0 }, 0.0);
    assert_eq!((prices.call, prices.byte, prices.frame), (0.0, 0.0, 0.0));
}

#[test]
fn shapes_are_instances_and_lanes() {
    let shape = |text: &str| text.parse::<Shape>().ok().map(|shape| (shape.instances, shape.lanes));
    assert_eq!(shape("2/3"), Some((2, 3)));
    assert_eq!(shape("4"), Some((4, 4)));
    assert_eq!((shape("0/1"), shape("65"), shape("a/b"), shape("")), (None, None, None, None));
    assert_eq!(Shape::even(8).to_string(), "8/8");
}
