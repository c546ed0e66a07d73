//! A hash of everything that can be asked for up to a revision. It is the same on all replicas, however far each one swept.
//!
//! The hash covers the keys and values at the compacted revision, then the changes from there to the revision. It is made by pages, so that
//! no replica stops for it. It is FNV-1a with 64 bits: made to find differences, not to withstand attacks. Tests: `tests/all/pages.rs`.

use crate::error::EtcdError;
use crate::proto;
use crate::space::{Bounds, ENTRY, Entry, GONE, HEAD, Head, Meta, Revision};
use crate::write::as_of;
use quorate_execute::Store;

/// How many entries go into one page.
const STEPS: usize = 2000;
const SEED: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// The parts of the store that are hashed, in order.
const HEADS: u64 = 0;
const GONES: u64 = 1;
const CHANGES: u64 = 2;
const END: u64 = 3;

/// A query for a hash, or for its next page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashQuery {
    /// The last revision to hash; 0: the newest one.
    pub revision: i64,
    /// The page before; `None` for the first.
    pub after: Option<HashPage>,
}

/// The hash up to the end of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashPage {
    /// The hash so far.
    pub hash: u64,
    /// The last revision of the whole hash.
    pub revision: i64,
    /// The compacted revision where the hash begins.
    pub compacted: i64,
    part: u64,
    start: Vec<u8>,
}

impl HashPage {
    /// Whether the hash is complete.
    pub fn is_whole(&self) -> bool {
        self.part == END
    }

    /// Decodes the page from the body of a reply.
    pub fn decode(mut body: &[u8]) -> Option<Self> {
        let from = &mut body;
        let mut next = || proto::read_number(from);
        let (hash, revision, compacted, part) = (next()?, next()? as i64, next()? as i64, next()?);
        Some(Self { hash, revision, compacted, part, start: proto::read_string(from)?.to_vec() })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let numbers = [self.hash, self.revision as u64, self.compacted as u64, self.part];
        numbers.into_iter().for_each(|number| proto::number(out, number));
        proto::string(out, &self.start);
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
    }
}

impl HashQuery {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        proto::number(out, self.revision as u64);
        if let Some(after) = &self.after {
            after.encode(out);
        }
    }

    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let revision = proto::read_number(&mut bytes)? as i64;
        let after = if bytes.is_empty() { None } else { Some(HashPage::decode(bytes)?) };
        Some(Self { revision, after })
    }
}

/// The next page.
pub(crate) fn page(store: &Store, meta: &Meta, query: &HashQuery) -> Result<HashPage, EtcdError> {
    if query.revision > meta.revision {
        return Err(EtcdError::FutureRevision);
    }
    let revision = if query.revision > 0 { query.revision } else { meta.revision };
    let mut page = query.after.clone().unwrap_or(HashPage {
        hash: SEED,
        revision,
        compacted: meta.compacted,
        part: HEADS,
        start: Vec::new(),
    });
    // Something was compacted between two pages, too.
    if page.compacted != meta.compacted || page.revision < meta.compacted {
        return Err(EtcdError::Compacted);
    }
    match page.part {
        HEADS => keys(store, &mut page, HEAD),
        GONES => keys(store, &mut page, GONE),
        CHANGES => changes(store, &mut page),
        _ => {}
    }
    Ok(page)
}

fn keys(store: &Store, page: &mut HashPage, part: u8) {
    let bounds = Bounds::new(part, &page.start, &[0]);
    for (step, (key, bytes)) in bounds.entries(store).enumerate() {
        if step == STEPS {
            page.start = key.to_vec();
            return;
        }
        if let Some((_, entry)) = as_of(store, Head::decode(bytes).at, page.compacted) {
            page.add(entry.message);
        }
    }
    (page.part, page.start) = (page.part + 1, Vec::new());
}

fn changes(store: &Store, page: &mut HashPage) {
    let first = Revision { main: page.compacted + 1, sub: 0 }.key();
    let start = if page.start.is_empty() { first.bytes().to_vec() } else { page.start.clone() };
    let end = Revision { main: page.revision + 1, sub: 0 }.key();
    for (step, (key, bytes)) in store.range(&start, Some(end.bytes())).enumerate() {
        if step == STEPS {
            page.start = key.to_vec();
            return;
        }
        debug_assert_eq!(key.first(), Some(&ENTRY));
        page.add(Entry::decode(bytes).message);
    }
    (page.part, page.start) = (END, Vec::new());
}
