//! Takes over the tree and the sessions of a ZooKeeper: its newest snapshot, and the log behind it.
//!
//! `files` chooses the files, `snapshot` and `log` read them, `kept` is the tree while the log is replayed, and `state` writes it as ours. A
//! snapshot of a ZooKeeper is fuzzy: it may have parts of what the log behind it says. So the log is replayed in a way that does nothing
//! twice, as ZooKeeper itself does. Source: `FileSnap`, `FileTxnLog`, `DataTree.processTxn` and `SerializeUtils` of Apache ZooKeeper 3.9.4.
//! Tests: tests/all/import.rs, also with the files of a real server.

mod files;
mod kept;
mod log;
mod snapshot;
mod state;

use crate::jute::Malformed;
use kept::Kept;
use std::path::{Path, PathBuf};

/// What a ZooKeeper had.
#[derive(Debug)]
pub struct Imported {
    kept: Kept,
    /// The snapshot that was used.
    pub snapshot: PathBuf,
    /// Files that could not be used as a whole, each with the reason.
    pub notes: Vec<String>,
}

/// Why nothing can be taken over.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A directory or file can not be read.
    #[error("can not read {0}: {1}")]
    Read(PathBuf, std::io::Error),
    /// There is no snapshot that can be used.
    #[error(
        "there is no whole snapshot in {0}{1}: name the directory that zoo.cfg calls dataDir, or its version-2"
    )]
    NoSnapshot(String, String),
    /// There is a checkpoint of the server, but nothing of its log.
    #[error(
        "there is no log beside {0}, so what came behind it is not known: name the directory that zoo.cfg calls dataLogDir, too, or take the files of another server"
    )]
    NoLog(PathBuf),
    /// A part of the log is not there.
    #[error(
        "the log has a gap: behind transaction {0:#x} comes {1:#x}. Name the directory with the other log files (dataLogDir in zoo.cfg), too, or take the files of another server"
    )]
    Gap(i64, i64),
    /// A log file is damaged in the middle.
    #[error("{0} is damaged at byte {1}: take the files of another server")]
    Damaged(PathBuf, usize),
    /// Something is larger than the store can hold.
    #[error("{0}")]
    TooLarge(String),
    /// What was read does not fit together.
    #[error("the node {0} {1}: take the files of another server")]
    Unfit(String, &'static str),
}

/// Reads what is in these directories.
///
/// # Errors
/// When it can not be used, with what to do.
pub fn read(directories: &[PathBuf]) -> Result<Imported, ImportError> {
    let found = files::find(directories)?;
    let mut notes = Vec::new();
    let (mut kept, snapshot, passed) = newest(directories, &found.snapshots, &mut notes)?;
    let from = kept.zxid;
    if found.logs.is_empty() && from > 0 {
        return Err(ImportError::NoLog(snapshot));
    }
    // The last file that begins before what is missing has the first part of it.
    let before = found.logs.iter().rposition(|(begin, _)| *begin <= from.saturating_add(1)).unwrap_or(0);
    let mut last = 0;
    for (_, path) in &found.logs[before..] {
        last = replay(path, &mut kept, &passed, &mut notes)?.max(last);
    }
    if last < from {
        notes.push(format!(
            "the log ends at {last:#x}, before {}: if zoo.cfg has a dataLogDir, name it, too",
            snapshot.display()
        ));
    }
    kept.finish()?;
    notes.extend(kept.notes());
    Ok(Imported { kept, snapshot, notes })
}

/// The newest snapshot that is whole, where it is, and the transactions of newer ones.
fn newest(
    directories: &[PathBuf],
    snapshots: &[(i64, PathBuf)],
    notes: &mut Vec<String>,
) -> Result<(Kept, PathBuf, Vec<i64>), ImportError> {
    let mut passed = Vec::new();
    for (zxid, path) in snapshots.iter().rev() {
        let bytes = bytes_of(path)?;
        match snapshot::read(&bytes) {
            Ok(kept) => return Ok((Kept { zxid: *zxid, ..kept }, path.clone(), passed)),
            Err(Malformed) => notes.push(format!("{} is not whole, so an older one is used", path.display())),
        }
        passed.push(*zxid);
    }
    let places: Vec<String> = directories.iter().map(|place| place.display().to_string()).collect();
    let tried: String = notes.iter().map(|note| format!(" ({note})")).collect();
    Err(ImportError::NoSnapshot(places.join(" and "), tried))
}

/// Replays what is new in a log file. Returns its last transaction. `passed`: transactions of which it is known that they were there.
fn replay(path: &Path, kept: &mut Kept, passed: &[i64], notes: &mut Vec<String>) -> Result<i64, ImportError> {
    let bytes = bytes_of(path)?;
    let mut log = log::Log::of(&bytes).ok_or_else(|| ImportError::Damaged(path.to_owned(), 0))?;
    let mut read = 0;
    loop {
        let at = log.at();
        let entry = match log.next() {
            log::Next::Entry(entry) => entry,
            log::Next::End => return Ok(read),
            log::Next::Torn => {
                notes.push(format!("{} ends within a transaction", path.display()));
                return Ok(read);
            }
            log::Next::Damaged => return Err(ImportError::Damaged(path.to_owned(), at)),
        };
        read = entry.zxid;
        if entry.zxid <= kept.zxid {
            continue;
        }
        let (last, next) = (kept.zxid, entry.zxid);
        let lacks = passed.iter().any(|zxid| last < *zxid && *zxid < next);
        let begins_an_epoch = next >> 32 > last >> 32 && next & 0xffff_ffff == 1;
        if lacks || next != last + 1 && !begins_an_epoch {
            return Err(ImportError::Gap(last, next));
        }
        kept.apply(&entry).map_err(|Malformed| ImportError::Damaged(path.to_owned(), at))?;
        kept.zxid = next;
    }
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, ImportError> {
    std::fs::read(path).map_err(|why| ImportError::Read(path.to_owned(), why))
}

/// The check sum of files. Source: RFC 1950, section 9.
fn adler32(bytes: &[u8]) -> u32 {
    // So many additions fit into 32 bits.
    let (mut low, mut high) = (1_u32, 0_u32);
    for part in bytes.chunks(5552) {
        for byte in part {
            low += u32::from(*byte);
            high += low;
        }
        (low, high) = (low % 65_521, high % 65_521);
    }
    high << 16 | low
}
