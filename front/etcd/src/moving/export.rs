//! A store of ours as a file that etcd's programs take: `etcdutl snapshot restore` makes the directory of an etcd from it.
//!
//! It is written from front to back, so that it needs little memory. What etcd would compact is left out, and what restoring an etcd makes
//! anew is empty: members, the cluster's version, and how far a log was applied. No `storageVersion` is written, so that etcd 3.5 takes it,
//! too; etcd 3.6 adds it. How much time a lease has left is not written either: an etcd that keeps no such notes would take it for all the
//! time that the lease gets from then on.

use super::bolt::Writer;
use super::import::{Counts, listed};
use super::{bcrypt, layout};
use crate::alarms;
use crate::auth::{Permission, ROLE, ROOT, TOKEN, TOKEN_END, USER, User, names, role};
use crate::compact;
use crate::lease;
use crate::proto::{self, Fields};
use crate::space::{
    ANNOUNCED, ATTACHED, ENDING, ENTRY, Entry, GONE, HEAD, KeyValue, LEASE, META, Meta, Revision,
};
use aws_lc_rs::digest::{Context, SHA256};
use aws_lc_rs::rand;
use quorate_execute::{Store, Version};
use std::collections::BTreeMap;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};

/// How much is written or hashed at once.
const PIECE: usize = 1 << 20;

/// Why no file can be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The operating system refuses, or etcd's file does not take something.
    #[error("can not write it: {0}")]
    Write(#[from] io::Error),
    /// The state is that of another service.
    #[error("what is in it is not the state of the service \"etcd\"")]
    NotEtcd,
    /// There is no user of that name.
    #[error("a password is given for {0:?}, and there is no such user, or it is one without a password")]
    NoUser(String),
    /// Nobody could log in.
    #[error(
        "authentication is on, and etcd could compare the password of no user with the role root, since it was set here: give a new one of such a user"
    )]
    NoRoot,
}

/// What was written.
#[derive(Clone, Debug)]
pub struct Exported {
    /// How much there is.
    pub counts: Counts,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// What to know of it.
    pub notes: Vec<String>,
}

/// Writes the file. `passwords` are new ones, of users by name.
///
/// # Errors
/// When the operating system refuses, or this state makes no etcd, with what to do.
pub fn write(
    mut file: impl Read + Write + Seek,
    objects: &Version,
    passwords: &BTreeMap<Vec<u8>, Vec<u8>>,
) -> Result<Exported, ExportError> {
    let mut store = Store::from_version(objects);
    if !is_ours(&store) {
        return Err(ExportError::NotEtcd);
    }
    let mut meta = Meta::read(&store);
    while compact::sweep(&mut store, &mut meta, &mut Vec::new()) {}
    let users = Users::of(&store, &meta, passwords)?;
    let (counts, end) = database(&mut file, &store, meta, &users)?;
    seal(&mut file, end)?;
    Ok(Exported { counts, bytes: end + layout::SUM_BYTES, notes: users.notes })
}

/// Writes the database. Gives its length.
fn database(
    file: &mut (impl Write + Seek),
    store: &Store,
    meta: Meta,
    users: &Users,
) -> io::Result<(Counts, u64)> {
    let counts = Counts {
        revision: meta.revision,
        compacted: meta.compacted,
        is_guarded: meta.is_guarded(),
        keys: store.range(&[HEAD], Some(&[HEAD + 1])).count(),
        ..Counts::default()
    };
    let to = Writer::new(BufWriter::with_capacity(PIECE, file))?;
    let mut export = Export { to, store, meta, counts };
    export.keys()?;
    export.leases()?;
    export.numbers()?;
    export.alarms()?;
    export.users(users)?;
    export.roles()?;
    let Export { to, counts, .. } = export;
    Ok((counts, to.finish()?.stream_position()?))
}

