//! How many lanes and workers a replica has, and what stands on the lanes.

use super::{Config, ConfigError, INSTANCES_MAX, LANES_MAX, WORKERS_MAX, invalid, range};
use serde::{Deserialize, Serialize};
use std::num::NonZero;

/// Where the pillars of the instances stand: their requests, their protocols, and messages that wait for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pillars {
    /// On the main lane.
    Main,
    /// Each on the lane of its instance, if there are several lanes.
    #[default]
    Lanes,
}

impl Pillars {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How the work of a replica is divided among its lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlacementConfig {
    /// Each lane has instances, with their pillars and connections.
    #[default]
    Spread,
    /// Each lane has one step of the work of all instances: execution, agreement, or connections. For comparisons.
    Staged,
}

impl PlacementConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The fewest lanes of a staged replica, which each have a step of the work.
const STAGES: u16 = 3;

/// How many cores a replica may use, in place of a number of lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "cores is a number from 1, or \"auto\"")]
pub enum Cores {
    /// This many.
    Count(u16),
    /// As many as the system gives the process.
    Auto(Auto),
}

/// The word `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Auto {
    /// The word itself.
    Auto,
}

impl Cores {
    fn count(self) -> u16 {
        match self {
            Self::Count(count) => count,
            Self::Auto(_) => cores_here(),
        }
    }
}

/// How many cores the process may use. Cgroups count, and the set of cores that the system gives it.
pub(super) fn cores_here() -> u16 {
    std::thread::available_parallelism().map_or(1, NonZero::get).min(1 << 10) as u16
}

/// The most workers that a replica takes by itself.
const WORKERS_AUTO_MAX: u16 = 4;

/// How many workers a replica has: threads for work that need not be a lane's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "workers is a number from 0, or \"auto\"")]
pub enum WorkerCount {
    /// This many.
    Count(u16),
    /// One for each core beyond those of the lanes, at most four.
    Auto(Auto),
}

/// None: where replicas share few cores with others, handing signatures over costs more than it brings.
impl Default for WorkerCount {
    fn default() -> Self {
        Self::Count(0)
    }
}

impl WorkerCount {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// How many there are beside this many lanes, on a machine with so many cores.
    pub(super) fn beside(self, lanes: u16, cores: u16) -> u16 {
        match self {
            Self::Count(count) => count,
            Self::Auto(_) => cores.saturating_sub(lanes).min(WORKERS_AUTO_MAX),
        }
    }
}

impl Config {
    pub(super) fn check_lanes(&self) -> Result<(), ConfigError> {
        range("instances", self.instances, 1..=INSTANCES_MAX, "64")?;
        range("lanes", self.lanes, 1..=LANES_MAX, "64")?;
        self.check_placement()?;
        if let WorkerCount::Count(count) = self.workers {
            range("workers", count, 0..=WORKERS_MAX, "64, or \"auto\"")?;
        }
        match self.cores {
            None => Ok(()),
            Some(_) if self.lanes != 1 => {
                invalid("cores: give either cores or lanes; the one follows from the other")
            }
            Some(Cores::Count(0)) => invalid("cores: at least 1, or \"auto\""),
            Some(_) => Ok(()),
        }
    }

    fn check_placement(&self) -> Result<(), ConfigError> {
        if self.placement != PlacementConfig::Staged {
            return Ok(());
        }
        if self.pillars == Pillars::Main {
            return invalid(
                "placement: a staged replica agrees on a lane of its own; remove pillars = \"main\", or placement",
            );
        }
        if self.cores.is_some() {
            return invalid(
                "placement: a staged replica needs a number of lanes: give lanes in place of cores",
            );
        }
        if self.lanes < STAGES {
            return invalid(
                "placement: a staged replica needs 3 lanes or more: one executes, one agrees, and the others have the connections",
            );
        }
        Ok(())
    }

    /// How many lanes the replica has. One instance needs one; several have a lane each, as far as there are cores, and one is for what
    /// they share.
    pub(crate) fn lane_count(&self) -> u16 {
        match self.cores {
            None => self.lanes,
            Some(_) if self.instances == 1 => 1,
            Some(cores) => cores.count().min(self.instances + 1).clamp(1, LANES_MAX),
        }
    }

    /// How many workers it has: none where there is nothing for them to do, since clients sign only where replicas may lie.
    pub(crate) fn worker_count(&self) -> u16 {
        if self.fault_model.may_lie() { self.workers.beside(self.lane_count(), cores_here()) } else { 0 }
    }

    /// How many links it has to each member: with several lanes one for each instance, so that each can stand on any lane.
    pub(crate) fn link_count(&self) -> u16 {
        match self.lane_count() {
            1 => 1,
            _ if self.placement == PlacementConfig::Staged => (self.instances + 1).min(LANES_MAX),
            lanes => lanes.max(self.instances + 1).min(LANES_MAX),
        }
    }
}
