//! Sessions, as part of the state: who they are, at which server, and when they end.
//!
//! A session is opened by a command, and moved to another server, or to another connection, by another one. Each time it gets the next
//! *attachment*: a number that its writes carry. A write of an earlier attachment is refused, so nothing that a server sent late for a
//! client that has moved on is done.
//!
//! **Liveness.** Clients speak to servers, and servers tell the cluster: about three times in a tick each one orders "mine live, except
//! these", with how long it has not heard of those. A server leaves out all of which it has heard lately ([`silent_after_ms`]), so that
//! idle sessions cost no bytes. It also says which transaction it knows: of a session that was attached behind that it says nothing, whoever
//! it names. So a server whose replica is left behind keeps no session alive that it has never heard of. A server's number is that of one
//! life: after a restart it does not speak for the sessions of its life before. What it heard since its last word is not known yet, and lost if it dies. So a session lives for its time-out and one tick, from
//! when it was heard; and if the server says nothing for a tick, from when it spoke last.
//!
//! **Time.** Sessions end by a clock of their own. It follows agreed time, but no step of it counts for more than a tick, and there is a
//! step in every tick as long as batches are executed. So a time in which nothing could be ordered ends no session, and a clock that jumps
//! does not either. Where several leaders propose, deadlines are due later than commands are executed; the clock follows what is due, so that
//! commands and deadlines move it alike. ZooKeeper begins all time-outs again after an election, for the same reason.
//!
//! | key | value |
//! | --- | --- |
//! | `s` session | time-out, server, attachment, when it was attached, in which transaction, digest of the password |
//! | `x` server, time-out, session | nothing: the sessions of a server, those that end first in front |
//! | `v` server | when it spoke last |
//! | `w` server, session | when the server heard last of a session that is silent, or that the server does not know yet |
//! | `c` | the clock: agreed time at its last step, and its own time. Only while a server is known |
//! | `i` | the id of the session that was opened last |
//!
//! INV-ZK-3: an `s` entry has one `x` entry, at the server that it names, and that server has a `v` entry. INV-ZK-4: a `w` entry belongs to a
//! session at that server. Tests: tests/all/sessions.rs.

use crate::command::{DIGEST_BYTES, Opening};
use crate::error::ZkError;
use crate::jute::{Malformed, Reader, Write as _};
use quorate_execute::{Context, StateView};
use quorate_types::{AgreedTime, Span, planted};

/// The id before that of the first session. No id begins with the byte 0xff, which means other owners of nodes.
pub(crate) const NO_SESSION_YET: i64 = 1 << 56;

/// For how long a server may not have heard of a session of which it says nothing. Clients send something about three times in a time-out.
pub(crate) const fn silent_after_ms(timeout_ms: i32) -> i64 {
    timeout_ms as i64 * 2 / 5
}

fn key(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut key = vec![0xff, 0xff, kind];
    parts.iter().for_each(|part| key.extend_from_slice(part));
    key
}

fn session_key(session: i64) -> Vec<u8> {
    key(b's', &[&session.to_be_bytes()])
}

fn order_key(server: i64, timeout_ms: i32, session: i64) -> Vec<u8> {
    key(b'x', &[&server.to_be_bytes(), &timeout_ms.to_be_bytes(), &session.to_be_bytes()])
}

fn server_key(server: i64) -> Vec<u8> {
    key(b'v', &[&server.to_be_bytes()])
}

fn silent_key(server: i64, session: i64) -> Vec<u8> {
    key(b'w', &[&server.to_be_bytes(), &session.to_be_bytes()])
}

/// All keys that begin so.
fn all(prefix: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
    let mut end = prefix.clone();
    while end.pop_if(|last| *last == 0xff).is_some() {}
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    (prefix, end)
}

fn tail(key: &[u8]) -> i64 {
    let bytes = key.last_chunk().expect("INV-ZK-3: keys end with a number");
    i64::from_be_bytes(*bytes)
}

fn number(view: &StateView<'_>, key: &[u8]) -> Option<u64> {
    let bytes = view.get(key)?;
    bytes.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}

/// A session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Session {
    timeout_ms: i32,
    server: i64,
    attached: i32,
    /// When it was attached, by the clock of sessions.
    since: u64,
    /// The transaction in which it was attached.
    zxid: i64,
    digest: [u8; DIGEST_BYTES],
}

