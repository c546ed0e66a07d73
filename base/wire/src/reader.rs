//! Cuts a byte stream into frames, which share the memory into which the host reads.
//!
//! Bytes arrive in a block of memory. Once a frame is there, the block is handed out: the payloads of its frames are slices of it, and the
//! beginning of a frame at its end moves to the next block. When the last payload is dropped, the block goes back to the host's [`Memory`] and
//! is used again, so it is not cleared a second time. A frame that fills only a small part of its block is copied out instead, so that it does
//! not keep the whole block.
//!
//! Tests: tests/all/properties.rs, fuzz.

use crate::frame::{FRAME_HEADER, Frame, FrameHeader};
use bytes::{Buf, Bytes};
use quorate_types::{Reject, planted};
use std::fmt;
use std::sync::Arc;

/// Blocks of memory that are used again. All bytes of a block may be read.
pub trait Memory: Send + Sync {
    /// A block of at least this many bytes, if there is one that is not much larger.
    fn take(&self, len: usize) -> Option<Vec<u8>>;

    /// Takes a block back; any thread may do that.
    fn give(&self, block: Vec<u8>);
}

/// If a frame is larger than what arrived of it, its memory grows by this much, or doubles. So a peer can not make this program allocate
/// what it merely announced.
const GROWTH: usize = 256 << 10;
/// Smaller blocks are not worth keeping. Sizes are multiples of it, so that a block fits again.
const KEPT_BYTES_MIN: usize = 32 << 10;
/// A block is handed out if at least one part in this many of it has arrived.
const FULL_PART: usize = 4;

/// Cuts a byte stream into frames. The host reads into [`Self::space`].
pub struct FrameReader {
    /// What arrives; all of its bytes may be read. Those from `start` to `filled` are in no frame yet.
    block: Vec<u8>,
    start: usize,
    filled: usize,
    /// The rest of a block that is handed out, and the size of that block. While there is a rest, nothing is in `block`.
    rest: Bytes,
    handed: usize,
    frame_bytes_max: u32,
    header: Option<FrameHeader>,
    memory: Option<Arc<dyn Memory>>,
}

impl fmt::Debug for FrameReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameReader").field("pending", &self.pending()).finish_non_exhaustive()
    }
}

/// A block that is handed out.
struct Handed {
    block: Vec<u8>,
    memory: Option<Arc<dyn Memory>>,
}

impl AsRef<[u8]> for Handed {
    fn as_ref(&self) -> &[u8] {
        &self.block
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        if let Some(memory) = &self.memory {
            memory.give(std::mem::take(&mut self.block));
        }
    }
}

impl FrameReader {
    /// A reader that refuses frames with more than `frame_bytes_max` bytes of payload.
    pub fn new(frame_bytes_max: u32) -> Self {
        Self {
            block: Vec::new(),
            start: 0,
            filled: 0,
            rest: Bytes::new(),
            handed: 0,
            frame_bytes_max,
            header: None,
            memory: None,
        }
    }

    /// Uses this memory again and again.
    pub fn use_memory(&mut self, memory: Arc<dyn Memory>) {
        self.memory = Some(memory);
    }

    /// Sets another limit from the next frame on. Before the handshake a peer may send only a small hello.
    pub fn set_limit(&mut self, frame_bytes_max: u32) {
        self.frame_bytes_max = frame_bytes_max;
    }

    /// Memory for what the host reads next, at least one byte; afterwards it calls [`Self::filled`]. There is room for about `chunk` bytes, or
    /// as much as the arriving frame needs.
    pub fn space(&mut self, chunk: usize) -> &mut [u8] {
        let want = self.want(chunk);
        if self.block.len() - self.filled < want {
            self.renew(want.max(chunk));
        }
        let end = self.block.len().min(self.filled + want.max(chunk));
        &mut self.block[self.filled..end]
    }

    /// How much room there should be at least.
    fn want(&self, chunk: usize) -> usize {
        let pending = self.pending();
        let missing = self.header.map_or(0, |header| (header.len as usize).saturating_sub(pending));
        missing.min(pending.max(GROWTH)).max(chunk / 4).max(1)
    }

    /// Makes this much room behind what is in no frame yet.
    fn renew(&mut self, room: usize) {
        let pending = self.pending();
        if self.rest.is_empty() && self.block.len() >= pending + room {
            self.block.copy_within(self.start..self.filled, 0);
        } else {
            let mut block = self.block_of(pending + room);
            block[..pending].copy_from_slice(self.waiting());
            self.keep(block);
        }
        (self.start, self.filled) = (0, pending);
    }

