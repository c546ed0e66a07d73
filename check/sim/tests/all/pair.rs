//! Two replicas, of which one may stop (Visigoth with u = 1, s = 0, o = 0). Both execute, and compare what commands did.

use crate::clean;
use quorate_sim::plan::Fault;
use quorate_sim::{ExecutorKind, Level, Plan, Profile, World};
use quorate_types::{FaultModel, Visigoth};

fn pair() -> Profile {
    Profile {
        replicas: Some(2),
        fault_model: Some(FaultModel::Visigoth(Visigoth::PAIR)),
        verify: true,
        ..Profile::default()
    }
}

#[test]
fn whatever_happens_to_a_pair_nothing_is_lost() {
    clean::all_are_clean(&pair(), 1..30, |plan| assert!(plan.oracle.is_some()));
    for executor in [ExecutorKind::Ordered, ExecutorKind::Speculative] {
        clean::all_are_clean(&Profile { executor, ..pair() }, 100..112, |_| {});
    }
    // Replicas take the places of others.
    let changes = Profile { replicas: None, changes: Some(true), ..pair() };
    clean::all_are_clean(&changes, 210..216, |_| {});
}

/// A grant once let a log be trimmed while the effects of a protocol's step were under way.
#[test]
fn what_a_grant_sets_going_waits_for_the_end_of_the_turn() {
    let profile = Profile { replicas: None, verify: false, ..pair() };
    clean::all_are_clean(&profile, 10_649..10_650, |_| {});
}

/// Members stop before each instance has decided something. One instance that has shows the others that the members met.
#[test]
fn an_instance_that_has_decided_nothing_goes_on_with_few() {
    let profile = Profile { replicas: None, verify: false, ..pair() };
    for seed in [8_100_650, 8_100_941] {
        clean::all_are_clean(&profile, seed..seed + 1, |_| {});
    }
}

/// One of three members, of which all are a usual quorum, stops for good: before anything is decided, in a cluster made from a backup; or where each
/// leads for one slot.
#[test]
fn who_is_lost_at_once_or_while_leaders_rotate_is_missed_no_longer() {
    let profile = Profile { replicas: None, verify: false, ..pair() };
    for seed in [8_205_964, 8_200_732] {
        clean::all_are_clean(&profile, seed..seed + 1, |_| {});
    }
}

/// Each member leads for one slot, or for three: rulings are proposed all the same.
#[test]
fn leaders_that_lead_for_few_slots_rule() {
    let profile = Profile { replicas: None, ..pair() };
    for seed in [8_100_682, 8_101_216] {
        clean::all_are_clean(&profile, seed..seed + 1, |_| {});
    }
}

/// One that had told something else before was alone, and ruled it.
#[test]
fn whoever_is_alone_does_not_overrule_what_the_other_one_told() {
    let (executor, instances) = (ExecutorKind::Ordered, Some(4));
    let profile = Profile { replicas: None, executor, instances, ..pair() };
    clean::all_are_clean(&profile, 20_261..20_262, |_| {});
}

/// When the last operation of a run is answered in which one of the pair stops for good at the beginning.
fn alone(seed: u64, verify: bool) -> u64 {
    let mut plan = Plan::calm(seed, &Profile { faults: false, verify, ..pair() });
    (plan.workload.operations, plan.heal_at) = (300, 4_000_000_000);
    plan.faults.push((100_000_000, Fault::Lose { who: 0 }));
    let mut world = World::new(plan, Level::Hash);
    let failure = world.run().failure;
    assert!(failure.is_none(), "seed {seed}: {failure:?}");
    world.last_answer()
}

/// The one that is left has nobody to compare with, and waits for nobody.
#[test]
fn whoever_is_left_goes_on_as_fast_as_without_comparing() {
    for seed in 1..=4 {
        let (with, without) = (alone(seed, true), alone(seed, false));
        assert!(with < without * 6 / 5, "seed {seed}: {with} and {without} ns");
    }
}

/// Each instance asks for its own grant. A client goes to the one that is left, although that led one of the instances all along.
#[test]
fn whoever_is_left_of_a_new_pair_goes_on_in_all_instances() {
    // Long enough that nobody is taken for stopped who is not: a pair whose other half then stops would have to wait for it.
    let numbers = Visigoth { t_ms: 300, ..Visigoth::PAIR };
    let fault_model = Some(FaultModel::Visigoth(numbers));
    for seed in 1..=8 {
        let profile = Profile { faults: false, instances: Some(3), fault_model, ..pair() };
        let mut plan = Plan::calm(seed, &profile);
        (plan.workload.operations, plan.heal_at) = (60, 4_000_000_000);
        plan.faults.push((1_000_000_000, Fault::Lose { who: 1 }));
        let failure = World::new(plan, Level::Hash).run().failure;
        assert!(failure.is_none(), "seed {seed}: {failure:?}");
    }
}

/// Without an oracle both halves of a pair go on, if they do not hear each other, which a checker finds.
#[test]
fn without_an_oracle_a_pair_splits() {
    let split = (1..=60).find_map(|seed| {
        let plan = Plan::new(seed, &Profile { oracle: false, ..pair() });
        let failure = World::new(plan, Level::Hash).run().failure;
        failure.filter(|failure| ["agreement", "states"].contains(&failure.checker))
    });
    assert!(split.is_some(), "both halves go on");
}
