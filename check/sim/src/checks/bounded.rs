//! INV-SIM-BOUNDED: what a replica queues exceeds its limit by at most one request; what waits on one connection stays small, since nothing
//! here asks for much.

use super::Failure;
use crate::plan::Plan;
use crate::replica::REQUEST_MAX;
use quorate_node::NodeStatus;

/// At most this many bytes may be on their way in one direction of one connection. The workloads are small, so more means a loop.
pub const ON_THE_WAY_MAX: usize = 8 << 20;

/// Looks at a replica.
///
/// # Errors
/// When it queues too much.
pub fn queued(name: &str, plan: &Plan, status: &NodeStatus) -> Result<(), Failure> {
    // The engine's own commands, and entries with a membership, wait beside the requests: one of each, and one that begins a view.
    let engine = if plan.replicas > plan.founders { 2 * (600 * plan.replicas + 256) } else { 0 };
    let max = (plan.admission.1 + REQUEST_MAX + 64 + engine)
        * usize::from(if plan.resizes { plan.instances.max(8) } else { plan.instances });
    // What clients said is kept: everybody may have a share beyond what all have together, and one request beyond that.
    let heard = 2 * plan.admission.1 + plan.clients * (REQUEST_MAX + 128);
    let max = if plan.fault_model.may_lie() { max.max(heard) } else { max };
    if status.queue_bytes > max {
        return Err(Failure::new("bounded", format!("{name} queues {} bytes of {max}", status.queue_bytes)));
    }
    Ok(())
}

/// Looks at the network.
///
/// # Errors
/// When too much is on its way.
pub fn on_the_way(bytes: usize) -> Result<(), Failure> {
    if bytes > ON_THE_WAY_MAX {
        return Err(Failure::new("bounded", format!("{bytes} bytes are on their way on one connection")));
    }
    Ok(())
}
