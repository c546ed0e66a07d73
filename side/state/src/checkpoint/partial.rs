//! Fetched parts of a checkpoint, kept so that a transfer that a crash interrupts need not fetch them again. They only save time: their
//! reader verifies everything again, and if they can't be kept, only time is lost.

use std::io;

use bytes::{BufMut, Bytes, BytesMut};

use super::file::{FORMAT, RECORD, record_body, record_head};
use super::files::Files;
use crate::store::Path;

/// The name of the file.
pub(crate) const PARTIAL: &str = "transfer.partial";
const MAGIC: [u8; 8] = *b"QPRT\x01\0\0\0";
const SYSTEM: u8 = 0;
const OBJECTS: u8 = 1;

/// A verified part of a checkpoint that is being fetched. It names itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartialPiece {
    /// A piece of the system bytes.
    System {
        /// The piece.
        bytes: Bytes,
    },
    /// A chunk of the objects.
    Objects {
        /// Its path in the tree.
        path: Path,
        /// The chunk.
        bytes: Bytes,
    },
}

impl PartialPiece {
    /// How many bytes it has.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::System { bytes } | Self::Objects { bytes, .. } => bytes.len(),
        }
    }

    fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        match self {
            Self::System { bytes } => {
                out.put_u8(SYSTEM);
                out.extend_from_slice(bytes);
            }
            Self::Objects { path, bytes } => {
                out.put_u8(OBJECTS);
                out.put_u32_le(path.len() as u32);
                out.extend_from_slice(path.as_bytes());
                out.extend_from_slice(bytes);
            }
        }
        out.freeze()
    }

    fn decode(body: &Bytes) -> Option<Self> {
        match *body.first()? {
            SYSTEM => Some(Self::System { bytes: body.slice(1..) }),
            OBJECTS => {
                let len = u32::from_le_bytes(*body.get(1..)?.first_chunk()?) as usize;
                let path = Path::from_bytes(body.get(5..)?.get(..len)?)?;
                Some(Self::Objects { path, bytes: body.slice(5 + len..) })
            }
            _ => None,
        }
    }
}

/// Whether these first bytes show that a newer program wrote the file.
pub(crate) fn newer_partial(bytes: &[u8]) -> Option<u16> {
    let version = u16::from_le_bytes(*bytes.get(4..)?.first_chunk()?);
    (bytes[..4] == MAGIC[..4] && version > FORMAT).then_some(version)
}

/// The file of kept parts, as far as it is sound.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartialFile {
    /// Its length; 0: there is none.
    len: u64,
    /// It can't be written any more, so nothing more is kept until the transfer is over.
    broken: bool,
    unsynced: u64,
}

impl PartialFile {
    /// Reads every whole part in the file. Everything after the first damage is cut off, so that new parts can be added.
    pub(crate) fn open(files: &mut dyn Files) -> io::Result<(Self, Vec<PartialPiece>)> {
        let len = match files.len(PARTIAL) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Default::default()),
            other => other?,
        };
        let mut pieces = Vec::new();
        let mut at = MAGIC.len() as u64;
        if len < at || files.read(PARTIAL, 0, MAGIC.len())?[..] != MAGIC {
            files.delete(PARTIAL)?;
            return Ok(Default::default());
        }
        while let Some((piece, end)) = read_piece(files, at, len) {
            pieces.push(piece);
            at = end;
        }
        if at < len {
            files.truncate(PARTIAL, at)?;
        }
        Ok((Self { len: at, ..Self::default() }, pieces))
    }

    /// Adds a part. Returns how many bytes were written, and whether the file must be synced.
    pub(crate) fn add(&mut self, files: &mut dyn Files, piece: &PartialPiece) -> io::Result<u64> {
        if self.broken {
            return Ok(0);
        }
        let result = self.write(files, piece);
        if result.is_err() {
            // What may stand behind the last whole part would hide every later one.
            self.broken = true;
            let _ = files.truncate(PARTIAL, self.len);
        }
        result
    }

    fn write(&mut self, files: &mut dyn Files, piece: &PartialPiece) -> io::Result<u64> {
        if self.len == 0 {
            files.create(PARTIAL)?;
            files.append(PARTIAL, &[Bytes::from_static(&MAGIC)])?;
            self.len = MAGIC.len() as u64;
        }
        let body = piece.encode();
        let len = RECORD + body.len() as u64;
        files.append(PARTIAL, &[Bytes::copy_from_slice(&record_head(&body)), body])?;
        self.len += len;
        self.unsynced += len;
        Ok(len)
    }

    /// Whether more than `most` bytes were written since the last sync.
    pub(crate) fn is_due(&mut self, most: u64) -> bool {
        let due = self.unsynced >= most;
        if due {
            self.unsynced = 0;
        }
        due
    }

    /// Deletes it.
    pub(crate) fn forget(&mut self, files: &mut dyn Files) -> io::Result<()> {
        *self = Self::default();
        super::files::delete_if_there(files, PARTIAL)
    }
}

/// The part at an offset, and its end.
fn read_piece(files: &mut dyn Files, at: u64, len: u64) -> Option<(PartialPiece, u64)> {
    let left = len.checked_sub(at)?.checked_sub(RECORD)?;
    let head = files.read(PARTIAL, at, RECORD as usize).ok()?;
    let body_len = u64::from(u32::from_le_bytes(*head.first_chunk()?));
    if body_len > left {
        return None;
    }
    let record = files.read(PARTIAL, at, (RECORD + body_len) as usize).ok()?;
    let piece = PartialPiece::decode(&record_body(&record)?)?;
    Some((piece, at + RECORD + body_len))
}
