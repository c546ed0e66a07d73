//! Few members without an oracle: what holds as long as no more than s are slow, and what happens beyond.

use super::chaos::seeds;
use super::world::{Plan, World, replica};
use crate::Input;
use crate::mod_smart::ModSmartConfig;
use quorate_types::Span;

/// T of these plans, and some more.
const T: u64 = 25;

fn plan(u: u32, s: u32) -> Plan {
    Plan { configure: |config| ModSmartConfig { oracle: false, ..config }, ..Plan::visigoth(u, s, 0) }
}

/// Asks for some slots, and waits until they are decided.
fn decides(world: &mut World, within: Span) -> bool {
    for _ in 0..3 {
        world.ask(50);
    }
    world.run_until(within, |world| world.pending.is_empty())
}

fn counts(world: &World, at: usize) -> bool {
    world.is_up(at) && world.order(at).unaided.counts()
}

/// A new cluster, once all count.
fn world(seed: u64, plan: Plan) -> World {
    let mut world = World::new(seed, plan);
    assert!(decides(&mut world, Span::from_secs(2)));
    let all = |world: &World| (0..plan.members).all(|at| counts(world, at));
    assert!(world.run_until(Span::from_secs(2), all), "{}", world.describe());
    world
}

#[test]
fn half_of_the_members_go_on() {
    let mut world = world(1, plan(2, 1));
    world.crash(3);
    assert!(decides(&mut world, Span::from_secs(2)));
    world.crash(2);
    assert!(decides(&mut world, Span::from_secs(2)), "{}", world.describe());
    assert_eq!(world.oracle.swaps, 0);
}

#[test]
fn a_view_begins_with_half_of_the_members() {
    for seed in 0..20 {
        let mut world = world(seed, plan(2, 1));
        let leader = world.leader().expect("there is one");
        world.crash(leader);
        world.crash((leader + 1) % 4);
        assert!(decides(&mut world, Span::from_secs(20)), "{}", world.describe());
    }
}

/// Before the usual quorum said once who counts, nobody does.
#[test]
fn half_of_the_members_do_not_begin() {
    let mut world = World::new(1, plan(2, 1));
    (2..4).for_each(|at| world.crash(at));
    assert!(!decides(&mut world, Span::from_secs(5)));
    world.start(2);
    for other in [0, 1] {
        world.connection(other, 2, true);
    }
    assert!(world.run_until(Span::from_secs(10), |world| world.pending.is_empty()), "{}", world.describe());
}

/// One that started again does not count before the log says so; then others may stop.
#[test]
fn who_is_back_counts_once_it_was_decided() {
    for seed in 0..20 {
        let mut world = world(seed, plan(2, 1));
        for (gone, next) in [(3, 2), (2, 1), (1, 3)] {
            world.crash(gone);
            assert!(decides(&mut world, Span::from_secs(20)), "{}", world.describe());
            world.start(gone);
            assert!(!counts(&world, gone));
            (0..4).for_each(|at| world.connection(at, gone, true));
            let back = |world: &World| counts(world, gone);
            assert!(world.run_until(Span::from_secs(20), back), "seed {seed}: {}", world.describe());
            world.crash(next);
            assert!(decides(&mut world, Span::from_secs(20)), "seed {seed}: {}", world.describe());
            world.start(next);
            (0..4).for_each(|at| world.connection(at, next, true));
            let back = |world: &World| counts(world, next);
            assert!(world.run_until(Span::from_secs(20), back), "seed {seed}: {}", world.describe());
        }
    }
}

/// One that had no turn for longer than T does not count any more; the leader is told, and proposes it.
#[test]
fn who_was_paused_does_not_count() {
    let mut world = world(1, plan(2, 1));
    world.pause(2, Span::from_millis(2 * T));
    world.step(2, Input::Deadline);
    assert!(!counts(&world, 2), "{}", world.describe());
    assert!(world.run_until(Span::from_secs(5), |world| counts(world, 2)), "{}", world.describe());
}

/// Two of four go on, and one that is back is about to count. It may count elsewhere already, and others may have gone on with it: so a read
/// waits until that is decided here, too.
#[test]
fn no_read_is_confirmed_while_it_may_change_who_counts() {
    let mut world = world(1, plan(2, 1));
    let leader = world.leader().expect("there is one");
    let others: Vec<usize> = (0..4).filter(|at| *at != leader).collect();
    others[1..].iter().for_each(|at| world.crash(*at));
    assert!(decides(&mut world, Span::from_secs(5)));
    let open = |world: &World| {
        let smart = world.order(leader);
        let tally = smart.voting.tallies.get(&smart.core.decided().next());
        let proposal = tally.and_then(|tally| tally.proposal.as_ref());
        proposal.is_some_and(|(_, batch)| smart.core.says_who_counts(batch))
    };
    // The leader's disk takes its time for its vote.
    world.sync_max = Span::from_millis(400);
    world.start(others[1]);
    (0..4).for_each(|at| world.connection(at, others[1], true));
    let mut looked = 0;
    for at in 0..20_000 {
        world.run(Span::from_nanos(100_000));
        if open(&world) {
            world.step(leader, Input::Read(at));
            world.run(Span::from_millis(6));
            looked += u64::from(open(&world));
            assert!(!open(&world) || world.confirmed.is_empty(), "{:?}", world.confirmed);
        }
    }
    assert!(looked > 0, "{}", world.describe());
    world.heal();
    world.run(Span::from_secs(2));
    let leader = world.leader().expect("there is one");
    world.step(leader, Input::Read(0));
    assert!(world.run_until(Span::from_secs(2), |world| !world.confirmed.is_empty()), "{}", world.describe());
}

