//! One instance's log as Raft sees it: recent entries in memory, and for each older entry just enough to find it on disk.
//!
//! The compact part is made of runs. A run is a stretch of entries of one view and one kind, whose records follow each other in the log on
//! disk. From the runs follow, for any index, its view, its record and the slots up to it. A run spans up to 4 MiB, so a terabyte of log
//! takes some ten megabytes. Batches are kept from some index on; older ones are read back from disk.
//!
//! The log begins after its floor. The floor is a position; a durable checkpoint holds everything up to it. Of the entry at the floor only
//! its view and its slot are known, of earlier entries nothing. Indexes and slots are never renumbered: they count from the instance's
//! first entry.
//!
//! Record ids grow with the index, even when entries are replaced, since the replacement gets a new record. So "durable up to record r"
//! translates into one index, and the record of a replaced entry never counts for its replacement.
//!
//! Tests: tests/log.rs.

use crate::raft::message::{Entry, EntryBody, Index, Position};
use quorate_types::{RecordId, View};
use quorate_wire::Memberships;
use std::collections::VecDeque;
use std::sync::Arc;

/// The most entries of a run, so that a question to the disk stays small.
const RUN_ENTRIES: u64 = 4096;
/// A run ends with the entry that reaches this size. Also the size of one question to the disk.
pub(super) const RUN_BYTES: u64 = 4 << 20;
/// About how many bytes an entry takes beside its payload.
const ENTRY_OVERHEAD: u64 = 32;

/// About how many bytes of the log an entry takes.
pub(super) fn entry_bytes(entry: &Entry) -> u64 {
    match &entry.body {
        EntryBody::ViewStart => ENTRY_OVERHEAD,
        EntryBody::Batch(batch) => ENTRY_OVERHEAD + batch.bytes().len() as u64,
        EntryBody::Members(memberships) => {
            ENTRY_OVERHEAD + memberships.all().map(|of| 300 * of.members().len() as u64).sum::<u64>()
        }
    }
}

/// The entries from `first` up to the next run. They have one view and one kind, and their records begin with `record`.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: Index,
    view: View,
    record: RecordId,
    /// Whether its entries hold batches.
    batches: bool,
    /// How many slots lie before `first`.
    slots: u64,
    /// About how many bytes lie before `first`.
    bytes: u64,
}

/// An entry in memory, with the totals up to and including it.
#[derive(Debug)]
pub(super) struct CachedEntry {
    pub(super) entry: Entry,
    pub(super) record: RecordId,
    pub(super) slots: u64,
    bytes: u64,
}

/// The log of one instance.
#[derive(Debug)]
pub(super) struct EntryLog {
    /// The position after which it begins, with the slots and bytes up to it.
    floor: Position,
    floor_slots: u64,
    floor_bytes: u64,
    runs: Vec<Run>,
    kept: VecDeque<CachedEntry>,
    /// Index of `kept[0]`; one past the end when nothing is kept.
    first_kept: Index,
    kept_bytes: u64,
    last: Position,
    slots: u64,
    bytes: u64,
    durable: Index,
    /// The entries that hold memberships; the first one may lie at or before the floor.
    members: Vec<(Index, Arc<Memberships>)>,
    /// The memberships at lower indexes are not known.
    members_known: Index,
    /// How often the memberships changed.
    members_changes: u64,
}

impl EntryLog {
    pub(super) fn new() -> Self {
        Self {
            floor: Position::ZERO,
            floor_slots: 0,
            floor_bytes: 0,
            runs: Vec::new(),
            kept: VecDeque::new(),
            first_kept: Index::new(1),
            kept_bytes: 0,
            last: Position::ZERO,
            slots: 0,
            bytes: 0,
            durable: Index::ZERO,
            members: Vec::new(),
            members_known: Index::ZERO,
            members_changes: 0,
        }
    }

