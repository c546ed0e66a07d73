//! Alarms that clients set. While `NOSPACE` is set nothing can be put; while `CORRUPT` is set nothing can be changed.
//!
//! The store's numbers say which kinds are set, so that a put without alarms reads nothing more. Tests: `tests/all/alarms.rs`.

use crate::check;
use crate::error::EtcdError;
use crate::proto::{self, Fields};
use crate::request::{DeleteRequest, PutRequest, TxnRequest};
use crate::service::Command;
use crate::space::Meta;
use quorate_execute::Store;
use quorate_types::planted;

/// The part of the store that holds alarms. A key is the kind, then the member.
pub(crate) const ALARM: u8 = b'A';
pub(crate) const NOSPACE: i64 = 1;
pub(crate) const CORRUPT: i64 = 2;
pub(crate) const ACTIVATE: i64 = 1;
const DEACTIVATE: i64 = 2;

/// The fields of an `AlarmRequest`.
struct Request {
    action: i64,
    member: u64,
    kind: i64,
}

impl Request {
    fn decode(message: &[u8]) -> Result<Self, EtcdError> {
        let mut request = Self { action: 0, member: 0, kind: 0 };
        for field in Fields::of(message) {
            match field? {
                (1, value) => request.action = value.int()?,
                (2, value) => request.member = value.int()? as u64,
                (3, value) => request.kind = value.int()?,
                _ => {}
            }
        }
        Ok(request)
    }

    fn key(&self) -> [u8; 10] {
        let mut key = [ALARM; 10];
        key[1] = self.kind as u8;
        key[2..].copy_from_slice(&self.member.to_be_bytes());
        key
    }
}

/// Sets or clears an alarm. As in etcd the response holds the alarm, except when one is cleared that was not set.
pub(crate) fn change(
    store: &mut Store,
    meta: &mut Meta,
    message: &[u8],
    body: &mut Vec<u8>,
) -> Result<(), EtcdError> {
    let request = Request::decode(message)?;
    if ![NOSPACE, CORRUPT].contains(&request.kind) {
        return Ok(());
    }
    let key = request.key();
    match request.action {
        ACTIVATE => {
            store.put(&key, &[]);
        }
        DEACTIVATE if store.remove(&key) => {}
        DEACTIVATE => return Ok(()),
        _ => return Err(EtcdError::Malformed),
    }
    append(request.kind, request.member, body);
    let is_set =
        store.range(&[ALARM, request.kind as u8], Some(&[ALARM, request.kind as u8 + 1])).next().is_some();
    meta.alarm(request.kind as u64, is_set);
    Ok(())
}

/// Sets the alarm `NOSPACE` for a member.
pub(crate) fn out_of_space(store: &mut Store, meta: &mut Meta, member: u64) {
    let alarm = Request { action: ACTIVATE, member, kind: NOSPACE };
    store.put(&alarm.key(), &[]);
    meta.alarm(NOSPACE as u64, true);
}

/// Appends all alarms that are set, as fields of an `AlarmResponse`.
pub(crate) fn list(store: &Store, room: usize, body: &mut Vec<u8>) -> Result<(), EtcdError> {
    for (key, _) in store.range(&[ALARM], Some(&[ALARM + 1])) {
        let member = key
            .get(2..)
            .and_then(|member| member.first_chunk())
            .map_or(0, |member| u64::from_be_bytes(*member));
        append(key.get(1).copied().map_or(0, i64::from), member, body);
    }
    if body.len() > room { Err(EtcdError::ResponseTooLarge) } else { Ok(()) }
}

/// Whether an `AlarmMember` is of the kind `NOSPACE`.
pub(crate) fn is_of_space(alarm: &[u8]) -> bool {
    Fields::of(alarm).any(|field| field == Ok((2, proto::Value::Number(NOSPACE as u64))))
}

/// Whether alarms, as [`Query::Alarms`](crate::Query::Alarms) lists them, have `NOSPACE` of a member.
pub fn has_no_space(alarms: &[u8], member: u64) -> bool {
    let mut wanted = Vec::new();
    append(NOSPACE, member, &mut wanted);
    let wanted = Fields::of(&wanted).next();
    Fields::of(alarms).any(|alarm| Some(alarm) == wanted)
}

fn append(kind: i64, member: u64, body: &mut Vec<u8>) {
    let mut alarm = Vec::new();
    proto::int_field(&mut alarm, 1, member as i64);
    proto::int_field(&mut alarm, 2, kind);
    proto::message_field(body, 2, &alarm);
}

/// Refuses commands that alarms forbid. A request that is malformed or breaks a limit is refused for that reason first.
pub(crate) fn refuse(meta: &Meta, command: Command, message: &[u8], ops_max: usize) -> Result<(), EtcdError> {
    if !meta.has_alarms() || planted("alarms-forbid-nothing") {
        return Ok(());
    }
    let (puts, changes) = match command {
        Command::Put => {
            check::put(&PutRequest::decode(message)?)?;
            (true, true)
        }
        Command::Txn => {
            let request = TxnRequest::decode(message)?;
            check::txn(&request, ops_max)?;
            (request.may_put(), true)
        }
        Command::DeleteRange => {
            check::delete(&DeleteRequest::decode(message)?)?;
            (false, true)
        }
        Command::LeaseGrant => (true, true),
        Command::Compact | Command::LeaseRevoke | Command::Upkeep => (false, true),
        _ => (false, false),
    };
    if changes && meta.is_alarmed(CORRUPT as u64) {
        Err(EtcdError::Corrupt)
    } else if puts && meta.is_alarmed(NOSPACE as u64) {
        Err(EtcdError::NoSpace)
    } else {
        Ok(())
    }
}
