//! Leaves: buckets with the entries of a small subtree, and large entries.
//!
//! A bucket is two allocations. The body holds the records in key order, exactly the bytes that digests cover. The index holds the heads of
//! all entries (4 bytes of each key, from where the keys differ) and the offsets of their records. So a search reads the index, and in the
//! body only the record that it looks for. The indexes of a million entries are small enough to stay in the processor's caches. Both have
//! some free room, so most changes happen in place.
//!
//! Invariants: INV-STORE-2 (a bucket's bytes are changed only while it is not shared, which `Arc::get_mut` enforces), INV-STORE-3 (a
//! group's digest is known only if no entry of the group changed since).
//! Tests: `tests/all/store.rs`, which compares with a simple model.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use quorate_types::{Digest, planted};
use triomphe::{Arc, HeaderSlice, UniqueArc};

use super::rules::{self, GROUPS};
use super::symbols::common;

/// An entry: key and value.
pub(super) type Entry<'a> = (&'a [u8], &'a [u8]);

/// Memory for a digest. Whether it holds one is noted elsewhere. Several threads may write the same digest at the same time.
#[derive(Default)]
pub(super) struct DigestCell([AtomicU64; 4]);

impl DigestCell {
    pub(super) fn get(&self) -> Digest {
        let mut bytes = [0; 32];
        for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(&self.0) {
            *to = word.load(Ordering::Relaxed).to_le_bytes();
        }
        Digest::new(bytes)
    }
    pub(super) fn set(&self, digest: &Digest) {
        for (word, bytes) in self.0.iter().zip(digest.bytes().as_chunks::<8>().0) {
            word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
    }
}

impl Clone for DigestCell {
    fn clone(&self) -> Self {
        let copy = |at: usize| AtomicU64::new(self.0[at].load(Ordering::Relaxed));
        Self([copy(0), copy(1), copy(2), copy(3)])
    }
}

/// An entry in a leaf of its own, because its cost is over `BUCKET_BYTES`.
pub(super) struct Large {
    pub(super) key: Box<[u8]>,
    pub(super) value: Box<[u8]>,
    value_digest: OnceLock<Digest>,
}

impl Large {
    pub(super) fn new(key: &[u8], value: &[u8]) -> Arc<Self> {
        Arc::new(Self { key: key.into(), value: value.into(), value_digest: OnceLock::new() })
    }
    /// Gives it another value, in place if possible.
    pub(super) fn put(this: &mut Arc<Self>, value: &[u8]) {
        match Arc::get_mut(this) {
            Some(large) if large.value.len() == value.len() => {
                large.value.copy_from_slice(value);
                large.value_digest.take();
            }
            _ => *this = Self::new(&this.key, value),
        }
    }
    pub(super) fn value_digest(&self) -> Digest {
        *self.value_digest.get_or_init(|| rules::large_value(&self.value))
    }
    pub(super) fn digest(&self) -> Digest {
        rules::large(&self.key, self.value.len() as u32, &self.value_digest())
    }
    pub(super) fn cost(&self) -> u64 {
        rules::cost(&self.key, &self.value)
    }
}

/// The entries of a subtree, sorted. Not empty.
#[derive(Clone)]
pub(super) struct Bucket(Arc<HeaderSlice<Head, [Row]>>);

/// The beginning of an index.
struct Head {
    count: u32,
    /// How many symbols all keys have in common; for a single key, its half bytes.
    common: u32,
    /// Bytes of all records: the cost.
    used: u32,
    /// Which groups' digests are known.
    known: AtomicU32,
    body: Body,
}

/// The groups' digests, and the records from the front on.
type Body = UniqueArc<HeaderSlice<[DigestCell; GROUPS], [u8]>>;

/// A part of an index: the heads of some entries, and where their records begin.
#[derive(Clone, Copy)]
struct Row {
    heads: [u32; ROW],
    places: [u16; ROW],
}

/// Entries in a row.
const ROW: usize = 8;
/// The row after the last entry; no head is above it.
const NO_ROW: Row = Row { heads: [u32::MAX; ROW], places: [0; ROW] };
/// Bytes of a record before the key.
const RECORD: usize = 8;

/// The length of a body for this many bytes of records. With the bytes before them it gets a size class of allocators: there are four for
/// each doubling.
fn room_for(bytes: usize) -> usize {
    let fixed = size_of::<[DigestCell; GROUPS]>() + size_of::<usize>();
    let whole = bytes + fixed;
    whole.next_multiple_of((whole.next_power_of_two() / 8).max(16)) - fixed
}

fn body(groups: [DigestCell; GROUPS], records: &[u8]) -> Body {
    let body = Arc::from_header_and_slice(groups, records);
    Body::try_from(body).unwrap_or_else(|_| unreachable!("INV-STORE-2: nobody shares what was just made"))
}

/// The first four bytes of a key from the byte on in which the keys of a bucket differ; missing ones are 0.
#[inline]
fn head_of(key: &[u8], common: u32) -> u32 {
    let rest = key.get(common as usize / 2..).unwrap_or_default();
    match rest.first_chunk::<4>() {
        Some(head) => u32::from_be_bytes(*head),
        None => {
            let mut head = [0; 4];
            head[..rest.len()].copy_from_slice(rest);
            u32::from_be_bytes(head)
        }
    }
}

/// The group of the entry with this head; as `rules::group_of`, since a missing half byte is 0 here.
fn group_of(head: u32, common: u32) -> usize {
    let nibble = if common.is_multiple_of(2) { head >> 28 } else { head >> 24 & 15 };
    nibble as usize >> 2
}

impl Bucket {
    /// A bucket with these entries, which are sorted and not too many.
    pub(super) fn new(entries: &[Entry<'_>]) -> Self {
        let used: usize = entries.iter().map(|(key, value)| RECORD + key.len() + value.len()).sum();
        let shared = match entries {
            [(key, _)] => 2 * key.len(),
            _ => common(entries[0].0, entries[entries.len() - 1].0),
        };
        let mut records = Vec::with_capacity(room_for(used));
        let mut index = vec![NO_ROW; entries.len().div_ceil(ROW)];
        for (at, (key, value)) in entries.iter().enumerate() {
            index[at / ROW].heads[at % ROW] = head_of(key, shared as u32);
            index[at / ROW].places[at % ROW] = records.len() as u16;
            records.extend_from_slice(&(key.len() as u32).to_le_bytes());
            records.extend_from_slice(&(value.len() as u32).to_le_bytes());
            records.extend_from_slice(key);
            records.extend_from_slice(value);
        }
        records.resize(records.capacity(), 0);
        let head = Head {
            count: entries.len() as u32,
            common: shared as u32,
            used: used as u32,
            known: AtomicU32::new(0),
            body: body(Default::default(), &records),
        };
        Self(Arc::from_header_and_slice(head, &index))
    }

    /// A copy with room for this many more entries and bytes.
    #[inline(never)]
    fn copy(&self, entries: usize, bytes: usize) -> Self {
        let View { head, index, records } = self.view();
        let (rows, used) = ((head.count as usize + entries).div_ceil(ROW), head.used as usize);
        // Known digests are read first: another thread may add one meanwhile, or not.
        let known = AtomicU32::new(head.known.load(Ordering::Acquire));
        let groups = head.body.header.clone();
        let body = if used + bytes <= records.len() && records.len() <= 2 * used {
            body(groups, records)
        } else {
            let mut more = Vec::with_capacity(room_for(used + bytes));
            more.extend_from_slice(&records[..used]);
            more.resize(more.capacity(), 0);
            body(groups, &more)
        };
        let head = Head { count: head.count, common: head.common, used: head.used, known, body };
        Self(match index.get(..rows) {
            Some(index) => Arc::from_header_and_slice(head, index),
            None => Arc::from_header_and_vec(head, [index, &vec![NO_ROW; rows - index.len()]].concat()),
        })
    }

    #[inline]
    fn view(&self) -> View<'_> {
        let HeaderSlice { header, slice } = &*self.0;
        View { head: header, index: slice, records: &header.body.slice }
    }

