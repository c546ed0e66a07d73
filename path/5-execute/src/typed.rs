//! Services over ordinary Rust types; serde makes the bytes (`typed/form.rs`).
//!
//! The first byte of a reply is [`DONE`], followed by the value; [`UNDECODABLE`] when the service could not decode the command or query;
//! [`UNENCODABLE`] when its reply could not be encoded; or [`TOO_NEW`] when the level of the service does not allow the command yet, followed
//! by the version that it needs and the level, each a u32.
//!
//! Programs of two versions run the same commands while a service is upgraded, and must do the same. So a command says in front which version
//! it needs, and each program compares that with the level, which all have in common. One that says too little is undecodable to both: the
//! older program does not know what it holds, and the newer one sees that ([`TypedService::since`]). Tests: `tests/all/served.rs`.

use crate::around::{MembershipNow, SessionEnd};
use crate::checkpoint::{CheckpointError, CheckpointSink, CheckpointSource, read_all};
use crate::context::Context;
use crate::letters::Letter;
use crate::service::{ReplySink, Service, no_migration};
use quorate_types::AgreedTime;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

mod form;

use form::Form;

const DONE: u8 = 0;
const UNDECODABLE: u8 = 1;
const UNENCODABLE: u8 = 2;
const TOO_NEW: u8 = 3;

/// A deterministic service over its own types; [`Typed`] makes a [`Service`] of it. Its checkpoint is the serde encoding, with the names of
/// fields and variants: use only ordered types (no hash map), so that equal states give equal bytes. An `Option` whose value is an `Option` or
/// `()` is not told from `None`.
///
/// docs/evolution.md says how a service changes after its first release.
pub trait TypedService: Serialize + DeserializeOwned + Send {
    /// A command, which is ordered.
    type Command: DeserializeOwned;
    /// The reply to a command.
    type Reply: Serialize;
    /// A query, which reads and is not ordered.
    type Query: DeserializeOwned;
    /// The answer to a query.
    type Answer: Serialize;

    /// What the service is called: up to 64 letters, digits, `-` and `_`. Configuration, replicas, clients and backups name it so, and are
    /// refused if they name another one. Empty: it has no name.
    const NAME: &'static str = "";
    /// The version of this program, which counts the releases in which commands, state or behaviour changed. [`Context::service_level`] is the
    /// version by which all replicas behave: at a lower level this program must do what that version did, and write the same state.
    const VERSION: u32 = 1;

    /// Runs one command.
    fn execute(&mut self, command: Self::Command, ctx: &Context) -> Self::Reply;
    /// Answers one query.
    fn query(&self, query: Self::Query, ctx: &Context) -> Self::Answer;

    /// The version that brought this kind of command, or a field that this command uses. It is refused below that level
    /// ([`TypedError::TooNew`]).
    fn since(command: &Self::Command) -> u32 {
        let _ = command;
        1
    }
    /// The version that brought this kind of query, or a field that it uses.
    fn query_since(query: &Self::Query) -> u32 {
        let _ = query;
        1
    }
    /// The level rises from `from` to `ctx.service_level()`, as [`Service::migrate`] says: makes this state that of the newer version. What an
    /// error leaves of it does not count. Every service with a version above 1 has one; often there is nothing to do but `Ok(())`.
    ///
    /// # Errors
    /// Why the state can not be that of the newer version, for people. Then the level stays.
    fn migrate(&mut self, from: u32, ctx: &Context) -> Result<(), String> {
        Err(no_migration(from, ctx.service_level()))
    }

    /// When this service wants [`Self::deadline_reached`] to be called, as [`Service::next_deadline`] says.
    fn next_deadline(&self) -> Option<AgreedTime> {
        None
    }
    /// [`Self::next_deadline`] has passed, as [`Service::deadline_reached`] says.
    fn deadline_reached(&mut self, ctx: &Context) {
        let _ = ctx;
    }
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
    fn name(&self) -> &str {
        T::NAME
    }

    fn version(&self) -> u32 {
        T::VERSION
    }

    fn migrate(&mut self, from: u32, ctx: &Context) -> Result<(), String> {
        let before = form::state(&self.0)?;
        let done = self.0.migrate(from, ctx).and_then(|()| form::state(&self.0).map(drop));
        if done.is_err() {
            self.0 = form::read_state(&before)
                .ok_or("the state can not be read back: its encoding loses something")?;
        }
        done
    }

