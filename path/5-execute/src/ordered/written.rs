//! Who wrote what, at which place in the order, and whether a run saw what it would see at its own place.
//!
//! Kept are the writes of requests that ran and are not final, and those that became final since the oldest version that a run began with.
//! A run sees the last write of a key before its own place. Either that is in the version, or it was given to the run, or the run is void.

use crate::hints::{Hint, within};
use crate::view::{Earlier, RangeEnd, RangeRead, Reads, RunId};
use bytes::Bytes;
use quorate_state::store::Version;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

#[derive(Debug)]
struct Write {
    at: u64,
    run: RunId,
    value: Value,
}

#[derive(Debug, PartialEq, Eq)]
enum Value {
    Is(Bytes),
    Removed,
    /// It is final, so every version that a run begins with from now on has it.
    Final,
}

impl From<Option<Bytes>> for Value {
    fn from(value: Option<Bytes>) -> Self {
        value.map_or(Self::Removed, Self::Is)
    }
}

/// A range that a run read.
#[derive(Debug)]
struct Covered {
    start: Box<[u8]>,
    end: RangeEnd,
}

/// The writes, and the readers among the requests that ran.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// In the order of the places.
    keys: BTreeMap<Box<[u8]>, VecDeque<Write>>,
    readers: BTreeMap<Box<[u8]>, BTreeSet<u64>>,
    range_readers: BTreeMap<u64, Vec<Covered>>,
    /// The places that became final, with the keys that were written there.
    finals: VecDeque<(u64, Vec<Box<[u8]>>)>,
}

impl Written {
    /// The last write of a key before this place, if it is not in the version that begins at `base`.
    fn seen(&self, key: &[u8], at: u64, base: u64) -> Option<&Write> {
        let writes = self.keys.get(key)?;
        let before = writes.partition_point(|write| write.at < at);
        writes.get(before.checked_sub(1)?).filter(|write| write.at >= base)
    }

    /// The writes that a run at this place needs beside the version that begins at `base`: of these keys.
    pub(super) fn earlier(&self, at: u64, base: u64, hints: &[Hint], last: Option<&Reads>) -> Vec<Earlier> {
        let mut keys: BTreeSet<&[u8]> = BTreeSet::new();
        for hint in hints {
            match hint {
                Hint::Read(key) | Hint::Write(key) => drop(keys.insert(key)),
                Hint::Range(start, end) => {
                    let range = within(start, end.as_deref());
                    keys.extend(self.keys.range::<[u8], _>(range).map(|(key, _)| &**key));
                }
            }
        }
        if let Some(reads) = last {
            keys.extend(reads.keys.keys().map(|key| &**key));
            keys.extend(reads.ranges.iter().flat_map(|range| self.within(range)));
        }
        keys.into_iter().filter_map(|key| self.one(key, at, base)).collect()
    }

    /// All writes before this place that are not in the version.
    pub(super) fn all_earlier(&self, at: u64, base: u64) -> Vec<Earlier> {
        self.keys.keys().filter_map(|key| self.one(key, at, base)).collect()
    }

    fn one(&self, key: &[u8], at: u64, base: u64) -> Option<Earlier> {
        let Write { run, value, .. } = self.seen(key, at, base)?;
        let value = match value {
            Value::Is(value) => Some(value.clone()),
            Value::Removed => None,
            Value::Final => return None,
        };
        Some(Earlier { key: key.into(), run: *run, value })
    }

    /// The keys with writes in a range that was read.
    fn within<'a>(&'a self, range: &'a RangeRead) -> impl Iterator<Item = &'a [u8]> {
        let from = (Bound::Included(&*range.start), Bound::Unbounded);
        let keys = self.keys.range::<[u8], _>(from).map(|(key, _)| &**key);
        keys.take_while(|key| range.end.covers(key))
    }

    /// Whether a run that read this sees the same at its place, now that all before it ran.
    pub(super) fn agrees(&self, at: u64, base: u64, reads: &Reads) -> bool {
        let run_of = |key: &[u8]| self.seen(key, at, base).map(|write| write.run);
        let ranges_agree = reads.ranges.iter().all(|range| {
            let seen = self.within(range).filter_map(|key| Some((key, run_of(key)?)));
            seen.eq(range.saw.iter().map(|(key, run)| (&**key, *run)))
        });
        ranges_agree && reads.keys.iter().all(|(key, saw)| run_of(key) == *saw)
    }

