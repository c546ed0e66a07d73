//! Room that is kept for one more checkpoint.
//!
//! What deletes free on a full disk is free only once a checkpoint is written without it, and the log before that checkpoint is gone. So there
//! must be room for a checkpoint when there is room for nothing else: a file that holds nothing, as long as the longest checkpoint here and
//! a little more. It is given up when a checkpoint finds no other room, and made again when there is some and the log has enough besides. Who
//! fills the disk later, the log or another program, does not get it. Tests: `ballast/tests.rs`, front/cli/tests/all/chaos.rs.

use crate::disk::{Quota, lock};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

#[cfg(test)]
mod tests;

/// No name of a checkpoint's file.
const NAME: &str = ".room";
/// Added to the room for a checkpoint, since states grow: this part of it, and so many bytes.
const PART: u64 = 8;
const MORE: u64 = 256 << 10;
/// The least room, also before the first checkpoint.
const LEAST: u64 = 4 << 20;
/// The log must find room for so many segments beside it: this room is there to make writes possible, not to prevent them.
const SEGMENTS: u64 = 2;

/// The file, and how long it is to be.
pub(crate) struct Ballast {
    path: PathBuf,
    /// Limits it on a disk that is full on purpose.
    quota: Option<Quota>,
    least: u64,
    /// So many bytes must be free beside it when it is made.
    beside: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How long the file is; 0: there is none.
    bytes: u64,
    /// Whether a checkpoint took its room that is not finished yet. The file stays without a byte meanwhile, so that a restart knows it.
    lent: bool,
    /// How long each checkpoint is that was published here.
    checkpoints: BTreeMap<String, u64>,
}

impl State {
    fn wanted(&self, least: u64) -> u64 {
        let longest = self.checkpoints.values().max().copied().unwrap_or(0);
        least.max(longest + longest / PART + MORE)
    }
}

impl Ballast {
    /// Takes over what is there from an earlier run: a file with holes keeps no room. A segment of the log has so many bytes.
    pub(crate) fn open(directory: &Path, segment_bytes: u64, quota: Option<Quota>) -> Self {
        let path = directory.join(NAME);
        let found = std::fs::metadata(&path).ok();
        let whole = found.as_ref().filter(|found| found.blocks() * 512 >= found.len());
        let bytes = whole.map_or(0, std::fs::Metadata::len);
        let state = State { bytes, lent: found.is_some() && bytes == 0, ..State::default() };
        let beside = SEGMENTS * segment_bytes;
        Self { path, quota, least: LEAST, beside, state: Mutex::new(state) }
    }

    /// These checkpoints are here at the start. The file is not cut by this: it may be for one that is being made.
    pub(crate) fn begins(&self, checkpoints: BTreeMap<String, u64>) {
        let mut state = lock(&self.state);
        state.checkpoints = checkpoints;
        let wanted = state.wanted(self.least).max(state.bytes);
        self.fit(&mut state, wanted);
    }

    /// A checkpoint of this length was published.
    pub(crate) fn published(&self, name: &str, bytes: u64) {
        let mut state = lock(&self.state);
        state.checkpoints.insert(name.to_owned(), bytes);
        if std::mem::take(&mut state.lent) {
            let _ = std::fs::remove_file(&self.path);
        }
        let wanted = state.wanted(self.least);
        self.fit(&mut state, wanted);
    }

    /// A file is gone.
    pub(crate) fn deleted(&self, name: &str) {
        lock(&self.state).checkpoints.remove(name);
        self.replenish();
    }

    /// Makes the file as long as it should be, if there is room for that.
    pub(crate) fn replenish(&self) {
        let mut state = lock(&self.state);
        let wanted = state.wanted(self.least);
        self.fit(&mut state, wanted);
    }

    fn fit(&self, state: &mut State, wanted: u64) {
        // A file that is a little too long does no harm. What a checkpoint leaves that did not fit here either is for the next one, which may
        // be smaller, and not for the log.
        if state.bytes < wanted && (state.lent || self.has_room(wanted - state.bytes)) {
            if self.grow(state.bytes, wanted, state.lent).is_ok() {
                (state.bytes, state.lent) = (wanted, false);
            }
        } else if state.bytes / 2 > wanted && self.resize(wanted).is_ok() {
            self.give(state.bytes - wanted);
            state.bytes = wanted;
        }
    }

    /// Gives the room up. Whether there was any.
    pub(crate) fn release(&self) -> bool {
        let mut state = lock(&self.state);
        let bytes = std::mem::take(&mut state.bytes);
        if bytes == 0 || self.resize(0).is_err() {
            return false;
        }
        state.lent = true;
        self.give(bytes);
        tracing::warn!(bytes, "the disk is full: a checkpoint takes the room that is kept for it");
        true
    }

    fn give(&self, bytes: u64) {
        if let Some(quota) = &self.quota {
            quota.give(bytes);
        }
    }

    /// Whether there are so many free bytes, and what the log needs besides.
    fn has_room(&self, bytes: u64) -> bool {
        let place = self.path.parent().map(rustix::fs::statvfs);
        let free =
            place.and_then(Result::ok).map_or(0, |found| found.f_bavail.saturating_mul(found.f_frsize));
        let free = free.min(self.quota.as_ref().and_then(Quota::left).unwrap_or(u64::MAX));
        free >= bytes.saturating_add(self.beside)
    }

    fn grow(&self, from: u64, to: u64, is_lent: bool) -> io::Result<()> {
        if let Some(quota) = &self.quota {
            quota.take(to - from)?;
        }
        let grown = self.file().and_then(|file| {
            let none = rustix::fs::FallocateFlags::empty();
            rustix::fs::fallocate(&file, none, from, to - from)?;
            Ok(())
        });
        if grown.is_err() {
            self.give(to - from);
            // Part of it may be there; and a file without a byte would say that a checkpoint took the room.
            let _ = if from == 0 && !is_lent { std::fs::remove_file(&self.path) } else { self.resize(from) };
        }
        grown
    }

    fn resize(&self, bytes: u64) -> io::Result<()> {
        self.file()?.set_len(bytes)
    }

    fn file(&self) -> io::Result<File> {
        OpenOptions::new().create(true).truncate(false).write(true).open(&self.path)
    }
}
