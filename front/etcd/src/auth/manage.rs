//! Commands and queries about users and roles. All are for root alone, except for those with which users ask about themselves.

use crate::auth::token;
use crate::auth::{Caller, Permission, ROLE, ROOT, TOKEN_BYTES, USER, User, names, role, write_role};
use crate::error::EtcdError;
use crate::proto::{self, Fields, Value};
use crate::service::Command;
use crate::space::{Meta, NAME_BYTES_MAX, named};
use quorate_execute::Store;
use quorate_types::AgreedTime;

/// The fields of the requests here: strings in fields 1 and 2, a message or a string in field 3.
#[derive(Clone, Copy, Default)]
struct Texts<'a> {
    first: &'a [u8],
    second: &'a [u8],
    third: &'a [u8],
    /// The number in field 2, in place of a string.
    number: u64,
    /// Whether there is a field 2.
    has_second: bool,
    /// The string in field 4.
    fourth: &'a [u8],
}

impl<'a> Texts<'a> {
    fn of(message: &'a [u8]) -> Result<Self, EtcdError> {
        let mut texts = Self::default();
        for field in Fields::of(message) {
            match field? {
                (1, value) => texts.first = value.bytes()?,
                (2, Value::Number(number)) => texts.number = number,
                (2, value) => (texts.second, texts.has_second) = (value.bytes()?, true),
                (3, value) => texts.third = value.bytes()?,
                (4, value) => texts.fourth = value.bytes()?,
                _ => {}
            }
        }
        Ok(texts)
    }
}

/// Runs one of the commands; their responses have no fields.
pub(crate) fn run(
    store: &mut Store,
    meta: &mut Meta,
    caller: &Caller,
    command: Command,
    message: &[u8],
    now: AgreedTime,
) -> Result<(), EtcdError> {
    if command != Command::Authenticate {
        caller.is_root()?;
    }
    let texts = Texts::of(message)?;
    match command {
        Command::AuthEnable => enable(store, meta),
        Command::AuthDisable => {
            if meta.is_guarded() {
                token::end_all(store, None);
                meta.guard(false);
                meta.auth_changed();
            }
            Ok(())
        }
        Command::Authenticate => authenticate(store, meta, &texts, now),
        Command::UserAdd => user_add(store, meta, &texts),
        Command::UserDelete => user_delete(store, meta, texts.first),
        Command::UserChangePassword => {
            let mut user = User::read(store, texts.first).ok_or(EtcdError::UserNotFound)?;
            user.password = if user.no_password { vec![] } else { texts.third.to_vec() };
            user.write(store, texts.first);
            token::end_all(store, Some(texts.first));
            meta.auth_changed();
            Ok(())
        }
        Command::UserGrantRole => user_grant(store, meta, texts.first, texts.second),
        Command::UserRevokeRole => user_revoke(store, meta, texts.first, texts.second),
        Command::RoleAdd => role_add(store, meta, texts.first),
        Command::RoleDelete => role_delete(store, meta, texts.first),
        Command::RoleGrantPermission => role_grant(store, meta, &texts),
        Command::RoleRevokePermission => role_revoke(store, meta, &texts),
        _ => Err(EtcdError::Malformed),
    }
}

fn enable(store: &Store, meta: &mut Meta) -> Result<(), EtcdError> {
    if meta.is_guarded() {
        return Ok(());
    }
    let root = User::read(store, ROOT).ok_or(EtcdError::RootUserNotExist)?;
    if !root.has(ROOT) {
        return Err(EtcdError::RootRoleNotExist);
    }
    meta.guard(true);
    Ok(())
}

/// Gives a user a token. The sender compared the password, with the users as of a revision; that counts only if users and roles did not
/// change since.
fn authenticate(store: &mut Store, meta: &Meta, texts: &Texts<'_>, now: AgreedTime) -> Result<(), EtcdError> {
    if !meta.is_guarded() {
        return Err(EtcdError::AuthNotEnabled);
    }
    let digest: &[u8; TOKEN_BYTES] = texts.third.try_into().map_err(|_| EtcdError::Malformed)?;
    let user = User::read(store, texts.first).ok_or(EtcdError::AuthFailed)?;
    if user.no_password {
        return Err(EtcdError::AuthFailed);
    }
    if texts.number != meta.auth_revision() {
        return Err(EtcdError::AuthOldRevision);
    }
    token::give(store, digest, texts.first, now);
    Ok(())
}

/// The most bytes of names that a user or a role holds: each is one object of the store.
const HELD_BYTES_MAX: usize = 1 << 20;

fn is_short(name: &[u8]) -> Result<(), EtcdError> {
    if name.len() > NAME_BYTES_MAX { Err(EtcdError::RequestTooLarge) } else { Ok(()) }
}

/// Whether a user or role may hold names of these lengths.
fn fits(lengths: impl Iterator<Item = usize>) -> Result<(), EtcdError> {
    const EACH: usize = 16;
    let all: usize = lengths.map(|length| length + EACH).sum();
    if all > HELD_BYTES_MAX { Err(EtcdError::RequestTooLarge) } else { Ok(()) }
}

