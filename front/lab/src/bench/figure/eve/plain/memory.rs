//! The memory of a plain server in pages of 4 KiB, with what changed in it: rows, and what transactions need while they run.

use crate::bench::figure::eve::shop::lock;
use quorate_kv::shop::Rows;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

pub(super) const PAGE: usize = 4096;
/// Each page of rows begins with the size of its places.
const HEAD: usize = 4;
/// Sizes of places are multiples of this.
const STEP: usize = 32;
/// What each worker has for temporary rows before it begins anew, as the young objects of a garbage collector have.
const SPACE: usize = 4 << 20;

/// Pages, and which of them changed since they were last taken.
#[derive(Default)]
pub(super) struct Pages {
    bytes: Vec<u8>,
    is_changed: Vec<bool>,
    changed: Vec<u32>,
}

impl Pages {
    pub(super) fn count(&self) -> usize {
        self.is_changed.len()
    }

    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        let count = end.div_ceil(PAGE);
        if count > self.count() {
            self.bytes.resize(count * PAGE, 0);
            self.is_changed.resize(count, false);
        }
        self.bytes[at..end].copy_from_slice(bytes);
        for page in at / PAGE..count {
            if !std::mem::replace(&mut self.is_changed[page], true) {
                self.changed.push(page as u32);
            }
        }
    }

    fn read(&self, at: usize, len: usize) -> &[u8] {
        &self.bytes[at..at + len]
    }

    /// Passes on the pages that changed, and begins anew.
    fn take_changed(&mut self, each: &mut dyn FnMut(u32, &[u8])) {
        for page in std::mem::take(&mut self.changed) {
            self.is_changed[page as usize] = false;
            each(page, self.read(page as usize * PAGE, PAGE));
        }
    }
}

/// Where a row lies.
#[derive(Clone, Copy)]
struct Place {
    at: usize,
    key_len: usize,
    value_len: usize,
}

impl Place {
    /// The size of a place for so many bytes of key and value.
    const fn size(key_len: usize, value_len: usize) -> usize {
        (4 + key_len + value_len).next_multiple_of(STEP)
    }
}

/// Rows in pages: `key length u16 | value length u16 | key | value` in places of equal size on each page. The index beside them is not shipped: whoever has
/// the pages can make it.
#[derive(Default)]
pub(super) struct Heap {
    pages: Pages,
    index: BTreeMap<Box<[u8]>, Place>,
    free: BTreeMap<usize, Vec<usize>>,
}

impl Heap {
    fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.index.get(key).map(|place| self.value(place))
    }

    fn value(&self, place: &Place) -> &[u8] {
        self.pages.read(place.at + 4 + place.key_len, place.value_len)
    }

    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) {
        let (key_len, value_len) = (key.len(), value.len());
        let size = Place::size(key_len, value_len);
        assert!(size <= PAGE - HEAD, "a row fits into a page");
        let had = self.index.get(key).copied();
        let at = match had {
            Some(place) if Place::size(place.key_len, place.value_len) == size => place.at,
            Some(_) => {
                self.remove(key);
                self.room(size)
            }
            None => self.room(size),
        };
        let lens = [(key_len as u16).to_le_bytes(), (value_len as u16).to_le_bytes()].concat();
        self.pages.write(at, &[&lens, key, value].concat());
        self.index.insert(key.into(), Place { at, key_len, value_len });
    }

    pub(super) fn remove(&mut self, key: &[u8]) {
        if let Some(place) = self.index.remove(key) {
            self.pages.write(place.at, &[0; 4]);
            self.free.entry(Place::size(place.key_len, place.value_len)).or_default().push(place.at);
        }
    }

    /// A free place of this size.
    fn room(&mut self, size: usize) -> usize {
        let free = self.free.entry(size).or_default();
        if let Some(at) = free.pop() {
            return at;
        }
        let page = self.pages.count() * PAGE;
        self.pages.write(page, &(size as u32).to_le_bytes());
        free.extend((page + HEAD..page + PAGE - size + 1).step_by(size).rev());
        free.pop().unwrap_or(page + HEAD)
    }

    /// The rows of pages that were shipped; `None` if they are none.
    pub(super) fn of_pages(pages: Pages) -> Option<Self> {
        let mut heap = Self { pages, ..Self::default() };
        for page in (0..heap.pages.count()).map(|page| page * PAGE) {
            let size = u32::from_le_bytes(*heap.pages.read(page, HEAD).first_chunk()?) as usize;
            if !(STEP..=PAGE - HEAD).contains(&size) {
                return None;
            }
            for at in (page + HEAD..page + PAGE - size + 1).step_by(size) {
                let len = |at: usize| Some(u16::from_le_bytes(*heap.pages.read(at, 2).first_chunk()?).into());
                let (key_len, value_len): (usize, usize) = (len(at)?, len(at + 2)?);
                if Place::size(key_len, value_len) > size {
                    return None;
                }
                if key_len > 0 {
                    let key = heap.pages.read(at + 4, key_len).into();
                    heap.index.insert(key, Place { at, key_len, value_len });
                }
            }
        }
        Some(heap)
    }
}

