//! What time does to sessions; and reads that are ordered like commands (where replicas may lie and no quorum answered alike).
//!
//! Such reads are asked in a session of the client's own, which is opened with the first of them. Asking changes nothing, so when that
//! session ends, unanswered reads are asked again in another one, and no caller is told. The session is not kept alive: a client that reads
//! seldom opens a new one.
//!
//! An answer's seq is what f+1 members had executed, as far as was known, before the read was asked. The state that was read is not older.

use super::Sessions;
use super::entry::Entry;
use super::session::{Death, Phase};
use crate::effects::{CallId, Effect, ReadConsistency, SessionHandle};
use crate::error::Error;
use crate::reads::Question;
use crate::step::{GRAIN, NEVER, Step};
use bytes::Bytes;
use quorate_types::Time;
use quorate_wire::{ReplyStatus, RequestKind};

/// What a caller is told whose deadline passed.
fn late_error(refused: Option<ReplyStatus>, outcome_unknown: bool, detail: &str) -> Error {
    match refused {
        Some(ReplyStatus::Overloaded) => Error::Overloaded { outcome_unknown },
        Some(ReplyStatus::DiskFull) => Error::DiskFull { outcome_unknown },
        _ => Error::DeadlineExceeded { outcome_unknown, detail: detail.to_owned() },
    }
}

/// Why a request has no answer that counts, for people: what is known of all, and how often the members differ about this one. Of `needed`
/// equal answers all but one may be missing since members lie, so where no more than that many lie, honest ones say at most `needed` things.
fn why(entry: &Entry, needed: u32, detail: &str) -> String {
    match entry.votes.differ() {
        None => detail.to_owned(),
        Some((members, ways)) if ways > needed as usize => format!(
            "{detail}; {members} replicas answered in {ways} different ways: the service is not deterministic, or more replicas lie than the \
             cluster survives"
        ),
        Some((members, ways)) => format!("{detail}; {members} replicas answered in {ways} different ways"),
    }
}

/// The result of looking at one session's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Looked {
    /// When to check again.
    pub(crate) due: Time,
    /// It got no answer for too long, so everything of it is sent again.
    pub(crate) again: bool,
}

// Time.
impl Sessions {
    /// Whether the deadline of a caller in this cell's session has passed: [`Self::give_up_late`].
    pub(crate) fn is_late(&self, now: Time, cell: u32) -> bool {
        let session = self.cells.get(cell as usize).and_then(|cell| cell.session.as_ref());
        session.is_some_and(|session| session.is_late(now))
    }

    /// Tells the callers whose deadline passed. `detail`: why there is no answer, for people.
    pub(crate) fn give_up_late(&mut self, step: &mut Step<'_>, index: u32, detail: &str) {
        let Some(session) = self.cells[index as usize].session.as_mut() else { return };
        if let Phase::Opening(opening) = &mut session.phase
            && !session.queries
        {
            // The cluster may still open it; then it is closed at once. If no answer ever comes, it expired there.
            let unknown = opening.open_sends > 0;
            let error = late_error(opening.refused, unknown, detail);
            let abandoned = opening.call.is_none();
            step.out.complete(opening.call.take(), Err(error));
            opening.deadline = step.now.plus(step.config.session_ttl);
            session.deadline_min = opening.deadline;
            if abandoned || !unknown {
                self.remove(index);
            }
            return;
        }
        let (held, needed) = (session.pace.refused, self.rules.needed);
        let late_close = session.close_is_late(step.now);
        let (mut told, is_for_queries) = (false, session.queries);
        let mut tell = |call: CallId, entry: &Entry| {
            told = true;
            let unknown = entry.may_run() || entry.too_large.is_some();
            let error = late_error(entry.refused.or(held), unknown, &why(entry, needed, detail));
            step.out.push(Effect::Completed { call, result: Err(error) });
        };
        let (freed, earliest) = session.queue.give_up_late(step.now, &mut tell);
        session.deadline_min = earliest;
        self.queued -= freed;
        if late_close {
            self.forget(step, index, detail);
        } else if told && step.config.in_order && !is_for_queries {
            self.end_session(step, index, Death::Broken(format!("a call was given up: {detail}")));
        }
    }

    /// The close of this session was not answered in time, so the session is left to expire in the cluster.
    fn forget(&mut self, step: &mut Step<'_>, index: u32, detail: &str) {
        let Some(mut session) = self.remove(index) else { return };
        for entry in session.take_entries(&mut self.held) {
            self.queued -= entry.cost();
            step.out.complete(entry.call, Err(late_error(entry.refused, entry.may_run(), detail)));
        }
    }

