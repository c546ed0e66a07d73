use super::Throttle;
use quorate_types::{Span, Time};

#[test]
fn a_few_lines_pass_and_more_later() {
    let mut throttle = Throttle::default();
    let begin = Time::from_nanos(1);
    assert_eq!((0..1000).filter(|_| throttle.allows(begin)).count(), 10);
    let later = begin.plus(Span::from_secs(9));
    assert!(!throttle.allows(later));
    assert_eq!((0..1000).filter(|_| throttle.allows(begin.plus(Span::from_secs(10)))).count(), 10);
}
