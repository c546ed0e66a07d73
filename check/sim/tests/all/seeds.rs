//! Seeds with all faults, a few of each kind or as many as QUORATE_SEEDS says, and all that ever found something: `seeds.txt`, one line
//! each. Where the word after the seed is `resizes:`, the number of instances changes in that run, too; where it is `changes:`, replicas
//! come and go; where it is `smart:`, they agree by Mod-SMaRt; where it is `byzantine:`, they survive Byzantine faults, and some lie.

use crate::count::seeds;
use quorate_order::Protocol;
use quorate_sim::campaign::{Campaign, run, run_seed};
use quorate_sim::{Level, Profile};
use quorate_types::FaultModel;

fn jobs() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(4)
}

fn clean(profile: Profile, first: u64, count: u64) {
    let campaign = Campaign { profile, first, count, jobs: jobs(), failures_max: 3 };
    let summary = run(&campaign, |_, _| {});
    let told: Vec<String> = summary
        .failures
        .iter()
        .map(|report| {
            let protocol = profile.protocol.unwrap_or_default().name();
            let (seed, failure) = (report.seed, &report.failure);
            format!("seed {seed}: {failure:?}; repeat: quorate sim --protocol {protocol} --seed {seed}")
        })
        .collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
    assert_eq!(summary.runs, count);
    assert!(summary.commands > count, "the clusters did something: {summary:?}");
}

#[test]
fn random_seeds_run_clean() {
    clean(Profile::default(), 1, seeds(50));
}

#[test]
fn random_seeds_run_clean_with_mod_smart() {
    clean(Profile { protocol: Some(Protocol::MOD_SMART), ..Profile::default() }, 1, seeds(50));
}

#[test]
fn changes_of_membership_run_clean_with_mod_smart() {
    let profile = Profile { protocol: Some(Protocol::MOD_SMART), changes: Some(true), ..Profile::default() };
    clean(profile, 1, seeds(30));
}

#[test]
fn the_same_seed_runs_the_same_and_others_do_not() {
    let profile = Profile::default();
    let hash = |seed| run_seed(seed, &profile, Level::Hash).0.hash;
    let mut hashes: Vec<u64> = (1..=6).map(hash).collect();
    assert_eq!(hashes, (1..=6).map(hash).collect::<Vec<_>>(), "a seed decides everything");
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 6, "different seeds run differently");
}

#[test]
fn a_trace_changes_nothing() {
    let profile = Profile::default();
    let (quiet, nothing) = run_seed(7, &profile, Level::Hash);
    let (told, trace) = run_seed(7, &profile, Level::All);
    assert_eq!((quiet.hash, quiet.events), (told.hash, told.events));
    assert!(nothing.lines.is_empty() && trace.text().lines().count() > 100);
}

#[test]
fn seeds_that_found_something_run_clean() {
    for line in include_str!("../../seeds.txt").lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let seed = words.next().and_then(|word| word.parse().ok());
        let seed = seed.unwrap_or_else(|| panic!("seeds.txt: {line:?} begins with no seed"));
        let of = words.next();
        let chosen = |word: &str| (of == Some(word)).then_some(true);
        let profile = Profile {
            protocol: chosen("smart:").map(|_| Protocol::MOD_SMART),
            resizes: chosen("resizes:"),
            changes: chosen("changes:"),
            fault_model: chosen("byzantine:").map(|_| FaultModel::Byzantine),
            ..Profile::default()
        };
        let (report, _) = run_seed(seed, &profile, Level::Hash);
        assert!(report.failure.is_none(), "seed {seed} ({line}): {:?}", report.failure);
    }
}
