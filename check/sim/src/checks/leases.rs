//! INV-SIM-LEASE: while a leader answers reads by its lease, no replica leads a higher view. That is stronger than what clients can see: a
//! read that was answered too late is found even if nothing was written meanwhile.

use super::Failure;
use quorate_types::View;

/// Judges the replica `name`, which led `view` and answered by its lease just now; `others` lead these views.
///
/// # Errors
/// When one of them leads a higher view.
pub fn judge(name: &str, view: View, others: impl Iterator<Item = (String, View)>) -> Result<(), Failure> {
    for (other, leads) in others {
        if leads > view {
            let text = format!("{name} answers by its lease in {view:?}, and {other} leads {leads:?}");
            return Err(Failure::new("leases", text));
        }
    }
    Ok(())
}
