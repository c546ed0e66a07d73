//! The log's segments on a disk, as a trait that tests replace to inject failures.

use bytes::Bytes;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Write as _};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

mod delayed;
mod quota;
#[cfg(test)]
mod tests;

pub use delayed::DelayedDisk;
pub use quota::Quota;

/// Segments of the log. Called from two threads: one writes and syncs, the other prepares and reads.
pub trait Disk: Send + Sync {
    /// The segments that exist, in order.
    ///
    /// # Errors
    /// The error of the operating system.
    fn segments(&self) -> io::Result<Vec<u64>>;
    /// A whole segment.
    ///
    /// # Errors
    /// The error of the operating system.
    fn read_segment(&self, segment: u64) -> io::Result<Bytes>;
    /// `len` bytes at `offset` of a segment.
    ///
    /// # Errors
    /// The error of the operating system.
    fn read(&self, segment: u64, offset: u64, len: u32) -> io::Result<Bytes>;
    /// Writes the pieces one after the other from `offset` on. They are durable only after [`Self::sync`].
    ///
    /// # Errors
    /// The error of the operating system.
    fn write(&self, segment: u64, offset: u64, pieces: &[Bytes]) -> io::Result<()>;
    /// Makes durable everything that was written to these segments.
    ///
    /// # Errors
    /// The error of the operating system. A second sync must not be tried, since the data may be gone.
    fn sync(&self, segments: &[u64]) -> io::Result<()>;
    /// Makes a segment of `bytes`, durably: of zeros, or of what a removed segment held.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`] when there is no space, or the system's error when too many files are open. Then nothing is left
    /// behind, and it may be tried again.
    fn prepare(&self, segment: u64, bytes: u64) -> io::Result<()>;
    /// Deletes a segment that is not needed any more, or keeps its file for another one. The deletion need not be durable.
    ///
    /// # Errors
    /// The error of the operating system. A missing segment is no error.
    fn remove(&self, segment: u64) -> io::Result<()>;
}

/// Segments as files in one directory, `00000000.segment` and so on. A segment that the log does not need any more becomes a later one: its
/// space is there, and the system has pages for it already, which is most of what writing to a new file costs. Where there is no such
/// segment, one is filled with zeros ahead of time, so that a sync of a block changes no metadata, which nearly halves its time. If
/// segments are used up fast the zeros would cost as much as the data, and syncs are large anyway; then only the space is reserved.
#[derive(Debug)]
pub struct FileDisk {
    directory: PathBuf,
    /// Files of removed segments, `00000000.spare` and so on; the last one was used last.
    spares: Mutex<Vec<PathBuf>>,
    /// With less free space than this nothing is kept that is not needed.
    free_bytes_min: u64,
    files: Mutex<BTreeMap<u64, Arc<File>>>,
    /// For each segment, the end of the last write, which the next sync covers.
    written: Mutex<BTreeMap<u64, u64>>,
    /// When the last segment was made.
    prepared: Mutex<Option<Instant>>,
    trace: Option<Mutex<File>>,
}

/// The extension of a removed segment's file.
const SPARE: &str = "spare";
/// If segments are needed more often than this they are not filled with zeros.
const FILL_INTERVAL: Duration = Duration::from_secs(10);
/// How many segments are kept open.
const OPEN_MAX: usize = 16;
/// How many files of removed segments are kept: two checkpoints' worth, by default.
const SPARES_MAX: usize = 16;
/// Free space that checkpoints may need.
const FREE_BYTES_MIN: u64 = 4 << 30;

impl FileDisk {
    /// The segments in `directory`, which exists. With `trace`, each completed sync appends one JSON line to that file: the segment, and
    /// the end of the last write that the sync covered.
    ///
    /// # Errors
    /// When the trace can not be opened, or what an earlier process left behind can not be deleted.
    pub fn new(directory: &Path, trace: Option<&Path>) -> io::Result<Self> {
        let trace = trace.map(|path| OpenOptions::new().create(true).append(true).open(path)).transpose()?;
        delete_spares(directory)?;
        Ok(Self {
            directory: directory.to_owned(),
            spares: Mutex::new(Vec::new()),
            free_bytes_min: FREE_BYTES_MIN,
            files: Mutex::new(BTreeMap::new()),
            written: Mutex::new(BTreeMap::new()),
            prepared: Mutex::new(None),
            trace: trace.map(Mutex::new),
        })
    }

