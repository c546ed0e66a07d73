//! Messages about the state: the digests that replicas compare at every border, and the transfer of checkpoints.
//!
//! docs/formats/wire.md draws the bytes. A checkpoint is named by its seq and its digest. Its chunks are numbered as in its manifest: the
//! pieces of the system part first, then the chunks of the objects. The receiver must believe nothing in these messages before it compared
//! it with an agreed digest (`quorate-state`, `transfer`). Tests: `tests/all/golden.rs`, `tests/all/properties.rs`.

use crate::codec::{Put, Reader};
use crate::frame::{FrameKind, OutFrame};
use bytes::Bytes;
use quorate_types::{Digest, Reject, Seq};

/// A message asks for, or refuses, at most this many chunks, which bounds what a receiver allocates for the list.
pub const CHUNKS_MAX: usize = 1024;
/// A manifest has at most this many bytes. A receiver allocates nothing for a longer one that is announced.
pub const MANIFEST_MAX: u64 = 1 << 30;

/// Why a replica does not send what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusedWhy {
    /// It does not have the checkpoint, or not any more.
    NotHeld,
    /// It has too much to send already. Ask again later, or ask another replica.
    Busy,
    /// It has the checkpoint, but what was asked for is damaged.
    Rotten,
}

/// A message about the state, between replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateMessage {
    /// The sender's state had this digest after `seq`, a border.
    Digest {
        /// The border.
        seq: Seq,
        /// The digest of the state there.
        digest: Digest,
        /// Whether the sender has it in a durable file, so that others may fetch it.
        held: bool,
    },
    /// Asks for a piece of the manifest of a checkpoint.
    FetchManifest {
        /// The checkpoint's seq.
        seq: Seq,
        /// Its digest.
        digest: Digest,
        /// Where the piece begins, in bytes.
        offset: u64,
    },
    /// A piece of the manifest; not empty unless the offset is the end.
    Manifest {
        /// The checkpoint's seq.
        seq: Seq,
        /// Its digest.
        digest: Digest,
        /// Where the piece begins.
        offset: u64,
        /// Bytes of the whole manifest.
        total: u64,
        /// The piece.
        bytes: Bytes,
    },
    /// Asks for chunks, at most [`CHUNKS_MAX`]. Each comes in one message, in this order.
    FetchChunks {
        /// The checkpoint's seq.
        seq: Seq,
        /// Its digest.
        digest: Digest,
        /// Their numbers.
        chunks: Vec<u32>,
    },
    /// A chunk.
    Chunk {
        /// The checkpoint's seq.
        seq: Seq,
        /// Its digest.
        digest: Digest,
        /// The chunk's number.
        chunk: u32,
        /// The chunk.
        bytes: Bytes,
    },
    /// What was asked for is not sent.
    Refused {
        /// The checkpoint's seq.
        seq: Seq,
        /// Its digest.
        digest: Digest,
        /// The reason.
        why: RefusedWhy,
        /// The chunks; an empty list means the manifest. [`RefusedWhy::NotHeld`] always concerns the whole checkpoint.
        chunks: Vec<u32>,
    },
    /// Asks the leader for an extra border: the newest agreed checkpoint that the sender knows of is not enough.
    WantBorder {
        /// That checkpoint's seq; 0 when there is none.
        seq: Seq,
        /// Its digest; zeros when there is none.
        digest: Digest,
    },
}

const DIGEST: u8 = 1;
const FETCH_MANIFEST: u8 = 2;
const MANIFEST: u8 = 3;
const FETCH_CHUNKS: u8 = 4;
const CHUNK: u8 = 5;
const REFUSED: u8 = 6;
const WANT_BORDER: u8 = 7;

impl StateMessage {
    /// The checkpoint that it is about.
    pub const fn about(&self) -> (Seq, Digest) {
        match self {
            Self::Digest { seq, digest, .. }
            | Self::FetchManifest { seq, digest, .. }
            | Self::Manifest { seq, digest, .. }
            | Self::FetchChunks { seq, digest, .. }
            | Self::Chunk { seq, digest, .. }
            | Self::Refused { seq, digest, .. }
            | Self::WantBorder { seq, digest } => (*seq, *digest),
        }
    }

