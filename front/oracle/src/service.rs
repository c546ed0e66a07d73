//! The service of a Quorate cluster that is the oracle of others: registers with a version, and the rule for clusters whose replicas may lie.
//!
//! ```text
//! command    1 u8 | count u16 | name | version u64 | value        swaps a register that has this version
//!            2 u8 | instance u16 | bytes u32 | group | claim      grants what a claim shows; without one it only learns who the members are
//! query      3 u8 | name                                          reads a register
//!            4 u8 | instance u16 | group                          reads the register of an instance whose members may lie
//! reply      0 u8 | version u64 | value                           what the register holds
//!            1 u8 | text                                          why not
//! ```
//!
//! Clusters whose replicas may lie have registers of their own, which nothing but a claim changes. Who their members are is what the first
//! replica said; every other one compares it with what it knows itself.

use bytes::Bytes;
use quorate::{Context, ObjectService, ReplySink, Store};
use quorate_runtime::{Group, Held};
use quorate_types::{InstanceId, Reject};
use quorate_wire::{Put, Reader};

/// The longest name of a register, in bytes.
const NAME_BYTES_MAX: usize = 256;
/// The longest value, claim or group, in bytes.
const VALUE_BYTES_MAX: usize = 256 << 10;
/// So many registers and groups there may be: a replica that lies must not fill the disk.
const ENTRIES_MAX: u64 = 100_000;

/// Where their number is kept.
const COUNT: &[u8] = b"n";

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Swap { name: Bytes, version: u64, value: Bytes },
    Judge { instance: InstanceId, group: Bytes, claim: Bytes },
    Read { name: Bytes },
    Look { instance: InstanceId, group: Bytes },
}

impl Ask {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Swap { name, version, value } => {
                out.push(1);
                out.put_u16(name.len() as u16);
                out.extend_from_slice(name);
                out.put_u64(*version);
                out.extend_from_slice(value);
            }
            Self::Judge { instance, group, claim } => {
                out.push(2);
                out.put_u16(instance.number());
                out.put_u32(group.len() as u32);
                out.extend_from_slice(group);
                out.extend_from_slice(claim);
            }
            Self::Read { name } => {
                out.push(3);
                out.extend_from_slice(name);
            }
            Self::Look { instance, group } => {
                out.push(4);
                out.put_u16(instance.number());
                out.extend_from_slice(group);
            }
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Reject> {
        let mut r = Reader::new(Bytes::copy_from_slice(bytes), "question for an oracle");
        let ask = match r.u8()? {
            1 => {
                let len = usize::from(r.u16()?);
                Self::Swap { name: r.bytes(len)?, version: r.u64()?, value: r.rest() }
            }
            2 => {
                let (instance, len) = (InstanceId::new(r.u16()?), r.u32()? as usize);
                Self::Judge { instance, group: r.bytes(len)?, claim: r.rest() }
            }
            3 => Self::Read { name: r.rest() },
            4 => Self::Look { instance: InstanceId::new(r.u16()?), group: r.rest() },
            _ => return Err(Reject::Malformed("question for an oracle: kind")),
        };
        ask.check()
    }

    fn check(self) -> Result<Self, Reject> {
        let (name, value) = match &self {
            Self::Swap { name, value, .. } => (name.len(), value.len()),
            Self::Judge { group, claim, .. } => (0, group.len().max(claim.len())),
            Self::Read { name } => (name.len(), 0),
            Self::Look { group, .. } => (0, group.len()),
        };
        for (what, size, max) in [("name", name, NAME_BYTES_MAX), ("value", value, VALUE_BYTES_MAX)] {
            if size > max {
                return Err(Reject::TooLarge { what, size: size as u64, max: max as u64 });
            }
        }
        Ok(self)
    }
}

/// What a reply says: what the register holds, or why it is not told.
pub(crate) fn decode_reply(bytes: &[u8]) -> Result<Held, String> {
    match bytes.split_first() {
        Some((0, held)) => match held.split_first_chunk::<8>() {
            Some((version, value)) => Ok((u64::from_le_bytes(*version), Bytes::copy_from_slice(value))),
            None => Err("an answer that is cut off".to_owned()),
        },
        Some((1, text)) => Err(String::from_utf8_lossy(text).into_owned()),
        _ => Err("an answer to another question: does that cluster run the service \"oracle\"?".to_owned()),
    }
}

/// The service; its state is in the store.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registers;

