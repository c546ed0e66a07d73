//! Frames as text.

use quorate_order::protocols;
use quorate_order::raft::message::RaftMessage;
use quorate_types::ConnId;
use quorate_wire::{Frame, FrameKind, StateMessage};

/// A frame as text.
pub(super) fn show(conn: ConnId, frame: &Frame) -> String {
    if frame.kind == FrameKind::Order
        && let Ok((instance, message)) = protocols::decode(frame.payload.clone())
    {
        let mut text = match message.get::<RaftMessage>() {
            Some(message) => format!("{message:?}"),
            None => format!("{instance} {message:?}"),
        };
        if let Some((at, _)) = text.char_indices().nth(300) {
            text.truncate(at);
        }
        return format!("{conn} {text}");
    }
    if frame.kind == FrameKind::State
        && let Ok(message) = StateMessage::decode(frame.payload.clone())
    {
        return format!("{conn} {}", show_state(&message));
    }
    format!("{conn} {:?}, {} bytes", frame.kind, frame.payload.len())
}

/// A message about the state as text, without its payload.
fn show_state(message: &StateMessage) -> String {
    match message {
        StateMessage::Manifest { seq, offset, total, bytes, .. } => {
            format!("Manifest of {seq}: {} bytes at {offset} of {total}", bytes.len())
        }
        StateMessage::Chunk { seq, chunk, bytes, .. } => {
            format!("Chunk {chunk} of {seq}: {} bytes", bytes.len())
        }
        other => format!("{other:?}"),
    }
}
