//! The journal: the write-ahead log of a replica, with what each instance has in it.
//!
//! Instances number their own records, the log numbers all ([`records`]). What an instance persists waits here while there is no room, and
//! everything behind it waits with it ([`Volume`]). What the disk does is timed here ([`Disk`]). The journal says what became durable; what may
//! leave then, and what is decided by it, is the instances' business.
//!
//! INV-NODE-3: an instance numbers its records without gaps. INV-NODE-4: only durable records of this log are read back, and every place that was
//! asked for is answered. Tests: `journal/tests.rs`.

mod disk;
pub(crate) mod records;
mod trimming;
mod volumes;

pub(crate) use disk::Disk;
pub(crate) use trimming::{TRIMMED, Trimmed};
pub(crate) use volumes::{VolumeId, Volumes};

use crate::effects::{Effect, Effects, Event};
use bytes::Bytes;
use quorate_log::{AppendError, Class, DiskFull, Extent, Log, LogEffect, Record, SyncId, SyncMode, WriteId};
use quorate_order::Stored;
use quorate_types::{Halt, InstanceId, RecordId, Room, Span, Time, planted};
use std::collections::BTreeMap;
use trimming::Trimming;

/// Records of the node itself, as opposed to those of its instances.
pub(crate) const NODE: InstanceId = InstanceId::new(0);

/// More than a protocol's own part of a batch's record takes, in bytes.
const ENTRY_HEAD_MAX: u64 = 64;

/// What an instance asked for, and where it lies.
#[derive(Debug)]
struct Load {
    volume: VolumeId,
    /// The instance's own number of this question.
    load: u64,
    extents: Vec<Extent>,
}

/// Records that an instance asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Loaded {
    /// Whose they are.
    pub(crate) volume: VolumeId,
    /// The instance's own number of the question.
    pub(crate) load: u64,
    /// The records, in the order in which they were asked for.
    pub(crate) records: Vec<Stored>,
}

/// The log of a replica; see the module.
pub(crate) struct Journal {
    log: Log,
    sync: SyncMode,
    volumes: Volumes,
    /// Questions to the disk that are not answered yet, by number, and how many there were.
    loads: BTreeMap<u64, Load>,
    asked: u64,
    disk: Disk,
    /// The log's beginning goes.
    trimming: Option<Trimming>,
}

impl Journal {
    /// The log that goes on after what was taken back; `stall`: a disk that finishes nothing for so long holds up whoever waits for it.
    pub(crate) fn new(log: Log, sync: SyncMode, stall: Span, volumes: Volumes) -> Self {
        Self { log, sync, volumes, loads: BTreeMap::new(), asked: 0, disk: Disk::new(stall), trimming: None }
    }

    /// The log itself, to be looked at.
    pub(crate) const fn log(&self) -> &Log {
        &self.log
    }

