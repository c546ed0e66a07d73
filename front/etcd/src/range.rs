//! Ranges: at the newest revision they are read from the heads, at an older one by following the chains of entries back.
//!
//! A range may be longer than a reply: then a page says where the next one begins. The server asks for the next page at the same revision
//! and joins the pages. Tests: `tests/all/pages.rs`, `tests/all/store.rs`.

use crate::error::EtcdError;
use crate::proto;
use crate::request::{RangeRequest, SortOrder, SortTarget};
use crate::space::{Bounds, GONE, HEAD, Head, KeyValue, Meta, entry_of, head};
use crate::write::as_of;
use quorate_execute::Store;
use std::cmp::Ordering;

/// How many bytes of its room a page leaves free for what stands around it.
const MORE_BYTES: usize = 64;

/// A query for a range, or for its next page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeQuery<'a> {
    /// This is not the first page: the count of the whole range is known.
    pub continued: bool,
    /// How many entries were on the pages before.
    pub skip: u64,
    /// The `RangeRequest`.
    pub request: &'a [u8],
}

impl<'a> RangeQuery<'a> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.continued));
        proto::number(out, self.skip);
        out.extend_from_slice(self.request);
    }

    pub(crate) fn decode(mut bytes: &'a [u8]) -> Option<Self> {
        let continued = proto::read_number(&mut bytes)? == 1;
        let skip = proto::read_number(&mut bytes)?;
        Some(Self { continued, skip, request: bytes })
    }
}

/// A page of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangePage<'a> {
    /// Where the next page begins; `None` on the last page. Inside: a key; or `None` where the range is sorted, and the pages so far are
    /// skipped.
    pub next: Option<Option<&'a [u8]>>,
    /// How many entries the page has.
    pub entries: u64,
    /// The fields of a `RangeResponse` without its header.
    pub fields: &'a [u8],
}

const LAST: u8 = 0;
const NEXT_BY_KEY: u8 = 1;
const NEXT_BY_SKIP: u8 = 2;

impl<'a> RangePage<'a> {
    /// The body of a last page without entries.
    pub const EMPTY: &'static [u8] = &[LAST, 0];

    /// Decodes the page from the body of a reply.
    pub fn decode(mut body: &'a [u8]) -> Option<Self> {
        let kind = proto::read_number(&mut body)?;
        let entries = proto::read_number(&mut body)?;
        let next = match u8::try_from(kind).ok()? {
            LAST => None,
            NEXT_BY_KEY => Some(Some(proto::read_string(&mut body)?)),
            NEXT_BY_SKIP => Some(None),
            _ => return None,
        };
        Some(Self { next, entries, fields: body })
    }
}

/// Where a range that did not fit continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Key(Vec<u8>),
    Skip,
}

/// What was appended.
#[derive(Debug, Default)]
pub(crate) struct Appended {
    pub(crate) entries: u64,
    pub(crate) next: Option<Next>,
}

/// The body of the reply to a [`RangeQuery`].
pub(crate) fn query(
    store: &Store,
    meta: &Meta,
    query: &RangeQuery<'_>,
    room: usize,
    out: &mut Vec<u8>,
) -> Result<(), EtcdError> {
    let request = RangeRequest::decode(query.request)?;
    check(meta.revision, meta.compacted, &request)?;
    let mut fields = Vec::new();
    // The key to go on from takes room, too.
    let room = room.saturating_sub(request.key.len() + request.range_end.len() + MORE_BYTES);
    let appended = range(store, meta.revision, &request, query, room, &mut fields)?;
    match &appended.next {
        None => out.push(LAST),
        Some(Next::Key(_)) => out.push(NEXT_BY_KEY),
        Some(Next::Skip) => out.push(NEXT_BY_SKIP),
    }
    proto::number(out, appended.entries);
    if let Some(Next::Key(key)) = &appended.next {
        proto::string(out, key);
    }
    out.extend_from_slice(&fields);
    Ok(())
}

