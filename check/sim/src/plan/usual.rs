//! What every run has: a log, a network, and a workload.

use super::{MS, Profile};
use crate::net::NetPlan;
use crate::random::Rng;
use quorate_log::{LogConfig, SyncMode};

/// What clients do.
#[derive(Clone, Debug)]
pub struct Workload {
    /// When clients begin, in nanoseconds.
    pub since: u64,
    /// Operations of each client.
    pub operations: u32,
    /// At most so many operations of a client that lies: each may cost the office of a leader that believes it.
    pub of_liars: u32,
    /// At most this many operations of one client are open at once.
    pub at_once: usize,
    /// The most commands in one call.
    pub batch: u64,
    /// Keys, and lists.
    pub keys: u64,
    /// The most time between one operation and the next.
    pub pause: u64,
    /// The share of each kind: put, get, ordered get, delete, cas, append, weak read, list read.
    pub shares: [u64; 8],
    /// In this many of 1000 cases a call has a deadline.
    pub deadlines: u64,
    /// Bytes that are added to values.
    pub padding: u64,
    /// In this many of 1000 cases a read is for one replica only.
    pub pinned: u64,
}

/// The log's sizes and durability.
pub(super) fn log_plan(rng: &mut Rng, profile: &Profile) -> LogConfig {
    let mut modes = [SyncMode::Group; 8];
    modes[6..].copy_from_slice(&[SyncMode::Async, SyncMode::Memory]);
    let drawn = rng.pick(&modes);
    let sync = profile.sync.unwrap_or(drawn);
    let block = rng.pick(&[4096, 8192]);
    LogConfig {
        segment_bytes: rng.pick(&[20 << 10, 20 << 10, 32 << 10, 64 << 10, 256 << 10]),
        block_bytes_max: block,
        reserve_bytes: 2048,
        in_flight_max: rng.range(1, 4) as usize,
        segments_ahead: rng.range(1, 2),
        unsynced_bytes_max: 16 << 10,
        sync,
    }
}

/// How good the network is.
pub(super) fn net_plan(rng: &mut Rng) -> NetPlan {
    let base = rng.spread(20_000, 5 * MS);
    NetPlan {
        delay: (base, base * rng.range(1, 4)),
        jitter: rng.spread(10_000, 5 * MS),
        bandwidth: rng.chance(250).then(|| rng.spread(200, 100_000)),
        split: rng.pick(&[0, 50, 500]),
        spike: rng.pick(&[0, 0, 5, 30]),
    }
}

/// The operations are spread over the time in which faults happen, or come in one burst.
pub(super) fn workload(rng: &mut Rng, heal_at: u64, length: u32) -> Workload {
    let operations = rng.range(20, 120) as u32 * length;
    let even = heal_at / u64::from(operations);
    let pause = if rng.chance(800) { even * rng.range(1, 4) } else { rng.spread(MS, 400 * MS) };
    let mut shares = [0; 8];
    for share in &mut shares {
        *share = if rng.chance(300) { 0 } else { rng.range(1, 10) };
    }
    if shares[0] + shares[4] + shares[5] == 0 {
        shares[0] = 5;
    }
    Workload {
        since: 0,
        operations,
        of_liars: 8,
        at_once: rng.pick(&[1, 2, 8]),
        batch: rng.pick(&[1, 1, 4]),
        keys: rng.range(1, 5),
        pause,
        shares,
        deadlines: rng.pick(&[0, 0, 200]),
        padding: rng.pick(&[0, 0, 100, 400]),
        pinned: 0,
    }
}
