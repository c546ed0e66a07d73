//! A connection to a server of ZooKeeper, with many requests under way.

use bytes::{Buf as _, BytesMut};
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_zookeeper::jute::{Reader, Write as _};
use quorate_zookeeper::records::{ConnectRequest, ConnectResponse, ReplyHeader, RequestHeader};
use quorate_zookeeper::request::Request;
use quorate_zookeeper::server::split;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The longest frame of a server.
const FRAME_MAX: usize = 64 << 20;
/// The time-out of sessions, as servers with usual settings give it.
const TIMEOUT_MS: i32 = 30_000;

/// A client's connection.
pub(super) struct Client {
    stream: TcpStream,
    received: BytesMut,
    sending: Vec<u8>,
    xid: i32,
}

/// An answer: the number of an error or 0, and the record.
pub(super) struct Answer {
    pub(super) error: i32,
    pub(super) record: Vec<u8>,
}

impl Client {
    pub(super) async fn connect(address: &str) -> Outcome<Self> {
        let stream = TcpStream::connect(address).await.doing(format_args!("connect to {address}"))?;
        stream.set_nodelay(true).doing("set up a connection")?;
        let mut client = Self { stream, received: BytesMut::new(), sending: Vec::new(), xid: 0 };
        let hello = ConnectRequest {
            protocol: 0,
            last_zxid: 0,
            timeout_ms: TIMEOUT_MS,
            session: 0,
            password: &[0; 16],
            read_only: Some(false),
        };
        let mut frame = Vec::new();
        hello.write(&mut frame);
        client.sending.bytes(Some(&frame));
        client.flush().await?;
        let answer = client.frame().await?;
        match ConnectResponse::read(&answer) {
            Ok(response) if response.session != 0 => Ok(client),
            _ => Err(Failure::new(format!("{address} opens no session"))),
        }
    }

    /// Adds a request to what is sent next.
    pub(super) fn ask(&mut self, request: &Request<'_>) {
        self.xid += 1;
        let at = self.sending.len();
        self.sending.int(0);
        RequestHeader { xid: self.xid, op: request.op().code() }.write(&mut self.sending);
        request.write(&mut self.sending);
        let length = (self.sending.len() - at - 4) as u32;
        self.sending[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// Sends what was asked.
    pub(super) async fn flush(&mut self) -> Outcome<()> {
        self.stream.write_all(&self.sending).await.doing("send a request")?;
        self.sending.clear();
        Ok(())
    }

    async fn frame(&mut self) -> Outcome<Vec<u8>> {
        loop {
            if let Some(frame) = self.next()? {
                return Ok(frame);
            }
            self.read().await?;
        }
    }

    fn next(&mut self) -> Outcome<Option<Vec<u8>>> {
        let frame = split(&mut self.received, FRAME_MAX).map_err(|_| Failure::new("a bad frame"))?;
        Ok(frame.map(|frame| frame.chunk().to_vec()))
    }

    async fn read(&mut self) -> Outcome<()> {
        self.received.reserve(64 << 10);
        let count = self.stream.read_buf(&mut self.received).await.doing("read an answer")?;
        if count == 0 { Err(Failure::new("a server closed the connection")) } else { Ok(()) }
    }

    /// Waits for answers: at least one.
    pub(super) async fn answers(&mut self, mut each: impl FnMut(Answer)) -> Outcome<()> {
        let mut frame = Some(self.frame().await?);
        while let Some(bytes) = frame {
            let mut from = Reader::new(&bytes);
            let header = ReplyHeader::read(&mut from).map_err(|_| Failure::new("a bad answer"))?;
            each(Answer { error: header.error, record: from.rest().to_vec() });
            frame = self.next()?;
        }
        Ok(())
    }

    /// Asks, and waits for the answer. Nothing else may be under way.
    pub(super) async fn call(&mut self, request: &Request<'_>) -> Outcome<Answer> {
        self.ask(request);
        self.flush().await?;
        let mut answer = None;
        self.answers(|one| answer = Some(one)).await?;
        answer.ok_or_else(|| Failure::new("no answer"))
    }
}
