//! `Cluster` is a log, the state behind it, and several servers, each of which may be behind. Nothing moves by itself.

use bytes::Bytes;
use quorate_execute::{Context, InStore, Parallel, Published, ReplySink, Service};
use quorate_types::{AgreedTime, Durations, Seq, Span, Time};
use quorate_zookeeper::command::Command;
use quorate_zookeeper::error::ZkError;
use quorate_zookeeper::feed::Heard;
use quorate_zookeeper::jute::Reader;
use quorate_zookeeper::members::Members;
use quorate_zookeeper::records::{ConnectRequest, ConnectResponse, ReplyHeader, RequestHeader, WatcherEvent};
use quorate_zookeeper::request::Request;
use quorate_zookeeper::server::{
    Admin, Around, Change, ConnId, Now, Output, SaslUsers, Secrets, Server, ServerConfig,
};
use quorate_zookeeper::service::{Told, ZooKeeper};
use quorate_zookeeper::tree::Id;
use serde_json::Value;
use std::any::Any;
use std::collections::{BTreeMap, VecDeque};

pub(crate) const TICK_MS: u64 = 3000;
const START_MS: u64 = 1 << 20;

/// Passwords that count up, and digests that are easy to read.
pub(crate) struct Plain(u8);

impl Plain {
    pub(crate) const fn new(first: u8) -> Self {
        Self(first)
    }
}

impl Secrets for Plain {
    fn password(&mut self) -> [u8; 16] {
        self.0 = self.0.wrapping_add(1);
        [self.0; 16]
    }
    fn digest(&self, password: &[u8]) -> [u8; 32] {
        let mut digest = [password.len() as u8; 32];
        digest[..password.len().min(32)].copy_from_slice(&password[..password.len().min(32)]);
        digest
    }
    fn nonce(&mut self) -> [u8; 16] {
        self.password()
    }
}

/// A server, and how far it has come.
struct Member {
    server: Server,
    /// What was told and published since it last took anything.
    behind: VecDeque<(Vec<Told>, Published)>,
    /// Whether it takes nothing for now.
    lags: bool,
    now: Now,
}

/// What a client got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// Its session is served: session, time-out, and password.
    Session(i64, i32, Vec<u8>),
    /// A reply: the client's number, the transaction, the error, and the record.
    Reply(i32, i64, i32, Vec<u8>),
    /// An event: transaction, kind, and path.
    Event(i64, i32, String),
    /// The connection was closed.
    Closed,
}

/// All of it.
pub(crate) struct Cluster {
    service: InStore<Parallel<ZooKeeper>>,
    seq: u64,
    members: Vec<Member>,
    got: BTreeMap<ConnId, Vec<Got>>,
    greeted: Vec<ConnId>,
    /// Connections that were told that they may only read.
    pub(crate) only_reads: Vec<ConnId>,
    next: ConnId,
    /// Commands that were sent and not ordered yet: server, name, bytes.
    orders: VecDeque<(usize, u64, Vec<u8>)>,
    /// Changes of the members that clients want: server, name, change.
    changes: VecDeque<(usize, u64, Change)>,
    /// Whether nothing is ordered for now.
    pub(crate) stands: bool,
    pub(crate) ms: u64,
}

/// The bytes of the last turn's events.
fn all_told(service: &mut InStore<Parallel<ZooKeeper>>) -> Vec<Told> {
    let events = service.tells().and_then(|tells| tells.take_events());
    let list = events.and_then(|events| events.of::<Vec<Box<dyn Any + Send>>>()).unwrap_or_default();
    list.into_iter().map(|told| *told.downcast::<Told>().expect("what servers must know")).collect()
}

impl Cluster {
    pub(crate) fn new(servers: usize) -> Self {
        Self::with_users(servers, &[("ann", "secret"), ("bob", "other")])
    }

    /// Servers that know these users and their passwords.
    pub(crate) fn with_users(servers: usize, users: &[(&str, &str)]) -> Self {
        let users: SaslUsers = users.iter().copied().collect();
        let config = |number: usize| ServerConfig {
            server: number as i64 + 1,
            tick: Span::from_millis(TICK_MS),
            timeout_ms: (2 * TICK_MS as i32, 20 * TICK_MS as i32),
            waiting_max: (8, 1 << 16),
            super_digest: Some(quorate_zookeeper::server::digest_id(b"super:secret")),
            sasl_users: users.clone(),
            linearizable: false,
            may_reconfigure: true,
            read_only: true,
        };
        let now = Now { time: Time::from_nanos(START_MS * 1_000_000), wall_ms: START_MS as i64 };
        let member = |number| Member {
            server: Server::new(config(number), Box::new(Plain(number as u8 * 50))),
            behind: VecDeque::new(),
            lags: false,
            now,
        };
        let mut cluster = Self {
            service: InStore::new(Parallel::new(super::strict())),
            seq: 0,
            members: (0..servers).map(member).collect(),
            got: BTreeMap::new(),
            greeted: Vec::new(),
            only_reads: Vec::new(),
            next: 0,
            orders: VecDeque::new(),
            changes: VecDeque::new(),
            stands: false,
            ms: START_MS,
        };
        cluster.publish(Vec::new());
        cluster.run();
        cluster
    }

