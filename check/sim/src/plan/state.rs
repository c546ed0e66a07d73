//! Faults of checkpoints, transfers and states, from a generator of their own.

use super::disks::spare_witnesses;
use super::{Fault, LEADER, Lie, MS, Phase, Plan, Profile};
use crate::random::Rng;
use crate::service::{Kind, ServiceConfig};
use quorate_log::SyncMode;
use quorate_node::{BorderConfig, CheckpointMode};
use quorate_state::transfer::{FetchLimits, ServeLimits};
use quorate_types::Span;

/// The kinds of faults of `draw_state` that a mode of durability survives.
fn state_kinds(plan: &Plan) -> Vec<u8> {
    let on_disk = plan.log.sync != SyncMode::Memory;
    let kinds: &[u8] = if on_disk { &[0, 1, 2, 3, 3, 3, 4, 4, 5, 6] } else { &[1, 4, 5, 6] };
    kinds.to_vec()
}

pub(super) fn state_faults(plan: &Plan, rng: &mut Rng) -> Vec<(u64, Fault)> {
    let mut allowed = state_kinds(plan);
    let keep = rng.range(20, 80) * 10;
    allowed.retain(|_| rng.chance(keep));
    let every = rng.spread(100 * MS, 2000 * MS);
    let mut list = Vec::new();
    let mut at = rng.range(0, 1500) * MS;
    let mut lost = plan.faults.iter().filter(|(_, fault)| fault.is_final()).count();
    while at < plan.heal_at && !allowed.is_empty() {
        let first = draw_state(rng.pick(&allowed), plan, rng);
        for (later, fault) in
            [(0, Some(first)), (0, lie_to(first, plan, rng)), (MS, end_transfer(first, plan, rng))]
        {
            // Never more than a minority has anything wrong with it.
            if let Some(fault) = fault
                && (!fault.needs_others() || lost < plan.spare())
            {
                lost += usize::from(fault.needs_others());
                list.push((at + later, fault));
            }
        }
        at += rng.range(0, every * 2);
    }
    list
}

/// A replica that comes back after a long time fetches a checkpoint, and another replica lies to it.
fn lie_to(fault: Fault, plan: &Plan, rng: &mut Rng) -> Option<Fault> {
    let Fault::Away { who, time } = fault else { return None };
    let others = plan.replicas as u64 - 1;
    let who = (who + 1 + rng.below(others) as usize) % plan.replicas;
    let how = rng.pick(&[Lie::Flip, Lie::Truncate, Lie::Other, Lie::Silent]);
    (others > 0 && rng.chance(400)).then_some(Fault::Lie { who, how, time: time + 3000 * MS })
}

/// A replica that comes back after a long time dies again while it makes a fetched checkpoint durable.
fn end_transfer(fault: Fault, plan: &Plan, rng: &mut Rng) -> Option<Fault> {
    let Fault::Away { who, .. } = fault else { return None };
    let phase = rng.pick(&[
        Phase::BeforePublish,
        Phase::InPublish,
        Phase::AfterPublish,
        Phase::Install,
        Phase::Partial,
    ]);
    let (machine, time) = (plan.log.sync == SyncMode::Group && rng.chance(500), rng.spread(MS, 500 * MS));
    let on_disk = plan.log.sync != SyncMode::Memory;
    (on_disk && rng.chance(400)).then_some(Fault::CrashInCheckpoint { who, phase, skip: 0, machine, time })
}

fn draw_state(kind: u8, plan: &Plan, rng: &mut Rng) -> Fault {
    let who = rng.below(plan.replicas as u64) as usize;
    let any = if rng.chance(plan.aim) { LEADER } else { who };
    let time = rng.spread(MS, 3000 * MS);
    match kind {
        0 => Fault::RotCheckpoint {
            who,
            part: rng.number() as u16,
            sector: rng.chance(200),
            restart: rng.chance(500),
        },
        1 => Fault::Corrupt { who: any },
        2 => Fault::Scrub { who },
        3 => Fault::CrashInCheckpoint {
            who: any,
            phase: rng.pick(&[
                Phase::Capture,
                Phase::Write,
                Phase::BeforePublish,
                Phase::InPublish,
                Phase::AfterPublish,
                Phase::Trim,
                Phase::TrimLog,
                Phase::Install,
                Phase::Partial,
                Phase::Repair,
            ]),
            skip: rng.pick(&[0, 0, 1, 4]),
            machine: plan.log.sync == SyncMode::Group && rng.chance(500),
            time: time / 4,
        },
        4 => Fault::Away { who, time: rng.range(500, 5000) * MS },
        5 => Fault::Lie { who, how: rng.pick(&[Lie::Flip, Lie::Truncate, Lie::Other, Lie::Silent]), time },
        _ => Fault::WantBorder { who },
    }
}