impl ObjectService for Registers {
    fn execute(&mut self, store: &mut Store, command: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        let done = match Ask::decode(command) {
            Ok(Ask::Swap { name, version, value }) => swap(store, &passive(&name), version, &value),
            Ok(Ask::Judge { instance, group, claim }) => judge(store, instance, group, claim),
            Ok(Ask::Read { .. } | Ask::Look { .. }) => Err("this is a question, and no command".to_owned()),
            Err(why) => Err(why.to_string()),
        };
        answer(done, reply);
    }

    fn query(&self, store: &Store, query: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        let done = match Ask::decode(query) {
            Ok(Ask::Read { name }) => held(store, &passive(&name)),
            Ok(Ask::Look { instance, group }) => {
                known(store, group).and_then(|(group, _)| held(store, &judged(&group, instance)))
            }
            Ok(Ask::Swap { .. } | Ask::Judge { .. }) => Err("this is a command, and no question".to_owned()),
            Err(why) => Err(why.to_string()),
        };
        answer(done, reply);
    }
}

fn answer(done: Result<Held, String>, reply: &mut ReplySink<'_>) {
    match done {
        Ok((version, value)) => {
            reply.write(&[0]);
            reply.write(&version.to_le_bytes());
            reply.write(&value);
        }
        Err(why) => {
            reply.write(&[1]);
            reply.write(why.as_bytes());
        }
    }
}

/// The key of a register that takes whatever it is told.
fn passive(name: &[u8]) -> Vec<u8> {
    [b"p", name].concat()
}

/// The key of a register that only claims change.
fn judged(group: &Group, instance: InstanceId) -> Vec<u8> {
    [&b"j"[..], &group.cluster.bits().to_le_bytes(), &instance.number().to_le_bytes()].concat()
}

/// The key of what is known of a cluster's members.
fn members(group: &Group) -> Vec<u8> {
    [&b"g"[..], &group.cluster.bits().to_le_bytes()].concat()
}

/// What a register holds: nothing, in version 0, if nobody wrote it.
fn held(store: &Store, key: &[u8]) -> Result<Held, String> {
    let Some(bytes) = store.get(key) else { return Ok(Held::default()) };
    let (version, value) = bytes.split_first_chunk::<8>().ok_or("a register without a version")?;
    Ok((u64::from_le_bytes(*version), Bytes::copy_from_slice(value)))
}

/// Writes an entry, if there is room for another one.
fn write(store: &mut Store, key: &[u8], value: &[u8]) -> Result<(), String> {
    if store.get(key).is_none() {
        let count = store.get(COUNT).and_then(|bytes| bytes.first_chunk().copied());
        let count = count.map_or(0, u64::from_le_bytes);
        if count >= ENTRIES_MAX {
            return Err(format!("this oracle has {ENTRIES_MAX} registers already, and takes no more"));
        }
        store.put(COUNT, &(count + 1).to_le_bytes());
    }
    store.put(key, value);
    Ok(())
}

fn swap(store: &mut Store, key: &[u8], version: u64, value: &[u8]) -> Result<Held, String> {
    let before = held(store, key)?;
    if before.0 != version {
        return Ok(before);
    }
    write(store, key, &[&(version + 1).to_le_bytes()[..], value].concat())?;
    held(store, key)
}

/// The group that a client belongs to, and whether that is news. It must be the one that is known.
fn known(store: &Store, bytes: Bytes) -> Result<(Group, bool), String> {
    let group = Group::decode(bytes.clone()).map_err(|why| why.to_string())?;
    match store.get(&members(&group)) {
        Some(before) if before[..] != bytes[..] => Err(format!(
            "it knows other members, keys or numbers of cluster {} than those of this replica: whoever came first said them, and may have \
             lied. Compare the configurations; a cluster with another id begins anew",
            group.cluster
        )),
        before => {
            let news = before.is_none();
            Ok((group, news))
        }
    }
}

fn judge(store: &mut Store, instance: InstanceId, bytes: Bytes, claim: Bytes) -> Result<Held, String> {
    let (group, news) = known(store, bytes.clone())?;
    if news {
        write(store, &members(&group), &bytes)?;
    }
    let key = judged(&group, instance);
    let before = held(store, &key)?;
    if claim.is_empty() {
        return Ok(before);
    }
    // Who is refused learns what the register holds.
    match group.judge(instance, before.1.clone(), claim) {
        Ok(Some(next)) => swap(store, &key, before.0, &next),
        Ok(None) | Err(_) => Ok(before),
    }
}
