//! The journal: the write-ahead log of a replica, and the records of each instance in it.
//!
//! Instances number their own records; the log numbers all records ([`records`]). A record without room waits here, and all later ones of
//! the instance wait behind it ([`Volume`]). The journal also measures the disk ([`Disk`]). It says what became durable; the instances
//! decide what may leave then, and what is decided.
//!
//! INV-NODE-3: an instance numbers its records without gaps. INV-NODE-4: only durable records of this log are read back, and every question
//! is answered. Tests: `journal/tests.rs`.

mod disk;
pub(crate) mod records;
mod trimming;
mod volumes;

pub(crate) use disk::Disk;
pub(crate) use trimming::{TRIMMED, Trimmed};
pub(crate) use volumes::{VolumeId, Volumes};

use crate::effects::{Effect, Effects, Event};
use crate::witness::{Logged, seed_in};
use bytes::Bytes;
use quorate_log::{AppendError, Class, DiskFull, Extent, Log, LogEffect, Record, SyncId, SyncMode, WriteId};
use quorate_order::Stored;
use quorate_types::{Halt, InstanceId, RecordId, Room, Span, Time, planted};
use std::collections::BTreeMap;
use trimming::Trimming;

/// The instance number of the node's own records.
pub(crate) const NODE: InstanceId = InstanceId::new(0);

/// The most bytes that a protocol adds to the record of a batch, rounded up.
const ENTRY_HEAD_MAX: u64 = 64;

/// A question of an instance, and the log's records that answer it.
#[derive(Debug)]
struct Load {
    volume: VolumeId,
    /// The instance's number of the question.
    load: u64,
    extents: Vec<Extent>,
}

/// Records that an instance asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Loaded {
    /// The volume of the instance.
    pub(crate) volume: VolumeId,
    /// The instance's number of the question.
    pub(crate) load: u64,
    /// The records, in the order of the question.
    pub(crate) records: Vec<Stored>,
}

/// The log of a replica; see the module.
pub(crate) struct Journal {
    log: Log,
    sync: SyncMode,
    volumes: Volumes,
    /// The open questions to the disk by number, and how many there have been.
    loads: BTreeMap<u64, Load>,
    asked: u64,
    disk: Disk,
    /// The trimming under way.
    trimming: Option<Trimming>,
    /// Whether a witness hears which batches the log was given.
    is_seen: bool,
}

impl Journal {
    /// A journal on a restored log. `stall`: a disk that finishes nothing for this long holds up everything.
    pub(crate) fn new(log: Log, sync: SyncMode, stall: Span, volumes: Volumes) -> Self {
        let (loads, disk) = (BTreeMap::new(), Disk::new(stall));
        Self { log, sync, volumes, loads, asked: 0, disk, trimming: None, is_seen: false }
    }

    /// Sets whether a witness hears which batches the log was given.
    #[must_use]
    pub(crate) fn seen(self, is_seen: bool) -> Self {
        Self { is_seen, ..self }
    }

    /// The log.
    pub(crate) const fn log(&self) -> &Log {
        &self.log
    }

