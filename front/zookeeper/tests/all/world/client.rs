//! A random client, which keeps to the protocol, and remembers what it was told.

use super::checks::History;
use crate::support::made;
use bytes::Bytes;
use quorate_zookeeper::jute::Reader;
use quorate_zookeeper::op::Op;
use quorate_zookeeper::records::{
    Acl, ConnectRequest, ConnectResponse, ReplyHeader, RequestHeader, WatcherEvent,
};
use quorate_zookeeper::request::{Request, SetWatches};
use quorate_zookeeper::server::ConnId;
use std::collections::{BTreeMap, VecDeque};

const PATHS: [&str; 5] = ["/a", "/b", "/a/x", "/a/y", "/c"];

/// What a client sends.
pub(super) struct Sent {
    pub(super) frame: Bytes,
}

/// A request that is not answered yet.
#[derive(Clone, Debug)]
struct Asked {
    xid: i32,
    op: Op,
    /// The request, without its header.
    request: Vec<u8>,
    path: String,
    watches: bool,
    /// What had been acknowledged to anybody when it was sent.
    known: i64,
}

/// A watch for one event: what it was set by, and what had been seen then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Watch {
    pub(super) since: i64,
    /// Whether it is for children, and not for data and existence.
    pub(super) children: bool,
    /// Whether the node existed.
    pub(super) existed: bool,
}

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    number: u64,
    timeout_ms: u64,
    conn: Option<ConnId>,
    is_served: bool,
    session: i64,
    password: Vec<u8>,
    inbox: VecDeque<Bytes>,
    asked: VecDeque<Asked>,
    xid: i32,
    writes: u64,
    /// The last transaction that it has seen.
    seen: i64,
    watches: BTreeMap<(String, bool), Watch>,
    said_ms: u64,
    /// Whether it says nothing at all for now.
    silent_until: u64,
    /// Whether it has set its watches again after it moved.
    must_set: bool,
    ends: bool,
}

impl Client {
    pub(super) fn new(number: u64, timeout_ms: u64) -> Self {
        Self {
            number,
            timeout_ms,
            conn: None,
            is_served: false,
            session: 0,
            password: vec![0; 16],
            inbox: VecDeque::new(),
            asked: VecDeque::new(),
            xid: 0,
            writes: 0,
            seen: 0,
            watches: BTreeMap::new(),
            said_ms: 0,
            silent_until: 0,
            must_set: false,
            ends: false,
        }
    }

    pub(super) fn conn(&self) -> Option<ConnId> {
        self.conn
    }

    pub(super) fn session(&self) -> i64 {
        if self.is_served { self.session } else { 0 }
    }

    /// What it waits for, if it waits.
    pub(super) fn open(&self) -> Option<String> {
        (!self.asked.is_empty() && self.conn.is_some())
            .then(|| format!("{:?} of {}", self.asked, self.number))
    }

    pub(super) fn connect(&mut self, conn: ConnId) -> Bytes {
        (self.conn, self.is_served) = (Some(conn), false);
        self.asked.clear();
        self.inbox.clear();
        let hello = ConnectRequest {
            protocol: 0,
            last_zxid: self.seen,
            timeout_ms: self.timeout_ms as i32,
            session: self.session,
            password: &self.password,
            read_only: Some(false),
        };
        let mut frame = Vec::new();
        hello.write(&mut frame);
        frame.into()
    }

    /// Its connection is cut: what was on the way to it is lost.
    pub(super) fn lost(&mut self, conn: ConnId) {
        if self.conn == Some(conn) {
            (self.conn, self.is_served) = (None, false);
            self.inbox.clear();
            self.asked.clear();
        }
    }

    /// Its server closed the connection, after everything that it sent.
    pub(super) fn closed(&mut self, conn: ConnId) {
        if self.conn == Some(conn) {
            self.inbox.push_back(Bytes::new());
        }
    }

    pub(super) fn came(&mut self, frame: Bytes) {
        self.inbox.push_back(frame);
    }

    /// Whether a frame shows the state.
    pub(super) fn shows(&self, frame: &[u8]) -> bool {
        self.is_served && frame.get(4).is_some_and(|first| *first < 0x80)
    }

    pub(super) fn take(&mut self) -> Option<Bytes> {
        self.inbox.pop_front()
    }

    fn begin_anew(&mut self) {
        let (number, writes) = (self.number, self.writes);
        *self = Self { writes, ..Self::new(number, self.timeout_ms) };
    }

    /// Reads a frame.
    pub(super) fn reads(&mut self, frame: &Bytes, history: &mut History, ms: u64) {
        if frame.is_empty() {
            let conn = self.conn.expect("it had one");
            self.lost(conn);
            return;
        }
        let body = &frame[4..];
        if !self.is_served {
            let response = ConnectResponse::read(body).expect("a response");
            if response.session == 0 {
                history.is_over(self.session);
                return self.begin_anew();
            }
            if self.session != 0 {
                assert_eq!(response.session, self.session, "it never gets another one");
                history.moved();
            }
            (self.session, self.password) = (response.session, response.password.to_vec());
            (self.is_served, self.must_set, self.said_ms) = (true, !self.watches.is_empty(), ms);
            return;
        }
        let mut from = Reader::new(body);
        let header = ReplyHeader::read(&mut from).expect("a header");
        if header.xid == RequestHeader::EVENT {
            let event = WatcherEvent::read(&mut from).expect("an event");
            let path = String::from_utf8_lossy(event.path).into_owned();
            history.event(header.zxid, event.kind, &path, &mut self.watches);
            return;
        }
        if header.xid == RequestHeader::PING {
            return;
        }
        let asked = self.asked.pop_front().expect("it asked");
        assert_eq!(asked.xid, header.xid, "answers come in order");
        if asked.op == Op::CloseSession {
            history.closes(self.session);
            return;
        }
        assert!(header.zxid >= self.seen, "{} goes back from {} to {}", self.number, self.seen, header.zxid);
        history.sees(header.zxid, self.conn, &self.watches, self.must_set);
        self.seen = header.zxid;
        self.answered(&asked, &header, from.rest(), history);
    }

