//! Leaders that rotate, in whole replicas: nobody who asks notices.

use quorate_order::Protocol;
use quorate_sim::{Level, Plan, Profile, World};
use quorate_types::FaultModel;
use std::collections::{BTreeMap, BTreeSet};

fn plan(seed: u64, fault_model: FaultModel, instances: u16, rotate_after: u64) -> Plan {
    let replicas = if fault_model == FaultModel::Crash { 3 } else { 4 };
    let profile = Profile {
        fault_model: Some(fault_model),
        protocol: Some(Protocol::MOD_SMART),
        replicas: Some(replicas),
        instances: Some(instances),
        faults: false,
        liars: (fault_model == FaultModel::Byzantine).then_some(0),
        ..Profile::default()
    };
    let mut plan = Plan::new(seed, &profile);
    // Slots enough for several rounds.
    (plan.admission, plan.in_flight, plan.sessions) = ((1, 1 << 20), (1, 64 << 10), (60_000, 1024));
    plan.lying_clients.clear();
    plan.clients = 3;
    let work = &mut plan.workload;
    (work.operations, work.at_once, work.pause) = (200, 2, 0);
    (work.shares, work.deadlines, work.batch) = ([1, 0, 0, 0, 0, 0, 0, 0], 0, 1);
    plan.rotate_after = rotate_after;
    plan
}

/// The views that began, with their leaders, and how many commands were executed.
fn run(plan: Plan) -> (BTreeMap<u64, BTreeSet<String>>, usize) {
    let mut world = World::new(plan, Level::Events);
    let report = world.run();
    assert!(report.failure.is_none(), "seed {}: {:?}", report.seed, report.failure);
    let mut views = BTreeMap::<u64, BTreeSet<String>>::new();
    for line in world.trace().text().lines() {
        let Some((_, rest)) = line.split_once("Leader { view: ") else { continue };
        let Some((view, rest)) = rest.split_once(", leader: Some(") else { continue };
        let leader = rest.split_once(')').map_or("", |(leader, _)| leader);
        views.entry(view.parse().expect("a number")).or_default().insert(leader.to_owned());
    }
    (views, report.commands)
}

#[test]
fn every_replica_has_its_shift() {
    for model in [FaultModel::Crash, FaultModel::Byzantine] {
        for seed in 1..=5 {
            let (views, commands) = run(plan(seed, model, 1, 5));
            let (usual, as_many) = run(plan(seed, model, 1, 0));
            assert_eq!(commands, as_many, "{model:?}, seed {seed}");
            let replicas = if model == FaultModel::Crash { 3 } else { 4 };
            let leaders: BTreeSet<_> = views.values().flatten().collect();
            assert_eq!(leaders.len(), replicas, "{model:?}, seed {seed}: {views:?}");
            assert!(
                views.len() > usual.len() + 2 * replicas,
                "{model:?}, seed {seed}: {} views",
                views.len()
            );
            assert!(views.values().all(|leaders| leaders.len() == 1), "{views:?}");
        }
    }
}

/// Nothing failed, so no leader takes care (docs/decisions/0018): replicas do not tell each other what their clients asked.
#[test]
fn a_shift_that_is_over_makes_nobody_careful() {
    let told = |rotate_after| {
        let mut world = World::new(plan(1, FaultModel::Byzantine, 1, rotate_after), Level::All);
        let report = world.run();
        assert!(report.failure.is_none(), "{:?}", report.failure);
        let text = world.trace().text();
        let of_replicas = text
            .lines()
            .filter(|line| line.split_whitespace().nth(1).is_some_and(|who| who.starts_with('r')));
        of_replicas.filter(|line| line.contains("send") && line.contains("Requests")).count()
    };
    assert_eq!(told(5), told(0));
}

#[test]
fn with_several_instances_too() {
    for model in [FaultModel::Crash, FaultModel::Byzantine] {
        for seed in 1..=3 {
            let (views, commands) = run(plan(seed, model, 4, 3));
            let (_, as_many) = run(plan(seed, model, 4, 0));
            assert_eq!(commands, as_many, "{model:?}, seed {seed}");
            assert!(views.len() > 4, "{model:?}, seed {seed}: {views:?}");
        }
    }
}

/// Each instance of a new cluster is led by whom it is led by later, so the first views last.
#[test]
fn a_new_cluster_spreads_its_leaders_without_a_change() {
    for (model, replicas) in [(FaultModel::Crash, 3), (FaultModel::Byzantine, 4)] {
        let profile = Profile {
            protocol: Some(Protocol::MOD_SMART),
            instances: Some(4),
            ..Profile::calm(model, replicas)
        };
        let mut plan = Plan::calm(1, &profile);
        (plan.workload.operations, plan.workload.pause) = (40, 400 * 1_000_000);
        let (views, commands) = run(plan);
        assert!(commands > 40, "{commands}");
        assert_eq!(views.keys().collect::<Vec<_>>(), [&1], "{model:?}: {views:?}");
        assert_eq!(views[&1].len(), replicas, "all lead");
    }
}
