//! How much room a replica's disk has: one byte, 0 to 2. Tests: `tests/all/golden.rs`, `tests/all/properties.rs`.

use crate::frame::{FrameKind, OutFrame};
use quorate_types::{Reject, Room};

/// The frame that tells another replica.
pub fn room_frame(room: Room) -> OutFrame {
    let byte = match room {
        Room::Full => 0,
        Room::Frees => 1,
        Room::Data => 2,
    };
    OutFrame::new(FrameKind::Room, &[byte], vec![])
}

/// Reads what another replica tells.
///
/// # Errors
/// When the byte is not one of these.
pub fn read_room(payload: &[u8]) -> Result<Room, Reject> {
    match payload {
        [0] => Ok(Room::Full),
        [1] => Ok(Room::Frees),
        [2] => Ok(Room::Data),
        _ => Err(Reject::Malformed("room: not one byte from 0 to 2")),
    }
}
