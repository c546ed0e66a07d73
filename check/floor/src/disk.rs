//! The log file, and the leader's disk thread that writes what piled up while it synced.

use crate::frame::Frame;
use crate::{Config, Doing, Error, Result, Sync};
use rustix::event::EventfdFlags;
use std::fs::File;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// The most that one write of the disk thread takes.
const WRITE_BYTES_MAX: usize = 4 << 20;
/// The most frames that one write takes; the system's own limit is 1024.
const WRITE_FRAMES_MAX: usize = 512;

/// A file of fixed size, filled once, then overwritten round and round: no growth, so a sync writes no metadata.
pub(crate) struct LogFile {
    file: File,
    at: u64,
    size: u64,
    sync: bool,
    sync_delay: Duration,
    /// Writes, each with its sync where there is one.
    pub(crate) writes: u64,
}

impl LogFile {
    /// Opens and fills the file that `config` asks for; `None` when nothing is to be written.
    pub(crate) fn of(config: &Config, name: &str) -> Result<Option<LogFile>> {
        let log = LogFile::open(&config.dir, name, config.file_mb, config.sync)?;
        let sync_delay = Duration::from_micros(config.sync_delay_us);
        Ok(log.map(|log| LogFile { sync_delay, ..log }))
    }

    /// The same without a delay.
    pub(crate) fn open(dir: &Path, name: &str, file_mb: u64, sync: Sync) -> Result<Option<LogFile>> {
        if sync == Sync::Memory {
            return Ok(None);
        }
        let path = dir.join(name);
        let file = File::options()
            .create(true)
            .read(true)
            .write(true)
            .truncate(false)
            .open(&path)
            .doing(format!("open {}", path.display()))?;
        let size = file_mb << 20;
        let zeros = vec![0u8; 1 << 20];
        let filling = || format!("fill {} to {file_mb} MiB", path.display());
        if file.metadata().doing(filling())?.len() != size {
            file.set_len(0).doing(filling())?;
            for mb in 0..file_mb {
                file.write_all_at(&zeros, mb << 20).doing(filling())?;
            }
            file.sync_all().doing(filling())?;
        }
        Ok(Some(LogFile {
            file,
            at: 0,
            size,
            sync: sync == Sync::Fdatasync,
            sync_delay: Duration::ZERO,
            writes: 0,
        }))
    }

    /// Writes all of `slices` behind what was written before, then syncs where asked.
    pub(crate) fn append(&mut self, mut slices: &mut [IoSlice<'_>]) -> Result<()> {
        while !slices.is_empty() {
            let left: u64 = slices.iter().map(|s| s.len() as u64).sum();
            let wrote = if left <= self.size - self.at {
                rustix::io::pwritev(&self.file, slices, self.at)
            } else {
                // the end of the file is near: one slice at a time, cut there
                let fits = slices[0].len().min((self.size - self.at) as usize);
                rustix::io::pwrite(&self.file, &slices[0][..fits], self.at)
            };
            let wrote = match wrote {
                Err(rustix::io::Errno::INTR) => continue,
                other => other.doing("write the log file")?,
            };
            self.at = (self.at + wrote as u64) % self.size;
            IoSlice::advance_slices(&mut slices, wrote);
        }
        if self.sync {
            self.file.sync_data().doing("sync the log file")?;
            if !self.sync_delay.is_zero() {
                std::thread::sleep(self.sync_delay);
            }
        }
        self.writes += 1;
        Ok(())
    }
}

/// The leader's disk thread: frames go in, and an eventfd says that more of them became durable.
pub(crate) struct Disk {
    frames: Option<Sender<Arc<Frame>>>,
    shared: Arc<Durable>,
    thread: Option<JoinHandle<Result<u64>>>,
}

struct Durable {
    bytes: AtomicU64,
    wake: OwnedFd,
}

/// What `Durable::bytes` holds once the thread failed: no log gets that long.
const FAILED: u64 = u64::MAX;

impl Disk {
    pub(crate) fn start(log: LogFile) -> Result<Disk> {
        let wake = rustix::event::eventfd(0, EventfdFlags::NONBLOCK).doing("make an eventfd")?;
        let shared = Arc::new(Durable { bytes: AtomicU64::new(0), wake });
        let (frames, queue) = channel();
        let theirs = shared.clone();
        let thread = std::thread::Builder::new()
            .name("floor-disk".into())
            .spawn(move || {
                let done = write_all(log, &queue, &theirs);
                if done.is_err() {
                    theirs.bytes.store(FAILED, Ordering::Release);
                    // nothing waits for this if it fails: the leader also looks at `bytes` whenever it wakes
                    let _ = rustix::io::write(&theirs.wake, &1u64.to_ne_bytes());
                }
                done
            })
            .doing("start the disk thread")?;
        Ok(Disk { frames: Some(frames), shared, thread: Some(thread) })
    }

    /// Hands a sealed frame over.
    pub(crate) fn write(&self, frame: Arc<Frame>) {
        if let Some(frames) = &self.frames {
            // a thread that ended has set FAILED, which `durable` reports
            let _ = frames.send(frame);
        }
    }

    /// Readable when `durable` may have grown.
    pub(crate) fn wake(&self) -> &OwnedFd {
        &self.shared.wake
    }

    /// Takes the wake-up off the eventfd.
    pub(crate) fn woken(&self) {
        let mut count = [0u8; 8];
        // empty is fine: then there was no wake-up to take
        let _ = rustix::io::read(&self.shared.wake, &mut count);
    }

    /// Bytes of the log that are durable.
    pub(crate) fn durable(&mut self) -> Result<u64> {
        match self.shared.bytes.load(Ordering::Acquire) {
            FAILED => Err(self.finish().err().unwrap_or_else(|| Error::Child {
                role: "leader's disk thread".into(),
                what: "failed without a reason".into(),
            })),
            bytes => Ok(bytes),
        }
    }

    /// Ends the thread after everything that it was given, and says how often it wrote.
    pub(crate) fn finish(&mut self) -> Result<u64> {
        self.frames = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(done)) => done,
            Some(Err(_)) => {
                Err(Error::Child { role: "leader's disk thread".into(), what: "panicked".into() })
            }
            None => Ok(0),
        }
    }
}

fn write_all(mut log: LogFile, queue: &Receiver<Arc<Frame>>, durable: &Durable) -> Result<u64> {
    let mut end = 0u64;
    let mut batch: Vec<Arc<Frame>> = Vec::with_capacity(WRITE_FRAMES_MAX);
    while let Ok(first) = queue.recv() {
        let mut bytes = first.sealed().len();
        batch.push(first);
        while bytes < WRITE_BYTES_MAX && batch.len() < WRITE_FRAMES_MAX {
            let Ok(next) = queue.try_recv() else { break };
            bytes += next.sealed().len();
            batch.push(next);
        }
        {
            let mut slices: Vec<IoSlice<'_>> = batch.iter().map(|f| IoSlice::new(f.sealed())).collect();
            log.append(&mut slices)?;
        }
        // let go of the frames before saying so: the leader fills them again
        batch.clear();
        end += bytes as u64;
        durable.bytes.store(end, Ordering::Release);
        rustix::io::write(&durable.wake, &1u64.to_ne_bytes()).doing("wake the leader")?;
    }
    Ok(log.writes)
}

#[cfg(test)]
mod tests;
