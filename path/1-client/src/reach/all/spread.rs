//! Sends requests to all members. All copies have the same bytes.
//!
//! A frame is made once, and its bytes are shared by all connections that take it. A member that is not connected, or has not taken what it
//! was sent before, is skipped, so that the others need not wait. What it missed is noted, session by session, and sent to it alone when it
//! is connected and has room. Until then it gets nothing newer, so that it sees each session in order.
//!
//! Tests: spread/tests.rs, tests/byzantine.rs, tests/liars.rs, tests/first.rs.

use super::tagging::Tagging;
use crate::config::Config;
use crate::contacts::Contacts;
use crate::encode::{FrameWriter, proven_len};
use crate::parts::Parts;
use crate::sessions::{Fixed, Sessions};
use crate::step::Step;
use bytes::Bytes;
use quorate_types::{ReplicaId, RequestNumber, SessionId};
use quorate_wire::{RequestKind, RequestProof, keys_frame};
use std::collections::BTreeMap;
use std::ops::Bound;

/// What other members got and this one did not: for each session's cell, the first number. A cell is only a hint: another session may be in
/// it by now, of which everything is sent, or none.
#[derive(Clone, Debug, Default)]
struct Missed {
    from: BTreeMap<u32, u64>,
    /// The cell that was served last, so that all get their turn.
    last: u32,
}

impl Missed {
    fn is_empty(&self) -> bool {
        self.from.is_empty()
    }
    fn note(&mut self, cell: u32, number: u64) {
        let from = self.from.entry(cell).or_insert(number);
        *from = number.min(*from);
    }
    fn next(&self) -> Option<(u32, u64)> {
        let later = self.from.range((Bound::Excluded(self.last), Bound::Unbounded)).next();
        later.or_else(|| self.from.first_key_value()).map(|(cell, number)| (*cell, *number))
    }
}

/// A frame in the making, and what it holds: each session's cell and its first number in the frame.
#[derive(Debug)]
struct Draft {
    writer: FrameWriter,
    parts: Vec<(u32, u64)>,
    /// The only member that gets it, if it is for one.
    only: Option<usize>,
}

impl Draft {
    fn part(&mut self, cell: u32, number: u64) {
        if self.parts.last().is_none_or(|(last, _)| *last != cell) {
            self.parts.push((cell, number));
        }
    }

    /// Whether this many more bytes make the frame too large.
    fn is_full(&self, bytes: usize, config: &Config) -> bool {
        !self.writer.is_empty() && self.writer.len() + bytes > config.frame_bytes_max as usize
    }
}

/// Which member must be sent what.
#[derive(Debug)]
pub(super) struct Spread {
    signs: bool,
    /// Makes the tags under requests.
    tagging: Option<Tagging>,
    /// By contact.
    missed: Vec<Missed>,
}

impl Spread {
    /// For these members, in the order of their ids.
    pub(super) fn new(config: &Config, members: &[ReplicaId], contacts: usize) -> Self {
        let missed = vec![Missed::default(); contacts];
        Self { signs: config.signer.is_some(), tagging: Tagging::of(config, members), missed }
    }

    /// The members changed, and there are this many contacts now. All that is under way is sent again, so nobody missed anything.
    /// `oldest`: the oldest epoch of a request under way.
    pub(super) fn follow(&mut self, members: &[ReplicaId], contacts: usize, oldest: Option<u64>) {
        if let Some(tagging) = &mut self.tagging {
            tagging.follow(members, oldest);
        }
        self.missed = vec![Missed::default(); contacts];
    }

    /// The proof after the bodies of requests that are sent for the first time now.
    pub(super) fn proof(&self) -> RequestProof {
        self.proof_of(self.epoch())
    }

    /// The proof after the body of a request that was first sent in this epoch.
    fn proof_of(&self, epoch: u64) -> RequestProof {
        match &self.tagging {
            _ if self.signs => RequestProof::Signature,
            Some(tagging) => tagging.proof(epoch),
            None => RequestProof::None,
        }
    }

    /// The length of a request with this body, of which all copies say this.
    fn request_len(&self, body: usize, fixed: Option<Fixed>) -> usize {
        proven_len(body, self.proof_of(fixed.map_or(self.epoch(), |fixed| fixed.epoch)))
    }

    pub(super) fn has_tags(&self) -> bool {
        matches!(self.proof(), RequestProof::Macs { .. })
    }
    fn epoch(&self) -> u64 {
        self.tagging.as_ref().map_or(0, Tagging::epoch)
    }

