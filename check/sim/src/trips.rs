//! Six trips of an operation through the product, whose instructions are counted.
//!
//! A trip is a run without faults, of one kind of operation in one kind of cluster. Under callgrind only the product is counted: the steps of
//! replicas and clients ([`in_product`]), and nothing of the simulator. A program has the same count each time, whatever else the machine
//! does. `quorate bench gate` counts and compares.

use crate::campaign::run_plan;
use crate::checks::Failure;
use crate::plan::{Plan, Profile, Upgrades};
use crate::service::ServiceConfig;
use crate::trace::Level;
use quorate_types::{FaultModel, Protocol};
use quorate_wire::FEATURE_LEVEL;

/// The name under which callgrind finds [`in_product`].
pub const COUNTED: &str = "*trips*in_product*";

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Trip {
    /// What the command line calls it.
    pub name: &'static str,
    /// What is on it.
    pub what: &'static str,
    protocol: Protocol,
    fault_model: FaultModel,
    instances: u16,
    /// Commands in one call, and calls of one client at once.
    load: (u64, usize),
    reads: bool,
}

const PLAIN: Trip = Trip {
    name: "raft",
    what: "single puts, agreed on by Raft",
    protocol: Protocol::Raft,
    fault_model: FaultModel::Crash,
    instances: 1,
    load: (1, 2),
    reads: false,
};

/// All of them.
pub const TRIPS: [Trip; 6] = [
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
    Trip { name: "reads", what: "strong reads, answered by the leader", reads: true, ..PLAIN },
    Trip {
        name: "mod-smart",
        what: "single puts, agreed on by Mod-SMaRt",
        protocol: Protocol::ModSmart,
        ..PLAIN
    },
    Trip {
        name: "byzantine",
        what: "single puts with a tag for each replica, of which one may lie",
        protocol: Protocol::ModSmart,
        fault_model: FaultModel::Byzantine,
        ..PLAIN
    },
];

/// The work of the product: only this is counted.
#[inline(never)]
pub(crate) fn in_product<T>(work: impl FnOnce() -> T) -> T {
    work()
}

impl Trip {
    /// Four clients begin so many operations each. What a seed would decide and costs instructions is fixed.
    fn plan(&self, operations: u32) -> Plan {
        let byzantine = self.fault_model == FaultModel::Byzantine;
        let calm = Profile::calm(self.fault_model, if byzantine { 4 } else { 3 });
        let some = Some(false);
        let chosen = Profile { protocol: Some(self.protocol), upgrades: some, resizes: some, ..calm };
        let profile = Profile { instances: Some(self.instances), lanes: Some(1), changes: some, ..chosen };
        let mut plan = Plan::calm(1, &profile);
        (plan.signs, plan.tags, plan.costs, plan.starved) = (false, byzantine, false, None);
        (plan.service, plan.scrub_every) = (ServiceConfig::default(), None);
        plan.upgrades = Upgrades {
            made_with: FEATURE_LEVEL,
            able: vec![FEATURE_LEVEL; plan.replicas],
            raise_after: None,
            careless: false,
        };
        (plan.log.segment_bytes, plan.log.block_bytes_max) = (1 << 20, 64 << 10);
        (plan.borders.interval_bytes, plan.log_bytes_max) = (1 << 30, 1 << 30);
        plan.admission = (64 << 10, 1 << 20);
        let work = &mut plan.workload;
        (work.operations, work.batch, work.at_once) = (operations, self.load.0, self.load.1);
        (work.keys, work.padding) = (64, 64);
        if self.reads {
            work.shares = [0, 1, 0, 0, 0, 0, 0, 0];
        }
        plan
    }

    /// Makes it, with so many operations of each of four clients. How many began in all.
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
