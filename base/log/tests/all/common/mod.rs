//! A disk that loses what was not synced, and a host that drives the log on it. Shared by the tests of this package.

use bytes::Bytes;
use quorate_log::{
    Class, DiskFull, Log, LogConfig, LogEffect, Record, RecoverError, Recovered, Recovery, SECTOR, SyncMode,
    Write,
};
use quorate_types::{InstanceId, RecordId};
use std::collections::{BTreeMap, VecDeque};

pub(crate) const LOG_ID: u64 = 0x0123_4567_89ab_cdef;

pub(crate) fn small_config() -> LogConfig {
    LogConfig { segment_bytes: 8192, block_bytes_max: 2048, reserve_bytes: 1024, ..LogConfig::default() }
}

/// A small generator of its own (splitmix64), so that a test's seed stands for one run on every machine.
pub(crate) struct Rng(pub u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
    pub(crate) fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }
}

/// What is in each segment's file for good, and what was only written.
#[derive(Clone, Default)]
pub(crate) struct Disk {
    pub(crate) synced: BTreeMap<u64, Vec<u8>>,
    pub(crate) pending: Vec<(u64, usize, Vec<u8>)>,
    /// Files of trimmed segments, to be used again with what is in them.
    pub(crate) recycled: Vec<Vec<u8>>,
    /// No more segments than this at once.
    pub(crate) segments_max: Option<usize>,
}

impl Disk {
    pub(crate) fn prepare(&mut self, segment: u64, segment_bytes: u64) -> Result<(), DiskFull> {
        if self.segments_max.is_some_and(|max| self.synced.len() >= max) {
            return Err(DiskFull);
        }
        let bytes = self.recycled.pop().unwrap_or_else(|| vec![0; segment_bytes as usize]);
        assert!(self.synced.insert(segment, bytes).is_none(), "segment {segment} is prepared once");
        Ok(())
    }
    pub(crate) fn write(&mut self, segment: u64, offset: u64, bytes: Vec<u8>) {
        self.pending.push((segment, offset as usize, bytes));
    }
    pub(crate) fn sync(&mut self, segment: u64) {
        let synced = &mut self.synced;
        self.pending.retain(|(number, offset, bytes)| {
            if *number == segment {
                put(synced, *number, *offset, bytes);
            }
            *number != segment
        });
    }
    /// What a process reads now.
    pub(crate) fn view(&self) -> BTreeMap<u64, Vec<u8>> {
        let mut view = self.synced.clone();
        for (segment, offset, bytes) in &self.pending {
            put(&mut view, *segment, *offset, bytes);
        }
        view
    }
    /// The machine stops: each sector of what was not synced is as before, or as written.
    pub(crate) fn power_loss(&mut self, rng: &mut Rng) {
        let style = rng.below(5);
        for (segment, offset, bytes) in std::mem::take(&mut self.pending) {
            let whole = match style {
                0 => Some(false),
                1 => Some(true),
                2 => Some(rng.coin()),
                _ => None,
            };
            for (sector, part) in bytes.chunks(SECTOR).enumerate() {
                if whole.unwrap_or_else(|| rng.below(4) < style - 2) {
                    put(&mut self.synced, segment, offset + sector * SECTOR, part);
                }
            }
        }
    }
    pub(crate) fn delete(&mut self, segment: u64, recycle: bool) {
        let mut bytes = self.view().remove(&segment);
        self.synced.remove(&segment);
        self.pending.retain(|(number, ..)| *number != segment);
        self.recycled.extend(bytes.take_if(|_| recycle));
    }
}

fn put(image: &mut BTreeMap<u64, Vec<u8>>, segment: u64, offset: usize, bytes: &[u8]) {
    let file = image.get_mut(&segment).expect("a write goes to a prepared segment");
    file[offset..offset + bytes.len()].copy_from_slice(bytes);
}

pub(crate) type Records = Vec<(RecordId, Record)>;

