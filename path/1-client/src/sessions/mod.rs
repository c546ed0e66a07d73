//! Sessions: numbering, sending in order, refusals, expiry and keep-alive. A session's requests are numbered from 1. The reach (`reach/`)
//! decides which members get them, and when an answer counts.
//!
//! This file has what callers ask and what there is to send; `answers.rs` the effects of answers; `timers.rs` time-outs, and reads that are
//! ordered. `session.rs` has one session, `queue.rs` and `entry.rs` its requests, and `reached.rs` which members got them.
//!
//! INV-CLIENT-3: a request that may have run is never replaced by another under its number, and never repeated under
//! another number or in another session.
//! INV-CLIENT-10: the bytes of kept answers are counted, and bounded for each member.
//! Tests: sessions/tests.rs, tests/core.rs, tests/cluster.rs.

mod answers;
mod entry;
mod queue;
mod reached;
mod session;
mod timers;

pub(crate) use answers::{Taken, detail_of};
pub(crate) use entry::{Entry, Fixed, cost};
pub(crate) use session::Session;

use crate::effects::{CallId, Completion, SessionHandle};
use crate::error::Error;
use crate::step::{NEVER, Step};
use crate::votes::{KeptAnswers, Votes};
use bytes::Bytes;
use quorate_types::{Items, RequestNumber, Seq, SessionId, Time};
use quorate_wire::RequestKind;
use session::{Death, Opening, Phase};
use std::collections::{BTreeMap, VecDeque};

/// The reach's rules for all requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// This many equal answers are needed.
    pub(crate) needed: u32,
    /// Bytes of a request beside its body.
    pub(crate) around: usize,
    /// How many copies of a request a refusal takes back: one where a copy goes to one replica, none where copies go to many.
    pub(crate) takes_back: u32,
}

#[derive(Debug)]
struct Cell {
    generation: u32,
    session: Option<Session>,
}

/// All sessions of a client.
///
/// Timers are not kept one by one: `due` is a lower bound of all of them, and when it comes all sessions are
/// looked at. Deadlines are long and seldom reached, so that is far cheaper than a queue of timers.
#[derive(Debug)]
pub(crate) struct Sessions {
    rules: Rules,
    /// No session is opened with this nonce, since requests that ask who leads have it.
    probe_nonce: u64,
    cells: Vec<Cell>,
    free: Vec<u32>,
    by_id: BTreeMap<SessionId, u32>,
    by_nonce: BTreeMap<u64, u32>,
    /// Sessions with something to send, in turn.
    dirty: VecDeque<u32>,
    /// No timer of a session is earlier.
    due: Time,
    /// Bytes of what waits.
    queued: usize,
    /// The bytes of kept answers, by contact.
    held: KeptAnswers,
    /// The cell of the session in which reads are ordered.
    query_session: Option<u32>,
    /// Sessions that were opened since they were last taken, for letters.
    fresh: Vec<SessionId>,
}

// What there is.
impl Sessions {
    /// No sessions. `held`: limits what is kept of each member's answers.
    pub(crate) const fn new(rules: Rules, probe_nonce: u64, held: KeptAnswers) -> Self {
        Self {
            rules,
            probe_nonce,
            cells: Vec::new(),
            free: Vec::new(),
            by_id: BTreeMap::new(),
            by_nonce: BTreeMap::new(),
            dirty: VecDeque::new(),
            due: NEVER,
            queued: 0,
            held,
            query_session: None,
            fresh: Vec::new(),
        }
    }

    pub(crate) const fn rules(&self) -> Rules {
        self.rules
    }
    pub(crate) const fn queued(&self) -> usize {
        self.queued
    }
    pub(crate) const fn deadline(&self) -> Time {
        self.due
    }

    fn get(&mut self, handle: SessionHandle) -> Option<&mut Session> {
        let cell = self.cells.get_mut(handle.index as usize)?;
        if cell.generation == handle.generation { cell.session.as_mut() } else { None }
    }

    /// The session in a cell.
    pub(crate) fn at(&mut self, cell: u32) -> Option<&mut Session> {
        self.cells.get_mut(cell as usize)?.session.as_mut()
    }

    /// As [`Self::at`], if the session is still that of this generation.
    pub(crate) fn still_at(&mut self, index: u32, generation: u32) -> Option<&mut Session> {
        self.get(SessionHandle { index, generation })
    }