    /// The bucket, to be changed, with room for this many more entries and bytes: a copy if a version shares it, or if it lacks room.
    #[inline]
    fn own(&mut self, entries: usize, bytes: usize) -> Edit<'_> {
        let View { head, index, records } = self.view();
        let (count, used) = (head.count as usize + entries, head.used as usize + bytes);
        if !Arc::is_unique(&self.0) || count > ROW * index.len() || used > records.len() {
            *self = self.copy(entries, bytes);
        }
        let bucket = Arc::get_mut(&mut self.0).expect("INV-STORE-2: nobody shares it");
        Edit { head: &mut bucket.header, index: &mut bucket.slice }
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.0.header.count as usize
    }
    pub(super) fn cost(&self) -> u64 {
        u64::from(self.0.header.used)
    }
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
    /// All records, one after another.
    pub(super) fn records(&self) -> &[u8] {
        &self.view().records[..self.0.header.used as usize]
    }
    /// The entries in key order.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let view = self.view();
        (0..self.count()).map(move |at| view.entry(at))
    }
    #[inline]
    pub(super) fn entry(&self, at: usize) -> Entry<'_> {
        self.view().entry(at)
    }
    #[inline]
    pub(super) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let view = self.view();
        view.find(key).ok().map(|at| view.entry(at).1)
    }
    /// The index of the key, or, if the key has what all keys have in common, where it would be.
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> Result<usize, usize> {
        self.view().find(key)
    }

    /// The first entry whose key is not below this one, whatever it has in common with the others.
    pub(super) fn lower_bound(&self, key: &[u8]) -> usize {
        let (mut first, mut end) = (0, self.count());
        while first < end {
            let middle = (first + end) / 2;
            if self.entry(middle).0 < key { first = middle + 1 } else { end = middle }
        }
        first
    }

    /// Overwrites the key's value, if the old value has the same length and the entry is the first with its head; otherwise nothing
    /// happens.
    #[inline]
    pub(super) fn overwrite(&mut self, key: &[u8], value: &[u8]) -> bool {
        let view = self.view();
        let head = head_of(key, view.head.common);
        let at = view.below(head);
        if at >= self.count() || view.head(at) != head {
            return false;
        }
        let start = view.place(at);
        let record = view.records.get(start..).and_then(|records| records.get(..RECORD + key.len()));
        let Some((lengths, other)) = record.and_then(|record| record.split_first_chunk::<RECORD>()) else {
            return false;
        };
        if u64::from_le_bytes(*lengths) != key.len() as u64 | (value.len() as u64) << 32 || other != key {
            return false;
        }
        let group = group_of(head, view.head.common);
        let edit = self.own(0, 0);
        if !planted("stale-digest") {
            *edit.head.known.get_mut() &= !(1 << group);
        }
        let start = start + RECORD + key.len();
        edit.head.body.slice[start..start + value.len()].copy_from_slice(value);
        true
    }

    /// Gives an entry another value; the cost stays in bounds.
    pub(super) fn put_at(&mut self, at: usize, value: &[u8]) {
        let more = value.len().saturating_sub(self.entry(at).1.len());
        self.own(0, more).set_value(at, value);
    }

    /// Adds an entry with a new key; the cost stays in bounds.
    pub(super) fn insert(&mut self, key: &[u8], value: &[u8]) {
        let mut bucket = self.own(1, RECORD + key.len() + value.len());
        let shared = common(key, bucket.view().entry(0).0) as u32;
        if shared < bucket.head.common {
            bucket.set_common(shared);
        }
        let at = bucket.view().find(key).unwrap_or_else(|at| at);
        bucket.insert(at, key, value);
    }

    /// Removes an entry, which is not the last one.
    pub(super) fn remove(&mut self, at: usize) {
        if self.view().records.len() > 2 * self.0.header.used as usize + 256 {
            *self = self.copy(0, 0);
        }
        let mut bucket = self.own(0, 0);
        bucket.remove(at);
        let last = bucket.head.count as usize - 1;
        if at == 0 || at > last {
            let (first, last) = (bucket.view().entry(0).0, bucket.view().entry(last).0);
            let shared = common(first, last) as u32;
            if shared != bucket.head.common {
                bucket.set_common(shared);
            }
        }
    }

    /// Reads the index: its rows are a little shorter than lines of memory.
    pub(super) fn read_index_ahead(&self) -> u64 {
        self.0.slice.iter().map(|row| u64::from(row.heads[0])).sum()
    }

    /// Where the record of this key is in the body, or that of another key near it.
    pub(super) fn place_for(&self, key: &[u8]) -> usize {
        let view = self.view();
        let at = view.below(head_of(key, view.head.common));
        if at < self.count() { view.place(at) } else { 0 }
    }

    /// Reads the memory that a change of the record at this place will need.
    pub(super) fn read_ahead(&self, place: usize) -> u64 {
        let records = self.view().records;
        // The record often lies across two lines of memory.
        let byte = |at: usize| u64::from(records.get(at).copied().unwrap_or(0));
        byte(place) + byte(place + 64)
    }

    /// Reads the memory that the digest will need: the groups that changed, and the digests of the others.
    pub(super) fn read_ahead_for_digest(&self) -> u64 {
        let View { head, records, .. } = self.view();
        let (known, mut at, mut read) = (head.known.load(Ordering::Relaxed), 0, 0);
        for group in 0..GROUPS {
            let end = self.end_of_group(group, at);
            if known & 1 << group == 0 {
                let records = &records[self.view().start(at)..self.view().start(end)];
                read += records.iter().step_by(64).map(|byte| u64::from(*byte)).sum::<u64>();
            }
            at = end;
        }
        read + u64::from(head.body.header[0].get().bytes()[0])
            + u64::from(head.body.header[GROUPS - 1].get().bytes()[0])
    }

    /// The index after the last entry of the group that begins here.
    fn end_of_group(&self, group: usize, from: usize) -> usize {
        let (view, mut end) = (self.view(), from);
        while end < self.count() && group_of(view.head(end), view.head.common) == group {
            end += 1;
        }
        end
    }

    /// The digest. The digests of groups that did not change are kept.
    pub(super) fn digest(&self) -> Digest {
        let View { head, records, .. } = self.view();
        let known = head.known.load(Ordering::Acquire);
        let (mut groups, mut at) = ([Digest::new([0; 32]); GROUPS], 0);
        for (group, digest) in groups.iter_mut().enumerate() {
            let end = self.end_of_group(group, at);
            if known & 1 << group != 0 {
                *digest = head.body.header[group].get();
            } else {
                *digest = rules::group(&records[self.view().start(at)..self.view().start(end)]);
                head.body.header[group].set(digest);
            }
            at = end;
        }
        head.known.store((1 << GROUPS) - 1, Ordering::Release);
        rules::bucket(&groups)
    }
}

