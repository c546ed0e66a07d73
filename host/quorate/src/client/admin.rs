//! An operator's requests: one connection and one thread for each; and connections for longer exchanges, as for a backup. They are rare, so
//! the code is simple rather than fast.

use super::{Credentials, Error, resolve};
use bytes::Bytes;
use quorate_tls::Session;
use quorate_types::{ClientId, ClusterId, MembershipId, ReplicaId};
use quorate_wire::{
    Chain, Frame, FrameKind, FrameReader, Hello, OutFrame, Refusal, Role, Welcome, chain_request,
};
use std::io::{IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The largest answer. Status documents are smaller, and so are parts of checkpoints: an object's value has up to 16 MiB.
const ANSWER_BYTES_MAX: u32 = (16 << 20) + (1 << 20);
/// Room offered to one read.
const READ_BYTES: usize = 64 << 10;

/// One request to one replica.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) replica: ReplicaId,
    pub(crate) address: String,
    pub(crate) cluster: Option<ClusterId>,
    pub(crate) kind: FrameKind,
    pub(crate) payload: Vec<u8>,
    /// The kind of the answer.
    pub(crate) answer: FrameKind,
    pub(crate) timeout: Duration,
    pub(crate) credentials: Option<Arc<Credentials>>,
}

impl Question {
    /// Sends the request and waits for the answer.
    pub(crate) fn ask(&self) -> Result<Bytes, Error> {
        self.try_ask().map_err(|text| Error::Connection { replica: self.replica, text })
    }

    fn try_ask(&self) -> Result<Bytes, String> {
        let end = Instant::now() + self.timeout;
        let credentials = self.credentials.as_deref();
        let mut connection =
            AdminConnection::open(self.replica, &self.address, self.cluster, credentials, Role::Admin, end)?;
        connection.line.send(&OutFrame::new(self.kind, &self.payload, vec![]))?;
        loop {
            let frame = connection.receive_until(end)?.ok_or_else(too_late)?;
            if frame.kind == self.answer {
                return Ok(frame.payload);
            }
        }
    }
}

/// The number of a client that asks one question and has no session.
const CLIENT: ClientId = ClientId::new(1);

/// Asks a replica, as a client, for the membership links after a membership.
pub(super) fn ask_for_links(
    (replica, address): (ReplicaId, &str),
    cluster: ClusterId,
    credentials: Option<&Credentials>,
    after: MembershipId,
    timeout: Duration,
) -> Result<Chain, String> {
    let end = Instant::now() + timeout;
    let client = credentials.map_or(CLIENT, |own| own.identity().holder.client_id(CLIENT));
    let role = Role::Client(client);
    let mut connection = AdminConnection::open(replica, address, Some(cluster), credentials, role, end)?;
    connection.line.send(&chain_request(after))?;
    loop {
        let frame = connection.receive_until(end)?.ok_or_else(too_late)?;
        if frame.kind == FrameKind::Chain {
            return Chain::decode(frame.payload).map_err(|why| why.to_string());
        }
    }
}

/// How errors of [`AdminConnection::connect`] begin if the replica itself refused.
pub const REFUSED: &str = "refused the connection";

/// An operator's connection to one replica, for any number of frames; for operators' commands that need more than one request. Its frames
/// are those of the wire format; see docs/formats/wire.md.
#[derive(Debug)]
pub struct AdminConnection {
    line: Line,
    reader: FrameReader,
}

/// The sending half of an [`AdminConnection`], for another thread. The connection ends when this is dropped.
#[derive(Debug)]
pub struct AdminSender {
    line: Line,
}

impl AdminConnection {
    /// Connects to this replica of this cluster and completes the handshake within `timeout`. Sending a frame later may take as long.
    /// Without `credentials` the connection is plain, which only replicas with `plain = true` accept.
    ///
    /// # Errors
    /// Why there is no connection.
    pub fn connect(
        replica: ReplicaId,
        address: &str,
        cluster: ClusterId,
        credentials: Option<&Credentials>,
        timeout: Duration,
    ) -> Result<Self, String> {
        let end = Instant::now() + timeout;
        let connection = Self::open(replica, address, Some(cluster), credentials, Role::Admin, end)?;
        let set = connection.line.stream.set_write_timeout(Some(timeout.max(Duration::from_millis(1))));
        set.map_err(|error| error.to_string())?;
        Ok(connection)
    }