    /// The position after which the log begins.
    pub(super) fn floor(&self) -> Position {
        self.floor
    }
    /// How many slots lie up to the floor.
    pub(super) fn floor_slots(&self) -> u64 {
        self.floor_slots
    }
    /// The end of the log.
    pub(super) fn last(&self) -> Position {
        self.last
    }
    /// How many slots there are up to the end.
    pub(super) fn slots(&self) -> u64 {
        self.slots
    }
    /// About how many bytes there are up to the end.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
    /// Every entry up to here is durable.
    pub(super) fn durable(&self) -> Index {
        self.durable
    }
    /// The first entry in memory.
    pub(super) fn first_kept(&self) -> Index {
        self.first_kept
    }
    /// Bytes in memory.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    /// The entry, if it is in memory.
    pub(super) fn get(&self, index: Index) -> Option<&CachedEntry> {
        let at = index.number().checked_sub(self.first_kept.number())?;
        self.kept.get(usize::try_from(at).ok()?)
    }

    /// Whether there is a no-op of the merge among the entries from `first` to `last` that are in memory.
    pub(super) fn has_no_op(&self, first: Index, last: Index) -> bool {
        let at = |index: Index| {
            usize::try_from(index.number().saturating_sub(self.first_kept.number())).unwrap_or(usize::MAX)
        };
        let mut range = self.kept.iter().take(at(last.next())).skip(at(first));
        range
            .any(|kept| matches!(&kept.entry.body, EntryBody::Batch(batch) if batch.no_op_target().is_some()))
    }

    fn run_at(&self, index: Index) -> Option<(usize, &Run)> {
        if index <= self.floor.index || index > self.last.index {
            return None;
        }
        let at = match self.runs.last() {
            Some(run) if run.first <= index => self.runs.len() - 1,
            _ => self.runs.partition_point(|run| run.first <= index) - 1,
        };
        Some((at, &self.runs[at]))
    }

    /// The view of an entry, or of the position at the floor (index 0 has view 0). None before the floor and beyond the end.
    pub(super) fn view_at(&self, index: Index) -> Option<View> {
        match self.get(index) {
            Some(kept) => Some(kept.entry.view),
            None if index == self.floor.index => Some(self.floor.view),
            None => self.run_at(index).map(|(_, run)| run.view),
        }
    }
    /// Whether this position is in the log, or below its floor. Below the floor everything is decided, so no leader has anything else
    /// there.
    pub(super) fn holds(&self, position: Position) -> bool {
        position.index < self.floor.index || self.view_at(position.index) == Some(position.view)
    }
    /// The position of an index that is neither before the floor nor beyond the end.
    pub(super) fn position(&self, index: Index) -> Position {
        let view = self.view_at(index).expect("INV-RAFT-5: asked only for positions within the log");
        Position::new(index, view)
    }
    /// The record that holds an entry. Number 0 up to the floor and beyond the end.
    pub(super) fn record_at(&self, index: Index) -> RecordId {
        match self.get(index) {
            Some(kept) => kept.record,
            None => self
                .run_at(index)
                .map_or(RecordId::ZERO, |(_, run)| run.record.plus(index.number() - run.first.number())),
        }
    }
    /// How many slots there are up to `index`, which is neither before the floor nor beyond the end.
    pub(super) fn slots_at(&self, index: Index) -> u64 {
        match self.get(index) {
            Some(kept) => kept.slots,
            None => self.run_at(index).map_or(self.floor_slots, |(_, run)| {
                run.slots + if run.batches { index.number() - run.first.number() + 1 } else { 0 }
            }),
        }
    }
    /// The index of the entry with this slot, if the slot is neither before the floor nor beyond the end.
    pub(super) fn index_of(&self, slot: u64) -> Option<Index> {
        if slot <= self.floor_slots || slot > self.slots {
            return (slot == self.floor_slots).then_some(self.floor.index);
        }
        // The last run that begins before the slot holds it: runs without batches begin and end at the same slot.
        let run = &self.runs[self.runs.partition_point(|run| run.slots < slot) - 1];
        Some(run.first.plus(slot - run.slots - 1))
    }

    /// The lowest slot of a checkpoint that the log from `index` on continues.
    pub(super) fn slot_from(&self, index: Index) -> u64 {
        if index == self.floor.index { self.floor_slots } else { self.slots_at(index.previous()) + 1 }
    }

    /// How many bytes there are up to `index`: exact for entries in memory, otherwise within the size of one run.
    pub(super) fn bytes_at(&self, index: Index) -> u64 {
        if let Some(kept) = self.get(index) {
            return kept.bytes;
        }
        let Some((at, run)) = self.run_at(index) else { return self.floor_bytes };
        let (end, end_bytes) = match self.runs.get(at + 1) {
            Some(next) => (next.first, next.bytes),
            None => (self.last.index.next(), self.bytes),
        };
        let count = u128::from(end.number() - run.first.number());
        let wanted = u128::from(index.number() - run.first.number() + 1);
        run.bytes + (u128::from(end_bytes.saturating_sub(run.bytes)) * wanted / count) as u64
    }

