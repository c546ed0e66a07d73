//! Clients that sign and lie: what they say to some replicas only, or sign wrong, costs no leader its office.

use quorate_admit::ChecksAway;
use quorate_sim::liars::clients::ClientTrick;
use quorate_sim::plan::Workers;
use quorate_sim::{Level, Plan, Profile, World};
use quorate_types::FaultModel;

/// Runs of these seeds keep their first leader, while nobody lies.
const CALM: [u64; 8] = [1, 2, 3, 5, 6, 7, 8, 10];
/// Who leads first, as bits.
const LEADER: u64 = 1 << 1;

/// Nothing is wrong but for one client.
fn plan(seed: u64, signs: bool, trick: ClientTrick) -> Plan {
    let profile = Profile {
        fault_model: Some(FaultModel::Byzantine),
        replicas: Some(4),
        faults: false,
        liars: Some(0),
        instances: Some(1),
        ..Profile::default()
    };
    let mut plan = Plan::new(seed, &profile);
    // There is room for whatever is asked: nothing but that client can make a leader late.
    (plan.admission, plan.in_flight, plan.sessions) = ((1024, 1 << 20), (4, 64 << 10), (60_000, 1024));
    // And there is time enough for what was passed on by others.
    plan.timing = (50, 500, 1000);
    (plan.signs, plan.tags, plan.rotate_after) = (signs, false, 0);
    plan.workers = None;
    plan.lying_clients = vec![trick];
    plan.clients += 1;
    plan
}

/// The highest view that anybody was in, and how many commands were executed.
fn run(plan: Plan) -> (u64, usize) {
    let mut world = World::new(plan, Level::Events);
    let report = world.run();
    assert!(report.failure.is_none(), "seed {}: {:?}", report.seed, report.failure);
    let text = world.trace().text();
    let views = text.lines().filter_map(|line| {
        let view = line.split_once("Leader { view: ")?.1;
        view.split(',').next()?.parse().ok()
    });
    (views.max().unwrap_or(0), report.commands)
}

/// It opens its sessions everywhere, and asks all else of the leader only.
#[test]
fn who_tells_the_leader_only_costs_it_nothing_if_it_signs() {
    for seed in CALM {
        let all = run(plan(seed, true, ClientTrick::Only(u64::MAX)));
        assert_eq!(all.0, 1, "seed {seed}");
        let with = run(plan(seed, true, ClientTrick::Only(LEADER)));
        assert_eq!(with, all, "seed {seed}: one view, and everything is executed");
        let without = run(plan(seed, false, ClientTrick::Only(LEADER)));
        assert!(without.0 > 1, "seed {seed}: without signatures the leader loses its office");
    }
}

/// A follower that hears what the leader does not passes it on, and the signature is enough.
#[test]
fn who_tells_one_follower_only_is_served_if_it_signs() {
    for seed in CALM {
        let one = run(plan(seed, true, ClientTrick::Only(1)));
        assert_eq!(one.0, 1, "seed {seed}");
        let without = run(plan(seed, false, ClientTrick::Only(1)));
        assert!(one.1 > without.1, "seed {seed}: {one:?}, and unsigned {without:?}");
    }
}

/// Nobody calls a leader slow that leaves out what is signed wrong, whoever was told it.
#[test]
fn wrong_signatures_cost_their_client_only() {
    for seed in CALM {
        for told in [u64::MAX, !LEADER] {
            let (view, commands) = run(plan(seed, true, ClientTrick::Differs(told)));
            assert_eq!(view, 1, "seed {seed}, {told:b}");
            assert!(commands > 0);
        }
    }
}

/// Not even its openings: replicas tell each other of them, and no leader proposes what too few heard.
#[test]
fn who_opens_sessions_at_some_replicas_only_costs_nobody_anything_if_it_signs() {
    for seed in CALM {
        let (mut deposed, all) = (0, run(plan(seed, true, ClientTrick::Only(u64::MAX))));
        // More followers than one, without the leader, might find it slow: the client does all to make them (L140-L147).
        for told in [LEADER, 1, 0b0011] {
            let (view, commands) = run(plan(seed, true, ClientTrick::Some(told)));
            assert_eq!(view, 1, "seed {seed}, {told:b}");
            assert!(commands + 8 > all.1 || told.count_ones() < 2, "seed {seed}, {told:b}");
            deposed += run(plan(seed, false, ClientTrick::Some(told))).0 - 1;
        }
        assert!(deposed > 0, "seed {seed}: without keys leaders lose their office");
    }
}

/// Workers to which everything goes. Their answers are late, in any order, and in some of 1000 cases none.
fn workers(gives_back: u64, loses: u64) -> Workers {
    let (checks, wait) = (ChecksAway { least: 1, most: 64 }, 20_000_000);
    Workers { checks, wait, stalls: 0, stall: wait, gives_back, loses }
}

/// Whoever checks, clients that sign wrong are found out, and no leader loses its office.
#[test]
fn workers_find_what_lanes_find() {
    for seed in CALM {
        for trick in
            [ClientTrick::Only(LEADER), ClientTrick::Differs(u64::MAX), ClientTrick::Differs(!LEADER)]
        {
            let by_lanes = run(plan(seed, true, trick));
            for (gives_back, loses) in [(0, 0), (300, 0), (0, 50)] {
                let mut plan = plan(seed, true, trick);
                plan.workers = Some(workers(gives_back, loses));
                let (view, commands) = run(plan);
                assert_eq!(view, 1, "seed {seed}, {trick:?}, {gives_back}, {loses}");
                assert!(
                    commands + 8 > by_lanes.1,
                    "seed {seed}, {trick:?}: {commands}, by lanes {}",
                    by_lanes.1
                );
            }
        }
    }
}

/// A worker that hangs answers nothing. Lanes do its work, after a while.
#[test]
fn where_no_worker_ever_answers_everything_is_executed_all_the_same() {
    for seed in CALM {
        let mut plan = plan(seed, true, ClientTrick::Only(u64::MAX));
        let by_lanes = run(plan.clone());
        plan.workers = Some(workers(0, 1000));
        let commands = run(plan).1;
        assert!(commands + 8 > by_lanes.1, "seed {seed}: {commands}, by lanes {}", by_lanes.1);
    }
}
