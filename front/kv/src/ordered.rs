//! Keys in the order of their bytes, as a tree of numbers: the first 16 bytes of a key are its place in the tree, so that finding it
//! compares numbers that lie side by side instead of following a pointer per comparison. With many keys most of the time
//! would go there. Keys that share their first 16 bytes share a place. Tests: `ordered/tests.rs`.

use std::collections::BTreeMap;
use std::ops::Bound;

/// The first 16 bytes as a number, filled up with zeros: where two of them differ, the keys are in the same order.
fn place_of(key: &[u8]) -> u128 {
    match key.first_chunk::<16>() {
        Some(first) => u128::from_be_bytes(*first),
        None => {
            let mut first = [0; 16];
            first[..key.len()].copy_from_slice(key);
            u128::from_be_bytes(first)
        }
    }
}

/// Whether two keys of one place are the same. Up to 16 bytes the place says all but their length, and what a pointer leads to
/// need not be fetched.
fn is_same(own: &[u8], key: &[u8]) -> bool {
    own.len() == key.len() && (key.len() <= 16 || own == key)
}

type Entry = (Box<[u8]>, Vec<u8>);

/// What lies at one place.
#[derive(Debug)]
enum Place {
    /// Nearly always: one key.
    One(Entry),
    /// Several that begin alike.
    Many(BTreeMap<Box<[u8]>, Vec<u8>>),
}

impl Place {
    fn get(&self, key: &[u8]) -> Option<&Vec<u8>> {
        match self {
            Self::One((own, value)) => is_same(own, key).then_some(value),
            Self::Many(many) => many.get(key),
        }
    }

    fn get_mut(&mut self, key: &[u8]) -> Option<&mut Vec<u8>> {
        match self {
            Self::One((own, value)) => is_same(own, key).then_some(value),
            Self::Many(many) => many.get_mut(key),
        }
    }

    fn insert(&mut self, key: &[u8], value: Vec<u8>) {
        match self {
            Self::One(entry) if is_same(&entry.0, key) => entry.1 = value,
            Self::One(entry) => {
                let entry = std::mem::take(entry);
                *self = Self::Many(BTreeMap::from([entry, (key.into(), value)]));
            }
            Self::Many(many) => drop(many.insert(key.into(), value)),
        }
    }

    fn entries(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let (one, many) = match self {
            Self::One((key, value)) => (Some((&**key, value.as_slice())), None),
            Self::Many(many) => (None, Some(many.iter().map(|(key, value)| (&**key, value.as_slice())))),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

/// Values by key, in the order of the keys' bytes.
#[derive(Debug, Default)]
pub(crate) struct OrderedMap {
    places: BTreeMap<u128, Place>,
    len: usize,
}

impl OrderedMap {
    pub(crate) fn from_sorted(entries: Vec<Entry>) -> Self {
        let mut map = Self::default();
        entries.into_iter().for_each(|(key, value)| map.insert(&key, value));
        map
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.places.get(&place_of(key))?.get(key).map(Vec::as_slice)
    }

    pub(crate) fn get_mut(&mut self, key: &[u8]) -> Option<&mut Vec<u8>> {
        self.places.get_mut(&place_of(key))?.get_mut(key)
    }

    /// Adds a key that is not there.
    pub(crate) fn insert(&mut self, key: &[u8], value: Vec<u8>) {
        use std::collections::btree_map::Entry as At;
        self.len += 1;
        match self.places.entry(place_of(key)) {
            At::Vacant(place) => drop(place.insert(Place::One((key.into(), value)))),
            At::Occupied(mut place) => place.get_mut().insert(key, value),
        }
    }

    /// Says whether there was one.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        let at = place_of(key);
        let Some(place) = self.places.get_mut(&at) else { return false };
        let (removed, empty) = match place {
            Place::One((own, _)) => (is_same(own, key), is_same(own, key)),
            Place::Many(many) => (many.remove(key).is_some(), many.is_empty()),
        };
        if empty {
            self.places.remove(&at);
        }
        self.len -= usize::from(removed);
        removed
    }

    /// From `start` on, up to and without `end` if there is one.
    pub(crate) fn range<'a>(
        &'a self,
        start: &'a [u8],
        end: Option<&'a [u8]>,
    ) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let some = end.is_none_or(|end| start < end);
        let first = Bound::Included(place_of(start));
        let last = end.map_or(Bound::Unbounded, |end| Bound::Included(place_of(end)));
        let places = some.then(|| self.places.range((first, last)));
        places
            .into_iter()
            .flatten()
            .flat_map(|(_, place)| place.entries())
            .skip_while(move |(key, _)| *key < start)
            .take_while(move |(key, _)| end.is_none_or(|end| *key < end))
    }
}

#[cfg(test)]
mod tests;
