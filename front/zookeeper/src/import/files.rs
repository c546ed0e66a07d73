//! Which files of a ZooKeeper's directories are snapshots, and which are logs.

use super::ImportError;
use std::path::{Path, PathBuf};

/// Files, each with the transaction in its name, in that order.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The last transaction that a snapshot surely has.
    pub(super) snapshots: Vec<(i64, PathBuf)>,
    /// The first transaction in a log.
    pub(super) logs: Vec<(i64, PathBuf)>,
}

/// Where ZooKeeper has its files in a directory.
const VERSION: &str = "version-2";

pub(super) fn find(directories: &[PathBuf]) -> Result<Found, ImportError> {
    let mut found = Found::default();
    for directory in directories {
        let below = directory.join(VERSION);
        let place = if below.is_dir() { below } else { directory.clone() };
        let failed = |why| ImportError::Read(place.clone(), why);
        for entry in std::fs::read_dir(&place).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if let Some(zxid) = zxid_in(&path, "snapshot.") {
                found.snapshots.push((zxid, path));
            } else if let Some(zxid) = zxid_in(&path, "log.") {
                found.logs.push((zxid, path));
            }
        }
    }
    found.snapshots.sort();
    found.logs.sort();
    // The same directory may be named twice.
    found.snapshots.dedup();
    found.logs.dedup();
    Ok(found)
}

/// Compressed files have another ending, and are not found: a snapshot that is not compressed is always possible.
fn zxid_in(path: &Path, prefix: &str) -> Option<i64> {
    let digits = path.file_name()?.to_str()?.strip_prefix(prefix)?;
    i64::from_str_radix(digits, 16).ok()
}
