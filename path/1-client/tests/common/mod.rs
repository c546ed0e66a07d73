//! A model of a cluster: one agreed order with the session rules, a leader that changes, and connections that lose what
//! was under way. Drives one client against it in simulated time.

#![allow(dead_code, unreachable_pub, missing_docs)]

use bytes::Bytes;
use quorate_client::{CallId, ClientCore, Completion, Config, Effect, Effects, Error, Input, SessionHandle};
use quorate_types::{
    ClientId, ClusterId, ConnId, Incarnation, Items, ItemsBuilder, ReplicaId, RequestNumber, Seq, SessionId,
    Span, Time, View,
};
use quorate_wire::{
    ClientMessage, Frame, FrameKind, FrameReader, Hello, LeaderNotice, OutFrame, ReadReply, ReadRequest,
    ReadStatus, Refusal, Reply, ReplyStatus, RequestHeader, RequestKind, Requests, Welcome, write_position,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 ^ (self.0 >> 29)) >> 8
    }
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

#[derive(Default)]
pub struct ServerSession {
    pub last: u64,
    pub replies: BTreeMap<u64, (ReplyStatus, Vec<u8>)>,
    /// Commands in the order in which they ran.
    pub ran: Vec<Vec<u8>>,
    pub closed: bool,
}

/// A connection as the replica sees it.
struct Conn {
    replica: usize,
    reader: FrameReader,
    welcomed: bool,
}

enum Event {
    ToServer(ConnId, Vec<u8>),
    ToClient(ConnId, OutFrame),
    Connect(ConnId),
    Fail(ConnId),
    /// A leader decided a request that it took; it answers if it still can.
    Decide {
        on: ConnId,
        replica: usize,
        view: u64,
        request: Vec<u8>,
    },
}

pub struct World {
    pub now: Time,
    pub client: ClientCore,
    pub out: Effects,
    pub replicas: Vec<ReplicaId>,
    pub view: u64,
    pub leader: Option<usize>,
    pub down: BTreeSet<usize>,
    /// Reads nothing, answers nothing, and keeps its connections.
    pub paused: BTreeSet<usize>,
    pub refuse: Option<Refusal>,
    pub overload_percent: u64,
    pub disk_full: bool,
    pub limit_sessions: bool,
    pub request_max: usize,
    pub sessions: BTreeMap<u64, ServerSession>,
    pub opened: BTreeMap<u64, u64>,
    next_session: u32,
    pub seq: u64,
    conns: BTreeMap<ConnId, Conn>,
    /// In order of time; equal times in order of insertion.
    events: BTreeMap<(Time, u64), Event>,
    next_event: u64,
    /// The last moment used by each direction of a connection: streams keep their order.
    stream: BTreeMap<(ConnId, bool), Time>,
    pub random: Random,
    pub done: BTreeMap<CallId, Result<Completion, Error>>,
    pub dialed: BTreeMap<ReplicaId, usize>,
    pub problems: Vec<String>,
    pub addresses: BTreeMap<ReplicaId, String>,
    pub frames: Vec<(FrameKind, usize)>,
    pub reads_at: Vec<usize>,
    pub lag: BTreeMap<usize, u64>,
    pub delay_max: u64,
    pub requests_seen: u64,
    /// So many requests are taken and then lost without a word.
    pub lose: usize,
}

pub fn config(seed: u64) -> Config {
    Config::new(ClientId::new(7), seed)
}

pub fn commands(list: &[&[u8]]) -> Bytes {
    let mut items = ItemsBuilder::new();
    list.iter().for_each(|item| items.push(item));
    let mut out = Vec::new();
    items.write_to(&mut out);
    Bytes::from(out)
}

pub fn only_item(body: &[u8]) -> Vec<u8> {
    let items = Items::parse(body).expect("a list");
    assert_eq!(items.len(), 1);
    items.bytes().to_vec()
}

impl World {
    pub fn new(replicas: usize, config: Config) -> Self {
        let members: Vec<ReplicaId> = (1..=replicas as u16).map(ReplicaId::new).collect();
        Self {
            now: Time::from_nanos(1),
            random: Random(config.seed ^ 0x5151),
            client: ClientCore::new(config, &members),
            out: Effects::new(),
            replicas: members,
            view: 1,
            leader: Some(0),
            down: BTreeSet::new(),
            paused: BTreeSet::new(),
            refuse: None,
            overload_percent: 0,
            disk_full: false,
            limit_sessions: false,
            request_max: usize::MAX,
            sessions: BTreeMap::new(),
            opened: BTreeMap::new(),
            next_session: 0,
            seq: 0,
            conns: BTreeMap::new(),
            events: BTreeMap::new(),
            next_event: 0,
            stream: BTreeMap::new(),
            done: BTreeMap::new(),
            dialed: BTreeMap::new(),
            problems: Vec::new(),
            addresses: BTreeMap::new(),
            frames: Vec::new(),
            reads_at: Vec::new(),
            lag: BTreeMap::new(),
            delay_max: 1_000_000,
            requests_seen: 0,
            lose: 0,
        }
    }

