//! How commands change the keys and values in the store.
//!
//! Each key is a key of the object store, so keys are ordered by their bytes; the store holds nothing else. A command is carried out whole
//! or not at all: its sizes are checked before it changes anything, and an error reply names the limit. Tests: `tests/all/kv.rs`,
//! `tests/all/kv_model.rs`.

use crate::codec::{self, Condition, KvCommand, KvError, KvQuery, KvReply, Operation, Scan};
use quorate_execute::{Context, KeyUse, ParallelService, ReplySink, StateView};

/// The limits of commands. They must be the same in all replicas of a cluster, since replies depend on them; they are no part of the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvConfig {
    /// The longest key. 4 KiB by default.
    pub key_bytes_max: u64,
    /// The longest value. 1 MiB by default.
    pub value_bytes_max: u64,
    /// The most entries in one scan's reply. 1000 by default.
    pub scan_entries_max: u64,
    /// A scan ends once its reply has this many bytes, but never before the first entry. 512 KiB by default.
    pub scan_bytes_max: u64,
    /// The most conditions and operations in one transaction, both branches together. 128 by default.
    pub transaction_ops_max: u64,
}

impl Default for KvConfig {
    fn default() -> Self {
        Self {
            key_bytes_max: 4 << 10,
            value_bytes_max: 1 << 20,
            scan_entries_max: 1000,
            scan_bytes_max: 512 << 10,
            transaction_ops_max: 128,
        }
    }
}

/// The most bytes that a scan's reply needs besides keys and values: around each entry, and around the key to continue at.
const MORE_BYTES: usize = 16;

/// The service. Its commands may run at the same time: run it [`Parallel`](quorate_execute::Parallel)
/// [`InStore`](quorate_execute::InStore). Each key with a value is one object of the store.
#[derive(Clone, Debug, Default)]
pub struct Kv {
    config: KvConfig,
}

impl Kv {
    /// The service with these limits.
    pub fn new(config: KvConfig) -> Self {
        Self { config }
    }

    fn run(
        &self,
        view: &mut StateView<'_>,
        command: &KvCommand<'_>,
        reply: &mut ReplySink<'_>,
    ) -> Result<(), KvError> {
        match command {
            KvCommand::One(operation) => {
                self.check(operation)?;
                operate(view, operation, reply);
            }
            KvCommand::Scan(scan) => self.scan(view, scan, reply)?,
            KvCommand::Swap { key, condition, value } => {
                self.check(&Operation::Put { key, value })?;
                if holds(view, key, condition) {
                    view.set(key, value);
                    reply.write(&[codec::SWAPPED]);
                } else {
                    reply.write(&[codec::NOT_SWAPPED]);
                    write_option(reply, view.get(key).as_deref());
                }
            }
            KvCommand::Transaction { compares, then, otherwise } => {
                let size = compares.len() + then.len() + otherwise.len();
                if size as u64 > self.config.transaction_ops_max {
                    return Err(KvError::TooManyOperations { max: self.config.transaction_ops_max });
                }
                compares.iter().try_for_each(|compare| self.check_key(compare.key))?;
                then.iter().chain(otherwise).try_for_each(|operation| self.check(operation))?;
                let succeeded = compares.iter().all(|compare| holds(view, compare.key, &compare.condition));
                let list = if succeeded { then } else { otherwise };
                reply.write(&[codec::TRANSACTION_DONE, u8::from(succeeded)]);
                write_number(reply, list.len() as u64);
                list.iter().for_each(|operation| operate(view, operation, reply));
            }
        }
        Ok(())
    }

    fn check(&self, operation: &Operation<'_>) -> Result<(), KvError> {
        self.check_key(operation.key())?;
        match operation {
            Operation::Put { value, .. } if value.len() as u64 > self.config.value_bytes_max => {
                Err(KvError::ValueTooLong { max: self.config.value_bytes_max })
            }
            _ => Ok(()),
        }
    }

    fn check_key(&self, key: &[u8]) -> Result<(), KvError> {
        let max = self.config.key_bytes_max;
        if key.len() as u64 > max { Err(KvError::KeyTooLong { max }) } else { Ok(()) }
    }

    fn scan(&self, view: &StateView<'_>, scan: &Scan<'_>, reply: &mut ReplySink<'_>) -> Result<(), KvError> {
        self.check_key(scan.start)?;
        self.check_key(scan.end)?;
        let entries_max = match scan.limit {
            0 => self.config.scan_entries_max,
            limit => limit.min(self.config.scan_entries_max),
        };
        // The rest of the reply's room must also hold the key to continue at.
        let room = reply.room().saturating_sub(self.config.key_bytes_max as usize + MORE_BYTES);
        let bytes_max = reply.len() + room.min(self.config.scan_bytes_max as usize);
        reply.write(&[codec::ENTRIES]);
        let end = (!scan.end.is_empty()).then_some(scan.end);
        for (entries, (key, value)) in (0u64..).zip(view.range(scan.start, end)) {
            let full = reply.len() + key.len() + value.len() + MORE_BYTES > bytes_max;
            if entries == entries_max || (full && entries > 0) {
                reply.write(&[codec::MORE]);
                write_string(reply, &key);
                return Ok(());
            }
            reply.write(&[codec::ENTRY]);
            write_string(reply, &key);
            write_string(reply, &value);
        }
        reply.write(&[codec::END]);
        Ok(())
    }
}

