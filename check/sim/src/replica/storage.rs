//! What a replica has on its disk beside checkpoints, and the two threads that work there. The writer takes everything that is queued at
//! once and syncs it once. The helper prepares, reads back, checks and deletes segments.

use super::NoStart;
use crate::disk::Disk;
use crate::processes::Arrival;
use crate::random::Rng;
use bytes::Bytes;
use quorate_log::{Extent, Log, LogConfig, LogEffect, RecoverError, Recovery, SyncId, SyncMode, Write};
use quorate_node::{Restoring, SegmentScrub};
use quorate_types::{Halt, planted};
use std::collections::VecDeque;
use std::ops::Range;

/// The size of a block that goes back at once, in bytes.
const BLOCK: u64 = 4096;

/// Work of the thread that writes.
#[derive(Clone, Debug)]
enum Job {
    /// Write a block.
    Write(Write),
    /// Sync segments.
    Sync(SyncId, Vec<u64>),
}

/// Work of the helping thread.
#[derive(Clone, Debug)]
pub enum SideJob {
    /// Make a segment.
    Prepare(u64),
    /// Read records back.
    Load(u64, Vec<Extent>),
    /// Delete segments, lowest first.
    Remove(Range<u64>),
    /// Check a segment.
    Scrub(SegmentScrub),
}

/// What the helping thread has done.
#[derive(Debug)]
pub enum Side {
    /// It deleted a segment.
    Removed,
    /// Something that the node must be told.
    Done(Arrival),
}

/// The disk, which outlives the process, and its threads.
pub struct Storage {
    disk: Disk,
    /// Whether the next sync fails.
    fails_sync: bool,
    /// Work that waits for the writer.
    jobs: VecDeque<Job>,
    /// The work that the writer is doing.
    at_disk: Vec<Job>,
    /// Work that waits for the helper, which is doing the first of it.
    side: VecDeque<SideJob>,
    /// Whether the helper works.
    side_busy: bool,
    /// The disk itself proves that everything below this position of the log was synced.
    witnessed: u64,
    /// The disk's own randomness.
    rng: Rng,
}

impl Storage {
    /// An empty disk.
    pub(super) fn new(rng: Rng) -> Self {
        Self {
            disk: Disk::default(),
            fails_sync: false,
            jobs: VecDeque::new(),
            at_disk: Vec::new(),
            side: VecDeque::new(),
            side_busy: false,
            witnessed: 0,
            rng,
        }
    }

    /// The disk's randomness.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// Reads the log back, rewrites and syncs its tail. Unless it is `calm`, this may be interrupted.
    pub(super) fn recover(
        &mut self,
        (log_id, log): (u64, LogConfig),
        restoring: &mut Restoring,
        calm: bool,
    ) -> Result<Log, NoStart> {
        if self.disk.is_empty() {
            self.disk.prepare(0, log.segment_bytes).map_err(|_| NoStart::Full)?;
        }
        let segments = self.disk.segments();
        let mut recovery = Recovery::new(log_id, log.clone(), segments[0]);
        let mut records = Vec::new();
        for segment in segments {
            recovery.segment(segment, &self.disk.segment(segment), &mut records).map_err(no_start)?;
            for (id, record) in records.drain(..) {
                restoring.record(id, record).map_err(NoStart::Halt)?;
            }
        }
        let recovered = recovery.finish(&mut records).map_err(no_start)?;
        for (id, record) in records.drain(..) {
            restoring.record(id, record).map_err(NoStart::Halt)?;
        }
        // Before anything is written: a replica that halts leaves the disk as it is.
        restoring.check(&recovered.damage).map_err(NoStart::Halt)?;
        if let Some(segment) = recovered.prepare {
            self.disk.prepare(segment, log.segment_bytes).map_err(|_| NoStart::Full)?;
        }
        let mut rewritten = Vec::new();
        for part in &recovered.rewrite {
            self.disk.write(part.segment, part.offset, part.data.clone());
            rewritten.push(part.segment);
            if !calm && self.rng.chance(50) {
                let machine = log.sync == SyncMode::Group && self.rng.chance(500);
                if machine {
                    self.disk.power_loss(&mut self.rng);
                }
                return Err(NoStart::Interrupted { machine });
            }
        }
        self.disk.sync(&rewritten);
        self.witnessed = self.witnessed.max(recovered.synced_to);
        Ok(recovered.rewritten())
    }

    /// Takes work for the disk.
    pub fn submit(&mut self, effect: LogEffect) {
        match effect {
            LogEffect::Write(write) => self.jobs.push_back(Job::Write(write)),
            LogEffect::Sync { id, segments } => self.jobs.push_back(Job::Sync(id, segments.collect())),
            LogEffect::Prepare { segment } => self.help(SideJob::Prepare(segment)),
        }
    }

    /// Takes work for the helper.
    pub fn help(&mut self, job: SideJob) {
        self.side.push_back(job);
    }

    /// Writer and helper begin what waits, if they are idle. Returns how long they take, between the least and the longest time.
    pub fn begin(&mut self, (low, high): (u64, u64)) -> (Option<u64>, Option<u64>) {
        let (mut writer, mut helper) = (None, None);
        if self.at_disk.is_empty() && !self.jobs.is_empty() {
            // The page cache has it from now on.
            self.at_disk = self.jobs.drain(..).collect();
            writer = Some(self.rng.range(low, high));
        }
        if !self.side_busy && !self.side.is_empty() {
            self.side_busy = true;
            helper = Some(self.rng.range(low, high));
        }
        (writer, helper)
    }

