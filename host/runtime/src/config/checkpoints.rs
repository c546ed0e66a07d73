//! `[checkpoints]`: how often the state is written to disk, how, and at what cost.
//!
//! Replicas agree on where the borders lie and what their files hold, so that their files are the same byte for byte: on `mode`, the three
//! distances of borders, `ahead_percent` and `full_every`. The other settings are each replica's own. Tests:
//! host/runtime/tests/all/config.rs.

use super::{ConfigError, invalid, range};
use quorate_node::BorderConfig;
use quorate_state::transfer::ServeLimits;
use quorate_types::Span;
use serde::{Deserialize, Serialize};

const KIB: u64 = 1 << 10;
const TIB: u64 = 1 << 40;
/// The smallest distance of borders; with less, a replica would do nothing else.
const INTERVAL_BYTES_MIN: u64 = 64 * KIB;
/// The lowest rate; a lower one would not keep up with the slowest cluster.
const RATE_BYTES_MIN: u64 = 64 * KIB;

/// How a checkpoint is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckpointMode {
    /// Beside the work, begun ahead; between full ones only what changed since the last border.
    #[default]
    Differential,
    /// Beside the work, begun ahead; always everything.
    Full,
    /// Each replica at a border of its own; always everything.
    Staggered,
    /// Nothing is executed until the checkpoint is written. For comparison.
    StopAndCopy,
}

impl CheckpointMode {
    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Differential => "differential",
            Self::Full => "full",
            Self::Staggered => "staggered",
            Self::StopAndCopy => "stop-and-copy",
        }
    }
}

/// `[checkpoints]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointConfig {
    /// How a checkpoint is taken.
    pub mode: CheckpointMode,
    /// The least bytes of batches from one border to the next.
    pub interval_bytes: u64,
    /// The distance in percent of the state, if that is more.
    pub interval_state_percent: u32,
    /// The largest distance in bytes.
    pub interval_bytes_max: u64,
    /// The largest distance in seconds of agreed time, where something is written; 0 for any.
    pub interval_s: u32,
    /// How far before a border its capture begins, in percent of the interval.
    pub ahead_percent: u32,
    /// The number of borders from one full checkpoint to the next.
    pub full_every: u32,
    /// Bytes per second that writing checkpoints may use; 0 for no limit.
    pub rate_bytes: u64,
    /// Bytes of log that are kept behind the last agreed checkpoint.
    pub log_bytes_max: u64,
    /// Bytes per second that sending the state to another replica may use; 0 for no limit.
    pub transfer_rate_bytes: u64,
    /// How often all data on disk is read, in hours, to find damage early; 0 for never.
    pub scrub_hours: u64,
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        Self {
            mode: CheckpointMode::default(),
            interval_bytes: 256 << 20,
            interval_state_percent: 400,
            interval_bytes_max: 2 << 30,
            interval_s: 60,
            ahead_percent: 25,
            full_every: 8,
            rate_bytes: 64 << 20,
            log_bytes_max: 6 << 30,
            transfer_rate_bytes: 128 << 20,
            scrub_hours: 24,
        }
    }
}

impl CheckpointConfig {
    /// The settings of borders, and what is written there.
    pub(super) fn borders(&self) -> BorderConfig {
        BorderConfig {
            mode: match self.mode {
                CheckpointMode::Differential => quorate_node::CheckpointMode::Differential,
                CheckpointMode::Full => quorate_node::CheckpointMode::Full,
                CheckpointMode::Staggered => quorate_node::CheckpointMode::Staggered,
                CheckpointMode::StopAndCopy => quorate_node::CheckpointMode::StopAndCopy,
            },
            interval_bytes: self.interval_bytes,
            state_percent: u64::from(self.interval_state_percent),
            interval_bytes_max: self.interval_bytes_max,
            ahead_percent: u64::from(self.ahead_percent),
            full_every: u64::from(self.full_every),
            every: (self.interval_s > 0).then(|| Span::from_secs(u64::from(self.interval_s))),
        }
    }

    /// How often all data on disk is read; `None` for never.
    pub(super) fn scrub_every(&self) -> Option<Span> {
        (self.scrub_hours > 0).then(|| Span::from_secs(self.scrub_hours * 3600))
    }

    /// Bytes per second for writing checkpoints; `None` without a limit.
    pub fn rate(&self) -> Option<u64> {
        (self.rate_bytes > 0).then_some(self.rate_bytes)
    }

    /// Bytes per second for sending the state to other replicas; `None` without a limit.
    pub fn transfer_rate(&self) -> Option<u64> {
        (self.transfer_rate_bytes > 0).then_some(self.transfer_rate_bytes)
    }

    /// The limits of sending the state to other replicas.
    pub(super) fn serve(&self) -> ServeLimits {
        ServeLimits { rate: self.transfer_rate().unwrap_or(u64::MAX), ..ServeLimits::default() }
    }

    /// The settings that decide what files hold, besides the distances of borders.
    pub(super) fn agreed(&self) -> String {
        format!("{} {} {}", self.mode.name(), self.ahead_percent, self.full_every)
    }

    pub(super) fn check(&self, segment_bytes: u64) -> Result<(), ConfigError> {
        range(
            "checkpoints: interval_bytes",
            self.interval_bytes,
            INTERVAL_BYTES_MIN..=TIB,
            "1099511627776 (1 TiB)",
        )?;
        range("checkpoints: interval_state_percent", self.interval_state_percent, 0..=10_000, "10000")?;
        if !(self.interval_bytes..=TIB).contains(&self.interval_bytes_max) {
            return invalid(format!(
                "checkpoints: interval_bytes_max is at least interval_bytes, here {}, and at most 1099511627776 (1 TiB), not {}",
                self.interval_bytes, self.interval_bytes_max
            ));
        }
        range("checkpoints: interval_s", self.interval_s, 0..=86_400, "86400 (a day)")?;
        range("checkpoints: ahead_percent", self.ahead_percent, 0..=90, "90")?;
        range("checkpoints: full_every", self.full_every, 1..=64, "64")?;
        for (key, rate) in
            [("rate_bytes", self.rate_bytes), ("transfer_rate_bytes", self.transfer_rate_bytes)]
        {
            if rate != 0 && !(RATE_BYTES_MIN..=TIB).contains(&rate) {
                return invalid(format!(
                    "checkpoints: {key} is 0, which is no limit, or 65536 (64 KiB) to 1099511627776 (1 TiB) per second, not {rate}"
                ));
            }
        }
        range("checkpoints: scrub_hours", self.scrub_hours, 0..=8760, "8760 (a year)")?;
        // The log is kept from the last agreed border on, and the next one must be reached, written and agreed upon.
        let least = self.interval_bytes_max * 2 + segment_bytes * 2;
        if self.log_bytes_max < least || self.log_bytes_max > 16 * TIB {
            return invalid(format!(
                "checkpoints: log_bytes_max is at least twice interval_bytes_max and two segments, here {least}, and at most \
                 17592186044416 (16 TiB), not {}",
                self.log_bytes_max
            ));
        }
        Ok(())
    }
}
