//! A disk that is full on purpose: what a replica may still put on its disk, for clusters in which one disk is to be full.
//!
//! A log's segment that is prepared, and what is appended to a checkpoint, take from it; files that are deleted give back. When nothing is
//! left the error is the kernel's for a full disk. Writing to a segment that was prepared before needs no room, as on a real disk. Other files
//! (the note of a run, the audit log) do not count. Tests: `quota/tests.rs`, front/cli/tests/all/chaos.rs.

use super::Disk;
use crate::files::Ballast;
use bytes::Bytes;
use quorate_state::checkpoint::Files;
use rustix::io::Errno;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Nothing is limited.
const UNLIMITED: u64 = u64::MAX;

/// How many bytes a replica may still put on its disk. It may change while the replica runs: clones are the same value.
#[derive(Clone, Debug)]
pub struct Quota(Arc<AtomicU64>);

impl Default for Quota {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(UNLIMITED)))
    }
}

impl Quota {
    /// From now on so many bytes are left; `None`: as many as the disk has.
    pub fn set(&self, left: Option<u64>) {
        self.0.store(left.unwrap_or(UNLIMITED), Ordering::Release);
    }

    /// How many bytes are left; `None` where nothing is limited.
    pub fn left(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|left| *left != UNLIMITED)
    }

    /// The problem to report.
    pub(crate) fn problem(&self) -> Option<String> {
        let left = self.left()?;
        Some(format!(
            "the disk of this replica is full on purpose: {} MiB are left, until `quorate chaos fill-disk` with --off",
            left >> 20
        ))
    }

    pub(crate) fn take(&self, bytes: u64) -> io::Result<()> {
        let take = |left: u64| match left {
            UNLIMITED => Some(UNLIMITED),
            _ => left.checked_sub(bytes),
        };
        let taken = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        taken.map(drop).map_err(|_| Errno::NOSPC.into())
    }

    pub(crate) fn give(&self, bytes: u64) {
        let give = |left: u64| match left {
            UNLIMITED => None,
            _ => Some(left.saturating_add(bytes).min(UNLIMITED - 1)),
        };
        // Where nothing is limited there is nothing to give back.
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, give);
    }

    /// A disk whose segments take from this.
    pub(crate) fn over_disk(self, disk: Arc<dyn Disk>, segment_bytes: u64) -> Arc<dyn Disk> {
        Arc::new(LimitedDisk { disk, quota: self, segment_bytes })
    }

    /// Files that take from this.
    pub(crate) fn over_files(
        self,
        files: Box<dyn Files + Send>,
        ballast: Arc<Ballast>,
    ) -> Box<dyn Files + Send> {
        Box::new(LimitedFiles { files, quota: self, ballast })
    }
}

struct LimitedDisk {
    disk: Arc<dyn Disk>,
    quota: Quota,
    segment_bytes: u64,
}

impl Disk for LimitedDisk {
    fn segments(&self) -> io::Result<Vec<u64>> {
        self.disk.segments()
    }
    fn read_segment(&self, segment: u64) -> io::Result<Bytes> {
        self.disk.read_segment(segment)
    }
    fn read(&self, segment: u64, offset: u64, len: u32) -> io::Result<Bytes> {
        self.disk.read(segment, offset, len)
    }
    fn write(&self, segment: u64, offset: u64, pieces: &[Bytes]) -> io::Result<()> {
        self.disk.write(segment, offset, pieces)
    }
    fn sync(&self, segments: &[u64]) -> io::Result<()> {
        self.disk.sync(segments)
    }
    fn prepare(&self, segment: u64, bytes: u64) -> io::Result<()> {
        self.quota.take(bytes)?;
        self.disk.prepare(segment, bytes).inspect_err(|_| self.quota.give(bytes))
    }
    fn remove(&self, segment: u64) -> io::Result<()> {
        self.disk.remove(segment)?;
        self.quota.give(self.segment_bytes);
        Ok(())
    }
}

struct LimitedFiles {
    files: Box<dyn Files + Send>,
    quota: Quota,
    ballast: Arc<Ballast>,
}

impl Files for LimitedFiles {
    fn list(&mut self) -> io::Result<Vec<String>> {
        self.files.list()
    }
    fn len(&mut self, name: &str) -> io::Result<u64> {
        self.files.len(name)
    }
    fn read(&mut self, name: &str, offset: u64, len: usize) -> io::Result<Bytes> {
        self.files.read(name, offset, len)
    }
    fn create(&mut self, name: &str) -> io::Result<()> {
        self.files.create(name)
    }
    fn append(&mut self, name: &str, parts: &[Bytes]) -> io::Result<()> {
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        match self.quota.take(bytes) {
            Err(_) if self.ballast.release() => self.quota.take(bytes)?,
            taken => taken?,
        }
        self.files.append(name, parts).inspect_err(|_| self.quota.give(bytes))
    }
    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.files.write_at(name, offset, bytes)
    }
    fn truncate(&mut self, name: &str, len: u64) -> io::Result<()> {
        self.files.truncate(name, len)
    }
    fn sync(&mut self, name: &str) -> io::Result<()> {
        self.files.sync(name)
    }
    fn publish(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.files.publish(from, to)
    }
    fn delete(&mut self, name: &str) -> io::Result<()> {
        let bytes = self.files.len(name).unwrap_or(0);
        self.files.delete(name)?;
        self.quota.give(bytes);
        self.ballast.replenish();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
