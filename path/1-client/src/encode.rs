//! Packs requests and reads into frames. Small bodies are copied into one buffer; large ones are shared.

use crate::config::Signer;
use bytes::Bytes;
use quorate_types::{ClientId, RequestNumber, SessionId, SessionKey};
use quorate_wire::{
    FrameKind, OutFrame, REQUEST_HEADER, ReadRequest, RequestHeader, RequestKind, RequestProof, RequestTags,
    write_opening, write_read_request,
};

/// From this size on, sharing a body is cheaper than copying it.
const SHARE_MIN: usize = 4096;
/// Bytes of a read's fixed part.
pub(crate) const READ_HEADER: usize = 24;

/// The length of a request with a body of this many bytes and this proof.
pub(crate) const fn proven_len(body: usize, proof: RequestProof) -> usize {
    REQUEST_HEADER + body + proof.byte_len()
}

/// One frame in the making.
#[derive(Debug)]
pub(crate) struct FrameWriter {
    kind: FrameKind,
    buffer: Vec<u8>,
    /// Shared bodies, each with the offset in `buffer` at which it belongs.
    shared: Vec<(usize, Bytes)>,
    shared_bytes: usize,
    signer: Option<Signer>,
    /// The proof after each request's body.
    proof: RequestProof,
}

impl FrameWriter {
    pub(crate) const fn new(kind: FrameKind) -> Self {
        let (signer, proof) = (None, RequestProof::None);
        Self { kind, buffer: Vec::new(), shared: Vec::new(), shared_bytes: 0, signer, proof }
    }

    /// A frame of requests with this kind of proof; `signer` signs, if the proof is a signature.
    pub(crate) fn proving(proof: RequestProof, signer: Option<Signer>) -> Self {
        Self { signer, proof, ..Self::new(FrameKind::Requests) }
    }

    /// The length of a request with a body of this many bytes.
    pub(crate) const fn request_len(&self, body: usize) -> usize {
        proven_len(body, self.proof)
    }

    /// The length of a request that opens a session.
    pub(crate) const fn opening_len(&self) -> usize {
        self.request_len(if self.signer.is_some() { 8 + SessionKey::BYTES } else { 8 })
    }

    pub(crate) const fn len(&self) -> usize {
        self.buffer.len() + self.shared_bytes
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Appends one request without tags.
    pub(crate) fn request(
        &mut self,
        session: SessionId,
        (number, lowest): (RequestNumber, RequestNumber),
        kind: RequestKind,
        body: &Bytes,
    ) {
        let proof = if self.signer.is_some() { self.proof } else { RequestProof::None };
        self.proven(session, (number, lowest), kind, body, (proof, None));
    }

    /// Appends one request; `proof` says how many tags it has, and `tags` makes them.
    pub(crate) fn tagged(
        &mut self,
        session: SessionId,
        numbers: (RequestNumber, RequestNumber),
        kind: RequestKind,
        body: &Bytes,
        (proof, tags): (RequestProof, &dyn RequestTags),
    ) {
        self.proven(session, numbers, kind, body, (proof, Some(tags)));
    }

    fn proven(
        &mut self,
        session: SessionId,
        (number, lowest_unanswered): (RequestNumber, RequestNumber),
        kind: RequestKind,
        body: &Bytes,
        (proof, tags): (RequestProof, Option<&dyn RequestTags>),
    ) {
        let len = u32::try_from(body.len()).expect("INV-CLIENT-4: a body over the frame limit was refused");
        let header = RequestHeader { session, number, lowest_unanswered, kind, len, proof };
        self.buffer.reserve(REQUEST_HEADER);
        header.write_to(&mut self.buffer);
        if body.len() < SHARE_MIN {
            self.buffer.extend_from_slice(body);
        } else {
            self.shared.push((self.buffer.len(), body.clone()));
            self.shared_bytes += body.len();
        }
        if let Some(Signer(signer)) = &self.signer {
            self.buffer.extend_from_slice(&signer.sign(&header.bytes(), body));
        }
        if let Some(tags) = tags {
            tags.write(&header.bytes(), body, &mut self.buffer);
        }
    }

    /// Appends a request that opens a session. It has no tags: replicas must hear it from its client anyway.
    pub(crate) fn opening(&mut self, nonce: u64, client: ClientId) {
        let (number, key) = (RequestNumber::new(nonce), self.signer.as_ref().map(|signer| signer.0.key()));
        let body = Bytes::from(write_opening(client, key));
        self.request(SessionId::NONE, (number, number), RequestKind::OpenSession, &body);
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