/// Appends the SHA-256 of all before, which ends here.
fn seal(file: &mut (impl Read + Write + Seek), end: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    let mut context = Context::new(&SHA256);
    let (mut left, mut piece) = (end, vec![0; PIECE]);
    while left > 0 {
        let len = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        file.read_exact(&mut piece[..len])?;
        context.update(&piece[..len]);
        left -= len as u64;
    }
    file.seek(SeekFrom::Start(end))?;
    file.write_all(context.finish().as_ref())?;
    file.flush()
}

/// Whether all objects are such as this service has.
fn is_ours(store: &Store) -> bool {
    const PARTS: [u8; 13] = [
        META,
        HEAD,
        GONE,
        ENTRY,
        LEASE,
        ATTACHED,
        ENDING,
        ANNOUNCED,
        USER,
        ROLE,
        TOKEN,
        TOKEN_END,
        alarms::ALARM,
    ];
    store.range(&[], None).all(|(key, value)| match key.first() {
        Some(&META) => key.len() == 1 && Meta::decode(value).is_some(),
        Some(&ENTRY) => {
            let message = Entry::decode(value).message;
            matches!(key.len(), 9 | 13) && Fields::of(message).all(|field| field.is_ok())
        }
        Some(part) => PARTS.contains(part),
        None => false,
    })
}

/// The users with their passwords as etcd compares them.
struct Users {
    users: BTreeMap<Vec<u8>, User>,
    notes: Vec<String>,
}

impl Users {
    fn of(store: &Store, meta: &Meta, passwords: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<Self, ExportError> {
        let mut users: BTreeMap<Vec<u8>, User> =
            names(store, USER).map(|(name, bytes)| (name.to_vec(), User::decode(bytes))).collect();
        for (name, password) in passwords {
            let user = users.get_mut(name).filter(|user| !user.no_password);
            let unknown = || ExportError::NoUser(String::from_utf8_lossy(name).into_owned());
            let mut salt = [0; bcrypt::SALT_BYTES];
            rand::fill(&mut salt).map_err(|_| io::Error::other("the system gives no random numbers"))?;
            user.ok_or_else(unknown)?.password = bcrypt::hash(password, &salt, bcrypt::COST);
        }
        let can_enter = |user: &User| user.no_password || bcrypt::is_hash(&user.password);
        if meta.is_guarded() && !users.values().any(|user| user.has(ROOT) && can_enter(user)) {
            return Err(ExportError::NoRoot);
        }
        let mut out =
            users.iter().filter(|(_, user)| !can_enter(user)).map(|(name, _)| name.as_slice()).peekable();
        let mut notes = Vec::new();
        if out.peek().is_some() {
            notes.push(format!(
                "etcd can not compare the passwords of these users, which were set here: {}. Give new ones, now or with `etcdctl user passwd`",
                listed(out)
            ));
        }
        Ok(Self { users, notes })
    }
}

/// The file that is being written.
struct Export<'a, W> {
    to: Writer<W>,
    store: &'a Store,
    meta: Meta,
    counts: Counts,
}

