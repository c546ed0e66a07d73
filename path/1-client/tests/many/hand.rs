//! A client whose replicas are played by hand: the test sees what each of them gets, and says what each of them answers.

use super::{config, frame, list, welcome};
use bytes::Bytes;
use quorate_client::{
    CallId, ClientCore, Completion, Config, Effect, Effects, Error, Input, ReadConsistency, SessionHandle,
};
use quorate_types::{ConnId, ReplicaId, RequestNumber, Seq, SessionId, Span, Time};
use quorate_wire::{
    AnswerMode, ClientMessage, Frame, FrameKind, LetterFrame, Listen, OutFrame, ReadRequest, ReadStatus,
    Refusal, RefusalReason, Reply, ReplyStatus, RequestKind, Requests, read_reply_header,
};
use std::collections::{BTreeMap, BTreeSet};

/// A request as a replica got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Got {
    pub session: SessionId,
    pub number: u64,
    pub lowest: u64,
    pub kind: RequestKind,
    pub body: Vec<u8>,
    /// What stands behind the body.
    pub proof: Vec<u8>,
}

pub struct Hand {
    pub client: ClientCore,
    pub now: Time,
    out: Effects,
    conns: BTreeMap<ConnId, usize>,
    /// Can not be reached.
    pub dead: BTreeSet<usize>,
    /// Refuses connections for good.
    pub refusing: BTreeSet<usize>,
    /// Takes frames, and tells of no bytes that left.
    pub stuck: BTreeSet<usize>,
    /// What each got since it was last taken.
    pub got: Vec<Vec<Got>>,
    pub reads: Vec<Vec<u64>>,
    /// The keys that each was told.
    pub keys: Vec<Vec<quorate_wire::SharedKey>>,
    /// How each was told to answer.
    pub modes: Vec<Option<AnswerMode>>,
    pub done: BTreeMap<u64, Result<Completion, Error>>,
    /// In which sessions each was told that the client listens, and from which letter on.
    pub listens: Vec<Vec<Listen>>,
    /// Replies, what counts, and letters, as the host is told of them.
    pub told: Vec<Effect>,
    pub cluster: u64,
    /// Where the client was told that replicas are.
    pub addresses: BTreeMap<ReplicaId, String>,
    /// Who was asked for membership links, and after which membership.
    pub wanted: Vec<(usize, u64)>,
    /// What the client says of replicas.
    pub problems: Vec<(ReplicaId, String)>,
}

pub const SESSION: SessionId = SessionId { index: 5, generation: 2 };

impl Hand {
    /// Four replicas, all connected.
    pub fn new() -> Self {
        Self::with(4, config(3))
    }

    pub fn with(replicas: usize, config: Config) -> Self {
        let mut hand = Self::unconnected(replicas, config);
        hand.advance(Span::from_nanos(1));
        hand
    }

