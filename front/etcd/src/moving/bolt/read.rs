//! Reads a database of bbolt from a file that may be damaged.
//!
//! Every length and place is checked before it is used. Each page is read at most once, so that no chain of pages is followed for ever, and
//! all that is read together is no more than the file.

use super::{BRANCH, BUCKET_HEAD, ELEMENT, IS_BUCKET, LEAF, MAGIC, META, METAS, PAGE_HEAD, VERSION, fnv};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Page sizes that bbolt may have chosen, as powers of two.
const SIZES: std::ops::RangeInclusive<u32> = 10..=16;

/// Why a database can not be read.
#[derive(Debug, thiserror::Error)]
pub enum BoltError {
    /// The operating system refuses.
    #[error("can not read it: {0}")]
    Read(#[from] io::Error),
    /// There is no meta page.
    #[error("it is no database of etcd: neither of its first two pages is one")]
    NoDatabase,
    /// It has a version that is not known here.
    #[error("its database has format version {0}, and only {VERSION} is known here")]
    Version(u32),
    /// It ends before its last page.
    #[error("it is cut: {is} bytes, and its pages need {need}")]
    Cut {
        /// Its length in bytes.
        is: u64,
        /// The length in bytes that it should have.
        need: u64,
    },
    /// A page is not what it should be.
    #[error("page {page} is damaged: {what}")]
    Damaged {
        /// The number of the page.
        page: u64,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// Where the bytes are.
pub(in crate::moving) trait Source {
    /// How many there are.
    fn bytes(&self) -> io::Result<u64>;
    /// Some of them. They are there.
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()>;
}

impl Source for File {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(into, at)
    }
}

/// A bucket of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::moving) enum Bucket {
    /// Its root page.
    At(u64),
    /// Its only page, within the page of this number.
    Inside(u64, Vec<u8>),
}

/// What is done with each key and value.
pub(in crate::moving) type Visit<'a, E> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<(), E>;

/// An open database.
pub(in crate::moving) struct Bolt<'a, S> {
    source: &'a S,
    page_bytes: u64,
    /// All pages have a number below this.
    pages: u64,
    root: u64,
    /// A bit for each page that was read.
    seen: Vec<u64>,
}

impl<'a, S: Source> Bolt<'a, S> {
    /// Opens the database in the first `len` bytes.
    ///
    /// # Errors
    /// When there is none, or its pages are not all there.
    pub(in crate::moving) fn open(source: &'a S, len: u64) -> Result<Self, BoltError> {
        let meta = newest(source, len)?;
        let need = meta.pages.saturating_mul(meta.page_bytes);
        if need > len {
            return Err(BoltError::Cut { is: len, need });
        }
        let words = usize::try_from(meta.pages.div_ceil(64)).map_err(|_| BoltError::NoDatabase)?;
        let Meta { page_bytes, pages, root, .. } = meta;
        Ok(Self { source, page_bytes, pages, root, seen: vec![0; words] })
    }

    /// The buckets by their names.
    ///
    /// # Errors
    /// When a page is damaged.
    pub(in crate::moving) fn buckets(&mut self) -> Result<BTreeMap<Vec<u8>, Bucket>, BoltError> {
        let mut buckets = BTreeMap::new();
        self.walk(&Bucket::At(self.root), &mut |page, element| {
            let damaged = |what| BoltError::Damaged { page, what };
            if element.flags & IS_BUCKET == 0 {
                return Err(damaged("there is a value where only buckets are"));
            }
            let (head, inside) = element
                .value
                .split_at_checked(BUCKET_HEAD)
                .ok_or_else(|| damaged("a bucket is too short"))?;
            let root = number(head, 0).map_err(damaged)?;
            let bucket = if root == 0 { Bucket::Inside(page, inside.to_vec()) } else { Bucket::At(root) };
            buckets.insert(element.key.to_vec(), bucket);
            Ok::<(), BoltError>(())
        })?;
        Ok(buckets)
    }

    /// Goes through a bucket in the order of its keys.
    ///
    /// # Errors
    /// When a page is damaged; what `visit` says.
    pub(in crate::moving) fn each<E: From<BoltError>>(
        &mut self,
        bucket: &Bucket,
        visit: Visit<'_, E>,
    ) -> Result<(), E> {
        self.walk(bucket, &mut |page, element| {
            if element.flags & IS_BUCKET != 0 {
                let what = "there is a bucket within a bucket";
                return Err(BoltError::Damaged { page, what }.into());
            }
            visit(element.key, element.value)
        })
    }