    /// The writer is done: everything is written, and synced where that was asked for. `None`: a sync failed, and the process ends.
    pub fn end_writing(&mut self) -> Option<Vec<Arrival>> {
        let done = std::mem::take(&mut self.at_disk);
        let mut dirty = Vec::new();
        let mut witnessed = self.witnessed;
        for job in &done {
            match job {
                Job::Write(write) => {
                    let bytes = Bytes::from(write.data.concat());
                    // What its header says was synced before it; see docs/formats/log.md.
                    let mark = bytes.get(40..48).and_then(|b| b.first_chunk::<8>()).copied();
                    if write.sync {
                        dirty.push(write.segment);
                        witnessed = witnessed.max(u64::from_le_bytes(mark.unwrap_or_default()));
                    }
                    self.disk.write(write.segment, write.offset, bytes);
                }
                Job::Sync(_, segments) => dirty.extend(segments),
            }
        }
        if !dirty.is_empty() && std::mem::take(&mut self.fails_sync) {
            self.disk.fail_sync(&dirty, &mut self.rng);
            // A second sync would report success.
            if !planted("sync-asked-again") {
                return None;
            }
        }
        self.disk.sync(&dirty);
        self.witnessed = witnessed;
        let arrival = |job| match job {
            Job::Write(write) => Arrival::Written(write.id),
            Job::Sync(id, _) => Arrival::Synced(id),
        };
        Some(done.into_iter().map(arrival).collect())
    }

    /// The helper is done with its first job.
    pub fn end_helping(&mut self, segment_bytes: u64) -> Option<Side> {
        self.side_busy = false;
        let arrival = match self.side.pop_front()? {
            SideJob::Prepare(segment) => {
                Arrival::Prepared(segment, self.disk.prepare(segment, segment_bytes))
            }
            SideJob::Remove(mut segments) => {
                // One at a time: the process may die between two of them.
                if let Some(segment) = segments.next() {
                    self.disk.remove(segment);
                }
                if !segments.is_empty() {
                    self.side.push_front(SideJob::Remove(segments));
                }
                return Some(Side::Removed);
            }
            SideJob::Scrub(SegmentScrub { log_id, config, segment }) => {
                let read = self.disk.segment(segment);
                Arrival::Scrubbed(segment, quorate_log::scrub(log_id, &config, segment, &read))
            }
            SideJob::Load(load, extents) => {
                let read = extents.iter().map(|p| self.disk.read(p.segment, p.offset, p.len)).collect();
                Arrival::Loaded(load, read)
            }
        };
        Some(Side::Done(arrival))
    }

    /// Where the log begins. Segments that are being deleted count as gone.
    pub fn log_begins(&self, segment_bytes: u64) -> u64 {
        let first = self.disk.segments().first().copied().unwrap_or(0);
        let going = self.side.iter().filter_map(|job| match job {
            SideJob::Remove(segments) => Some(segments.end),
            _ => None,
        });
        going.fold(first, u64::max) * segment_bytes
    }

    /// The process dies; with `machine`, the whole machine stops.
    pub(super) fn die(&mut self, machine: bool) {
        for job in std::mem::take(&mut self.at_disk) {
            if let Job::Write(write) = job {
                let bytes = Bytes::from(write.data.concat());
                self.disk.write_partly(write.segment, write.offset, &bytes, &mut self.rng);
            }
        }
        self.jobs.clear();
        // A file that was being made is there, or is not; one that was being deleted as well.
        match (self.side.pop_front(), self.disk.segment_bytes()) {
            (Some(SideJob::Prepare(segment)), Some(bytes)) if self.rng.chance(500) => {
                let _ = self.disk.prepare(segment, bytes);
            }
            (Some(SideJob::Remove(segments)), _) if self.rng.chance(500) => self.disk.remove(segments.start),
            _ => {}
        }
        self.side.clear();
        self.side_busy = false;
        self.disk.forget_spares();
        if machine {
            self.disk.power_loss(&mut self.rng);
        }
    }
}

/// What faults do to it.
impl Storage {
    /// It is full, or no longer.
    pub(super) fn fill(&mut self, full: bool) {
        self.disk.full = full;
    }

    /// The next sync fails, or does not.
    pub fn fail_sync(&mut self, fails: bool) {
        self.fails_sync = fails;
    }

    /// A position in the log, after what is deleted and below what is known to be synced.
    fn place(&self, segment_bytes: u64, part: u16) -> Option<u64> {
        let from = self.disk.segments().first().map_or(0, |first| first * segment_bytes);
        let below = self.witnessed;
        (below > from).then(|| from + (below - from - 1) * u64::from(part) / 65_536)
    }

    /// Flips a bit there. The replica notices when it starts again, or when it reads there.
    pub fn rot(&mut self, segment_bytes: u64, part: u16) {
        if let Some(at) = self.place(segment_bytes, part) {
            self.disk.rot(at / segment_bytes, at % segment_bytes, part as u8);
        }
    }

    /// A block there goes back to what it was. What proves how far the log is synced stays, since it says what must be there.
    pub fn go_back(&mut self, segment_bytes: u64, part: u16) -> Option<(u64, Range<usize>)> {
        let at = self.place(segment_bytes, part)?;
        let at = at - at % segment_bytes % BLOCK;
        let segment = at / segment_bytes;
        let end = (at + BLOCK).min(self.witnessed).min((segment + 1) * segment_bytes);
        let sectors = (at % segment_bytes) as usize..(end - segment * segment_bytes) as usize;
        self.disk.go_back(segment, sectors.clone());
        Some((segment, sectors))
    }
}

fn no_start(error: RecoverError) -> NoStart {
    match error {
        RecoverError::Halt(halt) => NoStart::Halt(halt),
        other => NoStart::Halt(Halt::LogInconsistent { why: other.to_string() }),
    }
}
