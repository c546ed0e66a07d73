//! Which runs continue without as many replicas as the cluster survives. These are gone for good, even at the end.

use super::{Fault, Plan, Profile};
use crate::random::Rng;

/// From a generator of its own, after liars and all other faults were drawn, since those count among the missing.
pub(super) fn plan_dead(plan: &mut Plan, profile: &Profile) {
    let mut rng = Rng::of(plan.seed, 30);
    let fixed = plan.replicas == plan.founders && !plan.resizes;
    if !rng.chance(200) || !profile.faults || !fixed {
        return;
    }
    let faulty = plan.faults.iter().filter(|(_, fault)| fault.is_final() || fault.needs_others()).count();
    let room = plan.spare().saturating_sub(faulty + plan.liars.len());
    let mut left: Vec<usize> = (0..plan.replicas).filter(|who| !plan.is_liar(*who)).collect();
    for _ in 0..room {
        let who = left.remove(rng.below(left.len() as u64) as usize);
        plan.faults.push((rng.below(plan.heal_at), Fault::Lose { who }));
    }
    plan.faults.sort_by_key(|(at, _)| *at);
}
