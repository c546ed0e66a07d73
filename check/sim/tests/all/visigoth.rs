//! Clusters in which few members are slow: they go on with fewer members than a majority, as the oracle grants it.

use quorate_sim::plan::Fault;
use quorate_sim::{Level, Plan, Profile, World};
use quorate_types::{FaultModel, Visigoth};

fn profile(u: u32, s: u32, o: u32) -> Profile {
    let numbers = Visigoth { u, s, o, t_ms: 20 };
    Profile { fault_model: Some(FaultModel::Visigoth(numbers)), ..Profile::default() }
}

/// More members are slow than assumed, and the oracle is away for a while: nothing wrong happens, and all goes on in the end.
#[test]
fn nothing_is_lost_whatever_happens() {
    for (u, s, o) in [(2, 1, 0), (3, 1, 0), (1, 0, 0), (2, 1, 1)] {
        for seed in 1..=8 {
            let plan = Plan::new(seed, &profile(u, s, o));
            assert!(plan.oracle.is_some(), "seed {seed}: {}", plan.summary());
            let report = World::new(plan, Level::Hash).run();
            assert!(report.failure.is_none(), "u={u}, s={s}, seed {seed}: {:?}", report.failure);
        }
    }
}

/// More members are slow than assumed, and there is no oracle: both halves go on, which a checker finds.
#[test]
fn without_an_oracle_the_cluster_splits() {
    let split = (1..=60).find_map(|seed| {
        let plan = Plan::new(seed, &Profile { oracle: false, ..profile(2, 1, 0) });
        assert!(plan.oracle.is_none());
        World::new(plan, Level::Hash).run().failure
    });
    let why = format!("{split:?}");
    assert!(why.contains("agreement"), "{why}");
}

/// Within the assumptions nothing is lost without one either: two of four stop, and two go on.
#[test]
fn without_an_oracle_half_of_the_members_are_enough() {
    // A replica that stands still for longer than T counts as one that stopped.
    let numbers = Visigoth { u: 2, s: 1, o: 0, t_ms: 100 };
    for seed in 1..=6 {
        let fault_model = Some(FaultModel::Visigoth(numbers));
        let calm =
            Profile { replicas: Some(4), faults: false, oracle: false, fault_model, ..Profile::default() };
        let mut plan = Plan::calm(seed, &calm);
        (plan.workload.operations, plan.heal_at) = (60, 4_000_000_000);
        plan.faults.extend((0..2).map(|who| (1_000_000_000, Fault::Lose { who })));
        let failure = World::new(plan, Level::Hash).run().failure;
        assert!(failure.is_none(), "seed {seed}: {failure:?}");
    }
}

/// Two of four are gone for good, and two go on. One is not enough.
#[test]
fn half_of_the_members_are_enough() {
    for (lost, goes_on) in [(2, true), (3, false)] {
        for seed in 1..=4 {
            let mut plan =
                Plan::calm(seed, &Profile { replicas: Some(4), faults: false, ..profile(2, 1, 0) });
            (plan.workload.operations, plan.heal_at) = (60, 4_000_000_000);
            plan.faults.extend((0..lost).map(|who| (100_000_000, Fault::Lose { who })));
            let failure = World::new(plan, Level::Hash).run().failure;
            assert_eq!(failure.is_none(), goes_on, "seed {seed}, {lost} lost: {failure:?}");
        }
    }
}

/// Seeds at which a checker once took half of the members for too few.
#[test]
fn half_of_the_members_show_the_time() {
    for seed in [25, 241] {
        let failure = World::new(Plan::new(seed, &profile(2, 1, 0)), Level::Hash).run().failure;
        assert!(failure.is_none(), "seed {seed}: {failure:?}");
    }
}
