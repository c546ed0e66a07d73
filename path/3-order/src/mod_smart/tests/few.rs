//! Where few members are slow: small quorums, the oracle that grants them, and what becomes of them.

use super::chaos::{hasty, schedule, seeds};
use super::liars::{ALL, How, Lies};
use super::world::{Plan, World};
use crate::{Input, Order};
use quorate_types::Span;

/// Asks for some slots, and waits until they are decided.
fn decides(world: &mut World, within: Span) -> bool {
    for _ in 0..3 {
        world.ask(50);
    }
    world.run_until(within, |world| world.pending.is_empty())
}

/// Four members survive two crashes: with three and a majority rule one would be survived.
#[test]
fn half_of_the_members_go_on() {
    let mut world = World::new(1, Plan::visigoth(2, 1, 0));
    assert!(!world.order(0).status().knows_decision);
    assert!(decides(&mut world, Span::from_secs(2)));
    assert!(world.order(0).status().knows_decision);
    assert_eq!(world.oracle.swaps, 0, "three of four answer");
    world.crash(3);
    assert!(decides(&mut world, Span::from_secs(2)));
    assert_eq!(world.oracle.swaps, 0, "three of four still do");
    world.crash(2);
    assert!(decides(&mut world, Span::from_secs(2)), "{}", world.describe());
    assert_eq!(world.oracle.swaps, 1, "one grant lasts");
}

/// The leader is among those that stopped: its successor begins its view with a small quorum.
#[test]
fn a_view_begins_with_half_of_the_members() {
    for seed in 0..20 {
        let mut world = World::new(seed, Plan::visigoth(2, 1, 0));
        assert!(decides(&mut world, Span::from_secs(2)));
        let leader = world.leader().expect("there is one");
        world.crash(leader);
        world.crash((leader + 1) % 4);
        assert!(decides(&mut world, Span::from_secs(20)), "{}", world.describe());
        assert!(world.oracle.swaps > 0);
    }
}

/// More members are slow than assumed: without the oracle both halves would go on.
#[test]
fn two_halves_do_not_both_go_on() {
    for seed in 0..20 {
        let mut world = World::new(seed, Plan::visigoth(2, 1, 0));
        assert!(decides(&mut world, Span::from_secs(2)));
        for (one, other) in [(0, 2), (0, 3), (1, 2), (1, 3)] {
            world.cut.extend([(one, other), (other, one)]);
        }
        decides(&mut world, Span::from_secs(10));
        world.heal();
        assert!(world.run_until(Span::from_secs(20), World::is_done), "{}", world.describe());
    }
}

/// Two of four start and have not met the others since, but another instance has decided something: the usual quorum met.
#[test]
fn half_of_the_members_begin_where_another_instance_has() {
    let mut world = World::new(1, Plan::visigoth(2, 1, 0));
    (0..4).for_each(|at| world.crash(at));
    (0..2).for_each(|at| world.start(at));
    world.connection(0, 1, true);
    (0..2).for_each(|at| world.step(at, Input::Met));
    assert!(decides(&mut world, Span::from_secs(20)), "{}", world.describe());
    assert!(world.oracle.swaps > 0);
}

/// Two of four stop before anything is decided. The others met them.
#[test]
fn half_of_the_members_begin_where_they_met_the_others() {
    let mut world = World::new(1, Plan::visigoth(2, 1, 0));
    (2..4).for_each(|at| world.crash(at));
    assert!(decides(&mut world, Span::from_secs(20)), "{}", world.describe());
    assert!(world.oracle.swaps > 0);
}

/// Two of four start, and have not met the others since: they can not know whether these ask another oracle. Once three were there two are
/// enough; the leader has nothing to propose before its host knows that it leads, and asks all the same.
#[test]
fn half_of_the_members_do_not_begin() {
    let mut world = World::new(1, Plan::visigoth(2, 1, 0));
    (0..4).for_each(|at| world.crash(at));
    (0..2).for_each(|at| world.start(at));
    world.connection(0, 1, true);
    assert!(!decides(&mut world, Span::from_secs(5)));
    assert_eq!(world.oracle.swaps, 0);
    world.start(2);
    for other in [0, 1] {
        world.connection(other, 2, true);
    }
    assert!(world.run_until(Span::from_secs(10), |world| world.pending.is_empty()), "{}", world.describe());
    world.served = false;
    let leader = world.leader().expect("there is one");
    world.crash(leader);
    let settled = |world: &World| {
        let others = (0..3).filter(|at| *at != leader);
        others.into_iter().any(|at| world.order(at).standing().settled)
    };
    assert!(world.run_until(Span::from_secs(20), settled), "{}", world.describe());
    assert!(world.oracle.swaps > 0);
}

/// Without the oracle nothing is decided by few, and nothing is lost.
#[test]
fn without_the_oracle_few_wait() {
    let mut world = World::new(1, Plan::visigoth(2, 1, 0));
    assert!(decides(&mut world, Span::from_secs(2)));
    world.oracle.unreachable = true;
    world.crash(3);
    world.crash(2);
    assert!(!decides(&mut world, Span::from_secs(5)));
    world.start(2);
    assert!(world.run_until(Span::from_secs(20), |world| world.pending.is_empty()), "{}", world.describe());
    assert_eq!(world.oracle.swaps, 0);
}

