//! INV-SIM-ACKED: no acknowledged write is lost. When it is acknowledged, some replica has executed it; in the end all replicas that can
//! run have.

use super::Failure;
use crate::checks::once::Once;
use crate::client::{Done, Way};
use quorate_history::Outcome;

/// Looks at an operation that just ended.
///
/// # Errors
/// When it was acknowledged and no replica has executed it.
pub fn ended(done: &Done, once: &Once) -> Result<(), Failure> {
    let acknowledged = done.way == Way::Command && matches!(done.outcome, Some(Outcome::Ok { .. }));
    if acknowledged && once.index(done.id).is_none() {
        return Err(Failure::new("acked", format!("{done:?} was acknowledged before any replica ran it")));
    }
    Ok(())
}

/// Looks at a replica that executed `commands` commands, in the end.
///
/// # Errors
/// When it lacks an acknowledged operation.
pub fn kept(name: &str, commands: usize, done: &Done, once: &Once) -> Result<(), Failure> {
    let acknowledged = done.way == Way::Command && matches!(done.outcome, Some(Outcome::Ok { .. }));
    if acknowledged && once.index(done.id).is_none_or(|index| index >= commands) {
        return Err(Failure::new("acked", format!("{name} lacks {done:?}, which was acknowledged")));
    }
    Ok(())
}
