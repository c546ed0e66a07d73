//! A ZooKeeper as the oracle: a node of its tree, whose version ZooKeeper counts.
//!
//! The few messages that this needs are written here. Each frame is a length and that many bytes; numbers are big-endian, texts and
//! buffers begin with a length of four bytes. A read is preceded by a sync, since servers answer reads by themselves.
//! Source: the protocol definition `zookeeper.jute` of Apache ZooKeeper, release 3.9.

use crate::{PATIENCE, one_of};
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use quorate_runtime::{Held, Oracle};
use std::io::{Error, ErrorKind, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Instant;

/// How long the server keeps a session that says nothing, as far as it agrees.
const SESSION_MS: i32 = 10_000;
/// A connection that was not used for so many parts of the session's time is not used again.
const IDLE_PARTS: u32 = 3;
/// No answer is longer: a server refuses nodes of more than 1 MiB.
const ANSWER_MAX: usize = 2 << 20;

const CREATE: i32 = 1;
const GET_DATA: i32 = 4;
const SET_DATA: i32 = 5;
const SYNC: i32 = 9;
/// Everybody may do everything, as ZooKeeper's own clients write by default.
const ALL_RIGHTS: i32 = 31;

const NO_NODE: i32 = -101;
const NO_RIGHT: i32 = -102;
const BAD_VERSION: i32 = -103;
const NODE_EXISTS: i32 = -110;

/// A client of ZooKeeper.
pub(crate) struct ZooKeeper {
    servers: Vec<String>,
    /// The one that answered last, and the connection to it.
    at: usize,
    connection: Option<Connection>,
}

impl ZooKeeper {
    pub(crate) fn new(servers: &[String]) -> Self {
        Self { servers: servers.to_vec(), at: 0, connection: None }
    }
}

impl Oracle for ZooKeeper {
    fn serve(&mut self, register: &str, swap: Option<Held>) -> Result<Held, String> {
        let path = format!("/{register}");
        let mut kept = self.connection.take().filter(Connection::is_fresh);
        let answer = one_of(&self.servers, &mut self.at, |server| {
            // A connection that failed is not used again.
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => Connection::open(server)?,
            };
            let answer = connection.ask(&path, swap.as_ref())?;
            kept = Some(connection);
            Ok(answer)
        });
        self.connection = kept;
        answer
    }

    fn name(&self) -> String {
        format!("ZooKeeper at {}", self.servers.join(", "))
    }
}

/// An error of ZooKeeper, by its number.
struct Refused(i32);

impl Refused {
    fn in_words(&self) -> String {
        match self.0 {
            NO_RIGHT => "ZooKeeper refuses it: let everybody make and write nodes below /quorate".to_owned(),
            number => format!("ZooKeeper refuses it, with error {number}"),
        }
    }
}

/// A connection with a session.
struct Connection {
    stream: TcpStream,
    /// The number of the last request.
    xid: i32,
    used: Instant,
    session_ms: u32,
}

