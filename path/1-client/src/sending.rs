//! Sending requests: to the one replica that leads.
//!
//! What may lie needs all replicas: `spread.rs`.

use crate::core::ClientCore;
use crate::effects::{Effect, Effects};
use crate::encode::FrameWriter;
use crate::session::Phase;
use bytes::Bytes;
use quorate_types::{RequestNumber, SessionId, Time};
use quorate_wire::{FrameKind, OutFrame, RequestKind};

impl ClientCore {
    pub(crate) fn flush_requests(&mut self, now: Time, link: usize, out: &mut Effects) {
        let mut writer = FrameWriter::new(FrameKind::Requests);
        while let Some(index) = self.sessions.dirty.pop_front() {
            let Some(session) = self.sessions.places[index as usize].session.as_mut() else { continue };
            session.dirty = false;
            if session.hold_until.is_some() {
                continue;
            }
            if !self.write_session(now, link, index, &mut writer, out) {
                // No room in the connection: goes on when bytes were written.
                if let Some(session) = self.sessions.at(index) {
                    session.dirty = true;
                    self.sessions.dirty.push_front(index);
                }
                break;
            }
        }
        if !writer.is_empty() {
            self.send(link, writer.finish(), out);
        }
    }

    /// Writes what this session may send; false when the connection is full.
    fn write_session(
        &mut self,
        now: Time,
        link: usize,
        index: u32,
        writer: &mut FrameWriter,
        out: &mut Effects,
    ) -> bool {
        let (window, max) = (self.config.window, self.config.frame_bytes_max as usize);
        let Some(session) = self.sessions.places[index as usize].session.as_mut() else { return true };
        if matches!(session.phase, Phase::Opening(_)) {
            return self.write_open(now, link, index, writer, out);
        }
        loop {
            let Some(session) = self.sessions.places[index as usize].session.as_mut() else { return true };
            let (id, base) = (session.id, session.base());
            let Some((number, entry)) = session.next_to_send(window) else { break };
            if !writer.is_empty() && writer.len() + writer.request_len(entry.body.len()) > max {
                let frame = writer.finish();
                self.send(link, frame, out);
                continue;
            }
            let link = &self.links[link];
            if link.out_bytes > 0 && link.out_bytes + writer.len() >= self.config.connection_bytes_max {
                return false;
            }
            let (number, lowest) = (RequestNumber::new(number), RequestNumber::new(base));
            writer.request(id, (number, lowest), entry.kind, &entry.body);
            session.mark_sent(now);
        }
        self.sent_something(now, index);
        true
    }

    fn write_open(
        &mut self,
        now: Time,
        link: usize,
        index: u32,
        writer: &mut FrameWriter,
        out: &mut Effects,
    ) -> bool {
        let max = self.config.frame_bytes_max as usize;
        if !writer.is_empty() && writer.len() + writer.opening_len() > max {
            let frame = writer.finish();
            self.send(link, frame, out);
        }
        let room = &self.links[link];
        if room.out_bytes > 0 && room.out_bytes + writer.len() >= self.config.connection_bytes_max {
            return false;
        }
        if let Some(session) = self.sessions.at(index) {
            session.progress = now;
            if let Phase::Opening(opening) = &mut session.phase
                && !opening.sent
            {
                opening.sent = true;
                opening.open_sends = opening.open_sends.saturating_add(1);
                writer.opening(opening.nonce, self.config.client);
            }
        }
        self.sent_something(now, index);
        true
    }

    /// Timers that begin when something is sent.
    pub(crate) fn sent_something(&mut self, now: Time, index: u32) {
        if self.suspect_at.is_none() && !self.may_lie() {
            self.suspect_at = Some(now.plus(self.config.suspect_after));
        }
        if let Some(session) = self.sessions.places[index as usize].session.as_ref() {
            let due = self.resend_at(session).min(self.alone_until(session));
            self.sessions.due = self.sessions.due.min(due);
        }
    }

    pub(crate) fn send(&mut self, link: usize, frame: OutFrame, out: &mut Effects) {
        let link = &mut self.links[link];
        if let Some(conn) = link.up() {
            link.out_bytes += frame.len();
            out.push(Effect::Send { conn, frame });
        }
    }

    /// Asks everybody but `except` who leads: a request that does nothing. Who does not lead answers with a notice.
    pub(crate) fn probe(&mut self, except: Option<usize>, out: &mut Effects) {
        for link in 0..self.links.len() {
            if Some(link) == except || self.links[link].up().is_none() || self.links[link].out_bytes > 0 {
                continue;
            }
            let mut writer = FrameWriter::new(FrameKind::Requests);
            let nonce = RequestNumber::new(self.probe_nonce);
            writer.request(SessionId::NONE, (nonce, nonce), RequestKind::Empty, &Bytes::new());
            self.send(link, writer.finish(), out);
        }
    }
}
