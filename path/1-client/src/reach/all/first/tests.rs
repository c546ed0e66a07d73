//! When the leader is first, by time alone.

use super::First;
use crate::reach::CurrentLeader;
use quorate_types::{Time, View};

const SECOND: u64 = 1_000_000_000;

fn at(tenths: u64) -> Time {
    Time::from_nanos(tenths * SECOND / 10)
}

#[test]
fn it_pauses_for_longer_each_time_and_for_less_when_it_went_well() {
    let mut first = First::new(true);
    assert!(first.is_on(at(0)));
    first.failed(at(0));
    assert!(!first.is_on(at(9)) && first.is_on(at(10)), "a second");
    first.failed(at(5));
    assert!(first.is_on(at(10)), "what was on its way before does not count");
    first.failed(at(11));
    assert!(!first.is_on(at(30)) && first.is_on(at(31)), "two seconds");
    first.failed(at(31 + 20));
    assert!(first.is_on(at(31 + 20 + 10)), "half as long, since it went well for as long");
}

#[test]
fn another_leader_is_not_first_for_a_second() {
    let current = |view, leader| CurrentLeader { view: View::new(view), leader: Some(leader) };
    let mut first = First::new(true);
    first.led(at(0), CurrentLeader::NONE, current(1, 0));
    assert!(first.is_on(at(0)), "of the first one it knows nothing bad");
    first.led(at(5), current(1, 0), current(2, 1));
    assert!(!first.is_on(at(14)) && first.is_on(at(15)));
}

#[test]
fn without_tags_it_never_is() {
    assert!(!First::new(false).is_on(at(1000)));
}
