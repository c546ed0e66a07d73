//! Users, roles and permissions. They are part of the store, so that every replica allows and refuses the same.
//!
//! A command or query may name the caller for whom it is sent ([`Who`]). While authentication is off, that is ignored. While it is on, the
//! caller is looked up here and every key of the request is checked, in the order of the log. So a right that is taken away is gone for
//! every command after that one, at every replica. The rules, errors and texts are etcd's, version 3.6. Passwords arrive as hashes and
//! tokens as digests, so neither can be read from the state.
//!
//! - `U` and a name: a user: its password's hash, its roles in order, and whether it has no password.
//! - `R` and a name: a role: its permissions, each a `Permission` message, in the order of their keys.
//! - `t` and a digest: a token: when it ends, and whose it is. `x`, a moment and a digest: the token ends at that moment.
//!
//! `guard.rs` checks requests, `manage.rs` changes users and roles, `token.rs` keeps tokens. Invariant: INV-ETCD-6.
//! Tests: `tests/all/auth.rs`, and beside a real etcd `front/cli/tests/all/etcd/auth.rs`.

pub(crate) mod guard;
pub(crate) mod manage;
pub(crate) mod token;

use crate::error::EtcdError;
use crate::proto::{self, Fields, Value};
use crate::space::{Meta, named};
use quorate_execute::Store;
use quorate_types::AgreedTime;

pub(crate) const USER: u8 = b'U';
pub(crate) const ROLE: u8 = b'R';
pub(crate) const TOKEN: u8 = b't';
pub(crate) const TOKEN_END: u8 = b'x';

/// The user that must be there, and the role that may do everything.
pub(crate) const ROOT: &[u8] = b"root";

/// The byte in front of commands and queries that name a caller.
const AS: u8 = 250;
const BY_TOKEN: u8 = 1;
const BY_NAME: u8 = 2;
const BY_SIGNED: u8 = 3;

/// Size of a token's digest.
pub const TOKEN_BYTES: usize = 16;

/// For whom a command or query is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who<'a> {
    /// No caller is named.
    Nobody,
    /// The user who was given the token with this digest.
    Token(&'a [u8]),
    /// The user of this name; the sender vouches for it.
    Named(&'a [u8]),
    /// The user of this name, as of this revision of users and roles. Counts for nothing at another revision.
    Signed(&'a [u8], u64),
}

impl<'a> Who<'a> {
    /// Appends the bytes that name the caller, which stand before the command or query.
    pub fn encode(self, out: &mut Vec<u8>) {
        let (kind, text) = match self {
            Self::Nobody => return,
            Self::Token(digest) => (BY_TOKEN, digest),
            Self::Named(name) => (BY_NAME, name),
            Self::Signed(name, _) => (BY_SIGNED, name),
        };
        out.extend_from_slice(&[AS, kind]);
        proto::string(out, text);
        if let Self::Signed(_, revision) = self {
            proto::number(out, revision);
        }
    }

    /// Splits off the caller; gives it, and the command or query.
    pub(crate) fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let [AS, kind, rest @ ..] = bytes else { return Some((Self::Nobody, bytes)) };
        let mut rest = rest;
        let text = proto::read_string(&mut rest)?;
        match *kind {
            BY_TOKEN => Some((Self::Token(text), rest)),
            BY_NAME => Some((Self::Named(text), rest)),
            BY_SIGNED => {
                let revision = proto::read_number(&mut rest)?;
                Some((Self::Signed(text, revision), rest))
            }
            _ => None,
        }
    }
}

/// A user, as it lies in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) password: Vec<u8>,
    /// In order, none twice.
    pub(crate) roles: Vec<Vec<u8>>,
    pub(crate) no_password: bool,
}

impl User {
    pub(crate) fn read(store: &Store, name: &[u8]) -> Option<Self> {
        store.get(named(&mut Vec::new(), USER, name)).map(Self::decode)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let mut user = Self::default();
        for field in Fields::of(bytes) {
            match field {
                Ok((1, Value::Bytes(hash))) => user.password = hash.to_vec(),
                Ok((2, Value::Bytes(role))) => user.roles.push(role.to_vec()),
                Ok((3, Value::Number(flag))) => user.no_password = flag == 1,
                _ => {}
            }
        }
        user
    }

    pub(crate) fn write(&self, store: &mut Store, name: &[u8]) {
        let mut bytes = Vec::new();
        proto::bytes_field(&mut bytes, 1, &self.password);
        self.roles.iter().for_each(|role| proto::message_field(&mut bytes, 2, role));
        proto::flag_field(&mut bytes, 3, self.no_password);
        store.put(named(&mut Vec::new(), USER, name), &bytes);
    }

    pub(crate) fn has(&self, role: &[u8]) -> bool {
        self.roles.iter().any(|own| own == role)
    }
}

/// A permission of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Permission {
    /// What it permits, with etcd's numbers: 0 to read, 1 to write, 2 both.
    pub(crate) kind: i64,
    pub(crate) key: Vec<u8>,
    pub(crate) range_end: Vec<u8>,
}

impl Permission {
    pub(crate) fn decode(message: &[u8]) -> Result<Self, EtcdError> {
        let mut permission = Self { kind: 0, key: vec![], range_end: vec![] };
        for field in Fields::of(message) {
            match field? {
                (1, value) => permission.kind = value.int()?,
                (2, value) => permission.key = value.bytes()?.to_vec(),
                (3, value) => permission.range_end = value.bytes()?.to_vec(),
                _ => {}
            }
        }
        Ok(permission)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        proto::int_field(out, 1, self.kind);
        proto::bytes_field(out, 2, &self.key);
        proto::bytes_field(out, 3, &self.range_end);
    }

