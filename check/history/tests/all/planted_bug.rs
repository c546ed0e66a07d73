//! A simulated store with a bug put in: the checker must see each, and must not accuse the store without one.

use crate::common::{Bug, Load, Rng, simulate};
use quorate_history::linearizability::{self, Verdict};
use quorate_history::report::Conclusion;
use quorate_history::{Budget, History, Options, check, exactly_once};

const LOAD: Load = Load { clients: 8, keys: 2, per_client: 60, unknown_per_mille: 20 };
const SEEDS: u64 = 40;

fn history(seed: u64, bug: Bug) -> History {
    History::from_events(simulate(&mut Rng(seed), LOAD, bug))
}

/// How many of the seeds end in a violation.
fn caught(bug: Bug) -> u64 {
    let is_caught = |seed: &u64| {
        let report = check(&history(*seed, bug), Options::default());
        assert_ne!(report.conclusion, Conclusion::Unknown, "seed {seed}: {report}");
        report.conclusion == Conclusion::Violation
    };
    let count = (0..SEEDS).filter(is_caught).count() as u64;
    println!("{bug:?}: {count} of {SEEDS} seeds");
    count
}

#[test]
fn a_store_without_a_bug_is_never_accused() {
    for seed in 0..SEEDS {
        let report = check(&history(seed, Bug::None), Options::default());
        assert_eq!(report.conclusion, Conclusion::Ok, "seed {seed}: {report}");
    }
}

#[test]
fn stale_reads_are_caught() {
    assert!(caught(Bug::StaleReads) >= SEEDS - 2);
}

#[test]
fn retries_that_are_done_twice_are_caught() {
    assert!(caught(Bug::RepeatsRetries) >= SEEDS / 2);
}

#[test]
fn a_cas_in_two_steps_is_caught() {
    assert!(caught(Bug::CasInTwoSteps) >= SEEDS / 2);
}

/// Seldom on busy keys: a write that is forgotten while others overlap looks as if it had come before them.
#[test]
fn a_forgotten_write_is_caught() {
    assert!(caught(Bug::ForgetsAWrite) >= SEEDS / 8);
}

/// The rules about single writes see a doubled write without the search.
#[test]
fn a_doubled_write_is_caught_without_a_search() {
    let sees = |seed: &u64| {
        let result =
            exactly_once::check(&history(*seed, Bug::RepeatsRetries), exactly_once::Options::default());
        result.faults.iter().any(|fault| fault.rule == exactly_once::Rule::CameBack)
    };
    assert!((0..SEEDS).filter(sees).count() as u64 >= SEEDS / 8);
}

/// One fault among many keys is found, and the explanation names its key and is short.
#[test]
fn the_explanation_names_the_key_and_stays_short() {
    let load = Load { clients: 8, keys: 20, per_client: 400, unknown_per_mille: 10 };
    let history = History::from_events(simulate(&mut Rng(7), load, Bug::StaleReads));
    let result = linearizability::check(&history, Budget::default());
    let Verdict::Violation { key, explanation } = result.verdict else { panic!("{result}") };
    assert!(explanation.key == key && !explanation.operations.is_empty());
    let text = explanation.to_string();
    assert!(text.contains(&key) && text.lines().count() < 50, "{text}");
    assert!(!explanation.longest.is_empty(), "{text}");
}