/// Two stop, come back, and the other two stop: the small quorum of before must bind nobody any more.
#[test]
fn all_count_again_once_all_are_back() {
    for seed in 0..20 {
        let mut world = World::new(seed, Plan::visigoth(2, 1, 0));
        assert!(decides(&mut world, Span::from_secs(2)));
        for (some, others) in [([0, 1], [2, 3]), ([2, 3], [0, 1]), ([0, 3], [1, 2])] {
            others.iter().for_each(|at| world.crash(*at));
            assert!(decides(&mut world, Span::from_secs(20)), "seed {seed} {some:?}: {}", world.describe());
            others.iter().for_each(|at| world.start(*at));
            for (one, other) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
                world.connection(one, other, true);
            }
            // They say when they do, also while nobody leads: from then on nobody who went on is needed.
            let all_count = |world: &World| {
                world.is_done() && (0..4).all(|at| world.order(at).status().small_quorums.is_none())
            };
            assert!(world.run_until(Span::from_secs(20), all_count), "seed {seed}: {}", world.describe());
        }
    }
}

/// A member that comes and goes is no reason to hand over. One that stays, and keeps up, is the next leader.
#[test]
fn who_comes_and_goes_does_not_count_again() {
    let mut world = World::new(1, Plan::visigoth(2, 1, 0));
    assert!(decides(&mut world, Span::from_secs(2)));
    let leader = world.leader().expect("there is one");
    let others: Vec<usize> = (0..4).filter(|at| *at != leader).collect();
    world.crash(others[1]);
    world.crash(others[2]);
    assert!(decides(&mut world, Span::from_secs(2)));
    assert_eq!(world.oracle.swaps, 1);

    let view = world.view(leader);
    world.start(others[2]);
    for _ in 0..10 {
        for other in [leader, others[0]] {
            world.connection(other, others[2], true);
        }
        world.cut.clear();
        world.run(Span::from_millis(100));
        world.cut.extend([(leader, others[2]), (others[2], leader)]);
        world.run(Span::from_millis(800));
    }
    assert_eq!(world.view(leader), view, "{}", world.describe());
    world.cut.clear();
    assert!(world.run_until(Span::from_secs(10), |world| world.view(leader) > view));
    assert!(decides(&mut world, Span::from_secs(2)));
    let next = world.leader().expect("there is one");
    assert!(next != leader && next != others[1], "{}", world.describe());
}

/// Everything goes wrong, more than is assumed: nothing wrong is decided, and once all are well everything is.
#[test]
fn few_survive_random_schedules() {
    for (u, s, o) in [(2, 1, 0), (1, 0, 0), (3, 1, 0), (2, 0, 0)] {
        seeds(40).for_each(|seed| drop(schedule(seed, Plan::visigoth(u, s, o), &[])));
    }
    let hasty = Plan { configure: hasty, ..Plan::visigoth(2, 1, 0) };
    seeds(40).for_each(|seed| drop(schedule(seed, hasty, &[])));
}

/// Five survive two faults, one of which may be a lie: where any two may lie it takes seven.
#[test]
fn three_of_five_go_on() {
    let mut world = World::new(1, Plan::visigoth(2, 1, 1));
    assert!(decides(&mut world, Span::from_secs(2)));
    world.crash(4);
    assert!(decides(&mut world, Span::from_secs(2)));
    assert_eq!(world.oracle.swaps, 0, "four of five answer");
    world.crash(3);
    assert!(decides(&mut world, Span::from_secs(5)), "{}", world.describe());
    assert_eq!(world.oracle.swaps, 1, "one grant lasts");
    let leader = world.leader().expect("there is one");
    world.start(3);
    world.start(4);
    for (one, other) in [(0, 3), (1, 3), (2, 3), (0, 4), (1, 4), (2, 4), (3, 4)] {
        world.connection(one, other, true);
    }
    // Those that were away learn what the three decided, by proofs of a small quorum.
    assert!(world.run_until(Span::from_secs(20), World::is_done), "{}", world.describe());
    world.crash(leader);
    assert!(decides(&mut world, Span::from_secs(20)), "{}", world.describe());
}

/// One of five has stopped, and one takes part just so far that its leader waits for it: the three others go on.
#[test]
fn who_votes_by_halves_stops_nobody() {
    for (liar, seed) in (0..4).flat_map(|liar| (0..20).map(move |seed| (liar, seed))) {
        let mut world = World::new(seed, Plan::visigoth(2, 1, 1));
        assert!(decides(&mut world, Span::from_secs(2)));
        world.lies[liar] = Some(Lies::new(How::HalfVotes, liar, &world));
        world.crash(4);
        for _ in 0..3 {
            let done = decides(&mut world, Span::from_secs(4));
            assert!(done, "liar {liar}, seed {seed}: {}", world.describe());
        }
    }
}

/// As many stop as may, and the one that lies does not answer, or in any other way: the others go on.
#[test]
fn few_survive_liars() {
    for how in ALL {
        for (u, s, o) in [(2, 1, 1), (3, 1, 1), (3, 2, 2)] {
            seeds(2).for_each(|seed| drop(schedule(seed, Plan::visigoth(u, s, o), &[how])));
        }
    }
    let hasty = Plan { configure: hasty, ..Plan::visigoth(2, 1, 1) };
    for how in ALL {
        seeds(2).for_each(|seed| drop(schedule(seed, hasty, &[how])));
    }
}
