//! Clients in closed loops, and a leader that gathers their requests.

use super::Gathering;
use quorate_types::{Span, Time};
use std::collections::BTreeMap;

/// The work of a leader in a second: how many slots there were, and how many microseconds a request waited and was agreed on, on average.
#[derive(Debug)]
struct Run {
    slots: u64,
    answered: u64,
    mean: u64,
}

const SLOT: u64 = 1000;
const LONG: Span = Span::from_secs(1);

fn at(us: u64) -> Time {
    Time::from_nanos(us * 1000)
}

/// `clients` that ask again `back` microseconds after an answer. At first each asks `apart` microseconds after the one before.
fn run(clients: u64, back: u64, apart: u64, gathers: bool) -> Run {
    let mut gathering = Gathering::default();
    // When each client asks, and since when each waits.
    let mut asks: BTreeMap<(u64, u64), ()> = (0..clients).map(|id| ((id * apart, id), ())).collect();
    let (mut waiting, mut under_way, mut ends) = (Vec::new(), Vec::new(), None);
    let (mut slots, mut answered, mut spent) = (0, 0, 0);
    for now in 0..1_000_000 {
        while let Some(entry) = asks.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((since, id), ()) = entry.remove_entry();
            waiting.push((since, id));
        }
        if ends.take_if(|at| *at <= now).is_some() {
            for (since, id) in under_way.drain(..) {
                (answered, spent) = (answered + 1, spent + now - since);
                asks.insert((now + back, id), ());
            }
        }
        if ends.is_some() {
            continue;
        }
        let count = waiting.len() as u32;
        gathering.idle(at(now), count);
        if count > 0 && !(gathers && gathering.waits(at(now), count, LONG)) {
            gathering.proposed(at(now), count);
            ends = Some(now + SLOT);
            under_way.append(&mut waiting);
            slots += 1;
        }
    }
    Run { slots, answered, mean: spent / answered.max(1) }
}

#[test]
fn one_client_never_waits() {
    for back in [10, 900, 5000] {
        let (alone, gathered) = (run(1, back, 0, false), run(1, back, 0, true));
        assert_eq!((gathered.mean, gathered.answered), (alone.mean, alone.answered));
    }
}

#[test]
fn clients_that_come_back_soon_share_slots() {
    // Without gathering, two groups of clients take turns: each waits for the other's slot.
    let (before, gathered) = (run(100, 200, 7, false), run(100, 200, 7, true));
    assert!(gathered.slots < before.slots, "{gathered:?}, without waiting {before:?}");
    assert!(gathered.answered > before.answered * 3 / 2, "{gathered:?}, without waiting {before:?}");
    assert!(gathered.mean < before.mean * 2 / 3, "{gathered:?}, without waiting {before:?}");
}

#[test]
fn who_does_not_come_back_in_time_is_hardly_waited_for() {
    for back in [1500, 2500, 20_000] {
        let (before, gathered) = (run(100, back, 7, false), run(100, back, 7, true));
        let most = before.mean + SLOT / 4;
        assert!(gathered.mean <= most, "back after {back}: {gathered:?}, without waiting {before:?}");
    }
}

#[test]
fn a_few_that_stay_away_hold_up_nobody() {
    let mut gathering = Gathering::default();
    gathering.proposed(at(0), 100);
    gathering.idle(at(SLOT), 1);
    assert!(gathering.waits(at(SLOT), 1, LONG), "100 were answered, and will come");
    assert!(gathering.deadline().is_some_and(|until| until <= at(2 * SLOT)));
    assert!(!gathering.waits(at(SLOT + 100), 90, LONG), "nine in ten are there");
    assert_eq!(gathering.deadline(), None);
}

#[test]
fn what_waits_in_vain_waits_less() {
    let mut gathering = Gathering::default();
    let (mut now, mut waits) = (0, Vec::new());
    for _ in 0..8 {
        gathering.proposed(at(now), 10);
        now += SLOT;
        gathering.idle(at(now), 2);
        assert!(gathering.waits(at(now), 2, LONG));
        let until = gathering.deadline().expect("it waits");
        waits.push(until.since(at(now)));
        now = until.nanos() / 1000 + 1;
        assert!(!gathering.waits(at(now), 2, LONG), "only as long as it said");
        gathering.proposed(at(now), 2);
        now += SLOT;
        gathering.idle(at(now), 0);
        assert!(!gathering.waits(at(now), 0, LONG), "nobody is there to wait");
    }
    assert_eq!(waits.first(), Some(&Span::from_nanos(SLOT * 1000)), "as long as a slot takes, at first");
    assert!(waits.windows(2).all(|pair| pair[1] <= pair[0]), "{waits:?}");
    assert!(waits.last().is_some_and(|last| *last <= Span::from_nanos(SLOT * 125)), "{waits:?}");
}

/// A slot that a replica held up, with batches behind it.
#[test]
fn no_wait_is_longer_than_it_may_be() {
    let mut gathering = Gathering::default();
    gathering.proposed(at(0), 10);
    gathering.proposed(at(10), 20);
    gathering.idle(at(900 * SLOT), 1);
    assert!(gathering.waits(at(900 * SLOT), 25, Span::from_millis(2)), "30 were answered, and one waits");
    assert_eq!(gathering.deadline(), Some(at(902 * SLOT)), "not for as long as that took");
    gathering.reset();
    assert!(!gathering.waits(at(901 * SLOT), 1, LONG), "it leads anew");
}