    /// Sends what is ready to all members that have room, or first to the leader if one is named. It waits while no member has room.
    pub(super) fn send(&mut self, step: &mut Step<'_>, parts: &mut Parts, first: Option<usize>) {
        for contact in 0..parts.contacts.len() {
            self.catch_up(step, parts, contact);
        }
        if !parts.sessions.any_dirty() {
            return;
        }
        self.renew_keys(step, &mut parts.contacts);
        let connected = parts.contacts.up_bits();
        let (mut first, mut all) = (self.draft(step, first), self.draft(step, None));
        while self.anybody_takes(step, &parts.contacts, all.writer.len()) {
            let Some(cell) = parts.sessions.next_ready() else { break };
            let takes = first
                .only
                .is_some_and(|contact| self.takes(step, &parts.contacts, contact, first.writer.len()));
            let Some(session) = parts.sessions.at(cell) else { continue };
            let alone = takes && session.may_be_alone(connected);
            let draft = if alone { &mut first } else { &mut all };
            if !self.write_session(step, parts, cell, draft) {
                parts.sessions.mark_dirty(cell);
                if alone {
                    // The leader takes no more: the rest goes to all, behind what it got.
                    self.send_draft(step, parts, &mut first);
                    first.only = None;
                    continue;
                }
                // No room anywhere: goes on when bytes were written.
                break;
            }
        }
        self.send_draft(step, parts, &mut first);
        self.send_draft(step, parts, &mut all);
    }

    fn draft(&self, step: &Step<'_>, only: Option<usize>) -> Draft {
        Draft { writer: self.writer(step), parts: Vec::new(), only }
    }

    fn writer(&self, step: &Step<'_>) -> FrameWriter {
        FrameWriter::proving(self.proof(), step.config.signer.clone())
    }

    fn takes(&self, step: &Step<'_>, contacts: &Contacts, contact: usize, bytes: usize) -> bool {
        let room = contacts.at(contact).has_room(bytes, step.config.connection_bytes_max);
        contacts.up(contact).is_some() && self.missed[contact].is_empty() && room
    }

    /// Whether any member would take this many bytes now.
    fn anybody_takes(&self, step: &Step<'_>, contacts: &Contacts, bytes: usize) -> bool {
        (0..contacts.len()).any(|contact| self.takes(step, contacts, contact, bytes))
    }

    /// Writes what this session may send. False when no member has room for all of it.
    fn write_session(
        &mut self,
        step: &mut Step<'_>,
        parts: &mut Parts,
        cell: u32,
        draft: &mut Draft,
    ) -> bool {
        let config = step.config;
        let complete = loop {
            let room = match draft.only {
                Some(contact) => self.takes(step, &parts.contacts, contact, draft.writer.len()),
                None => self.anybody_takes(step, &parts.contacts, draft.writer.len()),
            };
            let Some(session) = parts.sessions.at(cell) else { return true };
            if !room {
                break false;
            }
            if session.is_opening() {
                if draft.is_full(draft.writer.opening_len(), config) {
                    self.send_draft(step, parts, draft);
                    continue;
                }
                if let Some(nonce) = session.send_opening() {
                    draft.writer.opening(nonce, config.client);
                    session.begin(step.now);
                    draft.part(cell, 0);
                }
                break true;
            }
            let id = session.id();
            let Some((number, entry)) = session.next_to_send(config.window) else { break true };
            if draft.is_full(self.request_len(entry.body.len(), entry.fixed), config) {
                self.send_draft(step, parts, draft);
                continue;
            }
            let (kind, body) = (entry.kind, entry.body.clone());
            let fixed = session.fix(self.epoch());
            session.mark_sent(step.now);
            if draft.only.is_some() {
                session.sent_alone(step.now);
            }
            draft.part(cell, number);
            self.write(&mut draft.writer, id, (number, fixed), (kind, &body));
        };
        parts.sessions.sent(step, cell);
        complete
    }

    fn write(
        &mut self,
        writer: &mut FrameWriter,
        session: SessionId,
        (number, fixed): (u64, Fixed),
        (kind, body): (RequestKind, &Bytes),
    ) {
        let numbers = (RequestNumber::new(number), RequestNumber::new(fixed.lowest));
        let proof = self.proof_of(fixed.epoch);
        match &mut self.tagging {
            Some(tagging) if proof != RequestProof::None => {
                writer.tagged(session, numbers, kind, body, (proof, tagging.tags(fixed.epoch)));
            }
            _ => writer.request(session, numbers, kind, body),
        }
    }

    /// Sends a frame to the members that have room, and notes for the others what they missed. A frame for one member has room there.
    fn send_draft(&mut self, step: &mut Step<'_>, parts: &mut Parts, draft: &mut Draft) {
        if draft.writer.is_empty() {
            return;
        }
        let frame = draft.writer.finish();
        if let Some(contact) = draft.only {
            draft.parts.clear();
            return parts.contacts.send(step, contact, frame);
        }
        let mut met = 0;
        for contact in 0..parts.contacts.len() {
            if self.takes(step, &parts.contacts, contact, 0) {
                parts.contacts.send(step, contact, frame.clone());
                met |= 1 << contact;
            } else if parts.contacts.up(contact).is_some() {
                draft.parts.iter().for_each(|(cell, number)| self.missed[contact].note(*cell, *number));
            }
        }
        for (cell, _) in draft.parts.drain(..) {
            if let Some(session) = parts.sessions.at(cell) {
                session.meet(met);
            }
        }
    }

