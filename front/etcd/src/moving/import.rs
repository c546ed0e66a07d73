//! What an etcd saved, as a store of ours.
//!
//! Revisions, versions and leases of keys are taken over as they are. What etcd had scheduled to compact is compacted here at once. As after
//! any restart of etcd, a lease has all its time again, unless etcd noted how much is left (the feature `LeaseCheckpointPersist`).

use super::bolt::{Bolt, BoltError, Bucket, Source, Visit};
use super::{bcrypt, layout};
use crate::alarms;
use crate::auth::{Permission, ROOT, User, names, role, write_role};
use crate::compact;
use crate::error::EtcdError;
use crate::lease;
use crate::proto::{self, Fields, Malformed};
use crate::service::EtcdConfig;
use crate::space::{
    ENTRY, Entry, GONE, HEAD, Head, KeyValue, Meta, NAME_BYTES_MAX, Revision, entry_of, head, named,
};
use aws_lc_rs::digest::{Context, SHA256};
use quorate_execute::Store;
use quorate_types::AgreedTime;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;

/// The newest version of etcd whose files are known here.
const KNOWN: (u32, u32) = (3, 6);
/// How many names a note lists.
const NAMED_MAX: usize = 5;
/// Revisions and versions stay below this.
const FAR: i64 = 1 << 62;
/// The most bytes of a user or role: each is one object here.
const HELD_BYTES_MAX: usize = 1 << 20;
/// How much of a text of the file is shown.
const SHOWN_BYTES: usize = 100;
/// How much is hashed at once.
const PIECE: usize = 1 << 20;

/// Why nothing can be taken over.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file can not be opened.
    #[error("can not read it: {0}")]
    Read(#[from] io::Error),
    /// The database in it can not be read.
    #[error("{0}: save another one with `etcdctl snapshot save`")]
    Unreadable(#[from] BoltError),
    /// The length of the file is that of no database.
    #[error(
        "it has {0} bytes, which is no whole number of pages with or without a check sum: it is cut, or no file of etcd"
    )]
    Length(u64),
    /// The check sum is not that of the file.
    #[error("its SHA-256 is not the one with which it was saved: it is damaged, save another one")]
    Sum,
    /// It is a database of something else.
    #[error("there is no bucket \"key\" in it: it is no database of etcd 3")]
    NotEtcd,
    /// An entry makes no sense.
    #[error("an entry of the bucket {0:?} {1}: save another one with `etcdctl snapshot save`")]
    Unfit(&'static str, &'static str),
    /// An entry is larger than clients can read here.
    #[error(
        "the key {0} has an entry of {1} bytes at revision {2}, and {3} are the most here: make it smaller and compact before"
    )]
    TooLarge(String, usize, i64, usize),
    /// A key, or a name of a user or role, is longer than one can be here.
    #[error("the key or name {0}... has {1} bytes, and {2} are the most here: delete it and compact before")]
    LongName(String, usize, usize),
    /// Root could not log in.
    #[error(
        "authentication is on, and the password of root has a bcrypt cost above {0}, which takes too long here: start etcd with --bcrypt-cost 10 and run `etcdctl user passwd root`, or `etcdctl auth disable`, before"
    )]
    RootLockedOut(u32),
    /// Nobody could log in.
    #[error("authentication is on, and no user root has the role root: run `etcdctl auth disable` before")]
    NoRoot,
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Keys that have a value.
    pub keys: usize,
    /// Puts and deletes that can be read, the keys' last ones and earlier ones.
    pub entries: usize,
    /// Leases.
    pub leases: usize,
    /// Users.
    pub users: usize,
    /// Roles.
    pub roles: usize,
    /// The newest revision.
    pub revision: i64,
    /// The compacted revision; 0 if nothing was compacted.
    pub compacted: i64,
    /// Whether authentication is on.
    pub is_guarded: bool,
}

