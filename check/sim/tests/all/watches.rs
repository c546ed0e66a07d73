//! Watches at replicas that crash, lag and jump: INV-SIM-WATCH, and that there is something to judge.

use quorate_order::Protocol;
use quorate_sim::{Level, Plan, Profile, World};
use quorate_types::FaultModel;

/// How many events watches got in these runs.
fn run(seeds: std::ops::RangeInclusive<u64>, profile: &Profile) -> u64 {
    let run = |seed| {
        let mut plan = Plan::new(seed, profile);
        plan.service.watched = true;
        let mut world = World::new(plan, Level::Hash);
        let report = world.run();
        assert_eq!(report.failure, None, "seed {seed}");
        world.watched_events()
    };
    seeds.map(run).sum()
}

#[test]
fn watches_see_each_event_once_and_in_time() {
    assert!(run(1..=40, &Profile::default()) > 10_000);
}

#[test]
fn watches_see_each_event_once_with_mod_smart() {
    let profile = Profile { protocol: Some(Protocol::MOD_SMART), ..Profile::default() };
    assert!(run(1..=20, &profile) > 1_000);
}

#[test]
fn watches_see_each_event_once_although_some_lie() {
    let profile = Profile { fault_model: Some(FaultModel::Byzantine), ..Profile::default() };
    assert!(run(1..=20, &profile) > 1_000);
}
