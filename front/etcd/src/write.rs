//! Changes: the puts and deletes (`delete.rs`) of one command, which all have one revision.
//!
//! A put appends an entry and writes the key's head. No entry is ever changed, so reads at an older revision, and watches, find the old
//! entries. Tests: `tests/all/store.rs`.

use crate::error::EtcdError;
use crate::events::LiveWriter;
use crate::lease;
use crate::proto;
use crate::request::PutRequest;
use crate::space::{Entry, GONE, HEAD, Head, KeyValue, Meta, Revision, entry_at, entry_of, head, named};
use quorate_execute::{Store, Version};

/// Buffers that are reused; nothing in them lasts longer than a command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffers {
    pub(crate) key: Vec<u8>,
    pub(crate) head: Vec<u8>,
    pub(crate) entry: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// The changes of one command.
pub(crate) struct Writer<'a> {
    pub(crate) store: &'a mut Store,
    meta: &'a mut Meta,
    pub(crate) buffers: &'a mut Buffers,
    pub(crate) live: &'a mut LiveWriter,
    /// The revision of the next change.
    pub(crate) next: Revision,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(
        store: &'a mut Store,
        meta: &'a mut Meta,
        buffers: &'a mut Buffers,
        live: &'a mut LiveWriter,
    ) -> Self {
        let next = Revision { main: meta.revision + 1, sub: 0 };
        live.mark();
        Self { store, meta, buffers, live, next }
    }

    /// The revision of the command's changes, whether or not there are any yet.
    pub(crate) fn change_revision(&self) -> i64 {
        self.next.main
    }

    /// The newest revision, with the changes so far.
    pub(crate) fn revision(&self) -> i64 {
        if self.next.sub > 0 { self.next.main } else { self.meta.revision }
    }

    /// The store's numbers before this command.
    pub(crate) fn meta(&self) -> &Meta {
        self.meta
    }

    /// Makes the changes the newest revision, if there are any. Gives the newest revision.
    pub(crate) fn finish(self) -> i64 {
        self.meta.revision = self.revision();
        self.meta.revision
    }

    /// Undoes the command's changes.
    pub(crate) fn undo(self, before: &Version) {
        self.store.roll_back(before);
        self.live.undo();
    }

    /// Carries out a put that was checked; appends the fields of the response.
    pub(crate) fn put(&mut self, request: &PutRequest<'_>, out: &mut Vec<u8>) {
        let old = head(self.store, request.key, &mut self.buffers.key);
        let before = match &old {
            Some(old) => Some(old.at),
            None => self.bring_back(request.key),
        };
        // Of a key that this transaction deleted before, none is left: what an earlier command left here must not show.
        self.buffers.value.clear();
        if let Some(old) = &old {
            if request.prev_kv || request.ignore_value {
                let entry = entry_of(self.store, old);
                if request.prev_kv {
                    proto::message_field(out, 2, entry.message);
                }
                if request.ignore_value {
                    self.buffers.value.extend_from_slice(KeyValue::decode(entry.message).value);
                }
            }
            self.live.before(|| entry_of(self.store, old));
        }
        let lease = match &old {
            Some(old) if request.ignore_lease => old.lease,
            _ => request.lease,
        };
        let old = old.unwrap_or_default();
        let create = if old.create == 0 { self.next.main } else { old.create };
        let head = Head { at: self.next, create, version: old.version + 1, lease };
        Entry::begin(&mut self.buffers.entry, false, before);
        let message_at = self.buffers.entry.len();
        let value = if request.ignore_value { &self.buffers.value } else { request.value };
        KeyValue::encode(&mut self.buffers.entry, request.key, &head, value);
        self.live.change(self.next, false, request.key, &self.buffers.entry[message_at..]);
        self.append();
        head.encode(&mut self.buffers.head);
        self.store.put(named(&mut self.buffers.key, HEAD, request.key), &self.buffers.head);
        if old.lease != lease {
            lease::detach(self.store, old.lease, request.key, &mut self.buffers.key);
            lease::attach(self.store, lease, request.key, &mut self.buffers.key);
        }
    }

    /// The key gets a value again. Gives the revision of its deletion, unless that was compacted.
    fn bring_back(&mut self, key: &[u8]) -> Option<Revision> {
        let name = named(&mut self.buffers.key, GONE, key);
        let at = self.store.get(name).map(|bytes| Head::decode(bytes).at)?;
        self.store.remove(name);
        Some(at)
    }

    /// Writes the entry in the buffer under the next revision.
    pub(crate) fn append(&mut self) {
        self.store.put(self.next.key().bytes(), &self.buffers.entry);
        self.next = self.next.next();
    }
}

/// Whether a put in a transaction may be done, given the store before it.
pub(crate) fn check_put(store: &Store, request: &PutRequest<'_>) -> Result<(), EtcdError> {
    check_key(store, request)?;
    check_lease(store, request)
}

/// Whether a put that stands alone may be done. If two errors apply, etcd names another one than in a transaction.
pub(crate) fn check_put_alone(store: &Store, request: &PutRequest<'_>) -> Result<(), EtcdError> {
    check_lease(store, request)?;
    check_key(store, request)
}

fn check_key(store: &Store, request: &PutRequest<'_>) -> Result<(), EtcdError> {
    let needed = request.ignore_value || request.ignore_lease;
    let missing = needed && head(store, request.key, &mut Vec::new()).is_none();
    if missing { Err(EtcdError::KeyNotFound) } else { Ok(()) }
}

fn check_lease(store: &Store, request: &PutRequest<'_>) -> Result<(), EtcdError> {
    let missing = request.lease != 0 && !lease::exists(store, request.lease);
    if missing { Err(EtcdError::LeaseNotFound) } else { Ok(()) }
}

/// The entry of a key as of a revision, found by following the chain back from the newest entry.
pub(crate) fn as_of<'a>(store: &'a Store, newest: Revision, revision: i64) -> Option<(Revision, Entry<'a>)> {
    let (mut at, mut entry) = (newest, entry_at(store, newest)?);
    while at.main > revision {
        at = entry.before?;
        entry = entry_at(store, at)?;
    }
    (!entry.deletes).then_some((at, entry))
}
