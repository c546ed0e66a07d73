//! A replica that stands still, or is down, for an hour while the others go on: it comes back behind checkpoints that nobody keeps any more,
//! with sessions that are over and a leadership that others took long ago.

use quorate_order::Protocol;
use quorate_sim::plan::Fault;
use quorate_sim::{Level, Plan, Profile, SyncMode, World};
use quorate_types::FaultModel;

const MS: u64 = 1_000_000;
const HOUR: u64 = 3_600_000 * MS;

/// How many commands were executed in that time, with this replica asleep.
fn sleeps(fault_model: FaultModel, replicas: usize, fault: Fault) -> usize {
    let profile = Profile {
        protocol: Some(Protocol::MOD_SMART),
        fault_model: Some(fault_model),
        replicas: Some(replicas),
        instances: Some(1),
        liars: Some(0),
        sync: Some(SyncMode::Group),
        faults: false,
        ..Profile::default()
    };
    let mut plan = Plan::new(7, &profile);
    (plan.heal_at, plan.clients, plan.timing) = (HOUR + 10_000 * MS, 3, (400, 2000, 8000));
    (plan.workload.operations, plan.workload.pause, plan.workload.deadlines) = (250, 30_000 * MS, 0);
    (plan.sessions.0, plan.scrub_every) = (60_000, None);
    plan.faults = vec![(5_000 * MS, fault)];
    let mut world = World::new(plan, Level::Hash);
    let report = world.run();
    assert!(report.failure.is_none(), "{:?}", report.failure);
    assert!(report.time > HOUR, "{}", report.time);
    report.commands
}

/// The second one leads the first view.
#[test]
fn whoever_slept_for_an_hour_comes_back() {
    for (model, replicas) in [(FaultModel::Crash, 3), (FaultModel::Byzantine, 4)] {
        for who in [0, 1] {
            for fault in [Fault::Pause { who, time: HOUR }, Fault::PowerLoss { who, time: HOUR }] {
                let commands = sleeps(model, replicas, fault);
                assert!(commands > 200, "the others went on: {commands}");
            }
        }
    }
}
