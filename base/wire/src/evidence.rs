//! Evidence against members, for an operator. What a piece of it says only the protocol knows whose statements it holds.
//!
//! Drawing: docs/formats/wire.md. Tests: base/wire/tests.

use crate::{FrameKind, OutFrame, Put, Reader};
use bytes::Bytes;
use quorate_types::Reject;

/// No piece of evidence is longer than this.
pub const EVIDENCE_MAX: usize = 2048;

/// The frame with all evidence that a replica keeps.
///
/// # Panics
/// When a piece is longer than [`EVIDENCE_MAX`].
pub fn evidence_frame(all: &[Bytes]) -> OutFrame {
    let mut out = Vec::new();
    out.put_u16(all.len() as u16);
    for piece in all {
        assert!(piece.len() <= EVIDENCE_MAX, "a piece of evidence is small");
        out.put_u16(piece.len() as u16);
        out.extend_from_slice(piece);
    }
    OutFrame::new(FrameKind::Evidence, &out, vec![])
}

/// Reads the payload of such a frame.
///
/// # Errors
/// When the bytes are not pieces of evidence, one after the other.
pub fn read_evidence(payload: Bytes) -> Result<Vec<Bytes>, Reject> {
    let mut r = Reader::new(payload, "evidence");
    let count = r.u16()?;
    let mut all = Vec::new();
    for _ in 0..count {
        let len = usize::from(r.u16()?);
        if len > EVIDENCE_MAX {
            let (size, max) = (len as u64, EVIDENCE_MAX as u64);
            return Err(Reject::TooLarge { what: "piece of evidence", size, max });
        }
        all.push(r.bytes(len)?);
    }
    r.end()?;
    Ok(all)
}
