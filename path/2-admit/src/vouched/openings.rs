//! Openings with a key, before a leader proposes them. Replicas tell each other of them, so that either all hear of an opening or no leader
//! need propose it.
//!
//! A request is signed with its session's key, but the opening that brings the key can not be vouched for in this way. A client that sends
//! its opening only to the leader would block the slot in which the leader proposes it. So a replica that hears an opening tells all
//! others, and repeats one that f+1 others told. A leader proposes an opening that 2f+1 members told, itself among them: f+1 of these are
//! honest, so every honest replica hears f+1, one of which is honest, and vouches. For an opening that fewer told, no replica waits. This
//! is reliable broadcast by echoes, without its last step, since deciding the slot replaces that step.
//!
//! Only a few openings of each client are told at a time; the others follow when those are executed. Source: Bracha, "Asynchronous
//! Byzantine Agreement Protocols", Information and Computation 75, 1987. Tests: openings/tests.rs, check/sim/tests/all/signed.rs.

use super::CLAIM_TIME;
use super::heard::Heard;
use bytes::Bytes;
use quorate_types::{ClientId, RequestNumber, Span, Time};
use quorate_wire::{RequestKind, Requests, read_opening};
use std::collections::BTreeMap;

/// At most this many openings of one client are told at a time.
const SAID_OF_CLIENT: usize = 64;
/// How many are remembered as told, at most.
const SAID_MAX: usize = 1 << 14;
/// An opening that has waited for this long is told again, since connections break.
const SAY_AGAIN: Span = Span::from_secs(1);

/// The openings that this replica told the others.
#[derive(Debug, Default)]
pub(super) struct Openings {
    /// By client and nonce: the whole request, and when it was told.
    said: BTreeMap<(ClientId, RequestNumber), (Bytes, Time)>,
    /// What is told at the end of the turn.
    saying: Vec<u8>,
}

impl Openings {
    /// The opening was executed.
    pub(super) fn opened(&mut self, client: ClientId, nonce: RequestNumber) {
        self.said.remove(&(client, nonce));
    }

    /// Tells an opening at the end of the turn, unless it was told lately, or another one with this client and nonce was.
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

    /// Whether this replica told it.
    fn is_said(&self, key: &(ClientId, RequestNumber), whole: &[u8]) -> bool {
        self.said.get(key).is_some_and(|(said, _)| *said == whole)
    }

    /// How many members, with this one, say that they heard an opening with a key; none for any other request.
    pub(super) fn said_by(&self, heard: &Heard, bytes: &[u8]) -> Option<usize> {
        let key = opening(bytes)?;
        Some(heard.told_by(bytes) + usize::from(self.is_said(&key, bytes)))
    }

    /// A client sent this to this replica.
    pub(super) fn hear(&mut self, now: Time, heard: &Heard, bytes: &[u8]) {
        if let Some((client, nonce)) = opening(bytes)
            && heard.openings_before(client, nonce, SAID_OF_CLIENT) < SAID_OF_CLIENT
        {
            self.say(now, (client, nonce), bytes);
        }
    }

    /// Enough members tell this opening: one of them does not lie.
    pub(super) fn told(&mut self, now: Time, bytes: &[u8]) {
        if let Some(key) = opening(bytes) {
            self.say(now, key, bytes);
        }
    }

    /// Tells again what waits, and now tells what waited behind other openings of its client.
    pub(super) fn say_what_waits(&mut self, now: Time, heard: &Heard) {
        for bytes in heard.first_openings(SAID_OF_CLIENT) {
            if let Some(key) = opening(bytes) {
                self.say(now, key, bytes);
            }
        }
        self.said.retain(|_, (_, at)| now.since(*at) <= CLAIM_TIME);
    }

    /// Takes what is told at the end of a turn.
    pub(super) fn take_saying(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.saying)
    }
}

/// The client and nonce of an opening with a key.
pub(super) fn opening(bytes: &[u8]) -> Option<(ClientId, RequestNumber)> {
    let (header, body, _) = Requests::new(bytes).flatten().next()?;
    let (client, key) = read_opening(body);
    (header.kind == RequestKind::OpenSession && key.is_some()).then_some((client, header.number))
}

#[cfg(test)]
mod tests;
