//! Changes bytes at rest in a replica's data directory, as a disk does that rots; for `quorate chaos corrupt-disk`.
//!
//! In a checkpoint the bytes belong to a part that its layout names, so that a scrub reads them; the log's bytes are in the middle of a segment
//! that is not written to any more. docs/formats/checkpoint.md and docs/formats/log.md. Tests: `rot/tests.rs`, tests/all/chaos.rs.

use crate::control::{Damage, What};
use quorate_command::cluster::dir_option;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// How many bytes change.
const BYTES: u64 = 16;
/// The last segments of a log: one that is written to, and one that is ready.
const SEGMENTS_IN_USE: usize = 2;

/// The footer of a checkpoint, and where it says what (docs/formats/checkpoint.md).
const FOOTER: u64 = 4096;
const FOOTER_MAGIC: &[u8] = b"QCKF";
const LAYOUT_OFFSET: u64 = 96;
const LAYOUT_LENGTH: u64 = 104;
/// The length and the checksum before the bytes of a part.
const RECORD_HEADER: u64 = 8;

/// Changes bytes of the replica's newest checkpoint, or of its log. `place` is the directory of replica `id`.
///
/// # Errors
/// When there is nothing that could rot, or the system refuses.
pub(super) fn rot(id: u16, place: &Path, what: What) -> Outcome<Damage> {
    let data = place.join("data");
    let (file, offset) = match what {
        What::Checkpoint => checkpoint(id, &data.join("checkpoints"))?,
        What::Log => log(id, &data.join("log"), &dir_option(place.parent().unwrap_or(place)))?,
    };
    change(&file, offset).doing(format_args!("change {}", file.display()))?;
    Ok(Damage { replica: id, file, offset, bytes: BYTES })
}

/// The newest checkpoint that holds a part, and where a part of it lies.
fn checkpoint(id: u16, directory: &Path) -> Outcome<(PathBuf, u64)> {
    let files = named(directory, &["full", "diff"]).doing(format_args!("read {}", directory.display()))?;
    for path in files.into_iter().rev() {
        let part = File::open(&path).and_then(|file| some_part(&file));
        if let Some(offset) = part.doing(format_args!("read {}", path.display()))? {
            return Ok((path, offset));
        }
    }
    Err(Failure::new(format!(
        "replica {id} has no checkpoint on its disk yet: make one with `quorate backup create --fresh FILE`, or write more"
    )))
}

/// Where the bytes of a part in the middle begin; `None` where there is none, or the file is none that this program knows.
fn some_part(file: &File) -> io::Result<Option<u64>> {
    let length = file.metadata()?.len();
    let Some(footer) = length.checked_sub(FOOTER) else { return Ok(None) };
    let mut magic = [0; 4];
    file.read_exact_at(&mut magic, footer)?;
    let (layout, end) = (number(file, footer + LAYOUT_OFFSET)?, number(file, footer + LAYOUT_LENGTH)?);
    let end = layout.saturating_add(end);
    if magic != FOOTER_MAGIC || end > length {
        return Ok(None);
    }
    let mut manifest = [0; 4];
    file.read_exact_at(&mut manifest, layout)?;
    let parts = layout + 4 + u64::from(u32::from_le_bytes(manifest));
    let mut records = Vec::new();
    for at in (parts..end).step_by(8) {
        let record = number(file, at)?;
        // 0: the part is in another file.
        if record != 0 && record < layout {
            records.push(record);
        }
    }
    // Behind the order's half, which comes first, lie what clients wrote.
    let Some(record) = records.get(records.len() / 2) else { return Ok(None) };
    Ok(Some(record + RECORD_HEADER))
}

fn number(file: &File, at: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, at)?;
    Ok(u64::from_le_bytes(bytes))
}

/// The newest segment that is full, and its middle. `dir`: what commands need to be about this cluster.
fn log(id: u16, directory: &Path, dir: &str) -> Outcome<(PathBuf, u64)> {
    let mut files = named(directory, &["segment"]).doing(format_args!("read {}", directory.display()))?;
    files.truncate(files.len().saturating_sub(SEGMENTS_IN_USE));
    let Some(file) = files.pop() else {
        return Err(Failure::new(format!(
            "no file of the log of replica {id} is full yet, and nobody reads those that are written to: write more, until \
             there are three or more in {}. With the services kv and etcd: `for i in $(seq 80); do head -c 1000000 /dev/zero | tr '\\0' x | \
             quorate kv put filler{dir}; done`",
            directory.display()
        )));
    };
    let length = fs::metadata(&file).doing(format_args!("read {}", file.display()))?.len();
    Ok((file, length / 2))
}

/// The files with one of these extensions, in the order of their names, which is that of their ages.
fn named(directory: &Path, extensions: &[&str]) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if extension.is_some_and(|extension| extensions.contains(&extension)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Changes some bytes from `offset` on, durably.
fn change(path: &Path, offset: u64) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut bytes = [0; BYTES as usize];
    let read = file.read_at(&mut bytes, offset)?;
    bytes.iter_mut().for_each(|byte| *byte = !*byte);
    file.write_all_at(&bytes[..read], offset)?;
    file.sync_all()
}

#[cfg(test)]
mod tests;