    pub fn input(&mut self, input: Input) {
        self.client.step(self.now, input, &mut self.out);
    }

    pub fn open(&mut self, call: u64, deadline: Option<Time>) {
        self.input(Input::Open { call: CallId(call), deadline });
    }

    pub fn call(&mut self, call: u64, session: SessionHandle, command: &[u8], deadline: Option<Time>) {
        let commands = commands(&[command]);
        self.input(Input::Call { call: CallId(call), session, commands, deadline });
    }

    pub fn opened_session(&mut self, call: u64) -> SessionHandle {
        self.open(call, None);
        self.run_until(|world| world.done.contains_key(&CallId(call)));
        match self.done[&CallId(call)].clone().expect("opens") {
            Completion::Opened(handle, _) => handle,
            other => panic!("{other:?}"),
        }
    }

    pub fn in_ms(&self, millis: u64) -> Time {
        self.now.plus(Span::from_millis(millis))
    }

    /// Runs for so long.
    pub fn run_for(&mut self, span: Span) {
        let end = self.now.plus(span);
        while self.turn(end) {}
        self.now = end;
    }

    /// Runs until it holds; at most two simulated minutes.
    pub fn run_until(&mut self, holds: impl Fn(&Self) -> bool) {
        let end = self.now.plus(Span::from_secs(120));
        while !holds(self) {
            assert!(
                self.turn(end),
                "nothing moves: {:?}, {}",
                self.client.waiting(),
                self.problems.join("; ")
            );
        }
    }

    /// Flushes, does the effects, then goes to the next moment at which something happens, if it is before `end`.
    fn turn(&mut self, end: Time) -> bool {
        self.settle();
        let event = self.events.keys().next().map(|(at, _)| *at);
        let due = self.client.deadline();
        let Some(next) = event.into_iter().chain(due).min() else { return false };
        if next > end {
            return false;
        }
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
        self.effects();
        self.client.invariants();
    }

    fn effects(&mut self) {
        let effects: Vec<Effect> = self.out.drain().collect();
        for effect in effects {
            match effect {
                Effect::Dial { conn, replica } => {
                    *self.dialed.entry(replica).or_default() += 1;
                    let index = self.replicas.iter().position(|id| *id == replica).expect("a member");
                    if self.down.contains(&index) {
                        self.after(conn, true, Event::Fail(conn));
                    } else {
                        let reader = FrameReader::new(1 << 24);
                        self.conns.insert(conn, Conn { replica: index, reader, welcomed: false });
                        self.after(conn, true, Event::Connect(conn));
                    }
                }
                Effect::Close(conn) => {
                    self.conns.remove(&conn);
                }
                Effect::Send { conn, frame } => {
                    self.frames.push((frame.kind(), frame.len()));
                    self.input(Input::Written { conn, bytes: frame.len() });
                    self.after(conn, false, Event::ToServer(conn, frame.to_vec()));
                }
                Effect::Completed { call, result } => {
                    let before = self.done.insert(call, result);
                    assert!(before.is_none(), "INV-CLIENT-1: {call:?} completed twice");
                }
                Effect::Problem { replica, text } => self.problems.push(format!("{replica}: {text}")),
                Effect::Leader(_) => {}
                Effect::Replied(_) | Effect::Believed { .. } | Effect::Letter { .. } => {
                    panic!("nobody wants it")
                }
                Effect::Address { replica, address } => drop(self.addresses.insert(replica, address)),
            }
        }
    }

    fn after(&mut self, conn: ConnId, to_client: bool, event: Event) {
        let delay = self.random.below(self.delay_max) + 1;
        let last = self.stream.entry((conn, to_client)).or_default();
        let at = self.now.plus(Span::from_nanos(delay)).max(*last);
        *last = at;
        self.next_event += 1;
        self.events.insert((at, self.next_event), event);
    }

