//! Which connection waits for the replies of which session, and the replies that go out this turn.
//!
//! Stage 6 (reply). Before: execution's outcomes. After: the host, which sends what [`Routes::drain`] returns.
//!
//! A session's cell leads straight to its connection, so a reply costs no search. Replies gather in one buffer per connection, are cut
//! where a frame would get too large, and leave once a turn. Tests: `routes/tests.rs`.

use quorate_execute::{Executor, Outcomes};
use quorate_types::{ClientId, ConnId, Digest, RequestNumber, SessionId};
use quorate_wire::{AnswerMode, Reply, ReplyStatus};
use std::collections::{BTreeMap, BTreeSet};

/// Limits of the routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteLimits {
    /// How many cells of sessions can be bound: the cap on sessions, and some more for cells that are used up. 101,024 by default.
    pub cells_max: u32,
    /// How many sessions one connection may be opening at once. 1024 by default.
    pub openings_per_conn_max: u32,
    /// The most bytes of a frame's body, unless a single reply is larger. 1 MiB by default.
    pub frame_bytes_max: usize,
}

impl Default for RouteLimits {
    fn default() -> Self {
        Self { cells_max: 101_024, openings_per_conn_max: 1024, frame_bytes_max: 1 << 20 }
    }
}

/// The size of a first buffer, which spares small frames most of their growth.
const FRAME_BEGIN: usize = 512;
/// Bytes of a reply's fixed part.
const REPLY_HEADER: usize = 24;

/// How many bytes of replies go out at once after execution continued from a checkpoint.
const COVERED_BYTES_MAX: usize = 8 << 20;

/// A session with a connection here, before execution continues from a checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct Reached {
    session: SessionId,
    client: ClientId,
    last: RequestNumber,
}

/// Where a session's replies go. It stays when its connection goes; the connection's id then shows that.
#[derive(Clone, Copy, Debug, Default)]
struct Bound {
    generation: u32,
    line: u32,
    conn: ConnId,
}

/// A connection to which something is bound.
#[derive(Debug)]
struct Line {
    conn: ConnId,
    openings: u32,
    /// How its client wants to be answered, if it said so.
    mode: Option<AnswerMode>,
    /// This turn's replies that are in no finished frame yet.
    buffer: Vec<u8>,
}

/// The routes of one replica.
#[derive(Debug)]
pub struct Routes {
    limits: RouteLimits,
    sessions: Vec<Bound>,
    lines: Vec<Line>,
    vacant: Vec<u32>,
    by_conn: BTreeMap<ConnId, u32>,
    openings: BTreeMap<(ClientId, RequestNumber), ConnId>,
    openings_by_conn: BTreeSet<(ConnId, ClientId, RequestNumber)>,
    /// Frames that were full before the end of the turn.
    full: Vec<(ConnId, Vec<u8>)>,
    /// Lines with replies in their buffer, in the order of their first reply.
    pending: Vec<u32>,
}

impl Routes {
    /// Without routes.
    pub fn new(limits: RouteLimits) -> Self {
        Self {
            limits,
            sessions: Vec::new(),
            lines: Vec::new(),
            vacant: Vec::new(),
            by_conn: BTreeMap::new(),
            openings: BTreeMap::new(),
            openings_by_conn: BTreeSet::new(),
            full: Vec::new(),
            pending: Vec::new(),
        }
    }

    /// From now on this session's replies go to this connection. The caller has checked that the session is open and belongs to the client
    /// on this connection. `false` when the session's cell is beyond the limit.
    pub fn bind(&mut self, session: SessionId, conn: ConnId) -> bool {
        if session.index >= self.limits.cells_max || session == SessionId::NONE {
            return false;
        }
        let place = session.index as usize;
        if let Some(bound) = self.sessions.get(place)
            && bound.generation == session.generation
            && bound.conn == conn
            && self.line(bound).is_some()
        {
            return true;
        }
        // A connection that still uses an ended session must not take the replies of the session that has its cell now.
        if self.sessions.get(place).is_some_and(|bound| session.generation < bound.generation) {
            return false;
        }
        let line = self.line_of(conn);
        if place >= self.sessions.len() {
            self.sessions.resize(place + 1, Bound::default());
        }
        self.sessions[place] = Bound { generation: session.generation, line, conn };
        true
    }

