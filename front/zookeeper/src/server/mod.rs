//! A server of ZooKeeper's clients, without threads, sockets and clocks: what comes in, and what is to be done.
//!
//! Each member of the cluster has one. Writes are ordered by the cluster. Reads are answered here, from the version of the state that was
//! adopted last; adopting a version, and handing out the events before it, is one step. So each client sees one history, in order, and its
//! own writes at once; a client that wants to see everybody's calls `sync` first. Watches belong to a connection, and are set again by the
//! client when it has moved.
//!
//! The caller passes inputs, and carries out [`Server::take_outputs`] after each one. Tests: tests/all/server.rs.

mod admin;
mod auth;
mod calls;
mod conn;
mod frames;
mod here;
mod owned;
mod reading;
mod reconfig;
mod sasl;
mod state;
mod watches;
mod words;

use crate::command::{Asked, Command, DIGEST_BYTES, Opening, write_asked};
use crate::error::ZkError;
use crate::feed::Heard;
use crate::jute::Reader;
use crate::op::Op;
use crate::records::{CONNECTED, ConnectRequest, ConnectResponse, RequestHeader, WatcherEvent};
use crate::request::Request;
use crate::service::{Told, What, ZooKeeper};
use crate::sessions;
use crate::tree::{Event, Id};
pub use admin::Admin;
pub use auth::digest_id;
use bytes::Bytes;
use calls::{Call, Calls};
use conn::{Conn, Stage, Waits};
pub use frames::{BadFrame, split, word};
use owned::{Own, Owned};
use quorate_execute::{Published, StateView};
use quorate_types::{Span, Time, planted};
pub use reconfig::{Change, Named};
pub use sasl::{NONCE_BYTES, Proof, SaslUsers};
use state::{State, Step};
use std::collections::{BTreeMap, BTreeSet, HashMap};
pub use watches::{Kinds, Watches};
use words::Counts;
pub use words::{Around, REQUEST_KINDS, Role, VERSION};

/// A connection's number. No two have the same.
pub type ConnId = u64;

/// The bytes in a session's password.
pub const PASSWORD_BYTES: usize = 16;

/// How a server serves.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The number of this life of the server: no other life of any server has it.
    pub server: i64,
    /// ZooKeeper's unit of time.
    pub tick: Span,
    /// The shortest and the longest time-out of a session, in milliseconds.
    pub timeout_ms: (i32, i32),
    /// The most requests of one connection that wait at once, and the most bytes.
    pub waiting_max: (usize, usize),
    /// The identity that may do everything, as [`digest_id`] gives it.
    pub super_digest: Option<Vec<u8>>,
    /// Who may prove who they are with SASL. Without any of them the server does not know SASL.
    pub sasl_users: SaslUsers,
    /// Whether each read sees all writes that were acknowledged anywhere before it.
    pub linearizable: bool,
    /// Whether clients may change the members.
    pub may_reconfigure: bool,
    /// Whether clients that only read are served while nothing can be ordered.
    pub read_only: bool,
}

/// What the moment is.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// By the clock that never jumps.
    pub time: Time,
    /// By the wall clock, in milliseconds since 1970.
    pub wall_ms: i64,
}

