//! Appending past the system's page cache: what a checkpoint writes is read again only after a crash, so copying it into the cache,
//! and clearing it out there again, is most of what writing would cost the processor.
//!
//! Whole pages go to the disk from a buffer of ours; what is left over is written in the usual way when the file is synced, and once
//! more as a part of its page when that is full. Not every file system can do it: [`Direct::open`] says so by giving none.

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

/// What memory and places in the file are multiples of: enough for every disk.
const PAGE: usize = 4096;
/// How much is written at once.
pub(super) const PIECE: usize = 1 << 20;

/// A file that is appended to.
pub(super) struct Direct {
    file: File,
    /// A piece, from the first place on that is aligned as the disk wants it.
    memory: Vec<u8>,
    first: usize,
    /// Where in the file the piece begins: a multiple of a page.
    at: u64,
    filled: usize,
    /// How much of it was written by [`Direct::flush`] before it was full.
    flushed: usize,
}

impl Direct {
    /// For a file that was just made and is empty.
    pub(super) fn open(path: &Path) -> Option<Self> {
        let flags = i32::try_from(OFlags::DIRECT.bits()).ok()?;
        let file = OpenOptions::new().write(true).custom_flags(flags).open(path).ok()?;
        let memory = vec![0; PIECE + PAGE];
        let first = memory.as_ptr().align_offset(PAGE);
        (first <= PAGE).then_some(Self { file, memory, first, at: 0, filled: 0, flushed: 0 })
    }

    /// Takes bytes; full pieces are written. Gives false if the file system turns out not to do it: then all that was taken is in
    /// `plain`, and this one is of no use any more.
    pub(super) fn append(&mut self, plain: &File, mut bytes: &[u8]) -> io::Result<bool> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PIECE - self.filled));
            let from = self.first + self.filled;
            self.memory[from..from + now.len()].copy_from_slice(now);
            self.filled += now.len();
            bytes = later;
            if self.filled < PIECE {
                continue;
            }
            match self.file.write_all_at(&self.memory[self.first..self.first + PIECE], self.at) {
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

    /// Writes what is left over, so that the file has all of it.
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
