//! Sending requests to all members, each copy the same bytes.
//!
//! A frame is made once and its bytes are shared by all connections that take it. Who is not connected, or has not taken what it
//! was sent before, is passed over: it costs the others nothing. What it missed is noted, session by session, and sent to it alone when it
//! is there, or has room; until then it gets nothing newer, so that it sees each session in order.
//!
//! Tests: tests/byzantine.rs, tests/liars.rs, tests/first.rs.

use crate::core::ClientCore;
use crate::effects::{Effect, Effects};
use crate::encode::FrameWriter;
use crate::link::Link;
use crate::session::{Fixed, Phase};
use crate::tagging::Tagging;
use bytes::Bytes;
use quorate_types::{RequestNumber, SessionId, Time};
use quorate_wire::RequestKind;
use std::collections::BTreeMap;
use std::ops::Bound;

/// What went to others and not to this member: by session's place the first number. A place is not more than a hint: the session there
/// may be another one by now, of which everything is sent, or none.
#[derive(Debug, Default)]
pub(crate) struct Missed {
    from: BTreeMap<u32, u64>,
    /// The place that was served last: all have their turn.
    last: u32,
}

impl Missed {
    pub(crate) const fn new() -> Self {
        Self { from: BTreeMap::new(), last: 0 }
    }
    pub(crate) fn clear(&mut self) {
        self.from.clear();
    }
    fn is_empty(&self) -> bool {
        self.from.is_empty()
    }
    pub(crate) fn note(&mut self, place: u32, number: u64) {
        let from = self.from.entry(place).or_insert(number);
        *from = number.min(*from);
    }
    fn next(&self) -> Option<(u32, u64)> {
        let later = self.from.range((Bound::Excluded(self.last), Bound::Unbounded)).next();
        later.or_else(|| self.from.first_key_value()).map(|(place, number)| (*place, *number))
    }
}

/// A frame in the making, and what is in it: each session's place with its first number there.
#[derive(Debug)]
struct Spread {
    writer: FrameWriter,
    parts: Vec<(u32, u64)>,
    /// The member that alone gets it.
    only: Option<usize>,
}

impl Spread {
    fn part(&mut self, place: u32, number: u64) {
        if self.parts.last().is_none_or(|(last, _)| *last != place) {
            self.parts.push((place, number));
        }
    }
}

/// Whether so many bytes more may be handed to this connection.
fn has_room(link: &Link, bytes: usize, max: usize) -> bool {
    link.out_bytes == 0 || link.out_bytes + bytes < max
}

impl ClientCore {
    /// Sends what is ready to all members that take it, or to the leader first. While nobody does, it waits.
    pub(crate) fn flush_to_all(&mut self, now: Time, out: &mut Effects) {
        for link in 0..self.links.len() {
            self.catch_up(link, out);
        }
        if !self.sessions.any_dirty() {
            return;
        }
        self.renew_keys(now, out);
        let connected = self.connected_bits();
        let (mut first, mut all) = (self.spread_to(self.first_link(now)), self.spread_to(None));
        while self.anybody_takes(all.writer.len()) {
            let Some(index) = self.sessions.dirty.pop_front() else { break };
            let takes = first.only.is_some_and(|link| self.takes(&self.links[link], first.writer.len()));
            let Some(session) = self.sessions.at(index) else { continue };
            session.dirty = false;
            if session.hold_until.is_some() {
                continue;
            }
            let alone = takes && session.may_be_alone(connected);
            let spread = if alone { &mut first } else { &mut all };
            if !self.spread_session(now, index, spread, out) {
                self.sessions.mark_dirty(index);
                if alone {
                    // The leader takes no more: the rest goes to all, behind what it got.
                    self.send_spread(&mut first, out);
                    first.only = None;
                    continue;
                }
                // No room anywhere: goes on when bytes were written.
                break;
            }
        }
        self.send_spread(&mut first, out);
        self.send_spread(&mut all, out);
    }

    fn spread_to(&self, only: Option<usize>) -> Spread {
        Spread { writer: self.requests_writer(), parts: Vec::new(), only }
    }

    fn requests_writer(&self) -> FrameWriter {
        FrameWriter::proving(self.proof(), self.config.signer.clone())
    }

    fn takes(&self, link: &Link, bytes: usize) -> bool {
        let max = self.config.connection_bytes_max;
        link.up().is_some() && link.missed.is_empty() && has_room(link, bytes, max)
    }

    /// Whether a member would take so many bytes now.
    fn anybody_takes(&self, bytes: usize) -> bool {
        self.links.iter().any(|link| self.takes(link, bytes))
    }