/// Secrets, and what is kept of them.
pub trait Secrets: Send {
    /// A new password that nobody guesses.
    fn password(&mut self) -> [u8; PASSWORD_BYTES];
    /// The digest of a password.
    fn digest(&self, password: &[u8]) -> [u8; DIGEST_BYTES];
    /// A number that nobody guesses, and that is used once.
    fn nonce(&mut self) -> [u8; NONCE_BYTES];
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this to a client.
    Send {
        /// Its connection.
        conn: ConnId,
        /// A frame.
        frame: Bytes,
    },
    /// Close a connection, once everything was sent. [`Server::closed`] need not be called.
    Close {
        /// The connection.
        conn: ConnId,
    },
    /// A connection that was full has room again.
    Resume {
        /// The connection.
        conn: ConnId,
    },
    /// Have this command ordered, behind those before it, and pass the answer to [`Server::ordered`]. Once one of a connection has no answer,
    /// none behind it of the same connection may be ordered any more.
    Order {
        /// Names it.
        token: u64,
        /// The connection for which it is ordered; none for the server itself.
        conn: Option<ConnId>,
        /// Whether its answer may be long, so that it should not share a reply with others.
        alone: bool,
        /// The command.
        command: Vec<u8>,
    },
    /// Ask the cluster for a state that has everything that was acknowledged: its answer to this query goes to [`Server::asked`].
    Ask {
        /// Names it.
        token: u64,
        /// The query.
        query: Vec<u8>,
    },
    /// Change the members, have the tree show them, and pass what came of it to [`Server::reconfigured`].
    Reconfigure {
        /// Names it.
        token: u64,
        /// The change.
        change: Change,
    },
}

/// A server.
pub struct Server {
    config: ServerConfig,
    service: ZooKeeper,
    secrets: Box<dyn Secrets>,
    conns: HashMap<ConnId, Conn>,
    /// What the cluster was asked to do.
    calls: Calls,
    owned: Owned,
    watches: Watches,
    state: State,
    /// Connections whose next answer may be given once this transaction is seen.
    later: BTreeMap<i64, BTreeSet<ConnId>>,
    /// Since when the replica answers no reads.
    shut_since: Option<Time>,
    /// Since when it knows no leader, and whether clients may only read for that.
    unled_since: Option<Time>,
    only_reads: bool,
    counts: Counts,
    out: Vec<Output>,
}

/// Inputs.
impl Server {
    /// A server without connections.
    pub fn new(config: ServerConfig, secrets: Box<dyn Secrets>) -> Self {
        let (server, tick) = (config.server, config.tick);
        Self {
            config,
            service: ZooKeeper::default(),
            secrets,
            conns: HashMap::new(),
            calls: Calls::default(),
            owned: Owned::new(server, tick),
            watches: Watches::default(),
            state: State::default(),
            later: BTreeMap::new(),
            shut_since: None,
            unled_since: None,
            only_reads: false,
            counts: Counts::default(),
            out: Vec::new(),
        }
    }

