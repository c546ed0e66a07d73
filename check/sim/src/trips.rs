//! Nine trips of an operation through the product, whose instructions are counted.
//!
//! A trip is a run without faults, of one kind of operation in one kind of cluster. Under callgrind only the product is counted: the steps
//! of replicas and clients (`in_product`), and nothing of the simulator. A program has nearly the same count each time, whatever else the
//! machine does. `quorate bench gate` counts and compares.

use crate::campaign::run_plan;
use crate::checks::Failure;
use crate::net::NetPlan;
use crate::plan::{Apart, Plan, Upgrades, Workload};
use crate::service::ServiceConfig;
use crate::trace::Level;
use quorate_log::{LogConfig, SyncMode};
use quorate_node::{BorderConfig, CheckpointMode, Placement};
use quorate_order::Protocol;
use quorate_state::transfer::{FetchLimits, ServeLimits};
use quorate_types::FaultModel;
use quorate_wire::FEATURE_LEVEL;

const MS: u64 = 1_000_000;
/// More bytes than there ever are.
const NEVER: u64 = 1 << 30;
const LOG: LogConfig = LogConfig {
    segment_bytes: 1 << 20,
    block_bytes_max: 64 << 10,
    reserve_bytes: 2048,
    in_flight_max: 4,
    segments_ahead: 1,
    unsynced_bytes_max: 16 << 10,
    sync: SyncMode::Group,
};

const NET: NetPlan =
    NetPlan { delay: (MS / 10, MS / 5), jitter: MS / 10, bandwidth: None, split: 0, spike: 0 };
const BORDERS: BorderConfig = BorderConfig {
    mode: CheckpointMode::Full,
    interval_bytes: NEVER,
    state_percent: 0,
    interval_bytes_max: NEVER,
    ahead_percent: 0,
    full_every: 1,
    every: None,
};

/// Pillars have lanes of their own, which have their turns soon.
const PILLARS: Apart = Apart {
    placement: Placement { gate: false, groups: true },
    wait: MS / 1000,
    stalls: 0,
    stall: MS,
    moves: None,
};
/// More than a store must hold so that the engine reads ahead.
const LARGE: u64 = 3 << 20;

/// The name under which callgrind finds `in_product`.
pub const COUNTED: &str = "*trips*in_product*";

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Trip {
    /// What the command line calls it.
    pub name: &'static str,
    /// What happens on it.
    pub what: &'static str,
    protocol: Protocol,
    fault_model: FaultModel,
    instances: u16,
    /// Commands in one call, and calls of one client at once.
    load: (u64, usize),
    /// The most time between one call and the next.
    pause: u64,
    /// The share of each kind of operation, as in [`Workload`].
    shares: [u64; 8],
    apart: Option<Apart>,
    /// How much the store holds from the beginning.
    filled: u64,
}

const PLAIN: Trip = Trip {
    name: "raft",
    what: "single puts, agreed on by Raft",
    protocol: Protocol::RAFT,
    fault_model: FaultModel::Crash,
    instances: 1,
    load: (1, 2),
    pause: MS,
    shares: [1, 0, 0, 0, 0, 0, 0, 0],
    apart: None,
    filled: 0,
};

