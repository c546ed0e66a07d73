//! The writing side. Records queue; everything that queued since the last write goes into one block; when a write completes, its records
//! become durable.
//!
//! Every ordering instance (stage 3) calls it through the host. After each call that may have changed something, the host calls
//! [`Log::poll`] until it returns nothing, and does what it returns.
//!
//! Invariants, asserted here and by [`Log::invariants`]:
//! - INV-LOG-1: records are numbered 1, 2, ... over all instances, and blocks hold them in this order without a gap.
//! - INV-LOG-2: what is durable never goes back, and never passes what was appended.
//! - INV-LOG-3: a block begins where the one before ended or at the start of the next segment, at a whole sector, at or
//!   above everything that was synced.
//! - INV-LOG-4: synced <= written <= end of the last block; writes and syncs complete in the order they were asked for.
//! - INV-LOG-5: no more writes are at the disk than the configuration allows.
//! - INV-LOG-6: an accepted record fits into segments that are ready: it never waits for space.
//!
//! Tests: `writer/tests.rs`, `tests/all/crash.rs`.

use crate::block::{self, Built};
use crate::config::{Class, LogConfig, SyncMode};
use crate::format::{BLOCK_HEADER, BlockHeader, RECORD_HEADER, Record, whole_sectors};
use crate::index::{Extent, Index};
use crate::recover::Damage;
use bytes::Bytes;
use quorate_types::{RecordId, Room, planted};
use std::collections::VecDeque;
use std::fmt;
use std::ops::{Range, RangeInclusive};

/// Names a write until it completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WriteId(u64);

/// Names a sync until it completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SyncId(u64);

/// The machine has no space for another segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskFull;

/// Why a record was not taken. It has no number and will not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendError {
    /// No segment with enough space is ready. Try again when [`Log::has_room`] says so.
    NoRoom,
    /// The record can never fit.
    TooLarge {
        /// Its bytes, head and payload.
        size: u64,
        /// The most that fits.
        max: u64,
    },
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoom => write!(f, "the log has no room for the record now"),
            Self::TooLarge { size, max } => {
                write!(f, "a record of {size} bytes is over the log's limit of {max}")
            }
        }
    }
}

impl std::error::Error for AppendError {}

/// One block, to be written in one go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// To be handed to [`Log::written`].
    pub id: WriteId,
    /// The segment's number.
    pub segment: u64,
    /// First byte within the segment.
    pub offset: u64,
    /// The pieces, one after the other (there can be more than one system call takes).
    pub data: Vec<Bytes>,
    /// Whether the write counts as complete only after a sync of this segment.
    pub sync: bool,
    /// The position in the log after the block.
    pub end: u64,
    /// The last record in it.
    pub last: RecordId,
}

/// What the host must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEffect {
    /// Write a block; answer [`Log::written`]. A failure is `Halt::LogWriteFailed`, and is never retried.
    Write(Write),
    /// Make this segment's file with its full length, readable as zeros or as a recycled older segment of this log. Make that durable, with
    /// the directory entry. Answer [`Log::prepared`].
    Prepare {
        /// The segment's number.
        segment: u64,
    },
    /// Sync what was written into these segments so far; answer [`Log::synced`]. Only with [`SyncMode::Async`].
    Sync {
        /// To be handed back.
        id: SyncId,
        /// The segments with data that was not synced.
        segments: RangeInclusive<u64>,
    },
}

