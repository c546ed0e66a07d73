//! The store: one writer, any number of versions.
//!
//! A change walks down the tree once, and copies nodes on its way that a version shares. If the number of entries or bytes changed, a
//! second walk corrects the counts and the shape. The work is bounded by the key's length, one leaf and the value.

use std::sync::OnceLock;

use quorate_types::Digest;
use triomphe::Arc;

use super::bucket::{Entry, Large};
use super::build::{Builder, ChunkError, Nodes, build_at};
use super::bulk::cut_below;
use super::changed::{Changed, Notes};
use super::node::{Child, fork};
use super::range::Range;
use super::symbols::{agreeing, common, place_of};
use super::version::Version;
use super::{KEY_BYTES_MAX, Path, VALUE_BYTES_MAX, ahead, rules};

/// A put (with the value) or a remove (without).
pub type Change<'a> = (&'a [u8], Option<&'a [u8]>);

/// The whole tree and its digest.
#[derive(Default)]
pub(super) struct Root {
    pub(super) child: Child,
    pub(super) digest: OnceLock<Digest>,
}

/// The objects, with their single writer.
///
/// ```
/// use quorate_state::store::Store;
///
/// let mut store = Store::new();
/// store.put(b"one", b"1");
/// let before = store.version();
/// assert!(store.put(b"one", b"2"));
/// assert_eq!(before.get(b"one"), Some(&b"1"[..]));
/// assert_ne!(before.root(), store.version().root());
/// store.roll_back(&before);
/// assert_eq!(store.get(b"one"), Some(&b"1"[..]));
/// ```
#[derive(Default)]
pub struct Store {
    pub(super) root: Arc<Root>,
    /// What changed, while all of it is noted.
    pub(super) notes: Option<Notes>,
}

/// Why entries did not replace others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplaceError {
    /// They do not fit the path.
    Entries(ChunkError),
    /// They have this digest, not the expected one.
    Digest(Digest),
}

/// INV-STORE-1: no entry is longer than that.
pub(super) fn check_lengths(key: &[u8], value: &[u8]) {
    assert!(key.len() <= KEY_BYTES_MAX, "INV-STORE-1: a key of {} bytes", key.len());
    assert!(value.len() <= VALUE_BYTES_MAX, "INV-STORE-1: a value of {} bytes", value.len());
}

/// What a change did to the counts of the nodes above it.
#[derive(Clone, Copy, Default)]
pub(super) struct Delta {
    count: i64,
    cost: i64,
    /// How many inner nodes are above it.
    levels: usize,
}

impl Delta {
    pub(super) fn new(before: (u64, u64), after: (u64, u64), levels: usize) -> Self {
        Self { count: after.0 as i64 - before.0 as i64, cost: after.1 as i64 - before.1 as i64, levels }
    }
}

impl Store {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// A store that begins as this version.
    pub fn from_version(version: &Version) -> Self {
        Self { root: version.root.clone(), notes: None }
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.root.child.get(key)
    }

