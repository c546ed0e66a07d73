//! Transactions: compares, then one of two lists of operations, which may be transactions themselves.
//!
//! As in etcd all compares, also those of nested transactions, look at the store as it was before the first operation. Everything that can
//! be refused is refused before anything is changed. Tests: `tests/all/edges.rs`, `tests/all/store.rs`.

use crate::error::EtcdError;
use crate::proto;
use crate::range::{self, RangeQuery};
use crate::request::{Compare, Operation, RangeRequest, Relation, Target, TxnRequest};
use crate::space::{Bounds, HEAD, Head, KeyValue, Meta, entry_of};
use crate::write::{Writer, check_put};
use quorate_execute::Store;
use std::cmp::Ordering;

/// The branches that are taken: of the transaction, then of its nested transactions in their order.
pub(crate) struct Path(Vec<bool>);

/// Evaluates the compares, and checks the operations of the branches that are taken.
pub(crate) fn plan(store: &Store, meta: &Meta, txn: &TxnRequest<'_>) -> Result<Path, EtcdError> {
    let mut path = Path(Vec::new());
    choose(store, txn, &mut path.0);
    check(store, meta, txn, &mut path.0.iter())?;
    Ok(path)
}

fn choose(store: &Store, txn: &TxnRequest<'_>, path: &mut Vec<bool>) {
    let succeeds = txn.compare.iter().all(|compare| holds(store, compare));
    path.push(succeeds);
    for operation in branch(txn, succeeds) {
        if let Operation::Txn(txn) = operation {
            choose(store, txn, path);
        }
    }
}

fn branch<'a, 'b>(txn: &'b TxnRequest<'a>, succeeds: bool) -> &'b [Operation<'a>] {
    if succeeds { &txn.success } else { &txn.failure }
}

fn check<'a>(
    store: &Store,
    meta: &Meta,
    txn: &TxnRequest<'_>,
    path: &mut impl Iterator<Item = &'a bool>,
) -> Result<(), EtcdError> {
    let succeeds = path.next().copied().unwrap_or_default();
    for operation in branch(txn, succeeds) {
        match operation {
            Operation::Range(request) => check_range(meta, request)?,
            Operation::Put(request) => check_put(store, request)?,
            Operation::Txn(txn) => check(store, meta, txn, path)?,
            Operation::Delete(_) | Operation::Nothing => {}
        }
    }
    Ok(())
}

/// Checks the revision of a range in a transaction as etcd does: a negative revision counts as compacted, except -1 while nothing is
/// compacted.
fn check_range(meta: &Meta, request: &RangeRequest<'_>) -> Result<(), EtcdError> {
    let first = if meta.compacted == 0 { -1 } else { meta.compacted };
    if request.revision < 0 && request.revision < first {
        return Err(EtcdError::Compacted);
    }
    range::check(meta.revision, meta.compacted, request)
}

fn holds(store: &Store, compare: &Compare<'_>) -> bool {
    let bounds = Bounds::new(HEAD, compare.key, compare.range_end);
    let mut heads = bounds.entries(store).peekable();
    if heads.peek().is_none() {
        // There is no way to say "no value", so that comparing one never holds.
        return !matches!(compare.target, Target::Value(_)) && holds_of(compare, &Head::default(), &[]);
    }
    heads.all(|(_, bytes)| {
        let head = Head::decode(bytes);
        let value = match compare.target {
            Target::Value(_) => KeyValue::decode(entry_of(store, &head).message).value,
            _ => &[],
        };
        holds_of(compare, &head, value)
    })
}

fn holds_of(compare: &Compare<'_>, head: &Head, value: &[u8]) -> bool {
    let order = match compare.target {
        Target::Version(number) => head.version.cmp(&number),
        Target::Create(number) => head.create.cmp(&number),
        Target::Mod(number) => head.at.main.cmp(&number),
        Target::Value(bytes) => value.cmp(bytes),
        Target::Lease(number) => head.lease.cmp(&number),
    };
    match compare.relation {
        Relation::Equal => order == Ordering::Equal,
        Relation::Greater => order == Ordering::Greater,
        Relation::Less => order == Ordering::Less,
        Relation::NotEqual => order != Ordering::Equal,
        Relation::Unknown => true,
    }
}

/// Carries out the planned branches; appends the fields of the response.
///
/// # Errors
/// When the response is over the limit: then the caller must undo the changes.
pub(crate) fn run(
    writer: &mut Writer<'_>,
    txn: &TxnRequest<'_>,
    path: &Path,
    room: usize,
    out: &mut Vec<u8>,
) -> Result<(), EtcdError> {
    run_at(writer, txn, &mut path.0.iter(), room, out)
}

