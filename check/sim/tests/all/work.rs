//! Work that takes time: cores against sums by hand, and rates of whole clusters against what their fullest lane allows.

use quorate_sim::work::{Core, Prices, Shape, Work};

const MS: u64 = 1_000_000;
/// A whole core.
const WHOLE: (u64, u64) = (MS, MS);

#[test]
fn a_whole_core_works_without_a_break() {
    let mut core = Core::new(WHOLE, 0);
    assert_eq!(core.work(10, 5 * MS), 5 * MS + 10);
    assert_eq!(core.work(20, 7), 5 * MS + 17, "it begins when what was before is done");
    assert_eq!(core.work(9 * MS, 1), 9 * MS + 1);
    assert_eq!(core.worked(), 5 * MS + 8);
}

#[test]
fn a_core_with_a_share_waits_for_its_next_period() {
    let mut core = Core::new((MS, 20 * MS), 0);
    assert_eq!(core.work(0, MS / 2), MS / 2);
    assert_eq!(core.work(5 * MS, MS), 20 * MS + MS / 2, "half of it in the next period");
    assert_eq!(core.work(30 * MS, 2 * MS), 60 * MS + MS / 2, "half, a whole one, and half");
    // What is left of a period is nothing for the next one.
    assert_eq!(core.work(99 * MS + MS / 2, MS), 100 * MS + MS / 2);
    let mut later = Core::new((MS, 20 * MS), 5 * MS);
    assert_eq!(later.work(0, 2 * MS), 16 * MS, "its period ends 5 ms earlier");
}

/// One instance on one lane, with 64 commands of 16 bytes in a call.
fn shape(prices: Prices) -> Shape {
    let work = Work { prices, quota: (MS, 20 * MS) };
    Shape { instances: 1, lanes: 1, clients: 4, calls: 8, call_bytes: 1064, work }
}

fn close(found: f64, wanted: f64) {
    assert!((found / wanted - 1.0).abs() < 0.05, "{found} rather than {wanted}");
}

/// Work counts when it comes, and may end after what was measured.
fn full(busy: f64) {
    assert!((0.95..1.1).contains(&busy), "{busy}");
}

#[test]
fn one_lane_does_what_its_share_allows() {
    let prices = Prices { call: 40_000.0, execute: 10_000.0, ..Prices::default() };
    let rate = shape(prices).rate(800).expect("a clean run");
    // 50 ms of work in a second, 50 us for each call.
    close(rate.calls_per_s, 1_000.0);
    full(rate.busy.iter().map(|lanes| lanes[0]).fold(0.0, f64::max));
}

#[test]
fn the_fuller_of_two_lanes_is_the_limit() {
    // The first instance stands on the second lane; the main one executes.
    let two = |call, execute| {
        let prices = Prices { call, execute, ..Prices::default() };
        Shape { lanes: 2, ..shape(prices) }.rate(800).expect("a clean run")
    };
    let pillar = two(50_000.0, 10_000.0);
    close(pillar.calls_per_s, 1_000.0);
    let main = two(10_000.0, 50_000.0);
    close(main.calls_per_s, 1_000.0);
    full(main.busy.iter().map(|lanes| lanes[0]).fold(0.0, f64::max));
    assert!(main.busy.iter().all(|lanes| lanes[1] < 0.3), "{:?}", main.busy);
}

#[test]
fn followers_count_bytes() {
    // A byte costs so much that followers are what bounds the cluster.
    let prices = Prices { call: 10_000.0, byte: 94.0, ..Prices::default() };
    let rate = shape(prices).rate(400).expect("a clean run");
    // Calls have 1064 bytes in all, so that a follower takes 100 us for each.
    close(rate.calls_per_s, 500.0);
}

#[test]
fn a_rate_is_the_same_each_time() {
    let prices =
        Prices { call: 9_000.0, byte: 1.0, frame: 2_000.0, slot: 2_000.0, execute: 5_000.0, hand: 1_000.0 };
    let shape = Shape { instances: 4, lanes: 3, clients: 16, ..shape(prices) };
    let rate = shape.rate(300).expect("a clean run");
    assert_eq!(shape.rate(300).expect("a clean run"), rate);
    assert!(rate.calls_per_slot > 0.0);
}