    /// The disk.
    pub(crate) const fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Whether the log is in memory only.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.sync == SyncMode::Memory
    }

    /// The volumes of the instances.
    pub(crate) fn volumes(&mut self) -> &mut Volumes {
        &mut self.volumes
    }

    /// Keeps these volumes, and drops the others with their open questions.
    pub(crate) fn retain_volumes(&mut self, is_live: impl Fn(VolumeId) -> bool) {
        self.volumes.retain(&is_live);
        self.loads.retain(|_, load| is_live(load.volume));
    }

    /// An instance left: its waiting records are not written, and its open questions are dropped.
    pub(crate) fn leave(&mut self, volume: VolumeId) {
        self.volumes.forget_unwritten(volume);
        self.loads.retain(|_, load| load.volume != volume);
    }

    /// A write completed.
    pub(crate) fn written(&mut self, now: Time, id: WriteId, out: &mut Effects) {
        self.log.written(id);
        if self.disk.wrote(now) {
            out.event(Event::DiskWorks);
        }
    }

    /// A sync completed.
    pub(crate) fn synced(&mut self, id: SyncId) {
        self.log.synced(id);
    }

    /// A segment was prepared, or there was no room for it. Writes what waits for room.
    pub(crate) fn prepared(
        &mut self,
        now: Time,
        segment: u64,
        result: Result<(), DiskFull>,
        out: &mut Effects,
    ) {
        // `full` stays true until a segment is ready: while the log tries again it does not know whether there is room.
        let is_full = result.is_err();
        let changed = self.disk.is_full() != is_full;
        self.log.prepared(segment, result);
        self.disk.prepared(now, is_full);
        if changed {
            out.event(if is_full { Event::DiskFull } else { Event::DiskHasRoom });
        }
        self.write_waiting(out);
    }

    /// A protocol wants a record durable, which it numbers `own`.
    pub(crate) fn persist(
        &mut self,
        (volume, own): (VolumeId, RecordId),
        instance: InstanceId,
        record: Stored,
        vital: bool,
        out: &mut Effects,
    ) -> Option<Logged> {
        let seed = if self.is_seen { seed_in(&record.payload) } else { None };
        let class = if vital { Class::Vital } else { Class::Data };
        let Stored { kind, head, payload } = record;
        if let Err(halt) = self.volumes.persist(
            &mut self.log,
            (volume, own),
            Record { instance, kind, head, payload },
            class,
        ) {
            out.push(Effect::Halt(halt));
        }
        let (seed, record) = seed.zip(self.volumes.log_record(volume, own))?;
        Some(Logged { seed, record, durable: record <= self.log.durable() })
    }

    /// Appends a record of the replica itself, which may use the reserved room.
    ///
    /// # Errors
    /// When there is no room, or the log is broken.
    pub(crate) fn note(&mut self, record: Record) -> Result<RecordId, AppendError> {
        self.log.append(record, Class::Vital)
    }

    /// Appends a record of the replica itself that may be large: it leaves the room that votes need.
    ///
    /// # Errors
    /// When there is no room now, or never.
    pub(crate) fn note_data(&mut self, record: Record) -> Result<RecordId, AppendError> {
        self.log.append(record, Class::Data)
    }

    /// Whether there is room for a record soon, if there is none now.
    pub(crate) fn waits_for_room(&self, why: &AppendError) -> bool {
        matches!(why, AppendError::NoRoom) && !self.log.is_disk_full()
    }

    /// Appends the records that wait for room. Whether the log takes records at all.
    fn write_waiting(&mut self, out: &mut Effects) -> bool {
        match self.volumes.write(&mut self.log) {
            Ok(()) => true,
            Err(halt) => {
                out.push(Effect::Halt(halt));
                false
            }
        }
    }

    /// Ends the turn: the log gets the records that wait for room, and the disk gets the log's work. Room comes not only with a new
    /// segment, but also when queued blocks go out; nothing else reports that.
    pub(crate) fn end_turn(&mut self, now: Time, out: &mut Effects) {
        loop {
            if !planted("room-forgotten") && !self.write_waiting(out) {
                return;
            }
            match self.log.poll() {
                Some(effect) => {
                    if matches!(effect, LogEffect::Write(_)) {
                        self.disk.writes(now);
                    }
                    out.push(Effect::Disk(effect));
                }
                None => return,
            }
        }
    }

    /// Plans a sync of what was written, if nothing else asks for it.
    pub(crate) fn sync_later(&mut self, now: Time) {
        if self.sync == SyncMode::Async && self.log.position() > self.log.synced_to() {
            self.disk.sync_later(now);
        }
    }

    /// When to call [`Self::on_deadline`].
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.disk.retries_at()
    }

    /// Looks for room again, and syncs what was written.
    pub(crate) fn on_deadline(&mut self, now: Time) {
        if self.disk.retries(now) {
            self.log.retry_prepare();
            self.log.sync_soon();
        }
    }

    /// Whether the disk has just stalled.
    pub(crate) fn stalls(&mut self, now: Time, out: &mut Effects) -> bool {
        let stalls = self.disk.stalls(now);
        if stalls {
            out.event(Event::DiskStalls);
        }
        stalls
    }

    /// Whether there is room for the records that an instance would write because of a message. Entries without room are dropped as if lost
    /// on the way. Votes, heartbeats and the first record of a view pass: replicas with full disks still elect a leader, which confirms
    /// reads.
    ///
    /// The sizes of the entries count. A leader takes requests only while a block of any size fits, so what it took fits the others, too,
    /// and a new leader finds a majority that can hold what it has.
    ///
    /// `open`: whether the merge takes more of this instance. If not, the other instances are behind, and the entries would only lie in
    /// memory.
    /// `brings`: the size in bytes of each batch that would be written.
    pub(crate) fn fits(&self, volume: VolumeId, open: bool, brings: impl FnOnce() -> Vec<u64>) -> bool {
        if self.fits_all(volume, open) {
            return true;
        }
        let takes = open && !self.volumes.waits(volume);
        let batches = brings();
        let records = batches.iter().map(|bytes| bytes + ENTRY_HEAD_MAX);
        batches.is_empty() || (takes && self.log.has_room_for(records))
    }

    /// Whether the log takes the records of any message, at once or soon.
    pub(crate) fn fits_all(&self, volume: VolumeId, open: bool) -> bool {
        // Many small entries count for more than a segment takes. They may wait here while the disk is not full; otherwise such a message
        // would never be taken.
        let soon = !self.log.is_disk_full() && self.log.has_room() && !planted("small-entries-refused");
        open && !self.volumes.waits(volume) && soon
    }

    /// The last durable record of an instance, in its own numbers.
    pub(crate) fn durable(&self, volume: VolumeId) -> RecordId {
        self.volumes.durable(volume, self.log.durable())
    }

    /// The last durable record of an instance, in its own numbers, if it is a new one.
    pub(crate) fn newly_durable(&mut self, volume: VolumeId) -> Option<RecordId> {
        self.volumes.newly_durable(volume, self.log.durable())
    }

    /// The number in the log of an instance's own record; none if the log does not hold it.
    pub(crate) fn locate(&self, volume: VolumeId, own: RecordId) -> Option<RecordId> {
        self.volumes.log_record(volume, own)
    }

    /// An instance asks for some of its own records.
    pub(crate) fn load(&mut self, volume: VolumeId, load: u64, records: &[RecordId], out: &mut Effects) {
        let extent = |own: &RecordId| self.log.locate(self.volumes.log_record(volume, *own)?);
        let extents: Option<Vec<Extent>> = records.iter().map(extent).collect();
        let extents = extents.expect("INV-NODE-4 only durable records of this log are read back");
        self.asked += 1;
        self.loads.insert(self.asked, Load { volume, load, extents: extents.clone() });
        out.push(Effect::Load { load: self.asked, extents });
    }

    /// Takes what the disk has read; none if the question was dropped.
    ///
    /// # Errors
    /// When the disk has other records there.
    pub(crate) fn loaded(&mut self, load: u64, records: &[Bytes]) -> Option<Result<Loaded, Halt>> {
        let Load { volume, load, extents } = self.loads.remove(&load)?;
        let instance = self.volumes.instance(volume)?;
        assert_eq!(extents.len(), records.len(), "INV-NODE-4 every extent that was asked for is answered");
        let parsed = extents.iter().zip(records).map(|(extent, bytes)| {
            let Record { kind, head, payload, .. } = extent.parse(bytes, instance)?;
            Ok(Stored { kind, head, payload })
        });
        Some(parsed.collect::<Result<Vec<Stored>, Halt>>().map(|records| Loaded { volume, load, records }))
    }

    /// The room for requests at this replica.
    pub(crate) fn room(&self) -> Room {
        self.log.room()
    }

    /// Panics with the name of a broken invariant.
    pub(crate) fn invariants(&self) {
        self.log.invariants();
    }
}

#[cfg(test)]
mod tests;