    /// How often the cell was used.
    pub(crate) fn generation(&self, cell: u32) -> u32 {
        self.cells[cell as usize].generation
    }

    /// All cells that there are, with a session or without.
    pub(crate) fn cells(&self) -> std::ops::Range<u32> {
        0..self.cells.len() as u32
    }

    /// The cell of an open session.
    pub(crate) fn cell_of(&self, id: SessionId) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    /// Whether this client sent a request with this number, and a caller asked for it.
    pub(crate) fn was_sent(&self, session: SessionId, number: RequestNumber) -> bool {
        let cell = self.by_id.get(&session).and_then(|cell| self.cells.get(*cell as usize));
        let session = cell.and_then(|cell| cell.session.as_ref()).filter(|session| !session.queries);
        session.is_some_and(|session| (1..session.high()).contains(&number.number()))
    }

    /// The sessions that callers opened, and that are open.
    pub(crate) fn open_ids(&self) -> Vec<SessionId> {
        let open = self.live().filter(|session| !session.queries && matches!(session.phase, Phase::Open));
        open.map(|session| session.id).collect()
    }

    /// Takes the sessions that were opened since the last call.
    pub(crate) fn take_fresh(&mut self) -> Vec<SessionId> {
        std::mem::take(&mut self.fresh)
    }

    /// The cell of a session that is opened with this nonce.
    pub(crate) fn opening_cell(&self, nonce: u64) -> Option<u32> {
        self.by_nonce.get(&nonce).copied()
    }

    /// A request that was sent and is not answered, and the counter for bytes of its kept answers.
    pub(crate) fn sent_entry(&mut self, cell: u32, number: u64) -> Option<(&mut Entry, &mut KeptAnswers)> {
        let session = self.cells.get_mut(cell as usize)?.session.as_mut()?;
        Some((session.sent_entry(number)?, &mut self.held))
    }

    /// The answers to an opening, and the counter for their bytes.
    pub(crate) fn opening_votes(&mut self, cell: u32) -> Option<(&mut Votes, &mut KeptAnswers)> {
        match self.cells.get_mut(cell as usize)?.session.as_mut() {
            Some(Session { phase: Phase::Opening(opening), .. }) => {
                Some((&mut opening.votes, &mut self.held))
            }
            _ => None,
        }
    }

    fn live(&self) -> impl Iterator<Item = &Session> {
        self.cells.iter().filter_map(|cell| cell.session.as_ref())
    }

    /// Whether anything waits for an answer.
    pub(crate) fn any_waits(&self) -> bool {
        self.live().any(Session::waits)
    }

    /// Whether anything is under way.
    pub(crate) fn any_in_flight(&self) -> bool {
        self.live().any(Session::in_flight)
    }

    fn insert(&mut self, session: Session) -> u32 {
        if let Some(index) = self.free.pop() {
            self.cells[index as usize].session = Some(session);
            return index;
        }
        self.cells.push(Cell { generation: 1, session: Some(session) });
        (self.cells.len() - 1) as u32
    }

    fn remove(&mut self, index: u32) -> Option<Session> {
        let cell = &mut self.cells[index as usize];
        let session = cell.session.take()?;
        cell.generation = cell.generation.wrapping_add(1);
        self.by_id.remove(&session.id);
        if let Phase::Opening(opening) = &session.phase {
            self.by_nonce.remove(&opening.nonce);
        }
        self.free.push(index);
        Some(session)
    }

    /// Checks the invariants of all sessions. Returns how many calls wait.
    pub(crate) fn check(&self, window: u32) -> usize {
        let checked = self.live().map(|session| session.check(window));
        let (bytes, calls) = checked.fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        assert!(bytes == self.queued, "INV-CLIENT-4: queued bytes are what is queued");
        let held: usize = self.live().map(Session::held).sum();
        assert!(held == self.held.total(), "INV-CLIENT-10: what is kept of answers is counted");
        calls
    }
}

// What there is to send.
impl Sessions {
    /// Whether any session may have something to send.
    pub(crate) fn any_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// This session may have something to send.
    pub(crate) fn mark_dirty(&mut self, cell: u32) {
        if let Some(session) = self.cells[cell as usize].session.as_mut()
            && !session.dirty
        {
            session.dirty = true;
            self.dirty.push_back(cell);
        }
    }