/// Whether the range may be asked for.
pub(crate) fn check(revision: i64, compacted: i64, request: &RangeRequest<'_>) -> Result<(), EtcdError> {
    if request.key.is_empty() {
        return Err(EtcdError::EmptyKey);
    }
    if request.revision > revision {
        return Err(EtcdError::FutureRevision);
    }
    if request.revision > 0 && request.revision < compacted {
        return Err(EtcdError::Compacted);
    }
    Ok(())
}

/// Appends the fields of a response, with as many entries as there is room for.
pub(crate) fn range(
    store: &Store,
    newest: i64,
    request: &RangeRequest<'_>,
    page: &RangeQuery<'_>,
    room: usize,
    out: &mut Vec<u8>,
) -> Result<Appended, EtcdError> {
    let at = (request.revision > 0 && request.revision < newest).then_some(request.revision);
    let sorted = request.target != SortTarget::Key || request.order == SortOrder::Descend;
    let mut appender = Appender { store, request, room, out, appended: Appended::default() };
    if (sorted || is_filtered(request)) && !request.count_only {
        appender.sorted(at, page)?;
    } else {
        appender.in_order(at, page)?;
    }
    Ok(appender.appended)
}

struct Appender<'a> {
    store: &'a Store,
    request: &'a RangeRequest<'a>,
    room: usize,
    out: &'a mut Vec<u8>,
    appended: Appended,
}

impl Appender<'_> {
    /// Appends an entry; `false` if there is no room.
    fn append(&mut self, head: &Head) -> Result<bool, EtcdError> {
        let message = entry_of(self.store, head).message;
        let message = if self.request.keys_only { KeyValue::decode(message).without_value } else { message };
        if self.out.len() + message.len() + MORE_BYTES > self.room {
            return if self.appended.entries == 0 { Err(EtcdError::ResponseTooLarge) } else { Ok(false) };
        }
        proto::message_field(self.out, 2, message);
        self.appended.entries += 1;
        Ok(true)
    }

    /// Appends the newest entry of one key.
    fn one(&mut self, page: &RangeQuery<'_>) -> Result<(), EtcdError> {
        let Some(head) = head(self.store, self.request.key, &mut Vec::new()) else { return Ok(()) };
        if !self.request.count_only {
            self.append(&head)?;
        }
        proto::int_field(self.out, 4, i64::from(!page.continued));
        Ok(())
    }

    /// Appends entries in the order of keys, without filters: nothing is collected.
    fn in_order(&mut self, at: Option<i64>, page: &RangeQuery<'_>) -> Result<(), EtcdError> {
        let limit = u64::try_from(self.request.limit).ok().filter(|limit| *limit > 0).unwrap_or(u64::MAX);
        let (mut count, mut failed) = (0, None);
        if at.is_none() && self.request.range_end.is_empty() {
            return self.one(page);
        }
        Meant::new(self.request).each(self.store, at, &mut |key, head| {
            count += 1;
            if self.request.count_only {
                return true;
            }
            let done = self.appended.next.is_some() || self.appended.entries == limit;
            if !done {
                match self.append(&head) {
                    Ok(true) => {}
                    Ok(false) => self.appended.next = Some(Next::Key(key.to_vec())),
                    Err(error) => failed = Some(error),
                }
            }
            failed.is_none() && !(done && page.continued)
        });
        if let Some(error) = failed {
            return Err(error);
        }
        if !page.continued {
            proto::flag_field(self.out, 3, !self.request.count_only && count > limit);
            proto::int_field(self.out, 4, count as i64);
        }
        Ok(())
    }

    /// Appends entries that are filtered and sorted: all are looked at before the first is appended.
    fn sorted(&mut self, at: Option<i64>, page: &RangeQuery<'_>) -> Result<(), EtcdError> {
        let (mut found, mut count) = (Vec::new(), 0);
        let (request, meant) = (self.request, Meant::new(self.request));
        // Where no order is named, and nothing filtered, etcd sorts what the limit leaves of the range, and one more.
        let taken = match usize::try_from(request.limit) {
            Ok(limit) if limit > 0 && request.order == SortOrder::None && !is_filtered(request) => limit + 1,
            _ => usize::MAX,
        };
        meant.each(self.store, at, &mut |key, head| {
            count += 1;
            if passes(request, &head) && found.len() < taken {
                found.push((key, head));
            }
            true
        });
        self.sort(&mut found);
        let total = found.len();
        if let Some(limit) = usize::try_from(request.limit).ok().filter(|limit| *limit > 0) {
            found.truncate(limit);
        }
        let more = found.len() < total;
        for (_, head) in found.iter().skip(usize::try_from(page.skip).unwrap_or(usize::MAX)) {
            if !self.append(head)? {
                self.appended.next = Some(Next::Skip);
                break;
            }
        }
        if !page.continued {
            proto::flag_field(self.out, 3, more);
            proto::int_field(self.out, 4, count);
        }
        Ok(())
    }

    /// Sorts the entries. Those that are equal in the sort target stay in the order of keys.
    fn sort(&self, found: &mut [(&[u8], Head)]) {
        let value = |head: &Head| KeyValue::decode(entry_of(self.store, head).message).value;
        let compare = |(left_key, left): &(&[u8], Head), (right_key, right): &(&[u8], Head)| -> Ordering {
            match self.request.target {
                SortTarget::Key => left_key.cmp(right_key),
                SortTarget::Version => left.version.cmp(&right.version),
                SortTarget::Create => left.create.cmp(&right.create),
                SortTarget::Mod => left.at.main.cmp(&right.at.main),
                SortTarget::Value => value(left).cmp(value(right)),
            }
        };
        match self.request.order {
            SortOrder::Descend => found.sort_by(|left, right| compare(right, left)),
            _ => found.sort_by(compare),
        }
    }
}

