//! Trees from sorted entries, in one pass: nodes for the store, or digests alone.
//!
//! The open frames are the places where the present key branches off from earlier keys. A frame is closed when a key comes that branched
//! off before it. A small subtree stays a list of entries until its parent turns out not to be a leaf. So the work is linear, and the
//! memory beside the entries is bounded by the open frames.

use std::fmt;

use quorate_types::Digest;

use super::bucket::Entry;
use super::node::{Child, Inner};
use super::symbols::{common, nibbles, place_of};
use super::{KEY_BYTES_MAX, Path, VALUE_BYTES_MAX, rules};

/// Why entries do not fit their path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChunkError {
    /// The keys do not ascend.
    Order,
    /// A key does not lie under the path.
    Outside,
    /// A key or a value is too long.
    TooLarge,
    /// There is no entry, and the path is not the root.
    Empty,
}

impl fmt::Display for ChunkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Order => "keys do not ascend",
            Self::Outside => "a key lies outside the path",
            Self::TooLarge => "a key or a value is too long",
            Self::Empty => "no entries",
        })
    }
}

impl std::error::Error for ChunkError {}

/// Makes something of leaves and inner nodes.
pub(super) trait Make {
    type Node;
    fn leaf(&mut self, entries: &[Entry<'_>]) -> Self::Node;
    /// The children's places are in `symbols`.
    fn inner(&mut self, symbols: u32, skip: Box<[u8]>, children: Vec<Self::Node>) -> Self::Node;
}

/// Makes nodes of the store.
pub(super) struct Nodes;

impl Make for Nodes {
    type Node = Child;
    fn leaf(&mut self, entries: &[Entry<'_>]) -> Child {
        Child::of(entries)
    }
    fn inner(&mut self, symbols: u32, skip: Box<[u8]>, children: Vec<Child>) -> Child {
        Child::Inner(Inner::new(symbols, skip, children))
    }
}

/// Makes digests.
#[derive(Default)]
pub(super) struct Digests {
    buffer: Vec<u8>,
}

impl Make for Digests {
    type Node = Digest;
    fn leaf(&mut self, entries: &[Entry<'_>]) -> Digest {
        rules::leaf(entries, &mut self.buffer)
    }
    fn inner(&mut self, symbols: u32, skip: Box<[u8]>, children: Vec<Digest>) -> Digest {
        rules::inner(symbols, children.into_iter(), &skip, &mut self.buffer)
    }
}

/// A finished subtree.
enum Done<N> {
    /// It is small enough for a leaf: this many of the waiting entries, and their cost.
    Small {
        from: usize,
        count: usize,
        cost: u64,
    },
    Node(N),
}

/// A place where keys branch.
struct Frame<N> {
    /// The symbol at which they do.
    at: usize,
    symbols: u32,
    children: Vec<Done<N>>,
}

/// A tree in the making.
pub(super) struct Builder<'a, M: Make> {
    make: M,
    /// How many symbols lead to the tree's place.
    depth: usize,
    frames: Vec<Frame<M::Node>>,
    /// Entries that are not in nodes yet.
    waiting: Vec<Entry<'a>>,
    last: Option<Entry<'a>>,
}

impl<'a, M: Make> Builder<'a, M> {
    pub(super) fn new(make: M, depth: usize) -> Self {
        Self { make, depth, frames: Vec::new(), waiting: Vec::new(), last: None }
    }

    /// Adds the next entry. Its key must be above the last one's, begin with the tree's path, and differ from the last key after it.
    pub(super) fn push(&mut self, entry: Entry<'a>) {
        if let Some(last) = self.last.replace(entry) {
            let parting = common(last.0, entry.0);
            let done = self.close(last, Some(parting));
            let place = place_of(last.0, parting);
            match self.frames.last_mut() {
                Some(frame) if frame.at == parting => frame.add(place, done),
                _ => {
                    let mut frame = Frame { at: parting, symbols: 0, children: Vec::with_capacity(2) };
                    frame.add(place, done);
                    self.frames.push(frame);
                }
            }
        }
        self.waiting.push(entry);
    }

    /// The tree; `None` without entries.
    pub(super) fn finish(mut self) -> Option<M::Node> {
        let last = self.last?;
        Some(match self.close(last, None) {
            Done::Node(node) => node,
            Done::Small { from, count, .. } => self.make.leaf(&self.waiting[from..from + count]),
        })
    }

    /// Closes the frames beyond the place where the next key branches off from `last`; all of them if no key follows.
    fn close(&mut self, last: Entry<'a>, parting: Option<usize>) -> Done<M::Node> {
        let cost = rules::cost(last.0, last.1);
        let mut done = Done::Small { from: self.waiting.len() - 1, count: 1, cost };
        while let Some(frame) = self.frames.pop_if(|frame| parting.is_none_or(|parting| frame.at > parting)) {
            let parent = self.frames.last().map(|frame| frame.at).max(parting);
            done = self.close_frame(frame, last.0, done, parent.map_or(self.depth, |parent| parent + 1));
        }
        done
    }

    fn close_frame(
        &mut self,
        mut frame: Frame<M::Node>,
        key: &[u8],
        last: Done<M::Node>,
        from: usize,
    ) -> Done<M::Node> {
        frame.add(place_of(key, frame.at), last);
        if let Some(small) = frame.small() {
            return small;
        }
        let (make, waiting) = (&mut self.make, &mut self.waiting);
        let mut kept = waiting.len();
        let children = frame.children.into_iter().map(|child| match child {
            Done::Node(node) => node,
            Done::Small { from, count, .. } => {
                kept = kept.min(from);
                make.leaf(&waiting[from..from + count])
            }
        });
        let children = children.collect();
        waiting.truncate(kept);
        Done::Node(make.inner(frame.symbols, nibbles(key, from, frame.at), children))
    }
}

impl<N> Frame<N> {
    fn add(&mut self, place: u32, child: Done<N>) {
        self.symbols |= 1 << place;
        self.children.push(child);
    }
    /// All of it as one leaf, if it fits.
    fn small(&self) -> Option<Done<N>> {
        let (mut start, mut all, mut total) = (usize::MAX, 0, 0);
        for child in &self.children {
            let Done::Small { from, count, cost } = child else { return None };
            (start, all, total) = (start.min(*from), all + count, total + cost);
        }
        rules::is_leaf(all as u64, total).then_some(Done::Small { from: start, count: all, cost: total })
    }
}

/// Checks entries from outside while they go into a tree: sorted, under the path, within the limits.
pub(super) fn build_at<'a, M: Make>(
    make: M,
    path: &Path,
    entries: &mut dyn Iterator<Item = Entry<'a>>,
) -> Result<Option<M::Node>, ChunkError> {
    let mut builder = Builder::new(make, path.len());
    for (key, value) in entries {
        if key.len() > KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
            return Err(ChunkError::TooLarge);
        }
        if builder.last.is_some_and(|(last, _)| last >= key) {
            return Err(ChunkError::Order);
        }
        if !path.contains(key) {
            return Err(ChunkError::Outside);
        }
        builder.push((key, value));
    }
    Ok(builder.finish())
}

/// The digest of a subtree at this path with exactly these entries. An empty subtree has one only at the root.
pub fn digest_of<'a>(
    path: &Path,
    entries: &mut dyn Iterator<Item = (&'a [u8], &'a [u8])>,
) -> Result<Digest, ChunkError> {
    match build_at(Digests::default(), path, entries)? {
        Some(digest) => Ok(digest),
        None if path.is_empty() => Ok(rules::empty()),
        None => Err(ChunkError::Empty),
    }
}
