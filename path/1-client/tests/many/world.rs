//! A model of a cluster of which some members lie: honest ones store what they get, order what f+1 of them have in the same bytes,
//! execute it each in its own time, and answer; liars answer anything, and all the same. Connections lose what was under way. Members come
//! and go: each honest one learns of it in its own time, and tells the client.

use super::{frame, list, membership, welcome};
use bytes::Bytes;
use quorate_client::{CallId, ClientCore, Completion, Config, Effect, Effects, Error, Input, SessionHandle};
use quorate_types::{
    ConnId, FaultModel, Faults, Items, Random, ReplicaId, RequestNumber, Seq, SessionId, Span, Time, Trust,
    View,
};
use quorate_wire::{
    AnswerMode, ClientMessage, Frame, FrameKind, FrameReader, LeaderNotice, Memberships, OutFrame,
    ReadRequest, ReadStatus, Reply, ReplyStatus, RequestHeader, RequestKind, Requests, members_frame,
    read_reply_header, write_position,
};
use std::collections::{BTreeMap, BTreeSet};

/// So many replicas there are, members or not.
pub const REPLICAS: usize = 10;

/// A session (none for an opening) and a number in it.
type Key = (SessionId, u64);
type Answer = (SessionId, u64, ReplyStatus, Vec<u8>);

struct Conn {
    replica: usize,
    reader: FrameReader,
    welcomed: bool,
    mode: AnswerMode,
}

enum Event {
    Connect(ConnId),
    Fail(ConnId),
    ToServer(ConnId, Vec<u8>),
    ToClient(ConnId, Frame),
    Order(Vec<u8>),
    /// A replica executes the log up to here.
    Execute(usize, usize),
    /// A replica learns of the membership with this number.
    Learn(usize, usize),
}

#[derive(Default)]
pub struct Session {
    last: u64,
    closed: bool,
    /// Where in the log each number was answered.
    at: BTreeMap<u64, usize>,
}

#[derive(Default)]
struct Server {
    /// What arrived and was not executed.
    store: BTreeMap<Key, Vec<u8>>,
    executed: usize,
    /// The number of the membership that it knows.
    knows: usize,
}

pub struct World {
    pub now: Time,
    pub client: ClientCore,
    out: Effects,
    pub random: Random,
    /// By number, from 1: the members.
    memberships: Vec<BTreeSet<usize>>,
    pub liars: BTreeSet<usize>,
    servers: Vec<Server>,
    pub down: BTreeSet<usize>,
    /// Of honest members: takes nothing.
    pub overload_percent: u64,
    /// The cluster has no room: execution refuses.
    pub full: bool,
    conns: BTreeMap<ConnId, Conn>,
    events: BTreeMap<(Time, u64), Event>,
    next_event: u64,
    stream: BTreeMap<(u64, bool), Time>,
    /// What was decided, and what it is answered with.
    log: Vec<(Key, Answer)>,
    pub sessions: BTreeMap<SessionId, Session>,
    opened: BTreeMap<u64, SessionId>,
    /// Every command that ran, in order, with its reply.
    pub ran: Vec<(Vec<u8>, Vec<u8>)>,
    pub done: BTreeMap<CallId, Result<Completion, Error>>,
    /// When a call ended: so many commands had run.
    pub ran_at_end: BTreeMap<CallId, usize>,
    /// The bytes of each request, and which were refused.
    bytes: BTreeMap<Key, Vec<u8>>,
    refused: BTreeSet<Key>,
}

fn header(request: &[u8]) -> (RequestHeader, &[u8]) {
    let (header, body, _) = Requests::new(request).next().expect("one").expect("well formed");
    (header, body)
}

fn key(header: &RequestHeader) -> Key {
    (header.session, header.number.number())
}

fn trust_among(replicas: usize) -> Trust {
    Faults::of(FaultModel::Byzantine).among(replicas as u32)
}

