//! `[telemetry]`: from when on something is slow enough for a line in the log.

use super::{ConfigError, HOUR_MS, range};
use quorate_types::Span;
use serde::{Deserialize, Serialize};

/// `[telemetry]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetryConfig {
    /// A batch whose execution takes longer than so many milliseconds is logged; 0: none is.
    pub slow_execution_ms: u64,
    /// A batch whose first request waits longer than so many milliseconds, from its arrival at the leader to the replies, is logged there;
    /// 0: none is.
    pub slow_request_ms: u64,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self { slow_execution_ms: 100, slow_request_ms: 1000 }
    }
}

impl TelemetryConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        const END: &str = "3600000, which is an hour; 0 for no lines";
        range("telemetry: slow_execution_ms", self.slow_execution_ms, 0..=HOUR_MS, END)?;
        range("telemetry: slow_request_ms", self.slow_request_ms, 0..=HOUR_MS, END)
    }

    /// From when on an execution is slow, if any is.
    pub(crate) fn slow_execution(&self) -> Option<Span> {
        limit(self.slow_execution_ms)
    }

    /// From when on a request is slow, if any is.
    pub(crate) fn slow_request(&self) -> Option<Span> {
        limit(self.slow_request_ms)
    }
}

fn limit(ms: u64) -> Option<Span> {
    (ms > 0).then(|| Span::from_millis(ms))
}
