//! Which connection gets the letters of which session, and the letters that leave this turn.
//!
//! Stage 6 (reply). Before: letters of final batches. After: the host, which sends what [`LetterRoutes::drain`] returns.
//!
//! A client says in which sessions it listens, before or after this replica has executed that they were opened. Whether a session is the
//! client's is checked when a letter leaves. Every replica sends; the client drops what it has already.
//!
//! The last letters are kept, up to [`LetterLimits::kept_bytes`]: a client that connects again, or whose word comes later than the first
//! letter, gets those that it lacks. They are no part of the state, and are lost when the process ends. Tests: `letters/tests.rs`.

use quorate_execute::Letter;
use quorate_types::{ClientId, ConnId, SessionId};
use quorate_wire::{LETTER_BYTES_MAX, LetterFrame, Listen};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Limits of letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LetterLimits {
    /// How many bytes of letters are kept for clients that lack them. 4 MiB by default.
    pub kept_bytes: usize,
    /// In how many sessions one connection may listen; after that the oldest ones are left out. 16,384 by default.
    pub sessions_per_conn_max: usize,
    /// The most bytes for one connection in a turn; what is over that is lost. 8 MiB by default.
    pub turn_bytes_max: usize,
    /// The most bytes of a frame's body, unless a single letter is larger. 1 MiB by default.
    pub frame_bytes_max: usize,
}

impl Default for LetterLimits {
    fn default() -> Self {
        Self {
            kept_bytes: 4 << 20,
            sessions_per_conn_max: 16_384,
            turn_bytes_max: 8 << 20,
            frame_bytes_max: 1 << 20,
        }
    }
}

/// A connection over which a client listens.
#[derive(Debug)]
struct Line {
    client: ClientId,
    /// In the order in which the client named them.
    sessions: VecDeque<SessionId>,
    /// This turn's frames, the last of which may be added to.
    frames: Vec<Vec<u8>>,
    bytes: usize,
}

/// See the module.
#[derive(Debug)]
pub struct LetterRoutes {
    limits: LetterLimits,
    /// A connection for each session of a client; its client may name any, so those of another client do not meet it.
    readers: BTreeMap<(ClientId, SessionId), ConnId>,
    by_conn: BTreeMap<ConnId, Line>,
    /// Connections with something to send.
    pending: BTreeSet<ConnId>,
    /// The last letters to each session of a client.
    kept: BTreeMap<(ClientId, SessionId), VecDeque<Letter>>,
    /// To which sessions these are, oldest first.
    kept_order: VecDeque<(ClientId, SessionId)>,
    kept_bytes: usize,
}

/// What a kept letter counts.
fn cost(letter: &Letter) -> usize {
    LetterFrame::HEADER + letter.body.len() + size_of::<(ClientId, SessionId, Letter)>()
}

impl LetterRoutes {
    /// Without readers.
    pub fn new(limits: LetterLimits) -> Self {
        Self {
            limits,
            readers: BTreeMap::new(),
            by_conn: BTreeMap::new(),
            pending: BTreeSet::new(),
            kept: BTreeMap::new(),
            kept_order: VecDeque::new(),
            kept_bytes: 0,
        }
    }

    /// From now on letters of these sessions go to this connection, where this client is. Those that are kept and that it lacks are sent.
    /// Costs no more than it names and gets, however often it is called.
    pub fn listen(&mut self, (conn, client): (ConnId, ClientId), sessions: &[Listen]) {
        let fresh = || Line { client, sessions: VecDeque::new(), frames: Vec::new(), bytes: 0 };
        for Listen { session, after } in sessions {
            let line = self.by_conn.entry(conn).or_insert_with(fresh);
            if self.readers.insert((client, *session), conn) != Some(conn) {
                line.sessions.push_back(*session);
            }
            if line.sessions.len() > self.limits.sessions_per_conn_max
                && let Some(oldest) = line.sessions.pop_front()
            {
                forget(&mut self.readers, (client, oldest), conn);
            }
            let kept = self.kept.get(&(client, *session)).into_iter().flatten();
            let lacks: Vec<Letter> = kept.filter(|letter| letter.number > *after).cloned().collect();
            lacks.iter().for_each(|letter| self.append(conn, letter));
        }
    }

    /// A letter to a session of this client became final.
    pub fn send(&mut self, client: ClientId, letter: Letter) {
        if letter.body.len() > LETTER_BYTES_MAX || letter.number == 0 {
            return;
        }
        let to = (client, letter.to);
        if let Some(conn) = self.readers.get(&to).copied() {
            self.append(conn, &letter);
        }
        self.kept_bytes += cost(&letter);
        self.kept_order.push_back(to);
        self.kept.entry(to).or_default().push_back(letter);
        while self.kept_bytes > self.limits.kept_bytes
            && let Some(oldest) = self.kept_order.pop_front()
        {
            self.drop_kept(oldest);
        }
    }

    /// Drops the oldest letter that is kept of this session.
    fn drop_kept(&mut self, to: (ClientId, SessionId)) {
        let Some(kept) = self.kept.get_mut(&to) else { return };
        if let Some(letter) = kept.pop_front() {
            self.kept_bytes -= cost(&letter);
        }
        if kept.is_empty() {
            self.kept.remove(&to);
        }
    }

    fn append(&mut self, conn: ConnId, letter: &Letter) {
        let Some(line) = self.by_conn.get_mut(&conn) else { return };
        let len = LetterFrame::HEADER + letter.body.len();
        if line.bytes + len > self.limits.turn_bytes_max {
            return;
        }
        line.bytes += len;
        let full = |frame: &&mut Vec<u8>| frame.len() + len <= self.limits.frame_bytes_max;
        let frame = LetterFrame { session: letter.to, number: letter.number, body: &letter.body };
        match line.frames.last_mut().filter(full) {
            Some(last) => frame.write_to(last),
            None => {
                let mut bytes = Vec::with_capacity(len);
                frame.write_to(&mut bytes);
                line.frames.push(bytes);
            }
        }
        self.pending.insert(conn);
    }

    /// The connection is gone.
    pub fn unbind_conn(&mut self, conn: ConnId) {
        let Some(Line { client, sessions, .. }) = self.by_conn.remove(&conn) else { return };
        self.pending.remove(&conn);
        for session in sessions {
            forget(&mut self.readers, (client, session), conn);
        }
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Takes this turn's frame bodies. Those of one connection come in the order in which they must be sent.
    pub fn drain(&mut self) -> impl Iterator<Item = (ConnId, Vec<u8>)> {
        let by_conn = &mut self.by_conn;
        std::mem::take(&mut self.pending).into_iter().flat_map(move |conn| {
            let frames = by_conn.get_mut(&conn).map(|line| {
                line.bytes = 0;
                std::mem::take(&mut line.frames)
            });
            frames.unwrap_or_default().into_iter().map(move |frame| (conn, frame))
        })
    }

    /// Bytes of letters that are kept.
    pub const fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }
}

/// The session is not read over this connection any more; perhaps it is over another one by now.
fn forget(readers: &mut BTreeMap<(ClientId, SessionId), ConnId>, of: (ClientId, SessionId), conn: ConnId) {
    if readers.get(&of) == Some(&conn) {
        readers.remove(&of);
    }
}

#[cfg(test)]
mod tests;
