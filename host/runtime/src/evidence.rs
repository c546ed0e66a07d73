//! Files of evidence: `evidence/*.proof` in the data directory (docs/formats/evidence.md).
//!
//! The clerk writes each once, under another name first, so that a file with the right name is whole. What can not be written now waits, and
//! is tried again every two seconds; the replica goes on. The files are read back before the replica starts. What can not be read, or is
//! no evidence, is left as it is: it may be somebody's only copy.
//!
//! Tests: evidence/tests.rs.

use bytes::Bytes;
use quorate_node::Found;
use quorate_order::mod_smart::evidence::Evidence;
use quorate_types::AgreedTime;
use quorate_wire::EVIDENCE_MAX;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The directory in the data directory.
pub(crate) const DIRECTORY: &str = "evidence";
const EXTENSION: &str = "proof";
/// At most this many files are read, and as many wait to be written.
const FILES_MAX: usize = 1024;

/// Reads the evidence in this data directory.
pub(crate) fn read(data: &Path) -> Vec<Found> {
    let directory = data.join(DIRECTORY);
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            tracing::warn!("the evidence in {} can not be read: {error}", directory.display());
            return Vec::new();
        }
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let proofs = paths.filter(|path| path.extension().is_some_and(|found| found == EXTENSION));
    let found = |path: PathBuf| match read_one(&path) {
        Ok(found) => Some(found),
        Err(why) => {
            tracing::warn!("{} is not listed as evidence: {why}", path.display());
            None
        }
    };
    proofs.take(FILES_MAX).filter_map(found).collect()
}

fn read_one(path: &Path) -> Result<Found, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let written = file.metadata().and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let mut bytes = Vec::new();
    file.take(EVIDENCE_MAX as u64 + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let evidence = Evidence::decode(bytes.into()).map_err(|why| why.to_string())?;
    let at = written.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Ok(Found { evidence, at: AgreedTime::from_nanos(at.as_nanos().try_into().unwrap_or(u64::MAX)) })
}

/// Writes evidence.
#[derive(Debug)]
pub(crate) struct EvidenceFiles {
    directory: PathBuf,
    waiting: VecDeque<(String, Bytes)>,
    /// Why the first one that waits was not written.
    failed: Option<String>,
}

impl EvidenceFiles {
    pub(crate) fn new(data: &Path) -> Self {
        Self { directory: data.join(DIRECTORY), waiting: VecDeque::new(), failed: None }
    }

    /// Writes a file, or keeps it for later.
    pub(crate) fn keep(&mut self, name: String, bytes: Bytes) {
        if self.waiting.len() < FILES_MAX {
            self.waiting.push_back((name, bytes));
        }
        self.write();
    }

    /// Writes what waits, as far as that goes.
    pub(crate) fn write(&mut self) {
        while let Some((name, bytes)) = self.waiting.front() {
            let (path, written) = (self.directory.join(name), self.write_one(name, bytes));
            match written {
                Ok(()) => tracing::info!("evidence is kept in {}", path.display()),
                Err(error) => {
                    let why = format!("{}: {error}", path.display());
                    if self.failed.as_ref() != Some(&why) {
                        tracing::error!(
                            "evidence can not be written, and is tried again: {why}. Free space, or look after the disk"
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

    /// The problem to report while something waits.
    pub(crate) fn problem(&self) -> Option<String> {
        let why = self.failed.as_ref()?;
        Some(format!(
            "evidence is not on disk ({} files, {why}): free space, or look after the disk. It is tried again, and until then `quorate \
             evidence fetch` gets it from this replica",
            self.waiting.len()
        ))
    }
}

#[cfg(test)]
mod tests;
