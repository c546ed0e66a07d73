//! The same random requests to a real ZooKeeper and to ours: every field of every answer is the same, but for times.

mod several;

use crate::support::{Zk, made, names, path};
use quorate_skipped::skipped;
use quorate_zookeeper::error::ZkError;
use quorate_zookeeper::jute::{Reader, Write as _};
use quorate_zookeeper::op::Op;
use quorate_zookeeper::records::{
    Acl, ConnectRequest, ConnectResponse, ReplyHeader, RequestHeader, Stat, WatcherEvent,
};
use quorate_zookeeper::request::{Mode, Request};
use quorate_zookeeper::server::digest_id;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Who may do everything.
pub(crate) const SUPER: &[u8] = b"super:secret";

/// A ZooKeeper of one server, with a directory of its own.
pub(crate) struct Server {
    process: Child,
    pub(crate) directory: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
        drop(std::fs::remove_dir_all(&self.directory));
    }
}

impl Server {
    /// It ends at once, and its files stay.
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
    }

    /// A new server, and the port at which it serves.
    pub(crate) fn start(jars: &str) -> (Self, u16) {
        let port =
            std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it").port();
        let directory = std::env::temp_dir().join(format!("quorate-zookeeper-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let config = directory.join("zoo.cfg");
        let data = directory.join("data");
        let text = format!(
            "tickTime=2000\ndataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n",
            data.display()
        );
        std::fs::write(&config, text).expect("it is written");
        let whoever = String::from_utf8(digest_id(SUPER)).expect("text");
        let whoever = format!("-Dzookeeper.DigestAuthenticationProvider.superDigest={whoever}");
        let mut java = Command::new("java");
        java.args(["-Xmx256m", "-Dzookeeper.extendedTypesEnabled=true", "-Dzookeeper.enforceQuota=true"]);
        // Its state is written on the way, so that it can be taken over.
        java.args(["-Dzookeeper.snapCount=400", &whoever, "-cp", &format!("{jars}/*")]);
        java.arg("org.apache.zookeeper.server.quorum.QuorumPeerMain").arg(config);
        let process = java.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("java runs");
        (Self { process, directory }, port)
    }
}

/// A client of a real server.
pub(crate) struct Real {
    stream: TcpStream,
    pub(crate) session: i64,
    pub(crate) password: Vec<u8>,
    /// The transaction before its first one.
    before: i64,
    /// The last one that it has seen.
    seen: i64,
    xid: i32,
    /// What its watches told: transaction, kind and path.
    events: Vec<(i64, i32, String)>,
}

impl Real {
    /// Connects once the server serves. Before, it lets connections in and closes them.
    pub(crate) fn connect(port: u16) -> Self {
        for _ in 0..300 {
            if let Ok(mut real) = Self::open(port, 0, &[0; 16]) {
                real.before = real.ask(&Request::Read { op: Op::Exists, path: b"/", watch: false }).0;
                return real;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("no ZooKeeper serves within 30 s");
    }

    fn open(port: u16, session: i64, password: &[u8]) -> std::io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        // A port that nobody listens on yet may be given to this very connection.
        if stream.local_addr()? == stream.peer_addr()? {
            return Err(std::io::ErrorKind::ConnectionRefused.into());
        }
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        let (password_now, events) = (Vec::new(), Vec::new());
        let mut real =
            Self { stream, session: 0, password: password_now, before: 0, seen: 0, xid: 0, events };
        let hello = ConnectRequest {
            protocol: 0,
            last_zxid: 0,
            timeout_ms: 40_000,
            session,
            password,
            read_only: Some(false),
        };
        let mut frame = Vec::new();
        hello.write(&mut frame);
        real.send(&frame)?;
        let answer = real.receive()?;
        let response = ConnectResponse::read(&answer).expect("an answer");
        (real.session, real.password) = (response.session, response.password.to_vec());
        Ok(real)
    }

    fn send(&mut self, frame: &[u8]) -> std::io::Result<()> {
        let mut out = Vec::new();
        out.bytes(Some(frame));
        self.stream.write_all(&out)
    }

    fn receive(&mut self) -> std::io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut frame)?;
        Ok(frame)
    }

    /// The transaction of the answer, and its record or error.
    pub(crate) fn ask(&mut self, request: &Request<'_>) -> (i64, Result<Vec<u8>, i32>) {
        self.xid += 1;
        let mut frame = Vec::new();
        RequestHeader { xid: self.xid, op: request.op().code() }.write(&mut frame);
        request.write(&mut frame);
        self.send(&frame).expect("it is sent");
        loop {
            let next = self.next().unwrap_or_else(|why| panic!("{why} to {request:?}"));
            let (Some(header), record) = next else { continue };
            assert_eq!(header.xid, self.xid);
            self.seen = header.zxid;
            return (header.zxid, if header.error == 0 { Ok(record) } else { Err(header.error) });
        }
    }

    /// The next answer, or nothing after an event was kept.
    fn next(&mut self) -> std::io::Result<(Option<ReplyHeader>, Vec<u8>)> {
        let answer = self.receive()?;
        let mut from = Reader::new(&answer);
        let header = ReplyHeader::read(&mut from).expect("a header");
        if header.xid != RequestHeader::EVENT {
            return Ok((Some(header), from.rest().to_vec()));
        }
        let event = WatcherEvent::read(&mut from).expect("an event");
        let path = String::from_utf8_lossy(event.path).into_owned();
        self.events.push((header.zxid, event.kind, path));
        Ok((None, Vec::new()))
    }
}