/// All of them.
pub const TRIPS: [Trip; 9] = [
    PLAIN,
    Trip {
        name: "batches",
        what: "calls of up to 32 puts, several at once, agreed on by Raft",
        load: (32, 4),
        ..PLAIN
    },
    Trip {
        name: "instances",
        what: "single puts, agreed on by eight instances and merged",
        instances: 8,
        ..PLAIN
    },
    Trip {
        name: "reads",
        what: "strong reads, answered by the leader",
        shares: [0, 1, 0, 0, 0, 0, 0, 0],
        ..PLAIN
    },
    Trip {
        name: "mod-smart",
        what: "single puts, agreed on by Mod-SMaRt",
        protocol: Protocol::MOD_SMART,
        ..PLAIN
    },
    Trip {
        name: "byzantine",
        what: "single puts with a tag for each replica, of which one may lie",
        protocol: Protocol::MOD_SMART,
        fault_model: FaultModel::Byzantine,
        ..PLAIN
    },
    Trip {
        name: "pillars",
        what: "single puts, eight instances, whose pillars have lanes of their own",
        instances: 8,
        apart: Some(PILLARS),
        ..PLAIN
    },
    Trip {
        name: "weak-reads",
        what: "weak reads and reads for a session, answered by any replica",
        shares: [0, 0, 0, 0, 0, 0, 1, 0],
        ..PLAIN
    },
    Trip {
        name: "large",
        what: "calls of up to 32 puts, and reads, many at once, in a store that is read ahead",
        load: (32, 16),
        pause: 0,
        shares: [1, 8, 0, 0, 0, 0, 8, 0],
        filled: LARGE,
        ..PLAIN
    },
];

/// Work of the product; only this is counted.
#[inline(never)]
pub(crate) fn in_product<T>(work: impl FnOnce() -> T) -> T {
    work()
}

/// A plan without faults, for other runs of that kind.
pub(crate) fn calm() -> Plan {
    PLAIN.plan(0)
}

/// All programs are the newest, and stay.
fn newest(replicas: usize) -> Upgrades {
    let able = vec![FEATURE_LEVEL; replicas];
    Upgrades { made_with: FEATURE_LEVEL, able, raise_after: None, careless: false }
}

impl Trip {
    /// A plan with four clients that begin this many operations each. It draws nothing, so that a trip's cost does not depend on other
    /// plans.
    fn plan(&self, operations: u32) -> Plan {
        let replicas = if self.fault_model.may_lie() { 4 } else { 3 };
        Plan {
            seed: 1,
            focus: None,
            replicas,
            founders: replicas,
            protocol: self.protocol,
            fault_model: self.fault_model,
            eras: None,
            weighted: false,
            liars: Vec::new(),
            lying_clients: Vec::new(),
            lateness: None,
            apart: self.apart,
            signs: false,
            workers: None,
            executor: None,
            verified: None,
            oracle: None,
            tags: self.fault_model.may_lie(),
            rotate_after: 0,
            instances: self.instances,
            lanes: 1,
            adapts: false,
            resizes: false,
            window: 256,
            restored: false,
            clients: 4,
            carriers: 0,
            log: LOG,
            net: NET,
            workload: self.workload(operations),
            timing: (50, 300, 600),
            sizes: (1 << 20, 64 << 10, 1 << 20),
            admission: (64 << 10, 1 << 20),
            in_flight: (2, 1 << 20),
            sessions: (60_000, 1024),
            disk: (MS / 10, MS),
            lease: None,
            drift: 0,
            aim: 0,
            costs: false,
            starved: None,
            work: None,
            borders: BORDERS,
            log_bytes_max: NEVER,
            fetch: FetchLimits::default(),
            serve: ServeLimits::default(),
            keeping: (MS / 100, MS / 10),
            scrub_every: None,
            disk_stall: 60_000,
            upgrades: newest(replicas),
            service: ServiceConfig { filled: self.filled, ..ServiceConfig::default() },
            faults: Vec::new(),
            heal_at: 100 * MS,
            bound: 60_000 * MS,
        }
    }

    fn workload(&self, operations: u32) -> Workload {
        Workload {
            since: 0,
            operations,
            of_liars: 0,
            at_once: self.load.1,
            batch: self.load.0,
            keys: 64,
            pause: self.pause,
            shares: self.shares,
            deadlines: 0,
            padding: 64,
            pinned: 0,
        }
    }

    /// Makes the trip, with this many operations of each of four clients. Returns how many began in all.
    ///
    /// # Errors
    /// When the run was not clean.
    pub fn make(&self, operations: u32) -> Result<u64, Failure> {
        let (report, _) = run_plan(self.plan(operations), Level::Hash);
        match report.failure {
            None => Ok(report.operations as u64),
            Some(failure) => Err(failure),
        }
    }
}
