//! The bugs put back: the histories of `images.rs` find each of them. Only in a build with `--cfg planted`; one test, since a
//! bug is in force in the whole process.

use crate::nested::{asking, locks, ring, sessions};
use crate::{early, histories, ordered, served, speculative, verified};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use quorate_types::plant;

/// Without a bug all histories agree; with one, some do not.
#[test]
#[ignore = "a bug is in force in the whole process: run it alone"]
fn each_bug_is_found() {
    let mut runner = TestRunner::deterministic();
    let histories: Vec<_> =
        (0..60).map(|_| histories::steps().new_tree(&mut runner).expect("steps").current()).collect();
    assert!(histories.iter().all(|steps| histories::play(steps).is_ok()));
    for bug in ["change-not-recorded", "sessions-outside-digest"] {
        plant(Some(bug));
        let found: Vec<String> = histories.iter().filter_map(|steps| histories::play(steps).err()).collect();
        plant(None);
        println!("{bug}: {} of {}: {:?}", found.len(), histories.len(), found.first());
        assert!(!found.is_empty(), "{bug} is not found");
    }
    for bug in ["run-not-validated", "range-not-validated", "old-version", "void-run-counts"] {
        plant(Some(bug));
        let found = std::panic::catch_unwind(|| ordered::histories(200));
        plant(None);
        let why = found.err().and_then(|why| why.downcast::<String>().ok()).unwrap_or_default();
        assert!(why.contains("seed"), "{bug} is not found by what differs: {why}");
    }
    let histories: [(&str, fn()); 3] = [
        ("meetings-in-ranges-missed", || speculative::histories(100)),
        ("mixer-by-first-fit", || speculative::histories(100)),
        ("token-before-its-memo", || verified::histories(1000)),
    ];
    for (bug, test) in histories {
        plant(Some(bug));
        let found = std::panic::catch_unwind(test);
        plant(None);
        let why = found.err().map(|why| match why.downcast::<String>() {
            Ok(why) => *why,
            Err(why) => why.downcast::<&str>().map(|why| (*why).to_owned()).unwrap_or_default(),
        });
        let why = why.unwrap_or_default();
        println!("{bug}: {why}");
        assert!(why.contains("seed"), "{bug} is not found by what differs: {why}");
    }
    let by: [(&str, fn()); 22] = [
        ("service-level-by-own-program", served::an_old_and_a_new_program_do_the_same),
        ("level-without-migration", served::a_migration_that_fails_leaves_state_and_level),
        ("reply-before-the-ruling", verified::nothing_is_final_before_its_ruling),
        ("read-before-the-ruling", verified::nothing_is_final_before_its_ruling),
        ("border-before-its-ruling", verified::an_image_waits_for_the_rulings_before_it),
        ("old-attempt-counts", verified::a_ruling_of_another_attempt_counts_for_nothing),
        ("false-memo-taken", || verified::histories(600)),
        ("sessions-kept-over-a-rollback", || verified::histories(40)),
        ("foreseen-is-delivered", early::what_was_not_decided_leaves_nothing),
        ("stale-foreseen-stays", early::what_a_new_leader_proposes_runs_on_its_own_past),
        ("token-without-chain", verified::a_token_stands_for_everything_before),
        ("answer-used-when-it-arrives", asking::an_answer_counts_at_its_place),
        ("journal-without-reads", asking::reads_come_from_the_journal),
        ("writes-repeated-by-a-replay", asking::writes_are_not_repeated),
        ("numbers-by-arrival", asking::numbers_follow_who_asks),
        ("lowest-number-by-arrival", asking::the_lowest_number_has_no_answer),
        ("answer-resumes-twice", asking::an_answer_counts_once),
        ("ring-skips-who-waits", || ring::arrivals_change_nothing(60)),
        ("lock-kept-over-a-rollback", locks::a_rollback_frees_locks),
        ("deadlock-unseen", locks::a_deadlock_is_seen),
        ("time-out-by-a-local-clock", asking::a_time_out_is_agreed),
        ("next-request-before-the-one-under-way", sessions::a_session_keeps_its_order),
    ];
    for (bug, test) in by {
        test();
        plant(Some(bug));
        let found = std::panic::catch_unwind(test).is_err();
        plant(None);
        assert!(found, "{bug} is not found");
    }
}