    /// What is to be done after the last input.
    pub fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.out)
    }

    /// A client has connected. Its address, and its certificate, are identities.
    pub fn connected(&mut self, conn: ConnId, ids: Vec<Id>, now: Now) {
        self.conns.insert(conn, Conn::new(ids, now.time));
    }

    /// A connection is gone.
    pub fn closed(&mut self, conn: ConnId) {
        if let Some(was) = self.conns.remove(&conn) {
            self.owned.lost(was.caller.session, conn);
            self.watches.remove_all(conn);
        }
    }

    /// A client has sent a frame.
    pub fn received(&mut self, id: ConnId, frame: Bytes, now: Now) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        (conn.heard, conn.received) = (now.time, conn.received + 1);
        self.counts.received += 1;
        match &mut conn.stage {
            Stage::New => self.connect(id, &frame),
            Stage::Opening(early) if early.len() < self.config.waiting_max.0 => early.push_back(frame),
            Stage::Opening(_) => self.close(id),
            Stage::Open => {
                let session = conn.caller.session;
                self.owned.heard(session, now.time);
                self.request(id, &frame, now);
            }
        }
    }

    /// Whether nothing more should be read from a connection before [`Output::Resume`].
    pub fn is_full(&self, conn: ConnId) -> bool {
        self.conns.get(&conn).is_some_and(|conn| self.fills(conn, 1))
    }

    fn fills(&self, conn: &Conn, part: usize) -> bool {
        if let Stage::Opening(early) = &conn.stage {
            return !early.is_empty();
        }
        let (requests, bytes) = self.config.waiting_max;
        conn.len() >= requests / part || conn.bytes() >= bytes / part
    }

    /// The replica has done more: what it told, and its newest version; none while it answers no reads.
    pub fn turn(&mut self, heard: Heard, newest: Option<&Published>, now: Now) {
        self.state.hear(heard);
        match self.state.adopt(newest) {
            None => return,
            Some(Step::On(told)) if planted("zk-event-after-reply") => return self.turn_late(&told, now),
            Some(Step::On(told)) => told.iter().for_each(|told| self.told(told, now)),
            // Sessions may have come here before there was anything to show.
            Some(Step::First) => self.look_who_is_here(now),
            Some(Step::Jump { before, told }) => self.jump(&StateView::reading(&before), &told, now),
            Some(Step::Back) => {
                self.close_all();
                self.look_who_is_here(now);
            }
        }
        self.answer_ready(now);
    }

    /// A planted bug: answers before events.
    fn turn_late(&mut self, told: &[Told], now: Now) {
        self.answer_ready(now);
        told.iter().for_each(|told| self.told(told, now));
    }

    /// Answers what waited for the state that is shown now.
    fn answer_ready(&mut self, now: Now) {
        let mut ready = std::mem::take(&mut self.later);
        self.later = ready.split_off(&(self.state.zxid() + 1));
        for conn in ready.into_values().flatten() {
            self.advance(conn, now);
        }
    }

    /// The answer to a command; none if nobody knows whether it was done.
    pub fn ordered(&mut self, token: u64, answer: Option<Bytes>, now: Now) {
        let Some(call) = self.calls.take(token) else { return };
        let (conn, number) = match call {
            Call::Live => {
                if let Some(answer) = &answer {
                    self.state.exists(calls::zxid_of(answer), now.time);
                }
                return self.owned.said(answer.is_some());
            }
            Call::Session { conn, password } => return self.session(conn, password, answer, now),
            Call::Request { conn, number } => (conn, number),
        };
        let Some(answer) = answer else { return self.close(conn) };
        // Who is behind moved on, or was too late for its session: nothing is said to it.
        if calls::error_of(&answer) == ZkError::SessionMoved.code() {
            return self.close(conn);
        }
        let waiting = self.conns.get_mut(&conn).and_then(|conn| conn.get_mut(number));
        match waiting.map(|request| &mut request.waits) {
            Some(Waits::Write { answer: place, .. }) => *place = Some(answer),
            Some(Waits::Change { .. }) => self.begin_change(conn, number, &answer),
            _ => return,
        }
        self.advance(conn, now);
    }

    /// The answer to a question; none if there is none.
    pub fn asked(&mut self, token: u64, answer: Option<Bytes>, now: Now) {
        let Some(Call::Request { conn, number }) = self.calls.take(token) else { return };
        let Some(answer) = answer else { return self.close(conn) };
        let waiting = self.conns.get_mut(&conn).and_then(|conn| conn.get_mut(number));
        let waits = waiting.map(|request| &mut request.waits);
        if let Some(Waits::Sync { zxid, .. } | Waits::Here { zxid, .. }) = waits {
            *zxid = Reader::new(&answer).long().ok();
            self.advance(conn, now);
        }
    }

    /// A change of the members is done, and shown by this transaction, or was refused; none if nobody knows.
    pub fn reconfigured(&mut self, token: u64, done: Option<Result<i64, ZkError>>, now: Now) {
        let Some(Call::Request { conn, number }) = self.calls.take(token) else { return };
        let Some(is) = done else { return self.close(conn) };
        let waiting = self.conns.get_mut(&conn).and_then(|conn| conn.get_mut(number));
        if let Some(Waits::Change { done, .. }) = waiting.map(|request| &mut request.waits) {
            *done = Some(is);
            self.advance(conn, now);
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Now) {
        if let Some(word) = self.owned.word(now.time, self.state.zxid()) {
            let token = self.calls.begin(Call::Live);
            let mut command = Vec::new();
            word.write(&mut command);
            self.out.push(Output::Order { token, conn: None, alone: false, command });
        }
        // Whoever says nothing for as long as a session may be silent is gone.
        let gone = |conn: &Conn| {
            let most = if conn.timeout_ms > 0 { conn.timeout_ms } else { self.config.timeout_ms.1 };
            now.time.since(conn.heard) > Span::from_millis(most as u64)
        };
        // Where nothing is ordered, or may be read, or what is read stays old, a client does not know whether its session still lives.
        let is_shut = self.state.view().is_none() && self.state.has_any();
        self.shut_since = if is_shut { self.shut_since.or(Some(now.time)) } else { None };
        let cut_off = |conn: &Conn| {
            let most = Span::from_millis(conn.timeout_ms as u64);
            let shut = self.shut_since.is_some_and(|since| now.time.since(since) > most);
            let unheard = now.time.since(self.owned.confirmed(now.time)) > most;
            let behind = self.state.behind_since().is_some_and(|since| now.time.since(since) > most);
            conn.stage == Stage::Open && (shut || !conn.only_reads && (unheard || behind))
        };
        let gone = self.conns.iter().filter(|(_, conn)| gone(conn) || cut_off(conn));
        let gone: Vec<_> = gone.map(|(id, _)| *id).collect();
        gone.into_iter().for_each(|conn| self.close(conn));
    }

    /// When [`Self::tick`] is due.
    pub fn deadline(&self) -> Option<Time> {
        self.owned.deadline()
    }
}

