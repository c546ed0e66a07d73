//! Packs requests and reads into frames. Small bodies are copied into one buffer; large ones travel as they lie.

use bytes::Bytes;
use quorate_types::{RequestNumber, SessionId};
use quorate_wire::{
    FrameKind, OutFrame, REQUEST_HEADER, ReadRequest, RequestHeader, RequestKind, write_read_request,
};

/// From this size on, sharing a body is cheaper than copying it.
const SHARE_MIN: usize = 4096;
/// Bytes of a read's fixed part.
pub(crate) const READ_HEADER: usize = 24;

/// One frame in the making.
#[derive(Debug)]
pub(crate) struct FrameWriter {
    kind: FrameKind,
    buffer: Vec<u8>,
    /// Shared bodies, each with the place in `buffer` where it belongs.
    shared: Vec<(usize, Bytes)>,
    shared_bytes: usize,
}

impl FrameWriter {
    pub(crate) const fn new(kind: FrameKind) -> Self {
        Self { kind, buffer: Vec::new(), shared: Vec::new(), shared_bytes: 0 }
    }

    pub(crate) const fn len(&self) -> usize {
        self.buffer.len() + self.shared_bytes
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Appends one request.
    pub(crate) fn request(
        &mut self,
        session: SessionId,
        number: RequestNumber,
        lowest_unanswered: RequestNumber,
        kind: RequestKind,
        body: &Bytes,
    ) {
        let len = u32::try_from(body.len()).expect("INV-CLIENT-4: a body over the frame limit was refused");
        self.buffer.reserve(REQUEST_HEADER);
        RequestHeader { session, number, lowest_unanswered, kind, len }.write_to(&mut self.buffer);
        if body.len() < SHARE_MIN {
            self.buffer.extend_from_slice(body);
        } else {
            self.shared.push((self.buffer.len(), body.clone()));
            self.shared_bytes += body.len();
        }
    }

    /// Appends one read.
    pub(crate) fn read(&mut self, read: &ReadRequest<'_>) {
        write_read_request(&mut self.buffer, read);
    }

    /// The frame; the writer is empty afterwards.
    pub(crate) fn finish(&mut self) -> OutFrame {
        let buffer = Bytes::from(std::mem::take(&mut self.buffer));
        self.shared_bytes = 0;
        let mut parts = Vec::with_capacity(self.shared.len() * 2 + 1);
        let mut from = 0;
        for (at, body) in self.shared.drain(..) {
            parts.push(buffer.slice(from..at));
            parts.push(body);
            from = at;
        }
        if from < buffer.len() {
            parts.push(buffer.slice(from..));
        }
        OutFrame::new(self.kind, &[], parts)
    }
}