    /// A request ran, perhaps not for the first time. Gives those after it that may have to run again.
    pub(super) fn ran(
        &mut self,
        at: u64,
        run: RunId,
        before: &[Box<[u8]>],
        writes: &BTreeMap<Box<[u8]>, Option<Bytes>>,
    ) -> BTreeSet<u64> {
        let gone: Vec<_> = before.iter().filter(|key| !writes.contains_key(*key)).cloned().collect();
        let mut touched = self.void(at, &gone);
        for (key, value) in writes {
            if self.write(at, run, key, value.clone()) {
                self.touch(key, at, &mut touched);
            }
        }
        touched
    }

    /// Notes a write. One that writes what an earlier run at this place wrote is the same write. Whether it is another one.
    fn write(&mut self, at: u64, run: RunId, key: &[u8], value: Option<Bytes>) -> bool {
        let write = Write { at, run, value: value.into() };
        let Some(list) = self.keys.get_mut(key) else {
            self.keys.insert(key.into(), [write].into());
            return true;
        };
        let place = list.partition_point(|other| other.at < at);
        match list.get_mut(place) {
            Some(same) if same.at == at && same.value == write.value => return false,
            Some(same) if same.at == at => *same = write,
            _ => list.insert(place, write),
        }
        true
    }

    /// What was written at a place does not count. Gives those after it that may have to run again.
    pub(super) fn void(&mut self, at: u64, keys: &[Box<[u8]>]) -> BTreeSet<u64> {
        let mut touched = BTreeSet::new();
        for key in keys {
            self.take_out(at, key);
            self.touch(key, at, &mut touched);
        }
        touched
    }

    fn take_out(&mut self, at: u64, key: &[u8]) {
        let Some(list) = self.keys.get_mut(key) else { return };
        if let Ok(place) = list.binary_search_by_key(&at, |write| write.at) {
            list.remove(place);
        }
        if list.is_empty() {
            self.keys.remove(key);
        }
    }

    /// Adds those after this place that read the key.
    fn touch(&self, key: &[u8], at: u64, touched: &mut BTreeSet<u64>) {
        if let Some(readers) = self.readers.get(key) {
            touched.extend(readers.range(at + 1..));
        }
        for (reader, ranges) in self.range_readers.range(at + 1..) {
            if ranges.iter().any(|range| *key >= *range.start && range.end.covers(key)) {
                touched.insert(*reader);
            }
        }
    }

    /// A request that ran read this.
    pub(super) fn reads(&mut self, at: u64, reads: &Reads) {
        for key in reads.keys.keys() {
            self.readers.entry(key.clone()).or_default().insert(at);
        }
        if !reads.ranges.is_empty() {
            let covered = |range: &RangeRead| Covered { start: range.start.clone(), end: range.end.clone() };
            let ranges = reads.ranges.iter().map(covered);
            self.range_readers.insert(at, ranges.collect());
        }
    }

    /// A request runs again, or is final: it is no reader any more.
    pub(super) fn forget_reads(&mut self, at: u64, reads: &Reads) {
        for key in reads.keys.keys() {
            if let Some(readers) = self.readers.get_mut(key) {
                readers.remove(&at);
                if readers.is_empty() {
                    self.readers.remove(key);
                }
            }
        }
        self.range_readers.remove(&at);
    }

    /// What a step on the lane changed, at its place, where a run wrote these keys before.
    pub(super) fn changed(
        &mut self,
        at: u64,
        run: RunId,
        wrote: &[Box<[u8]>],
        (before, after): (&Version, &Version),
    ) -> BTreeSet<u64> {
        let value = |value: Option<&[u8]>| value.map(Bytes::copy_from_slice);
        let writes: BTreeMap<Box<[u8]>, Option<Bytes>> =
            after.changes_since(before).map(|(key, now)| (key.into(), value(now))).collect();
        let touched = self.ran(at, run, wrote, &writes);
        self.became_final(at, writes.into_keys().collect());
        touched
    }

    /// A place is final, with the keys that were written there.
    pub(super) fn became_final(&mut self, at: u64, keys: Vec<Box<[u8]>>) {
        for key in &keys {
            if let Some(list) = self.keys.get_mut(key)
                && let Ok(place) = list.binary_search_by_key(&at, |write| write.at)
            {
                list[place].value = Value::Final;
            }
        }
        if !keys.is_empty() {
            self.finals.push_back((at, keys));
        }
    }

    /// Whether final writes should be looked through.
    pub(super) fn has_many_finals(&self, most: usize) -> bool {
        self.finals.len() > most
    }

    /// No run begins with a version from before this place.
    pub(super) fn forget_before(&mut self, base: u64) {
        while let Some((at, keys)) = self.finals.pop_front_if(|(at, _)| *at < base) {
            keys.iter().for_each(|key| self.take_out(at, key));
        }
    }

    /// Whether nothing is kept.
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.readers.is_empty() && self.range_readers.is_empty()
    }
}