/// What an etcd had.
pub struct Imported {
    /// Everything but the leases, whose ends are not known before the cluster begins.
    store: Store,
    leases: BTreeMap<i64, Granted>,
    counts: Counts,
    /// What to know of it.
    pub notes: Vec<String>,
}

/// A lease.
#[derive(Clone, Copy, Debug)]
struct Granted {
    ttl: i64,
    left: i64,
}

impl fmt::Debug for Imported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Imported")
            .field("counts", &self.counts)
            .field("notes", &self.notes)
            .finish_non_exhaustive()
    }
}

impl Imported {
    /// How much there is.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// The state of a cluster whose time begins here.
    pub fn state(&self, begins: AgreedTime) -> Store {
        let mut store = Store::from_version(&self.store.version());
        for (id, granted) in &self.leases {
            lease::take_over(&mut store, *id, granted.ttl, granted.left, begins);
        }
        store
    }
}

/// Reads a file that `etcdctl snapshot save` wrote, or a copy of etcd's own database.
///
/// # Errors
/// When it can not be used, with what to do.
pub fn read(path: &Path) -> Result<Imported, ImportError> {
    // First, since opening a pipe would wait for a writer.
    if !std::fs::metadata(path)?.is_file() {
        let what = "name the file that `etcdctl snapshot save` wrote, or member/snap/db below the directory of an etcd that is stopped";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is no file: {what}")).into());
    }
    read_from(&File::open(path)?)
}

pub(super) fn read_from(source: &impl Source) -> Result<Imported, ImportError> {
    let mut notes = Vec::new();
    let len = database(source, &mut notes)?;
    let mut bolt = Bolt::open(source, len)?;
    let buckets = bolt.buckets()?;
    if !buckets.contains_key(layout::KEY.as_bytes()) {
        return Err(ImportError::NotEtcd);
    }
    notes.extend(unknown(&buckets));
    let mut import = Import { bolt, buckets, store: Store::new(), meta: Meta::default(), notes };
    let leases = import.leases()?;
    let counts = import.keys(&leases)?;
    import.roles()?;
    import.users()?;
    import.alarms()?;
    let Import { mut store, meta, notes, .. } = import;
    meta.write(&mut store, &mut Vec::new());
    let counts = Counts {
        keys: count(&store, HEAD),
        entries: counts,
        leases: leases.len(),
        users: names(&store, crate::auth::USER).count(),
        roles: names(&store, crate::auth::ROLE).count(),
        revision: meta.revision,
        compacted: meta.compacted,
        is_guarded: meta.is_guarded(),
    };
    Ok(Imported { store, leases, counts, notes })
}

fn count(store: &Store, part: u8) -> usize {
    store.range(&[part], Some(&[part + 1])).count()
}

/// The length of the database in the file. Compares the check sum, if there is one.
fn database(source: &impl Source, notes: &mut Vec<String>) -> Result<u64, ImportError> {
    let len = source.bytes()?;
    if len.is_multiple_of(layout::BLOCK) {
        notes.push(
            "the file has no SHA-256, as a copied database of etcd: it is not known whether it is whole, and what etcd wrote last may be missing"
                .to_owned(),
        );
        return Ok(len);
    }
    let sum_at = len.checked_sub(layout::SUM_BYTES).filter(|at| at.is_multiple_of(layout::BLOCK));
    let sum_at = sum_at.ok_or(ImportError::Length(len))?;
    let mut context = Context::new(&SHA256);
    let (mut at, mut piece) = (0, vec![0; PIECE]);
    while at < sum_at {
        let len = usize::try_from(sum_at - at).unwrap_or(PIECE).min(PIECE);
        source.read(at, &mut piece[..len])?;
        context.update(&piece[..len]);
        at += len as u64;
    }
    let mut sum = [0; layout::SUM_BYTES as usize];
    source.read(sum_at, &mut sum)?;
    if context.finish().as_ref() == sum { Ok(sum_at) } else { Err(ImportError::Sum) }
}

