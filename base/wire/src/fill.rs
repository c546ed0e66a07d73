//! How far a replica wants the instances to be decided that another one leads: 10 bytes, a place in the global log.
//!
//! ```text
//! 0       8          10
//! | slot  | instance |
//! ```
//! Everything up to that slot of that instance is to be decided, in the order of the global log. docs/protocols/merge.md.

use crate::frame::{FrameKind, OutFrame};
use quorate_types::{InstanceId, Reject, Slot};

/// Asks another replica.
pub fn fill_frame(slot: Slot, instance: InstanceId) -> OutFrame {
    let mut head = [0; 10];
    head[..8].copy_from_slice(&slot.number().to_le_bytes());
    head[8..].copy_from_slice(&instance.number().to_le_bytes());
    OutFrame::new(FrameKind::Fill, &head, vec![])
}

/// Reads what another replica asks for.
///
/// # Errors
/// When it is no such place.
pub fn read_fill(payload: &[u8]) -> Result<(Slot, InstanceId), Reject> {
    let (Some(slot), Some(instance), 10) = (payload.first_chunk(), payload.last_chunk(), payload.len())
    else {
        return Err(Reject::Malformed("fill: not 10 bytes"));
    };
    Ok((Slot::new(u64::from_le_bytes(*slot)), InstanceId::new(u16::from_le_bytes(*instance))))
}
