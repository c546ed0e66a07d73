use super::{Balance, LOOK, wanted};
use quorate_types::{Span, Time};

fn between(busy: &[u64]) -> Option<(u16, u16)> {
    wanted((1..).zip(busy.iter().copied()))
}

#[test]
fn a_client_goes_from_the_busiest_lane_to_the_one_with_most_time() {
    assert_eq!(between(&[300, 990, 100, 950]), Some((2, 3)));
    assert_eq!(between(&[990, 990]), None, "nobody has time");
    assert_eq!(between(&[800, 10]), None, "nobody has too much to do");
    assert_eq!(between(&[990, 700]), None);
    assert_eq!(between(&[990]), None);
    assert_eq!(between(&[]), None);
}

#[test]
fn lanes_are_compared_now_and_then_whatever_the_clock_does() {
    let mut balance = Balance::default();
    let at = |millis| Time::ZERO.plus(Span::from_millis(millis));
    assert!(balance.is_due(at(1000)));
    assert!(!balance.is_due(at(1001)));
    assert!(balance.is_due(at(1000).plus(LOOK)));
    assert!(balance.is_due(at(5)), "it jumped back");
    assert!(!balance.is_due(at(6)));
}
