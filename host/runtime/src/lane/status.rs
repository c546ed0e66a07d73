//! The whole status of a replica: what its node says, and what its process adds.

use super::pressure::BufferStatus;
use super::side::LaneStatus;
use crate::calls::{CallStatus, FrontCalls};
use crate::clerk::{DiskRoom, TlsStatus};
use crate::facts::ProcessFacts;
use crate::oracle::OracleStatus;
use crate::stages::SlowStatus;
use crate::traces::TracesStatus;
use crate::workers::WorkersStatus;
use quorate_node::NodeStatus;
use quorate_types::Durations;
use serde::Serialize;
use std::collections::BTreeMap;

/// What `quorate status --json` has of a replica. The field names are read by programs.
#[derive(Serialize)]
pub(crate) struct WholeStatus {
    #[serde(flatten)]
    pub(crate) node: NodeStatus,
    pub(super) process: ProcessFacts,
    pub(super) buffers: BufferStatus,
    pub(super) lanes: Vec<LaneStatus>,
    /// How long the turns of the main lane took.
    pub(super) turns: Durations,
    /// How often this process heard of another leader of the first instance.
    pub(super) leader_changes: u64,
    /// What took longer than the configuration says.
    pub(super) slow: SlowStatus,
    /// `None` where there are no traces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) traces: Option<TracesStatus>,
    pub(super) workers: WorkersStatus,
    /// The workers that run commands; `None` where commands run one after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) executors: Option<WorkersStatus>,
    /// `None` where no fault model needs one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) oracle: Option<OracleStatus>,
    pub(super) disk: DiskRoom,
    /// `None` where connections are plain.
    pub(super) tls: Option<TlsStatus>,
    /// The addresses of its fronts, by their names.
    pub(super) fronts: BTreeMap<String, String>,
    /// What fronts say of the calls of their clients, by their names.
    pub(super) calls: BTreeMap<&'static str, Vec<CallStatus>>,
}

/// What the status says of this replica's fronts.
#[derive(Default)]
pub(crate) struct Fronts {
    /// Their addresses, by their names.
    pub(crate) addresses: BTreeMap<String, String>,
    pub(crate) calls: FrontCalls,
}

impl WholeStatus {
    /// With the problems of the process, these, and those that it was given on purpose, behind those of the node.
    pub(super) fn with_problems(mut self, others: [Option<String>; 5]) -> Self {
        self.node.problems.extend(self.tls.iter().flat_map(TlsStatus::problems));
        let asked = self.oracle.as_ref().and_then(OracleStatus::problem);
        let ran = self.executors.and_then(|executors| executors.problem());
        let room = self.disk.problem(self.node.log.disk_full);
        let problems = [self.buffers.problem(), room, self.workers.problem(), ran, asked];
        self.node.problems.extend(problems.into_iter().chain(others).flatten());
        self
    }
}
