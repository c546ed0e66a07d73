//! A small cluster in threads that speaks the wire protocol: sessions, replies, reads, and one leader. Enough to test the
//! client's sockets; it agrees on nothing and keeps everything in memory.

use quorate::client::{ClusterId, ReplicaId, Seq};
use quorate_types::{Digest, Incarnation, Items, ItemsBuilder, RequestNumber, SessionId, View};
use quorate_wire::{
    AnswerMode, ClientMessage, Frame, FrameKind, FrameReader, Hello, LeaderNotice, OutFrame, ReadReply,
    ReadRequest, ReadStatus, Refusal, RefusalReason, Reply, ReplyStatus, RequestHeader, RequestKind,
    Requests, Role, Welcome, read_reply_header,
};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

pub(crate) const CLUSTER: ClusterId = ClusterId::new(77);

#[derive(Default)]
pub(crate) struct Session {
    last: u64,
    replies: BTreeMap<u64, Vec<u8>>,
    pub(crate) ran: Vec<Vec<u8>>,
    pub(crate) closed: bool,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) leader: usize,
    /// All members take requests and answer; this one lies.
    pub(crate) liar: Option<usize>,
    view: u64,
    dead: Vec<bool>,
    pub(crate) sessions: BTreeMap<u64, Session>,
    nonces: BTreeMap<u64, u64>,
    seq: u64,
    pub(crate) requests_frames: usize,
    /// Open connections: replica, and the stream to notify or cut it.
    conns: Vec<(usize, u64, TcpStream)>,
    next_conn: u64,
}

impl State {
    pub(crate) fn connections(&self) -> usize {
        self.conns.len()
    }

    /// How many requests of sessions there were.
    pub(crate) fn ordered(&self) -> u64 {
        self.sessions.values().map(|session| session.last).sum()
    }
}

pub(crate) struct Fake {
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) members: Vec<(ReplicaId, String)>,
}

impl Fake {
    pub(crate) fn start(replicas: usize) -> Self {
        let state = Arc::new(Mutex::new(State { view: 1, dead: vec![false; replicas], ..State::default() }));
        let mut members = Vec::new();
        for index in 0..replicas {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            members.push((id(index), listener.local_addr().expect("bound").to_string()));
            let state = Arc::clone(&state);
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let state = Arc::clone(&state);
                    thread::spawn(move || serve(&state, index, stream));
                }
            });
        }
        Self { state, members }
    }

    /// This replica dies; another leads.
    pub(crate) fn fail_over(&self, dead: usize, leader: usize) {
        let mut state = self.state.lock().expect("no panic");
        state.dead[dead] = true;
        state.conns.retain(|(replica, _, stream)| {
            if *replica == dead {
                let _ = stream.shutdown(Shutdown::Both);
            }
            *replica != dead
        });
        state.view += 1;
        state.leader = leader;
        let notice = LeaderNotice { view: View::new(state.view), leader: Some(id(leader)) }.frame().to_vec();
        for (_, _, stream) in &mut state.conns {
            let _ = stream.write_all(&notice);
        }
    }
}

fn id(index: usize) -> ReplicaId {
    ReplicaId::new(index as u16 + 1)
}

fn serve(state: &Mutex<State>, replica: usize, mut stream: TcpStream) {
    let conn = {
        let mut state = state.lock().expect("no panic");
        if state.dead[replica] {
            return;
        }
        state.next_conn += 1;
        let conn = state.next_conn;
        state.conns.push((replica, conn, stream.try_clone().expect("a handle")));
        conn
    };
    let mut reader = FrameReader::new(16 << 20);
    let (mut role, mut mode) = (None, AnswerMode::Full);
    let mut room = vec![0; 64 << 10];
    'connection: while let Ok(read) = stream.read(&mut room) {
        if read == 0 {
            break;
        }
        reader.push(&room[..read]);
        while let Some(frame) = reader.frame().expect("the client sends whole frames") {
            // One lock for all, as if this were one machine; it also keeps notices out of the middle of answers.
            let mut state = state.lock().expect("no panic");
            let answer = if let Some(role) = role {
                state.frame(replica, role, &mut mode, frame)
            } else {
                let hello = Hello::decode(frame.payload).expect("a hello");
                role = Some(hello.role);
                vec![state.greet(replica, &hello)]
            };
            for frame in answer {
                if stream.write_all(&frame.to_vec()).is_err() {
                    break 'connection;
                }
            }
        }
    }
    state.lock().expect("no panic").conns.retain(|(_, other, _)| *other != conn);
}

impl State {
    fn greet(&self, replica: usize, hello: &Hello) -> OutFrame {
        if hello.cluster != CLUSTER && hello.cluster != ClusterId::new(0) {
            let text = "another cluster lives here".to_owned();
            return Refusal { reason: RefusalReason::ForeignCluster, text }.frame();
        }
        Welcome {
            format: 1,
            feature_level: 1,
            cluster: CLUSTER,
            replica: id(replica),
            incarnation: Incarnation::new(1),
            view: View::new(self.view),
            leader: Some(id(self.leader)),
            era: 1,
            service: quorate_types::ServiceVersion::UNNAMED,
        }
        .frame()
    }