impl Session {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32 + DIGEST_BYTES);
        out.int(self.timeout_ms);
        out.long(self.server);
        out.int(self.attached);
        out.long(self.since as i64);
        out.long(self.zxid);
        out.extend_from_slice(&self.digest);
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let from = &mut Reader::new(bytes);
        Ok(Self {
            timeout_ms: from.int()?,
            server: from.long()?,
            attached: from.int()?,
            since: from.long()? as u64,
            zxid: from.long()?,
            digest: from.rest().try_into().map_err(|_| Malformed)?,
        })
    }

    fn get(view: &StateView<'_>, session: i64) -> Option<Self> {
        let bytes = view.get(&session_key(session))?;
        Some(Self::decode(&bytes).expect("INV-ZK-3: sessions decode"))
    }

    const fn timeout(&self) -> u64 {
        Span::from_millis(self.timeout_ms as u64).nanos()
    }
}

/// The clock: at which agreed time it made its last step, and what it showed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clock {
    agreed: u64,
    own: u64,
}

impl Clock {
    fn key() -> Vec<u8> {
        key(b'c', &[])
    }

    fn get(view: &StateView<'_>) -> Option<Self> {
        let bytes = view.get(&Self::key())?;
        let from = &mut Reader::new(&bytes);
        Some(Self { agreed: from.long().ok()? as u64, own: from.long().ok()? as u64 })
    }

    fn put(self, view: &mut StateView<'_>) {
        let mut bytes = Vec::with_capacity(16);
        bytes.long(self.agreed as i64);
        bytes.long(self.own as i64);
        view.set(&Self::key(), &bytes);
    }

    /// The clock at this time. A step counts for a tick at most.
    fn at(self, time: AgreedTime, tick: Span) -> Self {
        let most = if planted("zk-expiry-by-local-clock") { u64::MAX } else { tick.nanos() };
        let passed = time.nanos().saturating_sub(self.agreed).min(most);
        Self { agreed: self.agreed.max(time.nanos()), own: self.own + passed }
    }
}

/// The sessions, during a command.
pub(crate) struct Sessions<'v, 's> {
    pub(crate) view: &'v mut StateView<'s>,
    /// ZooKeeper's unit of time.
    pub(crate) tick: Span,
}

impl Sessions<'_, '_> {
    /// What the clock shows, without a step.
    fn now(&self, ctx: &Context) -> u64 {
        Clock::get(self.view).map_or(0, |clock| clock.at(ctx.due(), self.tick).own)
    }

    /// A step of the clock. It begins with the first server.
    fn step(&mut self, ctx: &Context) -> u64 {
        let begins = Clock { agreed: ctx.due().nanos(), own: 0 };
        let clock = Clock::get(self.view).unwrap_or(begins).at(ctx.due(), self.tick);
        clock.put(self.view);
        clock.own
    }

    /// A new session, in this transaction: its id, and its attachment.
    pub(crate) fn open(&mut self, opening: &Opening, zxid: i64, ctx: &Context) -> (i64, i32) {
        let last = number(self.view, &key(b'i', &[])).unwrap_or(NO_SESSION_YET as u64);
        let session = last as i64 + 1;
        self.view.set(&key(b'i', &[]), &session.to_be_bytes());
        self.attach_as(session, opening, (1, zxid), ctx);
        (session, 1)
    }

    /// A session comes back in this transaction, perhaps at another server: its attachment.
    ///
    /// # Errors
    /// When there is no such session, or the password is another one.
    pub(crate) fn attach(
        &mut self,
        session: i64,
        opening: &Opening,
        zxid: i64,
        ctx: &Context,
    ) -> Result<i32, ZkError> {
        let was = Session::get(self.view, session).filter(|was| was.digest == opening.digest);
        let was = was.ok_or(ZkError::SessionExpired)?;
        self.leave(session, &was);
        let attached = was.attached.wrapping_add(1);
        self.attach_as(session, opening, (attached, zxid), ctx);
        Ok(attached)
    }

