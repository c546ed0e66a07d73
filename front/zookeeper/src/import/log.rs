//! A log file of a ZooKeeper.
//!
//! `ZKLG`, version (`int`), database (`long`). Then transactions: check sum (`long`), a `buffer` with header and record, and the byte `B`. Files
//! are made longer in advance; what is not written yet is 0.

use super::adler32;
use crate::jute::{Malformed, Reader};

const MAGIC: &[u8; 4] = b"ZKLG";
const HEADER_BYTES: usize = 16;
const END: u8 = b'B';
/// The bytes of a transaction's header.
const ENTRY_BYTES_MIN: usize = 32;

/// A transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    /// The session that asked for it.
    pub(super) session: i64,
    pub(super) zxid: i64,
    /// When, in milliseconds since 1970.
    pub(super) time_ms: i64,
    /// The number of the operation.
    pub(super) kind: i32,
    pub(super) record: &'a [u8],
}

impl<'a> Entry<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut from = Reader::new(bytes);
        let (session, _request, zxid, time_ms) = (from.long()?, from.int()?, from.long()?, from.long()?);
        Ok(Self { session, zxid, time_ms, kind: from.int()?, record: from.rest() })
    }
}

/// What is next in a file.
pub(super) enum Next<'a> {
    Entry(Entry<'a>),
    /// Nothing.
    End,
    /// A part of a transaction.
    Torn,
    /// Something else.
    Damaged,
}

/// A file, and how far it was read.
pub(super) struct Log<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Log<'a> {
    /// The log in these bytes, if they begin as one.
    pub(super) fn of(bytes: &'a [u8]) -> Option<Self> {
        let begins = bytes.len() >= HEADER_BYTES && bytes.starts_with(MAGIC);
        // A file that was just made has nothing yet.
        let is_new = bytes.iter().all(|byte| *byte == 0);
        (begins || is_new).then_some(Self { bytes, at: HEADER_BYTES.min(bytes.len()) })
    }

    /// Where the next transaction begins.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn next(&mut self) -> Next<'a> {
        let rest = &self.bytes[self.at..];
        let mut from = Reader::new(rest);
        let Ok(sum) = from.long() else { return self.cut_off() };
        let bytes = match from.bytes() {
            Ok(Some(bytes)) if !bytes.is_empty() => bytes,
            // Written in advance.
            Ok(_) if sum == 0 => return Next::End,
            Ok(_) => return Next::Damaged,
            Err(Malformed) => return self.cut_off(),
        };
        match from.rest().first() {
            None => return self.cut_off(),
            // A part of what was made in advance was written over.
            Some(0) if from.rest().iter().all(|byte| *byte == 0) => return Next::Torn,
            Some(&END) => {}
            Some(_) => return Next::Damaged,
        }
        if sum != i64::from(adler32(bytes)) {
            return Next::Damaged;
        }
        self.at += rest.len() - from.rest().len() + 1;
        Entry::read(bytes).map_or(Next::Damaged, Next::Entry)
    }

    /// What follows is too short for a transaction, as far as its length is right. If a whole one is behind it, the length is wrong.
    fn cut_off(&self) -> Next<'a> {
        let rest = &self.bytes[self.at..];
        if rest.iter().all(|byte| *byte == 0) {
            return Next::End;
        }
        let whole = |from: usize| Log { bytes: self.bytes, at: self.at + from }.is_whole();
        if (1..rest.len()).any(whole) { Next::Damaged } else { Next::Torn }
    }

    /// Whether a transaction begins here.
    fn is_whole(&self) -> bool {
        let mut from = Reader::new(&self.bytes[self.at..]);
        let Ok(sum) = from.long() else { return false };
        let Ok(Some(bytes)) = from.bytes() else { return false };
        // Few bytes in a row look like a check sum, a length that fits, and an end.
        (sum as u64) < 1 << 32
            && bytes.len() >= ENTRY_BYTES_MIN
            && from.rest().first() == Some(&END)
            && sum == i64::from(adler32(bytes))
    }
}
