//! Clients that put tags under their requests and send to the leader first, with replicas that lie and without.

use crate::count::seeds;
use quorate_sim::{Level, Plan, Profile, World};
use quorate_types::FaultModel;

fn plan(seed: u64, calm: bool) -> Plan {
    let usual =
        Profile { fault_model: Some(FaultModel::Byzantine), instances: Some(1), ..Profile::default() };
    let profile =
        if calm { Profile { replicas: Some(4), faults: false, liars: Some(0), ..usual } } else { usual };
    let mut plan = Plan::new(seed, &profile);
    (plan.signs, plan.tags) = (false, true);
    if calm {
        // There is room for whatever is asked, and nobody lies.
        (plan.admission, plan.in_flight, plan.sessions) = ((1024, 1 << 20), (4, 64 << 10), (60_000, 1024));
        plan.lying_clients.clear();
        plan.rotate_after = 0;
    }
    plan
}

/// The requests that replicas got of clients, about, and the highest view.
fn run(plan: Plan) -> (usize, u64) {
    let mut world = World::new(plan, Level::All);
    let report = world.run();
    assert!(report.failure.is_none(), "seed {}: {:?}", report.seed, report.failure);
    let text = world.trace().text();
    let views = text.lines().filter_map(|line| {
        let view = line.split_once("Leader { view: ")?.1;
        view.split(',').next()?.parse().ok()
    });
    let frames = text.lines().filter(|line| line.contains("send") && line.contains("Requests")).count();
    (frames, views.max().unwrap_or(0))
}

/// What only the leader gets is vouched for by the others, and hardly sent to them.
#[test]
fn what_only_the_leader_gets_is_vouched_for() {
    let (mut tagged, mut all) = (0, 0);
    for seed in 1..=12 {
        let (frames, view) = run(plan(seed, true));
        let (to_all, usual) = run(Plan { tags: false, ..plan(seed, true) });
        assert!(view <= usual, "seed {seed}: no leader gives way for it");
        (tagged, all) = (tagged + frames, all + to_all);
    }
    assert!(tagged * 2 < all, "{tagged} frames of requests, and {all} when all get them");
}

#[test]
fn with_faults_and_liars_nothing_is_lost() {
    for seed in 1..=seeds(15) {
        run(plan(seed, false));
    }
}