    /// This connection wants to open a session and waits for the outcome. `false` when it is opening too many at once.
    pub fn bind_opening(&mut self, client: ClientId, nonce: RequestNumber, conn: ConnId) -> bool {
        if self.openings.get(&(client, nonce)) == Some(&conn) {
            return true;
        }
        let line = self.line_of(conn) as usize;
        if self.lines[line].openings >= self.limits.openings_per_conn_max {
            return false;
        }
        self.take_opening(client, nonce);
        self.lines[line].openings += 1;
        self.openings.insert((client, nonce), conn);
        self.openings_by_conn.insert((conn, client, nonce));
        true
    }

    fn take_opening(&mut self, client: ClientId, nonce: RequestNumber) -> Option<ConnId> {
        let conn = self.openings.remove(&(client, nonce))?;
        self.openings_by_conn.remove(&(conn, client, nonce));
        if let Some(line) = self.by_conn.get(&conn) {
            self.lines[*line as usize].openings -= 1;
        }
        Some(conn)
    }

    /// The connection is gone. What it waits for is dropped.
    pub fn unbind_conn(&mut self, conn: ConnId) {
        let first = (conn, ClientId::new(0), RequestNumber::ZERO);
        while let Some(&(of, client, nonce)) = self.openings_by_conn.range(first..).next()
            && of == conn
        {
            self.take_opening(client, nonce);
        }
        let Some(index) = self.by_conn.remove(&conn) else { return };
        let line = &mut self.lines[index as usize];
        line.conn = ConnId::ZERO;
        if !line.buffer.is_empty() {
            line.buffer = Vec::new();
            self.pending.retain(|pending| *pending != index);
        }
        self.full.retain(|(of, _)| *of != conn);
        self.vacant.push(index);
    }

    /// The connection to which a session's replies go now.
    pub fn conn(&self, session: SessionId) -> Option<ConnId> {
        let bound = self.sessions.get(session.index as usize)?;
        let line = self.line(bound).filter(|_| bound.generation == session.generation);
        line.map(|_| bound.conn)
    }

    /// Hands this batch's replies to the connections here that wait for them. `own`: this replica proposed the batch. Only the proposer
    /// says that a request was not taken, since a client counts such answers, one for each copy that it sent (INV-CLIENT-3). `answers`:
    /// whether this replica must answer this session, if the client did not say how it wants to be answered; openings are answered by all
    /// replicas. `owns`: turns replies into this replica's own replies, if the service has such.
    pub fn route(
        &mut self,
        outcomes: &Outcomes,
        own: bool,
        answers: impl Fn(SessionId) -> bool,
        owns: Option<&Executor>,
    ) {
        for (outcome, reply) in outcomes.replies() {
            let refused = matches!(reply.status, ReplyStatus::ExpectedNumber | ReplyStatus::Overloaded);
            if refused && !own {
                continue;
            }
            if let Some(client) = outcome.opening {
                let Some(conn) = self.take_opening(client, outcome.number) else { continue };
                if outcome.session != SessionId::NONE {
                    self.bind(outcome.session, conn);
                }
                self.answer(conn, &reply);
            } else {
                self.answer_session(reply, &answers, owns);
            }
        }
    }

    /// Whose each session with a connection here is, and the last number that it has executed: [`Self::covered`] needs it.
    pub fn reached(&self, executor: &Executor) -> Vec<Reached> {
        let bound = self.sessions.iter().zip(0..).filter(|(bound, _)| self.line(bound).is_some());
        let sessions = bound.map(|(bound, index)| SessionId { index, generation: bound.generation });
        let of = |session| {
            Some(Reached { session, client: executor.client(session)?, last: executor.last_number(session)? })
        };
        sessions.filter_map(of).collect()
    }

    /// Execution continued from a checkpoint of another replica, and `before` says how far the sessions were. Answers what their clients
    /// may wait for: the requests since then that the checkpoint covers, and the openings. Clients get 8 MiB together, and those that get
    /// nothing send again. A session that belongs to another client there is left alone: this replica's own table was wrong. `answers`: as
    /// for [`Self::route`]. `own`: whether replies leave as this replica's own; then a client hears of them when it sends again.
    pub fn covered(
        &mut self,
        before: &[Reached],
        executor: &Executor,
        answers: impl Fn(SessionId) -> bool,
        own: bool,
    ) {
        let waiting: Vec<_> = self.openings.keys().copied().collect();
        for (client, nonce) in waiting {
            let Some(session) = executor.opened(client, nonce) else { continue };
            let Some(conn) = self.take_opening(client, nonce) else { continue };
            self.bind(session, conn);
            let opened = Reply { session, number: nonce, status: ReplyStatus::SessionOpened, body: &[] };
            self.answer(conn, &opened);
        }
        let mut left = COVERED_BYTES_MAX;
        let same = |reached: &&Reached| !own && executor.client(reached.session) == Some(reached.client);
        for Reached { session, last, .. } in before.iter().filter(same) {
            for (number, status, body) in executor.kept_after(*session, *last) {
                if left < REPLY_HEADER + body.len() {
                    break;
                }
                let reply = Reply { session: *session, number, status, body };
                left = left.saturating_sub(self.answer_session(reply, &answers, None));
            }
        }
    }

