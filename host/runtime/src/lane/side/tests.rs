use super::super::neighbor::join;
use super::super::{Sleeper, WAKER};
use super::Side;
use mio::{Poll, Waker};
use quorate_types::{Span, Time};
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn sleeper() -> Sleeper {
    let poll = Poll::new().expect("an event queue");
    Sleeper::new(Arc::new(Waker::new(poll.registry(), WAKER).expect("a waker")))
}

/// A lane measures itself at the end of each turn: while it sleeps, nobody but the main lane knows that it does nothing.
#[test]
fn a_lane_that_sleeps_is_less_busy_from_moment_to_moment() {
    let (neighbor, lane) = join(&sleeper(), &[sleeper()], false).pop().expect("a lane");
    let side = Side { lane: 1, neighbor, heard: 0, thread: None };
    let measured = Time::ZERO.plus(Span::from_millis(5));
    lane.shared.busy.store(800, Ordering::Relaxed);
    lane.shared.measured.store(measured.nanos(), Ordering::Relaxed);
    let after = |millis| side.busy(measured.plus(Span::from_millis(millis)));
    assert_eq!([0, 10, 1000].map(after), [800; 3], "its turn goes on");
    lane.sleeper.dozes();
    assert_eq!(after(0), 800);
    assert_eq!(after(10), 400);
    assert!(after(1000) < 10);
    lane.sleeper.woke();
    assert_eq!(after(1000), 800);
}
