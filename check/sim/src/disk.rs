//! A replica's disk: files of segments, what is synced of them, and what is only written.
//!
//! A write reaches the page cache; a sync makes it durable. When the process dies the page cache stays; when the machine
//! stops, each 512-byte sector that was not synced is as before or as written. Deletions reach the disk in their order.
//!
//! After a failed sync, some of what it should have made durable is only in the page cache, and counts there as clean: no later sync brings
//! it to the disk.

use crate::random::Rng;
use bytes::Bytes;
use quorate_log::{DiskFull, SECTOR};
use std::collections::BTreeMap;
use std::ops::Range;

/// How many files of deleted segments are kept for later ones.
const SPARES_MAX: usize = 2;

/// What is on one disk.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    synced: BTreeMap<u64, Vec<u8>>,
    /// What every sector held before its last change.
    before: BTreeMap<(u64, usize), Vec<u8>>,
    /// Sectors that can be read although they are not on the disk, and that no sync brings there.
    clean: BTreeMap<(u64, usize), Bytes>,
    pending: Vec<(u64, usize, Bytes)>,
    /// Segments that were deleted since the directory was synced last, in that order.
    removed: Vec<(u64, Vec<u8>)>,
    /// What segments held that were deleted since the process began. They may become later segments.
    spares: Vec<Vec<u8>>,
    /// There is no room for another segment.
    pub full: bool,
}

impl Disk {
    /// Whether nothing was ever created here.
    pub fn is_empty(&self) -> bool {
        self.synced.is_empty()
    }

    /// Makes a segment's file, durably. Every other one is what a deleted segment held, if there is one; the others hold zeros.
    ///
    /// # Errors
    /// When there is no room.
    pub fn prepare(&mut self, segment: u64, bytes: u64) -> Result<(), DiskFull> {
        if self.full {
            return Err(DiskFull);
        }
        let spares = &mut self.spares;
        self.synced.entry(segment).or_insert_with(|| {
            let spare = if segment.is_multiple_of(2) { None } else { spares.pop() };
            spare.filter(|spare| spare.len() as u64 == bytes).unwrap_or_else(|| vec![0; bytes as usize])
        });
        // The directory is synced with it.
        self.removed.clear();
        Ok(())
    }

    /// Deletes a segment's file. If the machine stops soon, it exists again, and so do all that were deleted later.
    pub fn remove(&mut self, segment: u64) {
        if self.spares.len() < SPARES_MAX && self.synced.contains_key(&segment) {
            self.spares.push(self.segment(segment).to_vec());
        }
        self.pending.retain(|(of, ..)| *of != segment);
        self.before.retain(|(of, _), _| *of != segment);
        self.clean.retain(|(of, _), _| *of != segment);
        if let Some(file) = self.synced.remove(&segment) {
            self.removed.push((segment, file));
        }
    }

    /// Writes into the page cache.
    pub fn write(&mut self, segment: u64, offset: u64, bytes: Bytes) {
        assert!(self.synced.contains_key(&segment), "INV-SIM-1 a write goes to a segment that was prepared");
        let start = offset as usize;
        self.clean.retain(|(of, at), _| *of != segment || !(start..start + bytes.len()).contains(at));
        self.pending.push((segment, start, bytes));
    }

    /// A write that was under way when the process died: some of its sectors reached the page cache.
    pub fn write_partly(&mut self, segment: u64, offset: u64, bytes: &Bytes, rng: &mut Rng) {
        let style = rng.below(3);
        let whole = rng.below(bytes.len() as u64 / SECTOR as u64 + 1);
        for (number, at) in (0..bytes.len()).step_by(SECTOR).enumerate() {
            let written = match style {
                0 => (number as u64) < whole,
                1 => rng.chance(500),
                _ => true,
            };
            if written {
                let part = bytes.slice(at..(at + SECTOR).min(bytes.len()));
                self.write(segment, offset + at as u64, part);
            }
        }
    }

    /// Makes what was written to these segments durable.
    pub fn sync(&mut self, segments: &[u64]) {
        let (synced, before) = (&mut self.synced, &mut self.before);
        self.pending.retain(|(segment, offset, bytes)| {
            let done = segments.contains(segment);
            if done {
                put(synced, before, *segment, *offset, bytes);
            }
            !done
        });
    }

