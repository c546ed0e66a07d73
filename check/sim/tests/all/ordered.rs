//! Clusters in which most replicas run commands side by side, and the others one after the other. All come to the same state.

use crate::clean;
use quorate_order::Protocol;
use quorate_sim::{ExecutorKind, Profile};
use quorate_types::FaultModel;

fn all_are_clean(profile: &Profile, seeds: std::ops::Range<u64>) {
    let profile = Profile { executor: ExecutorKind::Ordered, ..*profile };
    clean::all_are_clean(&profile, seeds, |plan| assert!(plan.executor.is_some()));
}

#[test]
fn who_runs_commands_side_by_side_comes_to_the_same_state() {
    all_are_clean(&Profile::default(), 1..40);
    all_are_clean(&Profile { instances: Some(4), ..Profile::default() }, 100..112);
    all_are_clean(&Profile { protocol: Some(Protocol::MOD_SMART), ..Profile::default() }, 200..212);
}

#[test]
fn where_replicas_lie_it_is_the_same() {
    all_are_clean(&Profile { fault_model: Some(FaultModel::Byzantine), ..Profile::default() }, 300..312);
}

/// A leader that leads for one slot answers what was decided while it led, although that is delivered only afterwards.
#[test]
fn a_client_is_answered_however_short_each_leader_leads() {
    all_are_clean(&Profile { protocol: Some(Protocol::MOD_SMART), ..Profile::default() }, 900_309..900_310);
}

/// A leader whose replica has not delivered what was decided before it led extends the time of that, and not its own.
#[test]
fn time_does_not_catch_up_while_delivery_waits_for_execution() {
    all_are_clean(&Profile { protocol: Some(Protocol::MOD_SMART), ..Profile::default() }, 50_034..50_035);
}
