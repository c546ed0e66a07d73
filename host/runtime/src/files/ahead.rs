//! Reads ahead past the system's page cache. Who sends a checkpoint reads it in stretches, once: in the page cache each page would take
//! memory that the system has to fetch first, and a copy more.
//!
//! Only a read that begins where the one before ended reads ahead. Bytes that were read before are never given again, so what changes at
//! rest is seen. Not every file system supports this: then the file is read in the usual way.

use super::direct::{PAGE, PIECE, aligned};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

/// What is read ahead of one file.
#[derive(Default)]
pub(super) struct Ahead {
    /// The file that was read last, and where that read ended.
    name: String,
    end: u64,
    file: Option<File>,
    /// A buffer of one piece, which begins at the first aligned address, and which bytes of the file are in it.
    memory: Vec<u8>,
    first: usize,
    holds: Range<u64>,
    /// The file system does not support it.
    refused: bool,
}

impl Ahead {
    /// Reads bytes at an offset. `false`: they must be read in the usual way.
    pub(super) fn read(
        &mut self,
        (path, name): (&Path, &str),
        bytes: &mut [u8],
        offset: u64,
    ) -> io::Result<bool> {
        let goes_on = self.name == name && self.end == offset;
        if !goes_on {
            self.forget();
            name.clone_into(&mut self.name);
        }
        self.end = offset + bytes.len() as u64;
        if !goes_on || self.refused || bytes.is_empty() || bytes.len() > PIECE - PAGE {
            return Ok(false);
        }
        if !self.has(offset) && !self.fill(path, offset)? || !self.has(offset) {
            return Ok(false);
        }
        let from = self.first + (offset - self.holds.start) as usize;
        bytes.copy_from_slice(&self.memory[from..from + bytes.len()]);
        Ok(true)
    }

    /// Whether everything from an offset to the end of the present read is here.
    fn has(&self, offset: u64) -> bool {
        self.holds.start <= offset && self.end <= self.holds.end
    }

    /// Reads a piece from the page of an offset on. Whether the file system supports it.
    fn fill(&mut self, path: &Path, offset: u64) -> io::Result<bool> {
        if self.memory.is_empty() {
            (self.memory, self.first) = aligned();
        }
        if self.file.is_none() {
            let flags = i32::try_from(OFlags::DIRECT.bits()).unwrap_or(0);
            self.file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok();
        }
        let Some(file) = &self.file else { return Ok(self.refuse()) };
        let begin = offset - offset % PAGE as u64;
        let mut filled = 0;
        while filled < PIECE && filled.is_multiple_of(PAGE) {
            let space = &mut self.memory[self.first + filled..self.first + PIECE];
            match file.read_at(space, begin + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Ok(self.refuse()),
                Err(error) => return Err(error),
            }
        }
        self.holds = begin..begin + filled as u64;
        Ok(true)
    }

    fn refuse(&mut self) -> bool {
        self.forget();
        self.refused = true;
        false
    }

    /// The bytes of this file change, or its name.
    pub(super) fn changed(&mut self, name: &str) {
        if self.name == name {
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.name.clear();
        (self.file, self.holds, self.end) = (None, 0..0, 0);
    }
}