/// Adds a user. The hash of the password is in field 4, as in etcd's own log; field 2 is ignored.
fn user_add(store: &mut Store, meta: &mut Meta, texts: &Texts<'_>) -> Result<(), EtcdError> {
    if texts.first.is_empty() {
        return Err(EtcdError::UserEmpty);
    }
    is_short(texts.first)?;
    if User::read(store, texts.first).is_some() {
        return Err(EtcdError::UserAlreadyExist);
    }
    let mut no_password = false;
    for field in Fields::of(texts.third) {
        if let (1, value) = field? {
            no_password = value.flag()?;
        }
    }
    let password = if no_password { vec![] } else { texts.fourth.to_vec() };
    User { password, roles: vec![], no_password }.write(store, texts.first);
    meta.auth_changed();
    Ok(())
}

fn user_delete(store: &mut Store, meta: &mut Meta, name: &[u8]) -> Result<(), EtcdError> {
    if meta.is_guarded() && name == ROOT {
        return Err(EtcdError::InvalidAuthMgmt);
    }
    User::read(store, name).ok_or(EtcdError::UserNotFound)?;
    store.remove(named(&mut Vec::new(), USER, name));
    token::end_all(store, Some(name));
    meta.auth_changed();
    Ok(())
}

fn user_grant(store: &mut Store, meta: &mut Meta, name: &[u8], granted: &[u8]) -> Result<(), EtcdError> {
    let mut user = User::read(store, name).ok_or(EtcdError::UserNotFound)?;
    if granted != ROOT && role(store, granted).is_none() {
        return Err(EtcdError::RoleNotFound);
    }
    if let Err(at) = user.roles.binary_search_by(|own| own.as_slice().cmp(granted)) {
        user.roles.insert(at, granted.to_vec());
        fits(user.roles.iter().map(Vec::len))?;
        user.write(store, name);
        meta.auth_changed();
    }
    Ok(())
}

fn user_revoke(store: &mut Store, meta: &mut Meta, name: &[u8], revoked: &[u8]) -> Result<(), EtcdError> {
    if meta.is_guarded() && name == ROOT && revoked == ROOT {
        return Err(EtcdError::InvalidAuthMgmt);
    }
    let mut user = User::read(store, name).ok_or(EtcdError::UserNotFound)?;
    if !user.has(revoked) {
        return Err(EtcdError::RoleNotGranted);
    }
    user.roles.retain(|own| own != revoked);
    user.write(store, name);
    meta.auth_changed();
    Ok(())
}

fn role_add(store: &mut Store, meta: &mut Meta, name: &[u8]) -> Result<(), EtcdError> {
    if name.is_empty() {
        return Err(EtcdError::RoleEmpty);
    }
    is_short(name)?;
    if role(store, name).is_some() {
        return Err(EtcdError::RoleAlreadyExist);
    }
    write_role(store, name, &[]);
    meta.auth_changed();
    Ok(())
}

fn role_delete(store: &mut Store, meta: &mut Meta, name: &[u8]) -> Result<(), EtcdError> {
    if meta.is_guarded() && name == ROOT {
        return Err(EtcdError::InvalidAuthMgmt);
    }
    role(store, name).ok_or(EtcdError::RoleNotFound)?;
    store.remove(named(&mut Vec::new(), ROLE, name));
    let holders = names(store, USER).map(|(holder, bytes)| (holder.to_vec(), User::decode(bytes)));
    let holders: Vec<(Vec<u8>, User)> = holders.filter(|(_, user)| user.has(name)).collect();
    for (holder, mut user) in holders {
        user.roles.retain(|own| own != name);
        user.write(store, &holder);
    }
    meta.auth_changed();
    Ok(())
}

fn role_grant(store: &mut Store, meta: &mut Meta, texts: &Texts<'_>) -> Result<(), EtcdError> {
    if !texts.has_second {
        return Err(EtcdError::PermissionNotGiven);
    }
    let granted = Permission::decode(texts.second)?;
    let is_range = match granted.range_end.as_slice() {
        [] | [0] => true,
        end => granted.key.as_slice() < end,
    };
    if granted.key.is_empty() || !is_range {
        return Err(EtcdError::InvalidAuthMgmt);
    }
    let mut permissions = role(store, texts.first).ok_or(EtcdError::RoleNotFound)?;
    let is_same = |own: &&mut Permission| own.key == granted.key && own.range_end == granted.range_end;
    match permissions.iter_mut().find(is_same) {
        Some(own) => own.kind = granted.kind,
        None => {
            let at = permissions.partition_point(|own| own.key <= granted.key);
            permissions.insert(at, granted);
        }
    }
    fits(permissions.iter().map(|own| own.key.len() + own.range_end.len()))?;
    write_role(store, texts.first, &permissions);
    meta.auth_changed();
    Ok(())
}