pub(crate) fn recover(
    config: &LogConfig,
    view: &BTreeMap<u64, Vec<u8>>,
) -> (Records, Result<Recovered, RecoverError>) {
    let first = view.keys().next().copied().unwrap_or(0);
    let mut recovery = Recovery::new(LOG_ID, config.clone(), first);
    let mut records = Vec::new();
    for (number, bytes) in view {
        if let Err(error) = recovery.segment(*number, &Bytes::copy_from_slice(bytes), &mut records) {
            return (records, Err(error));
        }
    }
    let result = recovery.finish(&mut records);
    (records, result)
}

pub(crate) fn record(instance: u16, kind: u8, head: &[u8], payload: &[u8]) -> Record {
    Record {
        instance: InstanceId::new(instance),
        kind,
        head: Bytes::copy_from_slice(head),
        payload: Bytes::copy_from_slice(payload),
    }
}

/// A log with its disk, what was appended to it, and the writes at the disk.
pub(crate) struct World {
    pub(crate) config: LogConfig,
    pub(crate) disk: Disk,
    pub(crate) log: Log,
    /// Record with number n at place n-1.
    pub(crate) model: Vec<Record>,
    pub(crate) at_disk: VecDeque<(Write, bool)>,
    pub(crate) kept_from: RecordId,
    /// Trimmed segments whose files are still there. After a crash they are part of the log again.
    pub(crate) deleting: VecDeque<u64>,
    made: u64,
}

impl World {
    pub(crate) fn new(config: LogConfig) -> Self {
        let log = Log::create(LOG_ID, config.clone());
        let mut world = Self {
            config,
            disk: Disk::default(),
            log,
            model: Vec::new(),
            at_disk: VecDeque::new(),
            kept_from: RecordId::FIRST,
            deleting: VecDeque::new(),
            made: 0,
        };
        world.poll();
        world
    }

    /// Appends a record that differs from every other ever made, if there is room.
    pub(crate) fn append(&mut self, head: usize, payload: usize, class: Class) -> bool {
        self.made += 1;
        let mut rng = Rng(self.made);
        let mut bytes = |len: usize| -> Vec<u8> {
            let mut bytes = self.made.to_le_bytes().to_vec();
            bytes.resize_with(len.max(8), || rng.next() as u8);
            bytes
        };
        let record = record(self.made as u16, self.made as u8, &bytes(head), &bytes(payload));
        let Ok(id) = self.log.append(record.clone(), class) else { return false };
        self.model.push(record);
        assert_eq!(id.number(), self.model.len() as u64, "INV-LOG-1 numbers are consecutive");
        true
    }

    /// Does what the log asks for; writes go to the disk's queue.
    pub(crate) fn poll(&mut self) {
        while let Some(effect) = self.log.poll() {
            match effect {
                LogEffect::Write(write) => self.at_disk.push_back((write, false)),
                LogEffect::Prepare { segment } => {
                    let result = self.disk.prepare(segment, self.config.segment_bytes);
                    self.log.prepared(segment, result);
                }
                LogEffect::Sync { id, segments } => {
                    segments.for_each(|segment| self.disk.sync(segment));
                    self.log.synced(id);
                }
            }
        }
        self.log.invariants();
    }

    /// The disk takes the next write into its memory.
    pub(crate) fn execute_one(&mut self) {
        if let Some((write, done)) = self.at_disk.iter_mut().find(|(_, done)| !done) {
            self.disk.write(write.segment, write.offset, write.data.concat());
            *done = true;
        }
    }

    /// The oldest write completes.
    pub(crate) fn complete_one(&mut self) {
        if self.at_disk.front().is_some_and(|(_, done)| !done) {
            self.execute_one();
        }
        if let Some((write, _)) = self.at_disk.pop_front() {
            if write.sync {
                self.disk.sync(write.segment);
            }
            let before = self.log.durable();
            self.log.written(write.id);
            assert!(self.log.durable() == write.last && write.last >= before, "INV-LOG-2");
            self.log.invariants();
        }
    }

    /// Everything that was appended becomes durable.
    pub(crate) fn settle(&mut self) {
        self.poll();
        while !self.at_disk.is_empty() {
            self.complete_one();
            self.poll();
        }
    }