    fn context(&self) -> Context {
        Context::at(Seq::new(self.seq), AgreedTime::from_nanos(self.ms * 1_000_000))
    }

    fn publish(&mut self, told: Vec<Told>) {
        let (seq, time) = (Seq::new(self.seq), self.context().time());
        let published =
            Published { objects: self.service.objects().version(), seq, time, level: 1, service_level: 1 };
        self.members.iter_mut().for_each(|member| member.behind.push_back((told.clone(), published.clone())));
    }

    /// Orders what was sent, and lets all servers that do not lag take everything.
    pub(crate) fn run(&mut self) {
        loop {
            for at in 0..self.members.len() {
                self.catch_up(at);
                self.perform(at);
            }
            if self.stands {
                return;
            }
            let Some((at, token, command)) = self.orders.pop_front() else { return };
            self.seq += 1;
            let mut reply = Vec::new();
            let ctx = self.context();
            self.service.execute(&command, &ctx, &mut ReplySink::new(&mut reply, 1 << 24));
            let told = all_told(&mut self.service);
            self.publish(told);
            let member = &mut self.members[at];
            member.server.ordered(token, Some(reply.into()), member.now);
        }
    }

    fn catch_up(&mut self, at: usize) {
        let member = &mut self.members[at];
        while !member.lags
            && let Some((list, published)) = member.behind.pop_front()
        {
            member.server.turn(Heard { list, gap: None }, Some(&published), member.now);
        }
    }

    fn perform(&mut self, at: usize) {
        for output in self.members[at].server.take_outputs() {
            match output {
                Output::Send { conn, frame } => self.deliver(conn, &frame),
                Output::Close { conn } => self.got.entry(conn).or_default().push(Got::Closed),
                Output::Resume { .. } => {}
                Output::Order { token, command, .. } => self.orders.push_back((at, token, command)),
                Output::Reconfigure { token, change } => self.changes.push_back((at, token, change)),
                Output::Ask { token, query } => {
                    let (mut reply, ctx) = (Vec::new(), self.context());
                    self.service.query(&query, &ctx, &mut ReplySink::new(&mut reply, 1 << 24));
                    let member = &mut self.members[at];
                    member.server.asked(token, Some(reply.into()), member.now);
                    self.perform(at);
                }
            }
        }
    }

    fn deliver(&mut self, conn: ConnId, frame: &[u8]) {
        let (length, body) = frame.split_first_chunk().expect("a length");
        assert_eq!(u32::from_be_bytes(*length) as usize, body.len());
        let got = if self.greeted.contains(&conn) {
            let mut from = Reader::new(body);
            let header = ReplyHeader::read(&mut from).expect("a header");
            if header.xid == RequestHeader::EVENT {
                let event = WatcherEvent::read(&mut from).expect("an event");
                Got::Event(header.zxid, event.kind, String::from_utf8_lossy(event.path).into_owned())
            } else {
                Got::Reply(header.xid, header.zxid, header.error, from.rest().to_vec())
            }
        } else {
            self.greeted.push(conn);
            let response = ConnectResponse::read(body).expect("a response");
            if response.read_only == Some(true) {
                self.only_reads.push(conn);
            }
            Got::Session(response.session, response.timeout_ms, response.password.to_vec())
        };
        self.got.entry(conn).or_default().push(got);
    }

    /// A client connects to a server, and says hello.
    pub(crate) fn connect(&mut self, at: usize, session: i64, password: &[u8]) -> ConnId {
        let read_only = Some(false);
        self.connect_as(
            at,
            ConnectRequest { protocol: 0, last_zxid: 0, timeout_ms: 10_000, session, password, read_only },
        )
    }

    /// A client connects to a server, and says this.
    pub(crate) fn connect_as(&mut self, at: usize, hello: ConnectRequest<'_>) -> ConnId {
        let conn = self.open_connection(at);
        let mut frame = Vec::new();
        hello.write(&mut frame);
        self.send_frame(at, conn, frame);
        conn
    }

    pub(crate) fn open_connection(&mut self, at: usize) -> ConnId {
        self.next += 1;
        let (conn, member) = (self.next, &mut self.members[at]);
        let ip = Id { scheme: b"ip".into(), id: b"127.0.0.1".into() };
        member.server.connected(conn, vec![ip], member.now);
        conn
    }

    pub(crate) fn send_frame(&mut self, at: usize, conn: ConnId, frame: impl Into<Bytes>) {
        let member = &mut self.members[at];
        member.server.received(conn, frame.into(), member.now);
        self.run();
    }