/// Sessions.
impl Server {
    /// The first frame of a connection.
    fn connect(&mut self, id: ConnId, frame: &[u8]) {
        let Ok(hello) = ConnectRequest::read(frame) else { return self.close(id) };
        if self.only_reads {
            return self.connect_to_read(id, &hello);
        }
        let (min, max) = self.config.timeout_ms;
        let timeout_ms = hello.timeout_ms.clamp(min, max);
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.stage = Stage::Opening(Default::default());
        conn.timeout_ms = timeout_ms;
        conn.knows_read_only = hello.read_only.is_some();
        let mut password = [0; PASSWORD_BYTES];
        let is_new = hello.session == 0;
        if is_new {
            password = self.secrets.password();
        } else if let Some(given) =
            hello.password.first_chunk().filter(|_| hello.password.len() == PASSWORD_BYTES)
        {
            password = *given;
        }
        let digest = self.secrets.digest(if is_new { &password } else { hello.password });
        let opening = Opening { digest, timeout_ms, server: self.owned.server() };
        let command = match hello.session {
            0 => Command::Open(opening),
            session => Command::Attach { session, opening },
        };
        let mut bytes = Vec::new();
        command.write(&mut bytes);
        let token = self.calls.begin(Call::Session { conn: id, password });
        self.out.push(Output::Order { token, conn: Some(id), alone: false, command: bytes });
    }

    /// What became of opening or attaching a session.
    fn session(&mut self, id: ConnId, password: [u8; PASSWORD_BYTES], answer: Option<Bytes>, now: Now) {
        let Some(answer) = answer else { return self.close(id) };
        let Some(conn) = self.conns.get_mut(&id) else { return };
        match calls::session_of(&answer) {
            Some(is) => {
                conn.push(0, 0, Waits::Session { password, is });
                self.advance(id, now);
            }
            None => self.refuse(id),
        }
    }

    /// Tells a client that its session is over.
    fn refuse(&mut self, id: ConnId) {
        self.welcome(id, 0, 0, &[0; PASSWORD_BYTES]);
        self.close(id);
    }

    fn welcome(&mut self, id: ConnId, timeout_ms: i32, session: i64, password: &[u8]) {
        let Some(conn) = self.conns.get(&id) else { return };
        let read_only = conn.knows_read_only.then_some(conn.only_reads);
        let response = ConnectResponse { protocol: 0, timeout_ms, session, password, read_only };
        let frame = frames::frame(|out| response.write(out));
        self.send(id, frame);
    }

