//! The state as a parallel command sees it: a version of the objects, the writes of earlier commands that are not final yet, and its own.
//!
//! On the lane a view is the store itself. On a worker it writes nothing into the store. It notes what the command read and where that came
//! from, so that the executor can tell whether the command would do the same at its place in the order ([`crate::InOrder`]); or it sees what commands
//! on other threads write at the same time ([`crate::Speculative`]).
//! Sources: Thomson et al., Aria (VLDB 2020): commands on one version of the state, checked afterwards; Gelashvili et al., Block-STM (PPoPP 2023):
//! values of commands that run side by side, by their places in a preset order.
//! Tests: view/tests.rs, against a map.

mod live;
mod range;

use crate::cells::Cells;
use bytes::Bytes;
use live::Live;
use quorate_state::store::{KEY_BYTES_MAX, Store, VALUE_BYTES_MAX, Version};
pub use range::StateRange;
use std::any::Any;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// What a command tells about itself, for the service's observer.
pub(crate) type Told = Box<dyn Any + Send>;

/// One execution of one request. No two have the same number, on one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RunId(pub(crate) u64);

/// A write of an earlier request that is not in the version: the last one of its key.
#[derive(Clone, Debug)]
pub(crate) struct Earlier {
    pub(crate) key: Box<[u8]>,
    /// The run that wrote it.
    pub(crate) run: RunId,
    /// `None`: the key was removed.
    pub(crate) value: Option<Bytes>,
}

/// What a command reads, and where its writes go.
pub struct StateView<'a> {
    kind: Kind<'a>,
}

enum Kind<'a> {
    Reading(&'a Store),
    /// The store itself, and where what is told goes.
    Direct(&'a mut Store, &'a mut Vec<Told>),
    Noting(Box<Noting<'a>>),
    Live(Box<Live<'a>>),
}

/// A view that notes everything.
struct Noting<'a> {
    version: &'a Version,
    /// Sorted by key.
    earlier: &'a [Earlier],
    own: BTreeMap<Box<[u8]>, Option<Bytes>>,
    reads: RefCell<Reads>,
    told: Vec<Told>,
}

/// What a command read, beside its own writes.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    /// Each key with the run whose write it saw first; `None`: what the version has. In shared cells, it is how often the key was written before.
    pub(crate) keys: BTreeMap<Box<[u8]>, Option<RunId>>,
    /// What it saw of keys later, if that was something else. Only in shared cells.
    pub(crate) changed: Vec<(Box<[u8]>, Option<RunId>)>,
    pub(crate) ranges: Vec<RangeRead>,
}

/// A range of keys that a command read.
#[derive(Debug)]
pub(crate) struct RangeRead {
    pub(crate) start: Box<[u8]>,
    /// Where it ends: after this key if the command stopped there, before it if it is the end that was asked for; nowhere if there is none.
    pub(crate) end: RangeEnd,
    /// The writes in it that are not in the version, and whose they are.
    pub(crate) saw: Vec<(Box<[u8]>, RunId)>,
}

/// The end of a range that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RangeEnd {
    After(Box<[u8]>),
    Before(Box<[u8]>),
    Nowhere,
}

impl RangeEnd {
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        match self {
            Self::After(last) => key <= &**last,
            Self::Before(end) => key < &**end,
            Self::Nowhere => true,
        }
    }
}

/// What is left of a view that noted everything.
#[derive(Default)]
pub(crate) struct Noted {
    pub(crate) reads: Reads,
    pub(crate) writes: BTreeMap<Box<[u8]>, Option<Bytes>>,
    pub(crate) told: Vec<Told>,
}

impl<'a> StateView<'a> {
    /// A view that can only be read.
    #[inline]
    pub fn reading(store: &'a Store) -> Self {
        Self { kind: Kind::Reading(store) }
    }

    /// A view of the store itself: writes change the store at once.
    #[inline]
    pub(crate) fn direct(store: &'a mut Store, told: &'a mut Vec<Told>) -> Self {
        Self { kind: Kind::Direct(store, told) }
    }

    /// A view that changes nothing and notes everything. `earlier` is sorted by key.
    pub(crate) fn noting(version: &'a Version, earlier: &'a [Earlier]) -> Self {
        let (own, reads, told) = (BTreeMap::new(), RefCell::default(), Vec::new());
        Self { kind: Kind::Noting(Box::new(Noting { version, earlier, own, reads, told })) }
    }

    /// A view of what the run `who` and others on other threads write into the cells, above a version.
    pub(crate) fn live(version: &'a Version, cells: &'a dyn Cells, who: u64) -> Self {
        let (own, reads, told) = (BTreeSet::new(), RefCell::default(), Vec::new());
        Self { kind: Kind::Live(Box::new(Live { version, cells, who, own, reads, told })) }
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        match &self.kind {
            Kind::Reading(store) => store.get(key),
            Kind::Direct(store, _) => store.get(key),
            Kind::Noting(noting) => noting.get(key),
            Kind::Live(live) => return live.get(key),
        }
        .map(Cow::Borrowed)
    }