    /// A client sends a request.
    pub(crate) fn send(&mut self, at: usize, conn: ConnId, xid: i32, request: &Request<'_>) {
        let mut frame = Vec::new();
        RequestHeader { xid, op: request.op().code() }.write(&mut frame);
        request.write(&mut frame);
        self.send_frame(at, conn, frame);
    }

    /// What a client got since the last call.
    pub(crate) fn got(&mut self, conn: ConnId) -> Vec<Got> {
        self.got.remove(&conn).unwrap_or_default()
    }

    /// A new client of a server: its connection, session and password.
    pub(crate) fn client(&mut self, at: usize) -> (ConnId, i64, Vec<u8>) {
        let conn = self.connect(at, 0, &[0; 16]);
        match &self.got(conn)[..] {
            [Got::Session(session, 10_000, password)] => (conn, *session, password.clone()),
            other => panic!("no session: {other:?}"),
        }
    }

    /// A server says which members it sees. Returns the transaction that shows them.
    pub(crate) fn say(&mut self, speaker: i32, members: &Members) -> i64 {
        let mut command = Vec::new();
        Command::Members { time_ms: 7, speaker, members: members.clone() }.write(&mut command);
        // Nobody waits for the answer.
        self.orders.push_back((0, u64::MAX, command));
        self.run();
        self.zxid()
    }

    /// The next change of the members that a client wants.
    pub(crate) fn change(&mut self) -> Option<(usize, u64, Change)> {
        self.changes.pop_front()
    }

    /// What came of it.
    pub(crate) fn changed(&mut self, at: usize, token: u64, done: Option<Result<i64, ZkError>>) {
        let member = &mut self.members[at];
        member.server.reconfigured(token, done, member.now);
        self.run();
    }

    /// The last transaction that was done.
    pub(crate) fn zxid(&self) -> i64 {
        let view = quorate_execute::StateView::reading(self.service.objects());
        quorate_zookeeper::service::last_zxid(&view)
    }

    /// How many requests a server has answered, for each of their kinds.
    pub(crate) fn took(&self, at: usize) -> Vec<u64> {
        self.members[at].server.took().iter().map(Durations::count).collect()
    }

    /// What a server answers to a word.
    pub(crate) fn word(&mut self, at: usize, word: &[u8; 4], around: &Around) -> Option<String> {
        let member = &mut self.members[at];
        member.server.word(*word, around, member.now)
    }

    /// What a server answers to a command of the admin server.
    pub(crate) fn admin(&mut self, at: usize, command: Admin, around: &Around) -> Value {
        self.members[at].server.admin(command, around)
    }

    /// A server's numbers for Prometheus.
    pub(crate) fn metrics(&self, at: usize, around: &Around) -> String {
        self.members[at].server.metrics(around)
    }

    /// The client's side cuts its connection.
    pub(crate) fn cut(&mut self, at: usize, conn: ConnId) {
        self.members[at].server.closed(conn);
    }

    /// A server takes nothing of what is done, until it may again.
    pub(crate) fn lag(&mut self, at: usize, lags: bool) {
        self.members[at].lags = lags;
        self.run();
    }

    /// A server learns that part of what it did not take yet is lost: all but what the last commands told.
    pub(crate) fn lose_all_but(&mut self, at: usize, kept: usize) {
        let member = &mut self.members[at];
        let lost = member.behind.len().saturating_sub(kept);
        let newest = member.behind.back().map(|(_, published)| published.clone());
        let list = member.behind.drain(..).skip(lost).flat_map(|(told, _)| told).collect();
        if let Some(published) = newest {
            member.server.turn(Heard { list, gap: Some(0) }, Some(&published), member.now);
        }
        self.run();
    }

    /// Whether a server's replica knows a leader.
    pub(crate) fn led(&mut self, at: usize, is_led: bool) {
        let member = &mut self.members[at];
        member.server.led(is_led, member.now);
        self.run();
    }

    /// A server's replica answers no reads.
    pub(crate) fn withdraw(&mut self, at: usize) {
        let member = &mut self.members[at];
        member.server.turn(Heard::default(), None, member.now);
        self.run();
    }

    /// It does again.
    pub(crate) fn answer_again(&mut self) {
        self.publish(Vec::new());
        self.run();
    }

    /// Time passes everywhere, but for servers that are dead.
    pub(crate) fn wait(&mut self, ms: u64, dead: &[usize]) {
        for _ in 0..ms / 500 {
            self.ms += 500;
            for (at, member) in self.members.iter_mut().enumerate() {
                let now = Now { time: Time::from_nanos(self.ms * 1_000_000), wall_ms: self.ms as i64 };
                member.now = now;
                if !dead.contains(&at) {
                    member.server.tick(now);
                }
            }
            let ctx = self.context();
            if !self.stands && self.service.next_deadline().is_some_and(|due| due <= ctx.time()) {
                self.service.deadline_reached(&ctx);
                let told = all_told(&mut self.service);
                self.publish(told);
            }
            self.run();
        }
    }
}