    /// The disk, to be looked at.
    pub(crate) const fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Whether nothing is at rest: everything is in memory only.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.sync == SyncMode::Memory
    }

    /// One instance more has records here.
    pub(crate) fn volumes(&mut self) -> &mut Volumes {
        &mut self.volumes
    }

    /// These volumes are of use; the others go, with what was asked for.
    pub(crate) fn retain_volumes(&mut self, is_live: impl Fn(VolumeId) -> bool) {
        self.volumes.retain(&is_live);
        self.loads.retain(|_, load| is_live(load.volume));
    }

    /// An instance went: nothing that waits for room is written any more, and nobody waits for what was asked for.
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

    /// A segment was prepared, or there was no room for it; what waits for room is written if there is some.
    pub(crate) fn prepared(
        &mut self,
        now: Time,
        segment: u64,
        result: Result<(), DiskFull>,
        out: &mut Effects,
    ) {
        // Kept until a segment is ready: while the log tries again it does not know whether there is room.
        let is_full = result.is_err();
        let changed = self.disk.is_full() != is_full;
        self.log.prepared(segment, result);
        self.disk.prepared(now, is_full);
        if changed {
            out.event(if is_full { Event::DiskFull } else { Event::DiskHasRoom });
        }
        self.write_waiting(out);
    }

    /// A protocol wants a record durable, its own record `own`.
    pub(crate) fn persist(
        &mut self,
        (volume, own): (VolumeId, RecordId),
        instance: InstanceId,
        record: Stored,
        vital: bool,
        out: &mut Effects,
    ) {
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
    }

    /// A record of the replica itself, which may use the room that is kept in reserve.
    ///
    /// # Errors
    /// When there is no room, or the log is broken.
    pub(crate) fn note(&mut self, record: Record) -> Result<RecordId, AppendError> {
        self.log.append(record, Class::Vital)
    }

    /// Gives the log what waits for room; whether it takes it at all.
    fn write_waiting(&mut self, out: &mut Effects) -> bool {
        match self.volumes.write(&mut self.log) {
            Ok(()) => true,
            Err(halt) => {
                out.push(Effect::Halt(halt));
                false
            }
        }
    }

    /// The end of a turn: the log gets what waits for room, and the disk what the log wants done. Room comes with a new segment, and also when
    /// what is queued goes out: then nothing else would say so.
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

    /// What was written is to be synced before long, if nothing else asks for that.
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

    /// Whether the disk has finished nothing for long, which was not known.
    pub(crate) fn stalls(&mut self, now: Time, out: &mut Effects) -> bool {
        let stalls = self.disk.stalls(now);
        if stalls {
            out.event(Event::DiskStalls);
        }
        stalls
    }

    /// Whether there is room for what a message makes an instance persist. Entries without room are dropped as if lost on the way, while votes,
    /// heartbeats and the first record of a view pass: replicas with full disks still elect a leader, and it confirms reads.
    ///
    /// By the sizes of the entries, while a leader takes requests only as long as a block of any size fits: what it took fits
    /// the others, too, so that a new leader finds a majority that can hold what it has.
    /// `open`: the merge takes more of this instance. Where it does not, the others are behind, and what came would only lie in memory.
    /// `brings`: how many bytes each batch has that is to be persisted.
    pub(crate) fn fits(&self, volume: VolumeId, open: bool, brings: impl FnOnce() -> Vec<u64>) -> bool {
        // Many small entries count for more than a segment takes. While the disk is not full they may wait for room here: else
        // such a message would never be taken.
        let soon = !self.log.is_disk_full() && self.log.has_room() && !planted("small-entries-refused");
        let takes = open && !self.volumes.waits(volume);
        if takes && soon {
            return true;
        }
        let batches = brings();
        let records = batches.iter().map(|bytes| bytes + ENTRY_HEAD_MAX);
        batches.is_empty() || (takes && self.log.has_room_for(records))
    }

    /// The last of an instance's own records that is durable.
    pub(crate) fn durable(&self, volume: VolumeId) -> RecordId {
        self.volumes.durable(volume, self.log.durable())
    }

    /// The same, if that is news.
    pub(crate) fn newly_durable(&mut self, volume: VolumeId) -> Option<RecordId> {
        self.volumes.newly_durable(volume, self.log.durable())
    }

    /// What an instance has to say again of its own record may be where the log keeps it; none if the log does not hold it.
    pub(crate) fn locate(&self, volume: VolumeId, own: RecordId) -> Option<RecordId> {
        self.volumes.log_record(volume, own)
    }

    /// An instance wants to read these of its own records back.
    pub(crate) fn load(&mut self, volume: VolumeId, load: u64, records: &[RecordId], out: &mut Effects) {
        let extent = |own: &RecordId| self.log.locate(self.volumes.log_record(volume, *own)?);
        let extents: Option<Vec<Extent>> = records.iter().map(extent).collect();
        let extents = extents.expect("INV-NODE-4 only durable records of this log are read back");
        self.asked += 1;
        self.loads.insert(self.asked, Load { volume, load, extents: extents.clone() });
        out.push(Effect::Load { load: self.asked, extents });
    }

    /// What was read; none if nobody waits for it any more.
    ///
    /// # Errors
    /// When something else lies there.
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

    /// What this replica has room for.
    pub(crate) fn room(&self) -> Room {
        self.log.room()
    }

    /// Panics with the name of an invariant that does not hold.
    pub(crate) fn invariants(&self) {
        self.log.invariants();
    }
}

#[cfg(test)]
mod tests;
