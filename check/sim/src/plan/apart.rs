//! Parts of a replica that stand on lanes of their own, and how long they keep each other waiting.

use super::{MS, Plan, Profile};
use crate::random::Rng;
use quorate_node::Placement;

/// How far apart the parts of replicas stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apart {
    /// Which have lanes of their own.
    pub placement: Placement,
    /// A lane has its turn after up to this many nanoseconds.
    pub wait: u64,
    /// In this many of 1000 cases a turn comes later: after up to `stall` nanoseconds.
    pub stalls: u64,
    /// See `stalls`.
    pub stall: u64,
}

impl Apart {
    /// How long the next turn of a lane is waited for.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let most = if rng.chance(self.stalls) { self.stall } else { self.wait };
        rng.range(0, most)
    }
}

/// Draws which parts stand apart, in some of the runs. No lane waits so long that leaders are given up for that alone.
pub(super) fn plan_apart(plan: &mut Plan, profile: &Profile, rng: &mut Rng) {
    let some = rng.chance(250);
    if !profile.apart.unwrap_or(some) {
        return;
    }
    let (gate, groups) = rng.pick(&[(true, true), (true, true), (true, false), (false, true)]);
    plan.apart = Some(Apart {
        placement: Placement { gate, groups },
        wait: rng.spread(MS / 1000, MS),
        stalls: rng.pick(&[0, 1, 10, 50]),
        stall: rng.spread(MS, plan.timing.0 * MS / 2),
    });
}
