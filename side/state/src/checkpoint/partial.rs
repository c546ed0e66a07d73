//! The file of a checkpoint that is being fetched. It is written while parts arrive, each part once and at its final place, so that little
//! is left to write when the last one is here.
//!
//! The file is a full checkpoint's, from its beginning: header, then records in the order of the parts. Its name says that it is not
//! finished. Beside it is the manifest, without which nobody could tell what the records are. After a crash the records are read again, so
//! that a transfer that was interrupted need not fetch them again, and the file goes on behind them. Every record is compared with its
//! digest in the manifest before it counts. If the file can't be written, only time is lost. Tests: `tests/all/checkpoint_partial.rs`.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use quorate_wire::MANIFEST_MAX;

use super::file::{self, HEADER, RECORD, record_body};
use super::files::{Files, delete_if_there};
use super::manifest::{Manifest, Part};
use super::writer::{Batch, Trouble, reused};
use super::{Image, Kind};
use crate::store::Path;

/// The name of the file.
pub(crate) const PARTIAL: &str = "transfer.partial";
/// The file is synced after this many bytes. Seldom: each time an incomplete page is written, which is written again later.
const SYNC_BYTES: u64 = 64 << 20;
/// The name of the manifest's file.
pub(crate) const OUTLINE: &str = "transfer.manifest";

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

/// How far a checkpoint that is being fetched is here.
pub struct Growth {
    /// Its manifest.
    pub manifest: Arc<Manifest>,
    /// The image so far. Its system part is whole.
    pub image: Image,
    /// The parts before this one are in the image and verified.
    pub upto: u32,
}

/// What is written of a checkpoint that is being fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// The records of the parts before this one are in the file.
    pub(crate) parts: u32,
    /// The file's length.
    pub(crate) len: u64,
}

/// The file; see the module.
#[derive(Default)]
pub(crate) struct PartialFile {
    /// Of which image the file is; none: there is no file.
    of: Option<Arc<Manifest>>,
    /// None: it must be made, or can't be written.
    written: Option<Written>,
    /// It can't be written, so there is none until another checkpoint is fetched.
    broken: bool,
    unsynced: u64,
    /// What is here and may not be written yet.
    ready: Option<Growth>,
    memory: Vec<u8>,
}

impl PartialFile {
    /// Finds what an earlier run has written, and reads it. What comes after the first damage is cut off.
    pub(crate) fn open(files: &mut dyn Files) -> io::Result<(Self, Vec<PartialPiece>)> {
        let outline = read_outline(files)?;
        let (Some(manifest), Some(len)) = (outline, len_of(files, PARTIAL)?) else {
            discard(files)?;
            return Ok(Default::default());
        };
        let header = file::header(Kind::Full, manifest.border());
        if len < HEADER || files.read(PARTIAL, 0, header.len())?[..] != header {
            discard(files)?;
            return Ok(Default::default());
        }
        let mut pieces = Vec::new();
        let mut written = Written { parts: 0, len: HEADER };
        while let Some((piece, end)) = read_piece(files, &manifest, written) {
            pieces.push(piece);
            written = Written { parts: written.parts + 1, len: end };
        }
        if written.len < len {
            files.truncate(PARTIAL, written.len)?;
        }
        let of = Some(Arc::new(manifest));
        Ok((Self { of, written: Some(written), ..Self::default() }, pieces))
    }

    /// More of a checkpoint is here. If it is another one than before, its file replaces that one's.
    pub(crate) fn grow(&mut self, growth: Growth) {
        if !self.is_of(&growth.manifest) {
            *self = Self { memory: std::mem::take(&mut self.memory), ..Self::default() };
        }
        self.of = Some(growth.manifest.clone());
        let behind = self.written.is_none_or(|written| written.parts < growth.upto);
        self.ready = Some(growth).filter(|_| behind && !self.broken);
    }

