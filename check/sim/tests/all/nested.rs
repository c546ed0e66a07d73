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
            assert!(ran.as_ref().is_ok_and(|ran| ran.moves == 8 && ran.lies == 0), "{models:?}: {ran:?}");
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
        println!("seed {seed}: {ran:?}");
        assert!(ran.is_ok(), "seed {seed}: {ran:?} with {plan:?}");
    }
}

/// With one member of each side that says something else to the other side, what counts is what the others say.
#[test]
fn one_that_lies_to_the_other_side_changes_nothing() {
    for sessions in [1, 3] {
        let ran =
            run(&NestedPlan { lies: true, sessions, ..calm([Byzantine, Byzantine], Schedule::Answered) });
        assert!(ran.as_ref().is_ok_and(|ran| ran.moves == 8 && ran.lies > 0), "{ran:?}");
    }
}

/// A bug is in force in the whole process: run it alone, in a build with `--cfg planted`.
#[test]
#[cfg(planted)]
#[ignore = "a bug is in force in the whole process: run it alone"]
fn each_planted_bug_is_found() {
    for (bug, models) in [("gathering-of-one", [Byzantine, Crash]), ("answer-of-one", [Crash, Byzantine])] {
        let plan = |seed| NestedPlan { lies: true, models, ..NestedPlan::new(seed) };
        assert!((1..10).all(|seed| run(&plan(seed)).is_ok()), "without {bug} all is well");
        quorate_types::plant(Some(bug));
        let found = (1..10).find_map(|seed| run(&plan(seed)).err());
        quorate_types::plant(None);
        println!("{bug}: {found:?}");
        assert!(found.is_some(), "{bug} is not found");
    }
}
