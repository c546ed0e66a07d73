//! Traces of some batches for a collector of OpenTelemetry: OTLP over HTTP, as JSON.
//!
//! One batch in so many is traced, chosen by its place in the global log, and the ids follow from the cluster's id and that place. So all
//! replicas choose the same ones and give them the same trace, without a word to each other. The lane only hands over times; a thread writes
//! the document and sends it, from a bounded queue. A collector that is slow, dead or confused costs traces, which are counted, and nothing
//! else. docs/decisions/0058-traces-without-messages.md says why it is so. Tests: traces/tests.rs, `host/runtime/tests/all/traces.rs`.

mod document;
mod endpoint;
mod exporter;
#[cfg(test)]
mod tests;

pub(crate) use document::{Origin, StageSpan, Trace};
pub(crate) use endpoint::Endpoint;

use crate::config::TelemetryConfig;
use crossbeam_channel::{Sender, bounded};
use quorate_types::Seq;
use serde::Serialize;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// So many traces may wait for the thread; those beyond are lost.
const WAITING_MAX: usize = 1024;

/// What the thread says of itself.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    lost: AtomicU64,
    failing: AtomicBool,
}

/// As it stands in the status.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub(crate) struct TracesStatus {
    /// Where they go.
    endpoint: String,
    /// One batch in so many is traced.
    one_in: u64,
    /// Traces that the collector took.
    sent: u64,
    /// Traces that it did not take, or that found no room.
    lost: u64,
    /// Whether the last ones were lost.
    failing: bool,
}

/// What the status asks.
#[derive(Clone, Debug)]
pub(crate) struct TracesCounts {
    endpoint: String,
    one_in: u64,
    counts: Arc<Counts>,
}

impl TracesCounts {
    pub(crate) fn status(&self) -> TracesStatus {
        let Counts { sent, lost, failing } = &*self.counts;
        TracesStatus {
            endpoint: self.endpoint.clone(),
            one_in: self.one_in,
            sent: sent.load(Ordering::Relaxed),
            lost: lost.load(Ordering::Relaxed),
            failing: failing.load(Ordering::Relaxed),
        }
    }
}

/// Chooses batches, and takes their traces. Dropping it ends the thread after what it does now; nobody waits for that.
pub(crate) struct Traces {
    one_in: u64,
    waiting: Sender<Trace>,
    counts: Arc<Counts>,
    /// Its other end hears that this is dropped.
    _alive: Sender<()>,
}

impl Traces {
    /// Starts the thread, if the configuration names a collector.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn start(
        config: &TelemetryConfig,
        origin: Origin,
    ) -> io::Result<Option<(Self, TracesCounts)>> {
        // The configuration was checked.
        let Some((endpoint, one_in)) = config.traced() else { return Ok(None) };
        let counts = Arc::new(Counts::default());
        let (waiting, traces) = bounded(WAITING_MAX);
        let (alive, stopped) = bounded(0);
        let status = TracesCounts { endpoint: endpoint.to_string(), one_in, counts: counts.clone() };
        exporter::start(endpoint, origin, (traces, stopped), counts.clone())?;
        Ok(Some((Self { one_in, waiting, counts, _alive: alive }, status)))
    }

    /// Whether the batch at this place is traced.
    pub(crate) fn wants(&self, seq: Seq) -> bool {
        seq.number().is_multiple_of(self.one_in)
    }

    /// Hands a trace over, or counts it as lost.
    pub(crate) fn take(&self, trace: Trace) {
        if self.waiting.try_send(trace).is_err() {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}
