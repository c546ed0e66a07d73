//! Reads where replicas may lie and no quorum answered alike (`unordered.rs`): ordered like commands, and answered by f+1 in the same way.
//!
//! They are asked in a session of the core's own, which is opened with the first of them. Asking changes nothing, so what is unanswered
//! when that session ends is asked again in another one, and nobody is told. It is not kept alive: who reads seldom opens it anew.
//!
//! An answer's seq is what f+1 members had executed, as far as was known, before the read was asked: the state that was read is not older.

use crate::core::ClientCore;
use crate::effects::{CallId, Completion, Effects, SessionHandle};
use crate::error::Error;
use crate::session::{Entry, NEVER, Phase, cost};
use bytes::Bytes;
use quorate_types::{Items, Seq, Time};
use quorate_wire::RequestKind;

/// What a reader is told when the answer to its query counts.
pub(crate) fn query_result(seen: Seq, result: Result<Completion, Error>) -> Result<Completion, Error> {
    match result {
        Ok(Completion::Replies(list)) => match Items::parse(&list).ok().and_then(|items| items.iter().next())
        {
            Some(answer) => Ok(Completion::Read { seq: seen, body: list.slice_ref(answer) }),
            None => Err(Error::ReplyForgotten),
        },
        Err(Error::TooLarge { detail, .. }) => Err(Error::TooLarge { outcome_unknown: false, detail }),
        other => other,
    }
}

impl ClientCore {
    /// Asks a query in the order of all commands.
    pub(crate) fn ordered_read(
        &mut self,
        now: Time,
        call: CallId,
        query: Bytes,
        deadline: Option<Time>,
        out: &mut Effects,
    ) {
        let max = self.config.frame_bytes_max as usize;
        if query.len() + self.around() > max {
            let detail = format!("a query of {} bytes, the limit is {max}", query.len());
            return out.complete(Some(call), Err(Error::TooLarge { outcome_unknown: false, detail }));
        }
        let index = self.query_session(now);
        let mut entry = Entry::new(Some(call), RequestKind::Query, query, deadline.unwrap_or(NEVER));
        entry.seen = self.reads.newest;
        self.enqueue(now, index, entry);
    }

    /// The session for queries; a new one when there is none, or none that has been used of late.
    fn query_session(&mut self, now: Time) -> u32 {
        if let Some(index) = self.query_session
            && let Some(session) = self.sessions.at(index)
        {
            if session.waits() || now.since(session.progress) < self.config.session_ttl.divided(2) {
                return index;
            }
            // It expires in the cluster by itself, if it did not yet.
            self.sessions.remove(index);
        }
        let index = self.begin_session(now, None, NEVER);
        if let Some(session) = self.sessions.at(index) {
            session.queries = true;
        }
        self.query_session = Some(index);
        index
    }

    /// The session for queries is over: what is unanswered in it is asked in another one.
    pub(crate) fn ask_again(&mut self, now: Time, index: u32) {
        self.query_session = None;
        let Some(mut session) = self.sessions.remove(index) else { return };
        for entry in session.take_entries(&mut self.held) {
            self.queued_bytes -= entry.cost();
            if entry.done || entry.call.is_none() || entry.kind != RequestKind::Query {
                continue;
            }
            let index = self.query_session(now);
            let mut again = Entry::new(entry.call, RequestKind::Query, entry.body, entry.deadline);
            again.seen = entry.seen;
            self.enqueue(now, index, again);
        }
    }

    /// Gives up a session that was never opened; whoever waits in it is told why.
    pub(crate) fn drop_session(&mut self, index: u32, why: &Error, out: &mut Effects) {
        let Some(mut session) = self.sessions.remove(index) else { return };
        if session.queries {
            self.query_session = None;
        }
        for entry in session.take_entries(&mut self.held) {
            self.queued_bytes -= cost(entry.body.len());
            out.complete(entry.call, Err(why.clone()));
        }
    }

    /// Nothing more will be read: the session for queries is closed, if it is open.
    pub(crate) fn end_reads(&mut self, now: Time, out: &mut Effects) {
        let Some(index) = self.query_session else { return };
        let place = &mut self.sessions.places[index as usize];
        let generation = place.generation;
        if let Some(session) = place.session.as_mut().filter(|session| matches!(session.phase, Phase::Open)) {
            session.queries = false;
            self.query_session = None;
            self.close(now, None, SessionHandle { index, generation }, None, out);
        }
    }
}
