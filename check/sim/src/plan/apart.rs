//! Which parts of a replica have lanes of their own, and how late the turns of these lanes are.

use super::{MS, Plan, Profile};
use crate::random::Rng;
use quorate_node::Placement;

/// The lanes of the parts, and how late their turns are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apart {
    /// The parts that have lanes of their own.
    pub placement: Placement,
    /// A lane has its next turn after at most this many nanoseconds.
    pub wait: u64,
    /// In this many of 1000 cases the turn may come later: after at most `stall` nanoseconds.
    pub stalls: u64,
    /// The longest wait for such a turn, in nanoseconds.
    pub stall: u64,
}

impl Apart {
    /// Draws the time until the next turn of a lane.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let most = if rng.chance(self.stalls) { self.stall } else { self.wait };
        rng.range(0, most)
    }
}

/// In some of the runs, draws the parts that have lanes of their own. No lane waits so long that this alone makes others replace a leader.
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
