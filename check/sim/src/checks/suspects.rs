//! INV-SIM-SUSPECTS: an honest replica holds evidence only against replicas that lie.

use super::Failure;
use quorate_node::SuspectStatus;

/// Looks at the replicas that a replica suspects.
///
/// # Errors
/// When one of them does not lie.
pub fn judge(name: &str, suspects: &[SuspectStatus], lies: impl Fn(u16) -> bool) -> Result<(), Failure> {
    match suspects.iter().find(|suspect| !lies(suspect.replica)) {
        None => Ok(()),
        Some(SuspectStatus { replica, times, what }) => Err(Failure::new(
            "suspects",
            format!("{name} holds evidence against r{replica}, which does not lie ({times} times): {what}"),
        )),
    }
}
