//! Whether those that are there are refused for ever, while no more is faulty or slow than assumed.

use quorate_model::{Bounds, Gathering, Stopped, explore};

const MANY: usize = 1_000_000;

#[test]
fn whoever_is_there_is_granted_at_last() {
    for bounds in [Bounds::four(&[0, 1, 2], 1), Bounds::five(&[0, 1, 2], 0, 1)] {
        let name = format!("{:?}", bounds.trust);
        let explored = explore(&Gathering::new(bounds, true), MANY, |_| {});
        let explored = explored.unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
        println!("gathering, {name}: {} states", explored.states);
        assert!(explored.states > 10_000);
    }
}

/// A timer that is too short, or a leader that lies where members do not state that the others were silent.
#[test]
fn a_set_that_was_not_waited_for_stops_all_others() {
    for bounds in [Bounds::four(&[0, 1, 2], 1), Bounds::five(&[0, 1, 2], 0, 1)] {
        let wrong = explore(&Gathering::new(bounds, false), MANY, |_| {}).expect_err("they are refused");
        println!("{wrong}");
        assert!(matches!(&wrong, Stopped::Wrong { what, .. } if what.contains("for ever")), "{wrong}");
    }
}