struct InFlight {
    id: WriteId,
    end: u64,
    last: RecordId,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Prepare {
    Idle,
    Asked,
    Full,
}

/// The state with which a log continues after recovery.
pub(crate) struct Resume {
    pub(crate) life: u32,
    pub(crate) previous: u32,
    pub(crate) position: u64,
    pub(crate) last: RecordId,
    pub(crate) first_segment: u64,
    pub(crate) ready_end: u64,
    pub(crate) index: Index,
    pub(crate) damage: Vec<Damage>,
}

/// The writing side of the log.
pub struct Log {
    config: LogConfig,
    log_id: u64,
    life: u32,
    /// Checksum of the last block's header.
    previous: u32,
    /// Where the last block ended. It may also be the start of a segment, if the block ended there.
    position: u64,
    written_to: u64,
    synced_to: u64,
    appended: RecordId,
    durable: RecordId,
    queue: VecDeque<Record>,
    /// The room that the queue takes if each of its records gets a block of its own, which is the most it can take.
    queue_need: u64,
    /// The largest record since the queue was empty: at most this much is lost at the end of a segment.
    queue_need_max: u64,
    in_flight: VecDeque<InFlight>,
    next_write: u64,
    sync_wanted: bool,
    /// The sync at work, and how far it reaches.
    sync_running: Option<(SyncId, u64)>,
    next_sync: u64,
    first_segment: u64,
    /// The first segment that is not ready.
    ready_end: u64,
    prepare: Prepare,
    index: Index,
    /// Where synced data was found to be damaged.
    damage: Vec<Damage>,
    /// The lowest record that is needed once everything up to this position is synced.
    trim_wanted: Option<(RecordId, u64)>,
}

impl Log {
    /// A new log: nothing is on disk, not even its first segment, for which the first [`Self::poll`] asks. `log_id` is drawn at random; it
    /// tells this log's blocks from those of any other.
    ///
    /// # Panics
    /// When the configuration's sizes contradict each other; [`LogConfig::check`] finds that before.
    pub fn create(log_id: u64, config: LogConfig) -> Self {
        let start = Resume {
            life: 1,
            previous: 0,
            position: 0,
            last: RecordId::ZERO,
            first_segment: 0,
            ready_end: 0,
            index: Index::default(),
            damage: Vec::new(),
        };
        Self::resume(log_id, config, start)
    }

    pub(crate) fn resume(log_id: u64, config: LogConfig, from: Resume) -> Self {
        assert!(config.check_shape().is_ok(), "the log's configuration was checked before it is used");
        let position = from.position;
        Self {
            config,
            log_id,
            life: from.life,
            previous: from.previous,
            position,
            written_to: position,
            synced_to: position,
            appended: from.last,
            durable: from.last,
            queue: VecDeque::new(),
            queue_need: 0,
            queue_need_max: 0,
            in_flight: VecDeque::new(),
            next_write: 1,
            sync_wanted: false,
            sync_running: None,
            next_sync: 1,
            first_segment: from.first_segment,
            ready_end: from.ready_end,
            prepare: Prepare::Idle,
            index: from.index,
            damage: from.damage,
            trim_wanted: None,
        }
    }

    /// Takes a record. It is written together with everything else that waits, when the disk is free.
    ///
    /// # Errors
    /// When there is no room (for its class), or the record is larger than a block.
    pub fn append(&mut self, record: Record, class: Class) -> Result<RecordId, AppendError> {
        let need = whole_sectors(BLOCK_HEADER as u64 + record.stored_len());
        if need > self.config.block_bytes_max as u64 {
            let size = (record.head.len() + record.payload.len()) as u64;
            return Err(AppendError::TooLarge { size, max: self.record_bytes_max() });
        }
        if self.config.sync == SyncMode::Memory {
            self.appended = self.appended.next();
            self.durable = self.appended;
            return Ok(self.appended);
        }
        let reserve = match class {
            Class::Data => self.late_bytes(),
            Class::Vital => 0,
        };
        if !self.fits(need, reserve) {
            return Err(AppendError::NoRoom);
        }
        self.queue.push_back(record);
        self.queue_need += need;
        self.queue_need_max = self.queue_need_max.max(need);
        self.appended = self.appended.next();
        Ok(self.appended)
    }

    /// The most bytes that one record's head and payload may have together.
    pub fn record_bytes_max(&self) -> u64 {
        (self.config.block_bytes_max - BLOCK_HEADER - RECORD_HEADER) as u64
    }

    /// Whether `need` more bytes fit after the queue, with `reserve` bytes to spare, in segments that are ready.
    ///
    /// Records that share blocks take at most the sum of the whole sectors that each alone would take. A block never spans segments; what
    /// is lost at the end of a segment is less than the record that did not fit there.
    fn fits(&self, need: u64, reserve: u64) -> bool {
        let segment_bytes = self.config.segment_bytes;
        let Some(ahead) = self.ready_end.checked_sub(self.position / segment_bytes + 1) else { return false };
        let here = segment_bytes - self.position % segment_bytes;
        let wanted = self.queue_need + need + reserve;
        let lost = self.queue_need_max.max(need);
        wanted <= here || wanted <= here + ahead * (segment_bytes - lost)
    }

    /// What the host must do next, if anything. Nothing is returned twice.
    pub fn poll(&mut self) -> Option<LogEffect> {
        if let Some(write) = self.poll_write() {
            return Some(LogEffect::Write(write));
        }
        self.poll_sync().or_else(|| self.poll_prepare())
    }