    fn frame(&mut self, replica: usize, role: Role, mode: &mut AnswerMode, frame: Frame) -> Vec<OutFrame> {
        match (role, frame.kind) {
            (Role::Admin, FrameKind::StatusRequest) => {
                let text = format!("{{\"replica\":{}}}", replica + 1);
                vec![OutFrame::new(FrameKind::Status, text.as_bytes(), vec![])]
            }
            (Role::Admin, FrameKind::TransferRequest) => {
                let to = u16::from_le_bytes([frame.payload[0], frame.payload[1]]);
                let text = format!("r{} hands over to {to}", replica + 1);
                vec![OutFrame::new(FrameKind::TransferReply, text.as_bytes(), vec![])]
            }
            _ => match ClientMessage::decode(frame).expect("well formed") {
                ClientMessage::Keys(_) => vec![],
                ClientMessage::Requests(payload) => self.requests(replica, *mode, &payload),
                ClientMessage::Reads(payload) => self.reads(replica, &payload),
                ClientMessage::Listen(_) => panic!("it wants no letters"),
                ClientMessage::Chain(_) => panic!("it knows no keys"),
                ClientMessage::Copies(_) | ClientMessage::Seen(_) => panic!("it is no service"),
                ClientMessage::AnswerMode(wanted) => {
                    *mode = wanted;
                    vec![]
                }
            },
        }
    }

    fn requests(&mut self, replica: usize, mode: AnswerMode, payload: &[u8]) -> Vec<OutFrame> {
        self.requests_frames += 1;
        if self.leader != replica && self.liar.is_none() {
            return vec![LeaderNotice { view: View::new(self.view), leader: Some(id(self.leader)) }.frame()];
        }
        let mut answer = Vec::new();
        for request in Requests::new(payload) {
            let (header, body, _) = request.expect("well formed");
            self.seq += 1;
            let (session, number, status, mut body) = self.execute(&header, body);
            if self.liar == Some(replica) && status == ReplyStatus::Done {
                body.clear();
                let mut lie = ItemsBuilder::new();
                lie.push(b"lie");
                lie.write_to(&mut body);
            }
            let reply = Reply { session, number, status, body: &body };
            if let Some(reply) = mode.shape(reply, &mut [0; Digest::BYTES]) {
                reply.write_to(&mut answer);
            }
        }
        vec![OutFrame::new(FrameKind::Replies, &answer, vec![])]
    }

    fn execute(
        &mut self,
        header: &RequestHeader,
        body: &[u8],
    ) -> (SessionId, RequestNumber, ReplyStatus, Vec<u8>) {
        if header.kind == RequestKind::OpenSession {
            let next = SessionId { index: self.nonces.len() as u32, generation: 1 };
            let session = *self.nonces.entry(header.number.number()).or_insert_with(|| next.number());
            self.sessions.entry(session).or_default();
            return (SessionId::from_number(session), header.number, ReplyStatus::SessionOpened, vec![]);
        }
        let number = header.number.number();
        let answer = |status, body| (header.session, header.number, status, body);
        let session = self.sessions.get_mut(&header.session.number()).filter(|session| !session.closed);
        let Some(session) = session else { return answer(ReplyStatus::SessionExpired, vec![]) };
        session.replies.retain(|number, _| *number >= header.lowest_unanswered.number());
        if let Some(body) = session.replies.get(&number) {
            return answer(ReplyStatus::Done, body.clone());
        }
        if number != session.last + 1 {
            return answer(ReplyStatus::ExpectedNumber, (session.last + 1).to_le_bytes().to_vec());
        }
        session.last = number;
        session.closed = header.kind == RequestKind::CloseSession;
        let mut replies = ItemsBuilder::new();
        if header.kind == RequestKind::Commands {
            for command in Items::parse(body).expect("checked") {
                session.ran.push(command.to_vec());
                replies.push(command);
            }
        }
        if header.kind == RequestKind::Query {
            replies.push(body);
        }
        let mut out = Vec::new();
        replies.write_to(&mut out);
        session.replies.insert(number, out.clone());
        answer(ReplyStatus::Done, out)
    }

    fn reads(&self, replica: usize, payload: &[u8]) -> Vec<OutFrame> {
        let mut answer = Vec::new();
        for read in ReadRequest::walk(payload) {
            let read = read.expect("well formed");
            let reply = ReadReply {
                read: read.read,
                seq: Seq::new(self.seq),
                status: ReadStatus::Done,
                body: if self.liar == Some(replica) { b"lie" } else { read.query },
            };
            read_reply_header(&mut answer, reply.read, reply.seq, reply.status, reply.body.len());
            answer.extend_from_slice(reply.body);
        }
        vec![OutFrame::new(FrameKind::ReadReplies, &answer, vec![])]
    }
}