/// A bucket to read.
#[derive(Clone, Copy)]
struct View<'b> {
    head: &'b Head,
    index: &'b [Row],
    records: &'b [u8],
}

impl<'b> View<'b> {
    #[inline]
    fn head(self, at: usize) -> u32 {
        self.index[at / ROW].heads[at % ROW]
    }
    /// Where a record begins.
    #[inline]
    fn place(self, at: usize) -> usize {
        usize::from(self.index[at / ROW].places[at % ROW])
    }
    /// Where a record begins, or all of them end.
    fn start(self, at: usize) -> usize {
        if at < self.head.count as usize { self.place(at) } else { self.head.used as usize }
    }
    #[inline]
    fn entry(self, at: usize) -> Entry<'b> {
        let (lengths, rest) = self.records[self.place(at)..].split_at(RECORD);
        let (key, value) = (word(&lengths[..4]), word(&lengths[4..]));
        let (key, rest) = rest.split_at(key);
        (key, &rest[..value])
    }
    #[inline]
    fn find(self, key: &[u8]) -> Result<usize, usize> {
        let head = head_of(key, self.head.common);
        let first = if self.index.len() > 8 { self.below_in_many(head) } else { self.below(head) };
        self.find_from(first, head, key)
    }
    /// How many heads are below this one. All rows are read: their number is known before any of them arrives from memory.
    #[inline]
    fn below(self, head: u32) -> usize {
        let below = |row: &Row| row.heads.iter().map(|&other| u32::from(other < head)).sum::<u32>();
        self.index.iter().map(below).sum::<u32>() as usize
    }
    #[inline(never)]
    fn below_in_many(self, head: u32) -> usize {
        let row = self.index.partition_point(|row| row.heads[ROW - 1] < head);
        let rest = self.index.get(row).map_or(0, |row| row.heads.partition_point(|&other| other < head));
        ROW * row + rest
    }
    #[inline]
    fn find_from(self, first: usize, head: u32, key: &[u8]) -> Result<usize, usize> {
        let (mut at, count) = (first, self.head.count as usize);
        while at < count && self.head(at) == head {
            match self.entry(at).0 {
                other if other == key => return Ok(at),
                other if other > key => return Err(at),
                _ => at += 1,
            }
        }
        Err(at)
    }
}

