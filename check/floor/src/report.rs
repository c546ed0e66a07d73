//! What a run found.

use crate::Config;
use serde::{Deserialize, Serialize};

/// CPU seconds of one process. Linux counts them in ticks, usually of 10 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// In its own code.
    pub user_s: f64,
    /// In the kernel on its behalf.
    pub system_s: f64,
}

impl Cpu {
    /// What was used between `before` and `self`.
    pub(crate) fn since(self, before: Cpu) -> Cpu {
        Cpu { user_s: self.user_s - before.user_s, system_s: self.system_s - before.system_s }
    }
}

/// Latency in microseconds, from the moment a batch is put together by the load generator until its last
/// command is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Batches measured.
    pub samples: u64,
    /// The median.
    pub p50_us: f64,
    /// 99 of 100 are not slower.
    pub p99_us: f64,
    /// 999 of 1000 are not slower.
    pub p999_us: f64,
    /// The slowest.
    pub max_us: f64,
}

impl Latency {
    /// Sorts the samples, which are nanoseconds.
    pub(crate) fn of(samples: &mut [u64]) -> Latency {
        samples.sort_unstable();
        let Some(last) = samples.len().checked_sub(1) else { return Latency::default() };
        // the smallest sample that at least `q` of all do not exceed
        let at = |q: f64| {
            let rank = (samples.len() as f64 * q).ceil() as usize;
            samples[rank.saturating_sub(1).min(last)] as f64 / 1000.0
        };
        Latency {
            samples: samples.len() as u64,
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: samples[last] as f64 / 1000.0,
        }
    }
}

/// One replica at the end of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplicaReport {
    /// "leader" or "follower 1", "follower 2", ...
    pub role: String,
    /// Commands that it holds after the whole run.
    pub commands: u64,
    /// Wrapping sum over the bytes of those commands.
    pub sum: u64,
    /// How often it wrote, or wrote and synced, its log.
    pub writes: u64,
    /// CPU in the measured time.
    pub cpu: Cpu,
}

/// What a run found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The configuration of the run.
    pub config: Config,
    /// How long was measured.
    pub seconds: f64,
    /// Commands answered in the measured time.
    pub commits: u64,
    /// Commands answered per second.
    pub commits_per_s: f64,
    /// Latency of the batches that were put together and answered in the measured time.
    pub latency: Latency,
    /// The leader first, then the followers.
    pub replicas: Vec<ReplicaReport>,
    /// CPU of the load generator in the measured time.
    pub load_cpu: Cpu,
    /// Every replica holds the number of commands that the load generator sent, and the same bytes (by their sum).
    pub agree: bool,
}

impl Report {
    /// CPU of all replicas together in the measured time.
    pub fn replicas_cpu(&self) -> Cpu {
        self.replicas.iter().fold(Cpu::default(), |all, r| Cpu {
            user_s: all.user_s + r.cpu.user_s,
            system_s: all.system_s + r.cpu.system_s,
        })
    }
}

#[cfg(test)]
mod tests;
