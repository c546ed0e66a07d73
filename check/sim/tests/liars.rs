//! Clusters that survive Byzantine faults, with replicas and clients that lie.

use quorate_sim::campaign::{Campaign, run};
use quorate_sim::{Profile, Report};
use quorate_types::FaultModel;

fn jobs() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(4)
}

fn failures(profile: Profile, count: u64, failures_max: usize) -> Vec<Report> {
    let campaign = Campaign { profile, first: 1, count, jobs: jobs(), failures_max };
    let summary = run(&campaign, |_, _| {});
    assert!(summary.commands > summary.runs, "the clusters did something: {summary:?}");
    summary.failures
}

/// As many as the cluster survives, and all faults of crashing clusters beside.
#[test]
fn random_seeds_run_clean_with_liars() {
    let profile = Profile { fault_model: Some(FaultModel::Byzantine), ..Profile::default() };
    let told: Vec<String> = failures(profile, 60, 3)
        .iter()
        .map(|report| {
            let (seed, failure) = (report.seed, &report.failure);
            format!("seed {seed}: {failure:?}; repeat: quorate sim --fault-model byzantine --seed {seed}")
        })
        .collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
}

/// One more than the cluster survives: the checkers see it, or they see nothing.
#[test]
fn one_liar_too_many_is_seen() {
    for (replicas, liars) in [(4, 2), (7, 3)] {
        let profile = Profile { replicas: Some(replicas), liars: Some(liars), ..Profile::default() };
        let found = failures(profile, 300, 1);
        assert!(!found.is_empty(), "{liars} liars of {replicas} are not seen");
    }
}