    pub fn unconnected(replicas: usize, config: Config) -> Self {
        let members: Vec<ReplicaId> = (1..=replicas as u16).map(ReplicaId::new).collect();
        Self {
            client: ClientCore::new(config, &members),
            now: Time::from_nanos(1),
            out: Effects::new(),
            conns: BTreeMap::new(),
            dead: BTreeSet::new(),
            refusing: BTreeSet::new(),
            stuck: BTreeSet::new(),
            got: vec![vec![]; replicas],
            reads: vec![vec![]; replicas],
            keys: vec![vec![]; replicas],
            modes: vec![None; replicas],
            done: BTreeMap::new(),
            listens: vec![vec![]; replicas],
            told: Vec::new(),
            cluster: 9,
            addresses: BTreeMap::new(),
            wanted: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// There are this many replicas from now on; whether they are members is for the client to learn.
    pub fn start(&mut self, replicas: usize) {
        self.got.resize(replicas, vec![]);
        self.reads.resize(replicas, vec![]);
        self.keys.resize(replicas, vec![]);
        self.modes.resize(replicas, None);
        self.listens.resize(replicas, vec![]);
    }

    /// The same, with a session that all confirmed.
    pub fn with_session() -> (Self, SessionHandle) {
        let mut hand = Self::new();
        let handle = hand.opened(1000, SESSION);
        (hand, handle)
    }

    pub fn opened(&mut self, call: u64, id: SessionId) -> SessionHandle {
        self.input(Input::Open { call: CallId(call), deadline: None });
        let nonce = self.got[0].last().expect("an opening").number;
        for replica in 0..self.got.len() {
            self.say(replica, id, nonce, ReplyStatus::SessionOpened, b"");
        }
        self.take();
        match self.done.remove(&call) {
            Some(Ok(Completion::Opened(handle, _))) => handle,
            other => panic!("{other:?}"),
        }
    }

    pub fn input(&mut self, input: Input) {
        self.client.step(self.now, input, &mut self.out);
        self.settle();
    }

    pub fn call(&mut self, call: u64, session: SessionHandle, command: &[u8]) {
        self.call_until(call, session, command, None);
    }

    pub fn call_until(&mut self, call: u64, session: SessionHandle, command: &[u8], deadline: Option<Time>) {
        let commands = Bytes::from(list(&[command]));
        self.input(Input::Call { call: CallId(call), session, commands, deadline });
    }

    pub fn read(
        &mut self,
        call: u64,
        consistency: ReadConsistency,
        replica: Option<u16>,
        deadline: Option<Time>,
    ) {
        self.input(Input::Read {
            call: CallId(call),
            reader: 0,
            consistency,
            after: Seq::ZERO,
            replica: replica.map(ReplicaId::new),
            query: Bytes::from_static(b"query"),
            deadline,
        });
    }

    /// Goes on in time, and does what is due on the way.
    pub fn advance(&mut self, span: Span) {
        let end = self.now.plus(span);
        while let Some(due) = self.client.deadline().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.input(Input::Deadline);
            assert!(self.client.deadline().is_none_or(|due| due > self.now), "INV-CLIENT-8");
        }
        self.now = end;
        self.settle();
    }

    fn settle(&mut self) {
        loop {
            self.client.flush(self.now, &mut self.out);
            let effects: Vec<Effect> = self.out.drain().collect();
            if effects.is_empty() {
                break self.client.invariants();
            }
            effects.into_iter().for_each(|effect| self.effect(effect));
        }
    }

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Dial { conn, replica } => {
                let replica = usize::from(replica.number()) - 1;
                let input = if self.dead.contains(&replica) {
                    Input::Closed { conn, why: "refused".into() }
                } else {
                    self.conns.insert(conn, replica);
                    Input::Connected(conn)
                };
                self.client.step(self.now, input, &mut self.out);
            }
            Effect::Close(conn) => drop(self.conns.remove(&conn)),
            Effect::Send { conn, frame } => self.sent(conn, &frame),
            Effect::Completed { call, result } => {
                assert!(self.done.insert(call.0, result).is_none(), "INV-CLIENT-1: {call:?}");
            }
            Effect::Address { replica, address } => drop(self.addresses.insert(replica, address)),
            Effect::Problem { replica, text } => self.problems.push((replica, text)),
            Effect::Leader(_) => {}
            told @ (Effect::Replied(_) | Effect::Believed { .. } | Effect::Letter { .. }) => {
                self.told.push(told)
            }
        }
    }

    fn sent(&mut self, conn: ConnId, out: &OutFrame) {
        let Some(&replica) = self.conns.get(&conn) else { return };
        if !self.stuck.contains(&replica) {
            self.client.step(self.now, Input::Written { conn, bytes: out.len() }, &mut self.out);
        }
        if out.kind() == FrameKind::Hello {
            let refusal = Refusal { reason: RefusalReason::Parameters, text: "no".into() };
            let frame = match self.refusing.contains(&replica) {
                true => frame(&refusal.frame()),
                false => welcome(replica, self.cluster),
            };
            return self.client.step(self.now, Input::Frame { conn, frame }, &mut self.out);
        }
        match ClientMessage::decode(frame(out)).expect("well formed") {
            ClientMessage::Requests(payload) => {
                for request in Requests::new(&payload) {
                    let (header, body, whole) = request.expect("well formed");
                    self.got[replica].push(Got {
                        session: header.session,
                        number: header.number.number(),
                        lowest: header.lowest_unanswered.number(),
                        kind: header.kind,
                        body: body.to_vec(),
                        proof: header.split(whole).1.to_vec(),
                    });
                }
            }
            ClientMessage::Keys(keys) => self.keys[replica].extend(keys),
            ClientMessage::AnswerMode(mode) => self.modes[replica] = Some(mode),
            ClientMessage::Listen(sessions) => self.listens[replica].extend(sessions),
            ClientMessage::Chain(after) => self.wanted.push((replica, after.number())),
            ClientMessage::Copies(_) | ClientMessage::Seen(_) => panic!("it is no service"),
            ClientMessage::Reads(payload) => {
                let reads = ReadRequest::walk(&payload).map(|read| read.expect("well formed").read);
                self.reads[replica].extend(reads);
            }
        }
    }

    /// What each replica got since the last time.
    pub fn take(&mut self) -> Vec<Vec<Got>> {
        self.got.iter_mut().map(std::mem::take).collect()
    }

    /// The numbers that each replica got since the last time.
    pub fn numbers(&mut self) -> Vec<Vec<u64>> {
        self.take().iter().map(|got| got.iter().map(|got| got.number).collect()).collect()
    }

    pub fn conn(&self, replica: usize) -> Option<ConnId> {
        self.conns.iter().find(|(_, at)| **at == replica).map(|(conn, _)| *conn)
    }

    pub fn frame_from(&mut self, replica: usize, frame: Frame) {
        if let Some(conn) = self.conn(replica) {
            self.input(Input::Frame { conn, frame });
        }
    }

    /// This replica answers.
    pub fn say(&mut self, replica: usize, session: SessionId, number: u64, status: ReplyStatus, body: &[u8]) {
        let mut payload = Vec::new();
        Reply { session, number: RequestNumber::new(number), status, body }.write_to(&mut payload);
        self.frame_from(replica, Frame { kind: FrameKind::Replies, payload: payload.into() });
    }

    /// It answers a request of [`SESSION`] with one reply.
    pub fn done(&mut self, replica: usize, number: u64, reply: &[u8]) {
        self.say(replica, SESSION, number, ReplyStatus::Done, &list(&[reply]));
    }

    /// It sends a letter to [`SESSION`].
    pub fn letter(&mut self, replica: usize, number: u64, body: &[u8]) {
        let mut payload = Vec::new();
        LetterFrame { session: SESSION, number, body }.write_to(&mut payload);
        self.frame_from(replica, Frame { kind: FrameKind::Letters, payload: payload.into() });
    }

    /// It answers a read.
    pub fn answer(&mut self, replica: usize, read: u64, seq: u64, status: ReadStatus, body: &[u8]) {
        let mut payload = Vec::new();
        read_reply_header(&mut payload, read, Seq::new(seq), status, body.len());
        payload.extend_from_slice(body);
        self.frame_from(replica, Frame { kind: FrameKind::ReadReplies, payload: payload.into() });
    }

    pub fn refuse(&mut self, replica: usize, number: u64, status: ReplyStatus) {
        self.say(replica, SESSION, number, status, b"");
    }

    /// It can not be reached any more.
    pub fn lose(&mut self, replica: usize) {
        self.dead.insert(replica);
        if let Some(conn) = self.conn(replica) {
            self.conns.remove(&conn);
            self.input(Input::Closed { conn, why: "cut".into() });
        }
    }

    /// It can be reached again, and is.
    pub fn back(&mut self, replica: usize) {
        self.dead.remove(&replica);
        for _ in 0..100 {
            if self.conn(replica).is_some() {
                return;
            }
            self.advance(Span::from_millis(100));
        }
        panic!("replica {replica} is not dialed again");
    }

    /// What was handed to it has left.
    pub fn drained(&mut self, replica: usize) {
        self.stuck.remove(&replica);
        let conn = self.conn(replica).expect("connected");
        self.input(Input::Written { conn, bytes: usize::MAX });
    }

    /// How the call ended, if it did.
    pub fn ended(&mut self, call: u64) -> Option<Result<Completion, Error>> {
        self.done.remove(&call)
    }

    /// The call ended with this reply.
    pub fn replied(&mut self, call: u64, reply: &[u8]) {
        match self.ended(call) {
            Some(Ok(Completion::Replies(body))) => assert_eq!(body, list(&[reply])),
            other => panic!("call {call}: {other:?}"),
        }
    }
}
