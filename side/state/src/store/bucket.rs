//! Leaves: the entries of a small subtree side by side in one allocation, and large entries.
//!
//! A bucket's bytes hold, from the front, the heads of all entries (4 bytes of the key each, from the place on where the keys differ),
//! then their records' places (2 bytes each, counted from the end), and at the back the records in key order, exactly the bytes that
//! digests are taken over. The room between lets most changes happen in place; a search reads the heads and one record.
//!
//! Invariants: INV-STORE-2 (a bucket's bytes are only changed while nobody shares them, which `Arc::get_mut` enforces), INV-STORE-3 (a
//! group's digest is known only if no entry of the group changed since).
//! Tests: `tests/store.rs`, which compares with a simple model.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use quorate_types::{Digest, planted};

use super::rules::{self, GROUPS};
use super::symbols::common;

/// An entry: key and value.
pub(super) type Entry<'a> = (&'a [u8], &'a [u8]);

/// Room for a digest. Whether there is one is said elsewhere. Several threads may write the same one at the same time.
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

/// An entry in a leaf of its own, since its cost is over `BUCKET_BYTES`.
pub(super) struct Large {
    pub(super) key: Box<[u8]>,
    pub(super) value: Box<[u8]>,
    value_digest: OnceLock<Digest>,
}