    /// The state shows that a session was opened or attached: from now on its client is served.
    fn opened(
        &mut self,
        id: ConnId,
        password: [u8; PASSWORD_BYTES],
        (_, session, attached): (i64, i64, i32),
        now: Now,
    ) {
        if self.state.attachment(session) != Some(attached) {
            // It moved on, or ended, before this was known.
            return self.close(id);
        }
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let Stage::Opening(early) = std::mem::replace(&mut conn.stage, Stage::Open) else { return };
        (conn.caller.session, conn.caller.attached) = (session, attached);
        let (timeout_ms, heard) = (conn.timeout_ms, conn.heard);
        let before = self.owned.insert(session, Own { attached, timeout_ms, heard, conn: Some(id) });
        if let Some(other) = before.and_then(|before| before.conn).filter(|other| *other != id) {
            self.close(other);
        }
        self.welcome(id, timeout_ms, session, &password);
        if !early.is_empty() {
            self.out.push(Output::Resume { conn: id });
        }
        early.iter().for_each(|frame| self.request(id, frame, now));
    }

    /// A session is not here any more.
    fn left(&mut self, session: i64) {
        if let Some(conn) = self.owned.remove(session).and_then(|own| own.conn) {
            self.close(conn);
        }
    }
}

/// Requests.
impl Server {
    fn request(&mut self, id: ConnId, frame: &Bytes, now: Now) {
        let mut from = Reader::new(frame);
        let Ok(RequestHeader { xid, op }) = RequestHeader::read(&mut from) else { return self.close(id) };
        let request = frame.slice_ref(from.rest());
        let only_reads = self.conns.get(&id).is_some_and(|conn| conn.only_reads);
        match Op::of(op) {
            Some(Op::Ping) => {
                let zxid = self.state.zxid();
                self.send(id, frames::own_reply(xid, zxid, 0, |_| ()));
            }
            Some(Op::Auth) => self.prove(id, xid, &request),
            Some(Op::Sasl) => self.sasl(id, xid, &request),
            _ if only_reads => self.request_to_read(id, (xid, op), request, now),
            Some(Op::Reconfig) => {
                let Some(conn) = self.conns.get_mut(&id) else { return };
                conn.push(
                    xid,
                    request.len(),
                    Waits::Change { request: Some(request), change: None, done: None },
                );
                self.advance(id, now);
            }
            Some(op) if op.writes() => self.write(id, xid, op, &request, now),
            Some(Op::Sync) => self.ask(id, xid, request.len(), Waits::Sync { path: request, zxid: None }),
            Some(known) if self.config.linearizable && known.reads() => {
                self.ask(id, xid, request.len(), Waits::Here { op, request, zxid: None });
            }
            _ => {
                let Some(conn) = self.conns.get_mut(&id) else { return };
                conn.push(xid, request.len(), Waits::Here { op, request, zxid: Some(0) });
                self.advance(id, now);
            }
        }
    }

    fn write(&mut self, id: ConnId, xid: i32, op: Op, request: &Bytes, now: Now) {
        let Some(conn) = self.conns.get_mut(&id).filter(|conn| conn.stage == Stage::Open) else { return };
        if conn.reads() && !planted("zk-write-before-read") {
            conn.push(xid, request.len(), Waits::Write { op, request: Some(request.clone()), answer: None });
        } else {
            let number = conn.push(xid, request.len(), Waits::Write { op, request: None, answer: None });
            self.order(id, (number, op), request, now);
        }
    }

    /// Has a write ordered.
    fn order(&mut self, id: ConnId, (number, op): (u64, Op), request: &[u8], now: Now) {
        let Some(conn) = self.conns.get(&id) else { return };
        let mut command = Vec::with_capacity(64 + request.len());
        write_asked(now.wall_ms, &conn.caller, &Asked { op: op.code(), request }, &mut command);
        let token = self.calls.begin(Call::Request { conn: id, number });
        let alone = op == Op::Multi;
        self.out.push(Output::Order { token, conn: Some(id), alone, command });
    }

