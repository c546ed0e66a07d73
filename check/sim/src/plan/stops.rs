//! Runs about bugs that once stopped clusters for good (`plan/focus.rs`).

use super::focus::calm;
use super::{Fault, LEADER, MS, Moment, Plan};
use crate::liars::Trick;
use crate::random::Rng;
use quorate_log::SyncMode;

/// Faults are over soon. A few clients ask for little, over a long time; a leader that lies orders only what they ask for.
pub(super) fn plan_idle(plan: &mut Plan, rng: &mut Rng) {
    calm(plan, rng);
    plan.heal_at = rng.range(500, 2000) * MS;
    plan.faults.retain(|(at, fault)| *at < plan.heal_at && !fault.is_final() && !fault.needs_others());
    (plan.bound, plan.costs, plan.rotate_after) = (400_000 * MS, false, 0);
    plan.clients -= plan.lying_clients.len();
    plan.lying_clients.clear();
    // Faults may be about clients.
    if plan.faults.is_empty() {
        plan.clients = plan.clients.min(2);
    }
    let trick = match plan.instances {
        1 => rng.pick(&[Trick::StopsTime, Trick::SlowsTime, Trick::OrdersNoTime]),
        _ => rng.pick(&[Trick::FillsNothing, Trick::FillsNothing, Trick::OldBases]),
    };
    let work = &mut plan.workload;
    (work.at_once, work.batch, work.deadlines) = (1, 1, 0);
    work.shares = [4, 0, 1, 0, 1, 1, 0, 0];
    (work.operations, work.pause) = match trick {
        Trick::FillsNothing => (rng.range(30, 80) as u32, rng.range(10, 300) * MS),
        // Nothing follows a command until its alarm should have rung long ago.
        Trick::OrdersNoTime => (rng.range(2, 4) as u32, rng.range(60, 120) * 1000 * MS),
        _ => (rng.range(150, 250) as u32, rng.range(600, 1000) * MS),
    };
    if trick == Trick::OrdersNoTime {
        plan.service.alarm = rng.range(1, 3) * 1000 * MS;
    }
    for (number, liar) in plan.liars.iter_mut().enumerate() {
        (liar.tricks, liar.often, liar.since) = (vec![trick], 1000, 0);
        // The one that leads the first view of the first instance.
        if number == 0 && plan.instances == 1 {
            liar.who = 1;
        }
    }
    plan.liars.sort_by_key(|liar| liar.who);
    plan.liars.dedup_by_key(|liar| liar.who);
}

/// No client asks for anything at first, and the leaders die, or all replicas do; in some runs more than once.
pub(super) fn plan_beginnings(plan: &mut Plan, rng: &mut Rng) {
    calm(plan, rng);
    let mut at = rng.range(20, 400) * MS;
    for _ in 0..rng.range(1, 3) {
        let time = rng.spread(MS, 1500 * MS);
        // Elsewhere no machine may stop.
        let stops = plan.log.sync == SyncMode::Group;
        let fault = match rng.below(4) {
            0 if stops => Fault::Blackout { time },
            1 => Fault::Transfer { who: LEADER, to: 0 },
            2 => Fault::Pause { who: LEADER, time },
            _ => Fault::Crash { who: LEADER, time },
        };
        plan.faults.push((at, fault));
        at += rng.range(100, 2000) * MS;
    }
    plan.heal_at = plan.heal_at.max(at + 500 * MS);
    plan.workload.since = at;
}

/// Connections break when a leader has decided what no other replica has; the leader hands over, and is lost for good once it reported that
/// decision.
pub(super) fn plan_claims(plan: &mut Plan, rng: &mut Rng) {
    calm(plan, rng);
    plan.faults.retain(|(_, fault)| !fault.is_final() && !fault.needs_others());
    let near = rng.spread(MS / 20, 4 * MS);
    (plan.net.delay, plan.net.jitter, plan.net.bandwidth, plan.net.spike) = ((near, near * 2), near, None, 0);
    plan.disk = if rng.chance(500) { (MS / 50, MS) } else { (MS / 5, rng.range(1, 10) * MS) };
    let mut at = rng.range(200, 800) * MS;
    while at < plan.heal_at {
        plan.faults.push((at, Fault::Moment(Moment::DecidesAlone)));
        at += rng.range(100, 600) * MS;
    }
    for _ in 0..plan.spare() {
        let after = rng.below(near * 4);
        plan.faults.push((rng.range(200, 800) * MS, Fault::Moment(Moment::ClaimsAlone { after })));
    }
}
