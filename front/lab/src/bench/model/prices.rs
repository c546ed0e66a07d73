//! The prices of steps, from what stages and whole lanes took. Tests: `tests.rs`.

use quorate_sim::work::Prices;
use serde::{Deserialize, Serialize};

/// What a cluster of one instance on one lane took, measured while its leader's lane was full.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Taken {
    /// Processor time of the leader's lane for a call, in nanoseconds.
    pub(super) leader_ns: f64,
    /// The same of a follower's lane.
    pub(super) follower_ns: f64,
    pub(super) calls_per_batch: f64,
}

/// What is measured for one size of commands.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Costs {
    /// The size of a command, and of a call with its head.
    pub(super) bytes: usize,
    pub(super) call_bytes: usize,
    /// What execution takes for a call, by `bench stages`, in nanoseconds.
    pub(super) execute_ns: f64,
    pub(super) taken: Taken,
}

/// What batches cost beside the calls in them, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PerBatch {
    pub(super) leader_ns: f64,
    pub(super) follower_ns: f64,
}

impl PerBatch {
    /// From the same calls in large batches and in small ones.
    pub(super) fn between(large: Taken, small: Taken) -> Self {
        let batches = (1.0 / small.calls_per_batch - 1.0 / large.calls_per_batch).max(f64::MIN_POSITIVE);
        let price = |small: f64, large: f64| ((small - large) / batches).max(0.0);
        Self {
            leader_ns: price(small.leader_ns, large.leader_ns),
            follower_ns: price(small.follower_ns, large.follower_ns),
        }
    }

    /// The prices of a frame and of a slot. For a batch a leader sends two messages, hears two, and answers clients; a follower hears one
    /// and sends one.
    fn parts(self) -> (f64, f64) {
        let frame = ((self.leader_ns - self.follower_ns) / 3.0).clamp(0.0, self.follower_ns / 2.0);
        (frame, self.follower_ns - 2.0 * frame)
    }
}

/// The prices of steps. `hand_ns`: what a word from lane to lane costs each of the two.
pub(super) fn prices(costs: Costs, batch: PerBatch, hand_ns: f64) -> Prices {
    let (frame, slot) = batch.parts();
    let rest = |all: f64, per_batch: f64| {
        (all - per_batch / costs.taken.calls_per_batch - costs.execute_ns).max(0.0)
    };
    Prices {
        call: rest(costs.taken.leader_ns, batch.leader_ns),
        byte: rest(costs.taken.follower_ns, batch.follower_ns) / costs.call_bytes as f64,
        frame,
        slot,
        execute: costs.execute_ns,
        hand: hand_ns,
    }
}
