//! What waits to be sent to a client. Whoever does not read is cut off, and slows nobody.

use bytes::{Bytes, BytesMut};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The most bytes that wait for one client.
pub(crate) const WAITING_MAX: usize = 32 << 20;
/// While more bytes than this wait, no further requests of the client are read.
const MANY: usize = 256 << 10;

/// What waits for a client.
#[derive(Default)]
pub(crate) struct Outbox {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Default)]
struct Waiting {
    bytes: BytesMut,
    /// Whether the connection ends once everything is sent.
    ends: bool,
    /// Whether it ends now.
    is_cut: bool,
}

/// What a connection has to do.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Todo {
    pub(crate) bytes: BytesMut,
    pub(crate) ends: bool,
    pub(crate) is_cut: bool,
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, frame: &Bytes) {
        let mut waiting = self.lock();
        if waiting.bytes.len() + frame.len() > WAITING_MAX {
            waiting.is_cut = true;
        } else {
            waiting.bytes.extend_from_slice(frame);
        }
        drop(waiting);
        self.changed.notify_one();
    }

    pub(crate) fn end(&self) {
        self.lock().ends = true;
        self.changed.notify_one();
    }

    /// Has the connection look again whether its requests may be read.
    pub(crate) fn look(&self) {
        self.changed.notify_one();
    }

    /// Whether so much waits, with what is being sent, that no requests should be read.
    pub(crate) fn is_long(&self, sending: usize) -> bool {
        self.lock().bytes.len() + sending > MANY
    }

    /// Takes everything.
    pub(crate) fn take(&self) -> Todo {
        let mut waiting = self.lock();
        let bytes = std::mem::take(&mut waiting.bytes);
        Todo { bytes, ends: waiting.ends, is_cut: waiting.is_cut }
    }

    /// Waits until there may be something new.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}
