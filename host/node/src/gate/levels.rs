//! Checks feature levels: a member whose program can not work at the cluster's level is refused, and told what to do.

use quorate_types::ReplicaId;
use quorate_wire::{Hello, Refusal, RefusalReason, Role};

/// Whether a program that sends this hello can work at the cluster's feature level. Clients and operators always can.
///
/// # Errors
/// The refusal.
pub(super) fn check_level(hello: &Hello, cluster: u32) -> Result<(), Refusal> {
    match hello.role {
        Role::Peer { replica, .. } if hello.feature_level < cluster => {
            let text = too_low(replica, hello.feature_level, cluster);
            Err(Refusal { reason: RefusalReason::Format, text })
        }
        Role::Peer { .. } | Role::Client(_) | Role::Admin => Ok(()),
    }
}

/// The text about a program that can not work at a level.
pub(crate) fn too_low(replica: ReplicaId, can: u32, cluster: u32) -> String {
    format!(
        "the cluster works at feature level {cluster}, and the program of {replica} can work at {can} at most: start a newer program there \
         (`quorate upgrade status` shows what runs where)"
    )
}

#[cfg(test)]
mod tests;
