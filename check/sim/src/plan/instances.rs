//! Which runs have several instances, and several lanes.

use super::{Plan, Profile};
use crate::random::Rng;

/// How many instances, from a generator of its own.
pub(super) fn plan_instances(plan: &mut Plan, profile: &Profile) {
    let mut rng = Rng::of(plan.seed, 10);
    let drawn = if rng.chance(350) { rng.pick(&[2, 2, 3, 3, 8]) } else { 1 };
    plan.window = rng.pick(&[2, 4, 16, 256]);
    // Members come and go where there is one instance only.
    plan.instances = if plan.replicas > plan.founders { 1 } else { profile.instances.unwrap_or(drawn) };
    let mut rng = Rng::of(plan.seed, 12);
    let drawn = match (plan.instances, rng.chance(600), rng.chance(50)) {
        (2.., true, _) => rng.pick(&[2, 3, 4, 9]),
        (1, _, true) => 2,
        _ => 1,
    };
    plan.lanes = profile.lanes.unwrap_or(drawn);
}

impl Plan {
    /// How many lanes a replica has in one of its lives: an operator may change that at each start.
    pub fn lanes_of(&self, who: usize, life: u32) -> u16 {
        let mut rng = Rng::of(self.seed, 9000 + who as u64 * 7919 + u64::from(life));
        if rng.chance(300) { 1 + rng.below(u64::from(self.lanes)) as u16 } else { self.lanes }
    }

    pub(super) fn lanes_in_words(&self) -> String {
        match (self.instances, self.lanes) {
            (1, 1) => String::new(),
            (instances, 1) => format!(", {instances} instances"),
            (instances, lanes) => format!(", {instances} instances on {lanes} lanes"),
        }
    }
}
