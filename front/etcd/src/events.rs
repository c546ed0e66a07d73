//! Changes as watches see them: live, as commands are executed, and from the entries of past revisions.
//!
//! Live events go to an [`Observer`] once their batch is final. They are no part of the state, and nothing that the observer does changes
//! the store. A watch that missed some reads pages of past events. Tests: `tests/all/live.rs`, `tests/all/pages.rs`, `tests/all/store.rs`.

use crate::error::EtcdError;
use crate::proto;
use crate::space::{ENTRY, Entry, Meta, Revision, entry_at};
use quorate_execute::{Events, Store};

/// How many entries are looked at for one page.
const STEPS: usize = 5000;
/// How many bytes of its room a page leaves free.
const MORE_BYTES: usize = 64;

/// Is told of the changes that commands made, once they are final. Called on the lane that executes, so it must be quick and never wait.
pub trait Observer: Send {
    /// Whether it wants events now, and whether with the entries before.
    fn wants(&self) -> Wants;
    /// Commands ran, or a checkpoint replaced the state. After a checkpoint there are no events: `wants` is [`Wants::Nothing`], and
    /// `before` is the last revision that was told. The revision of a repaired replica may go back.
    fn executed(&mut self, events: LiveEvents);
}

/// The observer in the form that the engine calls.
pub(crate) struct Heard(pub(crate) Box<dyn Observer>);

impl quorate_execute::Observer for Heard {
    fn told(&mut self, events: Events) {
        for events in events.of::<Vec<LiveEvents>>().into_iter().flatten() {
            self.0.executed(events);
        }
    }
}

/// What an observer wants to know of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Wants {
    /// Only the revisions.
    #[default]
    Nothing,
    /// The events.
    Events,
    /// The events, with the entries that they replaced.
    EventsAndBefore,
}

/// The changes that the commands of one request made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveEvents {
    /// The revision before the changes.
    pub before: i64,
    /// The newest revision, after the changes.
    pub revision: i64,
    /// The compacted revision.
    pub compacted: i64,
    /// What the bytes hold of the changes. If nothing, a watch must read pages.
    pub wants: Wants,
    bytes: Vec<u8>,
}

impl LiveEvents {
    /// A checkpoint replaced the state at the revision `before`.
    pub(crate) fn jump(before: i64, meta: &Meta) -> Self {
        let (revision, compacted) = (meta.revision, meta.compacted);
        Self { before, revision, compacted, wants: Wants::Nothing, bytes: Vec::new() }
    }
    /// Adds `next` to this one if neither has events. Says whether it did.
    pub(crate) fn goes_on(&mut self, next: &Self) -> bool {
        let both =
            self.wants == Wants::Nothing && next.wants == Wants::Nothing && self.revision == next.before;
        if both {
            (self.revision, self.compacted) = (next.revision, next.compacted);
        }
        both
    }
    /// The events in their order.
    pub fn iter(&self) -> impl Iterator<Item = LiveEvent<'_>> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || LiveEvent::read(&mut rest))
    }
    /// How much memory it takes, in bytes.
    pub fn byte_len(&self) -> usize {
        self.bytes.capacity() + size_of::<Self>()
    }
}

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveEvent<'a> {
    /// Its revision.
    pub revision: i64,
    /// Whether the key was deleted.
    pub deletes: bool,
    /// The key.
    pub key: &'a [u8],
    /// The `KeyValue` message after the change.
    pub message: &'a [u8],
    /// The `KeyValue` message before the change; empty when there was none, or none was wanted.
    pub before: &'a [u8],
}

impl<'a> LiveEvent<'a> {
    fn read(from: &mut &'a [u8]) -> Option<Self> {
        let revision = proto::read_number(from)? as i64;
        let deletes = proto::read_number(from)? == 1;
        let (key, message) = (proto::read_string(from)?, proto::read_string(from)?);
        Some(Self { revision, deletes, key, message, before: proto::read_string(from)? })
    }

    /// Appends the event as an `Event` message.
    pub fn write(&self, with_before: bool, out: &mut Vec<u8>) {
        write_event(self.deletes, self.message, if with_before { self.before } else { &[] }, out);
    }
}

fn write_event(deletes: bool, message: &[u8], before: &[u8], out: &mut Vec<u8>) {
    proto::flag_field(out, 1, deletes);
    proto::message_field(out, 2, message);
    proto::bytes_field(out, 3, before);
}

/// Collects live events.
#[derive(Debug, Default)]
pub(crate) struct LiveWriter {
    wants: Wants,
    bytes: Vec<u8>,
    before: Vec<u8>,
    /// Where the present command's events begin.
    mark: usize,
}

impl LiveWriter {
    pub(crate) fn begin(&mut self, wants: Wants) {
        self.wants = wants;
        self.bytes.clear();
    }

    /// A command begins; [`Self::undo`] goes back to here.
    pub(crate) fn mark(&mut self) {
        self.mark = self.bytes.len();
    }

    /// Forgets the events of the present command, which did nothing after all.
    pub(crate) fn undo(&mut self) {
        self.bytes.truncate(self.mark);
        self.before.clear();
    }