    fn attach_as(&mut self, session: i64, opening: &Opening, (attached, zxid): (i32, i64), ctx: &Context) {
        let Opening { digest, server, .. } = *opening;
        let timeout_ms = opening.timeout_ms.max(1);
        if Clock::get(self.view).is_none() {
            self.step(ctx);
        }
        let since = self.now(ctx);
        let session_now = Session { timeout_ms, server, attached, since, zxid, digest };
        self.view.set(&session_key(session), &session_now.encode());
        self.view.set(&order_key(server, timeout_ms, session), &[]);
        // The server does not know of it yet.
        self.view.set(&silent_key(server, session), &since.to_be_bytes());
        if !self.view.contains(&server_key(server)) {
            self.view.set(&server_key(server), &since.to_be_bytes());
        }
    }

    /// Takes a session from its server.
    fn leave(&mut self, session: i64, was: &Session) {
        self.view.remove(&order_key(was.server, was.timeout_ms, session));
        self.view.remove(&silent_key(was.server, session));
    }

    /// Removes a session that has ended.
    pub(crate) fn forget(&mut self, session: i64) {
        if let Some(was) = Session::get(self.view, session) {
            self.leave(session, &was);
            self.view.remove(&session_key(session));
        }
    }

    /// A server says that its sessions live, except for some. It speaks of those that were attached up to the transaction that it knows.
    pub(crate) fn live(&mut self, (server, zxid): (i64, i64), silent: &[(i64, i64)], ctx: &Context) {
        // A server without sessions is not known.
        let Some(before) = number(self.view, &server_key(server)) else { return };
        let now = self.step(ctx);
        let (start, end) = all(key(b'w', &[&server.to_be_bytes()]));
        let were: Vec<_> = self.view.range(&start, Some(&end)).map(|(key, _)| tail(&key)).collect();
        let mut still: Vec<i64> = Vec::new();
        for (session, silence_ms) in silent {
            let Some(is) = Session::get(self.view, *session).filter(|is| is.server == server) else {
                continue;
            };
            let silence = Span::from_millis((*silence_ms).max(0) as u64).nanos();
            // The server's time may have run while the clock of sessions stood still. So what was known before is not unsaid.
            let left_out = Span::from_millis(silent_after_ms(is.timeout_ms) as u64).nanos();
            let key = silent_key(server, *session);
            let known = number(self.view, &key).unwrap_or_else(|| before.saturating_sub(left_out));
            let heard = now.saturating_sub(silence).max(known).max(is.since);
            self.view.set(&key, &heard.to_be_bytes());
            still.push(*session);
        }
        still.sort_unstable();
        for session in were.into_iter().filter(|session| still.binary_search(session).is_err()) {
            if Session::get(self.view, session).is_none_or(|is| is.zxid <= zxid) {
                self.view.remove(&silent_key(server, session));
            }
        }
        self.view.set(&server_key(server), &now.to_be_bytes());
    }

    /// A step of the clock, and the sessions that are over after it, in the order of servers and time-outs. Servers without sessions are
    /// forgotten, and without servers there is no clock.
    pub(crate) fn over(&mut self, ctx: &Context) -> Vec<i64> {
        let now = self.step(ctx);
        let (start, end) = all(key(b'v', &[]));
        let spoke = |value: &[u8]| value.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let servers = self.view.range(&start, Some(&end)).map(|(key, value)| (tail(&key), spoke(&value)));
        let servers: Vec<(i64, u64)> = servers.collect();
        let (mut over, mut known) = (Vec::new(), servers.len());
        for (server, spoke) in servers {
            let before = over.len();
            // What a server has not spoken of for so long, it may have heard and never said.
            let is_gone = spoke + self.tick.nanos() <= now;
            if !is_gone {
                self.silent_and_over(server, now, &mut over);
            }
            self.unheard_and_over(server, (spoke, is_gone), now, &mut over);
            if over.len() == before && !self.has_sessions(server) {
                self.view.remove(&server_key(server));
                known -= 1;
            }
        }
        if known == 0 {
            self.view.remove(&Clock::key());
        }
        over
    }

    fn has_sessions(&self, server: i64) -> bool {
        let (start, end) = all(key(b'x', &[&server.to_be_bytes()]));
        self.view.range(&start, Some(&end)).next().is_some()
    }

