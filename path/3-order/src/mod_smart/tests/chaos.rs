//! Random schedules: a phase in which everything goes wrong and nothing wrong may be decided, then healing, after which everything
//! that was asked for is decided by all.

use super::liars::{How, Lies};
use super::world::{Plan, World, replica};
use crate::mod_smart::ModSmartConfig;
use crate::{Input, Order};
use quorate_types::Span;

/// So small that decided slots have to be read back.
fn tight(config: ModSmartConfig) -> ModSmartConfig {
    ModSmartConfig { cache_bytes: 300, ..config }
}

/// Everything happens within the time-outs.
pub(super) fn hasty(config: ModSmartConfig) -> ModSmartConfig {
    let (heartbeat, timeout) = (Span::from_millis(4), Span::from_millis(12));
    ModSmartConfig {
        heartbeat,
        timeout,
        repeat: Span::from_millis(6),
        timeout_max: Span::from_millis(200),
        ..tight(config)
    }
}

fn memory(config: ModSmartConfig) -> ModSmartConfig {
    ModSmartConfig { reload: false, ..config }
}

pub(super) fn seeds(default: u64) -> std::ops::Range<u64> {
    let count = std::env::var("QUORATE_SEEDS").ok().and_then(|count| count.parse().ok());
    0..count.unwrap_or(default)
}

/// One thing goes wrong, or right again.
fn mischief(world: &mut World) {
    let members = world.members() as u64;
    let (one, other) = (world.random.below(members) as usize, world.random.below(members) as usize);
    let one = if world.is_retired(one) { world.current()[0] } else { one };
    match world.random.below(13) {
        0 | 1 => {
            let hurt = (0..world.members()).find(|at| world.is_up(*at) && world.has_unsynced(*at));
            let victim = hurt.unwrap_or(one);
            if world.is_up(victim) {
                world.crash(victim);
                if world.random.below(2) == 0 {
                    world.start(victim);
                }
            }
        }
        2 | 3 => {
            if !world.is_up(one) {
                world.start(one);
            }
        }
        4 => {
            world.cut.insert((one, other));
        }
        5 => {
            for peer in 0..world.members() {
                world.cut.insert((one, peer));
                world.cut.insert((peer, one));
            }
        }
        6 | 7 => world.cut.clear(),
        8 => world.connection(one, other, false),
        9 => {
            let target = (world.random.below(2) == 0).then(|| replica(other));
            world.step(one, Input::Transfer(target));
        }
        10 => world.delay_max = Span::from_millis(1 + world.random.below(4) * world.random.below(30)),
        11 => world.sync_max = Span::from_millis(1 + world.random.below(3) * world.random.below(100)),
        _ => world.lost = world.random.below(3) * world.random.below(150),
    }
}

/// Checkpoints are made, and what they hold is forgotten.
fn keep_house(world: &mut World) {
    let at = world.random.below(world.members() as u64) as usize;
    if !world.is_up(at) {
        return;
    }
    match world.random.below(4) {
        0 | 1 => {
            let slot = (world.decided_at(at) as u64).saturating_sub(world.random.below(4));
            world.checkpoint(at, slot);
        }
        _ => world.forget(at),
    }
}

/// Replicas execute that the membership changes, or that it has.
fn come_and_go(world: &mut World) {
    match world.random.below(8) {
        0 => world.order_change(),
        1 => world.retire(),
        2 | 3 => {
            let at = world.random.below(world.members() as u64) as usize;
            world.tell_change(at);
        }
        _ => {}
    }
}

/// Gives the world as it is at the end. The first replicas lie, each as it is told.
pub(super) fn schedule(seed: u64, plan: Plan, hows: &[How]) -> World {
    let context = format!("seed {seed}, {} members, {hows:?}", plan.members);
    let mut world = World::new(seed, plan);
    if plan.model.few_are_slow() {
        // Until something was decided few do not go on: it takes all but the slow ones once.
        world.ask(50);
        assert!(world.run_until(Span::from_secs(10), |world| world.pending.is_empty()), "{context}");
    }
    for (at, how) in hows.iter().enumerate() {
        // Views begin with member 1 as leader.
        let at = (at + seed as usize) % plan.members;
        world.lies[at] = Some(Lies::new(*how, at, &world));
    }
    world.doubled = world.random.below(2) * 30;
    let millis = if (plan.configure)(ModSmartConfig::new(replica(0), vec![replica(0)], plan.model, 0)).timeout
        < Span::from_millis(100)
    {
        12
    } else {
        120
    };
    for round in 0..60 {
        let span = world.random.below(millis);
        world.run(Span::from_millis(span));
        for _ in 0..world.random.below(3) {
            let size = world.random.below(300) as usize;
            world.ask(size);
        }
        if world.random.below(3) == 0 {
            mischief(&mut world);
        }
        if world.random.below(3) == 0 {
            keep_house(&mut world);
        }
        if plan.changes {
            come_and_go(&mut world);
        }
        if round % 10 == 0 {
            world.check();
        }
    }
    world.heal();
    world.tell_everybody();
    let before = world.decided.len();
    for _ in 0..3 {
        world.ask(100);
    }
    let done = world.run_until(Span::from_secs(60), World::is_done);
    assert!(done, "not everything is decided, {context}: {}", world.describe());
    assert!(world.decided.len() >= before + 3, "{context}");
    world.check();
    world
}

