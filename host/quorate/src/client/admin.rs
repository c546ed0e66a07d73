//! An operator's questions: one connection for one question, on a thread of its own; and connections for longer talks, as for a
//! backup. Rare, so simple comes first.

use super::{Error, resolve};
use bytes::Bytes;
use quorate_types::{ClusterId, ReplicaId};
use quorate_wire::{Frame, FrameKind, FrameReader, Hello, OutFrame, Refusal, Role, Welcome};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// No status document, and no part of a checkpoint, is larger: an object's value has up to 16 MiB.
const ANSWER_BYTES_MAX: u32 = (16 << 20) + (1 << 20);
/// Room offered to one read.
const READ_BYTES: usize = 64 << 10;

/// One question to one replica.
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
}

impl Question {
    /// Asks and waits for the answer.
    pub(crate) fn ask(&self) -> Result<Bytes, Error> {
        self.try_ask().map_err(|text| Error::Connection { replica: self.replica, text })
    }

    fn try_ask(&self) -> Result<Bytes, String> {
        let end = Instant::now() + self.timeout;
        let mut connection = AdminConnection::open(self.replica, &self.address, self.cluster, end)?;
        send(&mut connection.stream, &OutFrame::new(self.kind, &self.payload, vec![]))?;
        loop {
            let frame = connection.receive_until(end)?.ok_or_else(too_late)?;
            if frame.kind == self.answer {
                return Ok(frame.payload);
            }
        }
    }
}

/// An operator's connection to one replica, for as many frames as it takes: what the commands of an operator that are more than
/// a question are made of. It says what the wire format says; see docs/formats/wire.md.
#[derive(Debug)]
pub struct AdminConnection {
    stream: TcpStream,
    reader: FrameReader,
}

/// The sending half of an [`AdminConnection`], for another thread. The connection ends when this is dropped.
#[derive(Debug)]
pub struct AdminSender {
    stream: TcpStream,
}

impl AdminConnection {
    /// Connects to this replica of this cluster and greets it, all within `timeout`. Each frame that is sent later gets as long.
    ///
    /// # Errors
    /// Says why there is no connection.
    pub fn connect(
        replica: ReplicaId,
        address: &str,
        cluster: ClusterId,
        timeout: Duration,
    ) -> Result<Self, String> {
        let connection = Self::open(replica, address, Some(cluster), Instant::now() + timeout)?;
        let set = connection.stream.set_write_timeout(Some(timeout.max(Duration::from_millis(1))));
        set.map_err(|error| error.to_string())?;
        Ok(connection)
    }

    /// What sends on this connection.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn sender(&self) -> Result<AdminSender, String> {
        let stream = self.stream.try_clone().map_err(|error| error.to_string())?;
        Ok(AdminSender { stream })
    }

    /// The next frame from the replica; none if no whole one is here within `timeout`.
    ///
    /// # Errors
    /// The connection ended, and why.
    pub fn receive(&mut self, timeout: Duration) -> Result<Option<Frame>, String> {
        self.receive_until(Instant::now() + timeout)
    }

    fn open(
        replica: ReplicaId,
        address: &str,
        cluster: Option<ClusterId>,
        end: Instant,
    ) -> Result<Self, String> {
        let reader = FrameReader::new(ANSWER_BYTES_MAX);
        let mut connection = Self { stream: connect(address, end)?, reader };
        let hello = Hello::new(cluster.unwrap_or_default(), Some(replica), Role::Admin);
        send(&mut connection.stream, &hello.frame())?;
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
                return Err(format!("refused the connection: {}", refusal.text));
            }
            _ => return Err("did not answer the greeting".to_owned()),
        }
        Ok(connection)
    }

    fn receive_until(&mut self, end: Instant) -> Result<Option<Frame>, String> {
        let mut room = [0; READ_BYTES];
        loop {
            if let Some(frame) = self.reader.frame().map_err(|why| why.to_string())? {
                return Ok(Some(frame));
            }
            let Some(left) = left(end) else { return Ok(None) };
            self.stream.set_read_timeout(Some(left)).map_err(|error| error.to_string())?;
            match self.stream.read(&mut room) {
                Ok(0) => return Err("the replica closed the connection".to_owned()),
                Ok(read) => self.reader.push(&room[..read]),
                Err(error)
                    if matches!(
                        error.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                    ) =>
                {
                    return Ok(None);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

impl AdminSender {
    /// Sends a frame, unless the replica does not take it in time.
    ///
    /// # Errors
    /// The connection can not be used any more, and why.
    pub fn send(&mut self, frame: &OutFrame) -> Result<(), String> {
        send(&mut self.stream, frame)
    }
}

impl Drop for AdminSender {
    fn drop(&mut self) {
        // Whoever receives on it is woken, and sees that it is over.
        let _ = self.stream.shutdown(Shutdown::Both);
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

/// How much time is left, if any.
fn left(end: Instant) -> Option<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    (!left.is_zero()).then_some(left)
}

fn too_late() -> String {
    "no answer in time".to_owned()
}

fn send(stream: &mut TcpStream, frame: &OutFrame) -> Result<(), String> {
    stream.write_all(&frame.to_vec()).map_err(|error| error.to_string())
}
