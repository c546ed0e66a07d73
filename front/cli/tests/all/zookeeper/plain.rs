//! The protocol, byte by byte, over plain and over safe connections: what runs everywhere, without anybody's client.

use super::{start, start_with};
use crate::harness::Cluster;
use quorate_zookeeper::jute::Reader;
use quorate_zookeeper::op::Op;
use quorate_zookeeper::records::{
    Acl, ConnectRequest, ConnectResponse, ReplyHeader, RequestHeader, WatcherEvent,
};
use quorate_zookeeper::request::{Create, Reconfig, Request};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// No answer takes longer on a machine that does anything at all.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client of one server.
pub(super) struct Client {
    stream: TcpStream,
    session: i64,
    timeout_ms: i32,
    password: Vec<u8>,
    only_reads: bool,
    xid: i32,
    events: Vec<(i32, String)>,
}

fn send(stream: &mut TcpStream, frame: &[u8]) -> std::io::Result<()> {
    stream.write_all(&[&(frame.len() as u32).to_be_bytes(), frame].concat())
}

fn receive(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}

impl Client {
    fn connect(server: &str, session: i64, password: &[u8]) -> std::io::Result<Self> {
        Self::connect_as(server, session, password, false)
    }

    /// A client to which a server that only answers reads will do, or not.
    fn connect_as(server: &str, session: i64, password: &[u8], will_read: bool) -> std::io::Result<Self> {
        let mut stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let hello = ConnectRequest {
            protocol: 0,
            last_zxid: 0,
            timeout_ms: 8000,
            session,
            password,
            read_only: Some(will_read),
        };
        let mut frame = Vec::new();
        hello.write(&mut frame);
        send(&mut stream, &frame)?;
        let answer = receive(&mut stream)?;
        let response = ConnectResponse::read(&answer).expect("a response");
        let (session, timeout_ms, password) =
            (response.session, response.timeout_ms, response.password.to_vec());
        let only_reads = response.read_only == Some(true);
        Ok(Self { stream, session, timeout_ms, password, only_reads, xid: 0, events: Vec::new() })
    }

    pub(super) fn new(server: &str) -> Self {
        let client = Self::connect(server, 0, &[0; 16]).expect("a server");
        assert!(client.session != 0 && client.timeout_ms == 8000);
        client
    }

    /// The record of the answer, or the number of an error.
    fn ask(&mut self, request: &Request<'_>) -> std::io::Result<Result<Vec<u8>, i32>> {
        self.xid += 1;
        let mut frame = Vec::new();
        RequestHeader { xid: self.xid, op: request.op().code() }.write(&mut frame);
        request.write(&mut frame);
        send(&mut self.stream, &frame)?;
        loop {
            let answer = receive(&mut self.stream)?;
            let mut from = Reader::new(&answer);
            let header = ReplyHeader::read(&mut from).expect("a header");
            if header.xid == RequestHeader::EVENT {
                let event = WatcherEvent::read(&mut from).expect("an event");
                self.events.push((event.kind, String::from_utf8_lossy(event.path).into_owned()));
                continue;
            }
            assert_eq!(header.xid, self.xid, "answers come in order");
            return Ok(if header.error == 0 { Ok(from.rest().to_vec()) } else { Err(header.error) });
        }
    }

    pub(super) fn create(&mut self, path: &str, flags: i32) -> Result<Vec<u8>, i32> {
        let create = Create {
            op: Op::Create,
            path: path.as_bytes(),
            data: Some(b"x"),
            acl: Some(vec![Acl::OPEN]),
            flags,
            ttl_ms: 0,
        };
        self.ask(&Request::Create(create)).expect("an answer")
    }

    /// Waits until the server has everything that was acknowledged.
    pub(super) fn sync(&mut self) {
        let request = Request::About { op: Op::Sync, path: b"/" };
        self.ask(&request).expect("an answer").expect("in step");
    }

    /// A node's data, as text.
    pub(super) fn data(&mut self, path: &str) -> String {
        let request = Request::Read { op: Op::GetData, path: path.as_bytes(), watch: false };
        let record = self.ask(&request).expect("an answer").unwrap_or_else(|error| panic!("{path}: {error}"));
        let data = Reader::new(&record).bytes().expect("data").unwrap_or_default();
        String::from_utf8_lossy(data).into_owned()
    }