    fn answered(&mut self, asked: &Asked, header: &ReplyHeader, record: &[u8], history: &mut History) {
        match asked.op {
            Op::Sync => history.synced(header.zxid, asked.known),
            Op::SetWatches => {
                self.must_set = false;
                history.set_again(header.zxid, &mut self.watches);
            }
            op if op.writes() => history.acknowledged(header.zxid, header.error, self.session),
            op => {
                history.read(header.zxid, (op, &asked.request, self.session), header.error, record);
                let existed = header.error == 0;
                if asked.watches && (existed || op == Op::Exists && header.error == -101) {
                    let children = op == Op::GetChildren;
                    let watch = Watch { since: header.zxid, children, existed };
                    self.watches.entry((asked.path.clone(), children)).or_insert(watch);
                }
            }
        }
    }

    /// The next frame that it sends, if it has something to say.
    pub(super) fn sends(&mut self, draw: u64, ms: u64, calm: bool) -> Option<Sent> {
        if !self.is_served || self.ends || ms < self.silent_until {
            return None;
        }
        if self.must_set && self.asked.iter().all(|asked| asked.op != Op::SetWatches) {
            return Some(self.sets_again());
        }
        if ms > self.said_ms + self.timeout_ms / 4 {
            return Some(self.ping(ms));
        }
        if calm || self.asked.len() >= 4 {
            return None;
        }
        self.said_ms = ms;
        let path = PATHS[(draw >> 8) as usize % PATHS.len()];
        let watches = (draw >> 16).is_multiple_of(2);
        let read = |op| Request::Read { op, path: path.as_bytes(), watch: watches };
        self.writes += 1;
        let data = format!("{}-{}", self.number, self.writes).into_bytes();
        let request = match draw % 40 {
            0..6 => made(Op::Create, path, Some(&data), 0, &[Acl::OPEN], 0),
            6..8 => made(Op::Create, path, Some(&data), 1, &[Acl::OPEN], 0),
            8..10 => made(Op::Create, "/a/n-", Some(&data), 3, &[Acl::OPEN], 0),
            10..15 => Request::SetData { path: path.as_bytes(), data: Some(&data), version: -1 },
            15..19 => Request::Delete { path: path.as_bytes(), version: -1 },
            19..21 => Request::Multi {
                op: Op::Multi,
                list: vec![
                    Request::SetData { path: b"/a", data: Some(&data), version: -1 },
                    Request::SetData { path: b"/b", data: Some(&data), version: -1 },
                ],
            },
            21..27 => read(Op::GetData),
            27..32 => read(Op::Exists),
            32..36 => read(Op::GetChildren),
            36..38 => Request::About { op: Op::Sync, path: path.as_bytes() },
            38 if draw >> 20 & 7 == 0 => {
                self.silent_until = ms + self.timeout_ms * 10 / 3;
                return None;
            }
            39 if draw >> 20 & 15 == 0 => Request::Plain(Op::CloseSession),
            _ => Request::About { op: Op::GetEphemerals, path: b"" },
        };
        self.ends = request == Request::Plain(Op::CloseSession);
        Some(self.ask(&request, path, watches))
    }

    fn ask(&mut self, request: &Request<'_>, path: &str, watches: bool) -> Sent {
        self.xid += 1;
        let (mut record, mut frame) = (Vec::new(), Vec::new());
        request.write(&mut record);
        let op = request.op();
        let xid = if op == Op::SetWatches { RequestHeader::SET_WATCHES } else { self.xid };
        RequestHeader { xid, op: op.code() }.write(&mut frame);
        frame.extend_from_slice(&record);
        let known = super::checks::acknowledged();
        let watches = watches && matches!(op, Op::GetData | Op::Exists | Op::GetChildren);
        self.asked.push_back(Asked { xid, op, request: record, path: path.to_owned(), watches, known });
        Sent { frame: frame.into() }
    }

    fn ping(&mut self, ms: u64) -> Sent {
        self.said_ms = ms;
        let mut frame = Vec::new();
        RequestHeader { xid: RequestHeader::PING, op: Op::Ping.code() }.write(&mut frame);
        Sent { frame: frame.into() }
    }

    fn sets_again(&mut self) -> Sent {
        let watches: Vec<((String, bool), Watch)> =
            self.watches.iter().map(|(at, watch)| (at.clone(), *watch)).collect();
        let mut list = SetWatches { seen_zxid: self.seen, ..SetWatches::default() };
        for ((path, children), watch) in &watches {
            let kind = if *children { 2 } else { usize::from(!watch.existed) };
            list.once[kind].push(path.as_bytes());
        }
        self.ask(&Request::SetWatches(list), "/", false)
    }
}
