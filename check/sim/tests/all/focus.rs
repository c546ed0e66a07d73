//! Runs that are about something: clean, and about that.

use crate::count::seeds;
use quorate_order::Protocol;
use quorate_sim::campaign::{Campaign, run, run_plan};
use quorate_sim::plan::Moment;
use quorate_sim::{Fault, Focus, Level, Plan, Profile, SyncMode};
use quorate_types::FaultModel;

const MS: u64 = 1_000_000;

fn about(focus: Focus) -> Profile {
    Profile { focus: Some(focus), ..Profile::default() }
}

fn clean(profile: Profile, count: u64) {
    let campaign = Campaign { profile, first: 1, count, jobs: 2, failures_max: 3 };
    let summary = run(&campaign, |_, _| {});
    assert!(summary.failures.is_empty(), "{profile:?}: {:?}", summary.failures);
    assert!(summary.commands > count, "the clusters did something: {summary:?}");
}

#[test]
fn whatever_runs_are_about_they_are_clean() {
    for focus in Focus::ALL {
        clean(about(focus), seeds(if focus == Focus::Idle { 4 } else { 8 }));
    }
    clean(Profile { protocol: Some(Protocol::MOD_SMART), ..about(Focus::Votes) }, seeds(8));
    clean(Profile { protocol: Some(Protocol::MOD_SMART), ..about(Focus::Changes) }, seeds(6));
    clean(Profile { fault_model: Some(FaultModel::Byzantine), ..about(Focus::Beginnings) }, seeds(6));
}

#[test]
fn a_focus_is_drawn_now_and_then() {
    for (fault_model, all) in [
        (FaultModel::Crash, vec![Focus::Votes, Focus::Promises, Focus::Changes, Focus::Beginnings]),
        (FaultModel::Byzantine, vec![Focus::Reads, Focus::Idle, Focus::Forges, Focus::Beginnings]),
    ] {
        let profile = Profile { fault_model: Some(fault_model), ..Profile::default() };
        let drawn: Vec<Focus> = (1..=1000).filter_map(|seed| Plan::new(seed, &profile).focus).collect();
        assert!((10..60).contains(&drawn.len()), "{drawn:?}");
        for focus in Focus::ALL {
            assert_eq!(drawn.contains(&focus), all.contains(&focus), "{focus:?} with {fault_model:?}");
        }
        let calm = Profile { faults: false, ..profile };
        assert!((1..=1000).all(|seed| Plan::new(seed, &calm).focus.is_none()));
    }
}

/// Where no seed is drawn for a focus its plan is what it was before there were any.
#[test]
fn only_clusters_that_can_have_a_focus_have_it() {
    let byzantine = Profile { fault_model: Some(FaultModel::Byzantine), ..about(Focus::Votes) };
    assert!(!byzantine.has_focus() && Plan::new(1, &byzantine).focus != Some(Focus::Votes));
    let crash = Profile { fault_model: Some(FaultModel::Crash), ..about(Focus::Reads) };
    assert!(!crash.has_focus());
    let smart = Profile { protocol: Some(Protocol::MOD_SMART), ..about(Focus::Promises) };
    assert!(!smart.has_focus());
    let leases = Profile { fault_model: Some(FaultModel::Byzantine), ..about(Focus::Promises) };
    assert!(!leases.has_focus());
    let unsynced = Profile { sync: Some(SyncMode::Async), ..about(Focus::Votes) };
    let stops = |fault: &Fault| matches!(fault, Fault::Moment(Moment::Voted { .. }));
    assert!((1..100).all(|seed| !Plan::new(seed, &unsynced).faults.iter().any(|(_, fault)| stops(fault))));
    assert!(Focus::ALL.into_iter().all(|focus| about(focus).has_focus()));
}

/// Three replicas, to which only what is planned here happens.
fn three(faults: Vec<(u64, Fault)>) -> Plan {
    let mut plan = Plan::new(1, &Profile { replicas: Some(3), instances: Some(1), ..about(Focus::Votes) });
    (plan.faults, plan.heal_at, plan.restored) = (faults, 3000 * MS, false);
    plan
}

/// When each fault began, by its name.
fn struck(plan: Plan) -> Vec<String> {
    let (report, trace) = run_plan(plan, Level::Events);
    assert_eq!(report.failure, None);
    let lines = trace.lines.iter().filter(|line| line.what == "fault");
    lines.map(|line| line.text.clone()).collect()
}

#[test]
fn a_machine_stops_right_after_it_voted() {
    let voted = Moment::Voted { after: 10, time: 5 * MS, cut: 400 * MS };
    let told = struck(three(vec![(0, Fault::Moment(voted))]));
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[1..].iter().any(|text| text.starts_with("PowerLoss")), "{told:?}");
    assert!(told[1..].iter().any(|text| text.starts_with("Partition")), "{told:?}");
}

#[test]
fn who_begins_to_lead_is_cut_off() {
    let leads = Moment::Leads { after: 10, time: 400 * MS };
    let told = struck(three(vec![(0, Fault::Moment(leads)), (0, Fault::Moment(leads))]));
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(told[2..].iter().all(|text| text.starts_with("Partition")), "{told:?}");
    assert_ne!(told[2], told[3], "another one leads next");
}