    /// The last index, not beyond `limit` or the end, whose view is at most `view`. None when it would lie before the floor.
    pub(super) fn last_with_view_up_to(&self, limit: Index, view: View) -> Option<Index> {
        if limit < self.floor.index || view < self.floor.view {
            return None;
        }
        let runs = self.runs.partition_point(|run| run.view <= view);
        let end = match self.runs.get(runs) {
            Some(beyond) => beyond.first.previous(),
            None => self.last.index,
        };
        Some(end.min(limit))
    }

    /// Adds an entry at the end, not durable yet.
    pub(super) fn push(&mut self, entry: Entry, record: RecordId) {
        assert!(entry.view >= self.last.view, "INV-RAFT-4: views grow along the log");
        let index = self.last.index.next();
        let batches = matches!(entry.body, EntryBody::Batch(_));
        let extends = self.runs.last().is_some_and(|run| {
            let count = index.number() - run.first.number();
            run.view == entry.view
                && run.batches == batches
                && run.record.plus(count) == record
                && count < RUN_ENTRIES
                && self.bytes.saturating_sub(run.bytes) < RUN_BYTES
        });
        if !extends {
            let (slots, bytes) = (self.slots, self.bytes);
            self.runs.push(Run { first: index, view: entry.view, record, batches, slots, bytes });
        }
        let size = entry_bytes(&entry);
        self.slots += u64::from(batches);
        self.bytes += size;
        self.kept_bytes += size;
        self.last = Position::new(index, entry.view);
        if let EntryBody::Members(memberships) = &entry.body {
            self.members.push((index, memberships.clone()));
            self.members_changes += 1;
        }
        self.kept.push_back(CachedEntry { entry, record, slots: self.slots, bytes: self.bytes });
    }

    /// Forgets everything after `last`.
    pub(super) fn truncate(&mut self, last: Index) {
        if last >= self.last.index {
            return;
        }
        let (slots, bytes, position) = (self.slots_at(last), self.bytes_at(last), self.position(last));
        while self.last.index > last {
            if let Some(gone) = self.kept.pop_back() {
                self.kept_bytes -= entry_bytes(&gone.entry);
                self.last.index = self.last.index.previous();
            } else {
                self.first_kept = last.next();
                break;
            }
        }
        while self.runs.last().is_some_and(|run| run.first > last) {
            self.runs.pop();
        }
        (self.slots, self.bytes, self.last) = (slots, bytes, position);
        self.durable = self.durable.min(last);
        while self.members.last().is_some_and(|(index, _)| *index > last) {
            self.members.pop();
            self.members_changes += 1;
        }
    }

    /// Makes the log begin after `floor`, empty. There are `slots` slots up to there, and these memberships hold there.
    pub(super) fn reset(&mut self, floor: Position, slots: u64, members: Option<Arc<Memberships>>) {
        let (bytes, changes) = (self.bytes, members.is_some() || !self.members.is_empty());
        *self = Self {
            floor,
            floor_slots: slots,
            floor_bytes: bytes,
            first_kept: floor.index.next(),
            last: floor,
            slots,
            bytes,
            durable: floor.index,
            members: members.map(|members| (floor.index, members)).into_iter().collect(),
            members_known: floor.index,
            members_changes: self.members_changes + u64::from(changes),
            ..Self::new()
        };
    }

    /// If this log ends at that position, with that many slots: the number of slots up to this log's own floor. Otherwise none.
    pub(super) fn begins_after(&self, (end, slots): (Position, u64)) -> Option<u64> {
        let begins = slots.checked_sub(self.slots).filter(|_| self.last == end)?;
        (begins == 0 || self.floor.index != Index::ZERO).then_some(begins)
    }

