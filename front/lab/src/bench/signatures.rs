//! The bound that checking clients' signatures sets, from the rate of one core, which is measured beside each run.

use quorate_auth::{ClientKey, RequestChecks, RequestClaim, request_statement};
use quorate_types::ClusterId;
use quorate_wire::{REQUEST_HEADER, RequestSigner};
use serde::Serialize;
use std::fmt;
use std::time::{Duration, Instant};

/// How many signatures are checked at once.
const TOGETHER: usize = 64;
/// How long the rate is measured.
const MEASURE: Duration = Duration::from_millis(300);

/// The cost of signatures.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Signatures {
    /// Checks per second of one core, in groups of this size, each under another key.
    checks_per_core_s: f64,
    together: usize,
    cores: usize,
    /// Checks of all replicas together per request.
    checks_per_request: f64,
    /// Requests per second if all cores did nothing but check; null when nothing was checked.
    bound_per_s: Option<f64>,
    /// The measured rate divided by that bound.
    share: Option<f64>,
}

impl Signatures {
    /// From the numbers of checked signatures and of requests in a run, and its requests per second.
    pub(super) fn of(checked: u64, requests: u64, per_s: f64) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::with(rate(), cores, checked as f64 / requests.max(1) as f64, per_s)
    }

    fn with(checks_per_core_s: f64, cores: usize, checks_per_request: f64, per_s: f64) -> Self {
        let bound_per_s =
            (checks_per_request > 0.0).then(|| checks_per_core_s * cores as f64 / checks_per_request);
        let share = bound_per_s.map(|bound| per_s / bound);
        Self { checks_per_core_s, together: TOGETHER, cores, checks_per_request, bound_per_s, share }
    }
}

impl fmt::Display for Signatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { checks_per_core_s, together, cores, checks_per_request, .. } = self;
        write!(
            f,
            "signatures: {checks_per_request:.2} checks for each request, all replicas together; one core checks {checks_per_core_s:.0}/s \
             ({together} at once)"
        )?;
        match self.bound_per_s.zip(self.share) {
            Some((bound, share)) => {
                let percent = share * 100.0;
                write!(
                    f,
                    "; bound of {cores} cores: {bound:.0} requests/s, of which {percent:.1} % were reached"
                )
            }
            None => Ok(()),
        }
    }
}

/// Checks per second of one core.
fn rate() -> f64 {
    let cluster = ClusterId::new(1);
    let claim = |number: u8| {
        let (key, header) = (ClientKey::new(cluster, [number; 32]), [number; REQUEST_HEADER]);
        let statement = request_statement(cluster, &header, b"");
        RequestClaim { key: key.key(), statement, signature: key.sign(&header, b"") }
    };
    let claims: Vec<RequestClaim> = (0..TOGETHER as u8).map(claim).collect();
    let (began, mut checked) = (Instant::now(), 0);
    while began.elapsed() < MEASURE {
        if RequestChecks::Ed25519.all(&claims) {
            checked += claims.len();
        }
    }
    checked as f64 / began.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests;
