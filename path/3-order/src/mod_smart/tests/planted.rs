//! Bugs put back: each is found by one of the tests beside this file. Only in a build with `--cfg planted`, and alone, since a bug is in
//! force in the whole process: `RUSTFLAGS="--cfg planted" cargo test -p quorate-order --lib mod_smart::tests::planted -- --ignored`. With
//! `QUORATE_BUG=name` only the bugs whose names hold that.

use super::chaos::schedule;
use super::liars::{ALL, How};
use super::world::Plan;
use super::{
    checkpoints, examine, fetch, founded, keys, members, normal, referee, restart, rotation, rules, stops,
    sync, testimony, weights,
};
use crate::visigoth::tests::{counted, rounds};
use quorate_types::plant;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Whether random schedules see that something is wrong.
fn schedules(plan: Plan, hows: &[How]) {
    (0..3000).for_each(|seed| drop(schedule(seed, plan, hows)));
}

fn byzantine(how: How) {
    schedules(Plan::byzantine(4), &[how]);
}

fn hasty(how: How) {
    schedules(Plan { configure: super::chaos::hasty, ..Plan::byzantine(4) }, &[how]);
}

/// Each bug, with the tests that are to fail.
type Bug = (&'static str, fn());

const BUGS: &[Bug] = &[
    ("visigoth-grants-unmet", || schedules(Plan::visigoth(2, 1, 0), &[])),
    ("visigoth-floor-too-high", || schedules(Plan::visigoth(2, 1, 0), &[])),
    ("visigoth-floor-unproven", referee::only_what_was_decided_raises_the_floor),
    ("visigoth-claim-unsaid", referee::what_nobody_said_is_refused),
    ("visigoth-one-round", rounds::those_that_answered_in_either_round_are_the_set),
    ("visigoth-tag-reused", rounds::those_that_answered_in_either_round_are_the_set),
    ("visigoth-elsewhere-is-gone", rounds::who_is_there_elsewhere_is_not_gone),
    ("visigoth-timer-short", rounds::those_that_answered_in_either_round_are_the_set),
    ("visigoth-counted-at-once", counted::a_member_counts_once_the_log_names_its_tag),
    ("smart-leaves-when-idle", stops::a_leader_that_can_not_finish_hands_over_all_the_same),
    ("smart-change-unwatched", members::a_leader_that_leaves_a_change_out_is_complained_about),
    ("weights-of-other-members", weights::a_slot_is_proven_by_the_weights_of_its_own_membership),
    ("smart-evidence-of-any-view", testimony::accepts_of_two_views_accuse_nobody),
    ("smart-false-writes-unseen", normal::who_writes_what_was_not_proposed_is_told_by_the_leader),
    ("smart-two-faces-unseen", normal::a_leader_with_two_faces_is_told_by_what_others_write),
    ("smart-answers-floods", fetch::a_flood_of_questions_gets_few_answers),
    ("smart-answers-floods", sync::a_flood_of_questions_gets_few_syncs),
    ("smart-stop-data-without-end", sync::what_was_written_in_many_views_fits_into_frames),
    ("smart-same-batches", sync::what_was_written_in_many_views_fits_into_frames),
    ("smart-first-view-is-none", rules::a_lock_of_the_first_view_binds),
    ("smart-first-view-is-none", rules::no_history_of_four_with_a_liar_decides_two_values),
    ("smart-first-view-is-none", rules::no_history_of_three_without_lies_decides_two_values),
    ("smart-first-view-is-none", || schedules(Plan::crash(3), &[])),
    ("smart-writes-counted-as-pairs", rules::one_liar_binds_nothing),
    ("smart-proof-unchecked", fetch::decisions_are_proven),
    ("smart-proof-unchecked", || byzantine(How::FalseDecisions)),
    ("smart-claims-believed", sync::claims_of_decisions_are_shown),
    ("smart-collect-unsigned", sync::a_sync_shows_what_it_says),
    ("smart-collect-of-any-view", sync::statements_that_do_not_hold_are_refused),
    ("smart-sync-unchecked", sync::a_sync_shows_what_it_says),
    ("smart-sync-unchecked", || hasty(How::FalseSync)),
    ("smart-founded-at-zero", founded::a_state_that_all_began_with_needs_no_proof),
    ("smart-founded-at-zero", founded::a_cluster_with_a_state_survives_its_first_leader),
    ("smart-accept-unsigned", normal::accepts_bind_slot_view_value_and_signer),
    ("smart-anybody-proposes", normal::only_the_leader_proposes_and_only_once),
    ("smart-second-proposal", normal::only_the_leader_proposes_and_only_once),
    ("smart-votes-unvouched", examine::nobody_votes_for_what_nobody_vouches_for),
    ("smart-votes-unvouched", || byzantine(How::Unasked)),
    ("smart-last-vote-counts", normal::a_second_vote_counts_for_nothing),
    ("smart-votes-without-end", normal::votes_far_ahead_are_not_kept),
    ("smart-vote-before-sync", || schedules(Plan::crash(3), &[])),
    ("smart-stop-data-before-sync", checkpoints::a_statement_waits_for_what_it_says_of_the_log),
    ("smart-own-vote-before-sync", normal::votes_wait_for_the_disk),
    ("smart-lock-early", || byzantine(How::Equivocate)),
    ("smart-leads-again", stops::a_restarted_leader_does_not_lead),
    ("smart-stops-stand-for-ever", stops::complaints_do_not_stand_for_ever),
    ("smart-view-by-few", stops::where_nobody_lies_who_hears_the_leader_stays),
    ("smart-closed-is-nothing", stops::a_leader_whose_connection_closed_has_a_heartbeat_to_come_back),
    ("smart-late-by-others", stops::who_has_its_turns_late_gives_the_leader_time),
    ("smart-shown-is-not-had", super::liars::who_keeps_a_proof_stops_nobody),
    ("smart-nothing-to-wait-for", stops::who_lacks_the_slot_before_its_view_complains),
    ("smart-join-one", stops::more_than_f_complaints_are_joined),
    ("smart-lifted-keeps-reason", rotation::who_is_lifted_only_joins),
    ("smart-all-have-shifts", rotation::who_failed_is_passed_over),
    ("read-at-once", restart::reads_wait_for_what_was_accepted),
    ("smart-proof-of-any-membership", members::a_slot_is_proven_by_its_own_membership),
    ("smart-old-key", keys::an_old_key_votes_in_no_new_membership),
    ("smart-holds-with-time", members::a_change_with_a_time_beside_it_is_none),
    ("smart-views-go-on", members::a_membership_begins_in_a_view_of_its_own_wherever_its_slot_was_decided),
    ("smart-views-go-on", || schedules(Plan { changes: true, ..Plan::crash(3) }, &[])),
];

#[test]
#[ignore = "a bug is in force in the whole process: run it alone"]
fn every_bug_is_found() {
    let mut missed = Vec::new();
    let wanted = std::env::var("QUORATE_BUG").unwrap_or_default();
    for &(bug, test) in BUGS.iter().filter(|(bug, _)| bug.contains(&wanted)) {
        plant(Some(bug));
        let found = catch_unwind(AssertUnwindSafe(test));
        plant(None);
        match found {
            Ok(()) => missed.push(bug),
            Err(why) => {
                let text = why.downcast_ref::<String>().map(|why| why.chars().take(160).collect::<String>());
                println!("{bug}: {text:?}");
            }
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
    restart::a_vote_is_not_cast_twice();
    checkpoints::the_proof_of_the_last_slot_stays();
    assert_eq!(ALL.len(), 20);
}
