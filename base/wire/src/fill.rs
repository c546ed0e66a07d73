//! A request to a leader: up to which place of the global log its instances must be decided. 10 bytes.
//!
//! ```text
//! 0       8          10
//! | slot  | instance |
//! ```
//! Everything up to that place must be decided, in the order of the global log. docs/protocols/merge.md.

use crate::frame::{FrameKind, OutFrame};
use quorate_types::{InstanceId, Reject, Slot};

/// The frame that asks another replica.
pub fn fill_frame(slot: Slot, instance: InstanceId) -> OutFrame {
    let mut head = [0; 10];
    head[..8].copy_from_slice(&slot.number().to_le_bytes());
    head[8..].copy_from_slice(&instance.number().to_le_bytes());
    OutFrame::new(FrameKind::Fill, &head, vec![])
}

/// Reads what another replica asks for.
///
/// # Errors
/// When the bytes are not a place.
pub fn read_fill(payload: &[u8]) -> Result<(Slot, InstanceId), Reject> {
    let (Some(slot), Some(instance), 10) = (payload.first_chunk(), payload.last_chunk(), payload.len())
    else {
        return Err(Reject::Malformed("fill: not 10 bytes"));
    };
    Ok((Slot::new(u64::from_le_bytes(*slot)), InstanceId::new(u16::from_le_bytes(*instance))))
}
