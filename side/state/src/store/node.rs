//! The tree's nodes.
//!
//! Invariants: INV-STORE-4 (shape: a subtree is a leaf exactly if it has one entry or its cost is at most `BUCKET_BYTES`; an inner node
//! has two children or more), INV-STORE-5 (a child's digest is known only if nothing below it changed since). Both end in the root's
//! digest, which tests compare with that of a simple model.

use std::sync::atomic::{AtomicU32, Ordering};

use quorate_types::Digest;
use triomphe::{Arc, HeaderSlice};

use super::bucket::{Bucket, DigestCell, Entry, Large};
use super::symbols::{agreeing, nibbles, place_of};
use super::{ahead, rules};

/// A subtree.
#[derive(Clone, Default)]
pub(super) enum Child {
    /// Nothing: the root of an empty store; also, for a moment, the subtree that a change took out.
    #[default]
    None,
    Bucket(Bucket),
    Inner(Inner),
    Large(Arc<Large>),
}

/// A node with children, by the symbol at which their keys differ.
#[derive(Clone)]
pub(super) struct Inner(Arc<HeaderSlice<Head, [Child]>>);

/// The beginning of an inner node.
struct Head {
    /// The places of the children's symbols.
    symbols: u32,
    /// Whose digests are known, by place.
    known: AtomicU32,
    /// The half bytes from the parent's symbol to this node's.
    skip: Box<[u8]>,
    count: u64,
    cost: u64,
    /// The children's digests, in order, as far as they are known. They are not stored with the children, so that the memory that changes
    /// need stays in the processor's caches, even for a large tree.
    digests: Box<[DigestCell]>,
}

/// How many symbols there are.
const PLACES: usize = 17;
/// All half bytes and no end: the usual case with random keys.
const ALL_NIBBLES: u32 = 0x1_FFFE;

impl Inner {
    /// A node with these children, in order, whose digests are all unknown.
    pub(super) fn new(symbols: u32, skip: Box<[u8]>, children: Vec<Child>) -> Self {
        assert!(children.len() > 1, "INV-STORE-4: {} children", children.len());
        let (count, cost) = children.iter().fold((0, 0), |(count, cost), child| {
            let (more, bytes) = child.measure();
            (count + more, cost + bytes)
        });
        let (known, digests) = (AtomicU32::new(0), children.iter().map(|_| DigestCell::default()).collect());
        Self(Arc::from_header_and_vec(Head { symbols, known, skip, count, cost, digests }, children))
    }

    #[inline(never)]
    fn copy(&self) -> Self {
        let Head { symbols, known, skip, count, cost, digests } = &self.0.header;
        // Known digests are read first: another thread may add one meanwhile, or not.
        let known = AtomicU32::new(known.load(Ordering::Acquire));
        let (symbols, skip, count, cost, digests) = (*symbols, skip.clone(), *count, *cost, digests.clone());
        let head = Head { symbols, known, skip, count, cost, digests };
        Self(Arc::from_header_and_iter(head, self.0.slice.iter().cloned()))
    }

    /// The node to change: a copy if a version shares it.
    #[inline]
    fn own(&mut self) -> &mut HeaderSlice<Head, [Child]> {
        if !Arc::is_unique(&self.0) {
            *self = self.copy();
        }
        Arc::get_mut(&mut self.0).expect("INV-STORE-2: nobody shares it")
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
    pub(super) fn symbols(&self) -> u32 {
        self.0.header.symbols
    }
    #[inline]
    pub(super) fn skip(&self) -> &[u8] {
        &self.0.header.skip
    }
    pub(super) fn children(&self) -> &[Child] {
        &self.0.slice
    }
    /// How many entries it has, and their cost.
    pub(super) fn size(&self) -> (u64, u64) {
        (self.0.header.count, self.0.header.cost)
    }
    pub(super) fn grow(&mut self, count: i64, cost: i64) {
        let head = &mut self.own().header;
        head.count = head.count.wrapping_add_signed(count);
        head.cost = head.cost.wrapping_add_signed(cost);
    }
    pub(super) fn set_skip(&mut self, skip: Box<[u8]>) {
        self.own().header.skip = skip;
    }

    /// Whether it has exactly one child for each half byte, and no half bytes of its own.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.symbols() == ALL_NIBBLES && self.skip().is_empty()
    }
    /// The child of such a node, to be changed.
    #[inline]
    pub(super) fn plain_child_mut(&mut self, nibble: u8) -> &mut Child {
        let node = self.own();
        *node.header.known.get_mut() &= !(2 << nibble);
        &mut node.slice[usize::from(nibble)]
    }