    fn poll_write(&mut self) -> Option<Write> {
        if self.in_flight.len() >= self.config.in_flight_max {
            return None;
        }
        let segment_bytes = self.config.segment_bytes;
        let first_need = whole_sectors(BLOCK_HEADER as u64 + self.queue.front()?.stored_len());
        if first_need > segment_bytes - self.position % segment_bytes || self.may_leave_segment() {
            self.position = (self.position / segment_bytes + 1) * segment_bytes;
        }
        let segment = self.position / segment_bytes;
        let offset = self.position % segment_bytes;
        assert!(segment < self.ready_end, "INV-LOG-6 segment {segment} is not ready for an accepted record");
        let count = self.count_for_block(segment_bytes - offset);
        let first = RecordId::new(self.appended.number() + 1 - self.queue.len() as u64);
        let header = BlockHeader {
            log_id: self.log_id,
            position: self.position,
            len: 0,
            count: 0,
            first: first.number(),
            synced_to: self.synced_to,
            life: self.life,
            previous: self.previous,
            body: 0,
        };
        let index = &mut self.index;
        let mut next = first;
        let (header, Built { pieces, crc }) =
            block::build(header, &self.queue.make_contiguous()[..count], |at, len| {
                index.push(next, segment, offset as u32 + at, len);
                next = next.next();
            });
        self.forget_queued(count);
        self.previous = crc;
        self.position += u64::from(header.len);
        let id = WriteId(self.next_write);
        self.next_write += 1;
        let last = next.previous();
        self.in_flight.push_back(InFlight { id, end: self.position, last });
        let sync = self.config.sync == SyncMode::Group && !planted("durable-when-written");
        Some(Write { id, segment, offset, data: pieces, sync, end: self.position, last })
    }

    /// Whether the log may leave the rest of its segment unused because the segment is damaged: a segment that is written to is never
    /// trimmed. Only while everything accepted, and the reserve, fit into the segments that are ready after it.
    fn may_leave_segment(&self) -> bool {
        let segment_bytes = self.config.segment_bytes;
        let segment = self.position / segment_bytes;
        let damaged = |damage: &Damage| damage.end.saturating_sub(1) / segment_bytes == segment;
        if self.position.is_multiple_of(segment_bytes) || !self.damage.last().is_some_and(damaged) {
            return false;
        }
        let ahead = self.ready_end.saturating_sub(segment + 1);
        let wanted = self.queue_need + self.config.reserve_bytes;
        wanted <= ahead * segment_bytes.saturating_sub(self.queue_need_max) && !planted("damage-stays-in-use")
    }

    /// How many queued records go into a block that may use `rest` bytes of its segment; at least one.
    fn count_for_block(&self, rest: u64) -> usize {
        let limit = rest.min(self.config.block_bytes_max as u64);
        let mut len = BLOCK_HEADER as u64;
        let fitting = self.queue.iter().take_while(|record| {
            len += record.stored_len();
            len <= limit
        });
        fitting.count()
    }

    fn forget_queued(&mut self, count: usize) {
        for record in self.queue.drain(..count) {
            self.queue_need -= whole_sectors(BLOCK_HEADER as u64 + record.stored_len());
        }
        if self.queue.is_empty() {
            self.queue_need_max = 0;
        }
    }

    /// A write completed, with its sync if it had one. Completions come in the order of the writes.
    ///
    /// # Panics
    /// When completions come in another order.
    pub fn written(&mut self, id: WriteId) {
        let done = self.in_flight.pop_front();
        let done =
            done.filter(|write| write.id == id).expect("INV-LOG-4 writes complete in order, once each");
        assert!(
            self.durable <= done.last && self.written_to <= done.end,
            "INV-LOG-2 durable never goes back"
        );
        self.durable = done.last;
        self.written_to = done.end;
        if self.config.sync == SyncMode::Group {
            self.synced_to = done.end;
        } else if self.written_to - self.synced_to > self.config.unsynced_bytes_max {
            self.sync_wanted = true;
        }
    }

    /// Asks for a sync of what was written. With [`SyncMode::Async`] the host calls it at its own interval; in the other modes there is
    /// nothing to sync later.
    pub fn sync_soon(&mut self) {
        self.sync_wanted = self.config.sync == SyncMode::Async;
    }

