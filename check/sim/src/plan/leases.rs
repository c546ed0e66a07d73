//! Which runs have leases, and what goes wrong in them. Clocks stay within the configured bound; everything else happens, at moments when a
//! leader could rely on a lease for too long.

use super::{AFTER_LEADER, Fault, Focus, LEADER, LEADER_ALONE, MS, Plan};
use crate::random::Rng;
use quorate_log::SyncMode;

/// By how many percent clocks may differ.
const DRIFT_PERCENT: u8 = 10;
/// Two clocks whose rates are wrong by so many parts per million, one too fast and one too slow, differ by less than that.
const DRIFT_MAX: i64 = 48_000;

/// In some runs leaders have leases.
pub(super) fn plan_leases(plan: &mut Plan, rng: &mut Rng) {
    let promises = plan.focus == Some(Focus::Promises);
    if !rng.chance(300) && !promises {
        return;
    }
    plan.lease = Some(DRIFT_PERCENT);
    let replicas = plan.replicas;
    let is_replica = |who: usize| who < replicas || who >= AFTER_LEADER;
    plan.faults.retain(|(_, fault)| !matches!(fault, Fault::Jump { who, .. } if is_replica(*who)));
    for (_, fault) in &mut plan.faults {
        if let Fault::Drift { who, rate } = fault
            && is_replica(*who)
        {
            *rate = (*rate).clamp(-DRIFT_MAX, DRIFT_MAX);
        }
    }
    // Reads all the time, also at replicas that do not lead.
    plan.workload.shares[1] = plan.workload.shares[1].max(8);
    plan.workload.at_once = plan.workload.at_once.max(2);
    plan.workload.pinned = rng.pick(&[0, 200, 500]);
    if plan.replicas > plan.founders {
        // A replica that left does not answer: each such read would wait as long as it may.
        plan.workload.pinned = 0;
    }
    if plan.faults.is_empty() || plan.founders < 3 {
        return;
    }
    if promises {
        // Elections that follow each other closely, and many of them.
        plan.timing.2 = plan.timing.1 + 5;
        plan.heal_at *= 2;
    }
    let every = rng.spread(300 * MS, 2000 * MS);
    let mut at = rng.range(300, 1500) * MS;
    let scene = rng.pick(&[[0, 1, 2], [0, 0, 0], [1, 1, 1], [2, 2, 2]]);
    let scene = if promises { [2, 2, 2] } else { scene };
    if scene == [2, 2, 2] {
        // A replica that lacks later writes gets no vote, promise or not: so there are few writes.
        plan.workload.shares = [1, 30, 0, 0, 0, 0, 6, 0];
        plan.workload.pause = 40 * MS;
        plan.workload.operations = (plan.heal_at / (20 * MS)) as u32;
        if promises {
            // As many as in other runs, which are half as long.
            plan.workload.operations /= 2;
            plan.workload.pause *= 2;
        }
    }
    while at < plan.heal_at {
        let faults = match rng.pick(&scene) {
            0 => vec![(0, Fault::Pause { who: LEADER, time: rng.range(200, 1500) * MS })],
            1 => transfer_unheard(plan, rng),
            _ => restart_unheard(plan, rng),
        };
        let faults = faults.into_iter().map(|(after, fault)| (at + after, fault));
        plan.faults.extend(faults.filter(|(at, _)| *at < plan.heal_at));
        at += rng.range(every / 2, every * 2);
    }
    plan.faults.sort_by_key(|(at, _)| *at);
}

/// The leader, and some clients with it.
fn leader_with_clients(plan: &Plan, rng: &mut Rng) -> u64 {
    let clients = 1 + rng.below((1 << plan.clients) - 1);
    LEADER_ALONE | clients << plan.replicas
}

/// The leader hands over, and does not hear what happens then.
fn transfer_unheard(plan: &Plan, rng: &mut Rng) -> Vec<(u64, Fault)> {
    let on_the_way = plan.net.delay.1 * 3 + plan.net.jitter + plan.disk.1;
    let group = leader_with_clients(plan, rng);
    vec![
        (0, Fault::Transfer { who: LEADER, to: 0 }),
        (rng.below(on_the_way), Fault::Partition { group, time: rng.range(200, 1000) * MS }),
    ]
}

/// A minority does not hear the leader for so long that it would vote for another. Then one of the replicas on which the leader relies
/// starts again, and the leader hears nothing any more.
fn restart_unheard(plan: &Plan, rng: &mut Rng) -> Vec<(u64, Fault)> {
    // Once a state is corrupt no other process may end.
    let calm = plan.faults.iter().all(|(_, fault)| !matches!(fault, Fault::Corrupt { .. }));
    if plan.log.sync == SyncMode::Memory || !calm {
        return Vec::new();
    }
    let minority = (plan.founders - 1) / 2;
    let heard_long_ago = plan.timing.1 * rng.range(12, 40) / 10 * MS;
    let time = heard_long_ago + 1000 * MS;
    let mut faults = Vec::new();
    for other in (1..=minority).map(|behind| AFTER_LEADER + behind) {
        faults.push((0, Fault::Cut { from: LEADER, to: other, time }));
        faults.push((0, Fault::Cut { from: other, to: LEADER, time }));
    }
    let who = AFTER_LEADER + rng.range(minority as u64 + 1, plan.founders as u64 - 1) as usize;
    let group = leader_with_clients(plan, rng);
    faults.push((heard_long_ago, Fault::Crash { who, time: rng.range(1, 20) * MS }));
    faults.push((heard_long_ago, Fault::Partition { group, time: 800 * MS }));
    faults
}
