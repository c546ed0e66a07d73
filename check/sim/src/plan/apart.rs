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
    /// The pillars stand on the lanes of the connections, and move between them after at most this many nanoseconds.
    pub moves: Option<u64>,
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
        moves: None,
    });
}

/// In some of the runs in which pillars have lanes and the gate has none, pillars stand where the connections are, and move.
pub(super) fn plan_moves(plan: &mut Plan, profile: &Profile, rng: &mut Rng) {
    let (wanted, lanes) = (profile.moves == Some(true), rng.pick(&[2, 2, 3, 4, 9]));
    let every = rng.spread(MS, 2_000 * MS);
    let some = rng.chance(500);
    let able = |apart: &Apart| apart.placement == Placement { gate: false, groups: true };
    if !profile.moves.unwrap_or(some && plan.lanes > 1) || !(wanted || plan.apart.as_ref().is_some_and(able))
    {
        return;
    }
    if plan.lanes == 1 {
        plan.lanes = lanes;
    }
    let placement = Placement { gate: false, groups: true };
    let apart = Apart { placement, wait: MS / 1000, stalls: 0, stall: MS, moves: None };
    plan.apart = Some(Apart { placement, moves: Some(every), ..plan.apart.unwrap_or(apart) });
}

impl Plan {
    /// Where the pillars of a replica stand on lanes in one of its lives: how many links and lanes there are, and after how many nanoseconds
    /// at most another link moves. A liar says what it says on one lane.
    pub fn moves_of(&self, who: usize, life: u32) -> Option<((u16, u16), u64)> {
        let every = self.apart.and_then(|apart| apart.moves).filter(|_| !self.is_liar(who))?;
        let lanes = self.lanes_of(who, life);
        (lanes > 1).then(|| ((self.links_of(who, life), lanes), every))
    }

    /// How many links a replica makes to each other one.
    pub fn links_of(&self, who: usize, life: u32) -> u16 {
        let lanes = self.lanes_of(who, life);
        let moves = self.apart.is_some_and(|apart| apart.moves.is_some());
        if moves && lanes > 1 { lanes.max(self.instances + 1) } else { lanes }
    }

    /// The parts that have lanes which the node keeps.
    pub fn placement(&self) -> Placement {
        let kept = |apart: Apart| if apart.moves.is_some() { Placement::default() } else { apart.placement };
        self.apart.map(kept).unwrap_or_default()
    }
}
