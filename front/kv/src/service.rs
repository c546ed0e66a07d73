//! The key-value state and what commands do to it.
//!
//! Keys are ordered by their bytes. Every command does all or nothing: its sizes are checked before it changes anything,
//! and an error reply names the limit. Tests: `tests/kv.rs`, `tests/kv_model.rs`.

use crate::codec::{self, Condition, KvCommand, KvError, KvQuery, KvReply, Operation, Scan};
use crate::ordered::OrderedMap;
use quorate_execute::{
    CheckpointError, CheckpointSink, CheckpointSource, Context, ReplySink, Service, read_append, read_exact,
};

/// What bounds commands. All replicas of a cluster must begin with the same, since replies depend on it; from then on it
/// travels in checkpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvConfig {
    /// The longest key. 4 KiB by default.
    pub key_bytes_max: u64,
    /// The longest value. 1 MiB by default.
    pub value_bytes_max: u64,
    /// The most entries in one scan's reply. 1000 by default.
    pub scan_entries_max: u64,
    /// A scan ends once its reply has this many bytes, though never before its first entry. 512 KiB by default.
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

/// First bytes of the state in a checkpoint; the last one is the format's version.
const MAGIC: [u8; 8] = *b"quorakv\x01";
/// At most so many bytes stand around the key and value of a scan's entry, and around the key to go on from.
const MORE_BYTES: usize = 16;

/// The service.
#[derive(Debug, Default)]
pub struct Kv {
    config: KvConfig,
    map: OrderedMap,
}

