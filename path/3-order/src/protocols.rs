//! The table of ordering protocols: the only place that knows all of them.

use crate::OrderMessage;
use crate::mod_smart::message::{MOD_SMART, ModSmartMessage};
use crate::raft::message::{RAFT, RaftMessage};
use bytes::Bytes;
use quorate_types::{InstanceId, Reject};
use quorate_wire::read_order;

/// Reads a message of any protocol; batches in it share the frame's bytes and are checked request by request.
///
/// # Errors
/// When the bytes are none.
pub fn decode(payload: Bytes) -> Result<(InstanceId, OrderMessage), Reject> {
    let (instance, protocol, bytes) = read_order(payload)?;
    let message = match protocol {
        RAFT => OrderMessage::of(RaftMessage::decode(bytes)?),
        MOD_SMART => OrderMessage::of(ModSmartMessage::decode(bytes)?),
        _ => return Err(Reject::Malformed("ordering message: protocol")),
    };
    Ok((instance, message))
}
