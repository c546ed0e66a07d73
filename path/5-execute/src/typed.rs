//! Services over ordinary Rust types; serde and postcard make the bytes.
//!
//! The first byte of a reply is [`DONE`], followed by the value; [`UNDECODABLE`] when the service could not decode the command or query; or
//! [`UNENCODABLE`] when its reply could not be encoded.

use crate::around::{MembershipNow, SessionEnd};
use crate::checkpoint::{CheckpointError, CheckpointSink, CheckpointSource, read_all};
use crate::context::Context;
use crate::letters::Letter;
use crate::service::{ReplySink, Service};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

const DONE: u8 = 0;
const UNDECODABLE: u8 = 1;
const UNENCODABLE: u8 = 2;

/// A deterministic service over its own types; [`Typed`] makes a [`Service`] of it. Its checkpoint is the serde encoding: use only ordered
/// types (no hash map), so that equal states give equal bytes. Command types should not contain themselves: a client could nest them until
/// the stack overflows.
pub trait TypedService: Serialize + DeserializeOwned + Send {
    /// A command, which is ordered.
    type Command: DeserializeOwned;
    /// The reply to a command.
    type Reply: Serialize;
    /// A query, which reads and is not ordered.
    type Query: DeserializeOwned;
    /// The answer to a query.
    type Answer: Serialize;

    /// Runs one command.
    fn execute(&mut self, command: Self::Command, ctx: &Context) -> Self::Reply;
    /// Answers one query.
    fn query(&self, query: Self::Query, ctx: &Context) -> Self::Answer;

    /// The session of `ctx` ended, as [`Service::session_ended`] says.
    fn session_ended(&mut self, why: SessionEnd, ctx: &Context) {
        let _ = (why, ctx);
    }
    /// A change of the membership is done, as [`Service::membership_changed`] says.
    fn membership_changed(&mut self, now: &MembershipNow, ctx: &Context) {
        let _ = (now, ctx);
    }
    /// Takes the letters since the last call, as [`Service::take_letters`] says.
    fn take_letters(&mut self) -> Vec<Letter> {
        Vec::new()
    }
}

/// The adapter from [`TypedService`] to [`Service`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Typed<T>(pub T);

impl<T: TypedService> Service for Typed<T> {
    fn execute(&mut self, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        match decode(command) {
            Some(command) => write_value(&self.0.execute(command, ctx), reply),
            None => reply.write(&[UNDECODABLE]),
        }
    }

    fn query(&self, query: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        match decode(query) {
            Some(query) => write_value(&self.0.query(query, ctx), reply),
            None => reply.write(&[UNDECODABLE]),
        }
    }

    fn session_ended(&mut self, why: SessionEnd, ctx: &Context) {
        self.0.session_ended(why, ctx);
    }

    fn membership_changed(&mut self, now: &MembershipNow, ctx: &Context) {
        self.0.membership_changed(now, ctx);
    }

    fn take_letters(&mut self) -> Vec<Letter> {
        self.0.take_letters()
    }

    fn checkpoint(&self, out: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        let bytes = postcard::to_stdvec(&self.0).map_err(|why| CheckpointError::Storage(why.to_string()))?;
        out.write(&bytes)
    }

    fn restore(&mut self, from: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        let bytes = read_all(from, usize::MAX)?;
        self.0 = decode(&bytes).ok_or(CheckpointError::Malformed("the service's state"))?;
        Ok(())
    }
}

/// Decodes a value that fills `bytes`. Bytes left over are an error: a command of a newer form could otherwise be taken for an older one.
fn decode<V: DeserializeOwned>(bytes: &[u8]) -> Option<V> {
    postcard::take_from_bytes(bytes).ok().filter(|(_, rest)| rest.is_empty()).map(|(value, _)| value)
}

fn write_value(value: &impl Serialize, reply: &mut ReplySink<'_>) {
    reply.write(&[DONE]);
    if postcard::to_io(value, &mut *reply).is_err() {
        reply.restart();
        reply.write(&[UNENCODABLE]);
    }
}

/// Why a typed call gave no value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TypedError {
    /// The service could not decode the command or query, since client and service have different versions. It changed nothing.
    Undecodable,
    /// The service ran the command, but could not encode its reply.
    Unencodable,
    /// The reply does not have this type.
    UnknownReply,
    /// The command could not be encoded; the text says why.
    Command(String),
}

impl fmt::Display for TypedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undecodable => f.write_str(
                "the service could not read the command and did nothing; do client and service use the same types?",
            ),
            Self::Unencodable => f.write_str("the service ran the command, but its reply could not be encoded"),
            Self::UnknownReply => {
                f.write_str("the reply is not of the expected type; do client and service use the same types?")
            }
            Self::Command(why) => write!(f, "the command could not be encoded: {why}"),
        }
    }
}

impl std::error::Error for TypedError {}

/// Encodes a command or query for a typed service.
///
/// # Errors
/// When the value's own `Serialize` fails.
pub fn encode_command(command: &impl Serialize) -> Result<Vec<u8>, TypedError> {
    postcard::to_stdvec(command).map_err(|why| TypedError::Command(why.to_string()))
}

/// Decodes the value in a letter, which the service encoded with [`encode_command`].
///
/// # Errors
/// When the letter has another type.
pub fn decode_letter<V: DeserializeOwned>(body: &[u8]) -> Result<V, TypedError> {
    decode(body).ok_or(TypedError::UnknownReply)
}

/// Decodes the value in a typed service's reply or answer.
///
/// # Errors
/// When the service could not decode the request, or the reply has another type.
pub fn decode_reply<R: DeserializeOwned>(reply: &[u8]) -> Result<R, TypedError> {
    match reply.split_first() {
        Some((&DONE, value)) => decode(value).ok_or(TypedError::UnknownReply),
        Some((&UNDECODABLE, [])) => Err(TypedError::Undecodable),
        Some((&UNENCODABLE, [])) => Err(TypedError::Unencodable),
        _ => Err(TypedError::UnknownReply),
    }
}
