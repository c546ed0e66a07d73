//! The bugs put back: unit tests find each of them. Only in a build with `--cfg planted`; one test, since a bug is in force in the whole
//! process.

use crate::speculative::planted::a_session_keeps_its_order;
use crate::verify::early::tests::a_token_of_another_view_counts_for_nothing;
use crate::verify::tests::{
    a_new_leader_hears_enough_before_anything_runs_again, nobody_sides_with_one_that_was_wrong,
    results_are_ruled_on_up_to_where_a_quorum_agrees, the_first_token_counts_and_only_that_of_an_executor,
    while_all_are_there_one_that_differs_is_enough_to_run_again,
};

#[test]
#[ignore = "a bug is in force in the whole process: run it alone"]
fn each_bug_is_found() {
    let by: [(&str, fn()); 7] = [
        ("ruling-by-one", results_are_ruled_on_up_to_where_a_quorum_agrees),
        ("past-not-checked", nobody_sides_with_one_that_was_wrong),
        ("non-executor-counts", the_first_token_counts_and_only_that_of_an_executor),
        ("most-are-enough-for-all", while_all_are_there_one_that_differs_is_enough_to_run_again),
        ("redo-of-what-all-told", a_new_leader_hears_enough_before_anything_runs_again),
        ("another-proposal-counts", a_token_of_another_view_counts_for_nothing),
        ("session-in-one-wave", a_session_keeps_its_order),
    ];
    for (bug, test) in by {
        test();
        quorate_types::plant(Some(bug));
        let found = std::panic::catch_unwind(test).is_err();
        quorate_types::plant(None);
        assert!(found, "{bug} is not found");
    }
}