    fn block_of(&self, len: usize) -> Vec<u8> {
        let Some(memory) = self.memory.as_ref().filter(|_| len >= KEPT_BYTES_MIN) else {
            return vec![0; len];
        };
        let len = len.next_multiple_of(KEPT_BYTES_MIN);
        memory.take(len).unwrap_or_else(|| vec![0; len])
    }

    /// Goes on with this block.
    fn keep(&mut self, block: Vec<u8>) {
        let before = std::mem::replace(&mut self.block, block);
        if let Some(memory) = self.memory.as_ref().filter(|_| before.len() >= KEPT_BYTES_MIN) {
            memory.give(before);
        }
        self.rest = Bytes::new();
    }

    /// The host put this many bytes at the beginning of the space.
    ///
    /// # Panics
    /// When there was not that much space.
    pub fn filled(&mut self, count: usize) {
        assert!(count <= self.block.len() - self.filled, "no more was read than there is space");
        self.filled += count;
    }

    /// Adds bytes from elsewhere.
    pub fn push(&mut self, bytes: &[u8]) {
        self.push_part(bytes, bytes.len());
    }

    /// As [`Self::push`], for a part of about `chunk` bytes in all. Memory is allocated for all parts together, since otherwise each part
    /// would move those before it.
    pub fn push_part(&mut self, mut bytes: &[u8], chunk: usize) {
        while !bytes.is_empty() {
            if self.filled == self.block.len() {
                self.renew(self.want(chunk).max(chunk));
            }
            let count = bytes.len().min(self.block.len() - self.filled);
            self.block[self.filled..][..count].copy_from_slice(&bytes[..count]);
            self.filled += count;
            bytes = &bytes[count..];
        }
    }

    /// The next whole frame, or nothing when more bytes are needed.
    ///
    /// # Errors
    /// The stream is damaged, or the frame too large. The connection is then of no use.
    pub fn frame(&mut self) -> Result<Option<Frame>, Reject> {
        let header = match self.header {
            Some(header) => header,
            None => {
                let Some(bytes) = self.waiting().first_chunk::<FRAME_HEADER>() else { return Ok(None) };
                let header = FrameHeader::decode(bytes, self.frame_bytes_max)?;
                self.skip(FRAME_HEADER);
                *self.header.insert(header)
            }
        };
        if self.pending() < header.len as usize {
            return Ok(None);
        }
        self.header = None;
        let payload = self.cut(header.len as usize);
        if crc32c::crc32c(&payload) != header.crc && !planted("damage-unnoticed") {
            return Err(Reject::Malformed("frame payload checksum"));
        }
        Ok(Some(Frame { kind: header.kind, payload }))
    }

    /// The bytes that are in no frame yet.
    fn waiting(&self) -> &[u8] {
        if self.rest.is_empty() { &self.block[self.start..self.filled] } else { &self.rest }
    }

    fn skip(&mut self, count: usize) {
        if self.rest.is_empty() {
            self.start += count;
            if self.start == self.filled {
                (self.start, self.filled) = (0, 0);
            }
        } else {
            self.rest.advance(count);
            self.end_rest();
        }
    }

    /// The next bytes, which have arrived.
    fn cut(&mut self, len: usize) -> Bytes {
        let pending = self.pending();
        if self.rest.is_empty()
            && pending >= KEPT_BYTES_MIN / FULL_PART
            && pending >= self.block.len() / FULL_PART
        {
            self.handed = self.block.len();
            let memory = self.memory.clone().filter(|_| self.block.len() >= KEPT_BYTES_MIN);
            let handed = Handed { block: std::mem::take(&mut self.block), memory };
            self.rest = Bytes::from_owner(handed).slice(self.start..self.filled);
            (self.start, self.filled) = (0, 0);
        }
        if self.rest.is_empty() {
            let payload = Bytes::copy_from_slice(&self.block[self.start..self.start + len]);
            self.skip(len);
            return payload;
        }
        let payload = self.rest.split_to(len);
        self.end_rest();
        payload
    }

    /// A rest without bytes must not keep its block.
    fn end_rest(&mut self) {
        if self.rest.is_empty() {
            self.rest = Bytes::new();
        }
    }

    /// The bytes of memory that it holds: those that wait for the rest of their frame, with the block that they keep, and free room.
    pub fn held(&self) -> usize {
        self.block.len() + if self.rest.is_empty() { 0 } else { self.handed }
    }

    /// Frees memory if nothing is in it.
    pub fn relax(&mut self) {
        if self.pending() == 0 {
            self.keep(Vec::new());
            (self.start, self.filled) = (0, 0);
        }
    }

    /// Bytes that wait for the rest of their frame.
    pub fn pending(&self) -> usize {
        self.filled - self.start + self.rest.len()
    }
}
