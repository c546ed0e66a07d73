//! Which runs replace programs, back and forth, and raise the feature level.

use super::{Fault, MS, Plan, Profile};
use crate::random::Rng;
use quorate_log::SyncMode;
use quorate_wire::FEATURE_LEVEL;

/// The feature levels of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrades {
    /// The level that the cluster is made with.
    pub made_with: u32,
    /// The highest level that each replica's program supports at first.
    pub able: Vec<u32>,
    /// Leaders raise the level by themselves when all members have supported more for this many milliseconds.
    pub raise_after: Option<u64>,
    /// Whether an operator goes back to an older program although the level was raised.
    pub careless: bool,
}

/// Draws them, from a generator of its own. Replacing a program restarts its process, so with durability in memory nothing is replaced.
pub(super) fn plan_upgrades(plan: &mut Plan, profile: &Profile) {
    let mut rng = Rng::of(plan.seed, 10);
    let (made_with, drawn) = (rng.range(1, u64::from(FEATURE_LEVEL)) as u32, rng.chance(200));
    let able = vec![FEATURE_LEVEL; plan.replicas];
    plan.upgrades = Upgrades { made_with, able, raise_after: None, careless: false };
    let wanted = profile.faults && profile.upgrades.unwrap_or(drawn);
    if !wanted || plan.log.sync == SyncMode::Memory {
        return;
    }
    let old = rng.pick(&[1000, 1000, 600]);
    let able = (0..plan.replicas).map(|_| if rng.chance(old) { 1 } else { FEATURE_LEVEL }).collect();
    let raise_after = rng.chance(400).then(|| rng.spread(20, 1000));
    plan.upgrades = Upgrades { made_with: 1, able, raise_after, careless: rng.chance(400) };
    // All of them one after the other, some back again, all once more; some runs end in the middle.
    let rounds = rng.pick(&[
        &[FEATURE_LEVEL][..],
        &[FEATURE_LEVEL, 1, FEATURE_LEVEL],
        &[FEATURE_LEVEL, FEATURE_LEVEL],
    ]);
    let share = rng.pick(&[300, 600, 1200]);
    let every = plan.heal_at * share / 1000 / (plan.replicas * rounds.len()) as u64;
    let mut at = 0;
    for level in rounds {
        let whole = *level == FEATURE_LEVEL;
        let first = rng.below(plan.replicas as u64) as usize;
        for step in 0..plan.replicas {
            let (who, time) = ((first + step) % plan.replicas, rng.spread(MS, 200 * MS));
            if whole || rng.chance(500) {
                plan.faults.push((at + rng.below(every.max(1)), Fault::Program { who, level: *level, time }));
            }
            at += every;
        }
        plan.faults.push((at + rng.below(every.max(1)), Fault::Raise));
    }
    // Operators raise the level now and then, and one that does not know of a raise goes back.
    for _ in 0..rng.range(1, 6) {
        plan.faults.push((rng.range(0, plan.heal_at), Fault::Raise));
    }
    if plan.upgrades.careless {
        for _ in 0..rng.range(1, 4) {
            let (who, time) = (rng.below(plan.replicas as u64) as usize, rng.spread(MS, 200 * MS));
            plan.faults.push((
                rng.range(at.min(plan.heal_at), plan.heal_at),
                Fault::Program { who, level: 1, time },
            ));
        }
    }
    plan.faults.retain(|(at, _)| *at < plan.heal_at);
    plan.faults.sort_by_key(|(at, _)| *at);
}
