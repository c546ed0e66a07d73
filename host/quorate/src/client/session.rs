//! A session of a client.

use super::driver::Ask;
use super::{Client, Commands, Encoded, Error, Replies};
use quorate_client::{Completion, SessionHandle};
use std::future::Future;
use std::time::Duration;

/// A session: its calls run in the order in which they were made, each exactly once. Dropping it closes it, after what
/// was asked before.
#[derive(Debug)]
pub struct Session {
    client: Client,
    handle: SessionHandle,
    timeout: Duration,
    open: bool,
}

impl Session {
    pub(crate) fn new(client: Client, handle: SessionHandle) -> Self {
        let timeout = client.timeout;
        Self { client, handle, timeout, open: true }
    }

    pub(crate) const fn handle(&self) -> SessionHandle {
        self.handle
    }

    /// How long calls wait for their answer.
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Another time-out for the calls from here on.
    pub const fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Runs commands, all or none. They are under way when this returns; the future waits for the replies, and dropping it
    /// withdraws nothing. Many calls may be under way.
    pub fn call(
        &self,
        commands: impl Into<Encoded>,
    ) -> impl Future<Output = Result<Replies, Error>> + Send + 'static + use<'_, impl Into<Encoded>> {
        let deadline = self.client.handle.shared.deadline(self.timeout);
        let waiting = self.client.ask(Ask::Call { session: self.handle, commands: commands.into().0, deadline });
        async move {
            match waiting.await? {
                Completion::Replies(body) => Ok(Replies::new(body)),
                _ => Err(Error::SessionClosed),
            }
        }
    }

    /// Runs one command and waits for its reply.
    pub fn call_one(&self, command: &[u8]) -> impl Future<Output = Result<Replies, Error>> + Send + 'static {
        let mut commands = Commands::new();
        commands.push(command);
        self.call(&commands)
    }

    /// Closes the session after what was asked before, and waits until the cluster has done so.
    ///
    /// # Errors
    /// When the cluster did not answer in time; the session then expires there by itself.
    pub async fn close(mut self) -> Result<(), Error> {
        self.open = false;
        let deadline = self.client.handle.shared.deadline(self.timeout);
        self.client.ask(Ask::Close { session: self.handle, deadline }).await.map(drop)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.open {
            self.client.handle.close_unwatched(self.handle);
        }
    }
}