    /// Sessions of which their server has not heard for too long, or does not know for too long.
    fn silent_and_over(&self, server: i64, now: u64, over: &mut Vec<i64>) {
        let (start, end) = all(key(b'w', &[&server.to_be_bytes()]));
        for (key, value) in self.view.range(&start, Some(&end)) {
            let session = tail(&key);
            let heard = value.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
            let is = Session::get(self.view, session).expect("INV-ZK-4: a silent session exists");
            if heard + is.timeout() + self.tick.nanos() <= now {
                over.push(session);
            }
        }
    }

    /// Sessions of which nothing was said, because their server is silent itself.
    fn unheard_and_over(&self, server: i64, (spoke, is_gone): (u64, bool), now: u64, over: &mut Vec<i64>) {
        let (start, end) = all(key(b'x', &[&server.to_be_bytes()]));
        for (key, _) in self.view.range(&start, Some(&end)) {
            let session = tail(&key);
            let is = Session::get(self.view, session).expect("INV-ZK-3: a session exists");
            if spoke + is.timeout() + self.tick.nanos() > now {
                return;
            }
            let is_silent = !is_gone && self.view.contains(&silent_key(server, session));
            if !is_silent && spoke.max(is.since) + is.timeout() + self.tick.nanos() <= now {
                over.push(session);
            }
        }
    }
}

/// The entries of sessions of another cluster, with the digests of their passwords: they live for a time-out and a tick from this time on, if
/// their clients do not come back.
pub(crate) fn taken_over(
    sessions: impl Iterator<Item = (i64, i32, [u8; DIGEST_BYTES])>,
    time: AgreedTime,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    // No life of a server has this number.
    const SERVER: i64 = 0;
    let (mut entries, mut last) = (Vec::new(), NO_SESSION_YET);
    for (session, timeout_ms, digest) in sessions {
        let timeout_ms = timeout_ms.max(1);
        let is = Session { timeout_ms, server: SERVER, attached: 1, since: 0, zxid: 0, digest };
        entries.push((session_key(session), is.encode()));
        entries.push((order_key(SERVER, timeout_ms, session), Vec::new()));
        last = last.max(session);
    }
    if !entries.is_empty() {
        entries.push((server_key(SERVER), 0_u64.to_be_bytes().to_vec()));
        let mut clock = Vec::new();
        [time.nanos() as i64, 0].iter().for_each(|number| clock.long(*number));
        entries.push((Clock::key(), clock));
    }
    entries.push((key(b'i', &[]), last.to_be_bytes().to_vec()));
    entries
}

/// Whether a write of this attachment may be done.
///
/// # Errors
/// When the session is over, or moved on.
pub(crate) fn check(view: &StateView<'_>, session: i64, attached: i32) -> Result<(), ZkError> {
    match Session::get(view, session) {
        None => Err(ZkError::SessionExpired),
        Some(is) if is.attached != attached && !planted("zk-late-write") => Err(ZkError::SessionMoved),
        Some(_) => Ok(()),
    }
}

/// The sessions at a server: each with its attachment and its time-out.
pub(crate) fn at_server(view: &StateView<'_>, server: i64) -> Vec<(i64, i32, i32)> {
    let (start, end) = all(key(b'x', &[&server.to_be_bytes()]));
    let sessions = view.range(&start, Some(&end)).map(|(key, _)| tail(&key));
    let known = sessions.filter_map(|session| Some((session, Session::get(view, session)?)));
    known.map(|(session, is)| (session, is.attached, is.timeout_ms)).collect()
}

/// The time-out of a session in milliseconds, if it lives and this is the digest of its password.
pub(crate) fn timeout_of(view: &StateView<'_>, session: i64, digest: &[u8; DIGEST_BYTES]) -> Option<i32> {
    Session::get(view, session).filter(|is| is.digest == *digest).map(|is| is.timeout_ms)
}

/// The attachment of a session; none if it is over.
pub(crate) fn attachment(view: &StateView<'_>, session: i64) -> Option<i32> {
    Session::get(view, session).map(|is| is.attached)
}

/// When the clock has to make its next step.
pub(crate) fn next_step(view: &StateView<'_>, tick: Span) -> Option<AgreedTime> {
    Clock::get(view).map(|clock| AgreedTime::from_nanos(clock.agreed).plus(tick))
}
