//! Clusters in which parts of replicas have lanes of their own: the gate, the protocols of instances, and the main lane hear of each other
//! late, and clients must not notice.

use quorate_order::Protocol;
use quorate_sim::{Level, Plan, Profile, World};
use quorate_types::FaultModel;
use std::ops::Range;

/// Runs them. In how many the gate has a lane of its own, and in how many protocols have.
fn clean(seeds: Range<u64>, profile: &Profile) -> (usize, usize) {
    let (mut gates, mut groups) = (0, 0);
    for seed in seeds {
        let plan = Plan::new(seed, &Profile { apart: Some(true), ..*profile });
        let placement = plan.apart.expect("parts stand apart").placement;
        gates += usize::from(placement.gate);
        groups += usize::from(placement.groups);
        let report = World::new(plan, Level::Hash).run();
        assert!(report.failure.is_none(), "seed {seed}: {:?}", report.failure);
    }
    (gates, groups)
}

#[test]
fn parts_with_lanes_of_their_own_do_as_one() {
    let (gates, groups) = clean(1..41, &Profile::default());
    assert!(gates > 10 && groups > 10 && gates + groups > 40, "{gates}, {groups}: in some of them both");
}

#[test]
fn so_they_do_where_replicas_lie() {
    clean(1..7, &Profile { fault_model: Some(FaultModel::Byzantine), ..Profile::default() });
}

#[test]
fn so_they_do_with_mod_smart() {
    clean(1..21, &Profile { protocol: Some(Protocol::MOD_SMART), ..Profile::default() });
}

#[test]
fn so_do_instances_that_come_and_go() {
    clean(1..11, &Profile { resizes: Some(true), ..Profile::default() });
}

/// A checkpoint takes the place of the state while the main lane has not heard yet of what a protocol's lane did.
#[test]
fn what_a_lane_did_is_heard_before_a_checkpoint_is_installed() {
    for seed in [2971, 9565] {
        clean(seed..seed + 1, &Profile::default());
    }
}

/// A leader answers by its lease on its own lane, and the main lane hears of it when another replica leads already. That is no mistake: the
/// questions were asked before.
#[test]
fn an_answer_by_a_lease_may_be_heard_late() {
    clean(4550..4551, &Profile::default());
}

/// A replica was stopped for seconds, and its instance's lane had its turn first. The main lane counted the time up to a later deadline of its
/// own.
#[test]
fn the_time_for_which_a_process_was_stopped_does_not_count_on_any_lane() {
    clean(503_188..503_189, &Profile::default());
}

/// A run repeats event for event, however late lanes have their turns.
#[test]
fn a_run_with_lanes_repeats() {
    let run =
        || World::new(Plan::new(5, &Profile { apart: Some(true), ..Profile::default() }), Level::Hash).run();
    assert_eq!(run().hash, run().hash);
}