    /// The entry that the next change replaces. Looked up only if it is wanted, since that may cost a cache miss.
    pub(crate) fn before<'a>(&mut self, entry: impl FnOnce() -> Entry<'a>) {
        if self.wants == Wants::EventsAndBefore {
            self.before.extend_from_slice(entry().message);
        }
    }

    pub(crate) fn change(&mut self, at: Revision, deletes: bool, key: &[u8], message: &[u8]) {
        if self.wants != Wants::Nothing {
            proto::number(&mut self.bytes, at.main as u64);
            proto::number(&mut self.bytes, u64::from(deletes));
            [key, message, &self.before].into_iter().for_each(|part| proto::string(&mut self.bytes, part));
            self.before.clear();
        }
    }

    /// The events since the beginning.
    pub(crate) fn take(&mut self, before: &Meta, meta: &Meta) -> LiveEvents {
        LiveEvents {
            before: before.revision,
            revision: meta.revision,
            compacted: meta.compacted,
            wants: self.wants,
            bytes: std::mem::take(&mut self.bytes),
        }
    }
}

/// A query for past events, for one watch.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct EventsQuery<'a> {
    /// The first revision wanted.
    pub revision: i64,
    /// The first change of that revision that is wanted.
    pub sub: u32,
    /// Leave out puts.
    pub no_put: bool,
    /// Leave out deletes.
    pub no_delete: bool,
    /// Include the entries that the changes replaced.
    pub prev_kv: bool,
    /// The first key.
    pub key: &'a [u8],
    /// The end of the range, as in a range request.
    pub range_end: &'a [u8],
}

impl<'a> EventsQuery<'a> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        proto::number(out, self.revision as u64);
        proto::number(out, u64::from(self.sub));
        out.push(u8::from(self.no_put) | u8::from(self.no_delete) << 1 | u8::from(self.prev_kv) << 2);
        proto::string(out, self.key);
        proto::string(out, self.range_end);
    }

    pub(crate) fn decode(mut bytes: &'a [u8]) -> Option<Self> {
        let from = &mut bytes;
        let revision = i64::try_from(proto::read_number(from)?).ok()?;
        let sub = u32::try_from(proto::read_number(from)?).ok()?;
        let flags = proto::read_number(from)?;
        let (key, range_end) = (proto::read_string(from)?, proto::read_string(from)?);
        let flag = |bit: u32| flags & (1 << bit) != 0;
        Some(Self { revision, sub, no_put: flag(0), no_delete: flag(1), prev_kv: flag(2), key, range_end })
    }

    /// Whether the key is in the watch's range.
    pub fn covers(&self, key: &[u8]) -> bool {
        match self.range_end {
            [] => key == self.key,
            [0] => key >= self.key,
            end => key >= self.key && key < end,
        }
    }
}

/// A page of past events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventsPage<'a> {
    /// The newest revision.
    pub revision: i64,
    /// The revision where the next page begins.
    pub next_revision: i64,
    /// The change of that revision where the next page begins.
    pub next_sub: u32,
    /// `Event` messages, each as field 11 of a `WatchResponse`.
    pub events: &'a [u8],
}

impl<'a> EventsPage<'a> {
    /// Decodes the page from the body of a reply.
    pub fn decode(revision: i64, mut body: &'a [u8]) -> Option<Self> {
        let next_revision = proto::read_number(&mut body)? as i64;
        let next_sub = proto::read_number(&mut body)? as u32;
        Some(Self { revision, next_revision, next_sub, events: body })
    }
}

/// Appends a page. Behind the newest revision it is empty.
pub(crate) fn page(
    store: &Store,
    meta: &Meta,
    query: &EventsQuery<'_>,
    room: usize,
    out: &mut Vec<u8>,
) -> Result<(), EtcdError> {
    if query.revision < meta.compacted {
        return Err(EtcdError::Compacted);
    }
    let start = Revision { main: query.revision, sub: query.sub };
    let mut next = Revision { main: (meta.revision + 1).max(query.revision), sub: 0 };
    if next.main == query.revision {
        next.sub = query.sub;
    }
    let (mut events, mut event, mut steps) = (Vec::new(), Vec::new(), 0);
    for (key, bytes) in store.range(start.key().bytes(), Some(&[ENTRY + 1])) {
        let Some(at) = Revision::of_key(key) else { continue };
        if steps == STEPS {
            next = at;
            break;
        }
        steps += 1;
        let entry = Entry::decode(bytes);
        if (entry.deletes && query.no_delete)
            || (!entry.deletes && query.no_put)
            || !query.covers(entry.key())
        {
            continue;
        }
        event.clear();
        let before = if query.prev_kv { before(store, meta, at, entry) } else { &[] };
        write_event(entry.deletes, entry.message, before, &mut event);
        if events.len() + event.len() + MORE_BYTES > room {
            if !events.is_empty() {
                next = at;
                break;
            }
            // Alone with what was before it does not fit.
            event.clear();
            write_event(entry.deletes, entry.message, &[], &mut event);
            if event.len() + MORE_BYTES > room {
                return Err(EtcdError::ResponseTooLarge);
            }
        }
        proto::message_field(&mut events, 11, &event);
    }
    proto::number(out, next.main as u64);
    proto::number(out, u64::from(next.sub));
    out.extend_from_slice(&events);
    Ok(())
}

/// The entry before a change, unless that is compacted.
fn before<'a>(store: &'a Store, meta: &Meta, at: Revision, entry: Entry<'_>) -> &'a [u8] {
    let kept = at.main > meta.compacted;
    let before = entry.before.filter(|_| kept).and_then(|before| entry_at(store, before));
    before.filter(|before| !before.deletes).map_or(&[], |before| before.message)
}