impl<W: Write + Seek> Export<'_, W> {
    fn keys(&mut self) -> io::Result<()> {
        let mut bucket = self.to.bucket();
        let mut message = Vec::new();
        for (key, bytes) in self.store.range(&[ENTRY], Some(&[ENTRY + 1])) {
            let at = Revision::of_key(key).unwrap_or_default();
            let entry = Entry::decode(bytes);
            message.clear();
            if entry.deletes {
                proto::bytes_field(&mut message, 1, entry.key());
            } else {
                in_order(&mut message, entry.message);
            }
            bucket.put(&layout::revision(at, entry.deletes), &message)?;
            self.counts.entries += 1;
        }
        bucket.end(layout::KEY)
    }

    fn leases(&mut self) -> io::Result<()> {
        // In the order of their bytes.
        let mut bucket = self.to.bucket();
        for (id, ttl) in lease::all(self.store) {
            let mut message = Vec::new();
            proto::int_field(&mut message, 1, id);
            proto::int_field(&mut message, 2, ttl);
            bucket.put(&id.to_be_bytes(), &message)?;
            self.counts.leases += 1;
        }
        bucket.end(layout::LEASE)
    }

    fn numbers(&mut self) -> io::Result<()> {
        let one = 1_u64.to_be_bytes();
        let mut bucket = self.to.bucket();
        bucket.put(layout::INDEX, &one)?;
        if self.meta.compacted > 0 {
            let at = Revision { main: self.meta.compacted, sub: 0 };
            bucket.put(layout::FINISHED, &layout::revision(at, false))?;
            bucket.put(layout::SCHEDULED, &layout::revision(at, false))?;
        }
        bucket.put(layout::TERM, &one)?;
        bucket.end(layout::META)?;
        for name in layout::MEMBERS {
            self.to.bucket().end(name)?;
        }
        Ok(())
    }

    fn alarms(&mut self) -> io::Result<()> {
        let mut alarms = Vec::new();
        // There is room for all of them.
        let _ = alarms::list(self.store, usize::MAX, &mut alarms);
        let fields = Fields::of(&alarms).filter_map(Result::ok);
        let mut set: Vec<&[u8]> = fields.filter_map(|(_, alarm)| alarm.bytes().ok()).collect();
        set.retain(|alarm| !alarms::is_of_space(alarm));
        set.sort_unstable();
        let mut bucket = self.to.bucket();
        for alarm in set {
            bucket.put(alarm, &[])?;
        }
        bucket.end(layout::ALARM)
    }

    fn users(&mut self, users: &Users) -> io::Result<()> {
        let mut bucket = self.to.bucket();
        bucket.put(layout::AUTH_ENABLED, &[u8::from(self.meta.is_guarded())])?;
        bucket.put(layout::AUTH_REVISION, &self.meta.auth_revision().to_be_bytes())?;
        bucket.end(layout::AUTH)?;
        let mut bucket = self.to.bucket();
        for (name, user) in &users.users {
            let mut message = Vec::new();
            proto::bytes_field(&mut message, 1, name);
            proto::bytes_field(&mut message, 2, &user.password);
            user.roles.iter().for_each(|role| proto::message_field(&mut message, 3, role));
            proto::nested_field(&mut message, 4, |out| proto::flag_field(out, 1, user.no_password));
            bucket.put(name, &message)?;
            self.counts.users += 1;
        }
        bucket.end(layout::USERS)
    }

    fn roles(&mut self) -> io::Result<()> {
        let mut bucket = self.to.bucket();
        for (name, _) in names(self.store, ROLE) {
            let permissions: Vec<Permission> = role(self.store, name).unwrap_or_default();
            let mut message = Vec::new();
            proto::bytes_field(&mut message, 1, name);
            for permission in &permissions {
                proto::nested_field(&mut message, 2, |out| permission.encode(out));
            }
            bucket.put(name, &message)?;
            self.counts.roles += 1;
        }
        bucket.end(layout::ROLES)
    }
}

/// Appends a `KeyValue` with its fields in etcd's order: ours has the value at its end.
fn in_order(out: &mut Vec<u8>, message: &[u8]) {
    let value = KeyValue::decode(message).value;
    let (mut before, mut lease) = (Vec::new(), 0);
    for (field, part) in Fields::of(message).filter_map(Result::ok) {
        match (field, part) {
            (1, proto::Value::Bytes(key)) => proto::bytes_field(&mut before, 1, key),
            (2..=4, proto::Value::Number(number)) => proto::int_field(&mut before, field, number as i64),
            (6, proto::Value::Number(number)) => lease = number as i64,
            _ => {}
        }
    }
    out.extend_from_slice(&before);
    proto::bytes_field(out, 5, value);
    proto::int_field(out, 6, lease);
}
