//! Large histories. The bounds are on steps, which do not depend on the machine; times are printed.

use crate::common::{Bug, Load, Rng, simulate};
use quorate_history::linearizability::{self, Verdict};
use quorate_history::report::Conclusion;
use quorate_history::{Budget, History, Options, Writer, check, check_reader};
use std::time::Instant;

fn accepted_within(load: Load, steps_per_operation: u64) {
    let history = History::from_events(simulate(&mut Rng(1), load, Bug::None));
    let count = history.events().len() as u64;
    let start = Instant::now();
    let result = linearizability::check(&history, Budget::default());
    println!("{count} operations: {} steps, {:?}", result.steps, start.elapsed());
    assert!(matches!(result.verdict, Verdict::Ok), "{result}");
    assert!(result.steps < count * steps_per_operation, "{} steps for {count}", result.steps);
}

#[test]
fn twenty_thousand_operations_over_a_hundred_keys() {
    accepted_within(Load { clients: 30, keys: 100, per_client: 667, unknown_per_mille: 5 }, 20);
}

#[test]
fn twenty_thousand_operations_on_one_hot_key() {
    accepted_within(Load { clients: 30, keys: 1, per_client: 667, unknown_per_mille: 0 }, 300);
}

#[test]
fn a_hot_key_with_unknown_writes() {
    accepted_within(Load { clients: 30, keys: 1, per_client: 200, unknown_per_mille: 5 }, 1000);
}

#[test]
fn two_hundred_thousand_operations_over_a_hundred_keys() {
    accepted_within(Load { clients: 30, keys: 100, per_client: 6667, unknown_per_mille: 2 }, 20);
}

/// Reading and all checks together, as the command line will do it.
#[test]
fn twenty_thousand_lines_through_the_reader() {
    let load = Load { clients: 30, keys: 100, per_client: 667, unknown_per_mille: 5 };
    let mut writer = Writer::new(Vec::new());
    for event in simulate(&mut Rng(2), load, Bug::None) {
        writer.write(&event).expect("a valid event");
    }
    let text = writer.finish().expect("memory does not fail");
    let start = Instant::now();
    let report = check_reader(text.as_slice(), Options::default()).expect("valid lines");
    println!("{} bytes in {:?}\n{report}", text.len(), start.elapsed());
    assert_eq!(report.conclusion, Conclusion::Ok);
}

/// Thirty clients that overlap on one key: no search can try all orders of that in a small budget, but the rules
/// of exactly-once see most doubled writes without one. Nothing of it may pass.
#[test]
fn doubled_writes_on_a_hot_key_are_found_though_the_search_gives_up() {
    let mut found = 0;
    for seed in 0..10 {
        let load = Load { clients: 30, keys: 1, per_client: 100, unknown_per_mille: 2 };
        let history = History::from_events(simulate(&mut Rng(seed), load, Bug::RepeatsRetries));
        let budget = Budget { steps: 300_000, ..Budget::default() };
        let report = check(&history, Options { budget, ..Options::default() });
        assert_ne!(report.conclusion, Conclusion::Ok, "{report}");
        found += u32::from(report.conclusion == Conclusion::Violation);
    }
    assert!(found >= 8, "found in {found} of 10 histories");
}