    /// Reads the memory that changes of these keys will need, at most [`READ_AHEAD`](super::READ_AHEAD): at all addresses at once, where one
    /// change after the other would wait for each alone. Later keys are left out.
    pub fn read_ahead<'k>(&self, keys: impl Iterator<Item = &'k [u8]> + Clone) {
        ahead::of_changes(&self.root.child, keys);
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

    /// The objects as they are now. Cheap: it shares all nodes until one of the two changes.
    pub fn version(&self) -> Version {
        Version { root: self.root.clone() }
    }

    /// Makes the objects equal to this version.
    pub fn roll_back(&mut self, to: &Version) {
        self.notes = None;
        self.root = to.root.clone();
    }

    /// What changed since the last call. Nothing, if that is not known: before the first call nothing is noted, and whole parts that are
    /// replaced are not, either. From now on changes are noted, which copies the old value of each key that changes.
    pub fn take_changed(&mut self) -> Option<Changed> {
        let notes = self.notes.replace(Notes::default())?;
        Some(notes.differ(self))
    }

    /// Changes what changed elsewhere.
    pub fn apply(&mut self, changed: &Changed) {
        self.apply_sorted(&changed.iter().collect::<Vec<_>>());
    }

    /// This key is about to change.
    #[inline]
    fn note(&mut self, key: &[u8]) {
        if let Some(notes) = &mut self.notes {
            notes.changes(key, || self.root.child.get(key));
        }
    }

    /// Gives the key this value. Returns whether the key had one.
    ///
    /// # Panics
    /// INV-STORE-1: if the key is longer than [`KEY_BYTES_MAX`] or the value than [`VALUE_BYTES_MAX`].
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> bool {
        check_lengths(key, value);
        self.note(key);
        let delta = put_at(descend(top_of(&mut self.root), key, usize::MAX), key, value);
        self.settle(key, delta);
        delta.count == 0
    }

    /// Removes the key. Returns whether it was there.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        if self.get(key).is_none() {
            return false;
        }
        self.note(key);
        let delta = remove_at(descend(top_of(&mut self.root), key, usize::MAX), key);
        self.settle(key, delta);
        true
    }

    /// Makes these entries, which must be sorted, exactly the ones under `path`; no entries removes everything there. After an error
    /// nothing has changed.
    pub fn replace<'a>(
        &mut self,
        path: &Path,
        entries: &mut dyn Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<(), ChunkError> {
        self.hang(path, build_at(Nodes, path, entries)?);
        Ok(())
    }

    /// As [`Store::replace`], if the subtree then has this digest, which is kept.
    pub fn replace_if<'a>(
        &mut self,
        path: &Path,
        entries: &mut dyn Iterator<Item = (&'a [u8], &'a [u8])>,
        expected: Digest,
    ) -> Result<(), ReplaceError> {
        let tree = build_at(Nodes, path, entries).map_err(ReplaceError::Entries)?;
        let found = match &tree {
            Some(tree) => tree.digest(),
            None if path.is_empty() => rules::empty(),
            None => return Err(ReplaceError::Entries(ChunkError::Empty)),
        };
        if found != expected {
            return Err(ReplaceError::Digest(found));
        }
        self.hang(path, tree);
        Ok(())
    }

    /// Puts this tree, and nothing else, under `path`.
    fn hang(&mut self, path: &Path, tree: Option<Child>) {
        self.notes = None;
        // A key that begins with the path, as far as the path goes.
        let (key, _) = path.bounds();
        if Range::at(&self.root.child, path).next().is_some() {
            let delta = cut_below(top_of(&mut self.root), &key, path.len(), |key| path.contains(key));
            self.settle(&key, delta);
        }
        match tree {
            None => {}
            Some(tree @ Child::Inner(_)) => self.graft(path, &key, tree),
            Some(leaf) => {
                for (key, value) in (0..leaf.leaf_len()).filter_map(|at| leaf.leaf_entry(at)) {
                    self.put(key, value);
                }
            }
        }
    }

    /// Puts a subtree into a place where there is nothing.
    fn graft(&mut self, path: &Path, key: &[u8], tree: Child) {
        let (delta, displaced) = graft_below(top_of(&mut self.root), path, key, tree);
        self.settle(key, delta);
        for (key, value) in (0..displaced.leaf_len()).filter_map(|at| displaced.leaf_entry(at)) {
            self.put(key, value);
        }
    }

    /// Corrects counts and shape above a change.
    pub(super) fn settle(&mut self, key: &[u8], delta: Delta) {
        if delta.levels != 0 && (delta.count != 0 || delta.cost != 0) {
            settle_below(top_of(&mut self.root), key, delta);
        }
    }
}

/// The top of a tree, to be changed.
pub(super) fn top_of(root: &mut Arc<Root>) -> &mut Child {
    if !Arc::is_unique(root) {
        *root = Arc::new(Root { child: root.child.clone(), digest: OnceLock::new() });
    }
    let root = Arc::get_mut(root).expect("INV-STORE-2: nobody shares it");
    root.digest.take();
    &mut root.child
}

/// A place in the tree that a change has reached.
pub(super) struct Spot<'t> {
    pub(super) child: &'t mut Child,
    /// How many symbols lead to it.
    pub(super) depth: usize,
    /// How many inner nodes are above it.
    pub(super) levels: usize,
}