    fn path(&self, segment: u64) -> PathBuf {
        self.directory.join(format!("{segment:08}.segment"))
    }

    fn file(&self, segment: u64) -> io::Result<Arc<File>> {
        if let Some(file) = lock(&self.files).get(&segment) {
            return Ok(file.clone());
        }
        let file = Arc::new(OpenOptions::new().read(true).write(true).open(self.path(segment))?);
        self.keep(segment, file.clone());
        Ok(file)
    }

    /// Keeps a file open, and closes the oldest others if there are too many.
    fn keep(&self, segment: u64, file: Arc<File>) {
        let mut files = lock(&self.files);
        files.insert(segment, file);
        while files.len() > OPEN_MAX {
            let oldest = files.keys().copied().find(|other| *other != segment);
            oldest.and_then(|oldest| files.remove(&oldest));
        }
    }

    /// Takes the file of a removed segment of this length, if there is one.
    fn reuse(&self, unfinished: &Path, bytes: u64) -> Option<File> {
        let spare = lock(&self.spares).pop()?;
        let opened = OpenOptions::new().read(true).write(true).open(&spare);
        let fits = opened.ok().filter(|file| file.metadata().is_ok_and(|about| about.len() == bytes));
        let taken = fits.filter(|_| std::fs::rename(&spare, unfinished).is_ok());
        if taken.is_none() {
            // Whatever is wrong with it: another file does as well.
            let _ = std::fs::remove_file(&spare);
        }
        taken
    }

    /// Keeps the file of a removed segment, if there is room for it. Whether it did.
    fn spare(&self, segment: u64) -> io::Result<bool> {
        if !self.has_space() {
            self.forget_spares();
            return Ok(false);
        }
        let mut spares = lock(&self.spares);
        if spares.len() >= SPARES_MAX {
            return Ok(false);
        }
        let spare = self.path(segment).with_extension(SPARE);
        std::fs::rename(self.path(segment), &spare)?;
        spares.push(spare);
        Ok(true)
    }

    /// Whether the disk has space for files that are not needed.
    fn has_space(&self) -> bool {
        let space = rustix::fs::statvfs(&self.directory);
        space.is_ok_and(|space| space.f_bavail.saturating_mul(space.f_frsize) >= self.free_bytes_min)
    }

    /// Deletes the files of removed segments.
    fn forget_spares(&self) {
        for spare in lock(&self.spares).drain(..) {
            // What stays is deleted after the next start.
            let _ = std::fs::remove_file(spare);
        }
    }

    /// Makes an empty file.
    fn empty(path: &Path) -> io::Result<File> {
        OpenOptions::new().create(true).truncate(true).read(true).write(true).open(path)
    }

    /// Reserves the space of a segment; it reads as zeros.
    fn reserve(path: &Path, bytes: u64) -> io::Result<File> {
        let file = Self::empty(path)?;
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)?;
        file.sync_all()?;
        Ok(file)
    }

    fn fill(path: &Path, bytes: u64) -> io::Result<File> {
        const PIECE: usize = 1 << 20;
        let zeros = vec![0; PIECE];
        let mut file = Self::empty(path)?;
        let mut left = bytes;
        while left > 0 {
            let piece = left.min(PIECE as u64);
            file.write_all(&zeros[..piece as usize])?;
            left -= piece;
        }
        file.sync_all()?;
        Ok(file)
    }

    fn trace(&self, segments: &[u64]) -> io::Result<()> {
        let Some(trace) = &self.trace else { return Ok(()) };
        let written = lock(&self.written);
        let mut trace = lock(trace);
        for segment in segments {
            let end = written.get(segment).copied().unwrap_or(0);
            // In one call: a process that is killed leaves whole lines.
            let line = format!("{{\"segment\":{segment},\"end\":{end}}}\n");
            trace.write_all(line.as_bytes())?;
        }
        Ok(())
    }
}