fn run_at<'a>(
    writer: &mut Writer<'_>,
    txn: &TxnRequest<'_>,
    path: &mut impl Iterator<Item = &'a bool>,
    room: usize,
    out: &mut Vec<u8>,
) -> Result<(), EtcdError> {
    let succeeds = path.next().copied().unwrap_or_default();
    proto::flag_field(out, 2, succeeds);
    for operation in branch(txn, succeeds) {
        proto::nested_field(out, 3, |out| match operation {
            Operation::Range(request) => proto::nested_field(out, 1, |out| {
                header(out, writer.revision());
                let page = RangeQuery { continued: false, skip: 0, request: &[] };
                let appended = range::range(writer.store, writer.revision(), request, &page, room, out)?;
                if appended.next.is_some() { Err(EtcdError::ResponseTooLarge) } else { Ok(()) }
            }),
            Operation::Put(request) => proto::nested_field(out, 2, |out| {
                header(out, writer.change_revision());
                writer.put(request, out);
                Ok(())
            }),
            Operation::Delete(request) => proto::nested_field(out, 3, |out| {
                let mut fields = Vec::new();
                writer.delete_range(request, &mut fields);
                header(out, writer.revision());
                out.extend_from_slice(&fields);
                Ok(())
            }),
            Operation::Txn(txn) => proto::nested_field(out, 4, |out| {
                proto::message_field(out, 1, &[]);
                run_at(writer, txn, path, room, out)
            }),
            Operation::Nothing => Ok(()),
        })?;
    }
    if out.len() > room { Err(EtcdError::ResponseTooLarge) } else { Ok(()) }
}

/// The header of a response within a transaction.
fn header(out: &mut Vec<u8>, revision: i64) {
    proto::nested_field(out, 1, |out| proto::int_field(out, 3, revision));
}

/// Runs a transaction that only reads; appends the fields of the response.
pub(crate) fn read(
    store: &Store,
    meta: &Meta,
    txn: &TxnRequest<'_>,
    room: usize,
    out: &mut Vec<u8>,
) -> Result<(), EtcdError> {
    let path = plan(store, meta, txn)?;
    read_at(store, meta, txn, &mut path.0.iter(), room, out)
}

fn read_at<'a>(
    store: &Store,
    meta: &Meta,
    txn: &TxnRequest<'_>,
    path: &mut impl Iterator<Item = &'a bool>,
    room: usize,
    out: &mut Vec<u8>,
) -> Result<(), EtcdError> {
    let succeeds = path.next().copied().unwrap_or_default();
    proto::flag_field(out, 2, succeeds);
    for operation in branch(txn, succeeds) {
        proto::nested_field(out, 3, |out| match operation {
            Operation::Range(request) => proto::nested_field(out, 1, |out| {
                header(out, meta.revision);
                let page = RangeQuery { continued: false, skip: 0, request: &[] };
                let appended = range::range(store, meta.revision, request, &page, room, out)?;
                if appended.next.is_some() { Err(EtcdError::ResponseTooLarge) } else { Ok(()) }
            }),
            Operation::Txn(txn) => proto::nested_field(out, 4, |out| {
                proto::message_field(out, 1, &[]);
                read_at(store, meta, txn, path, room, out)
            }),
            // The caller makes sure that there is no other.
            Operation::Put(_) | Operation::Delete(_) | Operation::Nothing => Ok(()),
        })?;
    }
    if out.len() > room { Err(EtcdError::ResponseTooLarge) } else { Ok(()) }
}

/// Whether the response may be long: then the caller must be able to undo the changes.
pub(crate) fn may_answer_much(txn: &TxnRequest<'_>, path: &Path) -> bool {
    may_answer_much_at(txn, &mut path.0.iter())
}

fn may_answer_much_at<'a>(txn: &TxnRequest<'_>, path: &mut impl Iterator<Item = &'a bool>) -> bool {
    let succeeds = path.next().copied().unwrap_or_default();
    branch(txn, succeeds).iter().any(|operation| match operation {
        Operation::Range(_) => true,
        Operation::Put(request) => request.prev_kv,
        Operation::Delete(request) => request.prev_kv,
        Operation::Txn(txn) => may_answer_much_at(txn, path),
        Operation::Nothing => false,
    })
}