    /// The next session that may have something to send now.
    pub(crate) fn next_ready(&mut self) -> Option<u32> {
        while let Some(cell) = self.dirty.pop_front() {
            let Some(session) = self.cells[cell as usize].session.as_mut() else { continue };
            session.dirty = false;
            if session.pace.hold_until.is_none() {
                return Some(cell);
            }
        }
        None
    }

    /// The session has more to send, and continues before the others.
    pub(crate) fn put_back(&mut self, cell: u32) {
        if let Some(session) = self.cells[cell as usize].session.as_mut() {
            session.dirty = true;
            self.dirty.push_front(cell);
        }
    }

    /// Something of a session was sent, so its timers begin.
    pub(crate) fn sent(&mut self, step: &Step<'_>, cell: u32) {
        if let Some(session) = self.cells[cell as usize].session.as_ref() {
            let due = session.resend_at(step.config).min(session.alone_until(step.config));
            self.due = self.due.min(due);
        }
    }

    /// The members changed, and there are this many contacts now: other rules hold, answers are counted anew, and everything unanswered
    /// must be sent again.
    pub(crate) fn members_changed(&mut self, rules: Rules, contacts: usize) {
        self.rules = rules;
        let held = &mut self.held;
        for session in self.cells.iter_mut().filter_map(|cell| cell.session.as_mut()) {
            session.count_anew(held);
        }
        self.held.reach(contacts.saturating_sub(1));
        self.rewind_all();
    }

    /// Later copies of what has no answer may say what no earlier copy said: whoever compared them is no more.
    pub(crate) fn say_anew(&mut self) {
        self.cells.iter_mut().filter_map(|cell| cell.session.as_mut()).for_each(Session::say_anew);
    }

    /// The oldest epoch of keys that made tags of a request which is not answered yet.
    pub(crate) fn oldest_epoch(&self) -> Option<u64> {
        self.live().filter_map(Session::oldest_epoch).min()
    }

    /// Everything unanswered must be sent again.
    pub(crate) fn rewind_all(&mut self) {
        for cell in self.cells() {
            let Some(session) = self.at(cell) else { continue };
            session.rewind(0);
            session.pace.expected = None;
            session.pace.recheck = None;
            if session.waits() {
                self.mark_dirty(cell);
            }
        }
    }
}

// What callers ask.
impl Sessions {
    /// Opens a session.
    pub(crate) fn open(&mut self, step: &mut Step<'_>, call: CallId, deadline: Option<Time>) {
        if self.cells.len() - self.free.len() >= step.config.sessions_max {
            return step.out.complete(Some(call), Err(Error::SessionLimit));
        }
        self.begin(step, Some(call), deadline.unwrap_or(NEVER));
    }

    /// Adds a session that must be opened. Returns its cell.
    fn begin(&mut self, step: &mut Step<'_>, call: Option<CallId>, deadline: Time) -> u32 {
        let mut nonce = step.random.next();
        while nonce == 0 || nonce == self.probe_nonce || self.by_nonce.contains_key(&nonce) {
            nonce = step.random.next();
        }
        let votes = Votes::default();
        let opening = Opening { nonce, call, deadline, sent: false, open_sends: 0, refused: None, votes };
        let index = self.insert(Session::new(opening, step.now));
        self.by_nonce.insert(nonce, index);
        self.due = self.due.min(deadline);
        self.mark_dirty(index);
        index
    }

    /// Runs commands in a session. `others`: bytes that wait elsewhere in this client.
    pub(crate) fn call(
        &mut self,
        step: &mut Step<'_>,
        call: CallId,
        handle: SessionHandle,
        commands: Bytes,
        deadline: Option<Time>,
        others: usize,
    ) {
        if let Err(error) = self.check_call(step, handle, &commands, others) {
            return step.out.complete(Some(call), Err(error));
        }
        let deadline = deadline.unwrap_or(NEVER);
        self.enqueue(step, handle.index, Entry::new(Some(call), RequestKind::Commands, commands, deadline));
    }