/// Deletes the files of removed segments that an earlier process left behind. Who starts makes the directory first; without one there is
/// nothing to delete.
fn delete_spares(directory: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|what| what == SPARE) {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Writes the pieces one after the other from `offset` on. Gives the end of the last one.
pub(crate) fn write_pieces(file: &File, offset: u64, pieces: &[Bytes]) -> io::Result<u64> {
    /// The most pieces in one system call, far below the system's limit.
    const PIECES_MAX: usize = 256;
    let mut at = offset;
    for some in pieces.chunks(PIECES_MAX) {
        let mut slices: Vec<IoSlice<'_>> = some.iter().map(|piece| IoSlice::new(piece)).collect();
        let mut slices = &mut slices[..];
        // Empty ones would be taken for a disk that writes nothing.
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            let written = match rustix::io::pwritev(file, slices, at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => written,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            at += written as u64;
            IoSlice::advance_slices(&mut slices, written);
        }
    }
    Ok(at)
}

/// Locks a mutex even after a panic in another thread, which leaves nothing half done under these locks.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disk for FileDisk {
    fn segments(&self) -> io::Result<Vec<u64>> {
        let mut segments = Vec::new();
        for entry in std::fs::read_dir(&self.directory)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(".segment")?.parse::<u64>().ok());
            segments.extend(number);
        }
        segments.sort_unstable();
        Ok(segments)
    }

    fn read_segment(&self, segment: u64) -> io::Result<Bytes> {
        const PIECE: usize = 64 << 10;
        let file = self.file(segment)?;
        let len = usize::try_from(file.metadata()?.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        // Most of a segment may never have been written. Where the file holds zeros this memory is left alone, so that the
        // system need not provide it.
        let mut bytes = vec![0; len];
        let mut piece = [0; PIECE];
        for (at, place) in bytes.chunks_mut(PIECE).enumerate() {
            let piece = &mut piece[..place.len()];
            file.read_exact_at(piece, (at * PIECE) as u64)?;
            if piece.iter().any(|byte| *byte != 0) {
                place.copy_from_slice(piece);
            }
        }
        Ok(Bytes::from(bytes))
    }

    fn read(&self, segment: u64, offset: u64, len: u32) -> io::Result<Bytes> {
        let mut bytes = vec![0; len as usize];
        self.file(segment)?.read_exact_at(&mut bytes, offset)?;
        Ok(Bytes::from(bytes))
    }

    fn write(&self, segment: u64, offset: u64, pieces: &[Bytes]) -> io::Result<()> {
        let file = self.file(segment)?;
        let at = write_pieces(&file, offset, pieces)?;
        lock(&self.written).insert(segment, at);
        Ok(())
    }

    fn sync(&self, segments: &[u64]) -> io::Result<()> {
        for segment in segments {
            self.file(*segment)?.sync_data()?;
        }
        self.trace(segments)
    }

    fn prepare(&self, segment: u64, bytes: u64) -> io::Result<()> {
        let path = self.path(segment);
        let unfinished = path.with_extension("unfinished");
        // First, so that too many open files leave nothing behind.
        let directory = File::open(&self.directory)?;
        let before = lock(&self.prepared).replace(Instant::now());
        let made = if let Some(file) = self.reuse(&unfinished, bytes) {
            Ok(file)
        } else if before.is_some_and(|before| before.elapsed() < FILL_INTERVAL) {
            // Not every file system can reserve.
            Self::reserve(&unfinished, bytes).or_else(|error| match error.kind() {
                io::ErrorKind::Unsupported => Self::fill(&unfinished, bytes),
                _ => Err(error),
            })
        } else {
            Self::fill(&unfinished, bytes)
        };
        let made = made.and_then(|file| std::fs::rename(&unfinished, &path).map(|()| file));
        let file = match made {
            Ok(file) => file,
            Err(error) => {
                // The room that it took is needed, most of all when there is none.
                let _ = std::fs::remove_file(&unfinished);
                return Err(error);
            }
        };
        directory.sync_all()?;
        if !self.has_space() {
            self.forget_spares();
        }
        // The writer finds it open, however many files the process has by then.
        self.keep(segment, Arc::new(file));
        Ok(())
    }

    fn remove(&self, segment: u64) -> io::Result<()> {
        lock(&self.files).remove(&segment);
        lock(&self.written).remove(&segment);
        let removed = match self.spare(segment) {
            Ok(false) => std::fs::remove_file(self.path(segment)),
            kept => kept.map(drop),
        };
        match removed {
            // Before the next one goes: a log without its middle would be a damaged one.
            Ok(()) => File::open(&self.directory)?.sync_all(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}