    fn is_of(&self, manifest: &Arc<Manifest>) -> bool {
        self.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, manifest) || of == manifest)
    }

    /// Whether something can be written.
    pub(crate) fn grows(&self) -> bool {
        self.ready.is_some()
    }

    /// Writes some of what is here. Returns how many bytes that were.
    pub(crate) fn step(&mut self, files: &mut dyn Files) -> Result<u64, Trouble> {
        let Some(growth) = self.ready.take() else { return Ok(0) };
        let result = self.write(files, &growth);
        match &result {
            Ok(_) if self.written.is_some_and(|written| written.parts >= growth.upto) => {}
            Ok(_) => self.ready = Some(growth),
            Err(_) => (self.written, self.broken) = (None, true),
        }
        result
    }

    fn write(&mut self, files: &mut dyn Files, growth: &Growth) -> Result<u64, Trouble> {
        let Some(mut written) = self.written else {
            self.written = Some(create(files, &growth.manifest)?);
            return Ok(HEADER);
        };
        let mut batch = Batch::new(written.len, std::mem::take(&mut self.memory));
        while written.parts < growth.upto && !batch.is_full() {
            batch.add_part(&growth.image, &growth.manifest, written.parts);
            written.parts += 1;
        }
        let parts = [batch.bytes.into()];
        let bytes = parts.iter().map(|part: &Bytes| part.len() as u64).sum();
        files.append(PARTIAL, &parts).map_err(Trouble::write(PARTIAL))?;
        self.memory = reused(parts);
        written.len += bytes;
        self.written = Some(written);
        self.unsynced += bytes;
        if self.unsynced >= SYNC_BYTES {
            files.sync(PARTIAL).map_err(Trouble::sync(PARTIAL))?;
            self.unsynced = 0;
        }
        Ok(bytes)
    }

    /// What is written of this image. From now on the file is the caller's.
    pub(crate) fn hand_over(&mut self, manifest: &Arc<Manifest>) -> Option<Written> {
        if !self.is_of(manifest) {
            return None;
        }
        std::mem::take(self).written
    }
}

/// Removes what is kept of a transfer.
pub(crate) fn delete(files: &mut dyn Files) -> io::Result<()> {
    delete_if_there(files, PARTIAL)?;
    delete_if_there(files, OUTLINE)
}

/// Makes the file. The manifest comes first: what is behind it is of no use without it.
fn create(files: &mut dyn Files, manifest: &Manifest) -> Result<Written, Trouble> {
    let whole = [Bytes::from(manifest.encode())];
    files.create(OUTLINE).map_err(Trouble::write(OUTLINE))?;
    files.append(OUTLINE, &whole).map_err(Trouble::write(OUTLINE))?;
    files.sync(OUTLINE).map_err(Trouble::sync(OUTLINE))?;
    files.create(PARTIAL).map_err(Trouble::write(PARTIAL))?;
    let header = [Bytes::copy_from_slice(&file::header(Kind::Full, manifest.border()))];
    files.append(PARTIAL, &header).map_err(Trouble::write(PARTIAL))?;
    Ok(Written { parts: 0, len: HEADER })
}

/// Removes what can not be used, if there is something.
fn discard(files: &mut dyn Files) -> io::Result<()> {
    let is_there = len_of(files, PARTIAL)?.or(len_of(files, OUTLINE)?).is_some();
    if is_there { delete(files) } else { Ok(()) }
}

/// How long a file is, if it is there.
fn len_of(files: &mut dyn Files, name: &str) -> io::Result<Option<u64>> {
    match files.len(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        len => len.map(Some),
    }
}

/// The manifest of the file; none: there is no file, or it is damaged.
fn read_outline(files: &mut dyn Files) -> io::Result<Option<Manifest>> {
    let Some(len) = len_of(files, OUTLINE)? else { return Ok(None) };
    let len = usize::try_from(len.min(MANIFEST_MAX)).map_err(io::Error::other)?;
    Ok(Manifest::decode(&files.read(OUTLINE, 0, len)?).ok())
}

/// The part behind what is known to be sound, and its end.
fn read_piece(files: &mut dyn Files, manifest: &Manifest, sound: Written) -> Option<(PartialPiece, u64)> {
    let len = RECORD + manifest.part_len(sound.parts)? as u64;
    let bytes = record_body(&files.read(PARTIAL, sound.len, len as usize).ok()?)?;
    manifest.verify(sound.parts, &bytes).ok()?;
    let piece = match manifest.split(sound.parts)? {
        Part::Piece(_) => PartialPiece::System { bytes },
        Part::Chunk(chunk) => PartialPiece::Objects { path: chunk.path.clone(), bytes },
    };
    Some((piece, sound.len + len))
}
