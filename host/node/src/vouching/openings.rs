//! Openings with a key, before a leader proposes them: replicas tell each other of them, so that all of them hear of one, or no leader has to.
//!
//! A request is signed with its session's key; what opens a session can not be. A client that tells its opening to the leader only would
//! hold up the slot in which that proposes it. So a replica that hears one says so to all, and says it, too, once f+1 others did; a leader
//! proposes what 2f+1 said, itself among them: f+1 of these are honest, so every honest replica hears f+1, one of which is honest, and
//! vouches. What fewer said nobody waits for. It is a broadcast by echoes, without its last step: that a slot decides is enough.
//!
//! Of each client few are said at a time: what waits behind them is said when those are executed. Source: Bracha, "Asynchronous Byzantine
//! Agreement Protocols", Information and Computation 75, 1987. Tests: check/sim (`tests/signed.rs`).

use super::{CLAIM_TIME, Vouching};
use crate::effects::Effects;
use crate::node::Node;
use bytes::Bytes;
use quorate_types::{ClientId, ReplicaId, RequestNumber, Span, Time};
use quorate_wire::{FrameKind, OutFrame, RequestHeader, RequestKind, Requests, read_opening};
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

    fn is_said(&self, key: &(ClientId, RequestNumber), whole: &[u8]) -> bool {
        self.said.get(key).is_some_and(|(said, _)| *said == whole)
    }
}

/// Who opens a session with a key, and with which nonce.
pub(super) fn opening(bytes: &[u8]) -> Option<(ClientId, RequestNumber)> {
    let (header, body, _) = Requests::new(bytes).flatten().next()?;
    let (client, key) = read_opening(body);
    (header.kind == RequestKind::OpenSession && key.is_some()).then_some((client, header.number))
}

impl Vouching {
    /// Whether a leader may propose a request as far as others have to know of it: everything but an opening with a key that too few said.
    pub(super) fn is_everywhere(&self, bytes: &[u8]) -> bool {
        let Some(key) = opening(bytes) else { return true };
        let own = usize::from(self.openings.is_said(&key, bytes));
        self.heard.told_by(bytes) + own > 2 * self.trust.faults() as usize
    }

    /// Whether it was executed lately: proposed again it would open another session.
    pub(super) fn is_opened(&self, bytes: &[u8]) -> bool {
        opening(bytes).is_some_and(|(client, nonce)| self.heard.opened_by(client, nonce).is_some())
    }

    /// A client said this to this replica.
    pub(super) fn hear_opening(&mut self, now: Time, bytes: &[u8]) {
        if let Some((client, nonce)) = opening(bytes)
            && self.heard.openings_before(client, nonce, SAID_OF_CLIENT) < SAID_OF_CLIENT
        {
            self.openings.say(now, (client, nonce), bytes);
        }
    }

    /// So many members say that a client opens a session.
    pub(super) fn told_opening(&mut self, now: Time, bytes: &[u8], members: usize) {
        if members >= self.trust.truth() as usize
            && !self.is_opened(bytes)
            && let Some(key) = opening(bytes)
        {
            self.openings.say(now, key, bytes);
        }
    }

    /// Says once more what waits, and now what waited behind others of its client.
    pub(super) fn say_what_waits(&mut self, now: Time) {
        let firsts: Vec<Bytes> = self.heard.first_openings(SAID_OF_CLIENT).cloned().collect();
        for bytes in firsts {
            if let Some(key) = opening(&bytes) {
                self.openings.say(now, key, &bytes);
            }
        }
        self.openings.said.retain(|_, (_, at)| now.since(*at) <= CLAIM_TIME);
    }
}

impl Node {
    /// Sends the others what is to be said, at the end of a turn.
    pub(super) fn say_openings(&mut self, now: Time, out: &mut Effects) {
        let saying = std::mem::take(&mut self.vouching.openings.saying);
        if saying.is_empty() {
            return;
        }
        for member in self.config.members.all() {
            if let Some(conn) = self.peers.to(member.replica) {
                out.send(conn, OutFrame::new(FrameKind::Requests, &saying, vec![]));
            }
        }
        // Its own word may have been the last one that was needed.
        let saying = Bytes::from(saying);
        for (_, _, whole) in Requests::new(&saying).flatten() {
            if self.vouching.is_everywhere(whole) {
                self.admit_known(now, &saying.slice_ref(whole), out);
            }
        }
    }

    /// Whether a leader may propose what so many members said.
    pub(super) fn was_told_enough(
        &mut self,
        now: Time,
        from: ReplicaId,
        header: &RequestHeader,
        whole: &[u8],
    ) -> bool {
        let told = self.vouching.heard.told(now, from, whole);
        self.vouching.told_opening(now, whole, told);
        if opening(whole).is_some() {
            return self.vouching.is_everywhere(whole);
        }
        self.on_said(now, from, (header, whole), told);
        told > 2 * self.vouching.trust.faults() as usize || self.shows_itself(now, from, header)
    }
}

#[cfg(test)]
mod tests;
