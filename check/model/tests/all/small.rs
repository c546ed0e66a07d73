//! The right protocol within small bounds: everything that can happen, whatever is slow, and whether it goes on.

use super::{MANY, goes_on_everywhere, search};
use quorate_model::Bounds;

/// Two views that overlap, and every grant that the rule allows.
#[test]
fn four_members_never_decide_two_values() {
    let bounds = Bounds::four(&[1, 2], 1);
    let (mut few, mut raised, mut rebound) = (0, 0, 0);
    search("o=0, two views, all grants", bounds, MANY, |world, state| {
        let decided = world.values(state, 1) != 0;
        let usual = (1..=2)
            .any(|view| state.members.iter().filter(|member| member.locked.get(view, 1) != 0).count() >= 3);
        few += usize::from(decided && !usual);
        raised += usize::from(state.floor == 2);
        rebound += usize::from(decided && state.proposed.get(2, 1) == 1);
    });
    // What the search is for did happen.
    assert!(few > 0 && raised > 0 && rebound > 0, "{few} {raised} {rebound}");
}

/// Three views, one grant in each.
#[test]
fn so_it_is_in_three_views() {
    let bounds = Bounds { grants: 1, restarts: 0, apart: true, ..Bounds::four(&[1, 2, 3], 1) };
    search("o=0, three views", bounds, MANY, |_, _| {});
}

/// A member may be ahead in one slot and behind in the view.
#[test]
fn so_it_is_with_two_slots() {
    let bounds = Bounds { grants: 1, restarts: 0, apart: true, ..Bounds::four(&[1, 2], 2) };
    let mut both = 0;
    search("o=0, two slots", bounds, MANY, |world, state| {
        both += usize::from(world.values(state, 1) != 0 && world.values(state, 2) != 0);
    });
    assert!(both > 0);
}

/// The liar leads the first view, the second one, or none; then there are grants.
#[test]
fn five_members_of_which_one_lies_never_decide_two_values() {
    for (liar, grants) in [(1, 0), (2, 0), (0, 1)] {
        let bounds = Bounds { grants, restarts: 0, apart: true, ..Bounds::five(&[1, 2], liar, 1) };
        let mut decided = 0;
        search(&format!("o=1, {liar} lies"), bounds, MANY, |world, state| {
            decided += usize::from(world.values(state, 1) != 0);
        });
        assert!(decided > 0);
    }
}

/// Whatever happened before: where the oracle grants those that are there, or they are many, their view begins, whatever the liar says.
#[test]
fn whoever_is_granted_goes_on() {
    let four = Bounds { grants: 1, ..Bounds::four(&[1, 2], 1) };
    let five = Bounds { grants: 1, restarts: 0, apart: true, ..Bounds::five(&[1, 2], 0, 1) };
    for (name, bounds) in [("o=0, goes on", four), ("o=1, goes on", five)] {
        assert!(goes_on_everywhere(name, &bounds, MANY) > 1000, "{name}");
    }
}