#[test]
fn three_replicas_survive_crashes() {
    seeds(150).for_each(|seed| drop(schedule(seed, Plan::crash(3), &[])));
}

#[test]
fn five_replicas_survive_crashes() {
    seeds(60).for_each(|seed| drop(schedule(seed, Plan::crash(5), &[])));
}

#[test]
fn a_replica_alone_survives_crashes() {
    seeds(30).for_each(|seed| drop(schedule(seed, Plan::crash(1), &[])));
}

#[test]
fn four_of_even_number_survive_crashes() {
    seeds(60).for_each(|seed| drop(schedule(seed, Plan::crash(4), &[])));
}

#[test]
fn four_honest_replicas_survive_crashes() {
    seeds(100).for_each(|seed| drop(schedule(seed, Plan::byzantine(4), &[])));
}

/// Clusters that grow and shrink, also to others than those that began; who left is switched off as soon as the new ones are there.
fn changes(plan: Plan, count: u64, hows: &[How]) -> (u64, u64) {
    let mut sum = (0, 0);
    for seed in seeds(count) {
        let world = schedule(seed, Plan { changes: true, ..plan }, hows);
        sum = (sum.0 + world.changes.done, sum.1 + world.changes.removed);
    }
    sum
}

#[test]
fn changes_of_membership_survive_crashes() {
    let mut sum = (0, 0);
    for members in [1, 3, 4, 5] {
        let (done, removed) = changes(Plan::crash(members), 60, &[]);
        sum = (sum.0 + done, sum.1 + removed);
    }
    for configure in [tight as fn(ModSmartConfig) -> ModSmartConfig, hasty] {
        let (done, removed) = changes(Plan { configure, ..Plan::crash(3) }, 60, &[]);
        sum = (sum.0 + done, sum.1 + removed);
    }
    assert!(sum.0 > 500 && sum.1 > 200, "{sum:?} changes done, and replicas removed");
}

#[test]
fn changes_of_membership_survive_crashes_where_replicas_may_lie() {
    let (done, removed) = changes(Plan::byzantine(5), 60, &[]);
    assert!(done > 60 && removed > 20, "{done} changes, {removed} replicas removed");
}

#[test]
fn little_memory_and_short_time_outs_are_survived() {
    for configure in [tight as fn(ModSmartConfig) -> ModSmartConfig, hasty] {
        for plan in [Plan::crash(3), Plan::byzantine(4)] {
            seeds(50).for_each(|seed| drop(schedule(seed, Plan { configure, ..plan }, &[])));
        }
    }
}

#[test]
fn without_a_disk_to_read_from_all_stays_in_memory() {
    let plan = Plan { configure: memory, ..Plan::byzantine(4) };
    let mut world = World::new(1, plan);
    for _ in 0..40 {
        world.ask(100);
    }
    assert!(world.run_until(Span::from_secs(5), World::is_done));
    assert!((0..4).all(|at| world.order(at).deadline().is_some()));
}

/// With the signatures of real clusters.
#[test]
fn real_signatures_serve_as_well() {
    let plan = Plan { real: true, ..Plan::byzantine(4) };
    seeds(2).for_each(|seed| drop(schedule(seed, plan, &[])));
    // Whoever signs with another key is nobody.
    let world = schedule(0, plan, &[How::Boasting]);
    assert!(world.evidence > 0 || world.decided.len() > 3);
}

#[test]
fn the_same_seed_gives_the_same_end() {
    let end = |seed| {
        let world = schedule(seed, Plan::byzantine(4), &[How::All]);
        (world.now, world.describe(), world.evidence, world.decided.clone())
    };
    assert_eq!(end(3), end(3));
    assert_ne!(end(3).1, end(4).1);
}
