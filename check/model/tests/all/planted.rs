//! Each bug is found, and its history printed.

use super::{MANY, alive, found};
use quorate_model::{Bounds, Plant, Visigoth, explore};

fn four() -> Bounds {
    Bounds { grants: 1, restarts: 0, ..Bounds::four(&[1, 2], 1) }
}

/// A partition into halves: each half decides.
#[test]
fn grants_that_miss_each_other() {
    for plant in [
        Plant::GrantsUnmet,
        Plant::FloorOfAsker,
        Plant::GrantsPerView,
        Plant::RegisterUnread,
        Plant::SmallUngranted,
    ] {
        let history = found(four().with(plant));
        assert!(history.starts_with("two values are decided in slot 1"), "{history}");
        let grants = history.matches("is granted").count();
        assert_eq!(grants, if plant == Plant::SmallUngranted { 0 } else { 2 }, "{history}");
    }
}

#[test]
fn votes_that_a_restart_forgets() {
    let history = found(Bounds { restarts: 2, ..four() }.with(Plant::VotesForgotten));
    assert!(history.contains("restarts"), "{history}");
}

#[test]
fn a_lock_that_the_leader_overlooks() {
    found(four().with(Plant::LockIgnored));
}

fn five(liar: usize) -> Bounds {
    Bounds { grants: 1, restarts: 0, apart: true, ..Bounds::five(&[1, 2], liar, 1) }
}

/// They share one member, and that one lies.
#[test]
fn grants_that_share_liars_only() {
    found(five(0).with(Plant::SharedByLiars));
}

/// The liar leads the second view, and says that something was decided there.
#[test]
fn a_floor_that_nobody_proves() {
    let history = found(five(2).with(Plant::FloorUnproven));
    assert!(history.contains("the floor is 2"), "{history}");
}

/// The liar says that it locked something in view 2, where nobody else was. Three views are needed.
#[test]
fn a_lock_that_only_the_liar_saw() {
    for liar in [0, 1] {
        let bounds = Bounds { grants: 0, leaders: vec![1, 2, 3], ..five(liar) };
        let history = found(bounds.with(Plant::WrittenByOne));
        assert!(history.contains("it must propose y"), "{history}");
    }
}

/// Members that lock what a lying leader proposes, without asking each other, lock different values, and nothing binds any more.
#[test]
fn locks_that_nobody_compared() {
    let bounds = five(1).with(Plant::LockedUnwritten);
    let (world, sets, mut stuck) = (Visigoth::new(bounds.clone()), alive(&bounds), 0);
    let explored = explore(&world, MANY, |state| {
        stuck += sets.iter().filter(|set| matches!(world.goes_on(state, **set), Some(Err(_)))).count();
    });
    assert!(explored.is_ok() && stuck > 0, "{stuck} {explored:?}");
}

/// A leader that restarts and proposes again: members lock different values in one view.
#[test]
fn a_leader_that_proposes_twice() {
    let bounds = Bounds { restarts: 1, values: 2, ..four() }.with(Plant::LeadsAgain);
    let (world, sets, mut stuck) = (Visigoth::new(bounds.clone()), alive(&bounds), 0);
    let explored = explore(&world, MANY, |state| {
        stuck += sets.iter().filter(|set| matches!(world.goes_on(state, **set), Some(Err(_)))).count();
    });
    assert!(explored.is_ok() && stuck > 0, "{stuck} {explored:?}");
}
