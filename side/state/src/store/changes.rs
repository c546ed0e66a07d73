//! The difference of two versions: both trees are walked in parallel, and shared nodes are skipped.

use std::cmp::Ordering;
use triomphe::Arc;

use super::END;
use super::bucket::Entry;
use super::node::{Child, Inner};
use super::symbols::{END_PLACE, place_of};

/// What changed from one tree to another.
pub(super) struct Changes<'a> {
    new: Walker<'a>,
    old: Walker<'a>,
}

/// A place in a tree, in front of a subtree or of an entry.
struct Walker<'a> {
    /// Nodes, the number of the child, and the length of the path to the node's children.
    way: Vec<(&'a Inner, usize, usize)>,
    /// The symbols that lead to the subtree.
    path: Vec<u8>,
    here: Here<'a>,
}

#[derive(Clone, Copy)]
enum Here<'a> {
    Subtree(&'a Child),
    Entry(&'a Child, usize, Entry<'a>),
    End,
}

impl<'a> Changes<'a> {
    pub(super) fn new(new: &'a Child, old: &'a Child) -> Self {
        Self { new: Walker::new(new), old: Walker::new(old) }
    }
}

impl<'a> Iterator for Changes<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        let (new, old) = (&mut self.new, &mut self.old);
        loop {
            match (new.here, old.here) {
                (Here::End, Here::End) => return None,
                (Here::Subtree(one), Here::Subtree(other)) if same(one, other) => {
                    new.skip();
                    old.skip();
                }
                (Here::Subtree(_), Here::Subtree(_)) => {
                    let order = new.compare_path(&old.path);
                    if order.is_le() {
                        new.descend();
                    }
                    if order.is_ge() {
                        old.descend();
                    }
                }
                (Here::Subtree(_), Here::Entry(_, _, (key, _))) => match new.compare(key) {
                    Ordering::Greater => {
                        old.skip();
                        return Some((key, None));
                    }
                    _ => new.descend(),
                },
                (Here::Entry(_, _, (key, value)), Here::Subtree(_)) => match old.compare(key) {
                    Ordering::Greater => {
                        new.skip();
                        return Some((key, Some(value)));
                    }
                    _ => old.descend(),
                },
                (Here::Subtree(_), Here::End) => new.descend(),
                (Here::End, Here::Subtree(_)) => old.descend(),
                (Here::Entry(_, _, (key, value)), Here::End) => {
                    new.skip();
                    return Some((key, Some(value)));
                }
                (Here::End, Here::Entry(_, _, (key, _))) => {
                    old.skip();
                    return Some((key, None));
                }
                (Here::Entry(_, _, ours), Here::Entry(_, _, theirs)) => {
                    let order = ours.0.cmp(theirs.0);
                    if order.is_le() {
                        new.skip();
                    }
                    if order.is_ge() {
                        old.skip();
                    }
                    match order {
                        Ordering::Less => return Some((ours.0, Some(ours.1))),
                        Ordering::Greater => return Some((theirs.0, None)),
                        Ordering::Equal if ours.1 != theirs.1 => return Some((ours.0, Some(ours.1))),
                        Ordering::Equal => {}
                    }
                }
            }
        }
    }
}

/// The place of a path's symbol.
fn place_in_path(symbol: u8) -> u32 {
    if symbol == END { END_PLACE } else { u32::from(symbol) + 1 }
}

/// Whether two subtrees are the same node.
fn same(one: &Child, other: &Child) -> bool {
    match (one, other) {
        (Child::Inner(one), Child::Inner(other)) => one.is(other),
        (Child::Bucket(one), Child::Bucket(other)) => one.is(other),
        (Child::Large(one), Child::Large(other)) => Arc::ptr_eq(one, other),
        _ => false,
    }
}

impl<'a> Walker<'a> {
    fn new(top: &'a Child) -> Self {
        let here = if matches!(top, Child::None) { Here::End } else { Here::Subtree(top) };
        Self { way: Vec::new(), path: Vec::new(), here }
    }

    /// How the subtree's keys compare with this one; equal if the key may be among them.
    fn compare(&self, key: &[u8]) -> Ordering {
        let symbols = self.path.iter().enumerate();
        let orders = symbols.map(|(at, &symbol)| place_in_path(symbol).cmp(&place_of(key, at)));
        orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    /// Which of two subtrees must be entered first: the earlier one, or the one that may hold the other. Equal only if both have the same
    /// path.
    fn compare_path(&self, other: &[u8]) -> Ordering {
        let orders =
            self.path.iter().zip(other).map(|(one, other)| place_in_path(*one).cmp(&place_in_path(*other)));
        orders.into_iter().find(|order| order.is_ne()).unwrap_or(self.path.len().cmp(&other.len()))
    }

    /// Goes to the subtree's first child or entry.
    fn descend(&mut self) {
        let Here::Subtree(child) = self.here else { return };
        match child {
            Child::Inner(inner) => {
                self.path.extend_from_slice(inner.skip());
                self.way.push((inner, 0, self.path.len()));
                self.go();
            }
            leaf => {
                self.enter(leaf, 0);
            }
        }
    }

    fn enter(&mut self, leaf: &'a Child, at: usize) -> bool {
        let entry = leaf.leaf_entry(at);
        if let Some(entry) = entry {
            self.here = Here::Entry(leaf, at, entry);
        }
        entry.is_some()
    }

    /// Goes on after the subtree or entry.
    fn skip(&mut self) {
        if let Here::Entry(leaf, at, _) = self.here
            && self.enter(leaf, at + 1)
        {
            return;
        }
        if let Some((_, at, _)) = self.way.last_mut() {
            *at += 1;
        }
        self.go();
    }

    /// To the next child of the last node that has one.
    fn go(&mut self) {
        while let Some(&(inner, at, length)) = self.way.last() {
            self.path.truncate(length);
            if let (Some(child), Some(place)) = (inner.children().get(at), inner.places().nth(at)) {
                self.path.push(place.checked_sub(1).map_or(END, |nibble| nibble as u8));
                self.here = Here::Subtree(child);
                return;
            }
            self.way.pop();
            if let Some((_, at, _)) = self.way.last_mut() {
                *at += 1;
            }
        }
        self.here = Here::End;
    }
}
