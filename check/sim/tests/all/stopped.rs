//! What might stop a cluster for good, and does not: liars that keep things back, and random runs with backups and missing replicas.

use crate::count::seeds;
use quorate_order::Protocol;
use quorate_sim::campaign::{Campaign, run};
use quorate_sim::liars::{KEEPERS, Trick};
use quorate_sim::plan::{Fault, Liar, Phase};
use quorate_sim::{Level, Plan, Profile, World};
use quorate_types::FaultModel;

const MS: u64 = 1_000_000;

/// Replicas without other faults, and clients that always wait for something.
fn busy(seed: u64) -> Plan {
    let mut plan = Plan::calm(seed, &Profile::calm(FaultModel::Byzantine, 4));
    (plan.clients, plan.workload.operations) = (6, 300);
    plan
}

/// When the last client has its last answer, in milliseconds.
fn last_answer(plan: Plan) -> u64 {
    let what = format!("{}, {:?}", plan.summary(), plan.faults);
    let mut world = World::new(plan, Level::Hash);
    let report = world.run();
    assert!(report.failure.is_none(), "{what}: {:?}", report.failure);
    world.last_answer() / MS
}

/// Whoever keeps its accepts and its proofs, or all but what changes of views need, costs its office and no more, whether it leads or not.
#[test]
fn who_keeps_things_back_stops_nobody() {
    for seed in 1..=4 {
        let quick = last_answer(busy(seed));
        for (who, trick) in [1, 2].into_iter().flat_map(|who| KEEPERS.map(|trick| (who, trick))) {
            let mut plan = busy(seed);
            plan.liars = vec![Liar { who, tricks: vec![trick], often: 1000, since: 0 }];
            let cost = last_answer(plan).saturating_sub(quick);
            println!("seed {seed}: r{} {trick:?} costs {cost} ms", who + 1);
            assert!(trick == Trick::KeepsSome || cost < 6000, "seed {seed}: {trick:?} costs {cost} ms");
        }
    }
}

/// Two of three agree on a checkpoint, while the third one hears nothing. Then one of the two loses its disk for good, and the other one starts
/// again. It alone knows what was agreed on, and its log begins after that: the third one takes the checkpoint on its word.
fn the_only_holder_starts_again(seed: u64, protocol: Protocol, instances: u16, commands: u32) -> Plan {
    let calm = Profile::calm(FaultModel::Crash, 3);
    let profile = Profile { protocol: Some(protocol), instances: Some(instances), ..calm };
    let mut plan = Plan::calm(seed, &profile);
    (plan.restored, plan.heal_at) = (true, 6000 * MS);
    (plan.borders.interval_bytes, plan.borders.state_percent) = (1100, 0);
    plan.keeping = (MS / 100, MS / 10);
    let work = &mut plan.workload;
    if commands == 0 {
        // Reads, which need sessions.
        (work.operations, work.at_once, work.shares) = (1, 1, [0, 1, 0, 0, 0, 0, 0, 0]);
    } else {
        // The log was trimmed.
        (work.operations, plan.log.segment_bytes) = (commands, 20 << 10);
    }
    plan.faults.push((100 * MS, Fault::Pause { who: 0, time: 3000 * MS }));
    plan.faults.push((2000 * MS, Fault::Lose { who: 1 }));
    plan.faults.push((2100 * MS, Fault::PowerLoss { who: 2, time: 100 * MS }));
    plan
}

#[test]
fn what_only_one_knows_to_be_agreed_on_can_be_had() {
    for (seed, protocol) in (1..=20).flat_map(|seed| [(seed, Protocol::RAFT), (seed, Protocol::MOD_SMART)]) {
        for (instances, commands) in [(1, 0), (2, 0), (1, 40)] {
            let plan = the_only_holder_starts_again(seed, protocol, instances, commands);
            let report = World::new(plan, Level::Hash).run();
            assert!(report.failure.is_none(), "{protocol:?}, seed {seed}, {instances}: {:?}", report.failure);
        }
    }
}

/// Checkpoints are written slowly, so that the one that goes was the last one known to be agreed on: the one in its place can be had.
#[test]
fn what_takes_the_place_of_an_agreed_checkpoint_can_be_had() {
    let mut plan = the_only_holder_starts_again(4, Protocol::RAFT, 2, 40);
    plan.keeping = (5 * MS, 30 * MS);
    assert_eq!(World::new(plan, Level::Hash).run().failure, None);
}

/// Whoever is behind knows of later checkpoints that were agreed on, and nobody has one of those any more.
#[test]
fn an_older_checkpoint_can_be_had_when_the_later_ones_are_lost() {
    let slow = (MS / 2, 3 * MS);
    for (seed, protocol) in (1..=13).flat_map(|seed| [(seed, Protocol::RAFT), (seed, Protocol::MOD_SMART)]) {
        for (instances, keeping) in [(1, slow), (2, slow), (2, (MS / 100, MS / 10))] {
            let mut plan = the_only_holder_starts_again(seed, protocol, instances, 40);
            plan.keeping = keeping;
            let report = World::new(plan, Level::Hash).run();
            assert!(report.failure.is_none(), "{protocol:?}, seed {seed}, {instances}: {:?}", report.failure);
        }
    }
}

/// A replica's state is corrupted while another one is away, so that too few agree on any checkpoint. It starts again. Whoever was away takes
/// none of its checkpoints on its word.
#[test]
fn nobody_takes_what_was_never_agreed_on() {
    for seed in 1..=60 {
        let mut plan = Plan::calm(seed, &Profile::calm(FaultModel::Crash, 4));
        (plan.restored, plan.heal_at) = (true, 3000 * MS);
        (plan.workload.operations, plan.workload.pause) = (100, 20 * MS);
        (plan.borders.interval_bytes, plan.borders.state_percent) = (1100, 0);
        // None is trimmed by force: that would trust one replica alone.
        (plan.log.segment_bytes, plan.log_bytes_max) = (20 << 10, 1 << 30);
        plan.faults.push((600 * MS, Fault::Away { who: 0, time: 1400 * MS }));
        plan.faults.push((900 * MS, Fault::Corrupt { who: 2 }));
        let phase = Phase::AfterPublish;
        let at = 1000 * MS + seed * 5 * MS;
        plan.faults.push((at, Fault::CrashInCheckpoint { who: 2, phase, skip: 0, machine: true, time: MS }));
        let report = World::new(plan, Level::Hash).run();
        assert!(report.failure.is_none(), "seed {seed}: {:?}", report.failure);
    }
}

/// With everything else that happens: from a backup, without those that never come back, with liars that keep things back.
#[test]
fn random_seeds_are_not_stopped() {
    let crash = Profile { protocol: Some(Protocol::MOD_SMART), ..Profile::default() };
    let byzantine = Profile { fault_model: Some(FaultModel::Byzantine), ..Profile::default() };
    for profile in [Profile::default(), crash, byzantine] {
        let campaign = Campaign { profile, first: 5001, count: seeds(25), jobs: 2, failures_max: 10 };
        let summary = run(&campaign, |_, _| {});
        let told: Vec<String> = summary
            .failures
            .iter()
            .map(|report| format!("seed {}: {:?}", report.seed, report.failure))
            .collect();
        assert!(told.is_empty(), "{profile:?}:\n{}", told.join("\n"));
    }
}
