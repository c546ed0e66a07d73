//! Writes requests for the leader.

use super::ToLeader;
use crate::encode::FrameWriter;
use crate::parts::Parts;
use crate::step::Step;
use quorate_types::RequestNumber;
use quorate_wire::FrameKind;

impl ToLeader {
    /// Sends what is ready, as far as the connection has room.
    pub(super) fn send_requests(&mut self, step: &mut Step<'_>, parts: &mut Parts, contact: usize) {
        let mut writer = FrameWriter::new(FrameKind::Requests);
        while let Some(cell) = parts.sessions.next_ready() {
            if !self.write_session(step, parts, contact, cell, &mut writer) {
                // No room in the connection: goes on when bytes were written.
                parts.sessions.put_back(cell);
                break;
            }
        }
        if !writer.is_empty() {
            parts.contacts.send(step, contact, writer.finish());
        }
    }

    /// Writes what this session may send. False when the connection is full.
    fn write_session(
        &mut self,
        step: &mut Step<'_>,
        parts: &mut Parts,
        contact: usize,
        cell: u32,
        writer: &mut FrameWriter,
    ) -> bool {
        let max = step.config.frame_bytes_max as usize;
        let Some(session) = parts.sessions.at(cell) else { return true };
        if session.is_opening() {
            if !writer.is_empty() && writer.len() + writer.opening_len() > max {
                parts.contacts.send(step, contact, writer.finish());
            }
            if !parts.contacts.at(contact).has_room(writer.len(), step.config.connection_bytes_max) {
                return false;
            }
            session.begin(step.now);
            if let Some(nonce) = session.send_opening() {
                writer.opening(nonce, step.config.client);
            }
            self.sent(step, parts, cell);
            return true;
        }
        while let Some(session) = parts.sessions.at(cell) {
            let (id, base) = (session.id(), session.base());
            let Some((number, entry)) = session.next_to_send(step.config.window) else { break };
            if !writer.is_empty() && writer.len() + writer.request_len(entry.body.len()) > max {
                parts.contacts.send(step, contact, writer.finish());
                continue;
            }
            if !parts.contacts.at(contact).has_room(writer.len(), step.config.connection_bytes_max) {
                return false;
            }
            let (number, lowest) = (RequestNumber::new(number), RequestNumber::new(base));
            writer.request(id, (number, lowest), entry.kind, &entry.body);
            session.mark_sent(step.now);
        }
        self.sent(step, parts, cell);
        true
    }

    /// Something was sent, so timers begin.
    fn sent(&mut self, step: &Step<'_>, parts: &mut Parts, cell: u32) {
        self.suspect_at.get_or_insert(step.now.plus(step.config.suspect_after));
        parts.sessions.sent(step, cell);
    }
}
