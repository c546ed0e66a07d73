//! The files of checkpoints: in a directory on disk, or in memory for replicas that keep nothing on disk.
//!
//! Appended bytes bypass the system's page cache if the file system allows that (`direct`). Other written bytes are dropped from the cache
//! once they are synced: gigabytes of checkpoints would displace the log and other data that is read again. Bytes that are read one after
//! the other bypass the cache, too (`ahead`). Appended bytes are in the file at the latest when it is synced or read. Errors name their
//! file. The error of a full disk keeps its kind, and the keeper waits until there is space. Tests: `files/tests.rs`.

mod ahead;
mod ballast;
mod direct;
mod memory;
#[cfg(test)]
mod tests;

pub(crate) use ballast::Ballast;
pub use memory::MemoryFiles;

use crate::disk::write_pieces;
use crate::disk_thread::is_full;
use ahead::Ahead;
use bytes::Bytes;
use direct::Direct;
use quorate_state::checkpoint::{Files, is_checkpoint};
use rustix::fs::{Advice, fadvise};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many files are kept open: the one being written, and those of a chain that is being read.
const OPEN_MAX: usize = 12;
/// The longest name that most file systems allow.
const NAME_BYTES_MAX: usize = 255;

/// An error of the system about a file; it has the kind of the inner error.
#[derive(Debug, thiserror::Error)]
#[error("{doing} {path}: {why}")]
pub struct FileError {
    /// What was being done.
    pub doing: &'static str,
    /// The file.
    pub path: PathBuf,
    /// The error of the system.
    #[source]
    pub why: io::Error,
}

/// Refuses names that are not simple names of files in this directory.
fn check(name: &str) -> io::Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    if !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.starts_with('.') && name.chars().all(plain) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is no name of a checkpoint's file")))
}

struct Open {
    name: String,
    file: File,
    len: u64,
    /// Set while the file is only appended to.
    direct: Option<Direct>,
}

impl Open {
    /// `room` makes room on a full disk, if it can.
    fn append(&mut self, parts: &[Bytes], room: &dyn Fn() -> bool) -> io::Result<()> {
        let plain = |open: &Self, parts| with_room(room, || write_pieces(&open.file, open.len, parts));
        let Some(direct) = &mut self.direct else {
            self.len = plain(self, parts)?;
            return Ok(());
        };
        for (at, part) in parts.iter().enumerate() {
            let direct = direct.append(&self.file, part, room)?;
            self.len += part.len() as u64;
            if !direct {
                self.direct = None;
                self.len = plain(self, &parts[at + 1..])?;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Completes the file; from now on it is read and written like any other.
    fn plain(&mut self) -> io::Result<()> {
        self.direct.take().map_or(Ok(()), |mut direct| direct.flush(&self.file))
    }
}

/// Does work that changes nothing when it is repeated. On a full disk it is done again after `room` made room.
fn with_room<T>(room: &dyn Fn() -> bool, work: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match work() {
        Err(error) if is_full(&error) && room() => work(),
        done => done,
    }
}

impl Drop for Open {
    /// Writes the rest, as for any other file, though unsynced bytes are not relied on.
    fn drop(&mut self) {
        let _ = self.plain();
    }
}

/// The files in one directory. For the keeper's thread only.
pub struct CheckpointFiles {
    directory: PathBuf,
    /// In the order of use; the last one was used last.
    open: Vec<Open>,
    ahead: Ahead,
    /// Room for a checkpoint on a full disk, if it is kept.
    ballast: Option<Arc<Ballast>>,
}

impl CheckpointFiles {
    /// The files in `directory`, which is made durably if it does not exist.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn new(directory: &Path) -> io::Result<Self> {
        let (own, ahead) = (directory.to_owned(), Ahead::default());
        let files = Self { directory: own, open: Vec::new(), ahead, ballast: None };
        match std::fs::create_dir(directory) {
            Ok(()) => {
                let above = directory.parent().filter(|above| !above.as_os_str().is_empty());
                File::open(above.unwrap_or(Path::new(".")))
                    .and_then(|above| above.sync_all())
                    .map_err(|why| files.error("making", ".", why))?;
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => {}
            Err(why) => return Err(files.error("making", ".", why)),
        }
        Ok(files)
    }

    /// The same, with room that is kept for one more checkpoint.
    ///
    /// # Errors
    /// The error of the operating system.
    pub(crate) fn ballasted(mut self, ballast: Arc<Ballast>) -> io::Result<Self> {
        let mut checkpoints = BTreeMap::new();
        for name in self.list()?.into_iter().filter(|name| is_checkpoint(name)) {
            let bytes = std::fs::metadata(self.directory.join(&name)).map_or(0, |found| found.len());
            checkpoints.insert(name, bytes);
        }
        ballast.begins(checkpoints);
        self.ballast = Some(ballast);
        Ok(self)
    }

    /// Makes room on a full disk, if some is kept.
    fn makes_room(&self) -> impl Fn() -> bool + use<> {
        let ballast = self.ballast.clone();
        move || ballast.as_ref().is_some_and(|ballast| ballast.release())
    }

    /// Their directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn error(&self, doing: &'static str, name: &str, why: io::Error) -> io::Error {
        let path = if name == "." { self.directory.clone() } else { self.directory.join(name) };
        io::Error::new(why.kind(), FileError { doing, path, why })
    }

    fn path(&self, name: &str) -> io::Result<PathBuf> {
        check(name).map(|()| self.directory.join(name))
    }

    fn forget(&mut self, name: &str) {
        self.ahead.changed(name);
        self.open.retain(|open| open.name != name);
    }

    /// Keeps a file open, and closes the one that was unused for the longest time if there are too many.
    fn keep(&mut self, open: Open) -> io::Result<&mut Open> {
        if self.open.len() >= OPEN_MAX {
            let mut oldest = self.open.remove(0);
            oldest.plain().map_err(|why| self.error("writing", &oldest.name, why))?;
        }
        self.open.push(open);
        let last = self.open.len() - 1;
        Ok(&mut self.open[last])
    }

    fn opened(&mut self, name: &str) -> io::Result<&mut Open> {
        if let Some(at) = self.open.iter().position(|open| open.name == name) {
            let open = self.open.remove(at);
            return self.keep(open);
        }
        let path = self.path(name)?;
        let opened = OpenOptions::new().read(true).write(true).open(path);
        let opened = opened.and_then(|file| Ok((file.metadata()?.len(), file)));
        let (len, file) = opened.map_err(|why| self.error("opening", name, why))?;
        self.keep(Open { name: name.to_owned(), file, len, direct: None })
    }

    /// Calls `work` with a file. After an error the file's length is read again.
    fn with<T>(
        &mut self,
        doing: &'static str,
        name: &str,
        work: impl FnOnce(&mut Open) -> io::Result<T>,
    ) -> io::Result<T> {
        let done = work(self.opened(name)?);
        done.map_err(|why| {
            self.forget(name);
            self.error(doing, name, why)
        })
    }
}

impl Files for CheckpointFiles {
    fn list(&mut self) -> io::Result<Vec<String>> {
        let list = || {
            let mut names = Vec::new();
            for entry in std::fs::read_dir(&self.directory)? {
                let entry = entry?;
                // Nobody's name of a checkpoint's file: left alone.
                let name = entry.file_name().into_string().ok().filter(|name| check(name).is_ok());
                if entry.file_type()?.is_file() {
                    names.extend(name);
                }
            }
            Ok(names)
        };
        list().map_err(|why| self.error("listing", ".", why))
    }

    fn len(&mut self, name: &str) -> io::Result<u64> {
        self.with("reading", name, |open| {
            // Somebody else may have cut it since it was opened. What is appended past the page cache is not all in the file yet.
            if open.direct.is_none() {
                open.len = open.file.metadata()?.len();
            }
            Ok(open.len)
        })
    }

    fn read(&mut self, name: &str, offset: u64, len: usize) -> io::Result<Bytes> {
        let (path, mut ahead) = (self.path(name)?, std::mem::take(&mut self.ahead));
        let read = self.with("reading", name, |open| {
            open.plain()?;
            // Before memory is taken for it: an offset may come from a damaged file.
            if offset.checked_add(len as u64).is_none_or(|end| end > open.len) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut bytes = vec![0; len];
            if !ahead.read((&path, name), &mut bytes, offset)? {
                open.file.read_exact_at(&mut bytes, offset)?;
            }
            Ok(Bytes::from(bytes))
        });
        self.ahead = ahead;
        read
    }

    fn create(&mut self, name: &str) -> io::Result<()> {
        let path = self.path(name)?;
        self.forget(name);
        let made = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(&path);
        let file = made.map_err(|why| self.error("making", name, why))?;
        self.keep(Open { name: name.to_owned(), file, len: 0, direct: Direct::open(&path) })?;
        Ok(())
    }

    fn append(&mut self, name: &str, parts: &[Bytes]) -> io::Result<()> {
        self.ahead.changed(name);
        let room = self.makes_room();
        self.with("writing", name, |open| open.append(parts, &room))
    }

    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.ahead.changed(name);
        self.with("writing", name, |open| {
            if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > open.len) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            open.plain()?;
            open.file.write_all_at(bytes, offset)
        })
    }