impl World {
    pub fn new(replicas: usize, config: Config) -> Self {
        let members: Vec<ReplicaId> = (1..=replicas as u16).map(ReplicaId::new).collect();
        let mut random = Random::new(config.seed ^ 0x5151);
        let mut liars = BTreeSet::new();
        while liars.len() < trust_among(replicas).faults() as usize {
            liars.insert(random.below(replicas as u64) as usize);
        }
        Self {
            now: Time::from_nanos(1),
            client: ClientCore::new(config, &members),
            out: Effects::new(),
            random,
            liars,
            memberships: vec![(0..replicas).collect()],
            servers: (0..REPLICAS).map(|_| Server { knows: 1, ..Server::default() }).collect(),
            down: BTreeSet::new(),
            overload_percent: 0,
            full: false,
            conns: BTreeMap::new(),
            events: BTreeMap::new(),
            next_event: 0,
            stream: BTreeMap::new(),
            log: Vec::new(),
            sessions: BTreeMap::new(),
            opened: BTreeMap::new(),
            ran: Vec::new(),
            done: BTreeMap::new(),
            ran_at_end: BTreeMap::new(),
            bytes: BTreeMap::new(),
            refused: BTreeSet::new(),
        }
    }

    pub fn input(&mut self, input: Input) {
        self.client.step(self.now, input, &mut self.out);
    }

    pub fn opened_session(&mut self, call: u64) -> SessionHandle {
        self.input(Input::Open { call: CallId(call), deadline: None });
        self.run_until(|world| world.done.contains_key(&CallId(call)));
        match self.done.remove(&CallId(call)) {
            Some(Ok(Completion::Opened(handle, _))) => handle,
            other => panic!("{other:?}"),
        }
    }

    pub fn call(&mut self, call: u64, session: SessionHandle, command: &[u8], deadline: Option<Time>) {
        let commands = Bytes::from(list(&[command]));
        self.input(Input::Call { call: CallId(call), session, commands, deadline });
    }

    pub fn run_for(&mut self, span: Span) {
        let end = self.now.plus(span);
        while self.turn(end) {}
        self.now = end;
    }

    /// Runs until it holds; at most two simulated minutes.
    pub fn run_until(&mut self, holds: impl Fn(&Self) -> bool) {
        let end = self.now.plus(Span::from_secs(120));
        while !holds(self) {
            assert!(self.turn(end), "nothing moves: {:?}", self.client.waiting());
        }
    }

    fn turn(&mut self, end: Time) -> bool {
        self.settle();
        let event = self.events.keys().next().map(|(at, _)| *at);
        let due = self.client.deadline();
        let Some(next) = event.into_iter().chain(due).min().filter(|next| *next <= end) else { return false };
        self.now = self.now.max(next);
        if due.is_some_and(|due| due <= self.now) {
            self.input(Input::Deadline);
            self.client.flush(self.now, &mut self.out);
            let again = self.client.deadline();
            assert!(again.is_none_or(|again| again > self.now), "INV-CLIENT-8: {again:?} at {:?}", self.now);
        } else if let Some((_, event)) = self.events.pop_first() {
            self.event(event);
        }
        self.settle();
        true
    }

