//! `[telemetry]`: from when on something is slow enough for a line in the log, and where traces go.

use super::{ConfigError, HOUR_MS, invalid, range};
use crate::traces::Endpoint;
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
    /// The collector of OpenTelemetry that gets traces, `http://host:port`; none: there are no traces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traces: Option<String>,
    /// One batch in so many is traced.
    pub trace_one_in: i64,
}

/// Of more batches than that nobody would ever see one.
const ONE_IN_MAX: i64 = 1_000_000_000;

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self { slow_execution_ms: 100, slow_request_ms: 1000, traces: None, trace_one_in: 1000 }
    }
}

impl TelemetryConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        const END: &str = "3600000, which is an hour; 0 for no lines";
        range("telemetry: slow_execution_ms", self.slow_execution_ms, 0..=HOUR_MS, END)?;
        range("telemetry: slow_request_ms", self.slow_request_ms, 0..=HOUR_MS, END)?;
        const EVERY: &str = "1000000000; 1 traces every batch, and without `traces` none is traced";
        range("telemetry: trace_one_in", self.trace_one_in, 1..=ONE_IN_MAX, EVERY)?;
        let traces = self.traces.as_deref().map(Endpoint::parse).transpose();
        traces.map(drop).or_else(|why| invalid(format!("telemetry: traces: {why}")))
    }

    /// Where traces go, and one batch in how many is traced; none: none is.
    pub(crate) fn traced(&self) -> Option<(Endpoint, u64)> {
        let endpoint = self.traces.as_deref().and_then(|traces| Endpoint::parse(traces).ok())?;
        Some((endpoint, u64::try_from(self.trace_one_in).unwrap_or(1).max(1)))
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
