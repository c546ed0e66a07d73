//! Sessions and the replies that they keep; they decide whether a request runs. Part of stage 5 and of the replicated state: the outcome of
//! a request follows from the log alone.
//!
//! The rules (docs/decisions/0001-reply-cache-beside-the-sessions.md):
//! - A session is opened through the log by client and nonce. The same client and nonce give the same session as long as it lives and has
//!   executed nothing, so an opening may be sent again. After that they open another session: a client that restarts with an old nonce
//!   must not get replies to requests from before the restart. A late copy of an opening then costs an unused session, until it expires.
//! - A new session gets the lowest vacant cell, and that cell's next generation. The number of sessions is limited, in total and for each
//!   client.
//! - A session ends when its client closes it, or when it executed nothing for [`SessionLimits::ttl`] of agreed time. Those of neighbours
//!   ([`crate::Neighbours`]) end with these.
//! - Request `last + 1` runs. A request with a lower number is answered with the reply that was kept for it; one with a higher number is
//!   answered with the number that is expected.
//! - Where commands ask other services, a request that is taken may end later. Until then the session takes the numbers behind it, one after the
//!   other, answers none of those under way, and does not expire.
//! - Replies from the lowest unanswered number on are kept. A request carries that number. It only grows, and never beyond the request's
//!   own number or the expected one, whatever a client claims. It counts also if the request that carries it does not run.
//! - A request does not run, and does not use up its number, while its session, or all sessions together, keep too many bytes.
//!
//! Invariants: INV-SESSION-1 (numbers run once, in order, without a gap), INV-SESSION-2 (kept replies are exactly those from the lowest
//! unanswered number to the last), INV-SESSION-3 (limits on the number of sessions hold), INV-SESSION-4 (an id names one session for ever),
//! INV-SESSION-5 (every session is queued for expiry no later than it is due), INV-SESSION-6 (the bytes kept are counted right).
//! Tests: `tests/all/session_model.rs`, `tests/all/checkpoints.rs`, `tests/all/exactly_once.rs`.

mod checkpoint;
mod replies;

use crate::Lookup;
use quorate_types::{AgreedTime, ClientId, RequestNumber, SessionId, SessionKey, Span, planted};
use quorate_wire::{ReplyStatus, RequestHeader};
use replies::Replies;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// The limits of sessions. All replicas of a cluster must begin with the same limits, since these affect the outcomes of requests.
/// Afterwards checkpoints carry them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// The most sessions at once. 100,000 by default.
    pub sessions_max: u32,
    /// The most sessions of one client at once. 10,000 by default.
    pub sessions_per_client_max: u32,
    /// How long a session lives without executing anything, in agreed time. 60 s by default.
    pub ttl: Span,
    /// How far beyond the lowest unanswered number a number may be. 1024 by default.
    pub window: u64,
    /// While a session keeps more bytes of replies than this, its requests do not run. 4 MiB by default.
    pub reply_bytes_max: u64,
    /// The most bytes in the replies to one request. A little over 1.5 MiB by default, so that a reply with a value of 1.5 MiB fits,
    /// including what encloses the value.
    pub reply_bytes_per_request_max: u64,
    /// Once the replies to one batch have more bytes than this, the rest of the batch does not run. 64 MiB by default: small requests with
    /// large replies must not fill the memory of all replicas at once.
    pub reply_bytes_per_batch_max: u64,
    /// While all sessions together keep more bytes of replies than this, no request runs until clients say which replies they have received,
    /// or sessions expire. 1 GiB by default.
    pub reply_bytes_total_max: u64,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            sessions_max: 100_000,
            sessions_per_client_max: 10_000,
            ttl: Span::from_secs(60),
            window: 1024,
            reply_bytes_max: 4 << 20,
            reply_bytes_per_request_max: (3 << 19) + (64 << 10),
            reply_bytes_per_batch_max: 64 << 20,
            reply_bytes_total_max: 1 << 30,
        }
    }
}

/// What to do with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling<'a> {
    /// Run it, then call [`SessionTable::record`].
    Run {
        /// The client of the session.
        client: ClientId,
    },
    /// It ran before, with this answer.
    Answered {
        /// How it ended then.
        status: ReplyStatus,
        /// The body of the answer.
        body: &'a [u8],
    },
    /// It ran before, and the client said that it has the answer.
    Forgotten,
    /// Requests before it are missing; this number is the next.
    Expected(RequestNumber),
    /// It runs, or waits for its turn. It is answered when it ends.
    UnderWay,
    /// Too many replies are kept.
    Overloaded,
    /// The session does not exist any more.
    Expired,
}