/// A bucket to change, which is not shared and has the room.
struct Edit<'b> {
    head: &'b mut Head,
    index: &'b mut [Row],
}

impl Edit<'_> {
    #[inline]
    fn view(&self) -> View<'_> {
        View { head: self.head, index: self.index, records: &self.head.body.slice }
    }
    #[inline]
    fn records(&mut self) -> &mut [u8] {
        &mut self.head.body.slice
    }

    fn set_value(&mut self, at: usize, value: &[u8]) {
        self.touch(at);
        let (start, (key, old), used) =
            (self.view().place(at), self.view().entry(at), self.head.used as usize);
        let (from, old) = (start + RECORD + key.len(), old.len());
        let records = self.records();
        records[start + 4..start + RECORD].copy_from_slice(&(value.len() as u32).to_le_bytes());
        records.copy_within(from + old..used, from + value.len());
        records[from..from + value.len()].copy_from_slice(value);
        self.move_places(at + 1, value.len().wrapping_sub(old));
        self.head.used = (used + value.len() - old) as u32;
    }

    fn insert(&mut self, at: usize, key: &[u8], value: &[u8]) {
        let (count, used, record) =
            (self.head.count as usize, self.head.used, RECORD + key.len() + value.len());
        let start = self.view().start(at);
        let records = self.records();
        records.copy_within(start..used as usize, start + record);
        let (lengths, rest) = records[start..].split_at_mut(RECORD);
        lengths[..4].copy_from_slice(&(key.len() as u32).to_le_bytes());
        lengths[4..].copy_from_slice(&(value.len() as u32).to_le_bytes());
        rest[..key.len()].copy_from_slice(key);
        rest[key.len()..key.len() + value.len()].copy_from_slice(value);
        for other in (at..count).rev() {
            let (head, place) = (self.view().head(other), self.view().place(other) + record);
            self.set(other + 1, head, place);
        }
        self.set(at, head_of(key, self.head.common), start);
        self.head.count += 1;
        self.head.used += record as u32;
        self.touch(at);
    }

    fn remove(&mut self, at: usize) {
        self.touch(at);
        let (count, used, (key, value)) =
            (self.head.count as usize, self.head.used as usize, self.view().entry(at));
        let (start, record) = (self.view().place(at), RECORD + key.len() + value.len());
        self.records().copy_within(start + record..used, start);
        for other in at + 1..count {
            let (head, place) = (self.view().head(other), self.view().place(other) - record);
            self.set(other - 1, head, place);
        }
        self.set(count - 1, u32::MAX, 0);
        self.head.count -= 1;
        self.head.used -= record as u32;
    }

    /// The digest of this entry's group is not known any more.
    #[inline]
    fn touch(&mut self, at: usize) {
        if !planted("stale-digest") {
            let group = group_of(self.view().head(at), self.head.common);
            *self.head.known.get_mut() &= !(1 << group);
        }
    }

    fn set_common(&mut self, shared: u32) {
        self.head.common = shared;
        *self.head.known.get_mut() = 0;
        for at in 0..self.head.count as usize {
            let head = head_of(self.view().entry(at).0, shared);
            self.set(at, head, self.view().place(at));
        }
    }

    #[inline]
    fn set(&mut self, at: usize, head: u32, place: usize) {
        let row = &mut self.index[at / ROW];
        (row.heads[at % ROW], row.places[at % ROW]) = (head, place as u16);
    }
    /// The records from this one on begin this many bytes later.
    fn move_places(&mut self, first: usize, by: usize) {
        for at in first..self.head.count as usize {
            let place = &mut self.index[at / ROW].places[at % ROW];
            *place = place.wrapping_add(by as u16);
        }
    }
}

#[inline]
fn word(bytes: &[u8]) -> usize {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize
}