    /// What only the leader got of a session is noted as missed by all others. `leader`: that leader.
    pub(super) fn tell_all(&mut self, parts: &mut Parts, cell: u32, leader: Option<usize>) {
        let Some(session) = parts.sessions.at(cell) else { return };
        let Some(from) = session.take_alone() else { return };
        for (contact, missed) in self.missed.iter_mut().enumerate() {
            if Some(contact) != leader && parts.contacts.up(contact).is_some() {
                missed.note(cell, from);
            }
        }
    }

    /// As [`Self::tell_all`], for all sessions.
    pub(super) fn tell_all_everything(&mut self, parts: &mut Parts, leader: Option<usize>) {
        for cell in parts.sessions.cells() {
            self.tell_all(parts, cell, leader);
        }
    }

    /// A member connected, or must answer more than before: it has nothing of what is under way.
    pub(super) fn joined(&mut self, sessions: &mut Sessions, contact: usize) {
        let missed = &mut self.missed[contact];
        missed.from.clear();
        for cell in sessions.cells() {
            let Some(session) = sessions.at(cell) else { continue };
            session.unmeet(contact);
            if session.in_flight() {
                missed.note(cell, session.base());
            }
        }
    }

    /// A member is not connected any more. It gets everything under way when it comes back.
    pub(super) fn lost(&mut self, contact: usize) {
        self.missed[contact].from.clear();
    }

    /// Sends a member what it missed, as far as it has room.
    fn catch_up(&mut self, step: &mut Step<'_>, parts: &mut Parts, contact: usize) {
        let mut writer = self.writer(step);
        while parts.contacts.up(contact).is_some() {
            let Some((cell, from)) = self.missed[contact].next() else { break };
            let left = self.write_missed(step, parts, contact, (cell, from), &mut writer);
            let missed = &mut self.missed[contact];
            if left.is_none_or(|number| number > from) {
                missed.last = cell;
            }
            if let Some(number) = left {
                missed.from.insert(cell, number);
                break;
            }
            missed.from.remove(&cell);
        }
        if !writer.is_empty() {
            parts.contacts.send(step, contact, writer.finish());
        }
    }

    /// Writes what is under way in a session, from a number on. Returns the number at which it stopped for lack of room.
    fn write_missed(
        &mut self,
        step: &mut Step<'_>,
        parts: &mut Parts,
        contact: usize,
        (cell, from): (u32, u64),
        writer: &mut FrameWriter,
    ) -> Option<u64> {
        let session = parts.sessions.at(cell)?;
        let (id, base, end) = (session.id(), session.base(), session.sent());
        if session.is_opening() {
            let nonce = session.opening_under_way()?;
            if !room_for(step, &mut parts.contacts, contact, writer.opening_len(), writer) {
                return Some(from);
            }
            writer.opening(nonce, step.config.client);
            session.meet(1 << contact);
            return None;
        }
        for number in from.max(base)..end {
            let session = parts.sessions.at(cell)?;
            let Some(entry) = session.under_way(number) else { continue };
            let (kind, body) = (entry.kind, entry.body.clone());
            let fixed = entry.fixed.unwrap_or(Fixed { lowest: base, epoch: self.epoch() });
            let bytes = self.request_len(body.len(), Some(fixed));
            if !room_for(step, &mut parts.contacts, contact, bytes, writer) {
                return Some(number);
            }
            session.meet(1 << contact);
            self.write(writer, id, (number, fixed), (kind, &body));
        }
        None
    }

    /// A request is about to be sent. If the keys of tags are too old, all members are told new ones.
    fn renew_keys(&mut self, step: &mut Step<'_>, contacts: &mut Contacts) {
        if self.tagging.as_mut().is_some_and(|tagging| tagging.renew(step.now, step.config.keys_last)) {
            (0..contacts.len()).for_each(|contact| self.send_keys(step, contacts, contact));
        }
    }

    /// Tells a connected member the keys that it shares with this client.
    pub(super) fn send_keys(&self, step: &mut Step<'_>, contacts: &mut Contacts, contact: usize) {
        let Some(tagging) = &self.tagging else { return };
        let keys = tagging.shared_with(contacts.at(contact).replica);
        if !keys.is_empty() {
            contacts.send(step, contact, keys_frame(&keys));
        }
    }
}

/// Makes room for a request in a frame to one member. False when the member has none.
fn room_for(
    step: &mut Step<'_>,
    contacts: &mut Contacts,
    contact: usize,
    bytes: usize,
    writer: &mut FrameWriter,
) -> bool {
    if !writer.is_empty() && writer.len() + bytes > step.config.frame_bytes_max as usize {
        contacts.send(step, contact, writer.finish());
    }
    contacts.at(contact).has_room(writer.len(), step.config.connection_bytes_max)
}

#[cfg(test)]
mod tests;