/// More than s are slow: both halves go on, and decide different values. That is what the oracle prevents.
#[test]
#[should_panic(expected = "decides something else")]
fn beyond_s_both_halves_go_on() {
    for seed in 0..20 {
        let mut world = world(seed, plan(2, 1));
        for (one, other) in [(0, 2), (0, 3), (1, 2), (1, 3)] {
            world.cut.extend([(one, other), (other, one)]);
        }
        for _ in 0..40 {
            world.ask(50);
            world.run(Span::from_millis(500));
        }
    }
}

/// Whom a member is slow towards changes only once nobody waits for answers of before.
fn calm(world: &mut World) {
    world.cut.clear();
    world.run(Span::from_millis(8 * T));
}

/// Each member is slow towards one other at most.
fn slow_pairs(world: &mut World) {
    calm(world);
    let members = world.members();
    let turn = world.random.below(members as u64) as usize;
    let order: Vec<usize> = (0..members).map(|at| (at + turn) % members).collect();
    let apart = 1 + world.random.below(2) as usize;
    let pairs = (0..apart).map(|pair| (order[pair], order[members - 1 - pair]));
    for (one, other) in pairs.filter(|(one, other)| one != other) {
        world.cut.extend([(one, other), (other, one)]);
    }
}

/// This one stops; who was slow towards it is slow towards another one from now on, and still towards one at most.
fn stop_and_be_slow(world: &mut World, at: usize) {
    world.crash(at);
    let partner = world.cut.iter().find(|(one, _)| *one == at).map(|(_, other)| *other);
    world.cut.retain(|(one, other)| *one != at && *other != at);
    let free = |who: &usize| *who != at && world.is_up(*who) && world.cut.iter().all(|(one, _)| one != who);
    let others: Vec<usize> = (0..world.members()).filter(free).collect();
    if let Some(partner) = partner {
        let other = others.into_iter().find(|who| *who != partner);
        other.into_iter().for_each(|other| world.cut.extend([(partner, other), (other, partner)]));
    }
}

/// So many are down, or do not count yet.
fn gone(world: &World) -> usize {
    (0..world.members()).filter(|at| !counts(world, *at)).count()
}

/// Whatever happens within the assumptions, at the worst moments: crashes that come while votes and statements are under way, and slow pairs.
fn within_the_assumptions(seed: u64, u: u32) {
    let often = |config| ModSmartConfig {
        heartbeat: Span::from_millis(10),
        rotate_after: 5,
        ..(plan(2, 1).configure)(config)
    };
    let plan = if seed.is_multiple_of(3) { Plan { configure: often, ..plan(u, 1) } } else { plan(u, 1) };
    let mut world = world(seed, plan);
    // A message, and what its receiver writes, take less than T.
    let (delay, sync) = if seed.is_multiple_of(2) { (2, 4) } else { (8, 9) };
    (world.delay_max, world.sync_max) = (Span::from_millis(delay), Span::from_millis(sync));
    world.doubled = 30;
    let members = world.members() as u64;
    for _ in 0..60 {
        let at = world.random.below(members) as usize;
        match world.random.below(14) {
            0..3 => {
                world.ask(50);
            }
            3..6 if counts(&world, at) && gone(&world) < u as usize => stop_and_be_slow(&mut world, at),
            6 | 7 if !world.is_up(at) => {
                world.start(at);
                (0..members as usize).for_each(|peer| world.connection(peer, at, true));
            }
            8 => slow_pairs(&mut world),
            9 => calm(&mut world),
            10 if world.is_up(at) => world.step(at, Input::Transfer(None)),
            11 if world.is_up(at) => {
                let target = world.random.below(members) as usize;
                world.step(at, Input::Transfer(Some(replica(target))));
            }
            12 if counts(&world, at) && gone(&world) < u as usize => {
                world.pause(at, Span::from_millis(2 * T))
            }
            _ => {}
        }
        let span = world.random.below(4) * world.random.below(3 * T);
        world.run(Span::from_millis(span));
    }
    world.heal();
    assert!(decides(&mut world, Span::from_secs(60)), "seed {seed}: {}", world.describe());
    assert!(world.run_until(Span::from_secs(60), World::is_done), "seed {seed}: {}", world.describe());
    world.check();
}

#[test]
fn within_the_assumptions_nothing_goes_wrong() {
    for u in [2, 3] {
        seeds(60).for_each(|seed| within_the_assumptions(seed, u));
    }
}