/// A note about buckets that no known version has.
fn unknown(buckets: &BTreeMap<Vec<u8>, Bucket>) -> Option<String> {
    use layout::{ALARM, AUTH, KEY, LEASE, META, ROLES, USERS};
    let known = [ALARM, AUTH, KEY, LEASE, META, ROLES, USERS].into_iter().chain(layout::MEMBERS);
    let known: Vec<&[u8]> = known.map(str::as_bytes).collect();
    let others: Vec<&Vec<u8>> = buckets.keys().filter(|name| !known.contains(&name.as_slice())).collect();
    let names = listed(others.iter().map(|name| name.as_slice()));
    (!others.is_empty())
        .then(|| format!("what the buckets {names} are for is not known here: they are left behind"))
}

/// Some of these names, for a note.
pub(super) fn listed<'a>(names: impl Iterator<Item = &'a [u8]>) -> String {
    let mut names: Vec<String> = names.map(shown).collect();
    let more = names.len().saturating_sub(NAMED_MAX);
    names.truncate(NAMED_MAX);
    let text = names.join(", ");
    if more > 0 { format!("{text} and {more} more") } else { text }
}

/// The file, and what was taken from it.
struct Import<'a, S> {
    bolt: Bolt<'a, S>,
    buckets: BTreeMap<Vec<u8>, Bucket>,
    store: Store,
    meta: Meta,
    notes: Vec<String>,
}