/// What is the same on both sides.
struct Shape {
    /// The sessions, in the order of their beginnings.
    sessions: Vec<i64>,
    /// The transaction before the first request.
    before: i64,
    /// Transactions in which sessions moved: there are none for that on the other side.
    moves: Vec<i64>,
}

impl Shape {
    fn zxid(&self, zxid: i64) -> i64 {
        if zxid <= 0 {
            return zxid;
        }
        zxid - self.before - self.moves.iter().filter(|moved| **moved <= zxid).count() as i64
    }

    /// The transaction that has this number on both sides.
    fn raw(&self, zxid: i64) -> i64 {
        let mut raw = zxid + self.before;
        while self.zxid(raw) < zxid {
            raw += 1;
        }
        raw
    }

    fn stat(&self, from: &mut Reader<'_>) -> String {
        let Ok(found) = Stat::read(from) else { return " without numbers".to_owned() };
        let zxid = |zxid| self.zxid(zxid);
        let session = self.sessions.iter().position(|session| *session == found.ephemeral_owner);
        let owner = session.map_or(found.ephemeral_owner, |number| number as i64 + 1);
        let same = Stat {
            czxid: zxid(found.czxid),
            mzxid: zxid(found.mzxid),
            pzxid: zxid(found.pzxid),
            ctime: i64::from(found.ctime > 0),
            mtime: i64::from(found.mtime > 0),
            ephemeral_owner: owner,
            ..found
        };
        format!("{same:?}")
    }

    /// A record as text. Of times it says whether there is one.
    fn record(&self, op: Option<Op>, from: &mut Reader<'_>) -> String {
        let sorted = |mut names: Vec<String>| {
            names.sort_unstable();
            format!("{names:?}")
        };
        let Some(op) = op else { return format!("{:?}", from.int()) };
        match op {
            Op::Create => path(from),
            Op::Create2 | Op::CreateContainer | Op::CreateTtl => path(from) + &self.stat(from),
            Op::SetData | Op::SetAcl | Op::Exists => self.stat(from),
            Op::GetData => format!("{:?}", from.bytes()) + &self.stat(from),
            Op::GetChildren | Op::GetEphemerals => sorted(names(from)),
            Op::GetChildren2 => sorted(names(from)) + &self.stat(from),
            Op::GetAcl => format!("{:?}", from.list(Acl::read)) + &self.stat(from),
            Op::GetAllChildrenNumber => format!("{:?}", from.int()),
            Op::Multi | Op::MultiRead => {
                let mut all = String::new();
                loop {
                    let header = (from.int(), from.flag(), from.int());
                    all += &format!(" {header:?}");
                    let (Ok(number), Ok(false), Ok(_)) = header else { return all };
                    all += &self.record(Op::of(number), from);
                }
            }
            _ => String::new(),
        }
    }