impl ParallelService for Kv {
    fn execute(&self, view: &mut StateView<'_>, command: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        let done = KvCommand::decode(command)
            .map_err(|_| KvError::Malformed)
            .and_then(|command| self.run(view, &command, reply));
        if let Err(error) = done {
            write_error(reply, error);
        }
    }

    /// Deletes free space, alone or in transactions that put nothing.
    fn frees(&self, command: &[u8]) -> bool {
        match KvCommand::decode(command) {
            Ok(KvCommand::One(Operation::Delete { .. })) => true,
            Ok(KvCommand::Transaction { then, otherwise, .. }) => {
                then.iter().chain(&otherwise).all(|operation| !matches!(operation, Operation::Put { .. }))
            }
            _ => false,
        }
    }

    /// The key of a single operation.
    fn objects(&self, bytes: &[u8], is_query: bool, each: &mut dyn FnMut(&[u8])) {
        if is_query {
            if let Ok(KvQuery::Get { key }) = KvQuery::decode(bytes) {
                each(key);
            }
            return;
        }
        match KvCommand::decode(bytes) {
            Ok(KvCommand::One(operation)) => each(operation.key()),
            Ok(KvCommand::Swap { key, .. }) => each(key),
            _ => {}
        }
    }

    /// Bytes that are no command use no keys; the reply to them is an error.
    fn keys(&self, bytes: &[u8], is_query: bool, used: &mut dyn FnMut(KeyUse<'_>)) -> bool {
        if is_query {
            match KvQuery::decode(bytes) {
                Ok(KvQuery::Get { key }) => used(KeyUse::Read(key)),
                Ok(KvQuery::Scan(scan)) => name_range(&scan, used),
                Err(_) => {}
            }
        } else if let Ok(command) = KvCommand::decode(bytes) {
            name_keys(&command, used);
        }
        true
    }

    fn query(&self, view: &StateView<'_>, query: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        let done = match KvQuery::decode(query) {
            Ok(KvQuery::Get { key }) => {
                self.check_key(key).map(|()| write_value(reply, view.get(key).as_deref()))
            }
            Ok(KvQuery::Scan(scan)) => self.scan(view, &scan, reply),
            Err(_) => Err(KvError::Malformed),
        };
        if let Err(error) = done {
            write_error(reply, error);
        }
    }
}

fn name_keys(command: &KvCommand<'_>, used: &mut dyn FnMut(KeyUse<'_>)) {
    let mut operation = |operation: &Operation<'_>| match operation {
        Operation::Get { key } => used(KeyUse::Read(key)),
        Operation::Put { key, .. } | Operation::Delete { key } => used(KeyUse::Write(key)),
    };
    match command {
        KvCommand::One(one) => operation(one),
        KvCommand::Scan(scan) => name_range(scan, used),
        KvCommand::Swap { key, .. } => {
            used(KeyUse::Read(key));
            used(KeyUse::Write(key));
        }
        KvCommand::Transaction { compares, then, otherwise } => {
            then.iter().chain(otherwise).for_each(operation);
            compares.iter().for_each(|compare| used(KeyUse::Read(compare.key)));
        }
    }
}

fn name_range(scan: &Scan<'_>, used: &mut dyn FnMut(KeyUse<'_>)) {
    used(KeyUse::ReadRange { start: scan.start, end: (!scan.end.is_empty()).then_some(scan.end) });
}

fn holds(view: &StateView<'_>, key: &[u8], condition: &Condition<'_>) -> bool {
    match condition {
        Condition::Absent => !view.contains(key),
        Condition::Present => view.contains(key),
        Condition::Equals(value) => view.get(key).as_deref() == Some(*value),
    }
}

fn operate(view: &mut StateView<'_>, operation: &Operation<'_>, reply: &mut ReplySink<'_>) {
    match operation {
        Operation::Put { key, value } => write_flag(reply, codec::PUT, view.put(key, value)),
        Operation::Get { key } => write_value(reply, view.get(key).as_deref()),
        Operation::Delete { key } => write_flag(reply, codec::DELETE, view.remove(key)),
    }
}

fn write_flag(reply: &mut ReplySink<'_>, tag: u8, flag: bool) {
    reply.write(&[tag, u8::from(flag)]);
}

fn write_value(reply: &mut ReplySink<'_>, value: Option<&[u8]>) {
    reply.write(&[codec::GET]);
    write_option(reply, value);
}

fn write_error(reply: &mut ReplySink<'_>, error: KvError) {
    let mut bytes = Vec::new();
    KvReply::Error(error).encode(&mut bytes);
    reply.write(&bytes);
}

fn write_option(reply: &mut ReplySink<'_>, value: Option<&[u8]>) {
    reply.write(&[u8::from(value.is_some())]);
    if let Some(value) = value {
        write_string(reply, value);
    }
}

fn write_string(reply: &mut ReplySink<'_>, string: &[u8]) {
    write_number(reply, string.len() as u64);
    reply.write(string);
}

fn write_number(reply: &mut ReplySink<'_>, number: u64) {
    let (bytes, len) = codec::number(number);
    reply.write(&bytes[..len]);
}
