//! Entries of a view in key order: those of the version, those that earlier commands wrote, and own ones; the later hides the earlier.

use super::live::LiveRange;
use super::{Earlier, Noting, RangeEnd, RangeRead, Reads, RunId};
use bytes::Bytes;
use quorate_state::store::Range;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::btree_map;
use std::iter::Peekable;
use std::ops::Bound;

/// The entries of a view between two keys; see [`StateView::range`](super::StateView::range).
pub struct StateRange<'v>(Entries<'v>);

enum Entries<'v> {
    Plain(Range<'v>),
    Merged(Box<Merged<'v>>),
    Live(Box<LiveRange<'v>>),
}

struct Merged<'v> {
    version: Peekable<Range<'v>>,
    earlier: &'v [Earlier],
    own: Peekable<btree_map::Range<'v, Box<[u8]>, Option<Bytes>>>,
    /// All of `earlier` that lie in the range.
    all_earlier: &'v [Earlier],
    start: &'v [u8],
    end: Option<&'v [u8]>,
    /// The last key that was given out.
    last: Option<&'v [u8]>,
    exhausted: bool,
    /// Where the range stands among what was read, once something was asked for.
    noted: Option<usize>,
    reads: &'v RefCell<Reads>,
}

impl<'v> StateRange<'v> {
    pub(super) fn plain(range: Range<'v>) -> Self {
        Self(Entries::Plain(range))
    }

    pub(super) fn live(range: LiveRange<'v>) -> Self {
        Self(Entries::Live(Box::new(range)))
    }
}

impl Noting<'_> {
    pub(super) fn range<'v>(&'v self, start: &'v [u8], end: Option<&'v [u8]>) -> StateRange<'v> {
        let none = end.is_some_and(|end| end <= start);
        let from = self.earlier.partition_point(|earlier| *earlier.key < *start);
        let to =
            end.map_or(self.earlier.len(), |end| self.earlier.partition_point(|earlier| *earlier.key < *end));
        let earlier = self.earlier.get(from..to).unwrap_or_default();
        // The map takes no range that ends before it starts.
        let own_end =
            if none { Bound::Excluded(start) } else { end.map_or(Bound::Unbounded, Bound::Excluded) };
        let own = self.own.range::<[u8], _>((Bound::Included(start), own_end)).peekable();
        StateRange(Entries::Merged(Box::new(Merged {
            version: self.version.range(start, end).peekable(),
            earlier,
            own,
            all_earlier: earlier,
            start,
            end,
            last: None,
            exhausted: none,
            noted: None,
            reads: &self.reads,
        })))
    }
}

impl<'v> Iterator for StateRange<'v> {
    type Item = (Cow<'v, [u8]>, Cow<'v, [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = match &mut self.0 {
            Entries::Plain(range) => range.next()?,
            Entries::Merged(merged) => merged.next()?,
            Entries::Live(live) => return live.next(),
        };
        Some((Cow::Borrowed(key), Cow::Borrowed(value)))
    }
}

impl<'v> Merged<'v> {
    fn next(&mut self) -> Option<(&'v [u8], &'v [u8])> {
        if self.noted.is_none() {
            // All of it, until it is known where the reader stops.
            let end = self.end.map_or(RangeEnd::Nowhere, |end| RangeEnd::Before(end.into()));
            let mut reads = self.reads.borrow_mut();
            self.noted = Some(reads.ranges.len());
            let saw = seen(self.all_earlier, &end);
            reads.ranges.push(RangeRead { start: self.start.into(), end, saw });
        }
        while !self.exhausted {
            let version = self.version.peek().map(|(key, _)| *key);
            let earlier = self.earlier.first().map(|earlier| &*earlier.key);
            let own = self.own.peek().map(|(key, _)| &***key);
            let Some(key) = [version, earlier, own].into_iter().flatten().min() else {
                self.exhausted = true;
                break;
            };
            let mut value = self.version.next_if(|(at, _)| *at == key).map(|(_, value)| value);
            if earlier == Some(key) {
                value = self.earlier[0].value.as_deref();
                self.earlier = &self.earlier[1..];
            }
            if let Some((_, own)) = self.own.next_if(|(at, _)| ***at == *key) {
                value = own.as_deref();
            }
            self.last = Some(key);
            if let Some(value) = value {
                return Some((key, value));
            }
        }
        None
    }
}

/// The earlier writes up to the end of a range, and whose they are.
fn seen(earlier: &[Earlier], end: &RangeEnd) -> Vec<(Box<[u8]>, RunId)> {
    let inside = earlier.iter().take_while(|earlier| end.covers(&earlier.key));
    inside.map(|earlier| (earlier.key.clone(), earlier.run)).collect()
}

/// What was taken is what was read.
impl Drop for Merged<'_> {
    fn drop(&mut self) {
        if let (false, Some(last), Some(at)) = (self.exhausted, self.last, self.noted) {
            let saw = seen(self.all_earlier, &RangeEnd::After(last.into()));
            shorten(self.reads, at, last.into(), saw);
        }
    }
}

/// The reader of a range stopped after this key.
pub(super) fn shorten(reads: &RefCell<Reads>, at: usize, last: Box<[u8]>, saw: Vec<(Box<[u8]>, RunId)>) {
    let range = &mut reads.borrow_mut().ranges[at];
    (range.end, range.saw) = (RangeEnd::After(last), saw);
}
