//! What changed from one moment to another: as a list, and how a store notes it while it changes.
//!
//! To compare two versions means to compare whole leaves, and to keep versions means to copy a leaf for each change. A store that notes what
//! it changes needs neither. Tests: `tests/all/store.rs`.

use bytes::{Buf, Bytes};
use std::collections::BTreeMap;

use super::tree::{Change, Store};
use super::version::{Version, record};
use super::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// The length of a value that is not there any more.
const REMOVED: u32 = u32::MAX;

/// The objects that changed, in key order, each with its value now, or nothing if it was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    records: Bytes,
}

impl Changed {
    /// From one version to another.
    pub fn between(from: &Version, to: &Version) -> Self {
        let mut records = Vec::new();
        to.changes_since(from).for_each(|change| push(change, &mut records));
        Self { records: records.into() }
    }

    /// Reads [`Self::records`], which may be anything. `None`: they are not that.
    pub fn read(records: Bytes) -> Option<Self> {
        let (mut left, mut before) = (records.clone(), None);
        while !left.is_empty() {
            let (key, value) = (left.try_get_u32_le().ok()? as usize, left.try_get_u32_le().ok()?);
            let value = if value == REMOVED { 0 } else { value as usize };
            if key > KEY_BYTES_MAX || value > VALUE_BYTES_MAX || left.len() < key + value {
                return None;
            }
            let key = left.split_to(key);
            if before.as_ref().is_some_and(|before| *before >= key) {
                return None;
            }
            left.advance(value);
            before = Some(key);
        }
        Some(Self { records })
    }

    /// `(key length u32 | value length u32, or u32::MAX for none | key | value)` for each object, little-endian.
    pub fn records(&self) -> &Bytes {
        &self.records
    }

    /// The changes in key order.
    pub fn iter(&self) -> impl Iterator<Item = Change<'_>> {
        let mut left = &self.records[..];
        std::iter::from_fn(move || {
            let (lengths, rest) = left.split_first_chunk::<8>()?;
            let [key, value] = [&lengths[..4], &lengths[4..]].map(|mut length| length.get_u32_le());
            let (key, rest) = rest.split_at(key as usize);
            let (value, rest) = match value {
                REMOVED => (None, rest),
                length => rest.split_at_checked(length as usize).map(|(value, rest)| (Some(value), rest))?,
            };
            left = rest;
            Some((key, value))
        })
    }
}

fn push((key, value): Change<'_>, out: &mut Vec<u8>) {
    if let Some(value) = value {
        return record(key, value, out);
    }
    out.extend_from_slice(&(key.len() as u32).to_le_bytes());
    out.extend_from_slice(&REMOVED.to_le_bytes());
    out.extend_from_slice(key);
}

/// The keys that a store changed since a moment, with their values then.
#[derive(Default)]
pub(super) struct Notes {
    before: BTreeMap<Box<[u8]>, Option<Box<[u8]>>>,
}

impl Notes {
    /// A key is about to change. `now`: its value, which is asked for the first time only.
    pub(super) fn changes<'s>(&mut self, key: &[u8], now: impl FnOnce() -> Option<&'s [u8]>) {
        if !self.before.contains_key(key) {
            self.before.insert(key.into(), now().map(Into::into));
        }
    }

    /// What is different in the store now. A key that has its value again did not change.
    pub(super) fn differ(&self, now: &Store) -> Changed {
        let mut records = Vec::new();
        for (key, before) in &self.before {
            let now = now.get(key);
            if now != before.as_deref() {
                push((key, now), &mut records);
            }
        }
        Changed { records: records.into() }
    }
}
