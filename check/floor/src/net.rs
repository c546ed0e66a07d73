//! Sockets: loopback listeners, connections with one congestion control, non-blocking reads and writes, and the
//! cumulative counts that travel back.

use crate::tag::{self, Key};
use crate::{Doing, Error, Result, roles};
use rustix::event::{PollFd, Timespec};
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// A loopback listener on a free port, and its address.
pub(crate) fn listen() -> Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).doing("listen on loopback")?;
    let address = listener.local_addr().doing("ask for the listener's address")?;
    Ok((listener, address))
}

/// Waits for the one connection that is expected.
pub(crate) fn accept(listener: &TcpListener, congestion_control: &str) -> Result<TcpStream> {
    let (stream, _) = listener.accept().doing("accept a connection")?;
    tune(&stream, congestion_control)?;
    Ok(stream)
}

/// Connects to another process of this run.
pub(crate) fn connect(address: SocketAddr, congestion_control: &str) -> Result<TcpStream> {
    let stream = TcpStream::connect(address).doing(format!("connect to {address}"))?;
    tune(&stream, congestion_control)?;
    Ok(stream)
}

fn tune(stream: &TcpStream, congestion_control: &str) -> Result<()> {
    stream.set_nodelay(true).doing("set TCP_NODELAY")?;
    if congestion_control != "system" {
        socket2::SockRef::from(stream)
            .set_tcp_congestion(congestion_control.as_bytes())
            .doing(format!("ask for congestion control {congestion_control:?}"))?;
    }
    Ok(())
}

/// Waits for any of `fds`. `None` waits for ever.
pub(crate) fn poll(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<()> {
    let timeout =
        timeout.map(|t| Timespec { tv_sec: t.as_secs() as _, tv_nsec: i64::from(t.subsec_nanos()) as _ });
    match rustix::event::poll(fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(e) => Err(e).doing("poll"),
    }
}

/// What a non-blocking read or write did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// This many bytes, at least one.
    Bytes(usize),
    /// Nothing: it would have to wait.
    WouldBlock,
    /// The other side has closed.
    Closed,
}

pub(crate) fn read(mut stream: &TcpStream, into: &mut [u8]) -> Result<Moved> {
    moved(stream.read(into), "read from a connection")
}

pub(crate) fn write(mut stream: &TcpStream, bytes: &[u8]) -> Result<Moved> {
    moved(stream.write(bytes), "write to a connection")
}

pub(crate) fn write_vectored(mut stream: &TcpStream, slices: &[IoSlice<'_>]) -> Result<Moved> {
    moved(stream.write_vectored(slices), "write to a connection")
}

fn moved(done: std::io::Result<usize>, what: &str) -> Result<Moved> {
    match done {
        Ok(0) => Ok(Moved::Closed),
        Ok(n) => Ok(Moved::Bytes(n)),
        Err(e) => match e.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(Moved::WouldBlock),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Ok(Moved::Closed),
            _ => Err(Error::Io { what: what.into(), source: e }),
        },
    }
}

/// Reads a stream of cumulative counts (`u64`, little-endian), each with a MAC where one is expected; only the latest
/// matters.
pub(crate) struct Counts {
    buffer: Vec<u8>,
    have: usize,
    latest: u64,
    /// The replica that sends the counts, and the key of its MACs; `None` if the sender is believed without.
    vouched: Option<(u8, Key)>,
}

/// A count and its MAC.
const ANSWER_BYTES: usize = 8 + tag::BYTES;

impl Counts {
    pub(crate) fn new() -> Counts {
        Counts { buffer: vec![0; 64 << 10], have: 0, latest: 0, vouched: None }
    }

    /// Counts of a replica that must prove them with MACs.
    pub(crate) fn vouched(replica: u8) -> Counts {
        Counts { vouched: Some((replica, Key::of(replica, tag::LOAD))), ..Counts::new() }
    }

    /// The last count that came.
    pub(crate) fn latest(&self) -> u64 {
        self.latest
    }

    /// Reads what is there. `Ok(false)`: the other side has closed.
    pub(crate) fn read(&mut self, stream: &TcpStream) -> Result<bool> {
        match read(stream, &mut self.buffer[self.have..])? {
            Moved::Closed => return Ok(false),
            Moved::WouldBlock => {}
            Moved::Bytes(n) => self.took(n)?,
        }
        Ok(true)
    }

    /// `n` more bytes lie in the buffer.
    fn took(&mut self, n: usize) -> Result<()> {
        self.have += n;
        let bytes = &self.buffer[..self.have];
        let left = if let Some((replica, key)) = &self.vouched {
            let (answers, rest) = bytes.as_chunks::<ANSWER_BYTES>();
            if let Some((count, mac)) = answers.last().and_then(|answer| answer.split_first_chunk()) {
                let count = u64::from_le_bytes(*count);
                if *mac != key.mac(tag::ANSWER, count, &tag::NO_BATCH) {
                    return Err(Error::Child {
                        role: roles::replica(usize::from(*replica)),
                        what: "sent an answer with a wrong MAC".into(),
                    });
                }
                self.latest = count;
            }
            rest.len()
        } else {
            let (counts, rest) = bytes.as_chunks::<8>();
            if let Some(last) = counts.last() {
                self.latest = u64::from_le_bytes(*last);
            }
            rest.len()
        };
        self.buffer.copy_within(self.have - left..self.have, 0);
        self.have = left;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