    /// Sends a reply to the connection that its session is bound to, if there is one, in the client's answer mode. Returns its bytes.
    fn answer_session(
        &mut self,
        reply: Reply<'_>,
        answers: impl Fn(SessionId) -> bool,
        owns: Option<&Executor>,
    ) -> usize {
        let bound = self.sessions.get(reply.session.index as usize);
        let Some(bound) = bound.filter(|bound| bound.generation == reply.session.generation) else {
            return 0;
        };
        let Some(line) = self.line(bound) else { return 0 };
        let (mode, mut digest) = (line.mode, [0; Digest::BYTES]);
        let owns = owns.filter(|_| reply.status == ReplyStatus::Done && mode != Some(AnswerMode::Silent));
        let own = owns.and_then(|executor| executor.own_replies(reply.body));
        let reply = Reply { body: own.as_deref().unwrap_or(reply.body), ..reply };
        let shaped = match mode {
            Some(mode) => mode.shape(reply, &mut digest),
            None => Some(reply).filter(|_| answers(reply.session)),
        };
        let Some(reply) = shaped else { return 0 };
        let line = bound.line;
        self.append(line, &reply);
        REPLY_HEADER + reply.body.len()
    }

    /// From now on the client on this connection wants to be answered in this mode.
    pub fn set_mode(&mut self, conn: ConnId, mode: AnswerMode) {
        let line = self.line_of(conn);
        self.lines[line as usize].mode = Some(mode);
    }

    /// The answer mode of the client on this connection: whole replies, if it did not say.
    pub fn mode(&self, conn: ConnId) -> AnswerMode {
        let line = self.by_conn.get(&conn).map(|line| &self.lines[*line as usize]);
        line.and_then(|line| line.mode).unwrap_or(AnswerMode::Full)
    }

    /// Sends a reply to this connection, which must be open; nothing need be bound to it. For what admission itself answers.
    pub fn answer(&mut self, conn: ConnId, reply: &Reply<'_>) {
        let line = self.line_of(conn);
        self.append(line, reply);
    }

    fn append(&mut self, index: u32, reply: &Reply<'_>) {
        let line = &mut self.lines[index as usize];
        let len = REPLY_HEADER + reply.body.len();
        if line.buffer.is_empty() {
            self.pending.push(index);
        } else if line.buffer.len() + len > self.limits.frame_bytes_max {
            self.full.push((line.conn, std::mem::take(&mut line.buffer)));
        }
        if line.buffer.capacity() == 0 {
            line.buffer.reserve(FRAME_BEGIN.max(len));
        }
        reply.write_to(&mut line.buffer);
    }

    /// Takes this turn's frame bodies. Those of one connection come in the order in which they must be sent.
    pub fn drain(&mut self) -> impl Iterator<Item = (ConnId, Vec<u8>)> {
        let lines = &mut self.lines;
        self.full.drain(..).chain(self.pending.drain(..).map(move |index| {
            let line = &mut lines[index as usize];
            (line.conn, std::mem::take(&mut line.buffer))
        }))
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.full.is_empty()
    }

    /// Bytes of replies that wait for [`Self::drain`].
    pub fn byte_len(&self) -> usize {
        let pending = self.pending.iter().map(|index| self.lines[*index as usize].buffer.len());
        self.full.iter().map(|(_, body)| body.len()).chain(pending).sum()
    }

    fn line(&self, bound: &Bound) -> Option<&Line> {
        self.lines
            .get(bound.line as usize)
            .filter(|line| line.conn == bound.conn && bound.conn != ConnId::ZERO)
    }

    fn line_of(&mut self, conn: ConnId) -> u32 {
        if let Some(line) = self.by_conn.get(&conn) {
            return *line;
        }
        let fresh = Line { conn, openings: 0, mode: None, buffer: Vec::new() };
        let index = self.vacant.pop().unwrap_or(self.lines.len() as u32);
        match self.lines.get_mut(index as usize) {
            Some(line) => *line = fresh,
            None => self.lines.push(fresh),
        }
        self.by_conn.insert(conn, index);
        index
    }
}

#[cfg(test)]
mod tests;
