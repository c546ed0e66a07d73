//! Writes a database of bbolt from front to back.
//!
//! The keys of a bucket come in order, so that its tree grows from the leaves: of each level only the page that is being filled is kept in
//! memory. The two meta pages, which say where the root is, are written last.

use super::{BRANCH, ELEMENT, FREE, IS_BUCKET, LEAF, MAGIC, META, METAS, PAGE_HEAD, VERSION, fnv};
use std::io::{self, Seek, SeekFrom, Write};

/// Size of a page. Any machine's bbolt reads it; etcd's own machines mostly have this one.
const PAGE_BYTES: usize = 4096;
/// The page that lists free pages: there are none.
const FREE_PAGE: u64 = 2;
/// The longest key that bbolt takes.
const KEY_BYTES_MAX: usize = 32_768;
/// The longest value.
const VALUE_BYTES_MAX: usize = (1 << 31) - 2;
/// Where bbolt takes pages apart and joins them, it expects that many pages below each.
const BELOW_MIN: usize = 2;

/// A database that is being written.
pub(in crate::moving) struct Writer<W> {
    out: W,
    /// The number of the next page.
    next: u64,
    buckets: Vec<(Vec<u8>, u64)>,
}

impl<W: Write + Seek> Writer<W> {
    /// Begins a database.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub(in crate::moving) fn new(mut out: W) -> io::Result<Self> {
        out.seek(SeekFrom::Start(0))?;
        let mut writer = Self { out, next: 0, buckets: Vec::new() };
        for kind in [METAS, METAS, FREE] {
            writer.page(kind, &[])?;
        }
        Ok(writer)
    }

    /// Begins the next bucket.
    pub(in crate::moving) fn bucket(&mut self) -> BucketWriter<'_, W> {
        BucketWriter { to: self, levels: vec![Level::new(LEAF)] }
    }

    /// Writes the rest. Gives back the file, at its end, which is a multiple of the size of a page.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub(in crate::moving) fn finish(mut self) -> io::Result<W> {
        let mut buckets = std::mem::take(&mut self.buckets);
        buckets.sort();
        let mut root = self.bucket();
        for (name, page) in buckets {
            let value = [page.to_le_bytes(), [0; 8]].concat();
            root.item(Item { key: name, flags: IS_BUCKET, value })?;
        }
        let root = root.root()?;
        let end = self.next;
        for transaction in [0_u64, 1] {
            let mut meta = Vec::with_capacity(META);
            [MAGIC, VERSION, PAGE_BYTES as u32, 0].iter().for_each(|n| meta.extend(n.to_le_bytes()));
            [root, 0, FREE_PAGE, end, transaction].iter().for_each(|n| meta.extend(n.to_le_bytes()));
            meta.extend(fnv(&meta).to_le_bytes());
            let mut page = head(transaction, METAS, 0, 0);
            page.extend(meta);
            page.resize(PAGE_BYTES, 0);
            self.out.seek(SeekFrom::Start(transaction * PAGE_BYTES as u64))?;
            self.out.write_all(&page)?;
        }
        self.out.seek(SeekFrom::Start(end * PAGE_BYTES as u64))?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// Writes a page, and as many as it needs behind it. Gives its number.
    fn page(&mut self, kind: u16, items: &[Item]) -> io::Result<u64> {
        let len = PAGE_HEAD + items.iter().map(Item::bytes).sum::<usize>();
        let pages = len.div_ceil(PAGE_BYTES).max(1);
        let id = self.next;
        let count = u16::try_from(items.len()).map_err(io::Error::other)?;
        let more = u32::try_from(pages - 1).map_err(io::Error::other)?;
        let mut page = head(id, kind, count, more);
        let mut place = PAGE_HEAD + items.len() * ELEMENT;
        for (at, item) in items.iter().enumerate() {
            let from = u32::try_from(place - PAGE_HEAD - at * ELEMENT).map_err(io::Error::other)?;
            let key = item.key.len() as u32;
            if kind == BRANCH {
                [from, key].iter().for_each(|n| page.extend(n.to_le_bytes()));
                page.extend_from_slice(&item.value);
                place += item.key.len();
            } else {
                let value = item.value.len() as u32;
                [item.flags, from, key, value].iter().for_each(|n| page.extend(n.to_le_bytes()));
                place += item.key.len() + item.value.len();
            }
        }
        for item in items {
            page.extend_from_slice(&item.key);
            if kind != BRANCH {
                page.extend_from_slice(&item.value);
            }
        }
        page.resize(pages * PAGE_BYTES, 0);
        self.out.write_all(&page)?;
        self.next += pages as u64;
        Ok(id)
    }
}

