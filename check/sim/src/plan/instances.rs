//! Which runs have several instances.

use super::{Plan, Profile};
use crate::random::Rng;

/// How many instances, from a generator of its own.
pub(super) fn plan_instances(plan: &mut Plan, profile: &Profile) {
    let mut rng = Rng::of(plan.seed, 10);
    let drawn = if rng.chance(350) { rng.pick(&[2, 2, 3, 3, 8]) } else { 1 };
    plan.window = rng.pick(&[2, 4, 16, 256]);
    plan.instances = profile.instances.unwrap_or(drawn);
}