/// Draws what concerns checkpoints and transfers, from a generator of its own.
pub(super) fn plan_state(plan: &mut Plan, profile: &Profile, rng: &mut Rng) {
    let mode = rng.pick(&[
        CheckpointMode::StopAndCopy,
        CheckpointMode::Staggered,
        CheckpointMode::Full,
        CheckpointMode::Full,
        CheckpointMode::Differential,
        CheckpointMode::Differential,
    ]);
    plan.borders = BorderConfig {
        mode,
        interval_bytes: rng.spread(700, 48 << 10),
        state_percent: rng.pick(&[0, 20, 100]),
        interval_bytes_max: rng.spread(4 << 10, 64 << 10),
        ahead_percent: rng.pick(&[0, 10, 40, 100]),
        full_every: rng.pick(&[1, 2, 4, 10]),
        every: None,
    };
    // Without a draw of its own, so that all other choices of a seed stay.
    let interval = plan.borders.interval_bytes;
    plan.borders.every = interval.is_multiple_of(3).then(|| Span::from_millis(100 + interval % 2000));
    plan.log_bytes_max = rng.pick(&[8 << 10, 64 << 10, 1 << 30]);
    plan.fetch = FetchLimits {
        window: rng.pick(&[1, 16 << 10, 4 << 20]),
        per_message: rng.pick(&[1, 4, 16]),
        stall: Span::from_millis(rng.spread(100, 2000)),
        busy: Span::from_millis(rng.spread(10, 200)),
        hedge: Span::from_millis(rng.spread(10, 500)),
        per_step: rng.pick(&[1, 4 << 10, 8 << 20]),
        growth: 0,
    };
    // Without a draw of its own, so that all other choices of a seed stay.
    plan.fetch.growth = plan.fetch.per_step;
    plan.serve = ServeLimits {
        rate: rng.pick(&[40_000, 400_000, 64 << 20]),
        burst: rng.pick(&[1, 4 << 10, 1 << 20]),
        queue: rng.pick(&[8 << 10, 64 << 10, 16 << 20]),
        reads: rng.range(1, 4) as usize,
        // What takes longer than from border to border never ends: a checkpoint is gone by then.
        piece: rng.pick(&[256, 4096, 256 << 10]),
    };
    plan.keeping = (rng.spread(10_000, MS), rng.spread(MS, 20 * MS));
    if matches!(mode, CheckpointMode::StopAndCopy | CheckpointMode::Staggered) {
        // The replica does nothing else meanwhile. Where that takes as long as an election's time-out, each border ends an office,
        // and a run with a border at every batch does not end in time.
        plan.keeping.1 = plan.keeping.1.min(plan.timing.1 * MS / 50);
    }
    plan.scrub_every = rng.pick(&[None, None, Some(500), Some(3000)]);
    plan.disk_stall = rng.pick(&[200, 1000, 5000]);
    plan.service = ServiceConfig {
        kind: rng.pick(&[Kind::InStore, Kind::InStore, Kind::InStore, Kind::Tracked, Kind::Plain]),
        // Together more than a chunk takes.
        bulk: if rng.chance(400) { 4200 } else { 0 },
        watched: Rng::of(plan.seed, 9070).chance(250),
        ..ServiceConfig::default()
    };
    if profile.faults {
        plan.faults.extend(state_faults(plan, rng));
        plan.faults.sort_by_key(|(at, _)| *at);
        spare_witnesses(plan);
    }
}