impl Kv {
    /// An empty store.
    pub fn new(config: KvConfig) -> Self {
        Self { config, map: OrderedMap::default() }
    }
    /// How many keys have a value.
    pub fn len(&self) -> usize {
        self.map.len()
    }
    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    fn run(&mut self, command: &KvCommand<'_>, reply: &mut ReplySink<'_>) -> Result<(), KvError> {
        match command {
            KvCommand::One(operation) => {
                self.check(operation)?;
                self.operate(operation, reply);
            }
            KvCommand::Scan(scan) => self.scan(scan, reply)?,
            KvCommand::Swap { key, condition, value } => {
                self.check(&Operation::Put { key, value })?;
                if self.holds(key, condition) {
                    self.put(key, value);
                    reply.write(&[codec::SWAPPED]);
                } else {
                    reply.write(&[codec::NOT_SWAPPED]);
                    write_option(reply, self.get(key));
                }
            }
            KvCommand::Transaction { compares, then, otherwise } => {
                let size = compares.len() + then.len() + otherwise.len();
                if size as u64 > self.config.transaction_ops_max {
                    return Err(KvError::TooManyOperations { max: self.config.transaction_ops_max });
                }
                compares.iter().try_for_each(|compare| self.check_key(compare.key))?;
                then.iter().chain(otherwise).try_for_each(|operation| self.check(operation))?;
                let succeeded = compares.iter().all(|compare| self.holds(compare.key, &compare.condition));
                let list = if succeeded { then } else { otherwise };
                reply.write(&[codec::TRANSACTION_DONE, u8::from(succeeded)]);
                write_number(reply, list.len() as u64);
                list.iter().for_each(|operation| self.operate(operation, reply));
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

    fn holds(&self, key: &[u8], condition: &Condition<'_>) -> bool {
        match condition {
            Condition::Absent => self.get(key).is_none(),
            Condition::Present => self.get(key).is_some(),
            Condition::Equals(value) => self.get(key) == Some(*value),
        }
    }

    fn operate(&mut self, operation: &Operation<'_>, reply: &mut ReplySink<'_>) {
        match operation {
            Operation::Put { key, value } => write_flag(reply, codec::PUT, self.put(key, value)),
            Operation::Get { key } => write_value(reply, self.get(key)),
            Operation::Delete { key } => write_flag(reply, codec::DELETE, self.map.remove(key)),
        }
    }

    fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.map.get(key)
    }

    /// Overwrites in place where the memory that is there fits: no allocation on the most common path.
    fn put(&mut self, key: &[u8], value: &[u8]) -> bool {
        let Some(old) = self.map.get_mut(key) else {
            self.map.insert(key, value.to_vec());
            return false;
        };
        if old.capacity() > 4 * value.len() + 64 {
            *old = value.to_vec();
        } else {
            old.clear();
            old.extend_from_slice(value);
        }
        true
    }

    fn scan(&self, scan: &Scan<'_>, reply: &mut ReplySink<'_>) -> Result<(), KvError> {
        self.check_key(scan.start)?;
        self.check_key(scan.end)?;
        let entries_max = match scan.limit {
            0 => self.config.scan_entries_max,
            limit => limit.min(self.config.scan_entries_max),
        };
        // What is left of the reply's room must hold where to go on, too.
        let room = reply.room().saturating_sub(self.config.key_bytes_max as usize + MORE_BYTES);
        let bytes_max = reply.len() + room.min(self.config.scan_bytes_max as usize);
        reply.write(&[codec::ENTRIES]);
        let end = (!scan.end.is_empty()).then_some(scan.end);
        for (entries, (key, value)) in (0u64..).zip(self.map.range(scan.start, end)) {
            let full = reply.len() + key.len() + value.len() + MORE_BYTES > bytes_max;
            if entries == entries_max || (full && entries > 0) {
                reply.write(&[codec::MORE]);
                write_string(reply, key);
                return Ok(());
            }
            reply.write(&[codec::ENTRY]);
            write_string(reply, key);
            write_string(reply, value);
        }
        reply.write(&[codec::END]);
        Ok(())
    }
}

impl Service for Kv {
    fn execute(&mut self, command: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        let done = KvCommand::decode(command)
            .map_err(|_| KvError::Malformed)
            .and_then(|command| self.run(&command, reply));
        if let Err(error) = done {
            write_error(reply, error);
        }
    }

    fn query(&self, query: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        let done = match KvQuery::decode(query) {
            Ok(KvQuery::Get { key }) => self.check_key(key).map(|()| write_value(reply, self.get(key))),
            Ok(KvQuery::Scan(scan)) => self.scan(&scan, reply),
            Err(_) => Err(KvError::Malformed),
        };
        if let Err(error) = done {
            write_error(reply, error);
        }
    }

    fn checkpoint(&self, out: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        out.write(&MAGIC)?;
        let config = &self.config;
        for number in [
            config.key_bytes_max,
            config.value_bytes_max,
            config.scan_entries_max,
            config.scan_bytes_max,
            config.transaction_ops_max,
            self.map.len() as u64,
        ] {
            out.write(&number.to_le_bytes())?;
        }
        for (key, value) in self.map.range(b"", None) {
            out.write(&(key.len() as u32).to_le_bytes())?;
            out.write(&(value.len() as u32).to_le_bytes())?;
            out.write(key)?;
            out.write(value)?;
        }
        Ok(())
    }

    fn restore(&mut self, from: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        let mut magic = [0; 8];
        read_exact(from, &mut magic)?;
        if magic != MAGIC {
            return Err(CheckpointError::Malformed("not a key-value state of this version"));
        }
        let config = KvConfig {
            key_bytes_max: read_u64(from)?,
            value_bytes_max: read_u64(from)?,
            scan_entries_max: read_u64(from)?,
            scan_bytes_max: read_u64(from)?,
            transaction_ops_max: read_u64(from)?,
        };
        let count = read_u64(from)?;
        let mut entries: Vec<(Box<[u8]>, Vec<u8>)> = Vec::new();
        for _ in 0..count {
            let entry = read_entry(from, &config)?;
            if entries.last().is_some_and(|(before, _)| *before >= entry.0) {
                return Err(CheckpointError::Malformed("keys out of order"));
            }
            entries.push(entry);
        }
        if from.read(&mut [0])? != 0 {
            return Err(CheckpointError::Malformed("bytes after the last key"));
        }
        *self = Self { config, map: OrderedMap::from_sorted(entries) };
        Ok(())
    }
}

fn read_entry(
    from: &mut dyn CheckpointSource,
    config: &KvConfig,
) -> Result<(Box<[u8]>, Vec<u8>), CheckpointError> {
    let mut lens = [0; 8];
    read_exact(from, &mut lens)?;
    let [k0, k1, k2, k3, v0, v1, v2, v3] = lens;
    let key_len = u32::from_le_bytes([k0, k1, k2, k3]);
    let value_len = u32::from_le_bytes([v0, v1, v2, v3]);
    if u64::from(key_len) > config.key_bytes_max || u64::from(value_len) > config.value_bytes_max {
        return Err(CheckpointError::Malformed("a key or value over its limit"));
    }
    let (mut key, mut value) = (Vec::new(), Vec::new());
    read_append(from, key_len as usize, &mut key)?;
    read_append(from, value_len as usize, &mut value)?;
    value.shrink_to_fit();
    Ok((key.into(), value))
}

fn read_u64(from: &mut dyn CheckpointSource) -> Result<u64, CheckpointError> {
    let mut bytes = [0; 8];
    read_exact(from, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
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