    /// Where the child for this place is, or would be.
    #[inline]
    pub(super) fn index(&self, place: u32) -> usize {
        if self.symbols() == ALL_NIBBLES { place.saturating_sub(1) as usize } else { self.rank(place) }
    }
    fn rank(&self, place: u32) -> usize {
        (self.symbols() & ((1 << place) - 1)).count_ones() as usize
    }
    /// Where this node's symbol of a key is, if the key has the half bytes that lead to it from `depth` on.
    #[inline]
    pub(super) fn follow(&self, key: &[u8], depth: usize) -> Option<usize> {
        if self.skip().is_empty() { Some(depth) } else { self.follow_skip(key, depth) }
    }
    #[inline(never)]
    fn follow_skip(&self, key: &[u8], depth: usize) -> Option<usize> {
        (agreeing(self.skip(), key, depth) == self.skip().len()).then(|| depth + self.skip().len())
    }
    pub(super) fn has(&self, place: u32) -> bool {
        self.symbols() & 1 << place != 0
    }
    /// The places of the children in order.
    pub(super) fn places(&self) -> impl Iterator<Item = u32> {
        let symbols = self.symbols();
        (0..PLACES as u32).filter(move |place| symbols & 1 << place != 0)
    }
    pub(super) fn child(&self, place: u32) -> Option<&Child> {
        self.has(place).then(|| &self.children()[self.index(place)])
    }
    /// The child at this place, which exists, to be changed. Its digest is not known any more.
    #[inline]
    pub(super) fn child_mut(&mut self, place: u32) -> &mut Child {
        let index = self.index(place);
        let node = self.own();
        *node.header.known.get_mut() &= !(1 << place);
        &mut node.slice[index]
    }

    /// Adds a child; its entries are not counted yet.
    pub(super) fn add(&mut self, place: u32, child: Child) {
        let (index, symbols) = (self.index(place), self.symbols() | 1 << place);
        self.rebuild(symbols, |children, digests| {
            children.insert(index, child);
            digests.insert(index, DigestCell::default());
        });
    }

    /// Takes a child out; its entries are not counted any more.
    pub(super) fn take_away(&mut self, place: u32) {
        let (index, symbols) = (self.index(place), self.symbols() & !(1 << place));
        self.rebuild(symbols, |children, digests| {
            children.remove(index);
            digests.remove(index);
        });
    }

    fn rebuild(&mut self, symbols: u32, change: impl FnOnce(&mut Vec<Child>, &mut Vec<DigestCell>)) {
        let node = self.own();
        let mut children = node.slice.iter_mut().map(std::mem::take).collect();
        let mut digests = std::mem::take(&mut node.header.digests).into_vec();
        change(&mut children, &mut digests);
        let Head { symbols: before, known, skip, count, cost, .. } = &mut node.header;
        let known = AtomicU32::new(*known.get_mut() & *before & symbols);
        let (skip, digests) = (std::mem::take(skip), digests.into());
        let head = Head { symbols, known, skip, count: *count, cost: *cost, digests };
        self.0 = Arc::from_header_and_vec(head, children);
    }