    /// Asks the cluster how far a state must have come that has everything that was acknowledged.
    fn ask(&mut self, id: ConnId, xid: i32, bytes: usize, waits: Waits) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let number = conn.push(xid, bytes, waits);
        let token = self.calls.begin(Call::Request { conn: id, number });
        let mut query = Vec::new();
        let whoever = crate::tree::Caller { session: 0, attached: 0, ids: Vec::new() };
        crate::command::write_query(&whoever, &Request::About { op: Op::Sync, path: b"/" }, &mut query);
        self.out.push(Output::Ask { token, query });
    }

    fn prove(&mut self, id: ConnId, xid: i32, request: &[u8]) {
        let super_digest = self.config.super_digest.as_deref();
        let ids = match Request::read(Op::Auth, request) {
            Ok(Request::Auth { scheme, proof, .. }) => auth::ids(scheme, proof, super_digest),
            _ => None,
        };
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let fit = ids.is_some_and(|ids| conn.add_ids(ids));
        let error = if fit { 0 } else { ZkError::AuthFailed.code() };
        self.send(id, frames::own_reply(xid, 0, error, |_| ()));
        if error != 0 {
            self.close(id);
        }
    }

    /// Answers what can be answered now, in order.
    fn advance(&mut self, id: ConnId, now: Now) {
        let was_full = self.is_full(id);
        while let Some(conn) = self.conns.get_mut(&id) {
            if let Some((number, record)) = conn.change_to_begin() {
                self.ask_for_change(id, number, &record, now);
                continue;
            }
            let Some(next) = conn.next() else { break };
            let zxid = match &next.waits {
                Waits::Session { is: (zxid, ..), .. } => Some(*zxid),
                Waits::Write { answer, .. } => answer.as_ref().map(|answer| calls::zxid_of(answer)),
                Waits::Sync { zxid, .. } | Waits::Here { zxid, .. } => *zxid,
                Waits::Change { done, .. } => done.map(|done| done.unwrap_or_default()),
            };
            let Some(zxid) = zxid else { break };
            if !self.state.shows(zxid) {
                self.later.entry(zxid).or_default().insert(id);
                break;
            }
            let Some(request) = conn.pop() else { break };
            self.counts.add(&request.waits, request.came, now.time);
            match request.waits {
                Waits::Session { password, is } => self.opened(id, password, is, now),
                Waits::Write { op, answer, .. } => {
                    let answer = answer.unwrap_or_default();
                    self.send(id, frames::reply(request.xid, &answer));
                    if op == Op::CloseSession || calls::error_of(&answer) == ZkError::SessionExpired.code() {
                        self.close(id);
                    }
                }
                Waits::Sync { path, .. } => {
                    let frame = frames::own_reply(request.xid, self.state.zxid(), 0, |out| {
                        out.extend_from_slice(&path)
                    });
                    self.send(id, frame);
                }
                Waits::Change { done, .. } => {
                    self.answer_change(id, request.xid, done.unwrap_or(Err(ZkError::System)));
                }
                Waits::Here { op, request: record, .. } => {
                    self.answer_here(id, request.xid, op, &record);
                }
            }
            while let Some((number, op, held)) = self.conns.get_mut(&id).and_then(Conn::next_to_order) {
                self.order(id, (number, op), &held, now);
            }
        }
        if was_full && self.conns.get(&id).is_some_and(|conn| !self.fills(conn, 2)) {
            self.out.push(Output::Resume { conn: id });
        }
    }
}

/// Events.
impl Server {
    fn told(&mut self, told: &Told, now: Now) {
        match &told.what {
            What::Nodes(events) => events.iter().for_each(|event| self.happened(event)),
            What::Ended { session, events } => {
                events.iter().for_each(|event| self.happened(event));
                // Who asked for it is still told so.
                let asked =
                    self.owned.get(*session).and_then(|own| own.conn).is_some_and(|conn| self.ends(conn));
                if asked {
                    self.owned.remove(*session);
                } else {
                    self.left(*session);
                }
            }
            What::Placed { session, attached, server, timeout_ms } => {
                if self.owned.get(*session).is_some_and(|own| own.attached != *attached) {
                    self.left(*session);
                }
                if *server == self.owned.server() {
                    self.place(*session, *attached, *timeout_ms, now);
                }
            }
            What::Replaced => {}
        }
    }

