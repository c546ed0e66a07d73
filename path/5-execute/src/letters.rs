//! Letters: what a service sends to a session that did not ask for it, such as news to those who subscribed.
//!
//! A service hands its letters over after each batch ([`Service::take_letters`](crate::Service::take_letters)). They leave with the outcomes
//! of their batch once that is final, as ordered events do, and are no part of the state. Each has a number in its session, from 1 and
//! without gaps, so that its reader sees what it missed. [`Letters`] keeps these numbers, as a part of the service's state.
//!
//! Source: Bessani, Sousa, Alchieri, "State Machine Replication for the Masses with BFT-SMaRt", DSN 2014, section 4 (a replier of the
//! service's own, with which the reply to one client goes to another one: publish-subscribe, firewalls).
//! docs/decisions/0060-letters.md. Tests: `tests/all/letters.rs`.

use bytes::Bytes;
use quorate_types::SessionId;
use quorate_wire::LETTER_BYTES_MAX;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A letter of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// The session that gets it. If that is over, or its client does not listen, the letter is lost.
    pub to: SessionId,
    /// How many letters this session was sent, with this one. A session's first letter has the number 1.
    pub number: u64,
    /// What the service says, at most 256 KiB. A longer letter is not sent.
    pub body: Bytes,
}

/// A letter is longer than [`Letters::BYTES_MAX`], and was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LetterTooLong {
    /// Its bytes.
    pub bytes: usize,
}

impl fmt::Display for LetterTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a letter of {} bytes is not sent; the most are {}", self.bytes, Letters::BYTES_MAX)
    }
}

impl std::error::Error for LetterTooLong {}

/// Numbers the letters of a service, and holds those of the present batch. Keep it in the service's state, since the numbers must be the same
/// at all replicas and go on after a restart; letters that were not taken yet are no part of the state, and serde leaves them out.
///
/// A service in the object store keeps the numbers there instead, and makes each [`Letter`] itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Letters {
    /// How many letters were sent to each session, by [`SessionId::number`].
    sent: BTreeMap<u64, u64>,
    #[serde(skip)]
    waiting: Vec<Letter>,
}

impl Letters {
    /// The most bytes in a letter.
    pub const BYTES_MAX: usize = LETTER_BYTES_MAX;

    /// Sends a letter to a session. Returns its number.
    ///
    /// # Errors
    /// When it is too long; nothing is sent then.
    pub fn send(&mut self, to: SessionId, body: impl Into<Bytes>) -> Result<u64, LetterTooLong> {
        let body = body.into();
        if body.len() > Self::BYTES_MAX {
            return Err(LetterTooLong { bytes: body.len() });
        }
        let sent = self.sent.entry(to.number()).or_default();
        *sent += 1;
        self.waiting.push(Letter { to, number: *sent, body });
        Ok(*sent)
    }

    /// How many letters this session was sent.
    pub fn sent(&self, to: SessionId) -> u64 {
        self.sent.get(&to.number()).copied().unwrap_or(0)
    }

    /// Forgets a session. Call it in [`Service::session_ended`](crate::Service::session_ended), or numbers of sessions that are over stay
    /// in the state.
    pub fn session_ended(&mut self, session: SessionId) {
        self.sent.remove(&session.number());
    }

    /// Takes the letters since the last call, in their order; for [`Service::take_letters`](crate::Service::take_letters).
    pub fn take(&mut self) -> Vec<Letter> {
        std::mem::take(&mut self.waiting)
    }
}
