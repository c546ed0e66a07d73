//! Small files in a directory of the data directory, each written once and read at the start: evidence, and membership links.
//!
//! The clerk writes each under another name first, so that a file with the right name is whole. What can not be written now waits, and is
//! tried again every two seconds; the replica goes on. What can not be read, or is not what its name says, is left as it is.
//!
//! Tests: evidence/tests.rs, chain_files/tests.rs.

use bytes::Bytes;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// At most this many files wait to be written.
const WAITING_MAX: usize = 1024;
/// At most this many are read.
const READ_MAX: usize = 16 << 10;

/// A file that was read.
pub(crate) struct KeptFile {
    pub(crate) bytes: Bytes,
    /// When it was written, in nanoseconds since the Unix epoch.
    pub(crate) written_ns: u64,
}

/// Reads the files with this extension, each of at most so many bytes. `what` says for the log what they hold.
pub(crate) fn read<T>(
    directory: &Path,
    (extension, bytes_max): (&str, usize),
    what: &str,
    decode: impl Fn(KeptFile) -> Result<T, String>,
) -> Vec<T> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            tracing::warn!("{what} in {} can not be read: {error}", directory.display());
            return Vec::new();
        }
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let ours = paths.filter(|path| path.extension().is_some_and(|found| found == extension));
    let decoded = |path: PathBuf| match read_one(&path, bytes_max).and_then(&decode) {
        Ok(decoded) => Some(decoded),
        Err(why) => {
            tracing::warn!("{} is not listed as {what}: {why}", path.display());
            None
        }
    };
    ours.take(READ_MAX).filter_map(decoded).collect()
}

fn read_one(path: &Path, bytes_max: usize) -> Result<KeptFile, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let written = file.metadata().and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let mut bytes = Vec::new();
    file.take(bytes_max as u64 + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let at = written.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Ok(KeptFile { bytes: bytes.into(), written_ns: at.as_nanos().try_into().unwrap_or(u64::MAX) })
}

/// Writes files into one directory.
#[derive(Debug)]
pub(crate) struct KeptFiles {
    directory: PathBuf,
    /// What they hold, for the log.
    what: &'static str,
    waiting: VecDeque<(String, Bytes)>,
    /// Why the first one that waits was not written.
    failed: Option<String>,
}

impl KeptFiles {
    pub(crate) fn new(directory: PathBuf, what: &'static str) -> Self {
        Self { directory, what, waiting: VecDeque::new(), failed: None }
    }

    /// Writes a file, or keeps it for later.
    pub(crate) fn keep(&mut self, name: String, bytes: Bytes) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back((name, bytes));
        }
        self.write();
    }

    /// Writes what waits, as far as that goes.
    pub(crate) fn write(&mut self) {
        while let Some((name, bytes)) = self.waiting.front() {
            let (path, written) = (self.directory.join(name), self.write_one(name, bytes));
            match written {
                Ok(()) => tracing::info!("{} is kept in {}", self.what, path.display()),
                Err(error) => {
                    let why = format!("{}: {error}", path.display());
                    if self.failed.as_ref() != Some(&why) {
                        tracing::error!(
                            "{} can not be written, and is tried again: {why}. Free space, or look after the disk",
                            self.what
                        );
                    }
                    self.failed = Some(why);
                    return;
                }
            }
            self.waiting.pop_front();
        }
        self.failed = None;
    }

    fn write_one(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.directory.join(name);
        fs::create_dir_all(&self.directory)?;
        if path.exists() {
            return Ok(());
        }
        let new = path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(&self.directory)?.sync_all()
    }

    /// How many files wait, and why, if one could not be written.
    pub(crate) fn unwritten(&self) -> Option<(usize, &str)> {
        Some((self.waiting.len(), self.failed.as_deref()?))
    }
}
