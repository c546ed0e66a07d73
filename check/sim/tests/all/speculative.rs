//! Clusters in which commands meet in one memory, since their hints are wrong. Replicas come to different results now and then, crash between a result and its
//! token, and all come to the same state.

use crate::clean;
use quorate_order::Protocol;
use quorate_sim::{ExecutorKind, Profile};
use quorate_types::FaultModel;

fn all_are_clean(profile: &Profile, seeds: std::ops::Range<u64>) {
    let profile = Profile { executor: ExecutorKind::Speculative, ..*profile };
    clean::all_are_clean(&profile, seeds, |plan| {
        assert!(plan.verified.is_some() && plan.executor.is_some_and(|plan| plan.early.is_some()));
    });
}

#[test]
fn whatever_meets_all_come_to_the_same_state() {
    all_are_clean(&Profile::default(), 1..40);
    all_are_clean(&Profile { instances: Some(4), ..Profile::default() }, 100..112);
    all_are_clean(&Profile { protocol: Some(Protocol::MOD_SMART), ..Profile::default() }, 200..212);
}

#[test]
fn where_replicas_lie_it_is_the_same() {
    all_are_clean(&Profile { fault_model: Some(FaultModel::Byzantine), ..Profile::default() }, 300..312);
}

/// With leaders of one slot each, requests that waited for the merge were proposed again and again, and no slot was left for new ones.
#[test]
fn what_is_decided_takes_no_slot_again() {
    let four = Profile { fault_model: Some(FaultModel::Byzantine), replicas: Some(4), ..Profile::default() };
    all_are_clean(&four, 8_207_440..8_207_441);
}

/// Histories in which replicas joined that came to other results than those that had been ruled, and others left.
#[test]
fn who_joins_learns_what_was_ruled_before_others_leave() {
    let mod_smart = Profile { protocol: Some(Protocol::MOD_SMART), ..Profile::default() };
    all_are_clean(&mod_smart, 501_403..501_404);
    all_are_clean(&Profile::default(), 800_804..800_805);
    all_are_clean(&Profile { instances: Some(4), ..Profile::default() }, 520_122..520_123);
    all_are_clean(&Profile { instances: Some(4), ..Profile::default() }, 520_816..520_817);
    let verified = Profile { verify: true, ..Profile::default() };
    clean::all_are_clean(&verified, 540_383..540_384, |plan| assert!(plan.verified.is_some()));
}
