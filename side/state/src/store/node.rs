//! The tree's nodes.
//!
//! Invariants: INV-STORE-5 (shape: a subtree is a leaf exactly if it has one entry or its cost is at most `BUCKET_BYTES`; an inner node
//! has two children or more), INV-STORE-6 (a child's digest is known only if nothing below it changed since). Both end in the root's
//! digest, which tests compare with that of a simple model.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use quorate_types::Digest;

use super::bucket::{Bucket, DigestCell, Entry, Large};
use super::rules;
use super::symbols::{nibbles, place_of};

/// A subtree.
#[derive(Clone, Default)]
pub(super) enum Child {
    /// Nothing: the root of an empty store, and for a moment what a change took away.
    #[default]
    None,
    Bucket(Arc<Bucket>),
    Inner(Arc<Inner>),
    Large(Arc<Large>),
}

/// A node with children, by the symbol at which their keys differ.
// What changes need comes first; digests are elsewhere, so that the nodes of a large tree stay in the processor's caches.
#[repr(C)]
pub(super) struct Inner<C: ?Sized = [Child]> {
    /// The places of the children's symbols.
    pub(super) symbols: u32,
    /// Whose digests are known, by place.
    known: AtomicU32,
    /// The half bytes from the parent's symbol to this node's.
    pub(super) skip: Box<[u8]>,
    pub(super) count: u64,
    pub(super) cost: u64,
    /// Those of the children, in order, as far as they are known.
    digests: Box<[DigestCell]>,
    pub(super) children: C,
}

/// How many symbols there are.
const PLACES: usize = 17;
/// All half bytes and no end, as random keys have them.
const ALL_NIBBLES: u32 = 0x1_FFFE;

impl Inner {
    /// A node with these children, in order, whose digests are all unknown.
    pub(super) fn new(symbols: u32, skip: Box<[u8]>, children: Vec<Child>) -> Arc<Self> {
        let (count, cost) = children.iter().fold((0, 0), |(count, cost), child| {
            let (more, bytes) = child.measure();
            (count + more, cost + bytes)
        });
        let digests = children.iter().map(|_| DigestCell::default()).collect();
        Self::assemble(symbols, 0, (count, cost), skip, digests, children)
    }

    /// One allocation of the right length for each number of children.
    fn assemble(
        symbols: u32,
        known: u32,
        (count, cost): (u64, u64),
        skip: Box<[u8]>,
        digests: Box<[DigestCell]>,
        children: Vec<Child>,
    ) -> Arc<Self> {
        let known = AtomicU32::new(known);
        macro_rules! lengths {
            ($($length:literal)*) => {
                match children.len() {
                    $($length => {
                        let mut children = children.into_iter();
                        let children: [Child; $length] = std::array::from_fn(|_| children.next().unwrap_or_default());
                        Arc::new(Inner { symbols, known, count, cost, skip, digests, children })
                    })*
                    other => panic!("INV-STORE-5: {other} children"),
                }
            };
        }
        lengths!(2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17)
    }

    fn copy(&self) -> Arc<Self> {
        // What is known is read first: a digest that another thread adds meanwhile may be there or not.
        let known = self.known.load(Ordering::Acquire);
        let (skip, digests) = (self.skip.clone(), self.digests.clone());
        Self::assemble(self.symbols, known, (self.count, self.cost), skip, digests, self.children.to_vec())
    }

    /// The node to change: a copy if a version shares it.
    #[inline]
    pub(super) fn own(this: &mut Arc<Self>) -> &mut Self {
        if Arc::strong_count(this) != 1 {
            *this = this.copy();
        }
        Arc::get_mut(this).expect("INV-STORE-2: nobody shares it")
    }

    /// Where the child for this place is, or would be.
    #[inline]
    pub(super) fn index(&self, place: u32) -> usize {
        if self.symbols == ALL_NIBBLES { place.saturating_sub(1) as usize } else { self.rank(place) }
    }
    // Not inlined, as `passed`: what depends on a branch alone does not wait for this node's own line of memory, since the processor
    // guesses how the branch ends and reads on. With the usual keys all nodes but the first are full and skip nothing.
    #[inline(never)]
    fn rank(&self, place: u32) -> usize {
        (self.symbols & ((1 << place) - 1)).count_ones() as usize
    }
    /// Where this node's symbols are, if its parent's end before `depth`.
    #[inline]
    fn branches_at(&self, depth: usize) -> usize {
        if self.skip.is_empty() { depth } else { self.passed(depth) }
    }
    #[inline(never)]
    fn passed(&self, depth: usize) -> usize {
        depth + self.skip.len()
    }
    pub(super) fn has(&self, place: u32) -> bool {
        self.symbols & 1 << place != 0
    }
    /// The places of the children in order.
    pub(super) fn places(&self) -> impl Iterator<Item = u32> {
        let symbols = self.symbols;
        (0..PLACES as u32).filter(move |place| symbols & 1 << place != 0)
    }
    pub(super) fn child(&self, place: u32) -> Option<&Child> {
        self.has(place).then(|| &self.children[self.index(place)])
    }
    /// The child for this place, which there is, to be changed: its digest is not known any more.
    #[inline]
    pub(super) fn child_mut(&mut self, place: u32) -> &mut Child {
        *self.known.get_mut() &= !(1 << place);
        let index = self.index(place);
        &mut self.children[index]
    }

    /// The same with another child, whose entries are not counted yet.
    pub(super) fn with(&mut self, place: u32, child: Child) -> Arc<Self> {
        let (mut children, mut digests) = self.take();
        let index = self.index(place);
        children.insert(index, child);
        digests.insert(index, DigestCell::default());
        self.again(self.symbols | 1 << place, digests, children)
    }

