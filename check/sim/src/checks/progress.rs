//! INV-SIM-PROGRESS: once faults are over, every operation ends in time, and one without a deadline succeeds unless its session expired;
//! then all replicas that can run reach the same seq.

use super::Failure;
use crate::client::Done;
use quorate_history::Outcome;

/// A run may have this many events for each virtual second; more means an endless loop.
pub const EVENTS_PER_SECOND: u64 = 2_000_000;

/// The time of the run is over, with these operations still open.
pub fn late(open: &[String]) -> Failure {
    Failure::new("progress", format!("still open when time was up: {}", open.join("; ")))
}

/// Looks at how an operation ended.
///
/// # Errors
/// When an operation that could wait was given up.
pub fn patient(done: &Done) -> Result<(), Failure> {
    let given_up = done.patient && !matches!(done.outcome, Some(Outcome::Ok { .. }) | None);
    let known = ["session", "too large"];
    if given_up && !known.iter().any(|word| done.why.contains(word)) {
        return Err(Failure::new(
            "progress",
            format!("{done:?} had no deadline, and ended with: {}", done.why),
        ));
    }
    Ok(())
}
