//! A disk with slower syncs: the disks of test machines are often faster than those in production.

use super::Disk;
use bytes::Bytes;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Adds a fixed time to every sync of another disk, on the thread that syncs.
pub struct DelayedDisk {
    inside: Arc<dyn Disk>,
    delay: Duration,
}

impl DelayedDisk {
    /// The disk with this delay; the disk itself without one.
    pub fn over(inside: Arc<dyn Disk>, delay: Duration) -> Arc<dyn Disk> {
        if delay.is_zero() { inside } else { Arc::new(Self { inside, delay }) }
    }
}

impl Disk for DelayedDisk {
    fn segments(&self) -> io::Result<Vec<u64>> {
        self.inside.segments()
    }
    fn read_segment(&self, segment: u64) -> io::Result<Bytes> {
        self.inside.read_segment(segment)
    }
    fn read(&self, segment: u64, offset: u64, len: u32) -> io::Result<Bytes> {
        self.inside.read(segment, offset, len)
    }
    fn write(&self, segment: u64, offset: u64, pieces: &[Bytes]) -> io::Result<()> {
        self.inside.write(segment, offset, pieces)
    }
    fn sync(&self, segments: &[u64]) -> io::Result<()> {
        self.inside.sync(segments)?;
        std::thread::sleep(self.delay);
        Ok(())
    }
    fn prepare(&self, segment: u64, bytes: u64) -> io::Result<()> {
        self.inside.prepare(segment, bytes)
    }
    fn remove(&self, segment: u64) -> io::Result<()> {
        self.inside.remove(segment)
    }
}
