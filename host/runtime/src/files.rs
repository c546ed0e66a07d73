//! The files of checkpoints: a directory on disk, and its counterpart in memory for replicas that keep nothing on disk.
//!
//! What is appended goes past the system's page cache where the file system can do that (`direct`); what is written otherwise is dropped
//! from the cache once it is synced: gigabytes of checkpoints would push out the log and everything else that is read again.
//! Appended bytes are in the file at the latest when it is synced or read. Errors name their file. A full disk keeps its kind of error, which
//! the keeper waits out. Tests: `files/tests.rs`.

mod direct;
mod memory;
#[cfg(test)]
mod tests;

pub use memory::MemoryFiles;

use crate::disk::write_pieces;
use bytes::Bytes;
use direct::Direct;
use quorate_state::checkpoint::Files;
use rustix::fs::{Advice, fadvise};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// So many files are kept open: the one that is written, and those of a chain that others read.
const OPEN_MAX: usize = 12;
/// What most file systems take.
const NAME_BYTES_MAX: usize = 255;

/// What the system said about a file; the kind is that of the outer error.
#[derive(Debug, thiserror::Error)]
#[error("{doing} {path}: {why}")]
pub struct FileError {
    /// What was tried.
    pub doing: &'static str,
    /// Which file.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub why: io::Error,
}

/// A name of a file of this directory and of nothing else.
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
    /// While it is only appended to.
    direct: Option<Direct>,
}

impl Open {
    fn append(&mut self, parts: &[Bytes]) -> io::Result<()> {
        let Some(direct) = &mut self.direct else {
            self.len = write_pieces(&self.file, self.len, parts)?;
            return Ok(());
        };
        for (at, part) in parts.iter().enumerate() {
            let direct = direct.append(&self.file, part)?;
            self.len += part.len() as u64;
            if !direct {
                self.direct = None;
                self.len = write_pieces(&self.file, self.len, &parts[at + 1..])?;
                return Ok(());
            }
        }
        Ok(())
    }

    /// The file has all of it now, and is read and written as any other one.
    fn plain(&mut self) -> io::Result<()> {
        self.direct.take().map_or(Ok(()), |mut direct| direct.flush(&self.file))
    }
}

impl Drop for Open {
    /// Nobody relies on what was not synced, but it is written, as by any other file.
    fn drop(&mut self) {
        let _ = self.plain();
    }
}

/// The files in one directory. For one thread: the keeper's.
pub struct CheckpointFiles {
    directory: PathBuf,
    /// The one used last is last.
    open: Vec<Open>,
}

impl CheckpointFiles {
    /// The files in `directory`, which is made where there is none, durably.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn new(directory: &Path) -> io::Result<Self> {
        let files = Self { directory: directory.to_owned(), open: Vec::new() };
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

    /// Where they are.
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
        self.open.retain(|open| open.name != name);
    }

    /// Keeps it open, and closes the one that was not used for the longest time if there are too many.
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

    /// Does this with a file. After an error its length is asked for anew.
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
        self.opened(name).map(|open| open.len)
    }

    fn read(&mut self, name: &str, offset: u64, len: usize) -> io::Result<Bytes> {
        self.with("reading", name, |open| {
            open.plain()?;
            // Before memory is taken for it: an offset may come from a damaged file.
            if offset.checked_add(len as u64).is_none_or(|end| end > open.len) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut bytes = vec![0; len];
            open.file.read_exact_at(&mut bytes, offset)?;
            Ok(Bytes::from(bytes))
        })
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
        self.with("writing", name, |open| open.append(parts))
    }

    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.with("writing", name, |open| {
            if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > open.len) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            open.plain()?;
            open.file.write_all_at(bytes, offset)
        })
    }

    fn truncate(&mut self, name: &str, len: u64) -> io::Result<()> {
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
        self.with("syncing", name, |open| {
            if let Some(direct) = &mut open.direct {
                direct.flush(&open.file)?;
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
        let renamed = std::fs::rename(old, new);
        renamed.map_err(|why| self.error("publishing", from, why))?;
        if let Some(open) = self.open.iter_mut().find(|open| open.name == from) {
            to.clone_into(&mut open.name);
        }
        directory.sync_all().map_err(|why| self.error("syncing the directory of", to, why))
    }

    fn delete(&mut self, name: &str) -> io::Result<()> {
        let path = self.path(name)?;
        self.forget(name);
        std::fs::remove_file(path).map_err(|why| self.error("removing", name, why))
    }
}
