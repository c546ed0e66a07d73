//! The sessions whose requests a pillar's lane takes by itself. Execution, which stands on the main lane, was asked about an earlier request of
//! each; it bound the session to the connection of its client, and the client may run everything. The next number of the same session over
//! the same connection can not have been executed, unless another leader had it before, which execution notices.
//!
//! Everything else goes over the main lane: openings, what is sent again, a session that is new or that comes over another connection.
//! Tests: direct/tests.rs.

use super::Passed;
use quorate_admit::Admission;
use quorate_types::{ConnId, RequestNumber, SessionId};
use quorate_wire::{RequestKind, RequestProof, Requests};
use std::collections::{BTreeMap, BTreeSet};

/// A session that the lane knows.
#[derive(Clone, Copy, Debug)]
struct Known {
    generation: u32,
    conn: ConnId,
    /// The last number of it that was executed when execution was asked.
    last: RequestNumber,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Direct {
    /// By the index of the session.
    sessions: Vec<Option<Known>>,
    /// The connections of clients whose requests go through this instance, as far as the main lane said.
    conns: BTreeSet<ConnId>,
}

impl Direct {
    /// The main lane passed on requests of these sessions.
    pub(super) fn learn(&mut self, passed: &Passed) {
        let Some(conn) = passed.conn.filter(|_| passed.may_all) else { return };
        if !passed.last.is_empty() {
            self.conns.insert(conn);
        }
        for (session, last) in &passed.last {
            let index = session.index as usize;
            if index >= self.sessions.len() {
                self.sessions.resize(index + 1, None);
            }
            self.sessions[index] = Some(Known { generation: session.generation, conn, last: *last });
        }
    }

    /// Nothing of this is certain any more.
    pub(super) fn forget(&mut self) {
        self.sessions.clear();
        self.conns.clear();
    }

    /// The connection is gone, or its requests go through another instance.
    pub(super) fn unbound(&mut self, conn: ConnId) {
        self.conns.remove(&conn);
    }

    /// Execution refused a request of this session.
    pub(super) fn refused(&mut self, session: SessionId) {
        if let Some(known) = self.sessions.get_mut(session.index as usize) {
            *known = None;
        }
    }

    fn of(&self, session: SessionId) -> Option<Known> {
        let known = self.sessions.get(session.index as usize).copied().flatten();
        known.filter(|known| known.generation == session.generation)
    }

    /// The last executed numbers of the sessions of requests that came over a connection, if all are known, and each request is the next one
    /// of its session as far as the lane knows. Where one is missing, execution may know that it was executed.
    pub(super) fn takes(
        &self,
        conn: ConnId,
        requests: &[u8],
        admission: &Admission,
    ) -> Option<BTreeMap<SessionId, RequestNumber>> {
        if !self.conns.contains(&conn) {
            return None;
        }
        let mut newest: BTreeMap<SessionId, RequestNumber> = BTreeMap::new();
        for request in Requests::new(requests) {
            let (header, ..) = request.ok()?;
            let known = self.of(header.session).filter(|known| known.conn == conn)?;
            let before = newest
                .entry(header.session)
                .or_insert_with(|| known.last.max(admission.entered(header.session)));
            let is_plain = (header.kind, header.proof) == (RequestKind::Commands, RequestProof::None);
            if !is_plain || header.number != before.next() {
                return None;
            }
            *before = header.number;
        }
        let lasts = newest.into_keys().filter_map(|session| Some((session, self.of(session)?.last)));
        Some(lasts.collect()).filter(|lasts: &BTreeMap<_, _>| !lasts.is_empty())
    }

    /// Whether sessions are known that are used over this connection.
    pub(super) fn knows(&self, conn: ConnId) -> bool {
        self.conns.contains(&conn)
    }
}

#[cfg(test)]
mod tests;