impl Rows for Heap {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        Self::get(self, key).map(Cow::Borrowed)
    }
    fn each(&self, start: &[u8], end: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        let range = self.index.range::<[u8], _>((Bound::Included(start), Bound::Excluded(end.max(start))));
        for (key, place) in range {
            if !each(key, self.value(place)) {
                return;
            }
        }
    }
    fn put(&mut self, key: &[u8], value: &[u8]) {
        Self::put(self, key, value);
    }
    fn remove(&mut self, key: &[u8]) {
        Self::remove(self, key);
    }
}

/// The temporary memory of a worker.
#[derive(Default)]
struct Space {
    pages: Pages,
    next: usize,
}

impl Space {
    fn copy(&mut self, bytes: &[u8]) {
        if self.next + bytes.len() > SPACE {
            self.next = 0;
        }
        self.pages.write(self.next, bytes);
        self.next += bytes.len();
    }
}

/// All memory of a server.
pub(super) struct Memory {
    heap: RwLock<Heap>,
    spaces: Vec<Mutex<Space>>,
}

/// Which pages are shipped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    All,
    Rows,
}

impl Memory {
    pub(super) fn new(workers: usize) -> Self {
        Self { heap: RwLock::default(), spaces: (0..workers).map(|_| Mutex::default()).collect() }
    }

    pub(super) fn heap(&self) -> RwLockReadGuard<'_, Heap> {
        self.heap.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes on the pages that changed, with the number of their area, while nobody changes anything. Rows are area 0.
    pub(super) fn take_changed(&self, which: Which, each: &mut dyn FnMut(u16, u32, &[u8])) {
        let mut heap = self.heap.write().unwrap_or_else(PoisonError::into_inner);
        let mut spaces: Vec<MutexGuard<'_, Space>> = self.spaces.iter().map(lock).collect();
        heap.pages.take_changed(&mut |page, bytes| each(0, page, bytes));
        if which == Which::All {
            for (area, space) in (1..).zip(&mut spaces) {
                space.pages.take_changed(&mut |page, bytes| each(area, page, bytes));
            }
        }
    }

    /// The memory as one worker uses it.
    pub(super) const fn by(&self, worker: usize) -> Using<'_> {
        Using { memory: self, worker, written: Vec::new() }
    }
}

/// A key and its value, or that it has none.
pub(super) type Written = (Box<[u8]>, Option<Box<[u8]>>);

/// The memory in the hands of a worker. Rows that it reads are copied into its own space, as by a database that hands out rows as objects.
pub(super) struct Using<'m> {
    memory: &'m Memory,
    worker: usize,
    /// What it wrote.
    pub(super) written: Vec<Written>,
}

impl Using<'_> {
    pub(super) fn copy(&self, bytes: &[u8]) {
        if let Some(space) = self.memory.spaces.get(self.worker) {
            lock(space).copy(bytes);
        }
    }
}

impl Rows for Using<'_> {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        let row = self.memory.heap().get(key)?.to_vec();
        self.copy(&row);
        Some(Cow::Owned(row))
    }
    fn each(&self, start: &[u8], end: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        let heap = self.memory.heap();
        let Some(space) = self.memory.spaces.get(self.worker) else { return };
        let mut space = lock(space);
        Rows::each(&*heap, start, end, &mut |key, value| {
            space.copy(key);
            space.copy(value);
            each(key, value)
        });
    }
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.memory.heap.write().unwrap_or_else(PoisonError::into_inner).put(key, value);
        self.written.push((key.into(), Some(value.into())));
    }
    fn remove(&mut self, key: &[u8]) {
        self.memory.heap.write().unwrap_or_else(PoisonError::into_inner).remove(key);
        self.written.push((key.into(), None));
    }
}