    /// The frame to send; the bytes of a manifest or chunk are shared, not copied.
    ///
    /// # Panics
    /// When a list has more than [`CHUNKS_MAX`] chunks.
    pub fn frame(&self) -> OutFrame {
        let mut head = Vec::with_capacity(64);
        let mut payloads = Vec::new();
        let (seq, digest) = self.about();
        head.put_u8(self.number());
        head.put_u64(seq.number());
        head.extend_from_slice(digest.bytes());
        match self {
            Self::Digest { held, .. } => head.put_u8(u8::from(*held)),
            Self::FetchManifest { offset, .. } => head.put_u64(*offset),
            Self::Manifest { offset, total, bytes, .. } => {
                head.put_u64(*offset);
                head.put_u64(*total);
                payloads.push(bytes.clone());
            }
            Self::FetchChunks { chunks, .. } => put_chunks(&mut head, chunks),
            Self::Chunk { chunk, bytes, .. } => {
                head.put_u32(*chunk);
                payloads.push(bytes.clone());
            }
            Self::Refused { why, chunks, .. } => {
                head.put_u8(match why {
                    RefusedWhy::NotHeld => 1,
                    RefusedWhy::Busy => 2,
                    RefusedWhy::Rotten => 3,
                });
                put_chunks(&mut head, chunks);
            }
            Self::WantBorder { .. } => {}
        }
        OutFrame::new(FrameKind::State, &head, payloads)
    }

    const fn number(&self) -> u8 {
        match self {
            Self::Digest { .. } => DIGEST,
            Self::FetchManifest { .. } => FETCH_MANIFEST,
            Self::Manifest { .. } => MANIFEST,
            Self::FetchChunks { .. } => FETCH_CHUNKS,
            Self::Chunk { .. } => CHUNK,
            Self::Refused { .. } => REFUSED,
            Self::WantBorder { .. } => WANT_BORDER,
        }
    }

    /// Reads a message; the bytes of a manifest or chunk share the frame's.
    ///
    /// # Errors
    /// When the bytes are not such a message, or a list or a manifest is over its limit.
    pub fn decode(payload: Bytes) -> Result<Self, Reject> {
        let mut r = Reader::new(payload, "state message");
        let kind = r.u8()?;
        let seq = Seq::new(r.u64()?);
        let digest = Digest::new(r.array()?);
        let message = match kind {
            DIGEST => Self::Digest { seq, digest, held: r.bool()? },
            FETCH_MANIFEST => Self::FetchManifest { seq, digest, offset: r.u64()? },
            MANIFEST => return decode_manifest(seq, digest, r),
            FETCH_CHUNKS => Self::FetchChunks { seq, digest, chunks: read_chunks(&mut r)? },
            CHUNK => return Ok(Self::Chunk { seq, digest, chunk: r.u32()?, bytes: r.rest() }),
            REFUSED => {
                let why = match r.u8()? {
                    1 => RefusedWhy::NotHeld,
                    2 => RefusedWhy::Busy,
                    3 => RefusedWhy::Rotten,
                    _ => return Err(Reject::Malformed("state message: why refused")),
                };
                Self::Refused { seq, digest, why, chunks: read_chunks(&mut r)? }
            }
            WANT_BORDER => Self::WantBorder { seq, digest },
            _ => return Err(Reject::Malformed("state message: kind")),
        };
        r.end()?;
        Ok(message)
    }
}

/// Reads a piece, which must lie within the manifest. An empty one before the end is refused, since it would be asked for again and again.
fn decode_manifest(seq: Seq, digest: Digest, mut r: Reader) -> Result<StateMessage, Reject> {
    let (offset, total) = (r.u64()?, r.u64()?);
    if total > MANIFEST_MAX {
        return Err(Reject::TooLarge { what: "manifest", size: total, max: MANIFEST_MAX });
    }
    let bytes = r.rest();
    let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= total);
    if end.is_none() || bytes.is_empty() && offset < total {
        return Err(Reject::Malformed("state message: piece of a manifest"));
    }
    Ok(StateMessage::Manifest { seq, digest, offset, total, bytes })
}

fn put_chunks(out: &mut Vec<u8>, chunks: &[u32]) {
    assert!(chunks.len() <= CHUNKS_MAX, "a message is about at most {CHUNKS_MAX} chunks");
    out.put_u32(chunks.len() as u32);
    chunks.iter().for_each(|chunk| out.put_u32(*chunk));
}

fn read_chunks(r: &mut Reader) -> Result<Vec<u32>, Reject> {
    let count = r.u32()? as usize;
    if count > CHUNKS_MAX {
        return Err(Reject::TooLarge { what: "chunks", size: count as u64, max: CHUNKS_MAX as u64 });
    }
    if r.remaining() < count * 4 {
        return Err(Reject::Malformed("state message: chunks"));
    }
    (0..count).map(|_| r.u32()).collect()
}
