//! Appends past the system's page cache. A checkpoint is read again only after a crash, so copying it into the cache, and dropping it there
//! again, would be most of the processor time of writing.
//!
//! Whole pages go to the disk from a buffer; the rest is written in the usual way when the file is synced, and once more as part of its
//! page when that is full. Not every file system supports this: then [`Direct::open`] gives `None`.

use super::with_room;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

/// The alignment of memory and file offsets; enough for every disk.
pub(super) const PAGE: usize = 4096;
/// How much is written at once.
pub(super) const PIECE: usize = 1 << 20;

/// Memory for one piece, and where in it the first aligned address is.
pub(super) fn aligned() -> (Vec<u8>, usize) {
    let memory = vec![0; PIECE + PAGE];
    let first = memory.as_ptr().align_offset(PAGE).min(PAGE);
    (memory, first)
}

/// A file that is appended to.
pub(super) struct Direct {
    file: File,
    /// A buffer of one piece, which begins at the first aligned address.
    memory: Vec<u8>,
    first: usize,
    /// Offset of the piece in the file: a multiple of a page.
    at: u64,
    filled: usize,
    /// How many bytes of it [`Direct::flush`] wrote before it was full.
    flushed: usize,
}

impl Direct {
    /// For a new, empty file.
    pub(super) fn open(path: &Path) -> Option<Self> {
        let flags = i32::try_from(OFlags::DIRECT.bits()).ok()?;
        let file = OpenOptions::new().write(true).custom_flags(flags).open(path).ok()?;
        let (memory, first) = aligned();
        Some(Self { file, memory, first, at: 0, filled: 0, flushed: 0 })
    }

    /// Takes bytes, and writes full pieces; on a full disk it tries again after `room` made room. `false` if the file system does not support
    /// this after all: then all bytes are in `plain`, and this value must not be used any more.
    pub(super) fn append(
        &mut self,
        plain: &File,
        mut bytes: &[u8],
        room: &dyn Fn() -> bool,
    ) -> io::Result<bool> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PIECE - self.filled));
            let from = self.first + self.filled;
            self.memory[from..from + now.len()].copy_from_slice(now);
            self.filled += now.len();
            bytes = later;
            if self.filled < PIECE {
                continue;
            }
            let piece = &self.memory[self.first..self.first + PIECE];
            match with_room(room, || self.file.write_all_at(piece, self.at)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    self.flush(plain)?;
                    plain.write_all_at(bytes, self.at + PIECE as u64)?;
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
            self.at += PIECE as u64;
            (self.filled, self.flushed) = (0, 0);
        }
        Ok(true)
    }

    /// Writes the rest, so that the file is complete.
    pub(super) fn flush(&mut self, plain: &File) -> io::Result<()> {
        // Whole pages that were written before need not be written again.
        let from = self.flushed - self.flushed % PAGE;
        if self.flushed < self.filled {
            let left = &self.memory[self.first + from..self.first + self.filled];
            plain.write_all_at(left, self.at + from as u64)?;
            self.flushed = self.filled;
        }
        Ok(())
    }
}