    /// Whether it must change its form after something was taken out at this place: all of it fits in a leaf, or a child is gone.
    pub(super) fn shrunk(&self, place: u32) -> bool {
        let (count, cost) = self.size();
        rules::is_leaf(count, cost) || matches!(self.child(place), Some(Child::None))
    }

    /// The other of two children, and its half byte. It has one, since an ending key is a single entry.
    pub(super) fn other_than(&mut self, place: u32) -> (u8, Child) {
        let other = (self.symbols() & !(1 << place)).trailing_zeros();
        let child = std::mem::take(self.child_mut(other));
        (other.saturating_sub(1) as u8, child)
    }

    /// The digest of a child if it is known.
    pub(super) fn known_digest(&self, place: u32) -> Option<Digest> {
        let Head { known, digests, .. } = &self.0.header;
        let known = known.load(Ordering::Acquire) & 1 << place != 0;
        known.then(|| digests[self.index(place)].get())
    }
    /// The lowest place of a child without known digest.
    fn unknown(&self) -> Option<u32> {
        let unknown = self.symbols() & !self.0.header.known.load(Ordering::Acquire);
        (unknown != 0).then(|| unknown.trailing_zeros())
    }
    /// The children whose digests are not known.
    pub(super) fn unknown_children(&self) -> impl Iterator<Item = &Child> {
        let mut unknown = self.symbols() & !self.0.header.known.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            let place = (unknown != 0).then(|| unknown.trailing_zeros())?;
            unknown &= unknown - 1;
            self.child(place)
        })
    }
    fn keep_digest(&self, place: u32, digest: &Digest) {
        self.0.header.digests[self.index(place)].set(digest);
        self.0.header.known.fetch_or(1 << place, Ordering::Release);
    }

    /// The digest of a child, computed and kept if it is not known.
    pub(super) fn child_digest(&self, place: u32) -> Digest {
        self.known_digest(place).unwrap_or_else(|| {
            let digest = self.children()[self.index(place)].digest();
            self.keep_digest(place, &digest);
            digest
        })
    }

    /// The digest, when all children's digests are known, with this much of the way from its parent.
    pub(super) fn own_digest(&self, skip: &[u8], buffer: &mut Vec<u8>) -> Digest {
        rules::inner(self.symbols(), self.0.header.digests.iter().map(DigestCell::get), skip, buffer)
    }

    /// Computes all unknown digests below this node.
    ///
    /// Without recursion: a tree is as deep as its longest keys.
    pub(super) fn complete(&self, buffer: &mut Vec<u8>) {
        let (mut way, mut ahead): (Vec<(&Self, u32)>, _) = (vec![(self, 0)], Vec::new());
        ahead::of_digests(self, &mut ahead);
        while let Some(&(node, from)) = way.last() {
            match node.unknown() {
                Some(place) => match &node.children()[node.index(place)] {
                    Child::Inner(inner) => {
                        ahead::of_digests(inner, &mut ahead);
                        way.push((inner, place));
                    }
                    leaf => node.keep_digest(place, &leaf.digest()),
                },
                None => {
                    way.pop();
                    if let Some((parent, _)) = way.last() {
                        parent.keep_digest(from, &node.own_digest(node.skip(), buffer));
                    }
                }
            }
        }
    }
}

impl Child {
    /// A leaf with one entry.
    pub(super) fn leaf(key: &[u8], value: &[u8]) -> Self {
        Self::of(&[(key, value)])
    }

