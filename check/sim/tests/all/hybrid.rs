//! Clusters in which fewer lie than are faulty: n = 2u+o+1 replicas, as UpRight and Eve have them.

use quorate_order::Protocol;
use quorate_sim::{Level, Plan, Profile, World};
use quorate_types::{FaultModel, Visigoth};

fn profile(u: u32, o: u32) -> Profile {
    let numbers = Visigoth { u, s: u, o, t_ms: 0 };
    Profile {
        fault_model: Some(FaultModel::Visigoth(numbers)),
        protocol: Some(Protocol::MOD_SMART),
        ..Profile::default()
    }
}

#[test]
fn nothing_is_lost_while_some_lie_and_some_are_gone() {
    for (u, o) in [(2, 1), (1, 1), (2, 0), (3, 1)] {
        let mut liars = 0;
        for seed in 1..=6 {
            let plan = Plan::new(seed, &profile(u, o));
            assert!(plan.replicas as u32 > 2 * u + o, "seed {seed}: {}", plan.summary());
            assert!(plan.liars.len() as u32 <= o, "seed {seed}: {}", plan.summary());
            liars += plan.liars.len();
            let report = World::new(plan, Level::Hash).run();
            assert!(report.failure.is_none(), "u={u}, o={o}, seed {seed}: {:?}", report.failure);
        }
        assert_eq!(liars > 0, o > 0, "u={u}, o={o}");
    }
}

/// Two of six are gone for good, and four go on. Three are not enough.
#[test]
fn as_many_are_enough_as_the_numbers_say() {
    use quorate_sim::plan::Fault;
    for (lost, goes_on) in [(2, true), (3, false)] {
        let mut plan = Plan::calm(1, &Profile { replicas: Some(6), faults: false, ..profile(2, 1) });
        (plan.workload.operations, plan.heal_at) = (60, 4_000_000_000);
        plan.faults.extend((0..lost).map(|who| (100_000_000, Fault::Lose { who })));
        let mut world = World::new(plan, Level::Hash);
        let failure = world.run().failure;
        assert_eq!(failure.is_none(), goes_on, "{lost} lost: {failure:?}");
    }
}