    fn later(&mut self, event: Event) {
        let at = self.now.plus(Span::from_nanos(self.random.below(self.delay_max) + 1));
        self.next_event += 1;
        self.events.insert((at, self.next_event), event);
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Connect(conn) => self.input(Input::Connected(conn)),
            Event::Fail(conn) => self.input(Input::Closed { conn, why: "connection refused".to_owned() }),
            Event::ToClient(conn, frame) => {
                if let Some(replica) = self.conns.get(&conn).map(|conn| conn.replica)
                    && !self.paused.contains(&replica)
                {
                    let payload = Bytes::from(frame.to_vec()).slice(16..);
                    self.input(Input::Frame { conn, frame: Frame { kind: frame.kind(), payload } });
                }
            }
            Event::ToServer(conn, bytes) => self.arrived(conn, &bytes),
            Event::Decide { on, replica, view, request } => self.decide(on, replica, view, &request),
        }
    }

    fn answer(&mut self, conn: ConnId, frame: OutFrame) {
        self.after(conn, true, Event::ToClient(conn, frame));
    }

    fn arrived(&mut self, conn: ConnId, bytes: &[u8]) {
        let Some(state) = self.conns.get_mut(&conn) else { return };
        if self.paused.contains(&state.replica) {
            return;
        }
        state.reader.push(bytes);
        let mut frames = VecDeque::new();
        while let Some(frame) = state.reader.frame().expect("the client sends whole frames") {
            frames.push_back(frame);
        }
        for frame in frames {
            self.server_frame(conn, frame);
        }
    }

    fn server_frame(&mut self, conn: ConnId, frame: Frame) {
        let Some(state) = self.conns.get_mut(&conn) else { return };
        let replica = state.replica;
        if !state.welcomed {
            let hello = Hello::decode(frame.payload).expect("a hello");
            assert_eq!(hello.to, Some(self.replicas[replica]));
            state.welcomed = true;
            let answer = match &self.refuse {
                Some(refusal) => refusal.frame(),
                None => Welcome {
                    format: 1,
                    feature_level: 1,
                    cluster: ClusterId::new(9),
                    replica: self.replicas[replica],
                    incarnation: Incarnation::new(1),
                    view: View::new(self.view),
                    leader: self.leader.map(|leader| self.replicas[leader]),
                    era: 1,
                    service: quorate_types::ServiceVersion::UNNAMED,
                }
                .frame(),
            };
            return self.answer(conn, answer);
        }
        match ClientMessage::decode(frame).expect("well formed") {
            ClientMessage::Keys(_) => panic!("nobody looks at tags here"),
            ClientMessage::Requests(payload) => self.requests(conn, replica, &payload),
            ClientMessage::Reads(payload) => self.reads(conn, replica, &payload),
            ClientMessage::AnswerMode(mode) => panic!("{mode:?}: one answer is enough here"),
            ClientMessage::Listen(_) => panic!("it wants no letters"),
            ClientMessage::Chain(_) => panic!("it knows no keys"),
            ClientMessage::Copies(_) | ClientMessage::Seen(_) => panic!("it is no service"),
        }
    }

    fn requests(&mut self, conn: ConnId, replica: usize, payload: &[u8]) {
        if self.leader != Some(replica) {
            return self.notice(conn);
        }
        let mut refused = BTreeSet::new();
        let mut answer = Vec::new();
        for request in Requests::new(payload) {
            let (header, _, whole) = request.expect("well formed");
            self.requests_seen += 1;
            if self.lose > 0 {
                self.lose -= 1;
                continue;
            }
            let status =
                if refused.contains(&header.session.number()) || self.random.chance(self.overload_percent) {
                    Some(if self.disk_full { ReplyStatus::DiskFull } else { ReplyStatus::Overloaded })
                } else if self.disk_full {
                    Some(ReplyStatus::DiskFull)
                } else {
                    (whole.len() > self.request_max).then_some(ReplyStatus::TooLarge)
                };
            if let Some(status) = status {
                if status != ReplyStatus::TooLarge {
                    refused.insert(header.session.number());
                }
                Reply { session: header.session, number: header.number, status, body: b"" }
                    .write_to(&mut answer);
            } else {
                let request = whole.to_vec();
                self.later_in_order(Event::Decide { on: conn, replica, view: self.view, request });
            }
        }
        if !answer.is_empty() {
            self.answer(conn, OutFrame::new(FrameKind::Replies, &answer, vec![]));
        }
    }

    /// What a leader takes is decided in order, or not at all when it loses leadership; sometimes even so.
    fn later_in_order(&mut self, event: Event) {
        let log = ConnId::new(u64::MAX);
        self.after(log, false, event);
    }

    fn decide(&mut self, on: ConnId, replica: usize, view: u64, request: &[u8]) {
        let took_part = self.leader == Some(replica) && self.view == view && !self.down.contains(&replica);
        if !took_part && self.random.chance(50) {
            return;
        }
        let Some(Ok((header, body, _))) = Requests::new(request).next() else { return };
        self.seq += 1;
        let (session, number, status, body) = self.execute(&header, body);
        let mut answer = Vec::new();
        Reply { session, number, status, body: &body }.write_to(&mut answer);
        if !self.down.contains(&replica) && self.conns.contains_key(&on) {
            write_position(&mut answer, Seq::new(self.seq));
            self.answer(on, OutFrame::new(FrameKind::Replies, &answer, vec![]));
        }
    }

    fn execute(
        &mut self,
        header: &RequestHeader,
        body: &[u8],
    ) -> (SessionId, RequestNumber, ReplyStatus, Vec<u8>) {
        if header.kind == RequestKind::OpenSession {
            return self.execute_open(header.number);
        }
        let (id, number) = (header.session, header.number.number());
        let answer = |status, body: &[u8]| (id, header.number, status, body.to_vec());
        let Some(session) = self.sessions.get_mut(&id.number()).filter(|session| !session.closed) else {
            return answer(ReplyStatus::SessionExpired, b"");
        };
        session.replies.retain(|number, _| *number >= header.lowest_unanswered.number());
        if number <= session.last {
            return match session.replies.get(&number) {
                Some((status, body)) => answer(*status, body),
                None => answer(ReplyStatus::ReplyForgotten, b""),
            };
        }
        if number != session.last + 1 {
            return answer(ReplyStatus::ExpectedNumber, &(session.last + 1).to_le_bytes());
        }
        assert!(number <= header.lowest_unanswered.number() + 1024, "over the window");
        session.last = number;
        let mut reply = ItemsBuilder::new();
        match header.kind {
            RequestKind::Commands => {
                for command in Items::parse(body).expect("checked") {
                    session.ran.push(command.to_vec());
                    reply.push(command);
                }
            }
            RequestKind::CloseSession => session.closed = true,
            RequestKind::Empty
            | RequestKind::OpenSession
            | RequestKind::System
            | RequestKind::Query
            | RequestKind::Nested
            | RequestKind::Answer => {}
        }
        let mut out = Vec::new();
        reply.write_to(&mut out);
        session.replies.insert(number, (ReplyStatus::Done, out.clone()));
        answer(ReplyStatus::Done, &out)
    }

    fn execute_open(&mut self, nonce: RequestNumber) -> (SessionId, RequestNumber, ReplyStatus, Vec<u8>) {
        if self.limit_sessions {
            return (SessionId::NONE, nonce, ReplyStatus::SessionLimit, vec![]);
        }
        let next = &mut self.next_session;
        let id = *self.opened.entry(nonce.number()).or_insert_with(|| {
            *next += 1;
            SessionId { index: *next, generation: 1 }.number()
        });
        self.sessions.entry(id).or_default();
        (SessionId::from_number(id), nonce, ReplyStatus::SessionOpened, vec![])
    }

    fn reads(&mut self, conn: ConnId, replica: usize, payload: &[u8]) {
        let mut answer = Vec::new();
        for read in ReadRequest::walk(payload) {
            let read = read.expect("well formed");
            self.reads_at.push(replica);
            let seq = self.seq.saturating_sub(self.lag.get(&replica).copied().unwrap_or(0));
            let (seq, status) = if self.leader.is_none() {
                (Seq::new(seq), ReadStatus::NoLeader)
            } else {
                (Seq::new(seq), ReadStatus::Done)
            };
            ReadReply { read: read.read, seq, status, body: read.query }.write_to_for_test(&mut answer);
        }
        self.answer(conn, OutFrame::new(FrameKind::ReadReplies, &answer, vec![]));
    }

    fn notice(&mut self, conn: ConnId) {
        let leader = self.leader.map(|leader| self.replicas[leader]);
        let frame = LeaderNotice { view: View::new(self.view), leader }.frame();
        self.answer(conn, frame);
    }

    // Faults.

    /// Another leader, or none, in a new view; every replica that runs tells its clients.
    pub fn elect(&mut self, leader: Option<usize>) {
        self.view += 1;
        self.leader = leader;
        let conns: Vec<ConnId> = self
            .conns
            .iter()
            .filter(|(_, conn)| conn.welcomed && !self.paused.contains(&conn.replica))
            .map(|(id, _)| *id)
            .collect();
        for conn in conns {
            self.notice(conn);
        }
    }

    pub fn cut(&mut self, replica: usize) {
        let gone: Vec<ConnId> =
            self.conns.iter().filter(|(_, conn)| conn.replica == replica).map(|(id, _)| *id).collect();
        for conn in gone {
            self.conns.remove(&conn);
            self.later(Event::Fail(conn));
        }
    }

    pub fn crash(&mut self, replica: usize) {
        self.down.insert(replica);
        self.cut(replica);
    }

    pub fn send_raw(&mut self, replica: usize, frame: OutFrame) {
        let conn = self.conns.iter().find(|(_, conn)| conn.replica == replica).map(|(id, _)| *id);
        self.answer(conn.expect("connected"), frame);
    }
}

trait WriteForTest {
    fn write_to_for_test(&self, out: &mut Vec<u8>);
}

impl WriteForTest for ReadReply<'_> {
    fn write_to_for_test(&self, out: &mut Vec<u8>) {
        quorate_wire::read_reply_header(out, self.read, self.seq, self.status, self.body.len());
        out.extend_from_slice(self.body);
    }
}
