//! The shrinker leaves out what is not needed. A run that can not finish in its time stands in for a bug.

use quorate_sim::campaign::run_plan;
use quorate_sim::shrink::shrink;
use quorate_sim::{Fault, Level, Plan, Profile};

#[test]
fn a_clean_run_is_not_shrunk() {
    assert!(shrink(&Plan::new(1, &Profile::default()), 10).is_none());
}

#[test]
fn only_the_fault_that_matters_stays() {
    let mut plan = Plan::new(3, &Profile { replicas: Some(3), ..Profile::default() });
    // No time after healing: whoever is late fails. All but a late partition of everybody ends long before.
    plan.bound = 30_000_000;
    plan.workload.operations = 40;
    plan.workload.deadlines = 0;
    plan.faults = (0..12).map(|at| (at * 50_000_000, Fault::Reset { a: 0, b: 1 })).collect();
    let all = (1 << plan.replicas) - 1;
    plan.faults.push((700_000_000, Fault::Partition { group: all, time: u64::MAX / 4 }));
    let shrunk = shrink(&plan, 200).expect("clients that are cut off until the end are late");
    assert!(shrunk.plan.faults.len() <= 1, "{:?}", shrunk.plan.faults);
    assert!(shrunk.runs <= 200);
    let again = run_plan(shrunk.plan, Level::Hash).0;
    assert_eq!(again.hash, shrunk.report.hash, "what is told is what runs");
}
