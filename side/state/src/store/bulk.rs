//! Many changes at once: ranges that are removed, and sorted runs of changes.
//!
//! Both go from one place of the tree to the next, and each step does all it can do there: it cuts off a whole subtree that lies in the
//! range, or makes all changes that end in the same bucket or where there is nothing. A step leaves the counts and the shape right, so it
//! needs no more than the walks of a single change. Tests: `tests/all/store_bulk.rs`.

use super::bucket::Entry;
use super::build::{Builder, Nodes};
use super::node::Child;
use super::range::Range;
use super::symbols::{agreeing, common, place_of};
use super::tree::{
    Change, Delta, Spot, Store, add_beside, check_lengths, descend, put_at, remove_at, top_of,
};
use super::{ahead, rules};

/// A bucket is made anew for changes of at least this part of its entries. For fewer ones that takes longer than to make each in place.
const ANEW: usize = 4;

impl Store {
    /// Removes the entries from `start` to before `end`, and returns how many there were. Subtrees that lie in the range are cut off
    /// without a look at their entries, except while changes are noted ([`Store::take_changed`]).
    pub fn remove_range(&mut self, start: &[u8], end: Option<&[u8]>) -> u64 {
        if let Some(notes) = &mut self.notes {
            for (key, value) in Range::new(&self.root.child, start, end) {
                notes.changes(key, || Some(value));
            }
        }
        let before = self.len();
        while let Some((key, _)) = self.range(start, end).next() {
            let key = key.to_vec();
            let is_inside = |key: &[u8]| key >= start && end.is_none_or(|end| key < end);
            let delta = cut_below(top_of(&mut self.root), &key, inside_from(&key, start, end), is_inside);
            self.settle(&key, delta);
        }
        before - self.len()
    }

