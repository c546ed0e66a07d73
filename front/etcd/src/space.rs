//! The layout of the object store: which keys hold what (docs/formats/etcd.md).
//!
//! - `m`: the [`Meta`] numbers.
//! - `k` and a key: the [`Head`] of a key that has a value: the revision of its newest entry, and its numbers.
//! - `d` and a key: the revision of the entry that deleted it, for keys without a value, until that is compacted.
//! - `r` and a [`Revision`]: an [`Entry`]: etcd's own `KeyValue` message, and the revision of the key's entry before.
//! - `u` and a member's number: its announcement.
//! - `A`, a kind and a member's number: an alarm: see `alarms.rs`.
//! - `U`, `R`, `t`, `x`: users, roles and tokens: see `auth/mod.rs`.
//! - `l` and a lease: its times. `a`, a lease and a key: the key is attached. `e`, a moment and a lease: when it ends.
//!
//! Invariants: INV-ETCD-1 to 3; INV-ETCD-4 and 5 in `lease.rs`. Tests: `tests/all/store.rs` goes through all of it.

use crate::error::EtcdError;
use crate::proto::{self, Fields, Value};
use quorate_execute::Store;

pub(crate) const META: u8 = b'm';
pub(crate) const HEAD: u8 = b'k';
pub(crate) const GONE: u8 = b'd';
pub(crate) const ENTRY: u8 = b'r';
pub(crate) const LEASE: u8 = b'l';
pub(crate) const ATTACHED: u8 = b'a';
pub(crate) const ENDING: u8 = b'e';
pub(crate) const ANNOUNCED: u8 = b'u';

/// The longest key, and name of a user or role. It stands in keys of objects, which may have 64 KiB (INV-STORE-1), behind a few bytes.
pub(crate) const NAME_BYTES_MAX: usize = (64 << 10) - 16;

/// The most bytes of an announcement.
const ANNOUNCEMENT_BYTES_MAX: usize = 4 << 10;

/// The numbers of the whole store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    /// The revision of the newest change; 1 in an empty store.
    pub(crate) revision: i64,
    /// The compacted revision: nothing below it can be asked for. 0: nothing was compacted.
    pub(crate) compacted: i64,
    /// The first entry that compaction has not looked at yet. It has looked at all once this is the beginning of the revision `compacted`,
    /// or behind it.
    pub(crate) swept: Revision,
    /// Twice the number of changes to users and roles, plus 1 while authentication is on. Not stored when 0.
    auth: u64,
    /// A bit for each kind of alarm that is set. Not stored when 0.
    alarms: u64,
}

impl Default for Meta {
    fn default() -> Self {
        Self { revision: 1, compacted: 0, swept: Revision { main: 1, sub: 0 }, auth: 0, alarms: 0 }
    }
}

impl Meta {
    pub(crate) fn read(store: &Store) -> Self {
        let Some(bytes) = store.get(&[META]) else { return Self::default() };
        Self::decode(bytes).expect("INV-ETCD-3: the meta numbers decode")
    }

    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut next = || proto::read_number(&mut bytes);
        Some(Self {
            revision: next()? as i64,
            compacted: next()? as i64,
            swept: Revision { main: next()? as i64, sub: next()? as u32 },
            auth: proto::read_number(&mut bytes).unwrap_or(0),
            alarms: proto::read_number(&mut bytes).unwrap_or(0),
        })
    }

    pub(crate) fn write(&self, store: &mut Store, buffer: &mut Vec<u8>) {
        buffer.clear();
        let numbers = [self.revision, self.compacted, self.swept.main, i64::from(self.swept.sub)];
        numbers.into_iter().for_each(|number| proto::number(buffer, number as u64));
        if self.auth != 0 || self.alarms != 0 {
            proto::number(buffer, self.auth);
        }
        if self.alarms != 0 {
            proto::number(buffer, self.alarms);
        }
        store.put(&[META], buffer);
    }

    /// Whether authentication is on.
    pub(crate) const fn is_guarded(&self) -> bool {
        self.auth & 1 == 1
    }

    /// Turns authentication on or off.
    pub(crate) const fn guard(&mut self, on: bool) {
        self.auth = self.auth & !1 | on as u64;
    }

    /// The revision of users and roles: 1 before the first change, as in etcd.
    pub(crate) const fn auth_revision(&self) -> u64 {
        (self.auth >> 1) + 1
    }

    /// Goes on from a revision of users and roles that was reached elsewhere.
    pub(crate) const fn auth_begins(&mut self, revision: u64) {
        self.auth = revision.saturating_sub(1) << 1 | self.auth & 1;
    }

    /// Counts a change to users or roles.
    pub(crate) const fn auth_changed(&mut self) {
        self.auth += 2;
    }

    /// Whether compaction still has entries to look at; also entries of the compacted revision itself, once it began with those.
    pub(crate) fn is_sweeping(&self) -> bool {
        self.swept.main < self.compacted || (self.swept.main == self.compacted && self.swept.sub > 0)
    }

    /// Notes whether alarms of a kind are set.
    pub(crate) const fn alarm(&mut self, kind: u64, is_set: bool) {
        self.alarms = self.alarms & !(1 << kind) | (is_set as u64) << kind;
    }

    pub(crate) const fn is_alarmed(&self, kind: u64) -> bool {
        self.alarms & 1 << kind != 0
    }

    pub(crate) const fn has_alarms(&self) -> bool {
        self.alarms != 0
    }
}

