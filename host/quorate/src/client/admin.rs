//! An operator's questions: one connection for one question, on a thread of its own. Rare, so simple comes first.

use super::{Error, resolve};
use bytes::Bytes;
use quorate_types::{ClusterId, ReplicaId};
use quorate_wire::{Frame, FrameKind, FrameReader, Hello, OutFrame, Refusal, Role, Welcome};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// No status document is larger.
const ANSWER_BYTES_MAX: u32 = 16 << 20;
/// Room offered to one read.
const READ_BYTES: usize = 16 << 10;

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
        let mut stream = self.connect(end)?;
        let mut reader = FrameReader::new(ANSWER_BYTES_MAX);
        let hello = Hello::new(self.cluster.unwrap_or_default(), Some(self.replica), Role::Admin);
        send(&mut stream, &hello.frame())?;
        let frame = receive(&mut stream, &mut reader, end)?;
        match frame.kind {
            FrameKind::Welcome => {
                let welcome = Welcome::decode(frame.payload).map_err(|why| why.to_string())?;
                if welcome.replica != self.replica {
                    return Err(format!("{} answers at {}", welcome.replica, self.address));
                }
            }
            FrameKind::Refusal => {
                let refusal = Refusal::decode(frame.payload).map_err(|why| why.to_string())?;
                return Err(format!("refused the connection: {}", refusal.text));
            }
            _ => return Err("did not answer the greeting".to_owned()),
        }
        send(&mut stream, &OutFrame::new(self.kind, &self.payload, vec![]))?;
        loop {
            let frame = receive(&mut stream, &mut reader, end)?;
            if frame.kind == self.answer {
                return Ok(frame.payload);
            }
        }
    }

    fn connect(&self, end: Instant) -> Result<TcpStream, String> {
        let mut why = String::new();
        for address in resolve::now(&self.address)? {
            match TcpStream::connect_timeout(&address, left(end)?) {
                Ok(stream) => {
                    stream.set_nodelay(true).map_err(|error| error.to_string())?;
                    stream.set_write_timeout(Some(left(end)?)).map_err(|error| error.to_string())?;
                    return Ok(stream);
                }
                Err(error) => why = format!("no connection to {address}: {error}"),
            }
        }
        Err(why)
    }
}

fn left(end: Instant) -> Result<Duration, String> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err("no answer in time".to_owned()) } else { Ok(left) }
}

fn send(stream: &mut TcpStream, frame: &OutFrame) -> Result<(), String> {
    stream.write_all(&frame.to_vec()).map_err(|error| error.to_string())
}

fn receive(stream: &mut TcpStream, reader: &mut FrameReader, end: Instant) -> Result<Frame, String> {
    let mut room = [0; READ_BYTES];
    loop {
        if let Some(frame) = reader.frame().map_err(|why| why.to_string())? {
            return Ok(frame);
        }
        stream.set_read_timeout(Some(left(end)?)).map_err(|error| error.to_string())?;
        match stream.read(&mut room) {
            Ok(0) => return Err("the replica closed the connection".to_owned()),
            Ok(read) => reader.push(&room[..read]),
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) =>
            {
                return Err("no answer in time".to_owned());
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}
