//! Which user may read or write which keys. Each key of a request is checked, as in etcd.
//!
//! A user who writes a key gets its old value only with the right to read it. A user who may not write all keys of a lease may not use the
//! lease: revoking it would delete those keys.

use crate::auth::{Caller, Permission, ROOT, role};
use crate::error::EtcdError;
use crate::lease;
use crate::request::{DeleteRequest, Operation, PutRequest, TxnRequest};
use quorate_execute::Store;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// The rights of a caller. Its permissions are looked up once.
pub(crate) struct Guard<'a> {
    caller: &'a Caller,
    store: &'a Store,
    permissions: Vec<Permission>,
}

impl<'a> Guard<'a> {
    pub(crate) fn new(caller: &'a Caller, store: &'a Store) -> Self {
        let mut permissions = Vec::new();
        if let Caller::Named(_, Some(user)) = caller
            && !user.has(ROOT)
        {
            permissions = user.roles.iter().filter_map(|name| role(store, name)).flatten().collect();
            permissions.sort_by(|left, right| left.key.cmp(&right.key));
        }
        Self { caller, store, permissions }
    }

    /// Whether the caller may read, or write, these keys; `range_end` as in a range.
    pub(crate) fn may(&self, access: Access, key: &[u8], range_end: &[u8]) -> Result<(), EtcdError> {
        match self.caller {
            Caller::Anybody => return Ok(()),
            Caller::Nobody => return Err(EtcdError::UserEmpty),
            Caller::Unknown => return Err(EtcdError::InvalidAuthToken),
            Caller::Named(_, Some(user)) if user.has(ROOT) => return Ok(()),
            Caller::Named(..) => {}
        }
        if self.covers(access, key, range_end) { Ok(()) } else { Err(EtcdError::PermissionDenied) }
    }

    /// Whether the permissions together cover the whole range.
    fn covers(&self, access: Access, key: &[u8], range_end: &[u8]) -> bool {
        let given = |permission: &&Permission| match access {
            Access::Read => permission.reads(),
            Access::Write => permission.writes(),
        };
        let wanted = Keys::of(key, range_end);
        let mut given = self.permissions.iter().filter(given).map(|one| Keys::of(&one.key, &one.range_end));
        let mut given = given.by_ref().filter(|keys| keys.meet(&wanted));
        let Some(first) = given.next().filter(|first| first.start <= wanted.start) else { return false };
        let mut end = first.end;
        for keys in given {
            if end.is_before(&keys.start) {
                break;
            }
            end = end.max(keys.end);
        }
        end >= wanted.end
    }

    pub(crate) fn put(&self, request: &PutRequest<'_>) -> Result<(), EtcdError> {
        self.may(Access::Write, request.key, &[])?;
        self.lease(Access::Write, request.lease)?;
        if request.prev_kv { self.may(Access::Read, request.key, &[]) } else { Ok(()) }
    }

    pub(crate) fn delete(&self, request: &DeleteRequest<'_>) -> Result<(), EtcdError> {
        self.may(Access::Write, request.key, request.range_end)?;
        if request.prev_kv { self.may(Access::Read, request.key, request.range_end) } else { Ok(()) }
    }

    /// Checks both branches, whichever will be taken.
    pub(crate) fn txn(&self, txn: &TxnRequest<'_>) -> Result<(), EtcdError> {
        txn.compare.iter().try_for_each(|compare| self.may(Access::Read, compare.key, compare.range_end))?;
        txn.success.iter().chain(&txn.failure).try_for_each(|operation| match operation {
            Operation::Range(range) => self.may(Access::Read, range.key, range.range_end),
            Operation::Put(request) => self.put(request),
            Operation::Delete(request) => self.delete(request),
            Operation::Txn(txn) => self.txn(txn),
            Operation::Nothing => Ok(()),
        })
    }

    /// Checks all keys that are attached to a lease.
    pub(crate) fn lease(&self, access: Access, id: i64) -> Result<(), EtcdError> {
        if id == 0 || self.caller.is_root().is_ok() {
            return Ok(());
        }
        lease::keys_of(self.store, id).iter().try_for_each(|key| self.may(access, key, &[]))
    }

    /// Checks the keys of all leases.
    pub(crate) fn all_leases(&self) -> Result<(), EtcdError> {
        if self.caller.is_root().is_ok() {
            return Ok(());
        }
        lease::all_keys(self.store).try_for_each(|key| self.may(Access::Read, key, &[]))
    }
}

/// The end of a range: before a key, or none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Before(Vec<u8>),
    Never,
}

impl End {
    fn is_before(&self, key: &[u8]) -> bool {
        matches!(self, Self::Before(end) if end.as_slice() < key)
    }

    fn is_behind(&self, key: &[u8]) -> bool {
        match self {
            Self::Before(end) => end.as_slice() > key,
            Self::Never => true,
        }
    }
}

/// A range of keys.
struct Keys {
    start: Vec<u8>,
    end: End,
}

impl Keys {
    fn of(key: &[u8], range_end: &[u8]) -> Self {
        let end = match range_end {
            [] => End::Before([key, &[0]].concat()),
            [0] => End::Never,
            end => End::Before(end.to_vec()),
        };
        Self { start: key.to_vec(), end }
    }

    fn meet(&self, other: &Self) -> bool {
        other.end.is_behind(&self.start) && self.end.is_behind(&other.start)
    }
}
