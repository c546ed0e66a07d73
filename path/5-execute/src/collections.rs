//! Maps and sets in the state, for parallel services; keys that are made once; and the sweep of objects that nothing refers to.
//!
//! A replica's own collections go through their elements in an order that depends on memory and threads, and a counter for new keys makes
//! every command that takes one wait for the command before. Here elements have the order of their keys, and a command makes new keys from
//! its place in the log, without reading anything.
//! Source: Kapritsos, "Replicating Multithreaded Web Services" (Eve), section 3.3.2: wrappers for sets and maps, in the order of their keys
//! or in the order of (request, count); objects that are not reachable leave the state.
//! Tests: tests/all/collections.rs.

use crate::context::Context;
use crate::view::StateView;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Makes keys that no other command ever makes, wherever the command runs, and as often as it runs. They sort by the batch, then by the
/// request, the command, and the number of the key.
#[derive(Clone, Debug)]
pub struct FreshKeys {
    place: [u8; Self::BYTES - 4],
    count: u32,
}

impl FreshKeys {
    /// The length of a key.
    pub const BYTES: usize = 24;

    /// The keys of the command of this context. Make one of these in a command, not more: a second one begins with the same keys.
    pub fn new(ctx: &Context) -> Self {
        let mut place = [0; Self::BYTES - 4];
        place[..8].copy_from_slice(&ctx.seq().number().to_be_bytes());
        let parts = [ctx.request_index(), ctx.command_index(), ctx.session().index];
        for (to, part) in place[8..].chunks_exact_mut(4).zip(parts) {
            to.copy_from_slice(&part.to_be_bytes());
        }
        Self { place, count: 0 }
    }

    /// The next key.
    ///
    /// # Panics
    /// After 2^32 keys.
    pub fn key(&mut self) -> [u8; Self::BYTES] {
        let mut key = [0; Self::BYTES];
        let (place, count) = key.split_at_mut(Self::BYTES - 4);
        place.copy_from_slice(&self.place);
        count.copy_from_slice(&self.count.to_be_bytes());
        self.count = self.count.checked_add(1).expect("a command makes fewer than 2^32 keys");
        key
    }
}

/// A map in the state, with a name of its own. Its elements have the order of their keys. With [`FreshKeys`] that is the order in which
/// they came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// The length of the name, and the name. So no map's keys begin with another map's.
    prefix: Box<[u8]>,
}

/// A key and its value.
pub type Entry<'v> = (Cow<'v, [u8]>, Cow<'v, [u8]>);

impl Map {
    /// The map with this name.
    ///
    /// # Panics
    /// When the name has more than 255 bytes.
    pub fn new(name: &[u8]) -> Self {
        let length = u8::try_from(name.len()).expect("a map's name has at most 255 bytes");
        Self { prefix: [&[length], name].concat().into() }
    }

    /// Where an element lies in the state; for [`KeyUse`](crate::KeyUse), too.
    pub fn place(&self, key: &[u8]) -> Vec<u8> {
        [&*self.prefix, key].concat()
    }

    /// The value of a key.
    pub fn get<'v>(&self, view: &'v StateView<'_>, key: &[u8]) -> Option<Cow<'v, [u8]>> {
        view.get(&self.place(key))
    }

    /// Whether a key has a value.
    pub fn contains(&self, view: &StateView<'_>, key: &[u8]) -> bool {
        view.contains(&self.place(key))
    }

    /// Gives a key this value. Returns whether the key had one.
    ///
    /// # Panics
    /// As [`StateView::put`]. The key is longer by the name and one byte there.
    pub fn put(&self, view: &mut StateView<'_>, key: &[u8], value: &[u8]) -> bool {
        view.put(&self.place(key), value)
    }

    /// As [`Self::put`], without a word of what was there before. So it does not depend on earlier commands.
    ///
    /// # Panics
    /// As [`Self::put`].
    pub fn set(&self, view: &mut StateView<'_>, key: &[u8], value: &[u8]) {
        view.set(&self.place(key), value);
    }

    /// Removes a key. Returns whether it had a value.
    ///
    /// # Panics
    /// In a view that can only be read.
    pub fn remove(&self, view: &mut StateView<'_>, key: &[u8]) -> bool {
        view.remove(&self.place(key))
    }