    fn execute(&mut self, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        if let Some((form, command)) = taken(command, T::since, ctx, reply) {
            write_value(form, &self.0.execute(command, ctx), reply);
        }
    }

    fn query(&self, query: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        if let Some((form, query)) = taken(query, T::query_since, ctx, reply) {
            write_value(form, &self.0.query(query, ctx), reply);
        }
    }

    fn next_deadline(&self) -> Option<AgreedTime> {
        self.0.next_deadline()
    }

    fn deadline_reached(&mut self, ctx: &Context) {
        self.0.deadline_reached(ctx);
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
        out.write(&form::state(&self.0).map_err(CheckpointError::Storage)?)
    }

    fn restore(&mut self, from: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        let bytes = read_all(from, usize::MAX)?;
        self.0 = form::read_state(&bytes).ok_or(CheckpointError::Malformed(
            "the service's state: it does not fit the types of this program. A field that is new needs `serde(default)`, one that has another \
             name `serde(rename)` (docs/evolution.md)",
        ))?;
        Ok(())
    }
}

/// The command or query in these bytes. Otherwise the reply is written: every program writes the same, whatever its version.
fn taken<V: DeserializeOwned>(
    bytes: &[u8],
    since: fn(&V) -> u32,
    ctx: &Context,
    reply: &mut ReplySink<'_>,
) -> Option<(Form, V)> {
    let ((form, version, value), level) = (form::opened(bytes), ctx.service_level());
    if version > level {
        reply.write(&[TOO_NEW]);
        reply.write(&version.to_le_bytes());
        reply.write(&level.to_le_bytes());
        return None;
    }
    match form.read(value) {
        Some(value) if since(&value) <= version => Some((form, value)),
        _ => {
            reply.write(&[UNDECODABLE]);
            None
        }
    }
}

fn write_value(form: Form, value: &impl Serialize, reply: &mut ReplySink<'_>) {
    reply.write(&[DONE]);
    if form.write(value, &mut *reply).is_err() {
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
    /// The level of the service does not allow this command yet. It changed nothing.
    TooNew {
        /// The version that brought the command.
        needs: u32,
        /// The level of the service.
        level: u32,
    },
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
            Self::TooNew { needs, level } => write!(
                f,
                "the command needs version {needs} of the service, which is at level {level}, and did nothing: raise the level once all replicas \
                 run the newer program (`quorate upgrade raise --service`)"
            ),
        }
    }
}

impl std::error::Error for TypedError {}

/// Encodes a command or query that a typed service has had since its first version, or a value for a letter.
///
/// # Errors
/// When the value's own `Serialize` fails.
pub fn encode_command(command: &impl Serialize) -> Result<Vec<u8>, TypedError> {
    encode_command_since(command, 1)
}

/// Encodes a command or query that a typed service has had since this version ([`TypedService::since`]).
///
/// # Errors
/// When the value's own `Serialize` fails.
pub fn encode_command_since(command: &impl Serialize, version: u32) -> Result<Vec<u8>, TypedError> {
    form::closed(command, version).map_err(TypedError::Command)
}

/// Decodes the value in a letter, which the service encoded with [`encode_command`].
///
/// # Errors
/// When the letter has another type.
pub fn decode_letter<V: DeserializeOwned>(body: &[u8]) -> Result<V, TypedError> {
    let (form, _, value) = form::opened(body);
    form.read(value).ok_or(TypedError::UnknownReply)
}

/// Decodes the value in a typed service's reply or answer.
///
/// # Errors
/// When the service could not decode the request, or the reply has another type.
pub fn decode_reply<R: DeserializeOwned>(reply: &[u8]) -> Result<R, TypedError> {
    match reply.split_first() {
        Some((&DONE, value)) => Form::Named.read(value).ok_or(TypedError::UnknownReply),
        Some((&UNDECODABLE, [])) => Err(TypedError::Undecodable),
        Some((&UNENCODABLE, [])) => Err(TypedError::Unencodable),
        Some((&TOO_NEW, rest)) => Err(match rest.split_first_chunk::<4>() {
            Some((needs, level)) if level.len() == 4 => {
                let level = level.iter().rev().fold(0, |level, byte| level << 8 | u32::from(*byte));
                TypedError::TooNew { needs: u32::from_le_bytes(*needs), level }
            }
            _ => TypedError::UnknownReply,
        }),
        _ => Err(TypedError::UnknownReply),
    }
}