/// How far a session is.
pub(crate) struct Progress {
    /// The last number that ran, and the lowest unanswered one.
    pub(crate) last: u64,
    pub(crate) lowest: u64,
    /// Bytes of the replies that it keeps.
    pub(crate) bytes: u64,
}

#[derive(Debug)]
struct Session {
    client: ClientId,
    nonce: u64,
    /// The key for the signatures of its requests, if its client signs them. No signature is checked here: replicas check them before they
    /// vouch for a proposal, and everything that is decided runs.
    key: Option<SessionKey>,
    /// The last number executed.
    last: u64,
    /// The lowest number whose reply the client may lack; replies from here to `last` are kept.
    lowest: u64,
    /// The agreed time when it was opened or last executed something.
    last_active: AgreedTime,
    replies: Replies,
    /// How many requests after the last one are under way. A checkpoint has it with these requests.
    under_way: u64,
}

#[derive(Debug)]
struct Cell {
    /// How often the cell was given to a session.
    generation: u32,
    session: Option<Session>,
}

/// All sessions, each in a cell.
#[derive(Debug)]
pub struct SessionTable {
    limits: SessionLimits,
    cells: Vec<Cell>,
    /// Cells without a session.
    vacant: BinaryHeap<Reverse<u32>>,
    /// The cells of sessions that executed nothing yet, by client and nonce.
    openings: BTreeMap<(ClientId, u64), u32>,
    per_client: BTreeMap<ClientId, u32>,
    /// When to check whether a session expired: one entry for each session, never later than the session is due, so that requests need not
    /// change it; and entries of closed sessions that are left over.
    expiry: BinaryHeap<Reverse<(AgreedTime, SessionId)>>,
    live: u32,
    kept_bytes: u64,
    /// How often a session began or ended.
    changes: u64,
}

