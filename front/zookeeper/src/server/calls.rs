//! What the cluster was asked to do for clients, and what its answers begin with.

use super::{ConnId, PASSWORD_BYTES};
use crate::jute::Reader;
use std::collections::HashMap;

/// Whom an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Nobody: the server said that its sessions live.
    Live,
    /// A client that opens or attaches its session, with this password.
    Session { conn: ConnId, password: [u8; PASSWORD_BYTES] },
    /// A request of a client.
    Request { conn: ConnId, number: u64 },
}

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Calls {
    next: u64,
    list: HashMap<u64, Call>,
}

impl Calls {
    pub(super) fn begin(&mut self, call: Call) -> u64 {
        self.next += 1;
        self.list.insert(self.next, call);
        self.next
    }

    pub(super) fn take(&mut self, token: u64) -> Option<Call> {
        self.list.remove(&token)
    }
}

/// The transaction of an answer.
pub(super) fn zxid_of(answer: &[u8]) -> i64 {
    Reader::new(answer).long().unwrap_or_default()
}

/// The error of an answer; 0 for none.
pub(super) fn error_of(answer: &[u8]) -> i32 {
    let mut from = Reader::new(answer);
    from.long().and_then(|_| from.int()).unwrap_or_default()
}

/// The transaction, the session and its attachment, if the session was opened or attached.
pub(super) fn session_of(answer: &[u8]) -> Option<(i64, i64, i32)> {
    let mut from = Reader::new(answer);
    let (zxid, error) = (from.long().ok()?, from.int().ok()?);
    if error == 0 { Some((zxid, from.long().ok()?, from.int().ok()?)) } else { None }
}