    fn settle(&mut self) {
        self.client.flush(self.now, &mut self.out);
        let effects: Vec<Effect> = self.out.drain().collect();
        effects.into_iter().for_each(|effect| self.effect(effect));
        self.client.invariants();
    }

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Dial { conn, replica } => {
                let replica = usize::from(replica.number()) - 1;
                assert!(replica < REPLICAS, "believed a liar about replica {replica}");
                if self.down.contains(&replica) {
                    return self.later(conn.number(), true, Event::Fail(conn));
                }
                let (reader, mode) = (FrameReader::new(1 << 24), AnswerMode::Full);
                self.conns.insert(conn, Conn { replica, reader, welcomed: false, mode });
                self.later(conn.number(), true, Event::Connect(conn));
            }
            Effect::Close(conn) => drop(self.conns.remove(&conn)),
            Effect::Send { conn, frame } => {
                self.input(Input::Written { conn, bytes: frame.len() });
                self.later(conn.number(), false, Event::ToServer(conn, frame.to_vec()));
            }
            Effect::Completed { call, result } => {
                assert!(self.done.insert(call, result).is_none(), "INV-CLIENT-1: {call:?} completed twice");
                self.ran_at_end.insert(call, self.ran.len());
            }
            Effect::Address { replica, address } => {
                assert_eq!(address, format!("{replica}:1"), "believed a liar about it");
            }
            Effect::Problem { .. } | Effect::Leader(_) => {}
            Effect::Replied(_) | Effect::Believed { .. } | Effect::Letter { .. } => panic!("nobody wants it"),
        }
    }

    /// After a while, and after what is under way on the same stream.
    fn later(&mut self, stream: u64, to_client: bool, event: Event) {
        let last = self.stream.entry((stream, to_client)).or_default();
        let at = self.now.plus(Span::from_nanos(self.random.below(1_000_000) + 1)).max(*last);
        *last = at;
        self.next_event += 1;
        self.events.insert((at, self.next_event), event);
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Connect(conn) => self.input(Input::Connected(conn)),
            Event::Fail(conn) => self.input(Input::Closed { conn, why: "cut".to_owned() }),
            Event::ToClient(conn, frame) => {
                if self.conns.contains_key(&conn) {
                    self.input(Input::Frame { conn, frame });
                }
            }
            Event::ToServer(conn, bytes) => self.arrived(conn, &bytes),
            Event::Order(request) => self.order(&request),
            Event::Execute(replica, end) => self.execute_up_to(replica, end),
            Event::Learn(replica, number) => {
                self.servers[replica].knows = number.max(self.servers[replica].knows);
                let conn = self.conns.iter().find(|(_, conn)| conn.replica == replica && conn.welcomed);
                if let Some(conn) = conn.map(|(conn, _)| *conn) {
                    self.tell_members(conn, replica);
                }
            }
        }
    }

    fn arrived(&mut self, conn: ConnId, bytes: &[u8]) {
        let Some(state) = self.conns.get_mut(&conn) else { return };
        let replica = state.replica;
        state.reader.push(bytes);
        while let Some(state) = self.conns.get_mut(&conn) {
            let Some(frame) = state.reader.frame().expect("the client sends whole frames") else { return };
            if !state.welcomed {
                state.welcomed = true;
                let frame = welcome(replica, 9);
                self.later(conn.number(), true, Event::ToClient(conn, frame));
                self.tell_members(conn, replica);
                continue;
            }
            let payload = match ClientMessage::decode(frame).expect("well formed") {
                ClientMessage::Requests(payload) => payload,
                ClientMessage::Listen(_) => panic!("it wants no letters"),
                ClientMessage::AnswerMode(mode) => {
                    state.mode = mode;
                    continue;
                }
                ClientMessage::Keys(_) => continue,
                ClientMessage::Chain(_) => panic!("it knows no keys"),
                ClientMessage::Copies(_) | ClientMessage::Seen(_) => panic!("it is no service"),
                ClientMessage::Reads(reads) => {
                    self.reads(conn, replica, &reads);
                    continue;
                }
            };
            if self.liars.contains(&replica) {
                self.lie(conn, &payload);
            } else {
                self.take(conn, replica, &payload);
            }
        }
    }

    fn answer(&mut self, conn: ConnId, (session, number, status, body): &Answer, executed: usize) {
        let mut payload = Vec::new();
        let (session, number) = (*session, RequestNumber::new(*number));
        Reply { session, number, status: *status, body }.write_to(&mut payload);
        write_position(&mut payload, Seq::new(executed as u64));
        let frame = Frame { kind: FrameKind::Replies, payload: payload.into() };
        self.later(conn.number(), true, Event::ToClient(conn, frame));
    }

    // The members.

    /// The present ones.
    pub fn members(&self) -> &BTreeSet<usize> {
        self.memberships.last().expect("the first ones")
    }

    /// Whether the client asks the present members.
    pub fn is_followed(&self) -> bool {
        self.known() == *self.members()
    }

    fn known(&self) -> BTreeSet<usize> {
        self.client.known().map(|id| usize::from(id.number()) - 1).collect()
    }

    /// One joins, one leaves, or one takes the place of another, if no more than may lie then do. The client lags by one change at most:
    /// members that were removed earlier tell it of nothing later.
    pub fn change(&mut self) {
        let lately = self.memberships.iter().rev().take(2).any(|members| *members == self.known());
        let mut next = self.members().clone();
        let (goes, comes) =
            (self.random.below(REPLICAS as u64) as usize, self.random.below(REPLICAS as u64) as usize);
        let how = self.random.below(3);
        if how > 0 {
            next.remove(&goes);
        }
        if how != 1 {
            next.insert(comes);
        }
        let liars = next.intersection(&self.liars).count() as u32;
        if !lately
            || next == *self.members()
            || !(4..=8).contains(&next.len())
            || liars > trust_among(next.len()).faults()
        {
            return;
        }
        let all: Vec<usize> = self.members().union(&next).copied().collect();
        self.memberships.push(next);
        for replica in all.into_iter().filter(|replica| !self.liars.contains(replica)).collect::<Vec<_>>() {
            let number = self.memberships.len();
            self.later(1 << 41 | replica as u64, false, Event::Learn(replica, number));
        }
    }

    /// A replica says who the members are, as far as it knows.
    fn tell_members(&mut self, conn: ConnId, replica: usize) {
        let number = self.servers[replica].knows;
        if number > 1 && !self.liars.contains(&replica) {
            let ids: Vec<u16> =
                self.memberships[number - 1].iter().map(|member| *member as u16 + 1).collect();
            let members = Memberships::one(membership(number as u64, &ids));
            self.say(conn, &members_frame(&members));
        }
    }

    // The honest.

    /// An answer that execution gave, as the client wants it.
    fn answer_as_asked(&mut self, conn: ConnId, answer: &Answer, executed: usize) {
        let Some(mode) = self.conns.get(&conn).map(|conn| conn.mode) else { return };
        let (session, number, status, body) = answer;
        let reply = Reply {
            session: *session,
            number: RequestNumber::new(*number),
            status: *status,
            body: &body[..],
        };
        let mut digest = [0; 32];
        if *status == ReplyStatus::SessionOpened {
            self.answer(conn, answer, executed);
        } else if let Some(reply) = mode.shape(reply, &mut digest) {
            self.answer(conn, &(*session, *number, reply.status, reply.body.to_vec()), executed);
        }
    }

    fn take(&mut self, conn: ConnId, replica: usize, payload: &[u8]) {
        let mut refused = BTreeSet::new();
        for request in Requests::new(payload) {
            let (header, _, whole) = request.expect("well formed");
            let key = key(&header);
            let (session, number) = key;
            if header.kind == RequestKind::Commands && !self.refused.contains(&key) {
                let before = self.bytes.entry(key).or_insert_with(|| whole.to_vec());
                assert_eq!(before, whole, "all copies are the same bytes");
            }
            let executed = self.servers[replica].executed;
            let at = self.sessions.get(&session).and_then(|session| session.at.get(&number)).copied();
            if let Some(at) = at {
                if at < executed {
                    let answer = self.log[at].1.clone();
                    self.answer_as_asked(conn, &answer, executed);
                }
                continue;
            }
            if refused.contains(&session) || self.random.below(100) < self.overload_percent {
                refused.insert(session);
                self.refused.insert(key);
                self.answer(conn, &(session, number, ReplyStatus::Overloaded, vec![]), executed);
                continue;
            }
            self.servers[replica].store.insert(key, whole.to_vec());
            let has =
                |member: &&usize| self.servers[**member].store.get(&key).is_some_and(|bytes| bytes == whole);
            let members = self.members();
            if members.iter().filter(has).count() >= trust_among(members.len()).truth() as usize {
                self.later(u64::MAX, false, Event::Order(whole.to_vec()));
            }
        }
    }

    fn order(&mut self, request: &[u8]) {
        let (header, body) = header(request);
        let key = key(&header);
        let answer = self.execute(&header, body);
        if matches!(answer.2, ReplyStatus::Overloaded | ReplyStatus::ExpectedNumber) {
            self.refused.insert(key);
        } else if let Some(session) = self.sessions.get_mut(&key.0) {
            session.at.entry(key.1).or_insert(self.log.len());
        }
        self.log.push((key, answer));
        let honest = (0..self.servers.len()).filter(|replica| !self.liars.contains(replica));
        for replica in honest.collect::<Vec<_>>() {
            self.later(1 << 40 | replica as u64, false, Event::Execute(replica, self.log.len()));
        }
    }

    fn execute_up_to(&mut self, replica: usize, end: usize) {
        while self.servers[replica].executed < end {
            let (key, answer) = self.log[self.servers[replica].executed].clone();
            self.servers[replica].executed += 1;
            self.servers[replica].store.remove(&key);
            let conn = self.conns.iter().find(|(_, conn)| conn.replica == replica && conn.welcomed);
            if let Some(conn) = conn.map(|(conn, _)| *conn) {
                self.answer_as_asked(conn, &answer, self.servers[replica].executed);
            }
        }
    }

    fn execute(&mut self, header: &RequestHeader, body: &[u8]) -> Answer {
        let (id, number) = key(header);
        let answer = |status, body: &[u8]| (id, number, status, body.to_vec());
        if header.kind == RequestKind::OpenSession {
            let next = self.sessions.len() as u32 + 1;
            let known = self
                .opened
                .get(&number)
                .filter(|id| self.sessions[id].last == 0 && !self.sessions[id].closed);
            let id = known.copied().unwrap_or(SessionId { index: next, generation: 1 });
            self.opened.insert(number, id);
            self.sessions.entry(id).or_default();
            return (id, number, ReplyStatus::SessionOpened, vec![]);
        }
        let Some(session) = self.sessions.get_mut(&id).filter(|session| !session.closed) else {
            return answer(ReplyStatus::SessionExpired, b"");
        };
        if let Some(at) = session.at.get(&number) {
            return self.log[*at].1.clone();
        }
        if number != session.last + 1 {
            return answer(ReplyStatus::ExpectedNumber, &(session.last + 1).to_le_bytes());
        }
        if self.full && header.kind != RequestKind::CloseSession {
            return answer(ReplyStatus::Overloaded, b"");
        }
        session.last = number;
        let place = (self.ran.len() as u64).to_le_bytes();
        match header.kind {
            RequestKind::Commands => {
                let command = Items::parse(body).expect("checked").bytes().to_vec();
                let reply = [&place[..], &command].concat();
                self.ran.push((command, reply.clone()));
                answer(ReplyStatus::Done, &list(&[&reply]))
            }
            RequestKind::Query => answer(ReplyStatus::Done, &list(&[&place])),
            RequestKind::CloseSession => {
                session.closed = true;
                answer(ReplyStatus::Done, &list(&[]))
            }
            _ => answer(ReplyStatus::Done, &list(&[])),
        }
    }

    /// Whoever did not execute yet what was decided when a read came does not answer it here. Liars answer anything.
    fn reads(&mut self, conn: ConnId, replica: usize, payload: &[u8]) {
        let executed = self.servers[replica].executed;
        let lies = self.liars.contains(&replica);
        if !lies && executed < self.log.len() {
            return;
        }
        for read in ReadRequest::walk(payload) {
            let read = read.expect("well formed");
            let status = match self.random.below(if lies { 9 } else { 1 }) {
                1 => ReadStatus::Forbidden,
                2 => ReadStatus::TooLarge,
                3 => ReadStatus::NoLeader,
                _ => ReadStatus::Done,
            };
            let place =
                if lies { self.random.below(self.ran.len() as u64 + 2) } else { self.ran.len() as u64 };
            let (seq, body) = (Seq::new(if lies { u64::MAX } else { executed as u64 }), place.to_le_bytes());
            let mut payload = Vec::new();
            read_reply_header(&mut payload, read.read, seq, status, body.len());
            payload.extend_from_slice(&body);
            self.say(conn, &OutFrame::new(FrameKind::ReadReplies, &payload, vec![]));
        }
    }

    // The liars. They say the same, so that as many as there may be stand by each lie.

    fn lie(&mut self, conn: ConnId, payload: &[u8]) {
        for request in Requests::new(payload) {
            let (header, _, _) = request.expect("well formed");
            let (session, number) = key(&header);
            let opening = header.kind == RequestKind::OpenSession;
            for _ in 0..self.random.below(4) {
                let lie = self.random.below(if opening { 4 } else { 14 });
                let answer = self.one_lie(lie, opening, session, number);
                self.answer(conn, &answer, usize::MAX);
            }
        }
        match self.random.below(14) {
            12 => {
                let first = 1 + self.random.below(60) as u16;
                let ids: Vec<u16> = (first..first + 4 + self.random.below(4) as u16).collect();
                let number = self.memberships.len() as u64 + self.random.below(3);
                let members = Memberships::one(membership(number.max(1), &ids));
                self.say(conn, &members_frame(&members));
            }
            13 => self.say(conn, &OutFrame::new(FrameKind::Members, b"nonsense", vec![])),
            0 => self.say(conn, &LeaderNotice { view: View::new(1 << 50), leader: None }.frame()),
            1 => self.say(conn, &OutFrame::new(FrameKind::Replies, b"nonsense", vec![])),
            2 => self.say(conn, &OutFrame::new(FrameKind::StatusRequest, b"", vec![])),
            3 => {
                let mut payload = Vec::new();
                let read = self.random.below(9);
                let status = quorate_wire::ReadStatus::Done;
                quorate_wire::read_reply_header(&mut payload, read, Seq::new(u64::MAX), status, 0);
                self.say(conn, &OutFrame::new(FrameKind::ReadReplies, &payload, vec![]));
            }
            _ => {}
        }
    }

    fn say(&mut self, conn: ConnId, out: &OutFrame) {
        self.later(conn.number(), true, Event::ToClient(conn, frame(out)));
    }

    fn one_lie(&self, lie: u64, opening: bool, session: SessionId, number: u64) -> Answer {
        let status = match lie {
            0 => ReplyStatus::Overloaded,
            1 => ReplyStatus::DiskFull,
            2 if opening => ReplyStatus::SessionLimit,
            3 if opening => {
                return (SessionId { index: 999, generation: 9 }, number, ReplyStatus::SessionOpened, vec![]);
            }
            2 => ReplyStatus::SessionExpired,
            3 => ReplyStatus::ReplyForgotten,
            4 => ReplyStatus::Forbidden,
            5 => return (session, number, ReplyStatus::TooLarge, b"not executed".to_vec()),
            6 => return (session, number, ReplyStatus::TooLarge, b"executed".to_vec()),
            7 => return (session, number, ReplyStatus::ExpectedNumber, 1u64.to_le_bytes().to_vec()),
            8 => return (session, number, ReplyStatus::ExpectedNumber, u64::MAX.to_le_bytes().to_vec()),
            9 => return (session, number, ReplyStatus::Done, list(&[])),
            10 => {
                let digest = quorate_wire::reply_digest(&list(&[b"lie"]));
                return (session, number, ReplyStatus::DoneDigest, digest.bytes().to_vec());
            }
            11 => return (session, number, ReplyStatus::DoneDigest, b"short".to_vec()),
            12 => return (session, number + 1, ReplyStatus::Done, list(&[b"lie"])),
            _ => return (session, number, ReplyStatus::Done, list(&[b"lie"])),
        };
        (session, number, status, vec![])
    }

    // Faults.

    pub fn cut(&mut self, replica: usize) {
        let gone = self.conns.iter().filter(|(_, conn)| conn.replica == replica).map(|(id, _)| *id);
        for conn in gone.collect::<Vec<_>>() {
            self.conns.remove(&conn);
            self.later(conn.number(), true, Event::Fail(conn));
        }
    }

    pub fn crash(&mut self, replica: usize) {
        self.down.insert(replica);
        self.cut(replica);
    }

    /// A session is over, whatever is under way in it.
    pub fn expire(&mut self, which: usize) {
        let count = self.sessions.len().max(1);
        if let Some(session) = self.sessions.values_mut().nth(which % count) {
            session.closed = true;
        }
    }
}
