//! How long calls took and how they ended, by their methods: for the status of the replica, and as the metrics that dashboards and alert rules
//! for etcd ask for.

use crate::errors::Refusal;
use bytes::Bytes;
use quorate_kit::{Calls, FrontCalls};
use quorate_types::Span;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

#[cfg(test)]
mod tests;

/// Methods with one message each way, in the order of [`KINDS`]: service and method.
const METHODS: [(&str, &str); 9] = [
    ("KV", "Put"),
    ("KV", "Range"),
    ("KV", "Txn"),
    ("KV", "DeleteRange"),
    ("KV", "Compact"),
    ("Lease", "LeaseGrant"),
    ("Lease", "LeaseRevoke"),
    ("Lease", "LeaseTimeToLive"),
    ("Lease", "LeaseLeases"),
];
/// Their names in the status.
const KINDS: &[&str] = &[
    "Put",
    "Range",
    "Txn",
    "DeleteRange",
    "Compact",
    "LeaseGrant",
    "LeaseRevoke",
    "LeaseTimeToLive",
    "LeaseLeases",
];
/// The names of gRPC's codes, by their numbers.
const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

/// The counts of one member.
pub(crate) struct RpcCalls {
    calls: Arc<Calls>,
    started: [AtomicU64; METHODS.len()],
    codes: [[AtomicU64; CODES.len()]; METHODS.len()],
}

impl RpcCalls {
    pub(crate) fn new(fronts: &FrontCalls) -> Self {
        let calls = fronts.of("etcd", KINDS);
        Self { calls, started: Default::default(), codes: Default::default() }
    }

    /// A call begins; the path is `/etcdserverpb.SERVICE/METHOD`. None: it is not counted.
    pub(crate) fn begin(&self, path: &str) -> Option<Begun<'_>> {
        let (service, method) = path.strip_prefix("/etcdserverpb.")?.split_once('/')?;
        let kind = METHODS.iter().position(|known| *known == (service, method))?;
        self.started[kind].fetch_add(1, Ordering::Relaxed);
        Some(Begun { calls: self, kind, at: Instant::now(), has_ended: false })
    }

    /// As go-grpc-prometheus writes them, for dashboards and alert rules that know etcd.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        let label = |(service, method)| {
            format!("grpc_service=\"etcdserverpb.{service}\",grpc_method=\"{method}\",grpc_type=\"unary\"")
        };
        let _ = writeln!(out, "# TYPE grpc_server_started_total counter");
        for (method, started) in METHODS.into_iter().zip(&self.started) {
            let _ = writeln!(
                out,
                "grpc_server_started_total{{{}}} {}",
                label(method),
                started.load(Ordering::Relaxed)
            );
        }
        let _ = writeln!(out, "# TYPE grpc_server_handled_total counter");
        for (method, codes) in METHODS.into_iter().zip(&self.codes) {
            for (code, count) in CODES.iter().zip(codes) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 || *code == "OK" {
                    let _ = writeln!(
                        out,
                        "grpc_server_handled_total{{grpc_code=\"{code}\",{}}} {count}",
                        label(method)
                    );
                }
            }
        }
        let _ = writeln!(out, "# TYPE grpc_server_handling_seconds histogram");
        for (method, (_, took)) in METHODS.into_iter().zip(self.calls.each()) {
            let (labels, count) = (label(method), took.count());
            let seconds = |span: Span| span.nanos() as f64 / 1e9;
            for (bound, so_far) in took.buckets() {
                let _ = writeln!(
                    out,
                    "grpc_server_handling_seconds_bucket{{{labels},le=\"{}\"}} {so_far}",
                    seconds(bound)
                );
            }
            let _ = writeln!(out, "grpc_server_handling_seconds_bucket{{{labels},le=\"+Inf\"}} {count}");
            let _ = writeln!(out, "grpc_server_handling_seconds_sum{{{labels}}} {}", seconds(took.sum()));
            let _ = writeln!(out, "grpc_server_handling_seconds_count{{{labels}}} {count}");
        }
        out
    }
}

/// A call under way.
pub(crate) struct Begun<'a> {
    calls: &'a RpcCalls,
    kind: usize,
    at: Instant,
    has_ended: bool,
}

/// Its client gave it up.
const CANCELED: usize = 1;

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.count(CANCELED);
        }
    }
}

impl Begun<'_> {
    /// It was answered.
    pub(crate) fn ends(mut self, answer: &Result<Bytes, Refusal>) {
        self.has_ended = true;
        self.count(answer.as_ref().map_or_else(|refusal| usize::from(refusal.code), |_| 0));
    }

    fn count(&self, code: usize) {
        let took = Span::from_nanos(u64::try_from(self.at.elapsed().as_nanos()).unwrap_or(u64::MAX));
        match code {
            0 => self.calls.calls.took(self.kind, took),
            _ => self.calls.calls.failed(self.kind, took),
        }
        let codes = &self.calls.codes[self.kind];
        codes.get(code).unwrap_or(&codes[2]).fetch_add(1, Ordering::Relaxed);
    }
}
