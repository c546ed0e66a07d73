use super::{Sleeper, queue};
use mio::{Events, Poll, Token, Waker};
use std::sync::Arc;
use std::time::Duration;

fn sleeper() -> (Poll, Sleeper) {
    let poll = Poll::new().expect("an event queue");
    let waker = Arc::new(Waker::new(poll.registry(), Token(1)).expect("a waker"));
    (poll, Sleeper::new(waker))
}

fn was_woken(poll: &mut Poll) -> bool {
    let mut events = Events::with_capacity(4);
    poll.poll(&mut events, Some(Duration::ZERO)).expect("a look at the events");
    !events.is_empty()
}

#[test]
fn a_turn_goes_as_one_piece_and_counts_until_it_was_worked_off() {
    let (_poll, sleeper) = sleeper();
    let (mut outlet, inlet) = queue(sleeper);
    outlet.flush();
    assert!(inlet.is_empty(), "nothing is no piece");
    outlet.put("a", 10);
    outlet.put("b", 20);
    assert!(inlet.is_empty());
    assert_eq!(outlet.bytes(), 30);
    outlet.flush();
    outlet.put("c", 5);
    outlet.flush();
    assert_eq!(inlet.len(), 2);
    assert_eq!(inlet.take(), Some((vec!["a", "b"], 30)));
    assert_eq!(outlet.bytes(), 35);
    inlet.done(30);
    assert_eq!(outlet.bytes(), 5);
}

#[test]
fn only_who_sleeps_is_woken_and_once() {
    let (mut poll, sleeper) = sleeper();
    let (mut outlet, inlet) = queue(sleeper.clone());
    outlet.put(1, 1);
    outlet.flush();
    assert!(!was_woken(&mut poll), "it is awake and will look");
    sleeper.dozes();
    assert!(!inlet.is_empty(), "it looks once more before it sleeps");
    sleeper.woke();
    drop(inlet.take());
    sleeper.dozes();
    outlet.put(2, 1);
    outlet.flush();
    outlet.put(3, 1);
    outlet.flush();
    assert!(was_woken(&mut poll));
    assert!(!was_woken(&mut poll), "the first piece woke it for both");
}

/// However the two meet, nothing is left lying while the taker sleeps.
#[test]
fn nothing_is_missed_by_a_lane_that_goes_to_sleep() {
    let (mut poll, sleeper) = sleeper();
    let (mut outlet, inlet) = queue(sleeper.clone());
    const COUNT: u32 = 20_000;
    let putter = std::thread::spawn(move || {
        for number in 0..COUNT {
            outlet.put(number, 1);
            outlet.flush();
            if number % 64 == 0 {
                std::thread::yield_now();
            }
        }
        outlet
    });
    let (mut next, mut events) = (0, Events::with_capacity(4));
    while next < COUNT {
        while let Some((list, bytes)) = inlet.take() {
            for number in list {
                assert_eq!(number, next);
                next += 1;
            }
            inlet.done(bytes);
        }
        sleeper.dozes();
        if inlet.is_empty() && next < COUNT {
            // Whoever is forgotten sleeps for ever.
            poll.poll(&mut events, Some(Duration::from_secs(60))).expect("a wait");
            assert!(!events.is_empty(), "it slept for a minute although something was there");
        }
        sleeper.woke();
    }
    assert_eq!(putter.join().expect("the other lane").bytes(), 0);
}
