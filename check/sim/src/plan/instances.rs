//! Which runs have several instances, which change their number, and which have several lanes.

use super::{Fault, LEADER, MS, Plan, Profile};
use crate::random::Rng;
use quorate_log::SyncMode;

/// How many instances, from a generator of its own.
pub(super) fn plan_instances(plan: &mut Plan, profile: &Profile) {
    let mut rng = Rng::of(plan.seed, 10);
    let drawn = if rng.chance(350) { rng.pick(&[2, 2, 3, 3, 8]) } else { 1 };
    plan.window = rng.pick(&[2, 4, 16, 256]);
    plan.instances = profile.instances.unwrap_or(drawn);
    plan_resizes(plan, profile, &mut Rng::of(plan.seed, 11));
    plan_lanes(plan, profile, &mut Rng::of(plan.seed, 12));
}

/// How many lanes, mostly where there are several instances.
fn plan_lanes(plan: &mut Plan, profile: &Profile, rng: &mut Rng) {
    let drawn = match (plan.instances > 1 || plan.resizes, rng.chance(600), rng.chance(50)) {
        (true, true, _) => rng.pick(&[2, 3, 4, 9]),
        (false, _, true) => 2,
        _ => 1,
    };
    plan.lanes = profile.lanes.unwrap_or(drawn);
}

impl Plan {
    /// How many lanes a replica has in one of its lives; an operator may change that at each start.
    pub fn lanes_of(&self, who: usize, life: u32) -> u16 {
        let mut rng = Rng::of(self.seed, 9000 + who as u64 * 7919 + u64::from(life));
        if rng.chance(300) { 1 + rng.below(u64::from(self.lanes)) as u16 } else { self.lanes }
    }

    pub(super) fn rotation_in_words(&self) -> String {
        match self.rotate_after {
            0 => String::new(),
            slots => format!(", rotating after {slots} slots"),
        }
    }

    pub(super) fn lanes_in_words(&self) -> String {
        match (self.instances, self.lanes) {
            (1, 1) => String::new(),
            (instances, 1) => format!(", {instances} instances"),
            (instances, lanes) => format!(", {instances} instances on {lanes} lanes"),
        }
    }
}

/// Operators ask for other numbers of instances, and the leader dies in the middle. Faults that take a replica away for good, or whose
/// repair needs most replicas, are left out.
fn plan_resizes(plan: &mut Plan, profile: &Profile, rng: &mut Rng) {
    let drawn = rng.chance(150) && profile.instances.is_none();
    if !profile.faults || !profile.resizes.unwrap_or(drawn) {
        return;
    }
    plan.resizes = true;
    plan.faults.retain(|(_, fault)| !fault.is_final() && !fault.needs_others());
    let most = rng.pick(&[2, 4, 8]);
    let every = rng.spread(50 * MS, 1500 * MS);
    let mut at = rng.range(0, 500) * MS;
    while at < plan.heal_at {
        let count = if rng.chance(300) { 1 } else { rng.range(1, most) as u16 };
        plan.faults.push((at, Fault::Instances { count }));
        if plan.log.sync != SyncMode::Memory && rng.chance(300) {
            let (who, time) = (
                if rng.chance(500) { LEADER } else { rng.below(plan.replicas as u64) as usize },
                rng.spread(MS, 500 * MS),
            );
            plan.faults.push((at + rng.spread(100_000, 50 * MS), Fault::Crash { who, time }));
        }
        at += if rng.chance(100) { MS } else { rng.range(0, every * 2) };
    }
    plan.faults.retain(|(at, _)| *at < plan.heal_at);
    plan.faults.sort_by_key(|(at, _)| *at);
}
