//! The bytes of a typed service's values: MessagePack with the names of fields and variants, so that a later version can read them.
//!
//! ```text
//! command, query   c1 "svc" | version u32 | value: the version that brought what the value has
//! reply, answer    status u8 | value
//! state            c1 "state" 01 | value
//! ```
//!
//! The byte c1 begins no MessagePack value. What begins otherwise was written by a program of before, as postcard, and belongs to version 1.
//! Equal values have equal bytes, as long as their types are ordered. A field that a type does not have is an error in what is read here, and
//! is not passed over: an older program would take the command, or the state, for another one than it is. Docs:
//! docs/decisions/0067-a-service-has-a-level.md.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;

/// Stands before a command or a query.
const COMMAND: [u8; 4] = *b"\xc1svc";
/// Stands before a state.
const STATE: [u8; 7] = *b"\xc1state\x01";
/// A value may contain itself, so a client could nest it until the stack overflows.
const DEPTH_MAX: usize = 128;

/// How a value is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// MessagePack with names.
    Named,
    /// Postcard, as before.
    Bare,
}

impl Form {
    pub(super) fn write<W: io::Write>(self, value: &impl Serialize, out: W) -> Result<(), String> {
        match self {
            Self::Named => {
                let mut serializer = rmp_serde::Serializer::new(out).with_struct_map();
                value.serialize(&mut serializer).map_err(|why| why.to_string())
            }
            Self::Bare => postcard::to_io(value, out).map(drop).map_err(|why| why.to_string()),
        }
    }

    /// Reads a value that fills `bytes`. Bytes left over are an error: a value of a newer form could otherwise be taken for an older one.
    pub(super) fn read<V: DeserializeOwned>(self, bytes: &[u8]) -> Option<V> {
        if self == Self::Bare {
            let read = postcard::take_from_bytes(bytes).ok();
            return read.filter(|(_, rest)| rest.is_empty()).map(|(value, _)| value);
        }
        let (mut rest, mut unknown) = (bytes, false);
        let mut deserializer = rmp_serde::Deserializer::new(&mut rest);
        deserializer.set_max_depth(DEPTH_MAX);
        let value = serde_ignored::deserialize(&mut deserializer, |_| unknown = true).ok()?;
        (rest.is_empty() && !unknown).then_some(value)
    }
}

/// A command or query as it came: the version that brought what it has, and its value.
pub(super) fn opened(bytes: &[u8]) -> (Form, u32, &[u8]) {
    let named = bytes.strip_prefix(&COMMAND).and_then(|rest| rest.split_first_chunk());
    match named {
        Some((version, value)) => (Form::Named, u32::from_le_bytes(*version), value),
        None => (Form::Bare, 1, bytes),
    }
}

/// The bytes of a command or query, which this version brought.
pub(super) fn closed(value: &impl Serialize, version: u32) -> Result<Vec<u8>, String> {
    let mut out = COMMAND.to_vec();
    out.extend_from_slice(&version.to_le_bytes());
    Form::Named.write(value, &mut out)?;
    Ok(out)
}

/// The bytes of a state.
pub(super) fn state(value: &impl Serialize) -> Result<Vec<u8>, String> {
    let mut out = STATE.to_vec();
    Form::Named.write(value, &mut out)?;
    Ok(out)
}

/// Reads a state.
pub(super) fn read_state<V: DeserializeOwned>(bytes: &[u8]) -> Option<V> {
    match bytes.strip_prefix(&STATE) {
        Some(value) => Form::Named.read(value),
        None => Form::Bare.read(bytes),
    }
}
