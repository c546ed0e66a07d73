//! What was measured: one round of a line, the medians of all rounds, and those of an earlier run.

use super::peers::PeerRow;
use crate::bench::median::Median;
use crate::bench::report::{FloorRun, OwnRun};
use quorate_command::machine::Machine;
use serde::{Deserialize, Serialize};

/// One line in one round; what it has not is empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    pub(super) unit: &'static str,
    pub(super) ours: Option<f64>,
    pub(super) floor: Option<f64>,
    pub(super) per_cpu_s: Option<f64>,
    pub(super) p50_us: Option<f64>,
    pub(super) floor_p50_us: Option<f64>,
    /// Of replicas at rest: percent of a core that the leader uses, and that each other one does.
    pub(super) idle_percent: Option<(f64, f64)>,
    /// Why the round counts for nothing.
    pub(super) failed: Option<String>,
}

impl Round {
    pub(super) fn failed(why: String) -> Self {
        Self { failed: Some(why), ..Self::default() }
    }

    pub(super) fn beside(unit: &'static str, ours: &OwnRun, floor: &FloorRun) -> Self {
        let failed = match &ours.first_error {
            Some(error) => Some(format!("{} calls failed, the first one: {error}", ours.errors)),
            None if !ours.check.is_passed() => Some(ours.check.text().to_owned()),
            None => (!floor.replicas_agree).then(|| "the null program's replicas differ".to_owned()),
        };
        Self {
            unit,
            ours: Some(ours.per_s),
            floor: Some(floor.per_s),
            per_cpu_s: ours.per_replica_cpu_s,
            p50_us: Some(ours.latency_us.p50),
            floor_p50_us: Some(floor.p50_us),
            idle_percent: None,
            failed,
        }
    }

    pub(super) fn at_rest(memory_mib: f64, leader: f64, other: f64) -> Self {
        let idle_percent = Some((leader, other));
        Self { unit: "MiB for each replica", ours: Some(memory_mib), idle_percent, ..Self::default() }
    }
}

/// The medians of a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) line: String,
    /// What people type to measure it alone.
    pub(super) command: String,
    pub(super) unit: String,
    /// A rate per second, or what the unit says.
    pub(super) ours: Option<Median>,
    pub(super) floor: Option<Median>,
    /// Ours divided by the floor's, round by round.
    pub(super) ratio: Option<Median>,
    /// Per second of processor time of all replicas together.
    pub(super) per_cpu_s: Option<Median>,
    pub(super) p50_us: Option<Median>,
    /// The median latency divided by the floor's, round by round, where the floor's means the same.
    pub(super) p50_ratio: Option<Median>,
    pub(super) idle_leader_percent: Option<Median>,
    pub(super) idle_other_percent: Option<Median>,
    /// Why the line means nothing.
    pub(super) failed: Option<String>,
}

impl Row {
    /// The medians of these rounds. `as_the_floor`: the floor's latency means the same.
    pub(super) fn of<'r>(
        line: &str,
        command: String,
        rounds: impl Iterator<Item = &'r Round>,
        as_the_floor: bool,
    ) -> Self {
        let rounds: Vec<&Round> = rounds.collect();
        let median = |of: &dyn Fn(&Round) -> Option<f64>| {
            Median::of(
                rounds.iter().filter_map(|round| of(round)).filter(|value| value.is_finite()).collect(),
            )
        };
        let ratio = |ours: Option<f64>, floor: Option<f64>| Some(ours? / floor?);
        let p50 = |round: &Round| ratio(round.p50_us, round.floor_p50_us);
        Self {
            line: line.into(),
            command,
            unit: rounds
                .iter()
                .map(|round| round.unit)
                .find(|unit| !unit.is_empty())
                .unwrap_or_default()
                .into(),
            ours: median(&|round| round.ours),
            floor: median(&|round| round.floor),
            ratio: median(&|round| ratio(round.ours, round.floor)),
            per_cpu_s: median(&|round| round.per_cpu_s),
            p50_us: median(&|round| round.p50_us),
            p50_ratio: if as_the_floor { median(&p50) } else { None },
            idle_leader_percent: median(&|round| Some(round.idle_percent?.0)),
            idle_other_percent: median(&|round| Some(round.idle_percent?.1)),
            failed: rounds.iter().find_map(|round| round.failed.clone()),
        }
    }
}

/// The whole result.
#[derive(Serialize)]
pub(super) struct Document {
    pub(super) benchmark: String,
    pub(super) version: String,
    pub(super) rounds: u32,
    pub(super) seconds: f64,
    pub(super) machine: Machine,
    pub(super) lines: Vec<Row>,
    pub(super) peers: Vec<PeerRow>,
}

/// What is read of an earlier result.
#[derive(Deserialize)]
pub(super) struct Earlier {
    benchmark: String,
    pub(super) lines: Vec<Row>,
    pub(super) peers: Vec<PeerRow>,
}

impl Earlier {
    /// The last document of a file.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let is_none = |why: &str| format!("{why}; `quorate bench table --json` writes such files");
        let documents = serde_json::Deserializer::from_str(text).into_iter::<Self>();
        let documents = documents.collect::<Result<Vec<_>, _>>().map_err(|why| is_none(&why.to_string()))?;
        let last = documents.into_iter().last().ok_or_else(|| is_none("the file is empty"))?;
        if last.benchmark == "table" {
            Ok(last)
        } else {
            Err(is_none(&format!("it is of {:?}", last.benchmark)))
        }
    }

    pub(super) fn line(&self, name: &str) -> Option<&Row> {
        self.lines.iter().find(|row| row.line == name)
    }

    pub(super) fn peer(&self, peer: &str, name: &str) -> Option<&PeerRow> {
        self.peers.iter().find(|row| row.peer == peer && row.name == name)
    }
}
