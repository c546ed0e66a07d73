//! Clusters that verify results, while commands race and liars tell false tokens and order false rulings. All come to the same state.

use quorate_order::Protocol;
use quorate_sim::{Level, Plan, Profile, World};
use quorate_types::FaultModel;

/// Gives in how many runs commands raced.
fn all_are_clean(profile: &Profile, seeds: std::ops::Range<u64>) -> usize {
    let mut raced = 0;
    for seed in seeds {
        let plan = Plan::new(seed, &Profile { verify: true, ..*profile });
        raced += usize::from(plan.verified.is_some_and(|verifying| verifying.races > 0));
        let report = World::new(plan, Level::Hash).run();
        assert!(report.failure.is_none(), "seed {seed}: {:?}", report.failure);
    }
    raced
}

#[test]
fn whatever_races_one_result_is_final() {
    let raced = all_are_clean(&Profile::default(), 1..40);
    assert!(raced > 5, "commands raced in {raced} runs");
    all_are_clean(&Profile { instances: Some(4), ..Profile::default() }, 100..112);
    all_are_clean(&Profile { ordered: true, ..Profile::default() }, 200..212);
    all_are_clean(&Profile { late: true, ..Profile::default() }, 300..312);
    all_are_clean(&Profile { protocol: Some(Protocol::MOD_SMART), ..Profile::default() }, 400..412);
}

#[test]
fn where_replicas_lie_about_results_it_is_the_same() {
    all_are_clean(&Profile { fault_model: Some(FaultModel::Byzantine), ..Profile::default() }, 500..520);
}