    fn poll_sync(&mut self) -> Option<LogEffect> {
        if !self.sync_wanted || self.sync_running.is_some() {
            return None;
        }
        self.sync_wanted = false;
        if self.written_to == self.synced_to {
            return None;
        }
        let id = SyncId(self.next_sync);
        self.next_sync += 1;
        self.sync_running = Some((id, self.written_to));
        let segment_bytes = self.config.segment_bytes;
        let segments = self.synced_to / segment_bytes..=(self.written_to - 1) / segment_bytes;
        Some(LogEffect::Sync { id, segments })
    }

    /// A sync completed.
    ///
    /// # Panics
    /// When it is not the one that was asked for.
    pub fn synced(&mut self, id: SyncId) {
        let (running, to) = self.sync_running.take().expect("INV-LOG-4 a sync completes once");
        assert!(running == id && to >= self.synced_to, "INV-LOG-4 syncs complete in order");
        self.synced_to = to;
    }

    fn poll_prepare(&mut self) -> Option<LogEffect> {
        let enough = self.position / self.config.segment_bytes + 1 + self.config.segments_ahead;
        let wanted = self.ready_end < enough && self.config.sync != SyncMode::Memory;
        if !wanted || self.prepare != Prepare::Idle {
            return None;
        }
        self.prepare = Prepare::Asked;
        Some(LogEffect::Prepare { segment: self.ready_end })
    }

    /// The segment that [`LogEffect::Prepare`] asked for is ready, or can't be made.
    ///
    /// # Panics
    /// When it was not asked for.
    pub fn prepared(&mut self, segment: u64, result: Result<(), DiskFull>) {
        let asked = self.prepare == Prepare::Asked && segment == self.ready_end;
        assert!(asked, "INV-LOG-6 segment {segment} was not asked for");
        match result {
            Ok(()) => {
                self.ready_end += 1;
                self.prepare = Prepare::Idle;
            }
            Err(DiskFull) => self.prepare = Prepare::Full,
        }
    }

    /// Asks again for the segment for which there was no space. The host calls it now and then, and after it deleted something.
    pub fn retry_prepare(&mut self) {
        if self.prepare == Prepare::Full {
            self.prepare = Prepare::Idle;
        }
    }

    /// Whether the segment that was asked for last could not be made; for operators.
    pub fn is_disk_full(&self) -> bool {
        self.prepare == Prepare::Full
    }

    /// Whether a data record of any size would be taken, with what follows from it. If not, new work must be refused: the space left is for
    /// votes, and for records that were under way when space became short.
    pub fn has_room(&self) -> bool {
        self.room() == Room::Data
    }

    /// Which work may be taken.
    pub fn room(&self) -> Room {
        let largest = self.config.block_bytes_max as u64;
        if self.config.sync == SyncMode::Memory || self.fits(largest, self.config.reserve_bytes) {
            Room::Data
        } else if self.fits(0, self.config.reserve_bytes) {
            Room::Frees
        } else {
            Room::Full
        }
    }

    /// What data records leave of the reserve.
    fn late_bytes(&self) -> u64 {
        self.config.reserve_bytes / 2
    }

    /// Whether data records would all be taken, given the bytes of each one's head and payload.
    pub fn has_room_for(&self, records: impl Iterator<Item = u64>) -> bool {
        let need = |bytes: u64| {
            whole_sectors((BLOCK_HEADER + RECORD_HEADER) as u64 + bytes.min(u64::from(u32::MAX)))
        };
        let needed = records.map(need).fold(0, u64::saturating_add);
        self.config.sync == SyncMode::Memory
            || (needed <= self.config.segment_bytes && self.fits(needed, self.late_bytes()))
    }

    /// Every record up to this one is durable, as the mode defines it.
    pub fn durable(&self) -> RecordId {
        self.durable
    }

    /// The last record that was appended.
    pub fn appended(&self) -> RecordId {
        self.appended
    }

    /// Every byte below this position was synced.
    pub fn synced_to(&self) -> u64 {
        self.synced_to
    }

    /// Where the last block ends.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The size of a segment.
    pub fn segment_bytes(&self) -> u64 {
        self.config.segment_bytes
    }

    /// The oldest record that can still be read back, if there is any.
    pub fn first_record(&self) -> Option<RecordId> {
        self.index.first()
    }

    /// The extent of a record, from when its write completed until it is trimmed.
    pub fn locate(&self, id: RecordId) -> Option<Extent> {
        (id <= self.durable).then(|| self.index.find(id, self.config.segment_bytes)).flatten()
    }