impl<S: Source> Import<'_, S> {
    /// Goes through a bucket, if it is there.
    fn each(
        bolt: &mut Bolt<'_, S>,
        buckets: &BTreeMap<Vec<u8>, Bucket>,
        name: &'static str,
        visit: Visit<'_, ImportError>,
    ) -> Result<(), ImportError> {
        buckets.get(name.as_bytes()).map_or(Ok(()), |bucket| bolt.each(bucket, visit))
    }

    fn leases(&mut self) -> Result<BTreeMap<i64, Granted>, ImportError> {
        let ttl_min = EtcdConfig::default().lease_ttl_min_s;
        let mut leases = BTreeMap::new();
        Self::each(&mut self.bolt, &self.buckets, layout::LEASE, &mut |key, value| {
            let unfit = || ImportError::Unfit(layout::LEASE, "is no lease");
            let id = key.try_into().map(i64::from_be_bytes).map_err(|_| unfit())?;
            let [said, ttl, left] = numbers(value).map_err(|Malformed| unfit())?;
            if said != id || id == 0 {
                return Err(unfit());
            }
            // A shorter one is made longer when etcd starts, too.
            let ttl = ttl.max(ttl_min);
            leases.insert(id, Granted { ttl, left: if left > 0 { left } else { ttl } });
            Ok(())
        })?;
        Ok(leases)
    }

    /// Takes over all entries, and compacts. Gives the number of entries that are left.
    fn keys(&mut self, leases: &BTreeMap<i64, Granted>) -> Result<usize, ImportError> {
        self.numbers()?;
        let Self { store, meta, .. } = self;
        let mut buffer = Vec::new();
        let most = EtcdConfig::default().request_bytes_max;
        let mut newest = meta.revision;
        let mut before = Revision::default();
        Self::each(&mut self.bolt, &self.buckets, layout::KEY, &mut |key, value| {
            let unfit = |what| ImportError::Unfit(layout::KEY, what);
            let (at, deletes) =
                layout::read_revision(key).filter(|(at, _)| at.main > 0).ok_or(unfit("has no revision"))?;
            is_far_from_the_end(at).map_err(unfit)?;
            // A put and a deletion have different revisions, although their entries have different keys.
            if at <= std::mem::replace(&mut before, at) {
                return Err(unfit("has the revision of another one"));
            }
            newest = newest.max(at.main);
            let found = Found::read(value).map_err(|Malformed| unfit("is no key with a value"))?;
            if found.key.is_empty() {
                // `etcdutl` puts such a one where it was told to raise the revision.
                return Ok(());
            }
            let bytes = found.key.len() + found.value.len();
            if bytes > most {
                return Err(ImportError::TooLarge(shown(found.key), bytes, at.main, most));
            }
            is_short(found.key)?;
            if deletes {
                delete(store, at, found.key, &mut buffer);
            } else if found.modified != at.main
                || found.create > at.main
                || found.create < 1
                || found.version < 1
                || found.version > FAR
            {
                return Err(unfit("has other revisions than its key says"));
            } else {
                let lease = if leases.contains_key(&found.lease) { found.lease } else { 0 };
                put(store, at, &found, lease, &mut buffer);
            }
            Ok(())
        })?;
        meta.revision = newest;
        meta.swept = Revision { main: 1, sub: 0 };
        while compact::sweep(store, meta, &mut buffer) {}
        let lost = lost(store);
        if lost > 0 {
            self.notes.push(format!("{lost} keys name a lease that is not there: they stay when it ends"));
        }
        Ok(count(store, ENTRY))
    }

    /// What the bucket `meta` says.
    fn numbers(&mut self) -> Result<(), ImportError> {
        let Self { meta, notes, .. } = self;
        Self::each(&mut self.bolt, &self.buckets, layout::META, &mut |key, value| {
            match key {
                layout::SCHEDULED | layout::FINISHED => {
                    let unfit = ImportError::Unfit(layout::META, "is no revision");
                    let (at, _) = layout::read_revision(value).filter(|(at, _)| at.main >= 0).ok_or(unfit)?;
                    is_far_from_the_end(at).map_err(|what| ImportError::Unfit(layout::META, what))?;
                    meta.compacted = meta.compacted.max(at.main);
                }
                layout::STORAGE_VERSION => notes.extend(newer(value)),
                _ => {}
            }
            Ok(())
        })?;
        // The newest entries may all be compacted deletions.
        meta.revision = meta.revision.max(meta.compacted);
        Ok(())
    }

    fn roles(&mut self) -> Result<(), ImportError> {
        let Self { store, .. } = self;
        Self::each(&mut self.bolt, &self.buckets, layout::ROLES, &mut |name, value| {
            let unfit = || ImportError::Unfit(layout::ROLES, "is no role");
            is_short(name)?;
            if value.len() > HELD_BYTES_MAX {
                return Err(ImportError::Unfit(layout::ROLES, "has more than a mebibyte of permissions"));
            }
            let mut permissions = Vec::new();
            for field in Fields::of(value) {
                if let (2, value) = field.map_err(|Malformed| unfit())? {
                    let message = value.bytes().map_err(|Malformed| unfit())?;
                    permissions.push(Permission::decode(message).map_err(|_: EtcdError| unfit())?);
                }
            }
            permissions.sort_by(|left, right| left.key.cmp(&right.key));
            write_role(store, name, &permissions);
            Ok(())
        })
    }

    fn users(&mut self) -> Result<(), ImportError> {
        let Self { store, meta, notes, .. } = self;
        let (mut missing, mut unusable) = (Vec::new(), Vec::new());
        Self::each(&mut self.bolt, &self.buckets, layout::USERS, &mut |name, value| {
            is_short(name)?;
            if value.len() > HELD_BYTES_MAX {
                return Err(ImportError::Unfit(layout::USERS, "has more than a mebibyte of roles"));
            }
            let mut user =
                user(value).map_err(|Malformed| ImportError::Unfit(layout::USERS, "is no user"))?;
            user.roles.sort();
            user.roles.dedup();
            let known = |name: &[u8]| name == ROOT || role(store, name).is_some();
            missing.extend(user.roles.iter().filter(|name| !known(name)).cloned());
            user.roles.retain(|name| known(name));
            if !user.no_password && bcrypt::is_hash(&user.password) && bcrypt::cost(&user.password).is_none()
            {
                unusable.push(name.to_vec());
            }
            user.write(store, name);
            Ok(())
        })?;
        if !missing.is_empty() {
            let names = listed(missing.iter().map(Vec::as_slice));
            notes.push(format!("users had roles that are not there, and have them no more: {names}"));
        }
        if !unusable.is_empty() {
            let names = listed(unusable.iter().map(Vec::as_slice));
            notes.push(format!(
                "the passwords of these users can not be compared here, for instance since their bcrypt cost is above {}: {names}. Set them anew",
                bcrypt::COST_MAX
            ));
        }
        Self::each(&mut self.bolt, &self.buckets, layout::AUTH, &mut |key, value| {
            match key {
                layout::AUTH_ENABLED => meta.guard(value == [1]),
                layout::AUTH_REVISION => {
                    let revision = value.try_into().map(u64::from_be_bytes);
                    let unfit = ImportError::Unfit(layout::AUTH, "is no revision");
                    meta.auth_begins(revision.ok().filter(|number| number >> 62 == 0).ok_or(unfit)?);
                }
                _ => {}
            }
            Ok(())
        })?;
        let root = User::read(store, ROOT).filter(|root| root.has(ROOT));
        match root {
            None if meta.is_guarded() => Err(ImportError::NoRoot),
            Some(_) if meta.is_guarded() && unusable.iter().any(|name| name == ROOT) => {
                Err(ImportError::RootLockedOut(bcrypt::COST_MAX))
            }
            _ => Ok(()),
        }
    }

    fn alarms(&mut self) -> Result<(), ImportError> {
        let Self { store, meta, notes, .. } = self;
        Self::each(&mut self.bolt, &self.buckets, layout::ALARM, &mut |key, _| {
            let unfit = |Malformed| ImportError::Unfit(layout::ALARM, "is no alarm");
            let [member, kind] = numbers(key).map_err(unfit)?;
            if kind == alarms::NOSPACE {
                notes.push("the alarm NOSPACE is left behind: etcd's quota does not hold here".to_owned());
                return Ok(());
            }
            let mut request = Vec::new();
            proto::int_field(&mut request, 1, alarms::ACTIVATE);
            proto::int_field(&mut request, 2, member);
            proto::int_field(&mut request, 3, kind);
            if kind == alarms::CORRUPT {
                notes.push(
                    "the alarm CORRUPT is set: nothing can be changed before `etcdctl alarm disarm`"
                        .to_owned(),
                );
            }
            let changed = alarms::change(store, meta, &request, &mut Vec::new());
            changed.map_err(|_: EtcdError| unfit(Malformed))
        })
    }
}

