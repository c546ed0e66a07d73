use super::Timeline;
use crate::queue::Event;
use crate::trace::{Level, Trace};

/// A run whose end is put off goes on with the event at which it stopped.
#[test]
fn an_event_behind_the_end_stays() {
    let mut time = Timeline::new(1, Trace::new(Level::Hash, 1));
    time.at(10, Event::Heal);
    assert!(time.next(9).is_none());
    assert_eq!((time.now(), time.events()), (0, 0));
    assert!(matches!(time.next(10), Some(Event::Heal)));
    assert_eq!((time.now(), time.events()), (10, 1));
    assert!(time.next(u64::MAX).is_none());
}