impl Connection {
    fn open(server: &str) -> Result<Self, String> {
        let addresses = server.to_socket_addrs().map_err(|why| why.to_string())?;
        let mut last = "the name has no address".to_owned();
        for address in addresses {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => return Self::begin(stream).map_err(|why| in_words(&why)),
                Err(why) => last = why.to_string(),
            }
        }
        Err(last)
    }

    /// Opens a session.
    fn begin(stream: TcpStream) -> std::io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut connection = Self { stream, xid: 0, used: Instant::now(), session_ms: 0 };
        let mut hello = BytesMut::new();
        // Version of the protocol, last change seen, session's time, its number (none) and its password (none).
        hello.put_i32(0);
        hello.put_i64(0);
        hello.put_i32(SESSION_MS);
        hello.put_i64(0);
        put_buffer(&mut hello, &[0; 16]);
        connection.send(&hello)?;
        let mut answer = connection.receive()?;
        let _version = answer.try_get_i32().map_err(short)?;
        let agreed = answer.try_get_i32().map_err(short)?;
        connection.session_ms = u32::try_from(agreed)
            .ok()
            .filter(|ms| *ms > 0)
            .ok_or_else(|| Error::other("the server opens no session: it may have lost its quorum"))?;
        Ok(connection)
    }

    fn is_fresh(&self) -> bool {
        self.used.elapsed().as_millis() < u128::from(self.session_ms / IDLE_PARTS)
    }

    fn ask(&mut self, path: &str, swap: Option<&Held>) -> Result<Held, String> {
        let done = match swap {
            None => self.read(path),
            Some((0, value)) => match self.create_with_parents(path, value) {
                Ok(Ok(())) => Ok(Ok((1, value.clone()))),
                Ok(Err(Refused(NODE_EXISTS))) => self.read(path),
                Ok(Err(other)) => Ok(Err(other)),
                Err(why) => Err(why),
            },
            Some((version, value)) => match self.set(path, *version, value) {
                Ok(Ok(())) => Ok(Ok((version + 1, value.clone()))),
                Ok(Err(Refused(BAD_VERSION | NO_NODE))) => self.read(path),
                Ok(Err(other)) => Ok(Err(other)),
                Err(why) => Err(why),
            },
        };
        self.used = Instant::now();
        match done {
            Ok(Ok(held)) => Ok(held),
            Ok(Err(refused)) => Err(refused.in_words()),
            Err(why) => Err(in_words(&why)),
        }
    }

    fn read(&mut self, path: &str) -> std::io::Result<Result<Held, Refused>> {
        let mut body = BytesMut::new();
        put_buffer(&mut body, path.as_bytes());
        if let Err(why) = self.request(SYNC, &body)? {
            return Ok(Err(why));
        }
        body.put_u8(0);
        let mut answer = match self.request(GET_DATA, &body)? {
            Ok(answer) => answer,
            Err(Refused(NO_NODE)) => return Ok(Ok(Held::default())),
            Err(why) => return Ok(Err(why)),
        };
        let value = get_buffer(&mut answer)?;
        // The numbers and times of the change that made it and of the last one come first.
        if answer.remaining() < 36 {
            return Err(short(bytes::TryGetError { requested: 36, available: answer.remaining() }));
        }
        answer.advance(32);
        let version = u64::try_from(answer.get_i32()).map_err(|_| Error::other("a version below zero"))?;
        Ok(Ok((version + 1, value)))
    }

    fn set(&mut self, path: &str, version: u64, value: &[u8]) -> std::io::Result<Result<(), Refused>> {
        let Ok(version) = i32::try_from(version - 1) else { return Ok(Err(Refused(BAD_VERSION))) };
        let mut body = BytesMut::new();
        put_buffer(&mut body, path.as_bytes());
        put_buffer(&mut body, value);
        body.put_i32(version);
        Ok(self.request(SET_DATA, &body)?.map(drop))
    }

    /// Parents are made where they are missing: who may write below them need not be allowed to make them.
    fn create_with_parents(&mut self, path: &str, value: &[u8]) -> std::io::Result<Result<(), Refused>> {
        match self.create(path, value)? {
            Err(Refused(NO_NODE)) => {}
            made => return Ok(made),
        }
        let parents = path.match_indices('/').map(|(at, _)| &path[..at]).filter(|parent| !parent.is_empty());
        for parent in parents {
            match self.create(parent, &[])? {
                Ok(()) | Err(Refused(NODE_EXISTS)) => {}
                Err(other) => return Ok(Err(other)),
            }
        }
        self.create(path, value)
    }

    fn create(&mut self, path: &str, value: &[u8]) -> std::io::Result<Result<(), Refused>> {
        let mut body = BytesMut::new();
        put_buffer(&mut body, path.as_bytes());
        put_buffer(&mut body, value);
        // One entry of access rights, and no flags: it stays.
        body.put_i32(1);
        body.put_i32(ALL_RIGHTS);
        put_buffer(&mut body, b"world");
        put_buffer(&mut body, b"anyone");
        body.put_i32(0);
        Ok(self.request(CREATE, &body)?.map(drop))
    }

    /// Sends a request and waits for its answer.
    fn request(&mut self, kind: i32, body: &[u8]) -> std::io::Result<Result<Bytes, Refused>> {
        self.xid += 1;
        let mut frame = BytesMut::new();
        frame.put_i32(self.xid);
        frame.put_i32(kind);
        frame.put_slice(body);
        self.send(&frame)?;
        let mut answer = self.receive()?;
        let xid = answer.try_get_i32().map_err(short)?;
        let _change = answer.try_get_i64().map_err(short)?;
        let error = answer.try_get_i32().map_err(short)?;
        if xid != self.xid {
            return Err(Error::other("an answer to another request"));
        }
        Ok(if error == 0 { Ok(answer) } else { Err(Refused(error)) })
    }

    fn send(&mut self, body: &[u8]) -> std::io::Result<()> {
        let mut frame = BytesMut::with_capacity(4 + body.len());
        put_buffer(&mut frame, body);
        self.stream.write_all(&frame)
    }

    /// Waits for an answer, and no longer, however slowly it comes.
    fn receive(&mut self) -> std::io::Result<Bytes> {
        let until = Instant::now() + PATIENCE;
        let mut length = [0; 4];
        self.fill(&mut length, until)?;
        let length = usize::try_from(i32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > ANSWER_MAX {
            return Err(Error::other("what answers there is no ZooKeeper"));
        }
        let mut body = vec![0; length];
        self.fill(&mut body, until)?;
        Ok(body.into())
    }

    fn fill(&mut self, mut bytes: &mut [u8], until: Instant) -> std::io::Result<()> {
        while !bytes.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(bytes) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => bytes = &mut bytes[read..],
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }
}

/// What went wrong on a connection. The system's own words for these say nothing.
fn in_words(why: &Error) -> String {
    match why.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "no answer in time".to_owned(),
        ErrorKind::UnexpectedEof => "it closed the connection instead of an answer".to_owned(),
        _ => why.to_string(),
    }
}

fn short(_: bytes::TryGetError) -> Error {
    Error::other("an answer that is too short")
}

fn put_buffer(to: &mut BytesMut, bytes: &[u8]) {
    // Nothing here is as long as 2 GiB.
    to.put_i32(bytes.len() as i32);
    to.put_slice(bytes);
}

fn get_buffer(from: &mut Bytes) -> std::io::Result<Bytes> {
    // A buffer that is not there has the length -1.
    let length = usize::try_from(from.try_get_i32().map_err(short)?).unwrap_or(0);
    if length > from.remaining() {
        return Err(short(bytes::TryGetError { requested: length, available: from.remaining() }));
    }
    Ok(from.split_to(length))
}