    /// Makes changes, best in ascending order of keys. That is faster than one by one: it reads ahead, and makes those at once that end in
    /// the same bucket or where there is nothing. If there are several changes of one key, the last one counts.
    ///
    /// # Panics
    /// As [`Store::put`], before anything changes.
    pub fn apply_sorted(&mut self, changes: &[Change<'_>]) {
        for (key, value) in changes {
            if let Some(value) = value {
                check_lengths(key, value);
            }
        }
        let (mut left, mut read) = (changes, 0);
        while !left.is_empty() {
            if read == 0 && left.len() > 1 {
                let window = left.iter().take(ahead::WINDOW);
                ahead::of_changes(&self.root.child, window.map(|(key, _)| *key));
                read = ahead::WINDOW;
            }
            let made = self.apply_first(left);
            left = &left[made..];
            read = read.saturating_sub(made);
        }
    }

    /// Makes the first change, and those after it that can be made at once with it. Returns how many they are.
    fn apply_first(&mut self, changes: &[Change<'_>]) -> usize {
        let (key, value) = changes[0];
        if value.is_none() && self.get(key).is_none() {
            return 1;
        }
        let spot = descend(top_of(&mut self.root), key, usize::MAX);
        let changes = &changes[..how_many(&spot, changes)];
        if let Some(notes) = &mut self.notes {
            changes.iter().for_each(|(key, _)| notes.changes(key, || spot.child.leaf_get(key)));
        }
        let (made, delta) = match (changes, value) {
            ([_], Some(value)) => (1, put_at(spot, key, value)),
            ([_], None) => (1, remove_at(spot, key)),
            _ => change_at(spot, changes),
        };
        self.settle(key, delta);
        made
    }
}

/// How many symbols a subtree's keys must share with this one, which lies in a range, so that all of them do.
fn inside_from(key: &[u8], start: &[u8], end: Option<&[u8]>) -> usize {
    // Keys that begin with the start are not below it.
    let not_below = if key.starts_with(start) { 2 * start.len() } else { common(key, start) + 1 };
    end.map_or(not_below, |end| not_below.max(common(key, end) + 1))
}

/// Removes entries on the way along a key: from a bucket those that are inside; or everything below the first node whose own symbols begin
/// at `whole` or later. The counts and the shape above are not corrected.
pub(super) fn cut_below(
    top: &mut Child,
    key: &[u8],
    whole: usize,
    is_inside: impl Fn(&[u8]) -> bool,
) -> Delta {
    let Spot { child, levels, .. } = descend(top, key, whole);
    let before = child.measure();
    let kept = match child {
        Child::Bucket(bucket) => {
            let kept: Vec<_> = bucket.entries().filter(|(key, _)| !is_inside(key)).collect();
            if kept.is_empty() { Child::None } else { Child::of(&kept) }
        }
        _ => Child::None,
    };
    *child = kept;
    Delta::new(before, child.measure(), levels)
}

/// How many of these changes, the first of which led to this spot, are made there at once: ascending ones whose keys lead there, too.
fn how_many(spot: &Spot<'_>, changes: &[Change<'_>]) -> usize {
    let shared = match &*spot.child {
        Child::Bucket(_) | Child::None => spot.depth,
        Child::Inner(inner) => spot.depth + agreeing(inner.skip(), changes[0].0, spot.depth) + 1,
        // Its bytes shall not be copied, so a node is put above it first.
        Child::Large(_) => return 1,
    };
    let follows = |pair: &&[Change<'_>]| {
        let (one, other) = (pair[0].0, pair[1].0);
        let at = common(one, other);
        at >= shared && place_of(one, at) < place_of(other, at)
    };
    1 + changes.windows(2).take_while(follows).count()
}

/// Makes several changes at a spot where there is a bucket or nothing; in the second case the first change is a put. Returns how many it
/// made, which are fewer if the bucket became something else before. The counts and the shape above are not corrected.
fn change_at(spot: Spot<'_>, changes: &[Change<'_>]) -> (usize, Delta) {
    if matches!(spot.child, Child::Inner(_)) {
        let tree = |depth| tree_of(merged(&Child::None, changes), depth);
        return (changes.len(), add_beside(spot, changes[0].0, tree));
    }
    let Spot { child, depth, levels } = spot;
    let (before, mut left) = (child.measure(), changes);
    while let [(key, value), rest @ ..] = left
        && let Child::Bucket(bucket) = &mut *child
    {
        if !value.is_some_and(|value| bucket.overwrite(key, value)) {
            if ANEW * left.len() >= bucket.count() {
                break;
            }
            // The bucket has several entries more than there are changes, so a removed key need not exist.
            let spot = Spot { child, depth, levels };
            match value {
                Some(value) => put_at(spot, key, value),
                None => remove_at(spot, key),
            };
        }
        left = rest;
    }
    if !left.is_empty() && matches!(child, Child::Bucket(_) | Child::None) {
        *child = tree_of(merged(child, left), depth);
        left = &[];
    }
    (changes.len() - left.len(), Delta::new(before, child.measure(), levels))
}

/// The entries of a leaf after these changes.
fn merged<'e>(leaf: &'e Child, changes: &'e [Change<'e>]) -> Vec<Entry<'e>> {
    let mut entries = Vec::with_capacity(leaf.leaf_len() + changes.len());
    let mut old = (0..leaf.leaf_len()).filter_map(|at| leaf.leaf_entry(at)).peekable();
    for (key, value) in changes {
        while let Some(entry) = old.next_if(|(other, _)| other < key) {
            entries.push(entry);
        }
        old.next_if(|(other, _)| other == key);
        entries.extend(value.map(|value| (*key, value)));
    }
    entries.extend(old);
    entries
}

/// The subtree with these entries, to which so many symbols lead.
fn tree_of(entries: Vec<Entry<'_>>, depth: usize) -> Child {
    let cost = entries.iter().map(|(key, value)| rules::cost(key, value)).sum();
    match entries.len() as u64 {
        0 => Child::None,
        count if rules::is_leaf(count, cost) => Child::of(&entries),
        _ => {
            let mut builder = Builder::new(Nodes, depth);
            entries.into_iter().for_each(|entry| builder.push(entry));
            builder.finish().unwrap_or_default()
        }
    }
}
