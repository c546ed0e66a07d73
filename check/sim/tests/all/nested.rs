//! Two clusters, of which one asks the other.

use quorate_execute::Schedule;
use quorate_sim::nested::{NestedPlan, run};
use quorate_types::FaultModel::{self, Byzantine, Crash};

fn calm(models: [FaultModel; 2], schedule: Schedule) -> NestedPlan {
    NestedPlan { models, schedule, lies: false, faults: false, clients: 2, moves: 4, ..NestedPlan::new(1) }
}

#[test]
fn money_moves_between_two_clusters_whatever_their_faults() {
    for models in [[Crash, Crash], [Byzantine, Crash], [Crash, Byzantine], [Byzantine, Byzantine]] {
        for schedule in [Schedule::Answered, Schedule::Ring(3)] {
            let ran = run(&calm(models, schedule));
            assert!(ran.as_ref().is_ok_and(|ran| ran.moves == 8 && ran.wrong == 0), "{models:?}: {ran:?}");
        }
    }
}

/// `QUORATE_SEEDS` says how many.
#[test]
fn seeds_are_clean() {
    let count = std::env::var("QUORATE_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(24);
    let first = std::env::var("QUORATE_FIRST").ok().and_then(|first| first.parse().ok()).unwrap_or(1);
    for seed in first..first + count {
        let plan = NestedPlan::new(seed);
        let ran = run(&plan);
        assert!(ran.is_ok(), "seed {seed}: {ran:?} with {plan:?}");
    }
}
