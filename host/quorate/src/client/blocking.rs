//! The client for threads that wait.

use super::oneshot::block_on;
use super::{Client, Encoded, Error, ReadOptions, ReadResult, Replies, Session};
use bytes::Bytes;
use quorate_types::{ReplicaId, Seq, SessionId};

/// A [`Client`] whose calls wait on the calling thread. Not for use inside an asynchronous runtime.
#[derive(Clone, Debug)]
pub struct BlockingClient {
    client: Client,
}

impl BlockingClient {
    pub(crate) const fn new(client: Client) -> Self {
        Self { client }
    }

    /// The asynchronous client behind it.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// As [`Client::newest`].
    pub fn newest(&self) -> Seq {
        self.client.newest()
    }

    /// Opens a session.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn open_session(&self) -> Result<BlockingSession, Error> {
        block_on(self.client.open_session()).map(|session| BlockingSession { session })
    }

    /// Reads.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn read(&self, query: impl Into<Bytes>, options: ReadOptions) -> Result<ReadResult, Error> {
        block_on(self.client.read(query, options))
    }

    /// As [`Client::read_each`], and waits for all of them.
    pub fn read_each(
        &self,
        query: impl Into<Bytes>,
        replicas: impl IntoIterator<Item = ReplicaId>,
        options: ReadOptions,
    ) -> Vec<(ReplicaId, Result<ReadResult, Error>)> {
        let reads = self.client.read_each(query, replicas, options);
        reads.into_iter().map(|(replica, read)| (replica, block_on(read))).collect()
    }

    /// As [`Client::status`].
    ///
    /// # Errors
    /// Those of [`Client::status`].
    pub fn status(&self, replica: ReplicaId) -> Result<String, Error> {
        block_on(self.client.status(replica))
    }

    /// As [`Client::transfer`].
    ///
    /// # Errors
    /// Those of [`Client::transfer`].
    pub fn transfer(&self, to: Option<ReplicaId>) -> Result<String, Error> {
        block_on(self.client.transfer(to))
    }
}

/// A [`Session`] whose calls wait on the calling thread.
#[derive(Debug)]
pub struct BlockingSession {
    session: Session,
}

impl BlockingSession {
    /// The asynchronous session behind it.
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// As [`Session::id`].
    pub const fn id(&self) -> SessionId {
        self.session.id()
    }

    /// Runs commands, all or none, and waits for the replies.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn call(&self, commands: impl Into<Encoded>) -> Result<Replies, Error> {
        block_on(self.session.call(commands))
    }

    /// Runs one command.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn call_one(&self, command: &[u8]) -> Result<Replies, Error> {
        block_on(self.session.call_one(command))
    }

    /// As [`Session::close`].
    ///
    /// # Errors
    /// Those of [`Session::close`].
    pub fn close(self) -> Result<(), Error> {
        block_on(self.session.close())
    }
}
