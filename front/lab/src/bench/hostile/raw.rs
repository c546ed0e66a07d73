//! One connection that can break the rules: a blocking socket, TLS if the cluster has it, and any bytes.

use quorate_tls::{Credentials, Session};
use quorate_types::{ClientId, ClusterId, Holder, ReplicaId};
use quorate_wire::{Frame, FrameKind, FrameReader, Hello, OutFrame, Refusal, Role};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::io::{self, IoSlice, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// The longest wait; after it the connection is given up.
const PATIENCE: Duration = Duration::from_secs(20);
/// The address that the crowd comes from. It differs from that of the other clients, so that replicas can tell them apart without
/// certificates.
const FROM: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 66);
/// The largest answer.
const FRAME_BYTES_MAX: u32 = 64 << 20;

/// The replica that the crowd attacks.
#[derive(Clone)]
pub(super) struct Victim {
    pub(super) cluster: ClusterId,
    pub(super) replica: ReplicaId,
    pub(super) address: SocketAddr,
    /// The certificate that the crowd shows; `None` where connections are plain.
    pub(super) credentials: Option<Arc<Credentials>>,
}

/// How the replica answered a handshake.
pub(super) enum Greeting {
    Welcome(Raw),
    /// Refused with this text.
    Refused(String),
    /// The connection ended without a text.
    Lost,
}

/// A connection.
pub(super) struct Raw {
    stream: TcpStream,
    tls: Option<Box<Session>>,
    reader: FrameReader,
}

impl Victim {
    /// Opens a socket and sends nothing.
    pub(super) fn dial(&self) -> io::Result<TcpStream> {
        let SocketAddr::V4(to) = self.address else { return TcpStream::connect(self.address) };
        let fd = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        if to.ip().is_loopback() {
            bind(&fd, &SocketAddrV4::new(FROM, 0))?;
        }
        connect(&fd, &to)?;
        Ok(TcpStream::from(fd))
    }

    /// The client id that the crowd uses.
    pub(super) fn client(&self, number: u64) -> ClientId {
        let own = ClientId::new(number);
        match self.credentials.as_ref().map(|credentials| &credentials.identity().holder) {
            Some(holder @ (Holder::Client(_) | Holder::Admin(_))) => holder.client_id(own),
            Some(Holder::Replica(_)) | None => own,
        }
    }

    /// The first bytes of a handshake: of TLS, or of a hello.
    pub(super) fn first_bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match &self.credentials {
            Some(credentials) => {
                let mut tls = Session::dial(credentials, self.replica).map_err(other)?;
                while tls.wants_send() {
                    tls.send(&mut bytes)?;
                }
            }
            None => bytes = self.hello(1).to_vec(),
        }
        Ok(bytes)
    }

    fn hello(&self, number: u64) -> OutFrame {
        let hello = Hello::new(self.cluster, Some(self.replica), Role::Client(self.client(number)));
        hello.made_of(ClientId::new(number)).frame()
    }

    /// Connects with a complete handshake.
    pub(super) fn greet(&self, number: u64) -> io::Result<Greeting> {
        let stream = self.dial()?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let tls = self.credentials.as_ref().map(|credentials| Session::dial(credentials, self.replica));
        let tls = tls.transpose().map_err(other)?.map(Box::new);
        let mut raw = Raw { stream, tls, reader: FrameReader::new(FRAME_BYTES_MAX) };
        let greeted =
            raw.shake().and_then(|()| raw.write(&self.hello(number).to_vec())).and_then(|()| raw.read());
        Ok(match greeted {
            Ok(Some(frame)) if frame.kind == FrameKind::Welcome => Greeting::Welcome(raw),
            Ok(Some(frame)) => match Refusal::decode(frame.payload) {
                Ok(refusal) => Greeting::Refused(refusal.text),
                Err(_) => Greeting::Lost,
            },
            Ok(None) | Err(_) => Greeting::Lost,
        })
    }
}

impl Raw {
    fn shake(&mut self) -> io::Result<()> {
        while self.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
            self.flush()?;
            if self.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) && !self.receive()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            while tls.wants_send() {
                tls.send(&mut self.stream)?;
            }
        }
        Ok(())
    }

    /// Waits for more bytes. Says whether there were any.
    fn receive(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 16 << 10];
        let read = self.stream.read(&mut bytes)?;
        let (tls, reader) = (&mut self.tls, &mut self.reader);
        match tls {
            Some(tls) => tls.receive(&bytes[..read], |plain| reader.push(plain)).map_err(other)?,
            None => reader.push(&bytes[..read]),
        }
        Ok(read > 0)
    }

    /// Sends any bytes.
    pub(super) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if self.tls.is_none() {
            return self.stream.write_all(bytes);
        }
        while !bytes.is_empty() {
            let taken = self.tls.as_mut().map_or(0, |tls| tls.write(&[IoSlice::new(bytes)]));
            bytes = &bytes[taken..];
            self.flush()?;
        }
        Ok(())
    }

    /// The next frame; `None` when the other side has closed the connection.
    pub(super) fn read(&mut self) -> io::Result<Option<Frame>> {
        loop {
            if let Some(frame) = self.reader.frame().map_err(|why| io::Error::other(why.to_string()))? {
                return Ok(Some(frame));
            }
            if !self.receive()? {
                return Ok(None);
            }
        }
    }

    /// The text with which the other side ended the connection, if it sent one.
    pub(super) fn last_words(&mut self) -> Option<String> {
        while let Ok(Some(frame)) = self.read() {
            if frame.kind == FrameKind::Refusal {
                return Refusal::decode(frame.payload).ok().map(|refusal| refusal.text);
            }
        }
        None
    }

    /// Sets how long a write or read may take from now on.
    pub(super) fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(patience))?;
        self.stream.set_write_timeout(Some(patience))
    }
}

fn other(why: impl std::fmt::Display) -> io::Error {
    io::Error::other(why.to_string())
}