/// A text of the file as it may be shown: without control characters, and not without end.
fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(&name[..name.len().min(SHOWN_BYTES)]).escape_debug().to_string()
}

/// Whether a key, or a name of a user or role, can be one here.
fn is_short(name: &[u8]) -> Result<(), ImportError> {
    match name.len() {
        len if len > NAME_BYTES_MAX => Err(ImportError::LongName(shown(name), len, NAME_BYTES_MAX)),
        _ => Ok(()),
    }
}

/// No etcd comes that far. Behind it numbers would begin anew.
fn is_far_from_the_end(at: Revision) -> Result<(), &'static str> {
    if at.main >= FAR || at.sub > i32::MAX as u32 {
        Err("has a revision that no etcd reaches")
    } else {
        Ok(())
    }
}

/// A note about a version that is not known.
fn newer(value: &[u8]) -> Option<String> {
    let text = shown(value);
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    let version = (parts.next()?, parts.next().unwrap_or(0));
    (version > KNOWN).then(|| {
        format!(
            "it was written by etcd {text}, and {}.{} is the newest that is known here: compare the keys",
            KNOWN.0, KNOWN.1
        )
    })
}

/// An entry of the bucket `key`.
#[derive(Clone, Copy, Debug, Default)]
struct Found<'a> {
    key: &'a [u8],
    create: i64,
    modified: i64,
    version: i64,
    value: &'a [u8],
    lease: i64,
}

