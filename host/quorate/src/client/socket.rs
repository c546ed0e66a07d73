//! One connection: a non-blocking socket, the bytes to write, and the frames that arrive; with TLS in between, unless the cluster runs
//! plain.

use bytes::{Buf, Bytes};
use mio::net::TcpStream;
use quorate_tls::{Session, Trouble};
use quorate_wire::{Frame, FrameReader, OutFrame};
use socket2::SockRef;
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;

/// The most pieces in one system call.
const SLICES: usize = 64;
/// The smallest and largest room that is offered to one read.
const READ_MIN: usize = 16 << 10;
pub(crate) const READ_MAX: usize = 256 << 10;
/// After this number of reads in one turn other connections come first.
const READS_PER_TURN: usize = 16;

/// Why reading stopped for now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReadEnd {
    /// Nothing more is there.
    Drained,
    /// More may be there: go on in the next turn.
    More,
}

/// Why a connection can not be used any more.
#[derive(Debug)]
pub(crate) enum Broken {
    /// An error of the system, or the end of the connection.
    Io(io::Error),
    /// The connection is not safe.
    Unsafe(Trouble),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) stream: TcpStream,
    pub(crate) connected: bool,
    tls: Option<Box<Session>>,
    reader: FrameReader,
    read_room: usize,
    out: VecDeque<Bytes>,
    /// The kernel took less than it was given: wait until the socket is writable.
    blocked: bool,
}

impl Socket {
    /// Begins to connect.
    pub(crate) fn connect(
        address: SocketAddr,
        frame_bytes_max: u32,
        tls: Option<Box<Session>>,
    ) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        let socket = SockRef::from(&stream);
        socket.set_tcp_nodelay(true)?;
        // Loss-based control without pacing suits short bursts in a data centre; absent on some systems, and then the default
        // does.
        #[cfg(any(target_os = "linux", target_os = "freebsd"))]
        let _ = socket.set_tcp_congestion(b"reno");
        let reader = FrameReader::new(frame_bytes_max);
        Ok(Self {
            stream,
            connected: false,
            tls,
            reader,
            read_room: READ_MIN,
            out: VecDeque::new(),
            blocked: true,
        })
    }

    /// Whether the connection is made.
    pub(crate) fn check_connected(&mut self) -> io::Result<bool> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        match self.stream.peer_addr() {
            Ok(_) => {
                self.connected = true;
                self.blocked = false;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn push(&mut self, frame: OutFrame) {
        self.out.extend(frame.into_parts().filter(|part| !part.is_empty()));
    }

    pub(crate) fn has_output(&self) -> bool {
        !self.out.is_empty() || self.wants_send()
    }

    pub(crate) fn wants_send(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_send())
    }

    pub(crate) fn unblock(&mut self) {
        self.blocked = false;
    }

    /// Writes as much as the kernel takes. Gives the number of bytes of frames written.
    pub(crate) fn write(&mut self) -> io::Result<usize> {
        let mut total = 0;
        while !self.blocked && self.has_output() {
            let slices: Vec<IoSlice<'_>> =
                self.out.iter().take(SLICES).map(|part| IoSlice::new(part)).collect();
            let (written, sent) = match &mut self.tls {
                None => match self.stream.write_vectored(&slices) {
                    Ok(written) => (written, Ok(written)),
                    Err(error) => (0, Err(error)),
                },
                Some(tls) => {
                    let sealed = tls.write(&slices);
                    if !tls.wants_send() {
                        return Ok(total); // before the end of the handshake nothing can be sealed
                    }
                    (sealed, tls.send(&mut self.stream))
                }
            };
            total += written;
            self.written(written);
            match sent {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.blocked = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(total)
    }

    fn written(&mut self, mut bytes: usize) {
        while bytes > 0 {
            let Some(part) = self.out.front_mut() else { return };
            if part.len() > bytes {
                part.advance(bytes);
                return;
            }
            bytes -= part.len();
            self.out.pop_front();
        }
    }

    /// Reads what is there and gives the frames to `take`. `scratch` is space for encrypted input.
    pub(crate) fn read(
        &mut self,
        scratch: &mut [u8],
        mut take: impl FnMut(Frame),
    ) -> Result<ReadEnd, Broken> {
        for _ in 0..READS_PER_TURN {
            let result = match &mut self.tls {
                None => {
                    let space = self.reader.space(self.read_room);
                    let room = space.len();
                    let result = self.stream.read(space);
                    self.reader.filled(*result.as_ref().unwrap_or(&0));
                    if result.as_ref().is_ok_and(|read| *read == room) {
                        self.read_room = (self.read_room * 2).min(READ_MAX);
                    }
                    result
                }
                Some(tls) => {
                    let result = self.stream.read(scratch);
                    if let Ok(read @ 1..) = &result {
                        if *read >= self.read_room {
                            self.read_room = (self.read_room * 2).min(READ_MAX);
                        }
                        let (reader, chunk) = (&mut self.reader, self.read_room);
                        let take = |plain: &[u8]| reader.push_part(plain, chunk);
                        if let Err(trouble) = tls.receive(&scratch[..*read], take) {
                            // The other side is told why, if it still listens.
                            let _ = tls.send(&mut self.stream);
                            return Err(Broken::Unsafe(trouble));
                        }
                    }
                    result
                }
            };
            match result {
                Ok(0) => {
                    let why = "the replica closed the connection";
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why).into());
                }
                Ok(_) => {
                    while let Some(frame) = self
                        .reader
                        .frame()
                        .map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why.to_string()))?
                    {
                        take(frame);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(ReadEnd::Drained),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(ReadEnd::More)
    }
}