    fn walk<E: From<BoltError>>(
        &mut self,
        bucket: &Bucket,
        visit: &mut dyn FnMut(u64, &Element<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut last = Last(None);
        let mut waiting = match bucket {
            Bucket::At(root) => vec![*root],
            Bucket::Inside(page, bytes) => {
                let items = Items::of(*page, bytes)?;
                if items.kind != LEAF {
                    return Err(items.damaged("the page in a bucket is no leaf").into());
                }
                return leaf(&items, &mut last, visit);
            }
        };
        while let Some(id) = waiting.pop() {
            let bytes = self.page(id)?;
            let items = Items::of(id, &bytes)?;
            match items.kind {
                LEAF => leaf(&items, &mut last, visit)?,
                BRANCH => {
                    let from = waiting.len();
                    for at in 0..items.count {
                        waiting.push(items.below(at)?);
                    }
                    if waiting.len() == from {
                        return Err(items.damaged("nothing is below it").into());
                    }
                    // The first one is the next one.
                    waiting[from..].reverse();
                }
                _ => return Err(items.damaged("it has no keys, and the page above says it has").into()),
            }
        }
        Ok(())
    }

    /// The bytes of a page with all that belongs to it.
    fn page(&mut self, id: u64) -> Result<Vec<u8>, BoltError> {
        let damaged = |what| BoltError::Damaged { page: id, what };
        if id < 2 || id >= self.pages {
            return Err(damaged("there is no such page"));
        }
        let at = id * self.page_bytes;
        let mut head = [0; PAGE_HEAD];
        self.source.read(at, &mut head)?;
        let more = u64::from(number32(&head, 12).map_err(damaged)?);
        if number(&head, 0).map_err(damaged)? != id {
            return Err(damaged("it says that it is another page"));
        }
        if more >= self.pages - id {
            return Err(damaged("it is longer than the file"));
        }
        for page in id..=id + more {
            let word = usize::try_from(page / 64).ok().and_then(|at| self.seen.get_mut(at));
            let word = word.ok_or_else(|| damaged("there is no such page"))?;
            let bit = 1 << (page % 64);
            if *word & bit != 0 {
                return Err(damaged("it is used twice"));
            }
            *word |= bit;
        }
        // All of it is in the file.
        let len = usize::try_from((more + 1) * self.page_bytes).map_err(|_| damaged("it is too long"))?;
        let mut bytes = vec![0; len];
        self.source.read(at, &mut bytes)?;
        Ok(bytes)
    }
}

/// Visits what a leaf has.
fn leaf<E: From<BoltError>>(
    items: &Items<'_>,
    last: &mut Last,
    visit: &mut dyn FnMut(u64, &Element<'_>) -> Result<(), E>,
) -> Result<(), E> {
    // What elements share would be read more than once: a small page could have no end.
    let mut room = items.bytes.len() - PAGE_HEAD;
    for at in 0..items.count {
        let element = items.element(at)?;
        let takes = ELEMENT + element.key.len() + element.value.len();
        room = room.checked_sub(takes).ok_or_else(|| items.damaged("its keys and values overlap"))?;
        if !last.is_before(element.key) {
            return Err(items.damaged("its keys are not in order").into());
        }
        visit(items.page, &element)?;
    }
    Ok(())
}

/// The key before.
struct Last(Option<Vec<u8>>);

impl Last {
    /// Whether the key comes behind the one before, which it then is.
    fn is_before(&mut self, key: &[u8]) -> bool {
        match &mut self.0 {
            Some(last) if last.as_slice() >= key => false,
            Some(last) => {
                last.clear();
                last.extend_from_slice(key);
                true
            }
            none => {
                *none = Some(key.to_vec());
                true
            }
        }
    }
}

/// An element of a leaf.
struct Element<'a> {
    flags: u32,
    key: &'a [u8],
    value: &'a [u8],
}

/// A page that has keys.
struct Items<'a> {
    page: u64,
    kind: u16,
    count: usize,
    bytes: &'a [u8],
}