    fn answer(&self, request: &Request<'_>, zxid: i64, answer: Result<&[u8], i32>) -> String {
        let text = match answer {
            Ok(record) => {
                let mut from = Reader::new(record);
                let text = self.record(Some(request.op()), &mut from);
                format!("{text} and {:?}", from.rest())
            }
            Err(error) => format!("{:?}", ZkError::of(error)),
        };
        format!("at {}: {text}", self.zxid(zxid))
    }
}

/// Random numbers (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % below as u64) as usize
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

const PATHS: [&str; 24] = [
    "/a",
    "/b",
    "/a/a",
    "/a/b",
    "/b/a",
    "/a/a/a",
    "/a/b/",
    "/",
    "",
    "a",
    "/zookeeper",
    "/zookeeper/config",
    "/zookeeper/quota",
    "/a/.",
    "/a/..",
    "//a",
    "/a//b",
    "/a/\u{1}",
    "/b/\u{e9}",
    "/c-",
    "/a/c-",
    "/a/\u{1f600}",
    "/b/\u{0}x",
    "/zookeeper/x",
];

fn rights(random: &mut Random) -> Vec<Acl<'static>> {
    let entries: [(i32, &[u8], &[u8]); 12] = [
        (31, b"world", b"anyone"),
        (1, b"world", b"anyone"),
        (23, b"world", b"anyone"),
        (31, b"ip", b"127.0.0.1"),
        (31, b"ip", b"127.0.0.0/8"),
        (31, b"ip", b"10.0.0.0/8"),
        (31, b"ip", b"127.0.0"),
        (31, b"digest", b"ann:hash"),
        (31, b"digest", b"ann"),
        (31, b"auth", b""),
        (31, b"nobody", b"x"),
        (31, b"world", b"x"),
    ];
    let count = random.pick(&[1, 1, 1, 1, 2, 3, 0]);
    let mut one = || if random.below(4) > 0 { entries[0] } else { random.pick(&entries) };
    (0..count).map(|_| one()).map(|(perms, scheme, id)| Acl { perms, scheme, id }).collect()
}

const DATA: [Option<&[u8]>; 4] = [None, Some(b""), Some(b"x"), Some(b"longer data")];

/// What is written into a quota. Other bytes would end the real server.
const LIMITS: [&[u8]; 4] = [
    b"count=3,bytes=4",
    b"count=-1,bytes=-1=;byteHardLimit=12;countHardLimit=3",
    b"count=2,bytes=-1=;countHardLimit=4",
    b"count=-1,bytes=-1=;byteHardLimit=8",
];

/// A quota of `/b` is set, changed or taken away.
fn quota(random: &mut Random) -> Request<'static> {
    let path = random.pick(&[
        "/zookeeper/quota/b",
        "/zookeeper/quota/b/zookeeper_limits",
        "/zookeeper/quota/b/zookeeper_limits",
        "/zookeeper/quota/b/zookeeper_stats",
        "/zookeeper/quota/b/zookeeper_stats",
    ]);
    let bytes = path.as_bytes();
    match random.below(8) {
        0 => Request::Delete { path: bytes, version: -1 },
        1 => Request::SetData { path: bytes, data: Some(random.pick(&LIMITS)), version: -1 },
        2..5 => Request::Read { op: Op::GetData, path: bytes, watch: false },
        _ => made(Op::Create2, path, Some(random.pick(&LIMITS)), 0, &[Acl::OPEN], 0),
    }
}