fn role_revoke(store: &mut Store, meta: &mut Meta, texts: &Texts<'_>) -> Result<(), EtcdError> {
    let mut permissions = role(store, texts.first).ok_or(EtcdError::RoleNotFound)?;
    let before = permissions.len();
    permissions.retain(|own| own.key != texts.second || own.range_end != texts.third);
    if permissions.len() == before {
        return Err(EtcdError::PermissionNotGranted);
    }
    write_role(store, texts.first, &permissions);
    meta.auth_changed();
    Ok(())
}

/// A query about users and roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthQuery<'a> {
    /// `AuthStatusRequest`.
    Status,
    /// `AuthUserGetRequest`.
    UserGet(&'a [u8]),
    /// `AuthUserListRequest`.
    UserList,
    /// `AuthRoleGetRequest`.
    RoleGet(&'a [u8]),
    /// `AuthRoleListRequest`.
    RoleList,
    /// The revision of users and roles, then the hash of the password of the user with this name. For the server that compares a password.
    Password(&'a [u8]),
    /// Whether the caller is named.
    IsNamed,
    /// Whether the caller may do everything.
    IsRoot,
    /// Whether the caller may read this range: a string with the key, a string with the range end.
    MayRead(&'a [u8]),
}

impl<'a> AuthQuery<'a> {
    const FIRST: u8 = 201;

    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        let (kind, message): (u8, &[u8]) = match self {
            Self::Status => (0, &[]),
            Self::UserGet(message) => (1, message),
            Self::UserList => (2, &[]),
            Self::RoleGet(message) => (3, message),
            Self::RoleList => (4, &[]),
            Self::Password(name) => (5, name),
            Self::IsNamed => (6, &[]),
            Self::IsRoot => (7, &[]),
            Self::MayRead(range) => (8, range),
        };
        out.push(Self::FIRST + kind);
        out.extend_from_slice(message);
    }

    pub(crate) fn decode(kind: u8, message: &'a [u8]) -> Option<Self> {
        Some(match kind.checked_sub(Self::FIRST)? {
            0 => Self::Status,
            1 => Self::UserGet(message),
            2 => Self::UserList,
            3 => Self::RoleGet(message),
            4 => Self::RoleList,
            5 => Self::Password(message),
            6 => Self::IsNamed,
            7 => Self::IsRoot,
            8 => Self::MayRead(message),
            _ => return None,
        })
    }
}

/// Answers a query; appends the fields of the response.
pub(crate) fn ask(
    store: &Store,
    meta: &Meta,
    caller: &Caller,
    query: AuthQuery<'_>,
    out: &mut Vec<u8>,
) -> Result<(), EtcdError> {
    match query {
        AuthQuery::Status => {
            caller.is_root()?;
            proto::flag_field(out, 2, meta.is_guarded());
            proto::int_field(out, 3, meta.auth_revision() as i64);
        }
        AuthQuery::UserGet(message) => {
            let name = Texts::of(message)?.first;
            caller.is_root().or_else(|why| if caller.is_called(name) { Ok(()) } else { Err(why) })?;
            let user = User::read(store, name).ok_or(EtcdError::UserNotFound)?;
            user.roles.iter().for_each(|role| proto::message_field(out, 2, role));
        }
        AuthQuery::RoleGet(message) => {
            let name = Texts::of(message)?.first;
            caller.is_root().or_else(|why| if caller.has_role(name) { Ok(()) } else { Err(why) })?;
            let mut permissions = role(store, name).ok_or(EtcdError::RoleNotFound)?;
            if name == ROOT {
                permissions = vec![Permission { kind: 2, key: vec![], range_end: vec![0] }];
            }
            permissions.iter().for_each(|own| proto::nested_field(out, 2, |out| own.encode(out)));
        }
        AuthQuery::UserList | AuthQuery::RoleList => {
            caller.is_root()?;
            let part = if query == AuthQuery::UserList { USER } else { ROLE };
            names(store, part).for_each(|(name, _)| proto::message_field(out, 2, name));
        }
        AuthQuery::Password(name) => {
            if !meta.is_guarded() {
                return Err(EtcdError::AuthNotEnabled);
            }
            let user = User::read(store, name).ok_or(EtcdError::AuthFailed)?;
            if user.no_password {
                return Err(EtcdError::NoPasswordUser);
            }
            proto::number(out, meta.auth_revision());
            out.extend_from_slice(&user.password);
        }
        AuthQuery::IsNamed => caller.is_named()?,
        AuthQuery::IsRoot => caller.is_root()?,
        AuthQuery::MayRead(range) => {
            use crate::auth::guard::{Access, Guard};
            let mut range = range;
            let key = proto::read_string(&mut range).ok_or(EtcdError::Malformed)?;
            let range_end = proto::read_string(&mut range).ok_or(EtcdError::Malformed)?;
            Guard::new(caller, store).may(Access::Read, key, range_end)?;
        }
    }
    Ok(())
}
