//! What to run: sizes, window, durability, times.

use crate::{Error, Result, frame};
use quorate_types::{FaultModel, Faults};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The smallest command: the load generator writes its number twice into it.
pub(crate) const COMMAND_BYTES_MIN: usize = 16;

/// What a replica does with the log before it counts a byte as held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sync {
    /// Nothing is written.
    Memory,
    /// The log is written to a file and not synced.
    Write,
    /// The log is written to a file and synced by `fdatasync`.
    Fdatasync,
}

/// Who hears the commands of callers that have connections of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HeardBy {
    /// The leader alone, as where tags show to all who asked.
    #[default]
    Leader,
    /// All replicas, as where each believes only what it heard itself.
    All,
}

/// The most callers with connections of their own.
const CALLERS_MAX: usize = 10_000;

/// The most replicas, the leader among them: those of a cluster that survives three liars.
pub(crate) const REPLICAS_MAX: usize = 10;

/// The most slots under way at a time.
const IN_FLIGHT_MAX: u64 = 256;

/// One run of the null program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Size of a command, at least 16.
    pub command_bytes: usize,
    /// The most command bytes in one frame of the log.
    pub batch_bytes: usize,
    /// Commands outstanding: sent and not yet answered. Not where there are callers.
    pub window: u64,
    /// With Byzantine faults: so many callers in place of one stream of commands, each with a connection to every replica and one command
    /// outstanding. 0: none.
    #[serde(default)]
    pub callers: usize,
    /// Who hears the commands of callers.
    #[serde(default)]
    pub heard_by: HeardBy,
    /// When a replica counts a byte as held.
    pub sync: Sync,
    /// How much longer each sync takes, in microseconds; used when the floor is compared with a program whose syncs are delayed as much.
    #[serde(default)]
    pub sync_delay_us: u64,
    /// Where the log files lie when `sync` is not `Memory`.
    pub dir: PathBuf,
    /// Size of each log file. It is filled before the run and then overwritten round and round, so that a sync
    /// writes no metadata.
    pub file_mb: u64,
    /// How long to measure.
    pub seconds: f64,
    /// How long to run before measuring.
    pub warm_up_seconds: f64,
    /// Followers beside the leader: 2 for three replicas.
    pub followers: usize,
    /// With Byzantine faults the replicas agree by PROPOSE, WRITE and ACCEPT.
    #[serde(default)]
    pub fault_model: FaultModel,
    /// With Byzantine faults: slots under way at a time. Mod-SMaRt has 1.
    #[serde(default = "one")]
    pub in_flight: u64,
    /// TCP congestion control of every socket; "system" leaves the system's own. It matters even on loopback:
    /// bbr paces what it sends.
    pub congestion_control: String,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            command_bytes: 16,
            batch_bytes: 64 << 10,
            window: 65_536,
            callers: 0,
            heard_by: HeardBy::Leader,
            sync: Sync::Memory,
            sync_delay_us: 0,
            dir: std::env::temp_dir().join("quorate-floor"),
            file_mb: 128,
            seconds: 3.0,
            warm_up_seconds: 0.5,
            followers: 2,
            fault_model: FaultModel::Crash,
            in_flight: one(),
            congestion_control: "reno".into(),
        }
    }
}

fn one() -> u64 {
    1
}

impl Config {
    /// This configuration with another fault model, and with as many replicas as that model needs to survive one fault.
    #[must_use]
    pub fn surviving(self, fault_model: FaultModel) -> Config {
        let followers = match fault_model {
            FaultModel::Crash => 2,
            FaultModel::Byzantine => 3,
            FaultModel::Visigoth(sizes) => sizes.members_min() as usize - 1,
        };
        Config { fault_model, followers, ..self }
    }

    /// How many replicas there are.
    pub(crate) fn replicas(&self) -> u8 {
        self.followers as u8 + 1
    }

    /// How many of them must hold what is committed.
    pub(crate) fn quorum(&self) -> u32 {
        Faults::of(self.fault_model).among(u32::from(self.replicas())).agreement()
    }

    /// How many replicas must say that a command is committed: with Byzantine faults not all of them lie.
    pub(crate) fn answers(&self) -> usize {
        Faults::of(self.fault_model).among(u32::from(self.replicas())).truth() as usize
    }

    /// Refuses a configuration that can not run, and says why.
    pub(crate) fn check(&self) -> Result<()> {
        let no = |why: &str| Err(Error::Config(why.into()));
        if self.command_bytes < COMMAND_BYTES_MIN {
            return no("command_bytes must be at least 16");
        }
        if self.batch_bytes < self.command_bytes {
            return no("batch_bytes must be at least command_bytes");
        }
        if self.batch_bytes > frame::BODY_BYTES_MAX {
            return no("batch_bytes must be at most 1 MiB");
        }
        if self.window == 0 {
            return no("window must be at least 1");
        }
        if self.callers > CALLERS_MAX {
            return no("callers must be at most 10000");
        }
        if self.callers > 0 && !self.fault_model.may_lie() {
            return no("callers with connections of their own are for Byzantine faults");
        }
        if self.sync_delay_us > 1_000_000 {
            return no("sync_delay_us must be at most 1000000");
        }
        if !(1..=1 << 20).contains(&self.file_mb) {
            return no("file_mb must be between 1 and 1048576");
        }
        if !(1..REPLICAS_MAX).contains(&self.followers) {
            return no("followers must be between 1 and 9");
        }
        if self.fault_model == FaultModel::Byzantine && self.followers < 3 {
            return no("followers must be at least 3 with Byzantine faults");
        }
        match self.fault_model.may_lie() {
            true if !(1..=IN_FLIGHT_MAX).contains(&self.in_flight) => {
                return no("in_flight must be between 1 and 256");
            }
            false if self.in_flight != 1 => {
                return no("in_flight is for Byzantine faults: with crash faults nothing waits for a slot");
            }
            _ => {}
        }
        let sane = |s: f64| (0.0..=86_400.0).contains(&s);
        if !sane(self.seconds) || self.seconds == 0.0 || !sane(self.warm_up_seconds) {
            return no("seconds must be above 0, warm_up_seconds not below 0, and both at most a day");
        }
        Ok(())
    }
}