    /// Writes what this session may send; false when nobody has room for all of it.
    fn spread_session(&mut self, now: Time, index: u32, spread: &mut Spread, out: &mut Effects) -> bool {
        let (window, max) = (self.config.window, self.config.frame_bytes_max as usize);
        let client = self.config.client;
        let complete = loop {
            let room = match spread.only {
                Some(link) => self.takes(&self.links[link], spread.writer.len()),
                None => self.anybody_takes(spread.writer.len()),
            };
            let epoch = self.tagging.as_ref().map_or(0, Tagging::epoch);
            let Some(session) = self.sessions.at(index) else { return true };
            if !room {
                break false;
            }
            if let Phase::Opening(opening) = &mut session.phase {
                if !spread.writer.is_empty() && spread.writer.len() + spread.writer.opening_len() > max {
                    self.send_spread(spread, out);
                    continue;
                }
                if !opening.sent {
                    opening.sent = true;
                    opening.open_sends = opening.open_sends.saturating_add(1);
                    spread.writer.opening(opening.nonce, client);
                    session.progress = now;
                    spread.part(index, 0);
                }
                break true;
            }
            let id = session.id;
            let Some((number, entry)) = session.next_to_send(window) else { break true };
            if !spread.writer.is_empty()
                && spread.writer.len() + spread.writer.request_len(entry.body.len()) > max
            {
                self.send_spread(spread, out);
                continue;
            }
            let (kind, body) = (entry.kind, entry.body.clone());
            let fixed = session.fix(epoch);
            session.mark_sent(now);
            if spread.only.is_some() {
                session.sent_alone();
            }
            spread.part(index, number);
            self.write_request(&mut spread.writer, id, (number, fixed), (kind, &body));
        };
        self.sent_something(now, index);
        complete
    }

    fn write_request(
        &mut self,
        writer: &mut FrameWriter,
        session: SessionId,
        (number, fixed): (u64, Fixed),
        (kind, body): (RequestKind, &Bytes),
    ) {
        let numbers = (RequestNumber::new(number), RequestNumber::new(fixed.lowest));
        match &mut self.tagging {
            Some(tagging) => writer.tagged(session, numbers, kind, body, tagging.tags(fixed.epoch)),
            None => writer.request(session, numbers, kind, body),
        }
    }

    /// Sends a frame to whoever takes it, and notes for the others what they missed. What is for one member has room there.
    fn send_spread(&mut self, spread: &mut Spread, out: &mut Effects) {
        if spread.writer.is_empty() {
            return;
        }
        let frame = spread.writer.finish();
        if let Some(link) = spread.only {
            spread.parts.clear();
            return self.send(link, frame, out);
        }
        let mut met = 0;
        for (at, link) in self.links.iter_mut().enumerate() {
            let Some(conn) = link.up() else { continue };
            if link.missed.is_empty() && has_room(link, 0, self.config.connection_bytes_max) {
                link.out_bytes += frame.len();
                out.push(Effect::Send { conn, frame: frame.clone() });
                met |= 1 << at;
            } else {
                spread.parts.iter().for_each(|(place, number)| link.missed.note(*place, *number));
            }
        }
        for (place, _) in spread.parts.drain(..) {
            if let Some(session) = self.sessions.at(place) {
                session.met |= met;
            }
        }
    }

    /// A member is there that was not: it has none of what is under way.
    pub(crate) fn joined(&mut self, link: usize) {
        let missed = &mut self.links[link].missed;
        missed.clear();
        for (index, place) in self.sessions.places.iter_mut().enumerate() {
            let Some(session) = &mut place.session else { continue };
            session.met &= !(1 << link);
            if session.in_flight() {
                missed.note(index as u32, session.base());
            }
        }
    }

    /// Sends a member what it missed, as far as it has room.
    fn catch_up(&mut self, link: usize, out: &mut Effects) {
        let mut writer = self.requests_writer();
        while self.links[link].up().is_some() {
            let Some((place, from)) = self.links[link].missed.next() else { break };
            let left = self.write_missed(link, place, from, &mut writer, out);
            let missed = &mut self.links[link].missed;
            if left.is_none_or(|number| number > from) {
                missed.last = place;
            }
            if let Some(number) = left {
                missed.from.insert(place, number);
                break;
            }
            missed.from.remove(&place);
        }
        if !writer.is_empty() {
            self.send(link, writer.finish(), out);
        }
    }

    /// Writes what is under way of a session from a number on; returns where it stopped for want of room.
    fn write_missed(
        &mut self,
        link: usize,
        place: u32,
        from: u64,
        writer: &mut FrameWriter,
        out: &mut Effects,
    ) -> Option<u64> {
        let max = self.config.frame_bytes_max as usize;
        let epoch = self.tagging.as_ref().map_or(0, Tagging::epoch);
        let session = self.sessions.places.get_mut(place as usize)?.session.as_mut()?;
        let (id, base, end) = (session.id, session.base(), session.sent());
        if let Phase::Opening(opening) = &session.phase {
            let nonce = opening.nonce;
            if !opening.sent {
                return None;
            }
            if !self.room_for(link, writer.opening_len(), max, writer, out) {
                return Some(from);
            }
            writer.opening(nonce, self.config.client);
            self.sessions.at(place)?.met |= 1 << link;
            return None;
        }
        for number in from.max(base)..end {
            let Some(entry) = self.sessions.places[place as usize].session.as_ref()?.under_way(number) else {
                continue;
            };
            let (kind, body) = (entry.kind, entry.body.clone());
            let fixed = entry.fixed.unwrap_or(Fixed { lowest: base, epoch });
            if !self.room_for(link, writer.request_len(body.len()), max, writer, out) {
                return Some(number);
            }
            self.sessions.at(place)?.met |= 1 << link;
            self.write_request(writer, id, (number, fixed), (kind, &body));
        }
        None
    }

    /// Makes room for a request in a frame to one member; false when the member has none.
    fn room_for(
        &mut self,
        link: usize,
        bytes: usize,
        max: usize,
        writer: &mut FrameWriter,
        out: &mut Effects,
    ) -> bool {
        if !writer.is_empty() && writer.len() + bytes > max {
            self.send(link, writer.finish(), out);
        }
        has_room(&self.links[link], writer.len(), self.config.connection_bytes_max)
    }
}
