use super::Backlog;
use quorate_types::{Span, Time};

const PATIENCE: Span = Span::from_millis(600);

fn at(millis: u64) -> Time {
    Time::ZERO.plus(Span::from_millis(millis))
}

/// At these moments agreed time is so far ahead of execution.
fn seen(times: &[(u64, u64)]) -> Backlog {
    let mut backlog = Backlog::default();
    for (now, behind) in times {
        backlog.look(at(*now), PATIENCE, Span::from_millis(*behind));
    }
    backlog
}

fn gives_way_at(backlog: &Backlog, before: Option<Time>, behind: u64) -> Option<Time> {
    backlog.gives_way_at(before, PATIENCE, Span::from_millis(behind))
}

#[test]
fn who_has_started_and_has_much_to_execute_gives_way() {
    let started = seen(&[(5000, 0), (5100, 0), (5300, 4000), (7000, 5000)]);
    assert_eq!(gives_way_at(&started, None, 5000), Some(Time::ZERO), "at once");
    assert_eq!(gives_way_at(&started, Some(at(7000)), 5000), Some(at(9400)), "then not for a while");
    assert_eq!(gives_way_at(&started, None, 500), None, "it answers soon");
}

#[test]
fn who_was_where_the_others_are_keeps_leading_however_slow_the_service_is() {
    let there = seen(&[(5000, 0), (6300, 20), (9000, 5000)]);
    assert_eq!(gives_way_at(&there, None, 5000), None);
}

#[test]
fn it_is_busy_until_it_is_where_the_others_are() {
    let mut backlog = Backlog::default();
    let mut look = |now, behind| backlog.look(at(now), PATIENCE, Span::from_millis(behind));
    assert_eq!((look(5000, 0), look(5100, 500)), (None, None));
    assert_eq!((look(5200, 4000), look(5300, 5000), look(9000, 400)), (Some(true), None, None));
    assert_eq!((look(9100, 200), look(9200, 5000)), (Some(false), None), "from then on the service is slow");
}

/// Otherwise protocols would never count on it again.
#[test]
fn who_was_busy_before_another_state_came_says_when_it_is_not() {
    let mut backlog = seen(&[(5000, 0), (5200, 4000)]);
    backlog.restart();
    assert_eq!(backlog.look(at(5300), PATIENCE, Span::from_millis(10)), Some(false));
}
