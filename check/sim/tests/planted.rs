//! Puts each bug back, and finds it: `RUSTFLAGS="--cfg planted" cargo test --release -p quorate-sim --test planted`.
//! A binary of its own: a bug is in force in the whole process, and this takes hours.
#![cfg(planted)]

use quorate_sim::shrink::shrink;
use quorate_sim::{Plan, Profile, planted};

/// Every bug is found within so many seeds; docs/testing.md has the table.
const SEEDS: u64 = 20_000;
/// But those that only tests of their own find: the same page says which tests.
const PINNED: [&str; 13] = [
    "era-before-agreed",
    "era-of-one",
    "lane-not-called-in",
    "late-install",
    "suffix-dropped-at-jump",
    "two-changes-at-once",
    "time-apart",
    "time-of-the-patient",
    "leaders-apart",
    "deadlines-unwatched",
    "claims-outlive-jumps",
    "old-clock-extended",
    "check-of-another",
];

/// One test: the bug in force is the whole process's.
#[test]
fn every_planted_bug_is_found_and_shrinks() {
    let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    for bug in planted::BUGS.iter().filter(|bug| !PINNED.contains(&bug.name)) {
        let found = planted::hunt(*bug, Profile::default(), SEEDS, jobs);
        let Some((checker, seed)) = found.by else { panic!("{} is not found in {SEEDS} seeds", bug.name) };
        println!("{}", planted::line(&found));
        quorate_types::plant(Some(bug.name));
        let plan = Plan::new(seed, &bug.profile(Profile::default()));
        let shrunk = shrink(&plan, 100).unwrap_or_else(|| panic!("{}: seed {seed} fails again", bug.name));
        quorate_types::plant(None);
        assert_eq!(shrunk.report.failure.map(|failure| failure.checker), Some(checker));
        assert!(shrunk.plan.faults.len() <= plan.faults.len());
    }
}