impl<'a> Found<'a> {
    fn read(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut found = Self::default();
        for field in Fields::of(message) {
            match field? {
                (1, value) => found.key = value.bytes()?,
                (2, value) => found.create = value.int()?,
                (3, value) => found.modified = value.int()?,
                (4, value) => found.version = value.int()?,
                (5, value) => found.value = value.bytes()?,
                (6, value) => found.lease = value.int()?,
                _ => {}
            }
        }
        Ok(found)
    }
}

/// Takes over a put. As `Writer::put`, with the numbers that etcd gave.
fn put(store: &mut Store, at: Revision, found: &Found<'_>, lease: i64, buffer: &mut Vec<u8>) {
    let old = head(store, found.key, buffer);
    let before = old.map(|old| old.at).or_else(|| gone(store, found.key, buffer));
    store.remove(named(buffer, GONE, found.key));
    let head = Head { at, create: found.create, version: found.version, lease };
    Entry::begin(buffer, false, before);
    // What was read of it stays so: the leases of earlier puts are often gone.
    KeyValue::encode(buffer, found.key, &Head { lease: found.lease, ..head }, found.value);
    store.put(at.key().bytes(), buffer);
    let mut bytes = Vec::new();
    head.encode(&mut bytes);
    store.put(named(buffer, HEAD, found.key), &bytes);
    let old = old.map_or(0, |old| old.lease);
    if old != lease {
        lease::detach(store, old, found.key, buffer);
        lease::attach(store, lease, found.key, buffer);
    }
}

/// How many keys with a value name a lease that is not there.
fn lost(store: &Store) -> usize {
    let heads = store.range(&[HEAD], Some(&[HEAD + 1])).map(|(_, bytes)| Head::decode(bytes));
    let named = |head: &Head| Found::read(entry_of(store, head).message).is_ok_and(|found| found.lease != 0);
    heads.filter(|head| head.lease == 0 && named(head)).count()
}

/// Takes over a delete.
fn delete(store: &mut Store, at: Revision, key: &[u8], buffer: &mut Vec<u8>) {
    let old = head(store, key, buffer);
    let before = old.map(|old| old.at).or_else(|| gone(store, key, buffer));
    let head = Head { at, ..Head::default() };
    Entry::begin(buffer, true, before);
    KeyValue::encode(buffer, key, &head, &[]);
    store.put(at.key().bytes(), buffer);
    let mut bytes = Vec::new();
    head.encode(&mut bytes);
    store.remove(named(buffer, HEAD, key));
    store.put(named(buffer, GONE, key), &bytes);
    lease::detach(store, old.map_or(0, |old| old.lease), key, buffer);
}

/// The deletion of a key without a value.
fn gone(store: &Store, key: &[u8], buffer: &mut Vec<u8>) -> Option<Revision> {
    store.get(named(buffer, GONE, key)).map(|bytes| Head::decode(bytes).at)
}

/// The numbers in the first fields of a message.
fn numbers<const N: usize>(message: &[u8]) -> Result<[i64; N], Malformed> {
    let mut numbers = [0; N];
    for field in Fields::of(message) {
        let (field, value) = field?;
        if let Some(number) = numbers.get_mut(field as usize - 1) {
            *number = value.int()?;
        }
    }
    Ok(numbers)
}

fn user(message: &[u8]) -> Result<User, Malformed> {
    let mut user = User::default();
    for field in Fields::of(message) {
        match field? {
            (2, value) => user.password = value.bytes()?.to_vec(),
            (3, value) => user.roles.push(value.bytes()?.to_vec()),
            (4, value) => user.no_password = numbers::<1>(value.bytes()?)? == [1],
            _ => {}
        }
    }
    Ok(user)
}
