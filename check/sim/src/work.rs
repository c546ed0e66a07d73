//! Work that takes time: what the steps of a replica cost the lane that takes them, and how much of a core each lane has. So a simulated
//! cluster has a rate, that of its real node code: batches, windows, and a merge that waits for the slowest instance.
//!
//! The prices come from measurements (`quorate bench model`). Nothing here says how fast a cluster is; it says what follows from prices.
//! Tests: check/sim/tests/all/work.rs.

use crate::checks::Failure;
use crate::net::NetPlan;
use crate::plan::{Apart, Plan, Workload};
use crate::trips;
use crate::world::World;
use crate::{Level, SyncMode};
use quorate_log::LogConfig;
use quorate_node::Placement;

const MS: u64 = 1_000_000;
/// The simulator's requests have about this many bytes; those of larger calls stand for more bytes than they have.
const CALL: f64 = 900.0;
/// When clients begin: leaders have found their replicas by then.
const SINCE: u64 = 3_000 * MS;
/// A frame of a member has this many bytes beside what it says of calls, at most.
const HEAD: usize = 128;
/// A lane reads no further in a turn that has taken so long.
pub(crate) const SLICE: u64 = MS / 4;

/// What the steps of a replica cost, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prices {
    /// A call, at the lane that admits it: it is read, admitted, and sent to the followers.
    pub call: f64,
    /// A byte of calls in a message from a member, at the lane that reads it.
    pub byte: f64,
    /// A message of a member that is read, and a frame that is sent.
    pub frame: f64,
    /// A slot, at the main lane: its record, and the merge.
    pub slot: f64,
    /// A call, at the main lane: it is executed and answered.
    pub execute: f64,
    /// A turn of another lane after which the main lane hears something, at each of the two.
    pub hand: f64,
}

/// The work of the lanes in a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// What it costs.
    pub prices: Prices,
    /// Each lane has a core for so long out of every so long, in nanoseconds.
    pub quota: (u64, u64),
}

impl Work {
    /// The price of reading a message of a member.
    pub(crate) fn message(&self, bytes: usize) -> f64 {
        self.prices.frame + self.prices.byte * bytes.saturating_sub(HEAD) as f64
    }
}

/// A lane's core: it has some time of every period, and uses it as long as it has work.
#[derive(Clone, Debug)]
pub struct Core {
    quota: (u64, u64),
    /// When its first period begins, before the beginning.
    phase: u64,
    /// The period in which it worked last, and how much of that it used.
    period: (u64, u64),
    /// It works until then.
    busy: u64,
    /// How long it worked in all.
    worked: u64,
}

impl Core {
    /// A core that has not worked yet, for so long out of every so long. Its periods begin this much earlier than the time.
    pub fn new(quota: (u64, u64), phase: u64) -> Self {
        Self { quota, phase, period: (0, 0), busy: 0, worked: 0 }
    }

    /// More work comes at this time. Returns when it is done.
    pub fn work(&mut self, now: u64, work: u64) -> u64 {
        let (share, length) = self.quota;
        let (mut at, mut left) = (self.busy.max(now), work);
        self.worked += work;
        while left > 0 {
            let period = (at + self.phase) / length;
            if period != self.period.0 {
                self.period = (period, 0);
            }
            let ends = (period + 1) * length - self.phase;
            let piece = left.min(share - self.period.1).min(ends - at);
            (at, left) = (at + piece, left - piece);
            self.period.1 += piece;
            if left > 0 && self.period.1 == share {
                at = ends;
            }
        }
        self.busy = at;
        at
    }

    /// Until when it works.
    pub fn busy(&self) -> u64 {
        self.busy
    }

    /// How long it worked in all, in nanoseconds.
    pub fn worked(&self) -> u64 {
        self.worked
    }
}