impl SessionTable {
    /// A table without sessions.
    pub fn new(limits: SessionLimits) -> Self {
        Self {
            limits,
            cells: Vec::new(),
            vacant: BinaryHeap::new(),
            openings: BTreeMap::new(),
            per_client: BTreeMap::new(),
            expiry: BinaryHeap::new(),
            live: 0,
            kept_bytes: 0,
            changes: 0,
        }
    }
    /// The limits.
    pub fn limits(&self) -> &SessionLimits {
        &self.limits
    }
    /// How many sessions live.
    pub fn len(&self) -> usize {
        self.live as usize
    }
    /// Whether none lives.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }
    /// Bytes of replies that all sessions keep.
    pub fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }
    /// Grows whenever a session begins or ends.
    pub fn changes(&self) -> u64 {
        self.changes
    }
    /// The clients of the sessions that live, by cell: each client once for each of its sessions.
    pub fn clients(&self) -> impl Iterator<Item = ClientId> {
        self.cells.iter().filter_map(|cell| Some(cell.session.as_ref()?.client))
    }
    /// How many clients have sessions.
    pub fn client_count(&self) -> usize {
        self.per_client.len()
    }
    /// How many sessions a client has.
    pub fn of_client(&self, client: ClientId) -> u32 {
        self.per_client.get(&client).copied().unwrap_or(0)
    }
    /// The client of this session, while it lives.
    pub fn client(&self, id: SessionId) -> Option<ClientId> {
        self.session(id).map(|session| session.client)
    }
    /// The last number that this session took, while it lives: executed, or under way.
    pub fn last_number(&self, id: SessionId) -> Option<RequestNumber> {
        self.session(id).map(|session| RequestNumber::new(session.last + session.under_way))
    }
    /// How many requests of a session are under way.
    pub(crate) fn under_way(&self, id: SessionId) -> u64 {
        self.session(id).map_or(0, |session| session.under_way)
    }

    /// The key for the signatures of its requests, while it lives and if they are signed.
    pub fn key(&self, id: SessionId) -> Option<SessionKey> {
        self.session(id)?.key
    }

    fn session(&self, id: SessionId) -> Option<&Session> {
        let cell = self.cells.get(id.index as usize)?;
        cell.session.as_ref().filter(|_| cell.generation == id.generation)
    }
    fn session_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        let cell = self.cells.get_mut(id.index as usize)?;
        cell.session.as_mut().filter(|_| cell.generation == id.generation)
    }

    /// Ends every session that is due at `now`, and returns them with their clients, in the order of their ids. They follow from the table
    /// alone, and the table afterwards does not depend on the order in which they end.
    pub fn expire(&mut self, now: AgreedTime) -> Vec<(SessionId, ClientId)> {
        let mut ended = Vec::new();
        while let Some(Reverse((due, id))) = self.expiry.peek().copied()
            && due <= now
        {
            self.expiry.pop();
            let Some(session) = self.session(id) else { continue };
            let due = session.last_active.plus(self.limits.ttl);
            if due <= now && session.under_way > 0 {
                // Its client waits.
                self.expiry.push(Reverse((now.plus(self.limits.ttl), id)));
                if let Some(session) = self.session_mut(id) {
                    session.last_active = now;
                }
            } else if due <= now {
                ended.extend(self.remove(id).map(|client| (id, client)));
            } else {
                self.expiry.push(Reverse((due, id)));
            }
        }
        if ended.len() > 1 {
            ended.sort_unstable();
        }
        ended
    }

    /// Whether a session is due at `now`.
    pub(crate) fn is_due(&mut self, now: AgreedTime) -> bool {
        while let Some(Reverse((due, id))) = self.expiry.peek().copied()
            && due <= now
        {
            let Some(session) = self.session(id) else {
                self.expiry.pop();
                continue;
            };
            let due = session.last_active.plus(self.limits.ttl);
            if due <= now {
                return true;
            }
            self.expiry.pop();
            self.expiry.push(Reverse((due, id)));
        }
        false
    }

    /// How far a session is, while it lives.
    pub(crate) fn progress(&self, id: SessionId) -> Option<Progress> {
        let session = self.session(id)?;
        let Session { last, lowest, .. } = *session;
        Some(Progress { last, lowest, bytes: session.replies.byte_len() })
    }

    /// The session that this client opened with this nonce, while it lives and has executed nothing.
    pub fn opened(&self, client: ClientId, nonce: u64) -> Option<SessionId> {
        let index = *self.openings.get(&(client, nonce))?;
        Some(SessionId { index, generation: self.cells[index as usize].generation })
    }

    /// The sessions that live, with the clients and nonces that opened them.
    pub fn openings(&self) -> impl Iterator<Item = ((ClientId, RequestNumber), SessionId)> {
        self.cells.iter().zip(0..).filter_map(|(cell, index)| {
            let session = cell.session.as_ref()?;
            let id = SessionId { index, generation: cell.generation };
            Some(((session.client, RequestNumber::new(session.nonce)), id))
        })
    }

    /// Opens a session, or finds the one that the same request opened. `None` when a limit is reached.
    pub fn open(
        &mut self,
        client: ClientId,
        nonce: u64,
        key: Option<SessionKey>,
        now: AgreedTime,
    ) -> Option<SessionId> {
        if let Some(session) = self.opened(client, nonce) {
            return Some(session);
        }
        let of_client = self.of_client(client);
        if self.live >= self.limits.sessions_max || of_client >= self.limits.sessions_per_client_max {
            return None;
        }
        let index = self.vacant.pop().map_or(self.cells.len() as u32, |Reverse(index)| index);
        if index as usize == self.cells.len() {
            self.cells.push(Cell { generation: 0, session: None });
        }
        let id = SessionId { index, generation: self.cells[index as usize].generation + 1 };
        let replies = Replies::default();
        let session =
            Session { client, nonce, key, last: 0, lowest: 1, last_active: now, replies, under_way: 0 };
        self.install(id, session);
        Some(id)
    }

    /// Puts a session into a vacant cell and enters it in all lists.
    fn install(&mut self, id: SessionId, session: Session) {
        let cell = &mut self.cells[id.index as usize];
        assert!(cell.session.is_none() && cell.generation <= id.generation, "INV-SESSION-4 {id}");
        cell.generation = id.generation;
        if session.last == 0 {
            self.openings.insert((session.client, session.nonce), id.index);
        }
        *self.per_client.entry(session.client).or_insert(0) += 1;
        if !session.client.is_reserved() {
            self.expiry.push(Reverse((session.last_active.plus(self.limits.ttl), id)));
        }
        self.live += 1;
        self.changes += 1;
        self.kept_bytes += session.replies.byte_len();
        cell.session = Some(session);
    }

    /// Ends a session, if it lives, and returns its client.
    pub fn remove(&mut self, id: SessionId) -> Option<ClientId> {
        self.session(id)?;
        let session = self.cells[id.index as usize].session.take()?;
        if session.last == 0 {
            self.openings.remove(&(session.client, session.nonce));
        }
        if let Some(count) = self.per_client.get_mut(&session.client) {
            *count -= 1;
            if *count == 0 {
                self.per_client.remove(&session.client);
            }
        }
        self.live -= 1;
        self.changes += 1;
        self.kept_bytes -= session.replies.byte_len();
        self.leave_vacant(id.index);
        self.tidy_expiry();
        Some(session.client)
    }

    /// Makes a cell vacant, unless its generations are used up: an id names one session for ever.
    fn leave_vacant(&mut self, index: u32) {
        if self.cells[index as usize].generation < u32::MAX {
            self.vacant.push(Reverse(index));
        }
    }

    /// Removes entries of closed sessions once there are more of them than of living ones. Otherwise a client that opens and closes sessions
    /// at a high rate could fill the memory for as long as a session may live.
    fn tidy_expiry(&mut self) {
        if self.expiry.len() > 2 * self.live as usize + 64 {
            let mut expiry = std::mem::take(&mut self.expiry);
            expiry.retain(|Reverse((_, id))| self.session(*id).is_some());
            self.expiry = expiry;
        }
    }

    /// What to do with a request of a session. Takes over the lowest unanswered number that the request carries.
    pub fn handling(&mut self, header: &RequestHeader) -> Handling<'_> {
        self.forget_answered(header);
        let (window, per_session, total) =
            (self.limits.window, self.limits.reply_bytes_max, self.limits.reply_bytes_total_max);
        let kept_bytes = self.kept_bytes;
        let number = header.number.number();
        let Some(session) = self.session(header.session) else { return Handling::Expired };
        if number <= session.last && planted("duplicate-runs") {
            return Handling::Run { client: session.client };
        }
        if number <= session.last {
            return match session.kept(number) {
                Some((status, body)) => Handling::Answered { status, body },
                None => Handling::Forgotten,
            };
        }
        let taken = session.last + session.under_way;
        if number <= taken {
            return Handling::UnderWay;
        }
        if number > taken + 1 {
            return Handling::Expected(RequestNumber::new(taken + 1));
        }
        let full = number > session.lowest.saturating_add(window)
            || session.replies.byte_len() > per_session
            || kept_bytes > total;
        // The largest number is never used, so that there is always a next one to expect.
        if full || number == u64::MAX {
            Handling::Overloaded
        } else {
            Handling::Run { client: session.client }
        }
    }

    /// Drops the replies below the lowest unanswered number, since the client has them. It can not have replies to numbers that did not run.
    fn forget_answered(&mut self, header: &RequestHeader) {
        let Some(session) = self.session_mut(header.session) else { return };
        let claimed = header.lowest_unanswered.number().min(header.number.number());
        let claimed = if planted("answers-forgotten") { u64::MAX } else { claimed };
        let lowest = claimed.min(session.last + 1);
        if lowest <= session.lowest {
            return;
        }
        let before = session.replies.byte_len();
        session.replies.forget((lowest - session.lowest) as usize);
        session.lowest = lowest;
        let freed = before - session.replies.byte_len();
        self.kept_bytes -= freed;
    }

    /// The request that was to run according to [`Self::handling`] is under way: [`Self::record`] comes later.
    pub(crate) fn begin(&mut self, id: SessionId) {
        let session = self.session_mut(id).expect("INV-SESSION-1: a request that is to run has its session");
        session.under_way += 1;
    }

    /// A request that is under way in a checkpoint. Whether it is the session's next one.
    pub(crate) fn begin_again(&mut self, id: SessionId, number: RequestNumber) -> bool {
        let Some(session) = self.session_mut(id) else { return false };
        session.under_way += 1;
        session.last.checked_add(session.under_way) == Some(number.number())
    }

    /// Records how a request ended that was to run according to [`Self::handling`].
    ///
    /// # Panics
    /// When it is not the next of a living session: a bug of the executor's.
    pub fn record(
        &mut self,
        id: SessionId,
        number: RequestNumber,
        status: ReplyStatus,
        body: &[u8],
        now: AgreedTime,
    ) {
        let session = self.session_mut(id).expect("INV-SESSION-1: a request that ran has its session");
        if number.number() <= session.last && planted("duplicate-runs") {
            return;
        }
        assert_eq!(number.number(), session.last + 1, "INV-SESSION-1 {id}: numbers run in order");
        session.last = number.number();
        session.under_way = session.under_way.saturating_sub(1);
        session.last_active = now;
        session.replies.push(status, body);
        session.check();
        let first = (session.last == 1).then_some((session.client, session.nonce));
        self.kept_bytes += body.len() as u64;
        if let Some(opening) = first {
            self.openings.remove(&opening);
        }
    }

    /// What the sessions tell about a request that is not ordered yet.
    pub fn lookup(&self, id: SessionId, number: RequestNumber) -> Lookup<'_> {
        let Some(session) = self.session(id) else {
            let later =
                self.cells.get(id.index as usize).is_some_and(|cell| cell.generation >= id.generation);
            return if later { Lookup::Ended } else { Lookup::UnknownSession };
        };
        if number.number() > session.last {
            let taken = number.number() <= session.last + session.under_way;
            return if taken { Lookup::UnderWay } else { Lookup::Fresh };
        }
        match session.kept(number.number()) {
            Some((status, body)) => Lookup::Done { status, body },
            None => Lookup::Forgotten,
        }
    }

    /// The replies after this number that a session keeps, in the order of their numbers. Nothing if it does not live.
    pub fn kept_after(
        &self,
        id: SessionId,
        after: RequestNumber,
    ) -> impl Iterator<Item = (RequestNumber, ReplyStatus, &[u8])> {
        self.session(id).into_iter().flat_map(move |session| {
            let first = session.lowest.max(after.number() + 1);
            (first..=session.last).filter_map(move |number| {
                let (status, body) = session.kept(number)?;
                Some((RequestNumber::new(number), status, body))
            })
        })
    }

    /// Panics with the name of an invariant that does not hold; checks the whole table.
    pub fn invariants(&self) {
        let (mut live, mut kept_bytes, mut unused, mut expiring) = (0, 0, 0, 0);
        let mut per_client = BTreeMap::new();
        for cell in &self.cells {
            let Some(session) = &cell.session else { continue };
            session.check();
            live += 1;
            expiring += u32::from(!session.client.is_reserved());
            kept_bytes += session.replies.byte_len();
            unused += usize::from(session.last == 0);
            *per_client.entry(session.client).or_insert(0) += 1;
        }
        assert_eq!(unused, self.openings.len(), "INV-SESSION-1: openings are those of unused sessions");
        assert_eq!((live, &per_client), (self.live, &self.per_client), "INV-SESSION-3: sessions are counted");
        assert!(live <= self.limits.sessions_max, "INV-SESSION-3: the cap on sessions holds");
        let largest = per_client.values().max().copied().unwrap_or(0);
        assert!(largest <= self.limits.sessions_per_client_max, "INV-SESSION-3: the cap on a client holds");
        let mut queued = 0;
        for Reverse((due, id)) in &self.expiry {
            if let Some(session) = self.session(*id) {
                queued += 1;
                assert!(
                    *due <= session.last_active.plus(self.limits.ttl),
                    "INV-SESSION-5 {id} is queued too late"
                );
            }
        }
        assert_eq!(queued, expiring, "INV-SESSION-5: every session that expires is queued once");
        assert!(self.expiry.len() <= 2 * self.live as usize + 64, "INV-SESSION-5: the queue is bounded");
        assert_eq!(kept_bytes, self.kept_bytes, "INV-SESSION-6: kept bytes are counted");
    }
}

impl Session {
    fn kept(&self, number: u64) -> Option<(ReplyStatus, &[u8])> {
        self.replies.get(usize::try_from(number.checked_sub(self.lowest)?).ok()?)
    }
    fn check(&self) {
        let kept = (self.last + 1).checked_sub(self.lowest);
        assert_eq!(kept, Some(self.replies.len() as u64), "INV-SESSION-2: kept replies are lowest..=last");
    }
}