/// Walks down along a key for a change: to a leaf, or to the inner node that has no child for the key, or to one whose own symbols (those
/// at which its keys branch) begin at `end` or later.
pub(super) fn descend<'t>(top: &'t mut Child, key: &[u8], end: usize) -> Spot<'t> {
    let (mut child, mut depth) = if end == usize::MAX { descend_plain(top, key) } else { (top, 0) };
    let mut levels = depth;
    while let Child::Inner(inner) = &*child {
        let Some(at) = inner.follow(key, depth).filter(|at| *at < end) else { break };
        let place = place_of(key, at);
        if !inner.has(place) {
            break;
        }
        let Child::Inner(inner) = child else { break };
        child = inner.child_mut(place);
        depth = at + 1;
        levels += 1;
    }
    Spot { child, depth, levels }
}

/// The first part of that walk, through nodes with a child for each half byte: with random keys nearly all of it. Returns the child and its
/// depth.
///
/// It is a function of its own for speed: a change mostly waits for memory, and the shorter this is, the sooner the processor asks for the
/// next key's.
#[inline]
fn descend_plain<'t>(top: &'t mut Child, key: &[u8]) -> (&'t mut Child, usize) {
    let (mut child, mut depth) = (top, 0);
    for byte in key {
        for nibble in [byte >> 4, byte & 15] {
            match &*child {
                Child::Inner(inner) if inner.is_plain() => {}
                _ => return (child, depth),
            }
            let Child::Inner(inner) = child else { return (child, depth) };
            child = inner.plain_child_mut(nibble);
            depth += 1;
        }
    }
    (child, depth)
}

/// Adds a subtree to an inner node that has no child for the key: beside its children, or beside the whole node. `subtree` makes the
/// subtree for a depth. The counts above are not corrected.
pub(super) fn add_beside(spot: Spot<'_>, key: &[u8], subtree: impl FnOnce(usize) -> Child) -> Delta {
    let Spot { child, depth, levels } = spot;
    let Child::Inner(inner) = child else { return Delta::default() };
    let agreed = agreeing(inner.skip(), key, depth);
    let place = place_of(key, depth + agreed);
    let added = subtree(depth + agreed + 1);
    let after = added.measure();
    if agreed == inner.skip().len() {
        inner.add(place, added);
        // The node's own counts are corrected with those above.
        return Delta::new((0, 0), after, levels + 1);
    }
    let parting = u32::from(inner.skip()[agreed]) + 1;
    inner.set_skip(inner.skip()[agreed + 1..].into());
    let children = [(parting, std::mem::take(child)), (place, added)];
    *child = fork(children, key, depth, depth + agreed);
    Delta::new((0, 0), after, levels)
}

/// Puts an entry at the end of its key's way. The counts above it are not corrected.
pub(super) fn put_at(spot: Spot<'_>, key: &[u8], value: &[u8]) -> Delta {
    let Spot { child, depth, levels } = spot;
    let after = (1, rules::cost(key, value));
    match child {
        Child::Bucket(bucket) => {
            if bucket.overwrite(key, value) {
                return Delta::default();
            }
            let found = bucket.find(key);
            put_in_bucket(child, found, (key, value), depth, levels)
        }
        Child::Inner(_) => add_beside(Spot { child, depth, levels }, key, |_| Child::leaf(key, value)),
        Child::Large(large) if *large.key == *key => {
            let before = (1, large.cost());
            if after.1 > super::BUCKET_BYTES {
                Large::put(large, value);
            } else {
                *child = Child::leaf(key, value);
            }
            Delta::new(before, after, levels)
        }
        Child::Large(large) => {
            let at = common(&large.key, key);
            let parting = place_of(&large.key, at);
            let children = [(parting, std::mem::take(child)), (place_of(key, at), Child::leaf(key, value))];
            *child = fork(children, key, depth, at);
            Delta::new((0, 0), after, levels)
        }
        Child::None => {
            *child = Child::leaf(key, value);
            Delta::new((0, 0), after, levels)
        }
    }
}