/// Names an entry: the revision, and the number of the change in that revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Revision {
    pub(crate) main: i64,
    pub(crate) sub: u32,
}

impl Revision {
    /// The key of the entry in the store. The first change of a revision has a shorter key, since most revisions have only one.
    pub(crate) fn key(self) -> RevisionKey {
        let mut bytes = [0; 13];
        bytes[0] = ENTRY;
        bytes[1..9].copy_from_slice(&self.main.to_be_bytes());
        bytes[9..].copy_from_slice(&self.sub.to_be_bytes());
        RevisionKey { bytes, len: if self.sub == 0 { 9 } else { 13 } }
    }

    pub(crate) fn of_key(key: &[u8]) -> Option<Self> {
        let main = i64::from_be_bytes(*key.get(1..)?.first_chunk()?);
        let sub = key.get(9..)?.first_chunk().map_or(0, |sub| u32::from_be_bytes(*sub));
        Some(Self { main, sub })
    }

    pub(crate) fn next(self) -> Self {
        Self { sub: self.sub + 1, ..self }
    }
}

/// The key of an entry in the store.
pub(crate) struct RevisionKey {
    bytes: [u8; 13],
    len: usize,
}

impl RevisionKey {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The numbers of a key that has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Head {
    pub(crate) at: Revision,
    pub(crate) create: i64,
    pub(crate) version: i64,
    pub(crate) lease: i64,
}

impl Head {
    pub(crate) fn decode(mut bytes: &[u8]) -> Self {
        let mut next = || proto::read_number(&mut bytes).unwrap_or(0);
        let at = Revision { main: next() as i64, sub: next() as u32 };
        Self { at, create: next() as i64, version: next() as i64, lease: next() as i64 }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        let numbers = [self.at.main, i64::from(self.at.sub), self.create, self.version];
        numbers.into_iter().for_each(|number| proto::number(out, number as u64));
        if self.lease != 0 {
            proto::number(out, self.lease as u64);
        }
    }
}

/// An entry: a flag, the revision of the key's entry before, and the `KeyValue` message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) deletes: bool,
    pub(crate) before: Option<Revision>,
    /// The message; the value stands at its end.
    pub(crate) message: &'a [u8],
}

impl<'a> Entry<'a> {
    pub(crate) fn decode(bytes: &'a [u8]) -> Self {
        let (flag, mut rest) = bytes.split_first().map_or((0, bytes), |(flag, rest)| (*flag, rest));
        let main = proto::read_number(&mut rest).unwrap_or(0) as i64;
        let before =
            (main != 0).then(|| Revision { main, sub: proto::read_number(&mut rest).unwrap_or(0) as u32 });
        Self { deletes: flag == 1, before, message: rest }
    }

    /// Begins an entry in the buffer; the message is appended behind it.
    pub(crate) fn begin(out: &mut Vec<u8>, deletes: bool, before: Option<Revision>) {
        out.clear();
        out.push(u8::from(deletes));
        let before = before.unwrap_or_default();
        proto::number(out, before.main as u64);
        if before.main != 0 {
            proto::number(out, u64::from(before.sub));
        }
    }

    pub(crate) fn key(&self) -> &'a [u8] {
        KeyValue::decode(self.message).key
    }
}

/// The parts of a `KeyValue` message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyValue<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) create: i64,
    pub(crate) version: i64,
    pub(crate) value: &'a [u8],
    /// The message up to where the value begins.
    pub(crate) without_value: &'a [u8],
}

impl<'a> KeyValue<'a> {
    pub(crate) fn decode(message: &'a [u8]) -> Self {
        let mut parts = Self { without_value: message, ..Self::default() };
        let mut fields = Fields::of(message);
        loop {
            let before = message.len() - fields.rest().len();
            match fields.next() {
                Some(Ok((1, Value::Bytes(key)))) => parts.key = key,
                Some(Ok((2, Value::Number(create)))) => parts.create = create as i64,
                Some(Ok((4, Value::Number(version)))) => parts.version = version as i64,
                Some(Ok((5, Value::Bytes(value)))) => {
                    parts.value = value;
                    parts.without_value = &message[..before];
                }
                Some(_) => {}
                None => return parts,
            }
        }
    }

