//! Keys in the order of their bytes. The first bytes of each key lie in the tree's own nodes, so that finding a key compares numbers
//! that lie side by side instead of following a pointer per comparison: with a million keys most of the time would go there.
//! Tests: `ordered/tests.rs`.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A key that the map owns.
#[derive(Debug)]
struct Key {
    prefix: u128,
    bytes: Box<[u8]>,
}

/// A key to look for.
#[derive(Clone, Copy, Debug)]
struct KeyRef<'a> {
    /// The first 16 bytes as a number, filled up with zeros: where two differ, the keys are in the same order.
    prefix: u128,
    bytes: &'a [u8],
}

impl<'a> KeyRef<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let prefix = match bytes.first_chunk::<16>() {
            Some(first) => u128::from_be_bytes(*first),
            None => {
                let mut first = [0; 16];
                first[..bytes.len()].copy_from_slice(bytes);
                u128::from_be_bytes(first)
            }
        };
        Self { prefix, bytes }
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.prefix.cmp(&other.prefix).then_with(|| {
            // Up to 16 bytes the prefix says all but how many of its last zeros belong to the key.
            if self.bytes.len() <= 16 && other.bytes.len() <= 16 {
                self.bytes.len().cmp(&other.bytes.len())
            } else {
                self.bytes.cmp(other.bytes)
            }
        })
    }
}

/// What an owned key and one to look for have in common, so that looking allocates nothing.
trait AsKey {
    fn as_key(&self) -> KeyRef<'_>;
}

impl AsKey for Key {
    fn as_key(&self) -> KeyRef<'_> {
        KeyRef { prefix: self.prefix, bytes: &self.bytes }
    }
}

impl AsKey for KeyRef<'_> {
    fn as_key(&self) -> KeyRef<'_> {
        *self
    }
}

impl<'a> Borrow<dyn AsKey + 'a> for Key {
    fn borrow(&self) -> &(dyn AsKey + 'a) {
        self
    }
}

impl Ord for dyn AsKey + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_key().compare(&other.as_key())
    }
}

impl PartialOrd for dyn AsKey + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn AsKey + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for dyn AsKey + '_ {}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_key().compare(&other.as_key())
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

/// Values by key, in the order of the keys' bytes.
#[derive(Debug, Default)]
pub(crate) struct OrderedMap {
    map: BTreeMap<Key, Vec<u8>>,
}

impl OrderedMap {
    /// From a sorted list the tree is built at once.
    pub(crate) fn from_sorted(entries: Vec<(Box<[u8]>, Vec<u8>)>) -> Self {
        let key = |bytes: Box<[u8]>| Key { prefix: KeyRef::new(&bytes).prefix, bytes };
        Self { map: entries.into_iter().map(|(bytes, value)| (key(bytes), value)).collect() }
    }

    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let key: &dyn AsKey = &KeyRef::new(key);
        self.map.get(key).map(Vec::as_slice)
    }

    pub(crate) fn get_mut(&mut self, key: &[u8]) -> Option<&mut Vec<u8>> {
        let key: &dyn AsKey = &KeyRef::new(key);
        self.map.get_mut(key)
    }

    pub(crate) fn insert(&mut self, key: &[u8], value: Vec<u8>) {
        let prefix = KeyRef::new(key).prefix;
        self.map.insert(Key { prefix, bytes: key.into() }, value);
    }

    /// Says whether there was one.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        let key: &dyn AsKey = &KeyRef::new(key);
        self.map.remove(key).is_some()
    }

    /// From `start` on, up to and without `end` if there is one.
    pub(crate) fn range(&self, start: &[u8], end: Option<&[u8]>) -> impl Iterator<Item = (&[u8], &[u8])> {
        let some = end.is_none_or(|end| start < end);
        let start = KeyRef::new(start);
        let end = end.map(KeyRef::new);
        let bounds: (Bound<&dyn AsKey>, Bound<&dyn AsKey>) = (
            Bound::Included(&start),
            end.as_ref().map_or(Bound::Unbounded, |end| Bound::Excluded(end as &dyn AsKey)),
        );
        let range = some.then(|| self.map.range::<dyn AsKey, _>(bounds));
        range.into_iter().flatten().map(|(key, value)| (&*key.bytes, value.as_slice()))
    }
}

#[cfg(test)]
mod tests;