    /// Whether the client of a connection waits for the end of its session.
    fn ends(&self, conn: ConnId) -> bool {
        self.conns.get(&conn).is_some_and(Conn::ends)
    }

    fn happened(&mut self, event: &Event) {
        let hear = self.watches.happened(event.kind, &event.path);
        let mut frame = None;
        for id in hear {
            let Some(conn) = self.conns.get(&id).filter(|conn| event.is_for(&conn.caller.ids)) else {
                continue;
            };
            debug_assert!(conn.stage == Stage::Open, "only served clients watch");
            let record =
                WatcherEvent { kind: event.kind as i32, state: CONNECTED, path: event.path.as_bytes() };
            let frame = frame.get_or_insert_with(|| frames::event(event.zxid, &record)).clone();
            self.send(id, frame);
        }
    }

    /// Not everything that led to the present state was told. Watches for one event are compared with it, as if they were set again; with
    /// lasting ones it can not be known what they missed. Events that were told behind the part that is missing are handed on: a comparison
    /// does not show a node that came in that part and went behind it.
    fn jump(&mut self, before: &StateView<'_>, told: &[Told], now: Now) {
        let events: Vec<&Event> = told.iter().flat_map(|told| told.what.events()).collect();
        let mut fire: HashMap<&str, Kinds> = HashMap::new();
        for event in &events {
            let kinds = fire.entry(&event.path).or_default();
            *kinds = kinds.or(Kinds::once_of(event.kind));
        }
        let conns: Vec<ConnId> = self.conns.keys().copied().collect();
        for id in conns {
            let list: Vec<(String, Kinds)> =
                self.watches.of(id).map(|(path, kinds)| (path.to_owned(), kinds)).collect();
            if list.iter().any(|(_, kinds)| kinds.meets(Kinds::LASTING) || kinds.meets(Kinds::BELOW)) {
                self.close(id);
                continue;
            }
            for (path, kinds) in &list {
                let fires = fire.get(&**path).copied().unwrap_or_default();
                self.compare(id, path, kinds.without(fires), before);
            }
        }
        events.into_iter().for_each(|event| self.happened(event));
        let gone =
            self.owned.iter().filter(|(session, own)| self.state.attachment(*session) != Some(own.attached));
        let gone: Vec<i64> = gone.map(|(session, _)| session).collect();
        gone.into_iter().for_each(|session| self.left(session));
        self.look_who_is_here(now);
    }

    /// Learns from the state which sessions are at this server.
    fn look_who_is_here(&mut self, now: Now) {
        let server = self.owned.server();
        let here = self.state.view().map(|view| sessions::at_server(&view, server)).unwrap_or_default();
        self.owned.keep(|session| here.iter().any(|(known, ..)| *known == session));
        here.iter()
            .for_each(|(session, attached, timeout_ms)| self.place(*session, *attached, *timeout_ms, now));
    }

    /// A session is at this server. Its client may be gone already: then its silence counts from now on.
    fn place(&mut self, session: i64, attached: i32, timeout_ms: i32, now: Now) {
        if self.owned.get(session).is_none() {
            self.owned.insert(session, Own { attached, timeout_ms, heard: now.time, conn: None });
        }
    }
}

/// Ends.
impl Server {
    fn send(&mut self, id: ConnId, frame: Bytes) {
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.sent += 1;
            self.counts.sent += 1;
            self.out.push(Output::Send { conn: id, frame });
        }
    }

    fn close(&mut self, id: ConnId) {
        if self.conns.contains_key(&id) {
            self.closed(id);
            self.out.push(Output::Close { conn: id });
        }
    }

    fn close_all(&mut self) {
        let all: Vec<ConnId> = self.conns.keys().copied().collect();
        all.into_iter().for_each(|conn| self.close(conn));
    }
}
