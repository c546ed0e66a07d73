//! A view of what commands on other threads write at the same time: each write is there for all at once.

use super::range::shorten;
use super::{RangeEnd, RangeRead, Reads, RunId, StateRange, Told};
use crate::cells::{Cell, Cells};
use crate::hints::within;
use bytes::Bytes;
use quorate_state::store::{Range, Version};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::iter::Peekable;

/// A view of shared cells above a version. It notes which version of each key the command saw: how often the key was written in this wave before.
pub(super) struct Live<'a> {
    pub(super) version: &'a Version,
    pub(super) cells: &'a dyn Cells,
    pub(super) who: u64,
    /// The keys that it wrote.
    pub(super) own: BTreeSet<Box<[u8]>>,
    pub(super) reads: RefCell<Reads>,
    pub(super) told: Vec<Told>,
}

impl Live<'_> {
    /// Notes the version of a key that the command saw.
    fn note(&self, key: &[u8], version: Option<RunId>) {
        let reads = &mut *self.reads.borrow_mut();
        match reads.keys.get(key) {
            None => drop(reads.keys.insert(key.into(), version)),
            Some(first) if *first == version => {}
            Some(_) => reads.changed.push((key.into(), version)),
        }
    }

    fn wrote(&mut self, key: &[u8]) {
        if !self.own.contains(key) {
            self.own.insert(key.into());
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        let mut cell = None;
        let part = self.cells.part_of(key);
        self.cells.read(self.who, part, &mut |part| {
            cell = part.get(key).map(|cell| (cell.value.clone(), version_of(cell)));
        });
        self.note(key, cell.as_ref().and_then(|(_, version)| *version));
        match cell {
            Some((value, _)) => value.map(|value| Cow::Owned(value.to_vec())),
            None => self.version.get(key).map(Cow::Borrowed),
        }
    }

    /// Gives a key this value, or removes it. Whether the key had one.
    pub(super) fn replace(&mut self, key: &[u8], value: Option<&Bytes>) -> bool {
        let before = self.version.get(key).is_some();
        let (mut had, mut version) = (false, None);
        let part = self.cells.part_of(key);
        self.cells.write(self.who, part, &mut |part| {
            let cell = part.get(key);
            (had, version) = (cell.map_or(before, |cell| cell.value.is_some()), cell.and_then(version_of));
            if had || value.is_some() {
                part.set(self.who, key, value.cloned());
            }
        });
        self.note(key, version);
        if had || value.is_some() {
            self.wrote(key);
        }
        had
    }

    pub(super) fn set(&mut self, key: &[u8], value: &Bytes) {
        let part = self.cells.part_of(key);
        self.cells.write(self.who, part, &mut |part| part.set(self.who, key, Some(value.clone())));
        self.wrote(key);
    }

    /// The entries between two keys, with what the cells have there when the reader comes there.
    pub(super) fn range<'v>(&'v self, start: &'v [u8], end: Option<&'v [u8]>) -> StateRange<'v> {
        let mut reads = self.reads.borrow_mut();
        let noted = reads.ranges.len();
        // All of it, until it is known where the reader stops.
        let to = end.map_or(RangeEnd::Nowhere, |end| RangeEnd::Before(end.into()));
        reads.ranges.push(RangeRead { start: start.into(), end: to, saw: Vec::new() });
        StateRange::live(LiveRange {
            version: self.version.range(start, end).peekable(),
            cells: self.cells,
            who: self.who,
            page: Vec::new().into_iter().peekable(),
            next: Some(start.into()),
            end,
            page_len: PAGE,
            last: None,
            exhausted: false,
            noted,
            reads: &self.reads,
        })
    }
}

/// So many entries of each part are read at first; twice as many each time after that.
const PAGE: usize = 2;

/// A key, its value, and its version.
type Seen = (Box<[u8]>, Option<Bytes>, Option<RunId>);