    fn truncate(&mut self, name: &str, len: u64) -> io::Result<()> {
        self.ahead.changed(name);
        self.with("cutting", name, |open| {
            if len < open.len {
                open.plain()?;
                open.file.set_len(len)?;
                open.len = len;
            }
            Ok(())
        })
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        let room = self.makes_room();
        self.with("syncing", name, |open| {
            if let Some(direct) = &mut open.direct {
                match direct.flush(&open.file) {
                    Err(error) if is_full(&error) && room() => direct.flush(&open.file),
                    flushed => flushed,
                }?;
            }
            open.file.sync_data()?;
            // A hint; a file system that does not know it does without.
            let _ = fadvise(&open.file, 0, None, Advice::DontNeed);
            Ok(())
        })
    }

    fn publish(&mut self, from: &str, to: &str) -> io::Result<()> {
        let (old, new) = (self.path(from)?, self.path(to)?);
        // First, so that too many open files leave nothing half done.
        let directory =
            File::open(&self.directory).map_err(|why| self.error("opening the directory of", to, why))?;
        self.forget(to);
        self.ahead.changed(from);
        let renamed = std::fs::rename(old, new);
        renamed.map_err(|why| self.error("publishing", from, why))?;
        if let Some(open) = self.open.iter_mut().find(|open| open.name == from) {
            to.clone_into(&mut open.name);
        }
        directory.sync_all().map_err(|why| self.error("syncing the directory of", to, why))?;
        let long = std::fs::metadata(self.directory.join(to)).map(|found| found.len());
        if let (Some(ballast), Ok(bytes)) = (&self.ballast, long) {
            ballast.published(to, bytes);
        }
        Ok(())
    }

    fn delete(&mut self, name: &str) -> io::Result<()> {
        let path = self.path(name)?;
        self.forget(name);
        std::fs::remove_file(path).map_err(|why| self.error("removing", name, why))?;
        if let Some(ballast) = &self.ballast {
            ballast.deleted(name);
        }
        Ok(())
    }
}