    /// The last record that survives the loss of everything that was not synced.
    pub(crate) fn survives_power_loss(&self) -> RecordId {
        let synced = |id: &RecordId| {
            let extent = self.log.locate(*id);
            extent.is_some_and(|extent| extent.position + u64::from(extent.len) <= self.log.synced_to())
        };
        match self.config.sync {
            SyncMode::Group => self.log.durable(),
            _ => {
                let oldest = self.log.first_record().map_or(1, RecordId::number);
                let ids = (oldest..=self.log.durable().number()).rev().map(RecordId::new);
                ids.into_iter().find(synced).unwrap_or(RecordId::new(oldest - 1))
            }
        }
    }

    /// Stops the process and perhaps the machine, then recovers; recovery itself may be stopped, too.
    pub(crate) fn crash(&mut self, machine: bool, rng: &mut Rng) {
        self.deleting.clear();
        let mut survives = if machine { self.survives_power_loss() } else { self.log.durable() };
        for (write, done) in std::mem::take(&mut self.at_disk) {
            // A write that was under way may have reached any of its sectors.
            if !done {
                for (sector, part) in write.data.concat().chunks(SECTOR).enumerate() {
                    if rng.coin() {
                        self.disk.write(
                            write.segment,
                            write.offset + (sector * SECTOR) as u64,
                            part.to_vec(),
                        );
                    }
                }
            }
        }
        if machine {
            self.disk.power_loss(rng);
        }
        loop {
            let (records, recovered) = recover(&self.config, &self.disk.view());
            let recovered = recovered.expect("INV-LOG-8 a crash alone never halts");
            self.check_recovered(&records, &recovered, survives);
            if let Some(segment) = recovered.prepare {
                let prepared = self.disk.prepare(segment, self.config.segment_bytes);
                prepared.expect("tests that fill the disk leave space for the opening block");
            }
            for rewrite in &recovered.rewrite {
                self.disk.write(rewrite.segment, rewrite.offset, rewrite.data.to_vec());
            }
            if rng.below(4) == 0 {
                if rng.coin() {
                    self.disk.power_loss(rng);
                    // In async mode a power loss takes what only the page cache had.
                    survives = survives.min(self.survives_power_loss());
                }
                continue;
            }
            for rewrite in &recovered.rewrite {
                self.disk.sync(rewrite.segment);
            }
            self.model.truncate(records.len() + self.kept_first(&records) - 1);
            self.log = recovered.rewritten();
            self.log.invariants();
            break;
        }
        self.poll();
    }

    fn kept_first(&self, records: &Records) -> usize {
        records.first().map_or(1, |(id, _)| id.number() as usize)
    }

    fn check_recovered(&self, records: &Records, recovered: &Recovered, survives: RecordId) {
        assert!(recovered.last_record >= survives, "INV-LOG-7 {:?} lost, {survives} was durable", recovered);
        let first = self.kept_first(records);
        assert!(first as u64 <= self.kept_from.number(), "INV-LOG-7 kept records from {} on", self.kept_from);
        assert_eq!(recovered.last_record.number() + 1, (first + records.len()) as u64);
        for (number, (id, record)) in (first..).zip(records) {
            assert_eq!(id.number(), number as u64, "INV-LOG-1");
            assert_eq!(self.model.get(number - 1), Some(record), "INV-LOG-7, INV-LOG-10 record {number}");
        }
    }

    /// Reads every durable record back through its place.
    pub(crate) fn check_places(&self) {
        let view = self.disk.view();
        let oldest = self.log.first_record().map_or(1, RecordId::number);
        for number in oldest..=self.log.durable().number() {
            let extent = self.log.locate(RecordId::new(number)).expect("a durable record has an extent");
            let file = &view[&extent.segment];
            let bytes = &file[extent.offset as usize..extent.offset as usize + extent.len as usize];
            let record = &self.model[number as usize - 1];
            let parsed = extent.parse(&Bytes::copy_from_slice(bytes), record.instance);
            assert_eq!(parsed.as_ref(), Ok(record), "record {number} reads back");
        }
    }
}
