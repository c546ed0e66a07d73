//! A session of a client.

use super::driver::Ask;
use super::oneshot::Waiting;
use super::{Client, Encoded, Error, Replies};
use quorate_client::{Completion, SessionHandle};
use quorate_types::SessionId;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// A session: its calls run in the order in which they were made, each exactly once. Dropping it closes it, after the calls that were made
/// before.
#[derive(Debug)]
pub struct Session {
    client: Client,
    handle: SessionHandle,
    id: SessionId,
    timeout: Duration,
    open: bool,
}

impl Session {
    pub(crate) fn new(client: Client, handle: SessionHandle, id: SessionId) -> Self {
        let timeout = client.timeout;
        Self { client, handle, id, timeout, open: true }
    }

    /// Its id in the cluster: what the service sees as the session of its commands, and what letters and replies of single replicas name.
    pub const fn id(&self) -> SessionId {
        self.id
    }

    pub(crate) const fn handle(&self) -> SessionHandle {
        self.handle
    }

    /// How long calls wait for their answer.
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Sets another time-out for the calls from here on.
    pub const fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Runs commands, all or none. They are under way when this returns; the future waits for the replies, and dropping it
    /// withdraws nothing. Many calls may be under way.
    pub fn call(&self, commands: impl Into<Encoded>) -> CallFuture {
        let deadline = self.client.handle.shared.deadline(self.timeout);
        let ask = Ask::Call { session: self.handle, commands: commands.into().0, deadline };
        CallFuture { waiting: self.client.ask(ask) }
    }

    /// Runs one command.
    pub fn call_one(&self, command: &[u8]) -> CallFuture {
        self.call(Encoded::one(command))
    }

    /// Closes the session after the calls that were made before, and waits until the cluster has done so.
    ///
    /// # Errors
    /// When the cluster did not answer in time; the session then expires there.
    pub async fn close(mut self) -> Result<(), Error> {
        self.open = false;
        let deadline = self.client.handle.shared.deadline(self.timeout);
        self.client.ask(Ask::Close { session: self.handle, deadline }).await.map(drop)
    }
}

/// Waits for the replies of one call.
#[derive(Debug)]
#[must_use = "the call is under way, but nobody learns how it ends"]
pub struct CallFuture {
    waiting: Waiting,
}

impl Future for CallFuture {
    type Output = Result<Replies, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.waiting).poll(cx).map(|outcome| match outcome? {
            Completion::Replies(body) => Ok(Replies::new(body)),
            _ => Err(Error::SessionClosed),
        })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.open {
            self.client.handle.close_unwatched(self.handle);
        }
    }
}
