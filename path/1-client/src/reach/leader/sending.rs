//! Writing requests for the one replica that leads.

use super::ToLeader;
use crate::encode::FrameWriter;
use crate::parts::Parts;
use crate::step::Step;
use quorate_types::RequestNumber;
use quorate_wire::FrameKind;

impl ToLeader {
    /// Sends what is ready, as far as the connection has room.
    pub(super) fn send_requests(&mut self, step: &mut Step<'_>, parts: &mut Parts, link: usize) {
        let mut writer = FrameWriter::new(FrameKind::Requests);
        while let Some(place) = parts.sessions.next_ready() {
            if !self.write_session(step, parts, link, place, &mut writer) {
                // No room in the connection: goes on when bytes were written.
                parts.sessions.put_back(place);
                break;
            }
        }
        if !writer.is_empty() {
            parts.links.send(step, link, writer.finish());
        }
    }

    /// Writes what this session may send; false when the connection is full.
    fn write_session(
        &mut self,
        step: &mut Step<'_>,
        parts: &mut Parts,
        link: usize,
        place: u32,
        writer: &mut FrameWriter,
    ) -> bool {
        let max = step.config.frame_bytes_max as usize;
        let Some(session) = parts.sessions.at(place) else { return true };
        if session.is_opening() {
            if !writer.is_empty() && writer.len() + writer.opening_len() > max {
                parts.links.send(step, link, writer.finish());
            }
            if !parts.links.at(link).has_room(writer.len(), step.config.connection_bytes_max) {
                return false;
            }
            session.begin(step.now);
            if let Some(nonce) = session.send_opening() {
                writer.opening(nonce, step.config.client);
            }
            self.sent(step, parts, place);
            return true;
        }
        while let Some(session) = parts.sessions.at(place) {
            let (id, base) = (session.id(), session.base());
            let Some((number, entry)) = session.next_to_send(step.config.window) else { break };
            if !writer.is_empty() && writer.len() + writer.request_len(entry.body.len()) > max {
                parts.links.send(step, link, writer.finish());
                continue;
            }
            if !parts.links.at(link).has_room(writer.len(), step.config.connection_bytes_max) {
                return false;
            }
            let (number, lowest) = (RequestNumber::new(number), RequestNumber::new(base));
            writer.request(id, (number, lowest), entry.kind, &entry.body);
            session.mark_sent(step.now);
        }
        self.sent(step, parts, place);
        true
    }

    /// Timers that begin when something is sent.
    fn sent(&mut self, step: &Step<'_>, parts: &mut Parts, place: u32) {
        self.suspect_at.get_or_insert(step.now.plus(step.config.suspect_after));
        parts.sessions.sent(step, place);
    }
}