/// Puts an entry into a bucket: one more, or one with another cost.
fn put_in_bucket(
    child: &mut Child,
    found: Result<usize, usize>,
    (key, value): Entry<'_>,
    depth: usize,
    levels: usize,
) -> Delta {
    let before = child.measure();
    let Child::Bucket(bucket) = child else { return Delta::default() };
    let old = found.map_or(0, |at| rules::cost(key, bucket.entry(at).1));
    let after = (before.0 + u64::from(old == 0), before.1 - old + rules::cost(key, value));
    if after.1 <= super::BUCKET_BYTES {
        match found {
            Ok(at) => bucket.put_at(at, value),
            Err(_) => bucket.insert(key, value),
        }
    } else {
        let mut builder = Builder::new(Nodes, depth);
        let at = bucket.lower_bound(key);
        bucket.entries().take(at).for_each(|entry| builder.push(entry));
        builder.push((key, value));
        bucket.entries().skip(at + usize::from(old != 0)).for_each(|entry| builder.push(entry));
        let tree = builder.finish().unwrap_or_default();
        *child = tree;
    }
    Delta::new(before, after, levels)
}

/// Removes a key at the end of its way, where it exists or a bucket has several others. The counts and the shape above it are not corrected.
pub(super) fn remove_at(spot: Spot<'_>, key: &[u8]) -> Delta {
    let Spot { child, levels, .. } = spot;
    let before = child.measure();
    match child {
        Child::Bucket(bucket) if bucket.count() > 1 => {
            let Ok(at) = bucket.find(key) else { return Delta::default() };
            bucket.remove(at);
        }
        _ => *child = Child::None,
    }
    Delta::new(before, child.measure(), levels)
}

/// Puts an inner node under an empty path. A leaf in its way is returned, to be put again.
fn graft_below(top: &mut Child, path: &Path, key: &[u8], tree: Child) -> (Delta, Child) {
    let spot = descend(top, key, usize::MAX);
    if matches!(spot.child, Child::Inner(_)) {
        let delta = add_beside(spot, key, |depth| tree.moved_up(&path.as_bytes()[depth..]));
        return (delta, Child::None);
    }
    let (before, after) = (spot.child.measure(), tree.measure());
    let displaced = std::mem::replace(spot.child, tree.moved_up(&path.as_bytes()[spot.depth..]));
    (Delta::new(before, after, spot.levels), displaced)
}

/// Corrects the counts of the nodes above a change, and their shape if there is less below them than before.
fn settle_below(top: &mut Child, key: &[u8], delta: Delta) {
    let (mut child, mut depth) = (top, 0);
    for _ in 0..delta.levels {
        let Child::Inner(inner) = &mut *child else { return };
        inner.grow(delta.count, delta.cost);
        depth += inner.skip().len();
        let place = place_of(key, depth);
        if delta.cost < 0 && inner.shrunk(place) {
            let shape = reshaped(child, place);
            *child = shape;
            return;
        }
        let Child::Inner(inner) = child else { return };
        child = inner.child_mut(place);
        depth += 1;
    }
}

/// The form that an inner node must take after something was taken out below it, at this place.
fn reshaped(child: &mut Child, place: u32) -> Child {
    let Child::Inner(inner) = child else { return Child::None };
    let (count, cost) = inner.size();
    if rules::is_leaf(count, cost) {
        return collapsed(child);
    }
    if inner.children().len() > 2 {
        inner.take_away(place);
        return std::mem::take(child);
    }
    let (other, only) = inner.other_than(place);
    only.moved_up(&[inner.skip(), &[other][..]].concat())
}

/// The leaf that a subtree has become.
fn collapsed(child: &Child) -> Child {
    match child.measure().0 {
        0 => Child::None,
        1 => {
            let mut only = child;
            while let Child::Inner(inner) = only
                && let Some(child) = inner.children().iter().find(|child| child.measure().0 == 1)
            {
                only = child;
            }
            only.clone()
        }
        _ => Child::of(&Range::new(child, &[], None).collect::<Vec<_>>()),
    }
}
