//! Machines that are suspended: their clocks stand still while time passes, differently at each replica. From a generator of its own.

use super::{Fault, MS, Plan};
use crate::checks::time::Bounds;
use crate::random::Rng;

/// A machine stands still, and its clock with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspend {
    /// The replica.
    pub who: usize,
    /// For how long.
    pub time: u64,
}

/// Draws them, in some runs; never with leases, since these need clocks that keep to a rate.
pub(super) fn plan_suspends(plan: &mut Plan, rng: &mut Rng) {
    if plan.faults.is_empty() || plan.lease.is_some() || !rng.chance(250) {
        return;
    }
    for _ in 0..rng.range(1, 3) {
        let who = rng.below(plan.replicas as u64) as usize;
        let time = rng.range(1000, 20_000) * MS;
        plan.faults.push((rng.below(plan.heal_at), Fault::Suspend(Suspend { who, time })));
    }
    plan.faults.sort_by_key(|(at, _)| *at);
}

impl Plan {
    /// The deviations of time that this run allows.
    pub fn times(&self) -> Bounds {
        let rates = self.faults.iter().filter_map(|(_, fault)| match fault {
            Fault::Drift { rate, .. } => Some(rate.unsigned_abs()),
            _ => None,
        });
        let many = self.instances > 1 || self.resizes;
        Bounds {
            drift: rates.fold(self.drift, u64::max),
            liars: self.fault_model.may_lie(),
            many,
            outage: self.outage(),
        }
    }

    /// Draws how wrong a clock's rate is, in parts per million.
    pub fn draw_drift(&self, rng: &mut Rng) -> i64 {
        rng.range(0, self.drift * 2) as i64 - self.drift as i64
    }

    /// How long most replicas must be down for that time not to count: a leader notices that it is alone, and after that the gap must be a
    /// long one.
    fn outage(&self) -> Option<u64> {
        let (_, low, high) = self.timing;
        (self.replicas == self.founders).then_some(4 * high.max(2 * low) * MS)
    }
}