    /// Looks at one session's timers.
    pub(crate) fn look(&mut self, step: &Step<'_>, index: u32) -> Option<Looked> {
        let (now, config) = (step.now, step.config);
        let session = self.cells[index as usize].session.as_mut()?;
        let again = session.resend_at(config) <= now;
        let mut dirty = false;
        if session.pace.hold_until.is_some_and(|until| until <= now) {
            session.pace.hold_until = None;
            dirty = true;
        }
        if let Some((_, wanted)) = session.pace.recheck.filter(|(at, _)| *at <= now) {
            session.pace.recheck = None;
            if wanted >= session.base() {
                session.rewind(wanted);
                dirty = true;
            }
        }
        if again {
            session.rewind(0);
            session.pace.resends = session.pace.resends.saturating_add(1);
            session.pace.progress = now;
            dirty = true;
        }
        let mut idle_due = NEVER;
        if matches!(session.phase, Phase::Open) && !session.waits() && !session.queries {
            idle_due = session.pace.progress.plus(config.session_ttl.divided(3));
            if idle_due <= now {
                let entry = Entry::new(None, RequestKind::Empty, Bytes::new(), NEVER);
                self.queued += entry.cost();
                session.push(entry);
                session.pace.progress = now;
                idle_due = NEVER;
                dirty = true;
            }
        }
        dirty |= session.pace.hold_until.is_none() && session.next_to_send(config.window).is_some();
        let timers = [session.pace.hold_until, session.pace.recheck.map(|(at, _)| at)];
        let timers = timers.into_iter().chain([session.queue.close_deadline()]).flatten();
        let due = timers.chain([session.deadline_min, idle_due]).min().unwrap_or(NEVER);
        let due = due.min(session.resend_at(config)).min(session.alone_until(config));
        if dirty {
            self.mark_dirty(index);
        }
        Some(Looked { due, again })
    }

    /// All sessions were looked at, and none is due before this time.
    pub(crate) fn look_on(&mut self, now: Time, due: Time) {
        self.due = due.max(now.plus(GRAIN));
    }
}

// Reads that are ordered.
impl Sessions {
    /// Puts a query into the session for queries.
    pub(super) fn enqueue_query(&mut self, step: &mut Step<'_>, entry: Entry) {
        let index = self.query_session(step);
        self.enqueue(step, index, entry);
    }

    /// The session for queries. Makes a new one when there is none, or none that was used lately.
    fn query_session(&mut self, step: &mut Step<'_>) -> u32 {
        if let Some(index) = self.query_session
            && let Some(session) = self.at(index)
        {
            let quiet = step.now.since(session.pace.progress);
            if session.waits() || quiet < step.config.session_ttl.divided(2) {
                return index;
            }
            // It expires in the cluster by itself, if it did not yet.
            self.remove(index);
        }
        let index = self.begin(step, None, NEVER);
        if let Some(session) = self.at(index) {
            session.queries = true;
        }
        self.query_session = Some(index);
        index
    }

    /// The session for queries is over, so its unanswered queries are asked in another one.
    pub(super) fn ask_again(&mut self, step: &mut Step<'_>, index: u32) {
        self.query_session = None;
        let Some(mut session) = self.remove(index) else { return };
        for entry in session.take_entries(&mut self.held) {
            self.queued -= entry.cost();
            if entry.done || entry.call.is_none() || entry.kind != RequestKind::Query {
                continue;
            }
            let again = Entry::new(entry.call, RequestKind::Query, entry.body, entry.deadline);
            self.enqueue_query(step, Entry { seen: entry.seen, ..again });
        }
    }

    /// Reads are not ordered any more. Gives those that wait, as if they were asked now; their session expires in the cluster by itself.
    pub(crate) fn take_queries(&mut self) -> Vec<Question> {
        let Some(mut session) = self.query_session.take().and_then(|index| self.remove(index)) else {
            return Vec::new();
        };
        let mut questions = Vec::new();
        for entry in session.take_entries(&mut self.held) {
            self.queued -= entry.cost();
            let Some(call) = entry.call.filter(|_| !entry.done && entry.kind == RequestKind::Query) else {
                continue;
            };
            let (after, query, deadline) = (entry.seen, entry.body, entry.deadline);
            let consistency = ReadConsistency::Strong;
            questions.push(Question { call, reader: 0, consistency, after, pinned: None, query, deadline });
        }
        questions
    }

    /// No more reads will come, so the session for queries is closed, if it is open.
    pub(crate) fn end_queries(&mut self, step: &mut Step<'_>) {
        let Some(index) = self.query_session else { return };
        let cell = &mut self.cells[index as usize];
        let generation = cell.generation;
        if let Some(session) = cell.session.as_mut().filter(|session| matches!(session.phase, Phase::Open)) {
            session.queries = false;
            self.query_session = None;
            self.close(step, None, SessionHandle { index, generation }, None);
        }
    }
}
