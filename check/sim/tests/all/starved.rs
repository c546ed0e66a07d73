//! A machine that has too much to do: replicas get little of a core, are slow, all alike, and go on answering.

use quorate_order::Protocol;
use quorate_sim::liars::Trick;
use quorate_sim::plan::{Fault, LEADER, Liar};
use quorate_sim::{Level, Plan, Profile, World};
use quorate_types::FaultModel;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
/// Fault models, each with so many replicas.
const MODELS: [(FaultModel, usize); 2] = [(FaultModel::Byzantine, 4), (FaultModel::Crash, 3)];

/// Clients that ask all the time, of replicas that have a core for a tenth of the time: for a tenth of each `round`. Messages cost time.
/// Without a round they always have one.
fn starved(seed: u64, (fault_model, replicas): (FaultModel, usize), round: Option<u64>) -> Plan {
    let profile = Profile { protocol: Some(Protocol::MOD_SMART), ..Profile::calm(fault_model, replicas) };
    let mut plan = Plan::calm(seed, &profile);
    // The times that a configuration has if it says nothing else.
    (plan.timing, plan.heal_at, plan.bound) = ((80, 300, 600), 60 * SECOND, 120 * SECOND);
    (plan.lanes, plan.costs) = (1, true);
    // What is slow is not over.
    plan.sessions = (60_000, 1024);
    plan.starved = round.map(|round| (round / 10, round));
    let work = &mut plan.workload;
    (work.operations, work.at_once, work.pause) = (60, 1, SECOND);
    plan
}

/// After how many views it ends, and the longest time without a command.
fn run(plan: Plan) -> (u64, u64) {
    let what = format!("{}, {:?}, {:?}", plan.summary(), plan.starved, plan.faults);
    let mut world = World::new(plan, Level::Hash);
    let report = world.run();
    assert_eq!(report.failure, None, "{what}");
    let mut last = 0;
    let gaps = world.agreed_times().iter().map(|(at, _)| at - std::mem::replace(&mut last, *at));
    let (views, gap) = (world.view(), gaps.max().unwrap_or_default());
    println!("{what}: {views} views, nothing for {} ms at most", gap / MS);
    (views, gap)
}

/// Nobody is to blame, and no leader is replaced for it; but for one that began before the others heard it.
fn goes_on(model: (FaultModel, usize), seed: u64) {
    for round in [100 * MS, 300 * MS, SECOND] {
        let (views, gap) = run(starved(seed, model, Some(round)));
        assert!(views <= 2, "{model:?}, seed {seed}: {views} views");
        assert!(gap <= 2 * SECOND + 6 * round, "{model:?}, seed {seed}: nothing for {} ms", gap / MS);
    }
}

#[test]
fn replicas_on_a_tenth_of_a_core_go_on() {
    MODELS.iter().for_each(|model| (1..=3).for_each(|seed| goes_on(*model, seed)));
}

/// A leader that dies is replaced there, too, by the first one whose turn it is.
fn is_replaced(model: (FaultModel, usize), seed: u64) {
    for round in [100 * MS, 300 * MS, SECOND] {
        let mut plan = starved(seed, model, Some(round));
        plan.faults = vec![(15 * SECOND, Fault::Crash { who: LEADER, time: 40 * SECOND })];
        let (views, gap) = run(plan);
        assert!(views <= 3, "{model:?}, seed {seed}: {views} views");
        assert!(gap <= 2 * SECOND + 6 * round, "{model:?}, seed {seed}: nothing for {} ms", gap / MS);
    }
}

#[test]
fn a_leader_on_a_tenth_of_a_core_is_replaced() {
    MODELS.iter().for_each(|model| (1..=3).for_each(|seed| is_replaced(*model, seed)));
}

/// Where replicas have a core, one that floods the others makes them no more patient with a leader whose machine is gone.
#[test]
fn a_flood_makes_nobody_patient() {
    for seed in 1..=2 {
        let mut plan = starved(seed, (FaultModel::Byzantine, 7), None);
        // Two of seven may be gone, or lie.
        (plan.workload.operations, plan.workload.pause) = (700, 20 * MS);
        plan.faults = vec![(5 * SECOND, Fault::Pause { who: LEADER, time: 5 * SECOND })];
        let (_, alone) = run(plan.clone());
        plan.liars = vec![Liar { who: 3, tricks: vec![Trick::Costly], often: 1000, since: 0 }];
        let (_, flooded) = run(plan);
        assert!((300 * MS..700 * MS).contains(&alone), "seed {seed}: nothing for {} ms", alone / MS);
        assert!(flooded < alone + 100 * MS, "seed {seed}: {} ms, and {} ms", alone / MS, flooded / MS);
    }
}

/// Bugs put back: each is found by one of the tests above.
#[cfg(planted)]
#[test]
#[ignore = "a bug is in force in the whole process: run it alone"]
fn every_bug_is_found() {
    use quorate_types::plant;
    let tests: [fn((FaultModel, usize), u64); 2] = [goes_on, is_replaced];
    for test in tests {
        plant(Some("smart-late-by-others"));
        let found = std::panic::catch_unwind(|| test(MODELS[0], 1)).is_err();
        plant(None);
        assert!(found, "smart-late-by-others is not found");
    }
}