    /// The same without a child, whose entries are not counted any more.
    pub(super) fn without(&mut self, place: u32) -> Arc<Self> {
        let (mut children, mut digests) = self.take();
        let index = self.index(place);
        children.remove(index);
        digests.remove(index);
        self.again(self.symbols & !(1 << place), digests, children)
    }

    fn take(&mut self) -> (Vec<Child>, Vec<DigestCell>) {
        (self.children.iter_mut().map(std::mem::take).collect(), std::mem::take(&mut self.digests).into_vec())
    }

    /// This node with other children; a new one's digest is not known.
    fn again(&mut self, symbols: u32, digests: Vec<DigestCell>, children: Vec<Child>) -> Arc<Self> {
        let known = *self.known.get_mut() & self.symbols & symbols;
        let skip = std::mem::take(&mut self.skip);
        Self::assemble(symbols, known, (self.count, self.cost), skip, digests.into(), children)
    }

    /// Whether it can not stay as it is after something was taken away at this place: all of it fits in a leaf, or a child is gone.
    pub(super) fn shrunk(&self, place: u32) -> bool {
        rules::is_leaf(self.count, self.cost) || matches!(self.child(place), Some(Child::None))
    }

    /// Of two children the one that is not at this place, and its half byte. It has half bytes: an ending key is one entry.
    pub(super) fn other_than(&mut self, place: u32) -> (u8, Child) {
        let other = (self.symbols & !(1 << place)).trailing_zeros();
        let index = self.index(other);
        (other.saturating_sub(1) as u8, std::mem::take(&mut self.children[index]))
    }

    /// The digest of a child if it is known.
    pub(super) fn known_digest(&self, place: u32) -> Option<Digest> {
        let known = self.known.load(Ordering::Acquire) & 1 << place != 0;
        known.then(|| self.digests[self.index(place)].get())
    }
    /// The lowest place of a child without known digest.
    fn unknown(&self) -> Option<u32> {
        let unknown = self.symbols & !self.known.load(Ordering::Acquire);
        (unknown != 0).then(|| unknown.trailing_zeros())
    }
    fn keep_digest(&self, place: u32, digest: &Digest) {
        self.digests[self.index(place)].set(digest);
        self.known.fetch_or(1 << place, Ordering::Release);
    }

    /// The digest of a child, computed and kept if it is not known.
    pub(super) fn child_digest(&self, place: u32) -> Digest {
        self.known_digest(place).unwrap_or_else(|| {
            let digest = self.children[self.index(place)].digest();
            self.keep_digest(place, &digest);
            digest
        })
    }

    /// The digest, all children's being known, with this much of the way from its parent.
    pub(super) fn own_digest(&self, skip: &[u8], buffer: &mut Vec<u8>) -> Digest {
        rules::inner(self.symbols, self.digests.iter().map(DigestCell::get), skip, buffer)
    }

    /// Computes the digests of all children, and theirs, that are not known.
    ///
    /// Without recursion: a tree is as deep as its longest keys.
    pub(super) fn complete(&self, buffer: &mut Vec<u8>) {
        let mut way: Vec<(&Self, u32)> = vec![(self, 0)];
        while let Some(&(node, from)) = way.last() {
            match node.unknown() {
                Some(place) => match &node.children[node.index(place)] {
                    Child::Inner(inner) => way.push((inner, place)),
                    leaf => node.keep_digest(place, &leaf.digest()),
                },
                None => {
                    way.pop();
                    if let Some((parent, _)) = way.last() {
                        parent.keep_digest(from, &node.own_digest(&node.skip, buffer));
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
            Self::Inner(inner) => (inner.count, inner.cost),
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
                inner.own_digest(&inner.skip, &mut buffer)
            }
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let (mut child, mut depth) = (self, 0);
        loop {
            match child {
                Self::None => return None,
                Self::Bucket(bucket) => return bucket.get(key),
                Self::Large(large) => return (*large.key == *key).then_some(&large.value),
                Self::Inner(inner) => {
                    // What is skipped is not compared: the leaf has whole keys.
                    depth = inner.branches_at(depth);
                    if depth > 2 * key.len() {
                        return None;
                    }
                    child = inner.child(place_of(key, depth))?;
                    depth += 1;
                }
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
    /// The first entry of a leaf whose key is not below this one.
    pub(super) fn leaf_bound(&self, key: &[u8]) -> usize {
        match self {
            Self::Bucket(bucket) => bucket.lower_bound(key),
            Self::Large(large) => usize::from(*large.key < *key),
            Self::None | Self::Inner(_) => 0,
        }
    }
    /// The same as a child of a node further up, so that these half bytes lead to it first.
    pub(super) fn moved_up(mut self, more: &[u8]) -> Self {
        if let Self::Inner(inner) = &mut self
            && !more.is_empty()
        {
            let inner = Inner::own(inner);
            inner.skip = [more, &inner.skip].concat().into();
        }
        self
    }
}

/// The node above two subtrees, each with its symbol's place, that part ways at symbol `at` of `key`; its parent's symbol is before `depth`.
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
        let Some(inner) = Arc::get_mut(inner) else { return };
        let mut left = Vec::new();
        take_inner(inner, &mut left);
        while let Some(mut child) = left.pop() {
            if let Self::Inner(inner) = &mut child
                && let Some(inner) = Arc::get_mut(inner)
            {
                take_inner(inner, &mut left);
            }
        }
    }
}

/// Moves a node's children that are inner nodes to the list.
fn take_inner(inner: &mut Inner, left: &mut Vec<Child>) {
    for child in &mut inner.children {
        if matches!(child, Child::Inner(_)) {
            left.push(std::mem::take(child));
        }
    }
}
