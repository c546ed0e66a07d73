//! Frames of the ordering protocols: the instance, the protocol's number, and bytes that only the protocol reads.
//!
//! The bytes after the protocol's number belong to the protocol (path/3-order, `Message`). Batches, and other bytes that frames share, stay
//! shared: [`order_frame`] copies only the fixed part, and [`read_order`] returns a slice of the frame.

use crate::codec::{Put, Reader};
use crate::frame::{FrameKind, OutFrame, Payload};
use bytes::Bytes;
use quorate_types::{InstanceId, Reject};

/// The frame with a message of the protocol with this number. `write` appends the message's fixed part and returns the payloads that follow
/// it.
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

/// Reads the instance, the protocol's number and the protocol's bytes from the payload of such a frame.
///
/// # Errors
/// When the payload is too short.
pub fn read_order(payload: Bytes) -> Result<(InstanceId, u16, Bytes), Reject> {
    let mut r = Reader::new(payload, "ordering message");
    Ok((InstanceId::new(r.u16()?), r.u16()?, r.rest()))
}