/// Which lane has which link, as in host/runtime/src/lane/placement.rs: the main lane counts with a third of a link for each of them.
pub(crate) fn spread(links: u16, lanes: u16) -> Vec<u16> {
    let mut load = vec![0; usize::from(lanes)];
    load[0] = 32 * u64::from(links.saturating_sub(1));
    let mut placed = vec![0];
    for _ in 1..links {
        let lane = (0..lanes).min_by_key(|lane| (load[usize::from(*lane)], *lane == 0)).unwrap_or(0);
        load[usize::from(lane)] += 100;
        placed.push(lane);
    }
    placed
}

/// A cluster of three replicas whose rate is wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Instances, and the lanes of each replica.
    pub instances: u16,
    /// See `instances`.
    pub lanes: u16,
    /// Clients, each with a session.
    pub clients: usize,
    /// Calls of each client that are under way.
    pub calls: usize,
    /// The bytes of a call.
    pub call_bytes: usize,
    /// The work of its lanes.
    pub work: Work,
}

/// What a run of a shape came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    /// Calls in a second.
    pub calls_per_s: f64,
    /// The share of its time that each lane of each replica worked, the main lane first.
    pub busy: Vec<Vec<f64>>,
    /// Calls in a slot, with empty slots.
    pub calls_per_slot: f64,
}

impl Shape {
    /// Runs it until so many calls were executed after the first ones, which do not count.
    ///
    /// # Errors
    /// When a checker found something, or the calls were not executed within so much virtual time.
    pub fn rate(&self, calls: usize) -> Result<Rate, Failure> {
        let first = 2 * self.clients * self.calls + 10 * self.clients;
        let mut world = World::new(self.plan(), Level::Hash);
        let before = world.work_until(first)?;
        let after = world.work_until(first + calls)?;
        let seconds = (after.at - before.at) as f64 / 1e9;
        let (share, length) = self.work.quota;
        let all = seconds * 1e9 * share as f64 / length as f64;
        let busy = |(after, before): (&Vec<u64>, &Vec<u64>)| {
            after.iter().zip(before).map(|(after, before)| (after - before) as f64 / all).collect()
        };
        Ok(Rate {
            calls_per_s: (after.calls - before.calls) as f64 / seconds,
            busy: after.worked.iter().zip(&before.worked).map(busy).collect(),
            calls_per_slot: (after.calls - before.calls) as f64 / (after.slots - before.slots).max(1) as f64,
        })
    }

    /// How many real bytes a byte of the simulator stands for.
    fn scale(&self) -> f64 {
        (self.call_bytes as f64 / CALL).max(1.0)
    }

    fn plan(&self) -> Plan {
        let scale = self.scale();
        let scaled = |bytes: usize| (bytes as f64 / scale) as usize;
        let mut work = self.work;
        work.prices.byte *= scale;
        let lanes_apart = Apart {
            placement: Placement { gate: false, groups: true },
            wait: MS / 1000,
            stalls: 0,
            stall: MS,
            moves: Some(MS),
        };
        let base = trips::calm();
        // The name and the key of a put take 30 bytes; padding is drawn, and half of the most on average.
        let padding = 2 * (scaled(self.call_bytes) as u64).saturating_sub(30);
        Plan {
            instances: self.instances,
            lanes: self.lanes,
            apart: (self.lanes > 1).then_some(lanes_apart),
            clients: self.clients,
            adapts: true,
            log: LogConfig { sync: SyncMode::Memory, ..LogConfig::default() },
            net: NetPlan { delay: (MS / 50, MS / 40), jitter: MS / 100, bandwidth: None, split: 0, spike: 0 },
            workload: Workload {
                since: SINCE,
                operations: u32::MAX,
                at_once: self.calls,
                batch: 1,
                pause: 0,
                padding,
                ..base.workload
            },
            sizes: (scaled(16 << 20), scaled(1 << 20), 64 << 20),
            admission: (scaled(256 << 10), scaled(64 << 20)),
            in_flight: (2, scaled(4 << 20)),
            heal_at: 60 * MS,
            work: Some(work),
            ..base
        }
    }
}