    /// Passes the elements from the key `start` on to `each`, in the order of their keys, until `each` gives `false`. Take no more of them
    /// than you need, as with [`StateView::range`].
    pub fn each_from(&self, view: &StateView<'_>, start: &[u8], mut each: impl FnMut(Entry<'_>) -> bool) {
        let (start, end) = (self.place(start), self.end());
        for (key, value) in view.range(&start, end.as_deref()) {
            if !each((Cow::Borrowed(&key[self.prefix.len()..]), value)) {
                return;
            }
        }
    }

    /// All elements, in the order of their keys.
    pub fn entries(&self, view: &StateView<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut all = Vec::new();
        self.each_from(view, &[], |(key, value)| {
            all.push((key.into_owned(), value.into_owned()));
            true
        });
        all
    }

    /// Removes the elements to which nothing refers. `roots` are keys that stay. `refers` passes the keys to which a value refers to its
    /// last argument; they may be keys that are not there. Returns how many elements are gone. It reads all elements, and keeps the keys
    /// of those that stay in memory meanwhile: call it seldom, and not in commands that others wait for.
    ///
    /// # Panics
    /// In a view that can only be read.
    pub fn sweep<'k>(
        &self,
        view: &mut StateView<'_>,
        roots: impl IntoIterator<Item = &'k [u8]>,
        refers: impl Fn(&[u8], &mut dyn FnMut(&[u8])),
    ) -> usize {
        let mut reached: BTreeSet<Box<[u8]>> = BTreeSet::new();
        let mut next: Vec<Box<[u8]>> = roots.into_iter().map(Box::from).collect();
        while let Some(key) = next.pop() {
            let Some(value) = self.get(view, &key) else { continue };
            if reached.insert(key) {
                refers(&value, &mut |other| {
                    if !reached.contains(other) {
                        next.push(other.into());
                    }
                });
            }
        }
        let mut gone: Vec<Vec<u8>> = Vec::new();
        self.each_from(view, &[], |(key, _)| {
            if !reached.contains(&*key) {
                gone.push(key.into_owned());
            }
            true
        });
        gone.iter().filter(|key| self.remove(view, key)).count()
    }

    /// The first key behind all that begin with the prefix; none if there is none.
    fn end(&self) -> Option<Vec<u8>> {
        let mut end = self.prefix.to_vec();
        while let Some(last) = end.pop() {
            if last < u8::MAX {
                end.push(last + 1);
                return Some(end);
            }
        }
        None
    }
}

/// A set in the state, with a name of its own: a [`Map`] without values. A set and a map may not have the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set(Map);

impl Set {
    /// The set with this name.
    ///
    /// # Panics
    /// When the name has more than 255 bytes.
    pub fn new(name: &[u8]) -> Self {
        Self(Map::new(name))
    }

    /// Where an element lies in the state; for [`KeyUse`](crate::KeyUse), too.
    pub fn place(&self, element: &[u8]) -> Vec<u8> {
        self.0.place(element)
    }

    /// Whether it has this element.
    pub fn contains(&self, view: &StateView<'_>, element: &[u8]) -> bool {
        self.0.contains(view, element)
    }

    /// Adds an element. Returns whether it is new.
    ///
    /// # Panics
    /// As [`Map::put`].
    pub fn insert(&self, view: &mut StateView<'_>, element: &[u8]) -> bool {
        !self.0.put(view, element, &[])
    }

    /// Removes an element. Returns whether it was there.
    ///
    /// # Panics
    /// In a view that can only be read.
    pub fn remove(&self, view: &mut StateView<'_>, element: &[u8]) -> bool {
        self.0.remove(view, element)
    }

    /// Passes the elements from `start` on to `each`, in their order, until `each` gives `false`.
    pub fn each_from(&self, view: &StateView<'_>, start: &[u8], mut each: impl FnMut(&[u8]) -> bool) {
        self.0.each_from(view, start, |(element, _)| each(&element));
    }

    /// All elements, in their order.
    pub fn elements(&self, view: &StateView<'_>) -> Vec<Vec<u8>> {
        self.0.entries(view).into_iter().map(|(element, _)| element).collect()
    }
}

#[cfg(test)]
mod tests;