    /// Takes over the entries before the floor. `earlier` must end at the floor and be durable; it counts slots from its own floor. Returns
    /// false, and changes nothing, when the two do not fit.
    pub(super) fn extend_down(&mut self, earlier: &Self) -> bool {
        let Some(slots) = earlier.begins_after((self.floor, self.floor_slots)) else { return false };
        for run in &mut self.runs {
            run.bytes += earlier.bytes;
        }
        for kept in &mut self.kept {
            kept.bytes += earlier.bytes;
        }
        self.bytes += earlier.bytes;
        self.runs.splice(..0, earlier.runs.iter().map(|run| Run { slots: run.slots + slots, ..*run }));
        let (base, known_there) = (self.members_known, self.members_known == self.floor.index);
        if earlier.members.last().map(|(at, _)| *at) == self.members.first().map(|(at, _)| *at) {
            // It was said of the floor, and is the floor's own entry.
            self.members.drain(..1.min(self.members.len()));
        }
        if earlier.floor.index == Index::ZERO {
            self.members_known = Index::ZERO;
        } else if let Some((first, _)) = earlier.members.first() {
            self.members_known = *first;
        } else if known_there {
            self.members_known = earlier.floor.index;
            if let Some((at, _)) = self.members.first_mut().filter(|(at, _)| *at == base) {
                *at = earlier.floor.index;
            }
        }
        self.members.splice(..0, earlier.members.iter().cloned());
        (self.floor, self.floor_slots, self.floor_bytes) = (earlier.floor, slots, 0);
        true
    }

    /// Forgets everything up to `index`; a durable checkpoint holds it.
    pub(super) fn raise_floor(&mut self, index: Index) {
        let (slots, bytes, floor) = (self.slots_at(index), self.bytes_at(index), self.position(index));
        while self.first_kept <= index {
            self.evict_first();
        }
        let gone = self.runs.partition_point(|run| run.first <= index);
        if let Some(at) = gone.checked_sub(1) {
            let end = self.runs.get(gone).map_or(self.last.index.next(), |next| next.first);
            let begun = index.next() < end;
            let run = &mut self.runs[at];
            let count = index.next().number() - run.first.number();
            (run.first, run.record) = (index.next(), run.record.plus(count));
            (run.slots, run.bytes) = (slots, bytes);
            self.runs.drain(..if begun { at } else { gone });
        }
        (self.floor, self.floor_slots, self.floor_bytes) = (floor, slots, bytes);
        self.durable = self.durable.max(index);
        let old = self.members.partition_point(|(at, _)| *at <= index).saturating_sub(1);
        self.members.drain(..old);
        self.members_known = self.members_known.max(index);
    }

    /// A checkpoint says that these memberships hold at `index`, which lies within the log. False when the log says something else.
    pub(super) fn learn_members(&mut self, index: Index, members: Option<Arc<Memberships>>) -> bool {
        if let Some(known) = self.members_up_to(index) {
            return known == members.as_ref();
        }
        self.members.retain(|(at, _)| *at > index);
        self.members.splice(..0, members.map(|members| (index, members)));
        self.members_known = index;
        true
    }

    /// The memberships that hold; none before the first entry that names any.
    pub(super) fn members(&self) -> Option<&Arc<Memberships>> {
        self.members.last().map(|(_, members)| members)
    }
    /// The oldest memberships that are known.
    pub(super) fn first_members(&self) -> Option<&Arc<Memberships>> {
        self.members.first().map(|(_, members)| members)
    }
    /// The index of the last memberships.
    pub(super) fn members_at(&self) -> Option<Index> {
        self.members.last().map(|(index, _)| *index)
    }
    /// The memberships that held at `index`, and all later ones.
    pub(super) fn members_from(&self, index: Index) -> impl Iterator<Item = &Arc<Memberships>> {
        let first = self.members.partition_point(|(at, _)| *at <= index).saturating_sub(1);
        self.members[first..].iter().map(|(_, members)| members)
    }
    /// Whether the first known memberships come after `index`.
    pub(super) fn members_before(&self, index: Index) -> bool {
        self.members.first().is_none_or(|(at, _)| *at > index)
    }
    /// The memberships that held at `index`. `Some(None)`: no entry up to there names any. `None`: it is not known any more.
    pub(super) fn members_up_to(&self, index: Index) -> Option<Option<&Arc<Memberships>>> {
        let count = self.members.partition_point(|(at, _)| *at <= index);
        (index >= self.members_known).then(|| count.checked_sub(1).map(|at| &self.members[at].1))
    }
    /// A counter that grows with every change of the memberships, even when one is taken back.
    pub(super) fn members_changes(&self) -> u64 {
        self.members_changes
    }

