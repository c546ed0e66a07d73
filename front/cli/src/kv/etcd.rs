//! The commands of `quorate kv` for a cluster that runs the etcd store: translates commands and replies.
//!
//! The etcd store refuses a command that it can not decode, with a reply that the key-value service never gives, and changes nothing. So a
//! command is first sent as it is, and translated if that reply comes. A client of Quorate's own protocol bypasses the store's users, so
//! its commands are sent as those of root; without users that has no effect. `crate::demo` translates its commands here, too. Tests:
//! tests/kv_etcd.rs.

use quorate_command::failure::{Failure, Outcome};
use quorate_etcd::proto::{
    Fields, Value, bytes_field, flag_field, int_field, message_field, nested_field, number,
};
use quorate_etcd::{Command, EtcdError, Query, RangePage, RangeQuery, Reply, Who};
use quorate_kv::{Condition, KvCommand, KvQuery, KvReply, Operation, Scan};

/// Whether a reply says that the cluster runs the etcd store.
pub(super) fn is_refusal(reply: &[u8]) -> bool {
    reply == refusal()
}

/// The reply of an etcd store to a command that is not translated.
pub(super) fn refusal() -> Vec<u8> {
    vec![EtcdError::Malformed.number()]
}

const LESS: i64 = 2;
const GREATER: i64 = 1;
const VERSION: i64 = 0;
const VALUE: i64 = 3;
/// The field of a range request that asks only for the number of keys.
const COUNT_ONLY: u32 = 9;

/// The caller of all commands.
const ROOT: Who<'static> = Who::Named(b"root");

/// The command in the form of etcd; `None` for commands that `quorate kv` never sends.
pub(crate) fn command(command: &KvCommand<'_>) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    let which = match command {
        // Whether it replaces a value is counted before; the value goes along once, since the store limits requests.
        KvCommand::One(Operation::Put { key, value }) => {
            nested_field(&mut message, 2, |out| {
                nested_field(out, 1, |out| {
                    bytes_field(out, 1, key);
                    flag_field(out, COUNT_ONLY, true);
                });
            });
            put(2, key, value, &mut message);
            Command::Txn
        }
        KvCommand::One(Operation::Delete { key }) => {
            bytes_field(&mut message, 1, key);
            Command::DeleteRange
        }
        KvCommand::Swap { key, condition, value } => {
            compare(key, condition, &mut message);
            put(2, key, value, &mut message);
            nested_field(&mut message, 3, |out| {
                nested_field(out, 1, |out| bytes_field(out, 1, key));
            });
            Command::Txn
        }
        _ => return None,
    };
    let mut bytes = Vec::new();
    ROOT.encode(&mut bytes);
    which.encode(&message, &mut bytes);
    Some(bytes)
}

fn compare(key: &[u8], condition: &Condition<'_>, out: &mut Vec<u8>) {
    nested_field(out, 1, |out| {
        let (result, target) = match condition {
            Condition::Absent => (LESS, VERSION),
            Condition::Present => (GREATER, VERSION),
            Condition::Equals(_) => (0, VALUE),
        };
        int_field(out, 1, result);
        int_field(out, 2, target);
        bytes_field(out, 3, key);
        match condition {
            Condition::Equals(value) => message_field(out, 7, value),
            // Less than 1, or greater than 0: a number is written even if it is 0.
            Condition::Absent | Condition::Present => {
                number(out, 4 << 3);
                number(out, u64::from(result == LESS));
            }
        }
    });
}

/// A put as an operation of one branch of a transaction.
fn put(branch: u32, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    nested_field(out, branch, |out| {
        nested_field(out, 2, |out| {
            bytes_field(out, 1, key);
            bytes_field(out, 2, value);
        });
    });
}

/// The query in the form of etcd.
pub(crate) fn query(query: &KvQuery<'_>) -> Vec<u8> {
    let mut request = Vec::new();
    match query {
        KvQuery::Get { key } => bytes_field(&mut request, 1, key),
        KvQuery::Scan(Scan { start, end, limit }) => {
            // No key is empty there; a zero byte as the end means that there is none.
            bytes_field(&mut request, 1, if start.is_empty() { &[0] } else { start });
            bytes_field(&mut request, 2, if end.is_empty() { &[0] } else { end });
            int_field(&mut request, 3, i64::try_from(*limit).unwrap_or(i64::MAX));
        }
    }
    let mut bytes = Vec::new();
    ROOT.encode(&mut bytes);
    Query::Range(RangeQuery { continued: true, skip: 0, request: &request }).encode(&mut bytes);
    bytes
}

/// A reply to a command, as the key-value service would give it.
pub(crate) fn reply(command: &KvCommand<'_>, reply: &[u8]) -> Outcome<Vec<u8>> {
    let body = Reply::decode(reply).map_err(not_done)?.body;
    let flag = || Fields::of(body).any(|field| matches!(field, Ok((2, Value::Number(1..)))));
    let mut out = Vec::new();
    match command {
        KvCommand::One(Operation::Put { .. }) => {
            let range = inner(body, 3).and_then(|operation| inner(operation, 1)).unwrap_or_default();
            let replaced = Fields::of(range).any(|field| matches!(field, Ok((4, Value::Number(1..)))));
            KvReply::Put { replaced }.encode(&mut out);
        }
        KvCommand::One(Operation::Delete { .. }) => KvReply::Deleted { existed: flag() }.encode(&mut out),
        _ if flag() => KvReply::Swapped.encode(&mut out),
        _ => {
            let response = inner(body, 3).and_then(|operation| inner(operation, 1)).unwrap_or_default();
            let current = entries(response).first().map(|(_, value)| *value);
            KvReply::NotSwapped { current }.encode(&mut out);
        }
    }
    Ok(out)
}

/// An answer to a query, as the key-value service would give it.
pub(crate) fn answer(query: &KvQuery<'_>, reply: &[u8]) -> Outcome<Vec<u8>> {
    let body = Reply::decode(reply).map_err(not_done)?.body;
    let page = RangePage::decode(body).ok_or_else(|| not_done(EtcdError::Malformed))?;
    let entries = entries(page.fields);
    let mut out = Vec::new();
    match query {
        KvQuery::Get { .. } => KvReply::Value(entries.first().map(|(_, value)| *value)).encode(&mut out),
        KvQuery::Scan(_) => KvReply::Entries { next: page.next.flatten(), entries }.encode(&mut out),
    }
    Ok(out)
}

fn not_done(why: EtcdError) -> Failure {
    Failure::new(format!("not done: {why}"))
}

/// The message in a field.
pub(crate) fn inner(message: &[u8], field: u32) -> Option<&[u8]> {
    Fields::of(message).find_map(|found| match found {
        Ok((number, Value::Bytes(bytes))) if number == field => Some(bytes),
        _ => None,
    })
}

/// Keys and values of a response to a range.
fn entries(response: &[u8]) -> Vec<(&[u8], &[u8])> {
    let kvs = Fields::of(response).filter_map(|field| match field {
        Ok((2, Value::Bytes(kv))) => Some(kv),
        _ => None,
    });
    kvs.map(|kv| (inner(kv, 1).unwrap_or_default(), inner(kv, 5).unwrap_or_default())).collect()
}