fn head(id: u64, kind: u16, count: u16, more: u32) -> Vec<u8> {
    let mut page = Vec::with_capacity(PAGE_BYTES);
    page.extend(id.to_le_bytes());
    [kind, count].iter().for_each(|n| page.extend(n.to_le_bytes()));
    page.extend(more.to_le_bytes());
    page
}

/// A bucket that is being written.
pub(in crate::moving) struct BucketWriter<'a, W> {
    to: &'a mut Writer<W>,
    /// The leaves, and the branches above.
    levels: Vec<Level>,
}

impl<W: Write + Seek> BucketWriter<'_, W> {
    /// Adds a key, which comes behind all before.
    ///
    /// # Errors
    /// When the operating system refuses, or the key or value is longer than bbolt takes.
    pub(in crate::moving) fn put(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
            let start = String::from_utf8_lossy(&key[..key.len().min(100)]);
            let why = format!(
                "the name {start:?} has {} bytes, and etcd's file takes 1 to {KEY_BYTES_MAX}",
                key.len()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        self.item(Item { key: key.to_vec(), flags: 0, value: value.to_vec() })
    }

    fn item(&mut self, item: Item) -> io::Result<()> {
        let mut item = item;
        for at in 0.. {
            if at == self.levels.len() {
                self.levels.push(Level::new(BRANCH));
            }
            let level = &mut self.levels[at];
            level.items.push(item);
            let count = level.fitting();
            // The last page of a level must not have too little.
            if level.items.len() < count + BELOW_MIN {
                return Ok(());
            }
            item = level.write(self.to, count)?;
        }
        Ok(())
    }

    /// Ends the bucket, which has this name.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub(in crate::moving) fn end(mut self, name: &str) -> io::Result<()> {
        let root = self.root()?;
        self.to.buckets.push((name.as_bytes().to_vec(), root));
        Ok(())
    }

    /// Writes what is still kept, level by level. Gives the root.
    fn root(&mut self) -> io::Result<u64> {
        let mut at = 0;
        loop {
            let level = &self.levels[at];
            let fits = level.last_fitting() == level.items.len();
            let is_top = at + 1 == self.levels.len();
            if is_top && fits {
                return self.to.page(level.kind, &level.items);
            }
            if is_top {
                self.levels.push(Level::new(BRANCH));
            }
            while !self.levels[at].items.is_empty() {
                let level = &mut self.levels[at];
                let count = level.last_fitting();
                let item = level.write(self.to, count)?;
                self.levels[at + 1].items.push(item);
            }
            at += 1;
        }
    }
}

/// A key with a value, with a bucket, or with a page below.
struct Item {
    key: Vec<u8>,
    flags: u32,
    /// In a branch the number of the page.
    value: Vec<u8>,
}

impl Item {
    /// How many bytes it takes in a page; a little too many in a branch.
    fn bytes(&self) -> usize {
        ELEMENT + self.key.len() + self.value.len()
    }
}

/// The page that is being filled on one level of a tree.
struct Level {
    kind: u16,
    items: Vec<Item>,
}

impl Level {
    fn new(kind: u16) -> Self {
        Self { kind, items: Vec::new() }
    }

    /// How many items go into a page: as many as fit, and never too few.
    fn fitting(&self) -> usize {
        let mut room = PAGE_BYTES - PAGE_HEAD;
        let fit = self.items.iter().take_while(|item| {
            let left = room.checked_sub(item.bytes());
            room = left.unwrap_or(0);
            left.is_some()
        });
        let least = if self.kind == BRANCH { BELOW_MIN } else { 1 };
        fit.count().max(least).min(self.items.len())
    }

    /// The same, when no item comes any more.
    fn last_fitting(&self) -> usize {
        let (count, all) = (self.fitting(), self.items.len());
        if self.kind != BRANCH || all - count != 1 {
            count
        } else if count > BELOW_MIN {
            count - 1
        } else {
            all
        }
    }

    /// Writes the first items as a page. Gives the item for the level above.
    fn write<W: Write + Seek>(&mut self, to: &mut Writer<W>, count: usize) -> io::Result<Item> {
        let items: Vec<Item> = self.items.drain(..count).collect();
        let page = to.page(self.kind, &items)?;
        let key = items.into_iter().next().map(|first| first.key).unwrap_or_default();
        Ok(Item { key, flags: 0, value: page.to_le_bytes().to_vec() })
    }
}