    /// Whether a key has a value.
    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.get(key).is_some()
    }

    /// The entries from `start` to before `end`, or to the last key, in key order. Take no more of them than you need: whoever writes one
    /// of those that were taken has to run before.
    #[inline]
    pub fn range<'v>(&'v self, start: &'v [u8], end: Option<&'v [u8]>) -> StateRange<'v> {
        match &self.kind {
            Kind::Reading(store) => StateRange::plain(store.range(start, end)),
            Kind::Direct(store, _) => StateRange::plain(store.range(start, end)),
            Kind::Noting(noting) => noting.range(start, end),
            Kind::Live(live) => live.range(start, end),
        }
    }

    /// Gives a key this value. Returns whether the key had one.
    ///
    /// # Panics
    /// When key or value are longer than a [`Store`] takes, and in a view that can only be read.
    #[inline]
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> bool {
        match &mut self.kind {
            Kind::Direct(store, _) => store.put(key, value),
            Kind::Noting(noting) => {
                let had = noting.get(key).is_some();
                noting.set(key, value);
                had
            }
            Kind::Live(live) => live.replace(key, Some(&kept(key, value))),
            Kind::Reading(_) => panic!("{READING}"),
        }
    }

    /// As [`Self::put`], without a word of what was there before. So it does not depend on earlier commands.
    ///
    /// # Panics
    /// As [`Self::put`].
    #[inline]
    pub fn set(&mut self, key: &[u8], value: &[u8]) {
        match &mut self.kind {
            Kind::Direct(store, _) => drop(store.put(key, value)),
            Kind::Noting(noting) => noting.set(key, value),
            Kind::Live(live) => live.set(key, &kept(key, value)),
            Kind::Reading(_) => panic!("{READING}"),
        }
    }

    /// Removes a key. Returns whether it had a value.
    ///
    /// # Panics
    /// In a view that can only be read.
    #[inline]
    pub fn remove(&mut self, key: &[u8]) -> bool {
        match &mut self.kind {
            Kind::Direct(store, _) => store.remove(key),
            Kind::Noting(noting) => {
                let had = noting.get(key).is_some();
                if had {
                    noting.own.insert(key.into(), None);
                }
                had
            }
            Kind::Live(live) => live.replace(key, None),
            Kind::Reading(_) => panic!("{READING}"),
        }
    }

    /// Tells the service's observer something about this command. A [`Letter`](crate::Letter) goes to its session instead, unless the batch runs
    /// again from a memo. The observer hears it once the command is final, in the order of the
    /// log; of a run that does not count it hears nothing.
    #[inline]
    pub fn tell<T: Any + Send>(&mut self, what: T) {
        match &mut self.kind {
            Kind::Direct(_, told) => told.push(Box::new(what)),
            Kind::Noting(noting) => noting.told.push(Box::new(what)),
            Kind::Live(live) => live.told.push(Box::new(what)),
            Kind::Reading(_) => {}
        }
    }

    /// What was noted; nothing in a view that notes nothing.
    pub(crate) fn noted(self) -> Noted {
        match self.kind {
            Kind::Noting(noting) => {
                let Noting { own, reads, told, .. } = *noting;
                Noted { reads: reads.into_inner(), writes: own, told }
            }
            // The values are in the cells.
            Kind::Live(live) => {
                let Live { own, reads, told, .. } = *live;
                let writes = own.into_iter().map(|key| (key, None)).collect();
                Noted { reads: reads.into_inner(), writes, told }
            }
            Kind::Reading(_) | Kind::Direct(..) => Noted::default(),
        }
    }
}

/// A value that a key gets.
fn kept(key: &[u8], value: &[u8]) -> Bytes {
    let fits = key.len() <= KEY_BYTES_MAX && value.len() <= VALUE_BYTES_MAX;
    assert!(fits, "INV-STORE-1: sizes are limited");
    Bytes::copy_from_slice(value)
}

const READING: &str = "a query changes nothing";

impl Noting<'_> {
    fn get(&self, key: &[u8]) -> Option<&[u8]> {
        if let Some(own) = self.own.get(key) {
            return own.as_deref();
        }
        let earlier = self.earlier.binary_search_by(|earlier| (*earlier.key).cmp(key)).ok();
        let earlier = earlier.map(|at| &self.earlier[at]);
        let mut reads = self.reads.borrow_mut();
        if !reads.keys.contains_key(key) {
            reads.keys.insert(key.into(), earlier.map(|earlier| earlier.run));
        }
        match earlier {
            Some(earlier) => earlier.value.as_deref(),
            None => self.version.get(key),
        }
    }

    fn set(&mut self, key: &[u8], value: &[u8]) {
        let value = Some(kept(key, value));
        match self.own.get_mut(key) {
            Some(own) => *own = value,
            None => drop(self.own.insert(key.into(), value)),
        }
    }
}

#[cfg(test)]
mod tests;
