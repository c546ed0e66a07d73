//! Checks levels and services: a member whose program can not work at the cluster's level, or at that of the service, is refused, and told
//! what to do. So is whoever runs or means another service.

use crate::config::ServiceConfig;
use quorate_types::{ClusterId, ReplicaId};
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

/// Whether a hello names this service, or none, and whether a member's program has the version at which the service is. Whoever means another
/// cluster hears that first.
///
/// # Errors
/// The refusal.
pub(super) fn check_service(hello: &Hello, here: &ServiceConfig, cluster: ClusterId) -> Result<(), Refusal> {
    let is_peer = matches!(hello.role, Role::Peer { .. });
    if hello.cluster != cluster && (is_peer || hello.cluster != ClusterId::default()) {
        return Ok(());
    }
    let there = hello.service;
    if there.name.differs(&here.name) {
        let (runs, remedy) = match hello.role {
            Role::Peer { .. } => (
                "your program runs",
                "start the program of this cluster's service there, with its name in [service]",
            ),
            Role::Client(_) | Role::Admin => {
                ("you mean", "use a client of this cluster's service, or another cluster")
            }
        };
        let text = format!(
            "this cluster runs the service {}, {runs} the service {}: {remedy}",
            here.name, there.name
        );
        return Err(Refusal { reason: RefusalReason::Service, text });
    }
    match hello.role {
        Role::Peer { replica, .. } if there.version < here.level => {
            let text = too_old(replica, there.version, here.level);
            Err(Refusal { reason: RefusalReason::Format, text })
        }
        Role::Peer { .. } | Role::Client(_) | Role::Admin => Ok(()),
    }
}

/// The text about a program that does not have the version of a service's level.
pub(crate) fn too_old(replica: ReplicaId, has: u32, level: u32) -> String {
    format!(
        "the service is at version {level}, and the program of {replica} has version {has} at most: start a newer program there (`quorate \
         upgrade status` shows what runs where)"
    )
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