    const fn reads(&self) -> bool {
        matches!(self.kind, 0 | 2)
    }

    const fn writes(&self) -> bool {
        matches!(self.kind, 1 | 2)
    }
}

/// The permissions of a role, if it exists.
pub(crate) fn role(store: &Store, name: &[u8]) -> Option<Vec<Permission>> {
    let bytes = store.get(named(&mut Vec::new(), ROLE, name))?;
    let permissions = Fields::of(bytes).filter_map(|field| match field {
        Ok((1, Value::Bytes(message))) => Permission::decode(message).ok(),
        _ => None,
    });
    Some(permissions.collect())
}

pub(crate) fn write_role(store: &mut Store, name: &[u8], permissions: &[Permission]) {
    let mut bytes = Vec::new();
    for permission in permissions {
        proto::nested_field(&mut bytes, 1, |out| permission.encode(out));
    }
    store.put(named(&mut Vec::new(), ROLE, name), &bytes);
}

/// The names in one part of the store, in order, each with its value.
pub(crate) fn names(store: &Store, part: u8) -> impl Iterator<Item = (&[u8], &[u8])> {
    let (start, end): (&[u8], &[u8]) = match part {
        USER => (&[USER], &[USER + 1]),
        ROLE => (&[ROLE], &[ROLE + 1]),
        TOKEN => (&[TOKEN], &[TOKEN + 1]),
        _ => (&[TOKEN_END], &[TOKEN_END + 1]),
    };
    store.range(start, Some(end)).map(|(key, value)| (&key[1..], value))
}

/// The caller of a command or query, as the store knows it.
pub(crate) enum Caller {
    /// Authentication is off: everybody may do everything.
    Anybody,
    /// Authentication is on, and no caller is named.
    Nobody,
    /// Authentication is on, and the token is unknown, has ended, or is of another revision.
    Unknown,
    /// The user of this name; `None` if there is none.
    Named(Vec<u8>, Option<User>),
}

impl Caller {
    /// Looks up the caller.
    pub(crate) fn find(store: &Store, meta: &Meta, who: Who<'_>, now: AgreedTime) -> Self {
        if !meta.is_guarded() {
            return Self::Anybody;
        }
        let name = match who {
            Who::Nobody => return Self::Nobody,
            Who::Token(digest) => match token::holder(store, digest, now) {
                Some(name) => name,
                None => return Self::Unknown,
            },
            Who::Named(name) => name,
            Who::Signed(name, revision) if revision == meta.auth_revision() => name,
            Who::Signed(..) => return Self::Unknown,
        };
        Self::Named(name.to_vec(), User::read(store, name))
    }

    pub(crate) fn is_anybody(&self) -> bool {
        matches!(self, Self::Anybody)
    }

    /// An error unless the caller is named.
    pub(crate) fn is_named(&self) -> Result<(), EtcdError> {
        match self {
            Self::Nobody => Err(EtcdError::UserEmpty),
            Self::Unknown => Err(EtcdError::InvalidAuthToken),
            Self::Anybody | Self::Named(..) => Ok(()),
        }
    }

    /// An error unless the caller may do everything.
    pub(crate) fn is_root(&self) -> Result<(), EtcdError> {
        match self {
            Self::Anybody => Ok(()),
            Self::Nobody => Err(EtcdError::UserEmpty),
            Self::Unknown => Err(EtcdError::InvalidAuthToken),
            Self::Named(name, _) if name.is_empty() => Err(EtcdError::UserEmpty),
            Self::Named(_, None) => Err(EtcdError::UserNotFound),
            Self::Named(_, Some(user)) if user.has(ROOT) => Ok(()),
            Self::Named(..) => Err(EtcdError::PermissionDenied),
        }
    }

    /// Whether the caller has this name. A caller that is not named has the empty name, as in etcd.
    pub(crate) fn is_called(&self, wanted: &[u8]) -> bool {
        match self {
            Self::Named(name, _) => name == wanted,
            Self::Nobody => wanted.is_empty(),
            Self::Anybody | Self::Unknown => false,
        }
    }

    pub(crate) fn has_role(&self, wanted: &[u8]) -> bool {
        matches!(self, Self::Named(_, Some(user)) if user.has(wanted))
    }
}

/// Panics when tokens and their ends, users, and the state of authentication do not fit each other.
pub(crate) fn invariants(store: &Store, meta: &Meta) {
    let ends = names(store, TOKEN_END).count();
    assert_eq!(names(store, TOKEN).count(), ends, "INV-ETCD-6: each token ends once");
    for (name, _) in names(store, TOKEN_END) {
        assert!(token::ends_then(store, name), "INV-ETCD-6: what ends is a token, and ends then");
    }
    for (_, bytes) in names(store, USER) {
        let roles = User::decode(bytes).roles;
        assert!(
            roles.is_sorted() && roles.windows(2).all(|two| two[0] != two[1]),
            "INV-ETCD-6: roles are in order"
        );
        let exist = roles.iter().all(|name| name == ROOT || role(store, name).is_some());
        assert!(exist, "INV-ETCD-6: the roles of users exist");
    }
    if meta.is_guarded() {
        let root = User::read(store, ROOT);
        assert!(
            root.is_some_and(|root| root.has(ROOT)),
            "INV-ETCD-6: root can not be lost while authentication is on"
        );
    }
}