impl Large {
    pub(super) fn new(key: &[u8], value: &[u8]) -> Arc<Self> {
        Arc::new(Self { key: key.into(), value: value.into(), value_digest: OnceLock::new() })
    }
    /// Gives it another value, in place where it can.
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
// In this order a search waits for memory twice: for the numbers (beside the reference counts) together with the heads, and for a record.
#[repr(C)]
pub(super) struct Bucket<B: ?Sized = [u8]> {
    count: u32,
    /// How many symbols all keys have in common; of a single key, its half bytes.
    common: u32,
    /// Bytes of all records: the cost.
    used: u32,
    /// Which groups' digests are known.
    known: AtomicU32,
    groups: [DigestCell; GROUPS],
    bytes: B,
}

impl<const N: usize> Default for Bucket<[u8; N]> {
    fn default() -> Self {
        Self {
            groups: Default::default(),
            known: AtomicU32::new(0),
            common: 0,
            used: 0,
            count: 0,
            bytes: [0; N],
        }
    }
}

/// What a bucket and its reference counts take beside the bytes.
const FIXED: usize = size_of::<Bucket<[u8; 0]>>() + 16;
/// Bytes of an entry outside its record.
const INDEX: usize = 6;
/// Bytes of a record before the key.
const RECORD: usize = 8;

/// An empty bucket with at least so many bytes. The sizes are those that allocators have: four for each doubling.
fn allocate(bytes: usize) -> Arc<Bucket> {
    macro_rules! sizes {
        ($($size:literal)*) => {
            match bytes + FIXED {
                $(..=$size => Arc::<Bucket<[u8; $size - FIXED]>>::default(),)*
                _ => panic!("INV-STORE-4: a bucket of {bytes} bytes"),
            }
        };
    }
    sizes!(256 320 384 448 512 640 768 896 1024 1280 1536 1792 2048 2560 3072 3584 4096 5120 6144 7168 8192)
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

/// The group of the entry with this head: as `rules::group_of`, since a missing half byte is 0 here.
fn group_of(head: u32, common: u32) -> usize {
    let nibble = if common.is_multiple_of(2) { head >> 28 } else { head >> 24 & 15 };
    nibble as usize >> 2
}

impl Bucket {
    /// A bucket with these entries, which are sorted and not too many.
    pub(super) fn new(entries: &[Entry<'_>]) -> Arc<Self> {
        let used: usize = entries.iter().map(|(key, value)| RECORD + key.len() + value.len()).sum();
        let mut made = allocate(used + INDEX * entries.len());
        let bucket = alone(&mut made);
        let [first, .., last] = entries else {
            let (key, _) = entries[0];
            bucket.fill(entries, used, 2 * key.len());
            return made;
        };
        bucket.fill(entries, used, common(first.0, last.0));
        made
    }

    fn fill(&mut self, entries: &[Entry<'_>], used: usize, common: usize) {
        (self.common, self.used, self.count) = (common as u32, used as u32, entries.len() as u32);
        let mut left = used;
        for (at, (key, value)) in entries.iter().enumerate() {
            self.set_head(at, head_of(key, self.common));
            self.set_place(at, left);
            let start = self.bytes.len() - left;
            self.write(start, key, value);
            left -= RECORD + key.len() + value.len();
        }
    }

    /// A copy with room for so many bytes more.
    pub(super) fn copy(&self, more: usize) -> Arc<Self> {
        let (used, index) = (self.used as usize, INDEX * self.count as usize);
        let mut made = allocate(used + index + more);
        let copy = alone(&mut made);
        copy.groups = self.groups.clone();
        *copy.known.get_mut() = self.known.load(Ordering::Acquire);
        (copy.common, copy.used, copy.count) = (self.common, self.used, self.count);
        copy.bytes[..index].copy_from_slice(&self.bytes[..index]);
        let start = copy.bytes.len() - used;
        copy.bytes[start..].copy_from_slice(self.records());
        made
    }

    pub(super) fn count(&self) -> usize {
        self.count as usize
    }
    pub(super) fn cost(&self) -> u64 {
        u64::from(self.used)
    }
    /// All records, one after another.
    pub(super) fn records(&self) -> &[u8] {
        &self.bytes[self.bytes.len() - self.used as usize..]
    }
    /// The entries in key order.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        (0..self.count()).map(|at| self.entry(at))
    }
    #[inline]
    pub(super) fn entry(&self, at: usize) -> Entry<'_> {
        let start = self.bytes.len() - self.place(at);
        let (lengths, rest) = self.bytes[start..].split_at(RECORD);
        let (key, value) = (word(&lengths[..4]), word(&lengths[4..]));
        let (key, rest) = rest.split_at(key);
        (key, &rest[..value])
    }
    pub(super) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.find(key).ok().map(|at| self.entry(at).1)
    }

    /// Where the key is, or (if it has what all keys have in common) where it would be.
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> Result<usize, usize> {
        let (heads, head) = (self.heads(), head_of(key, self.common));
        let mut first = if heads.len() > 64 {
            heads.partition_point(|other| u32::from_le_bytes(*other) < head)
        } else {
            heads.iter().filter(|other| u32::from_le_bytes(**other) < head).count()
        };
        let same = heads[first..].iter().take_while(|other| u32::from_le_bytes(**other) == head).count();
        let mut end = first + same;
        while first < end {
            let middle = (first + end) / 2;
            match self.entry(middle).0.cmp(key) {
                std::cmp::Ordering::Less => first = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => end = middle,
            }
        }
        Err(first)
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

    /// Gives an entry another value; the cost stays in bounds.
    #[inline]
    pub(super) fn put_at(this: &mut Arc<Self>, at: usize, value: &[u8]) {
        let more = value.len().saturating_sub(this.entry(at).1.len());
        own(this, more).set_value(at, value);
    }

    #[inline]
    fn set_value(&mut self, at: usize, value: &[u8]) {
        self.touch(at);
        let start = self.bytes.len() - self.place(at);
        let (key, old) = (word(&self.bytes[start..start + 4]), word(&self.bytes[start + 4..start + RECORD]));
        let from = start + RECORD + key;
        if old == value.len() {
            self.bytes[from..from + old].copy_from_slice(value);
            return;
        }
        self.bytes[start + 4..start + RECORD].copy_from_slice(&(value.len() as u32).to_le_bytes());
        let (first, end) = (self.bytes.len() - self.used as usize, from + old);
        self.bytes.copy_within(first..from, first + old - value.len());
        self.bytes[end - value.len()..end].copy_from_slice(value);
        self.move_places(at + 1, value.len().wrapping_sub(old));
        self.used = (self.used as usize + value.len() - old) as u32;
    }

    /// Adds an entry with a new key; the cost stays in bounds.
    pub(super) fn insert(this: &mut Arc<Self>, key: &[u8], value: &[u8]) {
        let record = RECORD + key.len() + value.len();
        let bucket = own(this, record + INDEX);
        let shared = common(key, bucket.entry(0).0) as u32;
        if shared < bucket.common {
            bucket.set_common(shared);
        }
        let at = bucket.find(key).unwrap_or_else(|at| at);
        bucket.insert_at(at, key, value);
    }

    fn insert_at(&mut self, at: usize, key: &[u8], value: &[u8]) {
        let (count, record) = (self.count(), RECORD + key.len() + value.len());
        let first = self.bytes.len() - self.used as usize;
        let after = if at < count { self.place(at) } else { 0 };
        self.bytes.copy_within(first..self.bytes.len() - after, first - record);
        let start = self.bytes.len() - after - record;
        self.write(start, key, value);
        self.move_places(at, record);
        self.bytes.copy_within(4 * count + 2 * at..6 * count, 4 * count + 2 * at + 6);
        self.bytes.copy_within(4 * at..4 * count + 2 * at, 4 * at + 4);
        self.count += 1;
        self.used += record as u32;
        self.set_head(at, head_of(key, self.common));
        self.set_place(at, after + record);
        self.touch(at);
    }

    /// Removes an entry, which is not the last one.
    pub(super) fn remove(this: &mut Arc<Self>, at: usize) {
        let needed = this.used as usize + INDEX * this.count();
        if this.bytes.len() > 2 * needed + FIXED {
            *this = this.copy(0);
        }
        let bucket = own(this, 0);
        bucket.remove_at(at);
        let last = bucket.count() - 1;
        if at == 0 || at > last {
            let (first, last) = (bucket.entry(0).0, bucket.entry(last).0);
            let shared = common(first, last) as u32;
            if shared != bucket.common {
                bucket.set_common(shared);
            }
        }
    }

    fn remove_at(&mut self, at: usize) {
        self.touch(at);
        let (key, value) = self.entry(at);
        let (count, record) = (self.count(), RECORD + key.len() + value.len());
        let (first, start) = (self.bytes.len() - self.used as usize, self.bytes.len() - self.place(at));
        self.bytes.copy_within(first..start, first + record);
        self.move_places(at, record.wrapping_neg());
        self.bytes.copy_within(4 * at + 4..4 * count + 2 * at, 4 * at);
        self.bytes.copy_within(4 * count + 2 * at + 2..6 * count, 4 * count + 2 * at - 4);
        self.count -= 1;
        self.used -= record as u32;
    }

    /// The digest; those of groups that did not change are remembered.
    pub(super) fn digest(&self) -> Digest {
        let known = self.known.load(Ordering::Acquire);
        let (mut groups, mut at) = ([Digest::new([0; 32]); GROUPS], 0);
        for (group, digest) in groups.iter_mut().enumerate() {
            let heads = &self.heads()[at..];
            let in_it = |head: &&[u8; 4]| group_of(u32::from_le_bytes(**head), self.common) == group;
            let end = at + heads.iter().take_while(in_it).count();
            if known & 1 << group != 0 {
                *digest = self.groups[group].get();
            } else {
                *digest = rules::group(self.records_of(at, end));
                self.groups[group].set(digest);
            }
            at = end;
        }
        self.known.store((1 << GROUPS) - 1, Ordering::Release);
        rules::bucket(&groups)
    }

    fn records_of(&self, from: usize, to: usize) -> &[u8] {
        let place = |at| if at < self.count() { self.place(at) } else { 0 };
        &self.bytes[self.bytes.len() - place(from)..self.bytes.len() - place(to)]
    }

    /// The digest of the entry's group is not known any more.
    #[inline]
    fn touch(&mut self, at: usize) {
        if !planted("stale-digest") {
            let head = u32::from_le_bytes(self.heads()[at]);
            *self.known.get_mut() &= !(1 << group_of(head, self.common));
        }
    }

    fn set_common(&mut self, shared: u32) {
        self.common = shared;
        *self.known.get_mut() = 0;
        for at in 0..self.count() {
            let head = head_of(self.entry(at).0, shared);
            self.set_head(at, head);
        }
    }

    fn has_room(&self, more: usize) -> bool {
        self.used as usize + INDEX * self.count() + more <= self.bytes.len()
    }
    #[inline]
    fn heads(&self) -> &[[u8; 4]] {
        self.bytes[..4 * self.count as usize].as_chunks().0
    }
    fn set_head(&mut self, at: usize, head: u32) {
        self.bytes[4 * at..4 * at + 4].copy_from_slice(&head.to_le_bytes());
    }
    /// How far from the end a record begins.
    #[inline]
    fn place(&self, at: usize) -> usize {
        let at = 4 * self.count as usize + 2 * at;
        usize::from(u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]]))
    }
    fn set_place(&mut self, at: usize, place: usize) {
        let at = 4 * self.count as usize + 2 * at;
        self.bytes[at..at + 2].copy_from_slice(&(place as u16).to_le_bytes());
    }
    /// The records before `end` begin so many bytes further from the end.
    fn move_places(&mut self, end: usize, by: usize) {
        let from = 4 * self.count();
        for place in self.bytes[from..from + 2 * end].as_chunks_mut::<2>().0 {
            *place = u16::from_le_bytes(*place).wrapping_add(by as u16).to_le_bytes();
        }
    }
    fn write(&mut self, start: usize, key: &[u8], value: &[u8]) {
        let (lengths, rest) = self.bytes[start..].split_at_mut(RECORD);
        lengths[..4].copy_from_slice(&(key.len() as u32).to_le_bytes());
        lengths[4..].copy_from_slice(&(value.len() as u32).to_le_bytes());
        rest[..key.len()].copy_from_slice(key);
        rest[key.len()..key.len() + value.len()].copy_from_slice(value);
    }
}

#[inline]
fn word(bytes: &[u8]) -> usize {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize
}

/// A bucket that was just made.
fn alone(bucket: &mut Arc<Bucket>) -> &mut Bucket {
    Arc::get_mut(bucket).expect("INV-STORE-2: nobody shares it")
}

/// The bucket to change, with room for so many bytes more: a copy if a version shares it, or if there is no room.
#[inline]
fn own(bucket: &mut Arc<Bucket>, more: usize) -> &mut Bucket {
    if Arc::strong_count(bucket) != 1 || !bucket.has_room(more) {
        *bucket = bucket.copy(more);
    }
    alone(bucket)
}
