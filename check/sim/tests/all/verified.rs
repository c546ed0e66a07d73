//! Clusters that verify results, while commands race and liars tell false tokens and order false rulings. All come to the same state.

use crate::clean;
use quorate_order::Protocol;
use quorate_sim::campaign::run_plan;
use quorate_sim::liars::Trick;
use quorate_sim::{ExecutorKind, Level, Plan, Profile};
use quorate_types::FaultModel;

/// Gives in how many runs commands raced.
fn all_are_clean(profile: &Profile, seeds: std::ops::Range<u64>) -> usize {
    let mut raced = 0;
    clean::all_are_clean(&Profile { verify: true, ..*profile }, seeds, |plan| {
        raced += usize::from(plan.verified.is_some_and(|verifying| verifying.races > 0));
    });
    raced
}

#[test]
fn whatever_races_one_result_is_final() {
    let raced = all_are_clean(&Profile::default(), 1..40);
    assert!(raced > 5, "commands raced in {raced} runs");
    all_are_clean(&Profile { instances: Some(4), ..Profile::default() }, 100..112);
    all_are_clean(&Profile { executor: ExecutorKind::Ordered, ..Profile::default() }, 200..212);
    all_are_clean(&Profile { late: true, ..Profile::default() }, 300..312);
    all_are_clean(&Profile { protocol: Some(Protocol::MOD_SMART), ..Profile::default() }, 400..412);
}

/// Clusters that stood still once: their leaders found no slot for a ruling, or took the slots that others waited for.
#[test]
fn rulings_get_their_slots_and_no_more() {
    let byzantine = Profile { fault_model: Some(FaultModel::Byzantine), ..Profile::default() };
    // No-ops, or borders where each leader has one slot; and instances on lanes of their own.
    for seed in [5281, 5324] {
        all_are_clean(&byzantine, seed..seed + 1);
    }
    // Rulings about the batches of rulings.
    let mod_smart = Profile { protocol: Some(Protocol::MOD_SMART), ..Profile::default() };
    all_are_clean(&mod_smart, 30004..30005);
    // A ruling in the place of a no-op for many slots, and one beyond the window.
    all_are_clean(&Profile::default(), 30113..30114);
    all_are_clean(&Profile { executor: ExecutorKind::Ordered, ..Profile::default() }, 5288..5289);
}

/// A replica is repaired from a checkpoint while decided batches wait behind a border.
#[test]
fn what_waits_behind_a_border_outlives_a_repair() {
    all_are_clean(&Profile::default(), 8_101_840..8_101_841);
}

#[test]
fn where_replicas_lie_about_results_it_is_the_same() {
    all_are_clean(&Profile { fault_model: Some(FaultModel::Byzantine), ..Profile::default() }, 500..520);
}

/// How many of these runs fail where so many of four replicas lie about results, and about nothing else.
fn failures(liars: usize, tricks: &[Trick], seeds: std::ops::Range<u64>) -> usize {
    let of_four = Profile { verify: true, replicas: Some(4), liars: Some(liars), ..Profile::default() };
    let fails = |seed: &u64| {
        let mut plan = Plan::new(*seed, &Profile { fault_model: Some(FaultModel::Byzantine), ..of_four });
        for liar in &mut plan.liars {
            (liar.tricks, liar.often, liar.since) = (tricks.to_vec(), 1000, 0);
        }
        run_plan(plan, Level::Hash).0.failure.is_some()
    };
    seeds.filter(fails).count()
}

/// A client believes two replicas, so it is told what no correct one did.
#[test]
fn one_liar_too_many_about_results_is_seen() {
    for tricks in [&[Trick::Tokens, Trick::FalseRulings][..], &[Trick::Memos], &[Trick::AlwaysRedo]] {
        assert_eq!(failures(1, tricks, 605..609), 0, "{tricks:?}");
        assert_ne!(failures(2, tricks, 605..609), 0, "{tricks:?}");
    }
}
