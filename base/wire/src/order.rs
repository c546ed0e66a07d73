//! Frames of the ordering protocols: the instance, which protocol, and bytes that only that protocol reads.
//!
//! The bytes after the protocol's number are its own (path/3-order, `Message`). What they share with other frames, batches
//! above all, stays shared: [`order_frame`] copies the fixed part only, and [`read_order`] gives a slice of the frame.

use crate::codec::{Put, Reader};
use crate::frame::{FrameKind, OutFrame, Payload};
use bytes::Bytes;
use quorate_types::{InstanceId, Reject};

/// The frame with a message of the protocol with this number. `write` appends the message's fixed part and gives the
/// payloads that follow it.
///
/// # Panics
/// When the frame would be 4 GiB or larger.
pub fn order_frame(
    instance: InstanceId,
    protocol: u16,
    write: impl FnOnce(&mut Vec<u8>) -> Vec<Payload>,
) -> OutFrame {
    let mut head = Vec::with_capacity(96);
    head.put_u16(instance.number());
    head.put_u16(protocol);
    let payloads = write(&mut head);
    OutFrame::with_payloads(FrameKind::Order, &head, payloads)
}

/// The instance, the protocol's number and the protocol's bytes in the payload of such a frame.
///
/// # Errors
/// When the payload is too short to name both.
pub fn read_order(payload: Bytes) -> Result<(InstanceId, u16, Bytes), Reject> {
    let mut r = Reader::new(payload, "ordering message");
    Ok((InstanceId::new(r.u16()?), r.u16()?, r.rest()))
}