    /// A leaf with these entries, which fit in one.
    pub(super) fn of(entries: &[Entry<'_>]) -> Self {
        match entries {
            [(key, value)] if !rules::is_leaf(2, rules::cost(key, value)) => {
                Self::Large(Large::new(key, value))
            }
            _ => Self::Bucket(Bucket::new(entries)),
        }
    }

    /// How many entries it has, and their cost.
    pub(super) fn measure(&self) -> (u64, u64) {
        match self {
            Self::None => (0, 0),
            Self::Bucket(bucket) => (bucket.count() as u64, bucket.cost()),
            Self::Inner(inner) => inner.size(),
            Self::Large(large) => (1, large.cost()),
        }
    }

    /// The digest. What is not known on the way down is computed and kept.
    pub(super) fn digest(&self) -> Digest {
        match self {
            Self::None => rules::empty(),
            Self::Bucket(bucket) => bucket.digest(),
            Self::Large(large) => large.digest(),
            Self::Inner(inner) => {
                let mut buffer = Vec::new();
                inner.complete(&mut buffer);
                inner.own_digest(inner.skip(), &mut buffer)
            }
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let (mut child, mut depth) = (self, 0);
        loop {
            match child {
                Self::Inner(inner) => {
                    depth = inner.follow(key, depth)?;
                    child = inner.child(place_of(key, depth))?;
                    depth += 1;
                }
                leaf => return leaf.leaf_get(key),
            }
        }
    }

    /// How many entries it has, if it is a leaf.
    pub(super) fn leaf_len(&self) -> usize {
        match self {
            Self::Bucket(bucket) => bucket.count(),
            Self::Large(_) => 1,
            Self::None | Self::Inner(_) => 0,
        }
    }
    /// An entry of a leaf.
    pub(super) fn leaf_entry(&self, at: usize) -> Option<Entry<'_>> {
        match self {
            Self::Bucket(bucket) if at < bucket.count() => Some(bucket.entry(at)),
            Self::Large(large) if at == 0 => Some((&large.key, &large.value)),
            _ => None,
        }
    }
    /// The value of a key, if this is a leaf that has it.
    #[inline]
    pub(super) fn leaf_get(&self, key: &[u8]) -> Option<&[u8]> {
        match self {
            Self::Bucket(bucket) => bucket.get(key),
            Self::Large(large) => (*large.key == *key).then_some(&large.value),
            Self::None | Self::Inner(_) => None,
        }
    }
    /// The first entry of a leaf whose key is not below this one.
    pub(super) fn leaf_bound(&self, key: &[u8]) -> usize {
        match self {
            Self::Bucket(bucket) => bucket.lower_bound(key),
            Self::Large(large) => usize::from(*large.key < *key),
            Self::None | Self::Inner(_) => 0,
        }
    }
    /// The same subtree as a child of a higher node, so that these half bytes come first.
    pub(super) fn moved_up(mut self, more: &[u8]) -> Self {
        if let Self::Inner(inner) = &mut self
            && !more.is_empty()
        {
            inner.set_skip([more, inner.skip()].concat().into());
        }
        self
    }
}

/// The node above two subtrees, each with its symbol's place, that branch at symbol `at` of `key`; its parent's symbol is before `depth`.
pub(super) fn fork(children: [(u32, Child); 2], key: &[u8], depth: usize, at: usize) -> Child {
    let [mut first, mut second] = children;
    if first.0 > second.0 {
        std::mem::swap(&mut first, &mut second);
    }
    let symbols = 1 << first.0 | 1 << second.0;
    Child::Inner(Inner::new(symbols, nibbles(key, depth, at), vec![first.1, second.1]))
}

impl Drop for Child {
    /// Without recursion: a tree is as deep as its longest keys.
    fn drop(&mut self) {
        let Self::Inner(inner) = self else { return };
        let mut left = Vec::new();
        inner.take_inner(&mut left);
        while let Some(mut child) = left.pop() {
            if let Self::Inner(inner) = &mut child {
                inner.take_inner(&mut left);
            }
        }
    }
}

impl Inner {
    /// Moves the children that are inner nodes to the list, if this node is not shared.
    fn take_inner(&mut self, left: &mut Vec<Child>) {
        let Some(node) = Arc::get_mut(&mut self.0) else { return };
        for child in &mut node.slice {
            if matches!(child, Child::Inner(_)) {
                left.push(std::mem::take(child));
            }
        }
    }
}
