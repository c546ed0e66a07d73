//! How well the oracle does, where few members are slow.

use super::{MS, Plan, Profile};
use crate::random::Rng;

/// The ways to the oracle and back, and when nobody reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OraclePlan {
    /// Each way takes at most this many nanoseconds.
    pub wait: u64,
    /// In this many of 1000 cases it takes at most `stall` nanoseconds.
    pub stalls: u64,
    /// The longest way in such a case, in nanoseconds.
    pub stall: u64,
    /// In this many of 1000 cases what is sent is lost, and in as many it arrives twice.
    pub loses: u64,
    /// Nobody reaches it from here to there, in nanoseconds since the beginning.
    pub away: (u64, u64),
}

impl OraclePlan {
    /// Whether nobody reaches it at this time.
    pub const fn is_away(&self, at: u64) -> bool {
        at >= self.away.0 && at < self.away.1
    }
}

/// Where few members are slow there is an oracle, unless none is wanted. It works again when all faults end.
pub(super) fn plan_oracle(plan: &mut Plan, profile: &Profile, rng: &mut Rng) {
    if !plan.fault_model.few_are_slow() || !profile.oracle {
        return;
    }
    let begins = rng.range(0, plan.heal_at);
    let lasts = if rng.chance(500) { 0 } else { rng.range(0, plan.heal_at - begins) };
    plan.oracle = Some(OraclePlan {
        wait: rng.spread(MS / 10, 20 * MS),
        stalls: rng.pick(&[0, 10, 100]),
        stall: rng.spread(MS, 400 * MS),
        loses: rng.pick(&[0, 0, 20, 200]),
        away: (begins, begins + lasts),
    });
}
