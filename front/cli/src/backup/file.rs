//! An existing backup file, as the keeper of checkpoints sees it: read only.

use bytes::Bytes;
use quorate_etcd_grpc::saved;
use quorate_kit::backups::read_within;
use quorate_state::checkpoint::Files;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

/// An existing backup file, also one that etcdctl saved; read only.
pub(super) struct OldFile {
    file: File,
    /// Length of the backup in it, in bytes.
    len: u64,
    /// Whether etcdctl saved it, with a checksum at its end.
    is_saved: bool,
}

impl OldFile {
    /// Opens the file.
    ///
    /// # Errors
    /// When the operating system refuses, or it is no ordinary file.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        // First, since opening a pipe would wait for a writer.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "it is no file"));
        }
        let file = File::open(path)?;
        let inside = saved::backup_len(&file)?;
        let len = inside.map_or_else(|| file.metadata().map(|about| about.len()), Ok)?;
        Ok(Self { file, len, is_saved: inside.is_some() })
    }

    /// Whether etcdctl's checksum is right; true for a file without one.
    ///
    /// # Errors
    /// When the file can not be read.
    pub(super) fn fits_its_sum(&self) -> io::Result<bool> {
        if self.is_saved { saved::is_whole(&self.file) } else { Ok(true) }
    }
}

fn refused() -> io::Error {
    io::Error::new(ErrorKind::Unsupported, "a backup is only read")
}

impl Files for OldFile {
    fn list(&mut self) -> io::Result<Vec<String>> {
        Err(refused())
    }
    fn len(&mut self, _: &str) -> io::Result<u64> {
        Ok(self.len)
    }
    fn read(&mut self, _: &str, offset: u64, len: usize) -> io::Result<Bytes> {
        read_within(&self.file, self.len, offset, len)
    }
    fn create(&mut self, _: &str) -> io::Result<()> {
        Err(refused())
    }
    fn append(&mut self, _: &str, _: &[Bytes]) -> io::Result<()> {
        Err(refused())
    }
    fn write_at(&mut self, _: &str, _: u64, _: &[u8]) -> io::Result<()> {
        Err(refused())
    }
    fn truncate(&mut self, _: &str, _: u64) -> io::Result<()> {
        Err(refused())
    }
    fn sync(&mut self, _: &str) -> io::Result<()> {
        Err(refused())
    }
    fn publish(&mut self, _: &str, _: &str) -> io::Result<()> {
        Err(refused())
    }
    fn delete(&mut self, _: &str) -> io::Result<()> {
        Err(refused())
    }
}

#[cfg(test)]
mod tests;