pub(crate) fn request(random: &mut Random, in_multi: bool) -> Request<'static> {
    if !in_multi && random.below(12) == 0 {
        return quota(random);
    }
    let mut path = random.pick(&PATHS);
    // The real server compares a multi's operations with what was there before all of them.
    while in_multi && path.starts_with("/b") {
        path = random.pick(&PATHS);
    }
    let bytes = path.as_bytes();
    let version = random.pick(&[-1, -1, -1, 0, 1, 2]);
    match random.below(if in_multi { 9 } else { 20 }) {
        0..4 => {
            let op = random.pick(&[Op::Create, Op::Create2, Op::Create2, Op::CreateContainer, Op::CreateTtl]);
            let flags = match (op, random.below(8)) {
                (_, 0) => random.pick(&[0, 1, 2, 3, 4, 5, 6, 7, -1]),
                (Op::CreateContainer, _) => Mode::Container as i32,
                (Op::CreateTtl, _) => random.pick(&[5, 6]),
                _ => random.pick(&[0, 0, 0, 1, 2, 3]),
            };
            // A time of -1 for a node that has none is a transaction that ends the real server: ours refuses it.
            let ttl = random.pick(&[1_000_000, 1_000_000, 1_000_000, 0, -1, 1 << 40]);
            let ttl = if matches!(flags, 5 | 6) { ttl } else { ttl.max(0) };
            made(op, path, random.pick(&DATA), flags, &rights(random), ttl)
        }
        4..6 => Request::Delete { path: bytes, version },
        6..8 => Request::SetData { path: bytes, data: random.pick(&DATA), version },
        8 if in_multi => Request::Check { path: bytes, version },
        // With the root's rights everything would be lost.
        8 if path.len() < 2 => Request::SetAcl { path: b"/a", acl: Some(rights(random)), version },
        8 => Request::SetAcl { path: bytes, acl: Some(rights(random)), version },
        9..11 => {
            let list = (0..random.below(5)).map(|_| request(random, true)).collect();
            Request::Multi { op: Op::Multi, list }
        }
        11..16 => {
            let op = random.pick(&[Op::Exists, Op::GetData, Op::GetChildren, Op::GetChildren2]);
            Request::Read { op, path: bytes, watch: false }
        }
        16..19 => {
            let op = random.pick(&[Op::GetAcl, Op::GetEphemerals, Op::GetAllChildrenNumber]);
            Request::About { op, path: bytes }
        }
        _ => {
            let mut one = || Request::Read {
                op: random.pick(&[Op::GetData, Op::GetChildren]),
                path: random.pick(&PATHS).as_bytes(),
                watch: false,
            };
            let list = vec![one(), one()];
            Request::Multi { op: Op::MultiRead, list }
        }
    }
}

/// `ZOOKEEPER` names a folder with the jars of a release 3.9. `QUORATE_REQUESTS`: how many requests.
#[test]
fn every_answer_is_that_of_a_real_zookeeper() {
    let Ok(jars) = std::env::var("ZOOKEEPER") else {
        return skipped("there is no ZooKeeper: name the folder of its jars in ZOOKEEPER");
    };
    let count = std::env::var("QUORATE_REQUESTS").ok().and_then(|count| count.parse().ok()).unwrap_or(3000);
    let (server, port) = Server::start(&jars);
    let (mut real, mut zk) = (Real::connect(port), Zk::new());
    let theirs = Shape { sessions: vec![real.session], before: real.before, moves: Vec::new() };
    let ours = Shape { sessions: vec![zk.caller.session], before: zk.zxid, moves: Vec::new() };
    let mut random = Random(42);
    let mut log = Vec::new();
    for at in 0..count {
        let request = request(&mut random, false);
        let (zxid, answer) = real.ask(&request);
        let expected = theirs.answer(&request, zxid, answer.as_deref().map_err(|error| *error));
        let answer = zk.ask(&request);
        let answer = answer.as_deref().map_err(|error| error.code());
        let found = ours.answer(&request, zk.zxid, answer);
        log.push(format!("{request:?}\n    {expected}"));
        let last = log[log.len().saturating_sub(6)..].join("\n");
        assert_eq!(expected, found, "request {at} of {count}\n{last}");
    }
    drop(server);
}