impl<'a> Items<'a> {
    fn of(page: u64, bytes: &'a [u8]) -> Result<Self, BoltError> {
        let damaged = |what| BoltError::Damaged { page, what };
        let kind = number16(bytes, 8).map_err(damaged)?;
        let count = usize::from(number16(bytes, 10).map_err(damaged)?);
        if count * ELEMENT + PAGE_HEAD > bytes.len() {
            return Err(damaged("its keys do not fit into it"));
        }
        Ok(Self { page, kind, count, bytes })
    }

    fn damaged(&self, what: &'static str) -> BoltError {
        BoltError::Damaged { page: self.page, what }
    }

    /// The page below an element of a branch.
    fn below(&self, at: usize) -> Result<u64, BoltError> {
        number(self.bytes, PAGE_HEAD + at * ELEMENT + 8).map_err(|what| self.damaged(what))
    }

    fn element(&self, at: usize) -> Result<Element<'a>, BoltError> {
        let start = PAGE_HEAD + at * ELEMENT;
        let field = |at: usize| number32(self.bytes, start + at).map_err(|what| self.damaged(what));
        let (flags, place, key, value) = (field(0)?, field(4)?, field(8)?, field(12)?);
        let length = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let cut = || {
            let rest = self.bytes.get(start.checked_add(length(place))?..)?;
            let (key, rest) = rest.split_at_checked(length(key))?;
            Some((key, rest.get(..length(value))?))
        };
        let (key, value) = cut().ok_or_else(|| self.damaged("a key or value does not lie in it"))?;
        Ok(Element { flags, key, value })
    }
}

/// What a meta page says.
#[derive(Clone, Copy, Debug)]
struct Meta {
    page_bytes: u64,
    root: u64,
    pages: u64,
    transaction: u64,
}

/// The valid meta page with the newer transaction.
fn newest(source: &impl Source, len: u64) -> Result<Meta, BoltError> {
    let mut other = None;
    let mut best: Option<Meta> = None;
    // If the first one is damaged, where the second one is has to be tried.
    let places = std::iter::once(0).chain(SIZES.map(|size| 1 << size));
    for at in places {
        if at + (PAGE_HEAD + META) as u64 > len {
            break;
        }
        let mut bytes = [0; PAGE_HEAD + META];
        source.read(at, &mut bytes)?;
        let meta = match meta(&bytes) {
            Some(Ok(meta)) if at == 0 || meta.page_bytes == at => meta,
            Some(Err(version)) => {
                other = Some(version);
                continue;
            }
            _ => continue,
        };
        if best.is_none_or(|best| best.page_bytes == meta.page_bytes && best.transaction < meta.transaction) {
            best = Some(meta);
        }
    }
    best.ok_or(other.map_or(BoltError::NoDatabase, BoltError::Version))
}

/// A meta page, if these bytes begin one that is whole; its version if that is another one.
fn meta(bytes: &[u8]) -> Option<Result<Meta, u32>> {
    let body = bytes.get(PAGE_HEAD..)?;
    let (said, sum) = (body.get(..META - 8)?, number(body, META - 8).ok()?);
    let is_meta = number16(bytes, 8) == Ok(METAS) && number32(body, 0) == Ok(MAGIC) && fnv(said) == sum;
    if !is_meta {
        return None;
    }
    let version = number32(body, 4).ok()?;
    if version != VERSION {
        return Some(Err(version));
    }
    let page_bytes = number32(body, 8).ok()?;
    if !SIZES.contains(&page_bytes.checked_ilog2()?) || !page_bytes.is_power_of_two() {
        return None;
    }
    let at = |at| number(body, at).ok();
    let (root, pages, transaction) = (at(16)?, at(40)?, at(48)?);
    Some(Ok(Meta { page_bytes: u64::from(page_bytes), root, pages, transaction }))
}

const SHORT: &str = "it is too short";

fn number(bytes: &[u8], at: usize) -> Result<u64, &'static str> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map(|bytes| u64::from_le_bytes(*bytes)).ok_or(SHORT)
}

fn number32(bytes: &[u8], at: usize) -> Result<u32, &'static str> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map(|bytes| u32::from_le_bytes(*bytes)).ok_or(SHORT)
}

fn number16(bytes: &[u8], at: usize) -> Result<u16, &'static str> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map(|bytes| u16::from_le_bytes(*bytes)).ok_or(SHORT)
}
