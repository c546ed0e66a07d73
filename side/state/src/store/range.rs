//! Iteration in key order, from both ends.

use std::borrow::Cow;

use super::Path;
use super::bucket::Entry;
use super::node::{Child, Inner};
use super::symbols::place_of;

/// Entries in key order, from either end.
#[derive(Clone)]
pub struct Range<'a> {
    top: &'a Child,
    start: Cow<'a, [u8]>,
    /// The first key after the range.
    end: Option<Cow<'a, [u8]>>,
    /// The last key that came from the front; keys from the back are above it.
    taken: Option<&'a [u8]>,
    /// The cursors exist once something was asked for at their end.
    front: Option<Cursor<'a>>,
    back: Option<Cursor<'a>>,
}

/// A place between two entries.
#[derive(Clone, Default)]
struct Cursor<'a> {
    /// Nodes, each with the number of children before the place. The child that contains the place counts for neither direction.
    way: Vec<(&'a Inner, Span)>,
    leaf: Option<&'a Child>,
    at: usize,
}

/// The children before the place, and the first one after it.
#[derive(Clone, Copy)]
struct Span {
    before: usize,
    after: usize,
}

impl<'a> Range<'a> {
    pub(super) fn new(top: &'a Child, start: &'a [u8], end: Option<&'a [u8]>) -> Self {
        let (start, end) = (Cow::Borrowed(start), end.map(Cow::Borrowed));
        Self { top, start, end, taken: None, front: None, back: None }
    }

    /// Everything under a path.
    pub(super) fn at(top: &'a Child, path: &Path) -> Self {
        let (start, end) = path.bounds();
        let (start, end) = (Cow::Owned(start), end.map(Cow::Owned));
        Self { top, start, end, taken: None, front: None, back: None }
    }
}

impl<'a> Iterator for Range<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let front = self.front.get_or_insert_with(|| Cursor::seek(self.top, Some(&self.start)));
        let entry = front.next()?;
        if self.end.as_ref().is_some_and(|end| *entry.0 >= **end) {
            front.stop();
            return None;
        }
        self.taken = Some(entry.0);
        Some(entry)
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let back = self.back.get_or_insert_with(|| Cursor::seek(self.top, self.end.as_deref()));
        let entry = back.previous()?;
        if *entry.0 < *self.start || self.taken.is_some_and(|taken| entry.0 <= taken) {
            back.stop();
            return None;
        }
        self.end = Some(Cow::Borrowed(entry.0));
        Some(entry)
    }
}

impl<'a> Cursor<'a> {
    /// The place before the first entry that is not below the key; without a key, after all entries.
    fn seek(top: &'a Child, key: Option<&[u8]>) -> Self {
        let (mut cursor, mut child, mut depth) = (Self::default(), top, 0);
        let Some(key) = key else {
            cursor.enter(top, false);
            return cursor;
        };
        while let Child::Inner(inner) = child {
            for &nibble in inner.skip() {
                let (ours, theirs) = (place_of(key, depth), u32::from(nibble) + 1);
                if ours != theirs {
                    cursor.enter(child, ours < theirs);
                    return cursor;
                }
                depth += 1;
            }
            let place = place_of(key, depth);
            let before = inner.index(place);
            if !inner.has(place) {
                cursor.way.push((inner, Span { before, after: before }));
                return cursor;
            }
            cursor.way.push((inner, Span { before, after: before + 1 }));
            child = &inner.children()[before];
            depth += 1;
        }
        (cursor.leaf, cursor.at) = (Some(child), child.leaf_bound(key));
        cursor
    }

    /// Enters a subtree, at its beginning or its end.
    fn enter(&mut self, mut child: &'a Child, at_start: bool) {
        while let Child::Inner(inner) = child {
            let count = inner.children().len();
            let (span, next) = if at_start {
                (Span { before: 0, after: 1 }, 0)
            } else {
                (Span { before: count - 1, after: count }, count - 1)
            };
            self.way.push((inner, span));
            child = &inner.children()[next];
        }
        (self.leaf, self.at) = (Some(child), if at_start { 0 } else { child.leaf_len() });
    }

    fn next(&mut self) -> Option<Entry<'a>> {
        loop {
            if let Some(entry) = self.leaf.and_then(|leaf| leaf.leaf_entry(self.at)) {
                self.at += 1;
                return Some(entry);
            }
            let (inner, span) = self.way.last_mut()?;
            let inner: &'a Inner = inner;
            match inner.children().get(span.after) {
                Some(child) => {
                    *span = Span { before: span.after, after: span.after + 1 };
                    self.enter(child, true);
                }
                None => {
                    self.way.pop();
                    self.leaf = None;
                }
            }
        }
    }

    fn previous(&mut self) -> Option<Entry<'a>> {
        loop {
            if let Some(leaf) = self.leaf
                && let Some(at) = self.at.checked_sub(1)
            {
                self.at = at;
                return leaf.leaf_entry(at);
            }
            let (inner, span) = self.way.last_mut()?;
            let inner: &'a Inner = inner;
            match span.before.checked_sub(1) {
                Some(before) => {
                    *span = Span { before, after: span.before };
                    self.enter(&inner.children()[before], false);
                }
                None => {
                    self.way.pop();
                    self.leaf = None;
                }
            }
        }
    }

    /// The range is exhausted.
    fn stop(&mut self) {
        *self = Self::default();
    }
}