    fn exists(&mut self, path: &str, watch: bool) -> Result<Vec<u8>, i32> {
        self.ask(&Request::Read { op: Op::Exists, path: path.as_bytes(), watch }).expect("an answer")
    }
}

/// What a server answers to a word.
fn word(server: &str, word: &str) -> String {
    let mut stream = TcpStream::connect(server).expect("a server");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream.write_all(word.as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer, and the end");
    text
}

/// The server of a replica.
fn server_of(servers: &str, replica: u64) -> &str {
    servers.split(',').nth(replica as usize - 1).expect("one for each")
}

fn leader(cluster: &Cluster) -> u64 {
    let status: serde_json::Value = serde_json::from_str(&cluster.ok(&["status", "--json"])).expect("JSON");
    status["leader"].as_u64().expect("a leader")
}

#[test]
fn a_session_outlives_its_server() {
    let (cluster, servers) = start();
    let leads = leader(&cluster);
    let other = server_of(&servers, leads % 3 + 1).to_owned();
    let (mut mine, mut watches) = (Client::new(server_of(&servers, leads)), Client::new(&other));
    mine.create("/mine", 1).expect("it is made");
    let sync = Request::About { op: Op::Sync, path: b"/" };
    watches.ask(&sync).expect("an answer").expect("in step");
    watches.exists("/mine", true).expect("it is there");
    cluster.ok(&["chaos", "kill", "leader"]);
    let begin = Instant::now();
    let mut moved = loop {
        match Client::connect(&other, mine.session, &mine.password) {
            Ok(client) if client.session != 0 => break client,
            Ok(_) => panic!("the session is over after {:?}", begin.elapsed()),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    assert_eq!(moved.session, mine.session);
    moved.exists("/mine", false).expect("it lives as long as its session");
    moved.ask(&Request::Plain(Op::CloseSession)).expect("an answer").expect("closed");
    watches.ask(&sync).expect("an answer").expect("in step");
    watches.exists("/mine", false).expect_err("it ended with its session");
    assert_eq!(watches.events, [(2, "/mine".to_owned())]);
    let refused = Client::connect(&other, mine.session, &mine.password).expect("an answer");
    assert_eq!((refused.session, refused.timeout_ms), (0, 0));
    assert!(server_of(&servers, 1) != other || word(&other, "ruok") == "imok");
}

#[test]
fn a_silent_clients_session_ends() {
    let (_cluster, servers) = start();
    let (first, second) = (server_of(&servers, 1), server_of(&servers, 2));
    let mut silent = Client::new(first);
    silent.create("/silent", 1).expect("it is made");
    let mut other = Client::new(second);
    let begin = Instant::now();
    loop {
        other.ask(&Request::About { op: Op::Sync, path: b"/" }).expect("an answer").expect("in step");
        if other.exists("/silent", false).is_err() {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "it never ends");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(begin.elapsed() > Duration::from_secs(9), "it ended too soon: {:?}", begin.elapsed());
    assert!(silent.stream.read(&mut [0]).is_ok_and(|count| count == 0), "and so does its connection");
}

#[test]
fn words_and_bad_frames() {
    let (_cluster, servers) = start();
    let server = server_of(&servers, 1);
    assert_eq!((word(server, "ruok"), word(server, "isro")), ("imok".into(), "rw".into()));
    let text = word(server, "srvr");
    assert!(text.contains("Mode: ") && text.contains("Node count: 5\n"), "{text}");
    let dirs = word(server, "dirs");
    assert!(dirs.starts_with("datadir_size: ") && !dirs.contains(": 0\n"), "{dirs}");
    assert!(word(server, "what").contains("is not in the whitelist"));
    let mut good = Client::new(server);
    for bytes in [&[0xff; 8][..], &[0, 0x20, 0, 0], &[0, 0, 0, 3, 1, 2, 3]] {
        let mut stream = TcpStream::connect(server).expect("a server");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        stream.write_all(bytes).expect("sent");
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "{bytes:?} ends the connection");
    }
    good.create("/good", 0).expect("nobody else notices");
}

fn config(client: &mut Client) -> String {
    let request = Request::Read { op: Op::GetData, path: b"/zookeeper/config", watch: true };
    let record = client.ask(&request).expect("an answer").expect("everybody may read it");
    let data = Reader::new(&record).bytes().expect("data").expect("some");
    String::from_utf8(data.to_vec()).expect("text")
}

/// What clients read of the members, once there are so many lines that name where clients are served.
fn config_of(client: &mut Client, count: usize) -> String {
    let until = Instant::now() + PATIENCE;
    loop {
        let text = config(client);
        if text.lines().filter(|line| line.contains(';')).count() == count {
            return text;
        }
        assert!(Instant::now() < until, "{text}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn clients_read_and_change_the_members() {
    let (cluster, servers) = start();
    let mut client = Client::new(server_of(&servers, 2));
    let text = config_of(&mut client, 3);
    for (line, server) in text.lines().zip(servers.split(',')) {
        assert!(line.starts_with("server.") && line.ends_with(&format!(":participant;{server}")), "{text}");
    }
    assert!(text.ends_with("\nversion=1"), "{text}");
    let change = |joining: Option<&'static [u8]>, leaving: Option<&'static [u8]>, version| {
        Request::Reconfig(Reconfig { joining, leaving, members: None, version })
    };
    let add = change(Some(b"server.4=127.0.0.1:9:9:observer;10"), None, 1);
    assert_eq!(client.ask(&add).expect("an answer"), Err(-102), "not everybody may change them");
    let proof = Request::Auth { kind: 0, scheme: b"digest", proof: b"super:secret" };
    let _ = client.ask(&proof).expect("an answer").expect("it is right");
    client.ask(&add).expect("an answer").expect("it is added, although it never starts");
    let text = config_of(&mut client, 4);
    assert!(text.contains("server.4=127.0.0.1:9:10:observer;127.0.0.1:10\n"), "{text}");
    let listed: serde_json::Value =
        serde_json::from_str(&cluster.ok(&["member", "list", "--json"])).expect("JSON");
    assert_eq!(listed["members"].as_array().map(Vec::len), Some(4), "{listed}");
    assert_eq!(client.ask(&change(None, Some(b"4"), 1)).expect("an answer"), Err(-103), "another version");
    client.ask(&change(None, Some(b"4"), 2)).expect("an answer").expect("it is removed");
    assert_eq!(config_of(&mut client, 3).lines().count(), 4);
    // Whoever votes does not become an observer.
    let demote = change(Some(b"server.3=127.0.0.1:9:9:observer;10"), None, -1);
    assert_eq!(client.ask(&demote).expect("an answer"), Err(-8));
    assert!(client.events.iter().any(|(kind, path)| *kind == 3 && path == "/zookeeper/config"));
}

#[test]
fn a_server_alone_serves_whoever_only_reads() {
    let (cluster, servers) =
        start_with(&["--set", "front.zookeeper.read_only=true", "--set", "service.tick_ms=500"]);
    let server = server_of(&servers, 1);
    let mut client = Client::new(server);
    client.create("/kept", 0).expect("it is made");
    for id in [2, 3] {
        cluster.kill(id);
    }
    let until = Instant::now() + PATIENCE;
    while word(server, "isro") != "ro" {
        assert!(Instant::now() < until, "{}", word(server, "srvr"));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(word(server, "srvr").contains("Mode: read-only"));
    assert!(Client::connect(server, client.session, &client.password).is_err(), "it wants to write");
    let mut reads = Client::connect_as(server, client.session, &client.password, true).expect("it is served");
    assert_eq!((reads.session, reads.only_reads), (client.session, true));
    assert_eq!(reads.data("/kept"), "x");
    assert_eq!(reads.create("/none", 0), Err(-119));
    cluster.restart(2);
    while word(server, "isro") != "rw" {
        assert!(Instant::now() < until, "{}", word(server, "srvr"));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(matches!(reads.stream.read(&mut [0]), Ok(0) | Err(_)), "it looks for a server that writes");
    let mut back = Client::connect_as(server, 0, &[0; 16], true).expect("it is served");
    assert!(!back.only_reads);
    back.create("/again", 0).expect("it is made");
}