    /// As [`Self::sync`], but it fails: some sectors are durable, and the others are taken to be durable.
    pub fn fail_sync(&mut self, segments: &[u64], rng: &mut Rng) {
        for (segment, offset, bytes) in std::mem::take(&mut self.pending) {
            if !segments.contains(&segment) {
                self.pending.push((segment, offset, bytes));
                continue;
            }
            for at in (0..bytes.len()).step_by(SECTOR) {
                let part = bytes.slice(at..(at + SECTOR).min(bytes.len()));
                if rng.chance(500) {
                    put(&mut self.synced, &mut self.before, segment, offset + at, &part);
                    self.clean.remove(&(segment, offset + at));
                } else {
                    self.clean.insert((segment, offset + at), part);
                }
            }
        }
    }

    /// These sectors become what they were before their last change.
    pub fn go_back(&mut self, segment: u64, sectors: Range<usize>) {
        for at in sectors.step_by(SECTOR) {
            self.clean.remove(&(segment, at));
            if let Some(old) = self.before.remove(&(segment, at)) {
                put(&mut self.synced, &mut self.before, segment, at, &old);
            }
        }
    }

    /// A process begins: it leaves files of deleted segments alone.
    pub fn forget_spares(&mut self) {
        self.spares.clear();
    }

    /// The machine stops.
    pub fn power_loss(&mut self, rng: &mut Rng) {
        self.clean.clear();
        let gone = rng.below(self.removed.len() as u64 + 1) as usize;
        for (segment, file) in std::mem::take(&mut self.removed).split_off(gone) {
            self.synced.insert(segment, file);
        }
        let style = rng.below(5);
        for (segment, offset, bytes) in std::mem::take(&mut self.pending) {
            let whole = match style {
                0 => Some(false),
                1 => Some(true),
                2 => Some(rng.chance(500)),
                _ => None,
            };
            for at in (0..bytes.len()).step_by(SECTOR) {
                if whole.unwrap_or_else(|| rng.below(4) < style - 2) {
                    let part = &bytes[at..(at + SECTOR).min(bytes.len())];
                    put(&mut self.synced, &mut self.before, segment, offset + at, part);
                }
            }
        }
    }

    /// Flips a bit in synced data, at a position in the log. Returns whether there is anything at that position.
    pub fn rot(&mut self, segment: u64, offset: u64, bit: u8) -> bool {
        let byte = self.synced.get_mut(&segment).and_then(|file| file.get_mut(offset as usize));
        byte.map(|byte| *byte ^= 1 << (bit % 8)).is_some()
    }

    /// How large a segment is, if there is one.
    pub fn segment_bytes(&self) -> Option<u64> {
        self.synced.values().next().map(|file| file.len() as u64)
    }

    /// The segments that exist.
    pub fn segments(&self) -> Vec<u64> {
        self.synced.keys().copied().collect()
    }

    /// What a process reads of a segment.
    pub fn segment(&self, segment: u64) -> Bytes {
        let mut file = self.synced.get(&segment).cloned().unwrap_or_default();
        for ((_, at), bytes) in self.clean.range((segment, 0)..(segment + 1, 0)) {
            file[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        for (number, offset, bytes) in &self.pending {
            if *number == segment {
                file[*offset..offset + bytes.len()].copy_from_slice(bytes);
            }
        }
        file.into()
    }

    /// What a process reads of a part of a segment.
    pub fn read(&self, segment: u64, offset: u64, len: u32) -> Bytes {
        let (start, end) = (offset as usize, offset as usize + len as usize);
        let mut part = self.synced.get(&segment).map_or_else(Vec::new, |file| file[start..end].to_vec());
        let clean = self.clean.iter().map(|((number, at), bytes)| (number, at, bytes));
        let pending = self.pending.iter().map(|(number, at, bytes)| (number, at, bytes));
        for (number, at, bytes) in clean.chain(pending) {
            let (low, high) = (start.max(*at), end.min(at + bytes.len()));
            if *number == segment && low < high {
                part[low - start..high - start].copy_from_slice(&bytes[low - at..high - at]);
            }
        }
        part.into()
    }
}

fn put(
    files: &mut BTreeMap<u64, Vec<u8>>,
    before: &mut BTreeMap<(u64, usize), Vec<u8>>,
    segment: u64,
    offset: usize,
    bytes: &[u8],
) {
    let Some(file) = files.get_mut(&segment) else { return };
    for at in (0..bytes.len()).step_by(SECTOR) {
        let new = &bytes[at..(at + SECTOR).min(bytes.len())];
        let old = &mut file[offset + at..offset + at + new.len()];
        if old != new {
            before.insert((segment, offset + at), old.to_vec());
            old.copy_from_slice(new);
        }
    }
}

#[cfg(test)]
mod tests;
