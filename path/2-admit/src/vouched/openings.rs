//! Openings with a key, before a leader proposes them: replicas tell each other of them, so that all of them hear of one, or no leader has to.
//!
//! A request is signed with its session's key; what opens a session can not be. A client that tells its opening to the leader only would
//! hold up the slot in which that proposes it. So a replica that hears one says so to all, and says it, too, once f+1 others did; a leader
//! proposes what 2f+1 said, itself among them: f+1 of these are honest, so every honest replica hears f+1, one of which is honest, and
//! vouches. What fewer said nobody waits for. It is a broadcast by echoes, without its last step: that a slot decides is enough.
//!
//! Of each client few are said at a time: what waits behind them is said when those are executed. Source: Bracha, "Asynchronous Byzantine
//! Agreement Protocols", Information and Computation 75, 1987. Tests: openings/tests.rs, check/sim/tests/all/signed.rs.

use super::CLAIM_TIME;
use super::heard::Heard;
use bytes::Bytes;
use quorate_types::{ClientId, RequestNumber, Span, Time};
use quorate_wire::{RequestKind, Requests, read_opening};
use std::collections::BTreeMap;

/// Openings of one client that are said at a time.
const SAID_OF_CLIENT: usize = 64;
/// No more are known to have been said.
const SAID_MAX: usize = 1 << 14;
/// What waits for so long is said once more: connections break.
const SAY_AGAIN: Span = Span::from_secs(1);

/// What this replica said that clients asked.
#[derive(Debug, Default)]
pub(super) struct Openings {
    /// By client and nonce: the whole request, and when.
    said: BTreeMap<(ClientId, RequestNumber), (Bytes, Time)>,
    /// To be said at the end of the turn.
    saying: Vec<u8>,
}

impl Openings {
    /// It was executed.
    pub(super) fn opened(&mut self, client: ClientId, nonce: RequestNumber) {
        self.said.remove(&(client, nonce));
    }

    /// Says it at the end of the turn, unless that was done lately, or another one of that name was said.
    fn say(&mut self, now: Time, key: (ClientId, RequestNumber), whole: &[u8]) {
        match self.said.get_mut(&key) {
            Some((said, at)) if *said == whole && now.since(*at) > SAY_AGAIN => *at = now,
            Some(_) => return,
            None => {
                if self.said.len() >= SAID_MAX {
                    self.said.pop_first();
                }
                self.said.insert(key, (Bytes::copy_from_slice(whole), now));
            }
        }
        self.saying.extend_from_slice(whole);
    }

    /// Whether this replica said it.
    fn is_said(&self, key: &(ClientId, RequestNumber), whole: &[u8]) -> bool {
        self.said.get(key).is_some_and(|(said, _)| *said == whole)
    }

    /// How many members say of an opening with a key that they heard it, this one included; none for any other request.
    pub(super) fn said_by(&self, heard: &Heard, bytes: &[u8]) -> Option<usize> {
        let key = opening(bytes)?;
        Some(heard.told_by(bytes) + usize::from(self.is_said(&key, bytes)))
    }

    /// A client said this to this replica.
    pub(super) fn hear(&mut self, now: Time, heard: &Heard, bytes: &[u8]) {
        if let Some((client, nonce)) = opening(bytes)
            && heard.openings_before(client, nonce, SAID_OF_CLIENT) < SAID_OF_CLIENT
        {
            self.say(now, (client, nonce), bytes);
        }
    }

    /// Enough members say that a client opens a session: one of them does not lie.
    pub(super) fn told(&mut self, now: Time, bytes: &[u8]) {
        if let Some(key) = opening(bytes) {
            self.say(now, key, bytes);
        }
    }

    /// Says once more what waits, and now what waited behind others of its client.
    pub(super) fn say_what_waits(&mut self, now: Time, heard: &Heard) {
        for bytes in heard.first_openings(SAID_OF_CLIENT) {
            if let Some(key) = opening(bytes) {
                self.say(now, key, bytes);
            }
        }
        self.said.retain(|_, (_, at)| now.since(*at) <= CLAIM_TIME);
    }

    /// What is to be said at the end of a turn.
    pub(super) fn take_saying(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.saying)
    }
}

/// Who opens a session with a key, and with which nonce.
pub(super) fn opening(bytes: &[u8]) -> Option<(ClientId, RequestNumber)> {
    let (header, body, _) = Requests::new(bytes).flatten().next()?;
    let (client, key) = read_opening(body);
    (header.kind == RequestKind::OpenSession && key.is_some()).then_some((client, header.number))
}

#[cfg(test)]
mod tests;
