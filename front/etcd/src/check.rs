//! What a request must satisfy by itself, whatever the store holds. The rules are etcd's.
//!
//! For instance a transaction may change no key twice, whichever branches are taken. Tests: `tests/all/edges.rs`, `tests/all/store.rs`.

use crate::error::EtcdError;
use crate::request::{DeleteRequest, Operation, PutRequest, TxnRequest};
use crate::space::NAME_BYTES_MAX;
use std::collections::BTreeMap;

pub(crate) fn put(request: &PutRequest<'_>) -> Result<(), EtcdError> {
    if request.key.is_empty() {
        return Err(EtcdError::EmptyKey);
    }
    if request.key.len() > NAME_BYTES_MAX {
        return Err(EtcdError::RequestTooLarge);
    }
    if request.ignore_value && !request.value.is_empty() {
        return Err(EtcdError::ValueProvided);
    }
    if request.ignore_lease && request.lease != 0 {
        return Err(EtcdError::LeaseProvided);
    }
    Ok(())
}

pub(crate) fn delete(request: &DeleteRequest<'_>) -> Result<(), EtcdError> {
    if request.key.is_empty() { Err(EtcdError::EmptyKey) } else { Ok(()) }
}

/// Checks a transaction. `ops_max` bounds each of its lists; nested transactions have what their parent's longest list leaves.
pub(crate) fn txn(request: &TxnRequest<'_>, ops_max: usize) -> Result<(), EtcdError> {
    each(request, ops_max)?;
    changes(&request.success)?;
    changes(&request.failure).map(drop)
}

/// Checks each compare and operation by itself.
fn each(request: &TxnRequest<'_>, ops_max: usize) -> Result<(), EtcdError> {
    let longest = request.compare.len().max(request.success.len()).max(request.failure.len());
    let left = ops_max.checked_sub(longest).ok_or(EtcdError::TooManyOps)?;
    if request.compare.iter().any(|compare| compare.key.is_empty()) {
        return Err(EtcdError::EmptyKey);
    }
    request.success.iter().chain(&request.failure).try_for_each(|operation| match operation {
        Operation::Range(range) if range.key.is_empty() => Err(EtcdError::EmptyKey),
        Operation::Range(_) => Ok(()),
        Operation::Put(request) => put(request),
        Operation::Delete(request) => delete(request),
        Operation::Txn(request) => each(request, left),
        // So says etcd of it.
        Operation::Nothing => Err(EtcdError::KeyNotFound),
    })
}

/// The keys that a list of operations may change.
#[derive(Default)]
struct Changes<'a> {
    /// Each with the number of the list that put it, so that two branches of one transaction may put the same key.
    puts: BTreeMap<&'a [u8], ()>,
    deletes: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Changes<'a> {
    fn deletes(&self, key: &[u8]) -> bool {
        self.deletes.iter().any(|(start, end)| match *end {
            [] => key == *start,
            // From a key on, a zero byte as the end: etcd takes it for an end before all keys here, and so do we.
            end => key >= *start && key < end,
        })
    }

    fn put(&mut self, key: &'a [u8], known: Option<&Self>) -> Result<(), EtcdError> {
        let twice =
            self.puts.insert(key, ()).is_some() && !known.is_some_and(|known| known.puts.contains_key(key));
        if twice || self.deletes(key) { Err(EtcdError::DuplicateKey) } else { Ok(()) }
    }
}

/// Collects the changes of a list. Only one branch of a nested transaction runs, so both branches may put the same key.
fn changes<'a>(list: &[Operation<'a>]) -> Result<Changes<'a>, EtcdError> {
    let mut all = Changes::default();
    for operation in list {
        if let Operation::Delete(request) = operation {
            all.deletes.push((request.key, request.range_end));
        }
    }
    for operation in list {
        let Operation::Txn(txn) = operation else { continue };
        let (then, otherwise) = (changes(&txn.success)?, changes(&txn.failure)?);
        then.puts.keys().try_for_each(|key| all.put(key, None))?;
        otherwise.puts.keys().try_for_each(|key| all.put(key, Some(&then)))?;
        all.deletes.extend(then.deletes);
        all.deletes.extend(otherwise.deletes);
    }
    for operation in list {
        if let Operation::Put(request) = operation {
            all.put(request.key, None)?;
        }
    }
    Ok(all)
}