    /// The sending half of this connection.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn sender(&self) -> Result<AdminSender, String> {
        Ok(AdminSender { line: self.line.another()? })
    }

    /// The next frame from the replica; `None` if no complete one arrives within `timeout`.
    ///
    /// # Errors
    /// Why the connection ended.
    pub fn receive(&mut self, timeout: Duration) -> Result<Option<Frame>, String> {
        self.receive_until(Instant::now() + timeout)
    }

    fn open(
        replica: ReplicaId,
        address: &str,
        cluster: Option<ClusterId>,
        credentials: Option<&Credentials>,
        role: Role,
        end: Instant,
    ) -> Result<Self, String> {
        let stream = connect(address, end)?;
        let session = credentials.map(|credentials| Session::dial(credentials, replica)).transpose();
        let line = Line::new(stream, session.map_err(|trouble| trouble.text)?);
        let mut connection = Self { line, reader: FrameReader::new(ANSWER_BYTES_MAX) };
        connection.shake_hands(end)?;
        let hello = Hello::new(cluster.unwrap_or_default(), Some(replica), role);
        // Only of the name in a client's certificate an id is made.
        let named = credentials.is_some() && role != Role::Admin;
        let hello = if named { hello.made_of(CLIENT) } else { hello };
        connection.line.send(&hello.frame())?;
        let frame = connection.receive_until(end)?.ok_or_else(too_late)?;
        match frame.kind {
            FrameKind::Welcome => {
                let welcome = Welcome::decode(frame.payload).map_err(|why| why.to_string())?;
                if welcome.replica != replica {
                    return Err(format!("{} answers at {address}", welcome.replica));
                }
            }
            FrameKind::Refusal => {
                let refusal = Refusal::decode(frame.payload).map_err(|why| why.to_string())?;
                return Err(format!("{REFUSED}: {}", refusal.text));
            }
            _ => return Err("did not answer the greeting".to_owned()),
        }
        Ok(connection)
    }

    /// Verifies the other side, where connections are not plain.
    fn shake_hands(&mut self, end: Instant) -> Result<(), String> {
        self.line.flush()?;
        while self.line.is_handshaking() {
            if !self.read(end)? {
                return Err(too_late());
            }
            self.line.flush()?;
        }
        Ok(())
    }

    fn receive_until(&mut self, end: Instant) -> Result<Option<Frame>, String> {
        loop {
            if let Some(frame) = self.reader.frame().map_err(|why| why.to_string())? {
                return Ok(Some(frame));
            }
            if !self.read(end)? {
                return Ok(None);
            }
        }
    }

    /// Reads some bytes. `false` if none came in time.
    fn read(&mut self, end: Instant) -> Result<bool, String> {
        let mut room = [0; READ_BYTES];
        let Some(left) = left(end) else { return Ok(false) };
        self.line.stream.set_read_timeout(Some(left)).map_err(|error| error.to_string())?;
        match self.line.stream.read(&mut room) {
            Ok(0) => Err("the replica closed the connection".to_owned()),
            Ok(read) => {
                let reader = &mut self.reader;
                self.line.open(&room[..read], |plain| reader.push_part(plain, read))?;
                Ok(true)
            }
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) =>
            {
                Ok(false)
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// A socket, with TLS unless the cluster runs plain. Two threads may share it: one reads, the other sends.
#[derive(Debug)]
struct Line {
    stream: TcpStream,
    tls: Option<Arc<Tls>>,
}

#[derive(Debug)]
struct Tls {
    session: Mutex<Session>,
    /// Held from encrypting to sending, so that frames leave in the order in which they were encrypted. Reading does not need it: a sender
    /// may wait for the other side, which may wait until it is read from.
    sending: Mutex<()>,
}

impl Tls {
    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    fn new(stream: TcpStream, session: Option<Session>) -> Self {
        let tls =
            session.map(|session| Arc::new(Tls { session: Mutex::new(session), sending: Mutex::new(()) }));
        Self { stream, tls }
    }

    fn another(&self) -> Result<Self, String> {
        let stream = self.stream.try_clone().map_err(|error| error.to_string())?;
        Ok(Self { stream, tls: self.tls.clone() })
    }

    fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.session().is_handshaking())
    }

    fn open(&mut self, bytes: &[u8], mut take: impl FnMut(&[u8])) -> Result<(), String> {
        let Some(tls) = &self.tls else {
            take(bytes);
            return Ok(());
        };
        let opened = tls.session().receive(bytes, take);
        opened.map_err(|trouble| {
            // The other side is told why, if it still listens.
            let _ = self.flush();
            trouble.text
        })
    }

    /// Sends TLS's own messages.
    fn flush(&mut self) -> Result<(), String> {
        self.send_bytes(&[])
    }

    fn send(&mut self, frame: &OutFrame) -> Result<(), String> {
        self.send_bytes(&frame.to_vec())
    }

    fn send_bytes(&mut self, mut plain: &[u8]) -> Result<(), String> {
        let Some(tls) = &self.tls else {
            return self.stream.write_all(plain).map_err(|error| error.to_string());
        };
        let _sending = tls.sending.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let mut sealed = Vec::new();
            let mut session = tls.session();
            let taken = session.write(&[IoSlice::new(plain)]);
            plain = &plain[taken..];
            while session.wants_send() {
                session.send(&mut sealed).map_err(|error| error.to_string())?;
            }
            drop(session);
            self.stream.write_all(&sealed).map_err(|error| error.to_string())?;
            if plain.is_empty() {
                return Ok(());
            }
            if taken == 0 && sealed.is_empty() {
                return Err("the connection takes nothing more".to_owned());
            }
        }
    }
}

impl AdminSender {
    /// Sends a frame.
    ///
    /// # Errors
    /// Why the connection can not be used any more; for instance the replica did not take the frame in time.
    pub fn send(&mut self, frame: &OutFrame) -> Result<(), String> {
        self.line.send(frame)
    }
}

impl Drop for AdminSender {
    fn drop(&mut self) {
        // The receiving thread wakes up, and sees that the connection has ended.
        let _ = self.line.stream.shutdown(Shutdown::Both);
    }
}

fn connect(address: &str, end: Instant) -> Result<TcpStream, String> {
    let mut why = String::new();
    for address in resolve::now(address)? {
        match TcpStream::connect_timeout(&address, left(end).ok_or_else(too_late)?) {
            Ok(stream) => {
                stream.set_nodelay(true).map_err(|error| error.to_string())?;
                let time = left(end).ok_or_else(too_late)?;
                stream.set_write_timeout(Some(time)).map_err(|error| error.to_string())?;
                return Ok(stream);
            }
            Err(error) => why = format!("no connection to {address}: {error}"),
        }
    }
    Err(why)
}

/// The time left until `end`; `None` if it has passed.
fn left(end: Instant) -> Option<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    (!left.is_zero()).then_some(left)
}

fn too_late() -> String {
    "no answer in time".to_owned()
}
