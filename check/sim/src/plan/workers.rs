//! Which replicas have signatures of requests checked on other threads, and how late those answer.

use super::{MS, Plan};
use crate::random::Rng;
use quorate_admit::ChecksAway;

/// The workers of all replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workers {
    /// How many signatures they take.
    pub checks: ChecksAway,
    /// An answer comes after at most this many nanoseconds.
    pub wait: u64,
    /// In this many of 1000 cases it comes after at most `stall` nanoseconds.
    pub stalls: u64,
    /// The longest wait for such an answer, in nanoseconds.
    pub stall: u64,
    /// In this many of 1000 cases nobody checks, and says so.
    pub gives_back: u64,
    /// In this many of 1000 cases nobody checks, and nobody says so.
    pub loses: u64,
}

/// What becomes of work that a replica gave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is done after this many nanoseconds.
    Done(u64),
    /// After this many nanoseconds the replica hears that nobody does it.
    GivenBack(u64),
    /// The replica hears nothing.
    Lost,
}

impl Workers {
    /// Draws what becomes of a piece of work.
    pub fn draw(&self, rng: &mut Rng) -> Fate {
        let most = if rng.chance(self.stalls) { self.stall } else { self.wait };
        let after = rng.range(0, most);
        match rng.below(1000) {
            lot if lot < self.gives_back => Fate::GivenBack(after),
            lot if lot < self.gives_back + self.loses => Fate::Lost,
            _ => Fate::Done(after),
        }
    }
}

/// In half of the runs in which clients sign, replicas have workers.
pub(super) fn plan_workers(plan: &mut Plan, rng: &mut Rng) {
    if !plan.signs || !rng.chance(500) {
        return;
    }
    plan.workers = Some(Workers {
        checks: ChecksAway { least: rng.pick(&[1, 1, 4]), most: rng.pick(&[1, 4, 16, 512]) },
        wait: rng.spread(MS / 100, 10 * MS),
        stalls: rng.pick(&[0, 10, 100]),
        stall: rng.spread(MS, 400 * MS),
        gives_back: rng.pick(&[0, 0, 20, 300]),
        loses: rng.pick(&[0, 0, 0, 20]),
    });
}