fn is_filtered(request: &RangeRequest<'_>) -> bool {
    [request.min_mod, request.max_mod, request.min_create, request.max_create].iter().any(|&bound| bound != 0)
}

fn passes(request: &RangeRequest<'_>, head: &Head) -> bool {
    let within = |number: i64, min: i64, max: i64| (min == 0 || number >= min) && (max == 0 || number <= max);
    within(head.at.main, request.min_mod, request.max_mod)
        && within(head.create, request.min_create, request.max_create)
}

/// The keys that a request asks for, with and without a value.
struct Meant {
    heads: Bounds,
    gone: Bounds,
}

impl Meant {
    fn new(request: &RangeRequest<'_>) -> Self {
        let bounds = |part| Bounds::new(part, request.key, request.range_end);
        Self { heads: bounds(HEAD), gone: bounds(GONE) }
    }

    /// Goes through them, with what they were at a revision (`None`: as they are), until told to stop.
    fn each<'a>(&'a self, store: &'a Store, at: Option<i64>, visit: &mut dyn FnMut(&'a [u8], Head) -> bool) {
        let mut heads = self.heads.entries(store).peekable();
        let Some(revision) = at else {
            heads.all(|(key, bytes)| visit(key, Head::decode(bytes)));
            return;
        };
        let mut gone = self.gone.entries(store).peekable();
        // A key is in one of both.
        loop {
            let take_head = match (heads.peek(), gone.peek()) {
                (Some((head, _)), Some((gone, _))) => head < gone,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => return,
            };
            let next = if take_head { heads.next() } else { gone.next() };
            let Some((key, bytes)) = next else { return };
            let Some((at, entry)) = as_of(store, Head::decode(bytes).at, revision) else { continue };
            let parts = KeyValue::decode(entry.message);
            if !visit(key, Head { at, create: parts.create, version: parts.version, lease: 0 }) {
                return;
            }
        }
    }
}
