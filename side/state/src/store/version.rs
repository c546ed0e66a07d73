//! Versions: the objects as they were at one moment, and their digests.
//!
//! Digests are computed when they are needed, and kept in the nodes, which versions share.

use quorate_types::Digest;
use triomphe::Arc;

use super::changes::Changes;
use super::chunks::Chunks;
use super::node::{Child, Inner};
use super::proof::Proof;
use super::range::Range;
use super::symbols::{END_PLACE, agreeing, place_of};
use super::tree::Root;
use super::{CHUNK_BYTES, END, Path, digest_of, rules};

/// The objects as they were at one moment. It never changes. Cloning is cheap, and any thread may hold and read it.
#[derive(Clone, Default)]
pub struct Version {
    pub(super) root: Arc<Root>,
}

impl Version {
    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.root.child.get(key)
    }

    /// How many entries there are.
    pub fn len(&self) -> u64 {
        self.root.child.measure().0
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of all keys and values.
    pub fn bytes(&self) -> u64 {
        rules::content(self.root.child.measure())
    }

    /// The entries from `start` to before `end`, in key order.
    pub fn range<'a>(&'a self, start: &'a [u8], end: Option<&'a [u8]>) -> Range<'a> {
        Range::new(&self.root.child, start, end)
    }

    /// The digest of all objects. Computes the digests that are not known yet.
    pub fn root(&self) -> Digest {
        *self.root.digest.get_or_init(|| self.root.child.digest())
    }

    /// Parts whose digests are not known, each very roughly at most one `about`-th of all objects. After other threads have computed them,
    /// [`Version::root`] has little left to do.
    pub fn parts(&self, about: usize) -> Vec<Part> {
        let mut parts = Vec::new();
        let Child::Inner(top) = &self.root.child else { return parts };
        if self.root.digest.get().is_some() {
            return parts;
        }
        let limit = top.size().1 / (about as u64).max(1);
        let mut open = vec![top];
        while let Some(node) = open.pop() {
            for place in node.places().filter(|&place| node.known_digest(place).is_none()) {
                match node.child(place) {
                    Some(Child::Inner(inner)) if inner.size().1 > limit => open.push(inner),
                    Some(Child::Inner(_)) => parts.push(Part { node: node.clone(), place }),
                    Some(leaf) if leaf.measure().1 > CHUNK_BYTES => {
                        parts.push(Part { node: node.clone(), place })
                    }
                    _ => {}
                }
            }
        }
        parts
    }

    /// Proves, to anyone who knows the root, which value the key has, or that it has none.
    pub fn prove(&self, key: &[u8]) -> Proof {
        Proof::new(&self.root.child, key)
    }

    /// The chunks in key order.
    pub fn chunks(&self) -> Chunks<'_> {
        Chunks::new(self)
    }

    /// The entries under a path.
    pub fn entries_at(&self, path: &Path) -> Range<'_> {
        Range::at(&self.root.child, path)
    }

    /// The digest of everything under a path, as [`digest_of`] gives it. `None`: there is nothing.
    pub fn digest_at(&self, path: &Path) -> Option<Digest> {
        if path.is_empty() {
            return (!self.is_empty()).then(|| self.root());
        }
        let (key, _) = path.bounds();
        let (mut child, mut depth) = (&self.root.child, 0);
        while let Child::Inner(inner) = child {
            let left = path.len() - depth;
            let agreed = agreeing(inner.skip(), &key, depth).min(left);
            if agreed == left {
                let mut buffer = Vec::new();
                inner.complete(&mut buffer);
                return Some(inner.own_digest(&inner.skip()[left..], &mut buffer));
            }
            if agreed < inner.skip().len() {
                return None;
            }
            depth += agreed;
            let place = place_of(&key, depth);
            depth += 1;
            if depth == path.len() {
                return inner.has(place).then(|| inner.child_digest(place));
            }
            child = inner.child(place)?;
        }
        digest_of(path, &mut self.entries_at(path)).ok()
    }

    /// Appends the records of everything under a path: for each entry in key order the lengths of key and value (4 bytes each,
    /// little-endian), then both. Returns the number of entries. As [`Version::entries_at`], by whole leaves where possible.
    pub fn records_at(&self, path: &Path, out: &mut Vec<u8>) -> u64 {
        let Some(top) = self.child_at(path) else {
            let entries = self.entries_at(path);
            return entries.fold(0, |count, (key, value)| {
                record(key, value, out);
                count + 1
            });
        };
        let (mut left, mut count) = (vec![top], 0);
        while let Some(child) = left.pop() {
            match child {
                Child::None => {}
                Child::Bucket(bucket) => out.extend_from_slice(bucket.records()),
                Child::Large(large) => record(&large.key, &large.value, out),
                Child::Inner(inner) => {
                    left.extend(inner.children().iter().rev());
                    continue;
                }
            }
            count += child.measure().0;
        }
        count
    }

    /// The subtree that begins exactly where the path ends; the paths of chunks are such paths.
    fn child_at(&self, path: &Path) -> Option<&Child> {
        let (key, _) = path.bounds();
        let (mut child, mut depth) = (&self.root.child, 0);
        while depth < path.len() {
            let Child::Inner(inner) = child else { return None };
            let left = path.len() - depth;
            if inner.skip().len() >= left || agreeing(inner.skip(), &key, depth) < inner.skip().len() {
                return None;
            }
            depth += inner.skip().len();
            let place = match path.as_bytes()[depth] {
                END => END_PLACE,
                nibble => u32::from(nibble) + 1,
            };
            child = inner.child(place)?;
            depth += 1;
        }
        Some(child)
    }

    /// The keys with another value than in `base`, or (`None`) with no value any more, in key order. Shared nodes are skipped.
    pub fn changes_since<'a>(
        &'a self,
        base: &'a Version,
    ) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + 'a {
        Changes::new(&self.root.child, &base.root.child)
    }

    /// Whether both have the same objects.
    pub fn same_objects(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.root, &other.root) || self.root() == other.root()
    }
}

/// Appends an entry's record.
pub(super) fn record(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(key.len() as u32).to_le_bytes());
    out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    out.extend_from_slice(key);
    out.extend_from_slice(value);
}

/// A part of a version whose digest is to be computed, on any thread.
pub struct Part {
    node: Inner,
    place: u32,
}

impl Part {
    /// Computes the digest and keeps it in the nodes.
    pub fn digest(&self) -> Digest {
        self.node.child_digest(self.place)
    }
}