    /// Every record up to this one is durable.
    pub(super) fn advance_durable(&mut self, record: RecordId) {
        while self.durable < self.last.index {
            let next = self.durable.next();
            if self.record_at(next) > record {
                break;
            }
            self.durable = next;
        }
    }

    /// Drops the first entry in memory. The runs still describe it.
    pub(super) fn evict_first(&mut self) {
        if let Some(gone) = self.kept.pop_front() {
            self.kept_bytes -= entry_bytes(&gone.entry);
            self.first_kept = self.first_kept.next();
        }
    }

    /// Entries from `from` on, which must be in memory: at least one, then as many as fit into `max_bytes` and `max_count`.
    pub(super) fn take(&self, from: Index, max_bytes: usize, max_count: usize) -> Vec<Entry> {
        let Some(at) = from.number().checked_sub(self.first_kept.number()) else { return Vec::new() };
        let at = at as usize;
        let mut bytes = 0;
        let mut count = 0;
        for kept in self.kept.iter().skip(at).take(max_count) {
            bytes += entry_bytes(&kept.entry);
            if count > 0 && bytes > max_bytes as u64 {
                break;
            }
            count += 1;
        }
        self.kept.iter().skip(at).take(count).map(|kept| kept.entry.clone()).collect()
    }

    /// The records of the entries `from..=to` that one question to the disk may ask for: at least one, then up to the end of the run in
    /// which they would exceed [`RUN_BYTES`].
    pub(super) fn records_to_load(&self, from: Index, to: Index) -> Vec<RecordId> {
        let mut records = Vec::new();
        let Some((mut at, run)) = self.run_at(from) else { return records };
        let start = run.bytes;
        let mut index = from;
        while let Some(run) = self.runs.get(at) {
            let end = self.runs.get(at + 1).map_or(self.last.index, |next| next.first.previous()).min(to);
            let full =
                self.bytes_at(end).saturating_sub(start) > RUN_BYTES || records.len() >= RUN_ENTRIES as usize;
            if index > end || (full && !records.is_empty()) {
                break;
            }
            while index <= end {
                records.push(run.record.plus(index.number() - run.first.number()));
                index = index.next();
            }
            at += 1;
        }
        records
    }

    /// Compares every run and entry with its neighbours.
    pub(super) fn check(&self) {
        let (mut slots, mut view) = (self.floor_slots, self.floor.view);
        let (mut record, mut expect) = (RecordId::ZERO, self.floor.index.next());
        for (at, run) in self.runs.iter().enumerate() {
            let end = self.runs.get(at + 1).map_or(self.last.index.next(), |next| next.first);
            assert!(run.first == expect && end > run.first, "INV-RAFT-3: the log has no gap: {run:?}");
            assert!(
                run.view >= view && run.view > View::ZERO,
                "INV-RAFT-4: views grow along the log: {run:?}"
            );
            assert!(run.record > record, "INV-RAFT-7: record ids grow along the log: {run:?}");
            assert!(run.slots == slots, "INV-RAFT-6: slots count batches: {run:?}");
            let count = end.number() - run.first.number();
            slots += if run.batches { count } else { 0 };
            (view, record, expect) = (run.view, run.record.plus(count - 1), end);
        }
        assert!(expect == self.last.index.next() && view == self.last.view, "INV-RAFT-3: the log has no gap");
        assert!(slots == self.slots, "INV-RAFT-6: slots count batches");
        assert!(
            self.floor.index <= self.durable && self.floor.index < self.first_kept,
            "INV-RAFT-15: the log begins after its floor, which a checkpoint holds"
        );
        let mut index = self.first_kept;
        for kept in &self.kept {
            let (_, run) = self.run_at(index).expect("INV-RAFT-3: what is kept is within the log");
            let offset = index.number() - run.first.number();
            assert!(
                kept.entry.view == run.view && kept.record == run.record.plus(offset),
                "INV-RAFT-3 at {index}"
            );
            let batches = if run.batches { offset + 1 } else { 0 };
            assert!(kept.slots == run.slots + batches, "INV-RAFT-6: slots count batches, at {index}");
            index = index.next();
        }
        assert!(index == self.last.index.next(), "INV-RAFT-3: what is kept reaches the log's end");
    }
}
