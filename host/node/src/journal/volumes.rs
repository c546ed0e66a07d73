//! The records of each instance in the log.

use super::records::RecordMap;
use quorate_log::{AppendError, Class, Log, Record};
use quorate_types::{Halt, InstanceId, RecordId, planted};
use std::collections::VecDeque;

/// The name of a volume, which is used only once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VolumeId(usize);

/// The records of one stay of an instance.
#[derive(Debug)]
struct Volume {
    instance: InstanceId,
    records: RecordMap,
    /// Records without room; all later records of the volume wait behind them.
    unwritten: VecDeque<(RecordId, Record, Class)>,
    /// The last durable record of the volume that the protocol knows of, and how much of the log was durable at that look-up.
    durable: RecordId,
    seen: RecordId,
}

/// The volumes of all instances.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    /// By id; none for stays that are over.
    list: Vec<Option<Volume>>,
    /// The open volumes, by instance: waiting records are written in this order.
    order: Vec<(InstanceId, VolumeId)>,
    /// Whether records may wait for room.
    waits: bool,
}

impl Volumes {
    /// Opens a volume without records, for a stay of an instance that begins.
    pub(crate) fn open(&mut self, instance: InstanceId) -> VolumeId {
        let id = VolumeId(self.list.len());
        self.list.push(Some(Volume {
            instance,
            records: RecordMap::default(),
            unwritten: VecDeque::new(),
            durable: RecordId::ZERO,
            seen: RecordId::ZERO,
        }));
        self.order.push((instance, id));
        self.order.sort_unstable();
        id
    }

    fn get(&self, id: VolumeId) -> Option<&Volume> {
        self.list.get(id.0)?.as_ref()
    }

    fn get_mut(&mut self, id: VolumeId) -> Option<&mut Volume> {
        self.list.get_mut(id.0)?.as_mut()
    }

    /// The instance of a volume, while it is open.
    pub(super) fn instance(&self, id: VolumeId) -> Option<InstanceId> {
        self.get(id).map(|volume| volume.instance)
    }

    pub(super) fn retain(&mut self, is_live: impl Fn(VolumeId) -> bool) {
        self.order.retain(|(_, id)| is_live(*id));
        for (at, volume) in self.list.iter_mut().enumerate() {
            volume.take_if(|_| !is_live(VolumeId(at)));
        }
    }

    /// Restores a durable record of an earlier run. Gives the number that the instance gives it.
    pub(crate) fn restore(&mut self, id: VolumeId, log: RecordId) -> RecordId {
        let Some(volume) = self.get_mut(id) else { return RecordId::ZERO };
        let own = volume.durable.next();
        volume.records.push(own, log);
        volume.durable = own;
        own
    }

    pub(super) fn forget_unwritten(&mut self, id: VolumeId) {
        if let Some(volume) = self.get_mut(id) {
            volume.unwritten.clear();
        }
    }

    /// Whether records of a volume wait for room.
    pub(super) fn waits(&self, id: VolumeId) -> bool {
        self.get(id).is_some_and(|volume| !volume.unwritten.is_empty())
    }

    pub(super) fn persist(
        &mut self,
        log: &mut Log,
        (id, own): (VolumeId, RecordId),
        record: Record,
        class: Class,
    ) -> Result<(), Halt> {
        let Some(volume) = self.get_mut(id) else { return Ok(()) };
        volume.unwritten.push_back((own, record, class));
        volume.write(log)?;
        self.waits |= self.waits(id);
        Ok(())
    }

    /// Appends the records of all volumes that wait for room.
    pub(super) fn write(&mut self, log: &mut Log) -> Result<(), Halt> {
        if !self.waits {
            return Ok(());
        }
        self.waits = false;
        for (_, id) in &self.order {
            if let Some(volume) = &mut self.list[id.0] {
                volume.write(log)?;
                self.waits |= !volume.unwritten.is_empty();
            }
        }
        Ok(())
    }

    pub(super) fn durable(&self, id: VolumeId, log: RecordId) -> RecordId {
        self.get(id).map_or(RecordId::ZERO, |volume| volume.records.own_up_to(log))
    }

    pub(super) fn newly_durable(&mut self, id: VolumeId, log: RecordId) -> Option<RecordId> {
        let volume = self.get_mut(id).filter(|volume| volume.seen != log)?;
        volume.seen = log;
        // With the bug: whatever was appended counts as durable once anything is.
        let up_to = if planted("durable-by-another") { RecordId::new(u64::MAX) } else { log };
        let durable = volume.records.own_up_to(up_to);
        (durable > volume.durable).then(|| {
            volume.durable = durable;
            durable
        })
    }

    pub(super) fn log_record(&self, id: VolumeId, own: RecordId) -> Option<RecordId> {
        self.get(id)?.records.log(own)
    }

    pub(super) fn forget_below(&mut self, log: RecordId) {
        self.list.iter_mut().flatten().for_each(|volume| volume.records.forget_below(log));
    }
}

impl Volume {
    /// Appends the records that wait for room, in order.
    fn write(&mut self, log: &mut Log) -> Result<(), Halt> {
        while let Some((own, record, class)) = self.unwritten.pop_front() {
            match log.append(record.clone(), class) {
                Ok(id) => self.records.push(own, id),
                Err(AppendError::NoRoom) => {
                    self.unwritten.push_front((own, record, class));
                    break;
                }
                Err(why) => return Err(Halt::LogWriteFailed { why: why.to_string() }),
            }
        }
        Ok(())
    }
}
