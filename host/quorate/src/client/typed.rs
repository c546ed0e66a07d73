//! Sessions and reads of a [`TypedService`]: values go in and come out, so no caller encodes or decodes, and the types are the service's own.
//! Tests: tests/all/typed.rs.

use super::oneshot::block_on;
use super::{BlockingClient, CallFuture, Client, Commands, Error, ReadOptions, Replies, Session};
use quorate_execute::{TypedError, TypedService, decode_reply, encode_command_since};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;

/// Why a typed call or query gave no value.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TypedCallError {
    /// The call ended without replies.
    Call(Error),
    /// A value could not be encoded or decoded.
    Value(TypedError),
}

impl TypedCallError {
    /// Whether the commands may have run. A value that could not be encoded was not sent.
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(self, Self::Call(why) if why.is_outcome_unknown())
    }
}

impl fmt::Display for TypedCallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(why) => why.fmt(f),
            Self::Value(why) => why.fmt(f),
        }
    }
}

/// A `main` that returns it prints it by `Debug`.
impl fmt::Debug for TypedCallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for TypedCallError {}

impl From<Error> for TypedCallError {
    fn from(why: Error) -> Self {
        Self::Call(why)
    }
}

impl From<TypedError> for TypedCallError {
    fn from(why: TypedError) -> Self {
        Self::Value(why)
    }
}

/// A session with a typed service. Its calls run in the order in which they were made, each exactly once.
#[derive(Debug)]
pub struct TypedSession<T> {
    session: Session,
    service: PhantomData<fn() -> T>,
}

impl<T: TypedService> TypedSession<T>
where
    T::Command: Serialize,
    T::Reply: DeserializeOwned,
{
    /// The session, for what goes beyond values.
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// The session, to set its time-out.
    pub const fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Runs one command. It is under way when this returns; the future waits for the reply, and dropping it withdraws nothing.
    pub fn call(
        &self,
        command: &T::Command,
    ) -> impl Future<Output = Result<T::Reply, TypedCallError>> + use<T> {
        let call =
            encode_command_since(command, T::since(command)).map(|bytes| self.session.call_one(&bytes));
        async move {
            let replies = call?.await?;
            Ok(decode_reply(replies.first().unwrap_or_default())?)
        }
    }

    /// Runs commands one after the other, with no other command in between, all or none. They are under way when this returns; the future gives
    /// a reply for each.
    pub fn call_all(
        &self,
        commands: &[T::Command],
    ) -> impl Future<Output = Result<Vec<T::Reply>, TypedCallError>> + use<T> {
        let call = self.calls(commands);
        async move { values(&call?.await?) }
    }

    fn calls(&self, commands: &[T::Command]) -> Result<CallFuture, TypedCallError> {
        let mut list = Commands::new();
        for command in commands {
            list.push(&encode_command_since(command, T::since(command))?);
        }
        Ok(self.session.call(&list))
    }

    /// Closes the session after the calls that were made before.
    ///
    /// # Errors
    /// Those of [`Session::close`].
    pub async fn close(self) -> Result<(), Error> {
        self.session.close().await
    }
}

fn values<V: DeserializeOwned>(replies: &Replies) -> Result<Vec<V>, TypedCallError> {
    replies.iter().map(|reply| decode_reply(reply).map_err(TypedCallError::from)).collect()
}

impl Client {
    /// Opens a session with a typed service. If the service has a name, and the cluster says that it runs another one, that is an error.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn open<T: TypedService>(&self) -> Result<TypedSession<T>, Error> {
        let session = self.open_session().await?;
        self.means(T::NAME)?;
        Ok(TypedSession { session, service: PhantomData })
    }

    /// Asks a typed service. The query is under way when this returns; the future waits for the answer.
    pub fn query<T: TypedService>(
        &self,
        query: &T::Query,
        options: ReadOptions,
    ) -> impl Future<Output = Result<T::Answer, TypedCallError>> + use<T>
    where
        T::Query: Serialize,
        T::Answer: DeserializeOwned,
    {
        let read = encode_command_since(query, T::query_since(query)).map(|bytes| self.read(bytes, options));
        let client = self.clone();
        async move {
            let result = read?.await?;
            client.means(T::NAME)?;
            Ok(decode_reply(&result.body)?)
        }
    }
}

/// A [`TypedSession`] whose calls wait on the calling thread.
#[derive(Debug)]
pub struct BlockingTypedSession<T> {
    session: TypedSession<T>,
}

impl<T: TypedService> BlockingTypedSession<T>
where
    T::Command: Serialize,
    T::Reply: DeserializeOwned,
{
    /// The asynchronous session behind it.
    pub const fn session(&self) -> &TypedSession<T> {
        &self.session
    }

    /// Runs one command, and waits for its reply.
    ///
    /// # Errors
    /// See [`TypedCallError`].
    pub fn call(&self, command: &T::Command) -> Result<T::Reply, TypedCallError> {
        block_on(self.session.call(command))
    }

    /// As [`TypedSession::call_all`], and waits for the replies.
    ///
    /// # Errors
    /// See [`TypedCallError`].
    pub fn call_all(&self, commands: &[T::Command]) -> Result<Vec<T::Reply>, TypedCallError> {
        block_on(self.session.call_all(commands))
    }

    /// As [`Session::close`].
    ///
    /// # Errors
    /// Those of [`Session::close`].
    pub fn close(self) -> Result<(), Error> {
        block_on(self.session.close())
    }
}

impl BlockingClient {
    /// As [`Client::open`].
    ///
    /// # Errors
    /// See [`Error`].
    pub fn open<T: TypedService>(&self) -> Result<BlockingTypedSession<T>, Error> {
        block_on(self.client().open()).map(|session| BlockingTypedSession { session })
    }

    /// As [`Client::query`], and waits for the answer.
    ///
    /// # Errors
    /// See [`TypedCallError`].
    pub fn query<T: TypedService>(
        &self,
        query: &T::Query,
        options: ReadOptions,
    ) -> Result<T::Answer, TypedCallError>
    where
        T::Query: Serialize,
        T::Answer: DeserializeOwned,
    {
        block_on(self.client().query::<T>(query, options))
    }
}