    /// Appends a message with these parts; the value goes last.
    pub(crate) fn encode(out: &mut Vec<u8>, key: &[u8], head: &Head, value: &[u8]) {
        proto::bytes_field(out, 1, key);
        proto::int_field(out, 2, head.create);
        proto::int_field(out, 3, head.at.main);
        proto::int_field(out, 4, head.version);
        proto::int_field(out, 6, head.lease);
        proto::bytes_field(out, 5, value);
    }
}

/// The entry of a revision, unless it was removed.
pub(crate) fn entry_at(store: &Store, at: Revision) -> Option<Entry<'_>> {
    store.get(at.key().bytes()).map(Entry::decode)
}

/// The entry of a head.
pub(crate) fn entry_of<'a>(store: &'a Store, head: &Head) -> Entry<'a> {
    entry_at(store, head.at).expect("INV-ETCD-1: a head's entry exists")
}

/// Writes a key of the store into the buffer: the byte of its part, then the rest.
pub(crate) fn named<'a>(buffer: &'a mut Vec<u8>, part: u8, rest: &[u8]) -> &'a [u8] {
    buffer.clear();
    buffer.push(part);
    buffer.extend_from_slice(rest);
    buffer
}

/// The head of a key that has a value.
pub(crate) fn head(store: &Store, key: &[u8], buffer: &mut Vec<u8>) -> Option<Head> {
    store.get(named(buffer, HEAD, key)).map(Head::decode)
}

/// The bounds, in one part of the store, of the keys that a request asks for.
pub(crate) struct Bounds {
    pub(crate) start: Vec<u8>,
    pub(crate) end: Vec<u8>,
}

impl Bounds {
    /// `range_end` has etcd's meaning: if it is empty only the key itself, if it is a zero byte all keys from `key` on.
    pub(crate) fn new(part: u8, key: &[u8], range_end: &[u8]) -> Self {
        let mut bounds = Self { start: vec![part], end: vec![part] };
        bounds.start.extend_from_slice(key);
        match range_end {
            [] => {
                bounds.end.extend_from_slice(key);
                bounds.end.push(0);
            }
            [0] => bounds.end[0] += 1,
            end => bounds.end.extend_from_slice(end),
        }
        // A range that ends before it begins has nothing.
        if bounds.end < bounds.start {
            bounds.end.clone_from(&bounds.start);
        }
        bounds
    }

    pub(crate) fn entries<'a>(
        &'a self,
        store: &'a Store,
    ) -> impl DoubleEndedIterator<Item = (&'a [u8], &'a [u8])> {
        store.range(&self.start, Some(&self.end)).map(|(key, value)| (&key[1..], value))
    }
}

/// Stores what a member announced, in place of its earlier announcement.
pub(crate) fn announce(store: &mut Store, message: &[u8]) -> Result<(), EtcdError> {
    if message.len() > ANNOUNCEMENT_BYTES_MAX {
        return Err(EtcdError::RequestTooLarge);
    }
    let mut member = 0;
    for field in Fields::of(message) {
        match field? {
            (1, value) => member = value.int()?,
            (_, value) => drop(value.bytes()?),
        }
    }
    let mut key = [ANNOUNCED; 9];
    key[1..].copy_from_slice(&member.to_be_bytes());
    if message.len() > proto::number_len(member as u64) + 1 {
        store.put(&key, message);
    } else {
        // It listens no more.
        store.remove(&key);
    }
    Ok(())
}

/// Appends the announcements of all members.
pub(crate) fn announced(store: &Store, out: &mut Vec<u8>) {
    let all = store.range(&[ANNOUNCED], Some(&[ANNOUNCED + 1]));
    all.for_each(|(_, message)| proto::message_field(out, 1, message));
}

/// Panics when heads, deletions and entries do not fit each other.
pub(crate) fn invariants(store: &Store) {
    let everything = |part| Bounds::new(part, &[], &[0]);
    for (key, bytes) in everything(HEAD).entries(store) {
        let head = Head::decode(bytes);
        let entry = entry_of(store, &head);
        let parts = KeyValue::decode(entry.message);
        let same = (parts.key, parts.create, parts.version) == (key, head.create, head.version);
        assert!(same && !entry.deletes, "INV-ETCD-1: a head's entry exists and says the same");
    }
    for (key, bytes) in everything(GONE).entries(store) {
        let entry = entry_at(store, Head::decode(bytes).at);
        let fits = entry.is_some_and(|entry| entry.deletes && entry.key() == key);
        assert!(fits, "INV-ETCD-2: a deletion's entry exists while its `d` is there");
        assert!(head(store, key, &mut Vec::new()).is_none(), "INV-ETCD-2: a key with a value has no `d`");
    }
}