/// How often it was written.
fn version_of(cell: &Cell) -> Option<RunId> {
    Some(RunId(cell.writers.len() as u64))
}

/// Entries of the version and of the cells in key order; those of the cells hide the others. The cells are read page by page: most readers stop soon.
pub(super) struct LiveRange<'v> {
    version: Peekable<Range<'v>>,
    cells: &'v dyn Cells,
    who: u64,
    page: Peekable<std::vec::IntoIter<Seen>>,
    /// From here on the cells were not read; `None`: all of them were.
    next: Option<Box<[u8]>>,
    end: Option<&'v [u8]>,
    page_len: usize,
    last: Option<Box<[u8]>>,
    exhausted: bool,
    /// Where the range stands among what was read.
    noted: usize,
    reads: &'v RefCell<Reads>,
}

impl<'v> LiveRange<'v> {
    pub(super) fn next(&mut self) -> Option<<StateRange<'v> as Iterator>::Item> {
        loop {
            self.read_on();
            let next_of_cells = match (self.version.peek(), self.page.peek()) {
                (None, None) => {
                    self.exhausted = true;
                    return None;
                }
                (Some((key, _)), Some((cell, ..))) => **cell <= **key,
                (version, _) => version.is_none(),
            };
            if !next_of_cells {
                let (key, value) = self.version.next()?;
                self.last = Some(key.into());
                return Some((Cow::Borrowed(key), Cow::Borrowed(value)));
            }
            let (key, value, _) = self.page.next()?;
            self.version.next_if(|(at, _)| **at == *key);
            self.last = Some(key.clone());
            if let Some(value) = value {
                return Some((Cow::Owned(key.into_vec()), Cow::Owned(value.to_vec())));
            }
        }
    }

    /// Reads pages until the next entry is known.
    fn read_on(&mut self) {
        while self.page.peek().is_none()
            && let Some(from) = &self.next
        {
            if self.version.peek().is_some_and(|(key, _)| **key < **from) {
                return;
            }
            let (page, next) = self.read_page(from);
            let saw = page.iter().filter_map(|(key, _, version)| Some((key.clone(), (*version)?)));
            self.reads.borrow_mut().ranges[self.noted].saw.extend(saw);
            self.page = page.into_iter().peekable();
            self.next = next;
            self.page_len *= 2;
        }
    }

    /// The next entries of the cells, and the key from which on there may be more.
    fn read_page(&self, from: &[u8]) -> (Vec<Seen>, Option<Box<[u8]>>) {
        let (mut page, mut full) = (Vec::new(), None::<Box<[u8]>>);
        for part in 0..self.cells.parts() {
            self.cells.read(self.who, part, &mut |part| {
                let range = part.cells().range::<[u8], _>(within(from, self.end));
                let mut count = 0;
                for (key, cell) in range.take(self.page_len) {
                    page.push((key.clone(), cell.value.clone(), version_of(cell)));
                    count += 1;
                }
                if let (true, Some((last, ..))) = (count == self.page_len, page.last()) {
                    full = Some(full.take().map_or(last.clone(), |full| full.min(last.clone())));
                }
            });
        }
        // Behind the last key of a part that has more, others are not known yet.
        if let Some(last) = &full {
            page.retain(|(key, ..)| key <= last);
        }
        page.sort_unstable_by(|(a, ..), (b, ..)| a.cmp(b));
        // The least key that is greater.
        (page, full.map(|last| [&*last, &[0]].concat().into()))
    }
}

/// What was taken is what was read.
impl Drop for LiveRange<'_> {
    fn drop(&mut self) {
        if let (false, Some(last)) = (self.exhausted, self.last.take()) {
            let saw = std::mem::take(&mut self.reads.borrow_mut().ranges[self.noted].saw);
            let saw = saw.into_iter().take_while(|(key, _)| *key <= last).collect();
            shorten(self.reads, self.noted, last, saw);
        }
    }
}
