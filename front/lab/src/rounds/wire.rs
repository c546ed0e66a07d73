//! The messages of a group that measures itself. Nothing that a stranger sends is trusted: lengths are bounded before there is memory for
//! them, and every message carries a tag that only members can make (BLAKE3 with the group's key).
//!
//! ```text
//! magic 4 | kind 1 | from 1 | to 1 | zero 1 | run 8 | round 8 | payload bytes 4 | payload | tag 32      numbers little-endian
//! ```
//!
//! `from` and `to` are places in the group. `run` is a random number of the process that asks, so that nothing from an earlier run is taken for
//! an answer. The tag covers everything before it. Tests: `tests.rs`.

use std::io::{self, Read, Write};

/// The largest payload in bytes.
pub const MESSAGE_MAX: usize = 1 << 20;
/// The bytes before the payload.
pub(super) const HEADER: usize = 28;
/// The bytes after it.
pub(super) const TAG: usize = 32;
const MAGIC: [u8; 4] = *b"QRds";

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Store the payload, then answer.
    Ask = 1,
    /// It is stored. No payload.
    Answer = 2,
    /// The sender needs no more answers. No payload.
    Done = 3,
}

/// Everything of a message but its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: Kind,
    pub(super) from: u8,
    pub(super) to: u8,
    pub(super) run: u64,
    pub(super) round: u64,
}

/// Why nothing more can be read.
#[derive(Debug)]
pub(super) enum Fault {
    /// The connection ended, or said nothing for too long.
    Ended,
    /// What came is no message of this group.
    Garbage(&'static str),
}

impl From<io::Error> for Fault {
    fn from(_: io::Error) -> Self {
        Self::Ended
    }
}

/// What the members of a group know: the key of its tags, and the size of what they store.
#[derive(Clone)]
pub(super) struct Group {
    key: [u8; 32],
    /// The payload of every request, in bytes.
    pub(super) message_bytes: usize,
}

impl Group {
    /// The group at these addresses, in this order. Whoever has another list, size or secret makes other tags.
    pub(super) fn new(addresses: &[String], message_bytes: usize, secret: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("quorate doctor visigoth: tags of a group");
        for part in addresses.iter().map(String::as_bytes).chain([secret]) {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        hasher.update(&(message_bytes as u64).to_le_bytes());
        Self { key: *hasher.finalize().as_bytes(), message_bytes }
    }

    fn tag(&self, header: &[u8; HEADER], payload: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(header).update(payload);
        hasher.finalize()
    }

    /// The bytes of a message.
    pub(super) fn encode(&self, head: Head, payload: &[u8]) -> Vec<u8> {
        let mut header = [0; HEADER];
        header[..4].copy_from_slice(&MAGIC);
        header[4..7].copy_from_slice(&[head.kind as u8, head.from, head.to]);
        header[8..16].copy_from_slice(&head.run.to_le_bytes());
        header[16..24].copy_from_slice(&head.round.to_le_bytes());
        header[24..].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        let tag = self.tag(&header, payload);
        [&header[..], payload, tag.as_bytes()].concat()
    }

    /// Writes a message.
    pub(super) fn write(&self, mut to: impl Write, head: Head, payload: &[u8]) -> io::Result<()> {
        to.write_all(&self.encode(head, payload))
    }

    /// Reads a message; its payload is then in `payload`.
    pub(super) fn read(&self, mut from: impl Read, payload: &mut Vec<u8>) -> Result<Head, Fault> {
        let mut header = [0; HEADER];
        from.read_exact(&mut header)?;
        let (head, bytes) = self.decode(&header).map_err(Fault::Garbage)?;
        payload.clear();
        payload.resize(bytes, 0);
        from.read_exact(payload)?;
        let mut tag = [0; TAG];
        from.read_exact(&mut tag)?;
        // This comparison takes the same time wherever they differ.
        if self.tag(&header, payload) != blake3::Hash::from_bytes(tag) {
            return Err(Fault::Garbage("a tag that no member of this group makes"));
        }
        Ok(head)
    }

    /// The head, and the bytes of the payload: those that such a message has here.
    fn decode(&self, header: &[u8; HEADER]) -> Result<(Head, usize), &'static str> {
        let number = |at: usize| {
            let bytes = header[at..].first_chunk().copied().unwrap_or_default();
            u64::from_le_bytes(bytes)
        };
        if header[..4] != MAGIC || header[7] != 0 {
            return Err("bytes that are no message");
        }
        let (kind, expected) = match header[4] {
            1 => (Kind::Ask, self.message_bytes),
            2 => (Kind::Answer, 0),
            3 => (Kind::Done, 0),
            _ => return Err("an unknown kind of message"),
        };
        let bytes = header[24..].first_chunk().copied().map_or(0, u32::from_le_bytes);
        if bytes as usize != expected {
            return Err("a message of another size");
        }
        let head = Head { kind, from: header[5], to: header[6], run: number(8), round: number(16) };
        Ok((head, expected))
    }
}