    fn check_call(
        &mut self,
        step: &Step<'_>,
        handle: SessionHandle,
        commands: &Bytes,
        others: usize,
    ) -> Result<(), Error> {
        let session = self.get(handle).ok_or(Error::SessionClosed)?;
        match &session.phase {
            Phase::Dead(death) => return Err(death_error(death, false)),
            Phase::Open if !session.closing => {}
            _ => return Err(Error::SessionClosed),
        }
        let max = step.config.frame_bytes_max as usize;
        if commands.len() + self.rules.around > max {
            let detail = format!("{} bytes of commands in one call, the limit is {max}", commands.len());
            return Err(Error::TooLarge { outcome_unknown: false, detail });
        }
        Items::parse(commands).map_err(|_| Error::Malformed("not a list of commands"))?;
        if self.queued + others + cost(commands.len()) > step.config.queue_bytes_max {
            return Err(Error::Overloaded { outcome_unknown: false });
        }
        Ok(())
    }

    fn enqueue(&mut self, step: &Step<'_>, index: u32, entry: Entry) {
        self.queued += entry.cost();
        self.due = self.due.min(entry.deadline);
        if let Some(session) = self.at(index) {
            if !session.in_flight() {
                session.pace.progress = step.now;
            }
            session.push(entry);
            if session.next_to_send(step.config.window).is_some() {
                self.mark_dirty(index);
            }
        }
    }

    /// Closes a session, after everything asked earlier in it.
    pub(crate) fn close(
        &mut self,
        step: &mut Step<'_>,
        call: Option<CallId>,
        handle: SessionHandle,
        deadline: Option<Time>,
    ) {
        let Some(session) = self.get(handle).filter(|session| !session.closing) else {
            return step.out.complete(call, Err(Error::SessionClosed));
        };
        if !matches!(session.phase, Phase::Open) {
            self.remove(handle.index);
            return step.out.complete(call, Ok(Completion::Closed));
        }
        let deadline = deadline.unwrap_or(step.now.plus(step.config.session_ttl));
        self.enqueue(step, handle.index, Entry::new(call, RequestKind::CloseSession, Bytes::new(), deadline));
    }

    /// Asks a query in the order of all commands, in a session of the client's own. `seen`: everything up to this seq was executed before.
    pub(crate) fn query(
        &mut self,
        step: &mut Step<'_>,
        call: CallId,
        query: Bytes,
        deadline: Time,
        seen: Seq,
    ) {
        let max = step.config.frame_bytes_max as usize;
        if query.len() + self.rules.around > max {
            let detail = format!("a query of {} bytes, the limit is {max}", query.len());
            return step.out.complete(Some(call), Err(Error::TooLarge { outcome_unknown: false, detail }));
        }
        self.enqueue_query(
            step,
            Entry { seen, ..Entry::new(Some(call), RequestKind::Query, query, deadline) },
        );
    }

    /// Ends all sessions.
    pub(crate) fn stop(&mut self, step: &mut Step<'_>) {
        for cell in self.cells() {
            let Some(session) = self.cells[cell as usize].session.as_mut() else { continue };
            self.queued -= end(step, session, Death::Stopped, &mut self.held);
        }
        self.by_id.clear();
        self.by_nonce.clear();
    }
}

/// Ends a session; all callers that wait are told. Returns the bytes that became free.
fn end(step: &mut Step<'_>, session: &mut Session, death: Death, held: &mut KeptAnswers) -> usize {
    if let Phase::Opening(opening) = &session.phase {
        step.out.complete(opening.call, Err(death_error(&death, opening.open_sends > 0)));
    }
    let mut freed = 0;
    for entry in session.take_entries(held) {
        freed += entry.cost();
        let closed = entry.kind == RequestKind::CloseSession && death == Death::Expired;
        let unknown = entry.may_run();
        step.out.complete(
            entry.call,
            if closed { Ok(Completion::Closed) } else { Err(death_error(&death, unknown)) },
        );
    }
    session.phase = Phase::Dead(death);
    freed
}

fn death_error(death: &Death, outcome_unknown: bool) -> Error {
    match death {
        Death::Expired => Error::SessionExpired { outcome_unknown },
        Death::Broken(detail) => Error::SessionBroken { outcome_unknown, detail: detail.clone() },
        Death::Stopped => Error::Stopped { outcome_unknown },
    }
}

#[cfg(test)]
mod tests;