    /// The records in a segment that is full and synced, the first and the one after the last: [`crate::scrub`] must find exactly these.
    /// None for a segment that is not full and synced, was trimmed, holds no record, or is known to be damaged.
    pub fn sealed_records(&self, segment: u64) -> Option<Range<RecordId>> {
        let segment_bytes = self.config.segment_bytes;
        let end = segment.checked_add(1)?.checked_mul(segment_bytes)?;
        let hit = |damage: &Damage| damage.position < end && damage.end > end - segment_bytes;
        let sealed = end <= self.synced_to && !self.damage.iter().any(hit);
        sealed.then(|| self.index.records(segment)).flatten()
    }

    /// Where synced data was found to be damaged at the start, as far as it was not trimmed since.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// The lowest segment that is needed. Lower ones may still exist: [`Self::trim`] returned them, and nothing reads them any more.
    pub fn first_segment(&self) -> u64 {
        self.first_segment
    }

    /// Forgets the segments that hold only records before `keep_from`, and returns their numbers. The host deletes or recycles their files
    /// in ascending order, whenever it likes: whichever of them are left after a crash, the log begins with the lowest one. The segment of
    /// the last synced block stays, since the next recovery begins there.
    ///
    /// With [`SyncMode::Async`] the record that makes older ones superfluous may not be synced yet. So nothing is returned before a sync,
    /// for which this call asks; call again after that, or when there is more to trim.
    pub fn trim(&mut self, keep_from: RecordId) -> Range<u64> {
        let Some(keep_from) = self.trim_when_synced(keep_from) else {
            return self.first_segment..self.first_segment;
        };
        let segment_bytes = self.config.segment_bytes;
        let place = self.index.segment_from(keep_from);
        let known = self.index.first().is_some_and(|first| first <= keep_from);
        let last_synced = self.synced_to.saturating_sub(1) / segment_bytes;
        let keep = if known { place.unwrap_or(last_synced).min(last_synced) } else { self.first_segment };
        let first = self.first_segment;
        self.first_segment = keep.max(first);
        self.index.forget_below(self.first_segment);
        let begin = self.first_segment * segment_bytes;
        self.damage.retain(|damage| damage.end > begin);
        first..self.first_segment
    }

    /// What may be trimmed now: up to `keep_from`, or what was asked for before the last sync.
    fn trim_when_synced(&mut self, keep_from: RecordId) -> Option<RecordId> {
        if self.synced_to == self.written_to {
            self.trim_wanted = None;
            return Some(keep_from);
        }
        self.sync_soon();
        let (wanted, written_to) = *self.trim_wanted.get_or_insert((keep_from, self.written_to));
        if self.synced_to < written_to {
            return None;
        }
        self.trim_wanted = Some((keep_from, self.written_to));
        Some(wanted)
    }

    /// Checks the invariants of this module's header.
    ///
    /// # Panics
    /// When one does not hold.
    pub fn invariants(&self) {
        let queued = self.queue.len() as u64;
        assert!(self.durable <= self.appended, "INV-LOG-2 durable <= appended");
        assert!(queued <= self.appended.since(self.durable), "INV-LOG-1 what is queued is not durable");
        assert!(self.position.is_multiple_of(crate::SECTOR as u64), "INV-LOG-3 blocks end at whole sectors");
        assert!(self.synced_to <= self.written_to, "INV-LOG-4 synced <= written");
        assert!(self.written_to <= self.position, "INV-LOG-4 written <= end of the last block");
        let mut before = (self.written_to, self.durable);
        for write in &self.in_flight {
            assert!(before.0 < write.end && before.1 < write.last, "INV-LOG-3 writes are in order");
            before = (write.end, write.last);
        }
        assert!(before.1.number() + queued == self.appended.number() || self.in_memory(), "INV-LOG-1 no gap");
        assert!(self.in_flight.len() <= self.config.in_flight_max, "INV-LOG-5 writes in flight");
        assert!(queued == 0 || self.fits(0, 0), "INV-LOG-6 what was accepted has room");
    }

    fn in_memory(&self) -> bool {
        self.config.sync == SyncMode::Memory
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("life", &self.life)
            .field("position", &self.position)
            .field("synced_to", &self.synced_to)
            .field("appended", &self.appended)
            .field("durable", &self.durable)
            .field("queued", &self.queue.len())
            .field("in_flight", &self.in_flight.len())
            .field("ready_end", &self.ready_end)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
