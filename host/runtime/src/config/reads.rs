//! `[reads]`: how strong reads are answered. Tests: host/runtime/tests/all/config.rs, config/tests.rs.

use super::{ConfigError, TimingConfig, invalid, range};
use serde::{Deserialize, Serialize};

/// The largest difference; clocks that differ by more are broken, and a lease would end before the next heartbeat.
const DRIFT_PERCENT_MAX: u8 = 50;

/// `[reads]`; must be the same on all replicas
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReadsConfig {
    /// Whether a leader answers strong reads without asking the others, as long as no other leader can have been elected.
    pub lease: bool,
    /// The most by which the rates of any two replicas' clocks differ, in percent. A lease is shorter by this percentage.
    pub clock_drift_percent: u8,
}

impl Default for ReadsConfig {
    fn default() -> Self {
        Self { lease: false, clock_drift_percent: 10 }
    }
}

impl ReadsConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn check(&self, timing: &TimingConfig) -> Result<(), ConfigError> {
        let drift = self.clock_drift_percent;
        range("reads: clock_drift_percent", drift, 1..=DRIFT_PERCENT_MAX, "50")?;
        let lasts = timing.election_min_ms.saturating_mul(100 - u64::from(drift)) / 100;
        if self.lease && lasts < timing.heartbeat_ms.saturating_mul(2) {
            return invalid(format!(
                "reads: a lease of {lasts} ms (election_min_ms less {drift} %) would be over before heartbeats every {} ms can \
                 extend it: make election_min_ms larger",
                timing.heartbeat_ms
            ));
        }
        Ok(())
    }

    /// The drift for the protocol; `None` without leases.
    pub(super) fn lease_drift_percent(&self) -> Option<u8> {
        self.lease.then_some(self.clock_drift_percent)
    }

    /// The settings that must be the same on all replicas, since some promise not to vote and others count on it.
    pub(super) fn agreed(&self, timing: &TimingConfig) -> String {
        match self.lease_drift_percent() {
            Some(drift) => format!(" lease {drift} {}", timing.election_min_ms),
            None => String::new(),
        }
    }
}
