//! One connection: a non-blocking socket, what waits to be written, and the frames that arrive.

use bytes::{Buf, Bytes};
use mio::net::TcpStream;
use quorate_wire::{Frame, FrameReader, OutFrame};
use socket2::SockRef;
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;

/// So many pieces go into one system call.
const SLICES: usize = 64;
/// The smallest and largest room that is offered to one read.
const READ_MIN: usize = 16 << 10;
const READ_MAX: usize = 256 << 10;
/// After so many reads in one turn the other connections get theirs.
const READS_PER_TURN: usize = 16;

/// How reading ended for now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReadEnd {
    /// Nothing more is there.
    Drained,
    /// More may be there: go on in the next turn.
    More,
}

#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) stream: TcpStream,
    pub(crate) connected: bool,
    reader: FrameReader,
    read_room: usize,
    out: VecDeque<Bytes>,
    /// The kernel took nothing more: wait until it is writable.
    blocked: bool,
}

impl Socket {
    /// Begins to connect.
    pub(crate) fn connect(address: SocketAddr, frame_bytes_max: u32) -> io::Result<Self> {
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
            reader,
            read_room: READ_MIN,
            out: VecDeque::new(),
            blocked: true,
        })
    }

    /// Whether the connection is made by now.
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
        !self.out.is_empty()
    }

    pub(crate) fn unblock(&mut self) {
        self.blocked = false;
    }

    /// Writes as much as the kernel takes; returns how many bytes.
    pub(crate) fn write(&mut self) -> io::Result<usize> {
        let mut total = 0;
        while !self.blocked && !self.out.is_empty() {
            let slices: Vec<IoSlice<'_>> =
                self.out.iter().take(SLICES).map(|part| IoSlice::new(part)).collect();
            match self.stream.write_vectored(&slices) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    total += written;
                    self.written(written);
                }
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

    /// Reads what is there and hands the frames to `take`.
    pub(crate) fn read(&mut self, mut take: impl FnMut(Frame)) -> io::Result<ReadEnd> {
        for _ in 0..READS_PER_TURN {
            let space = self.reader.space(self.read_room);
            let room = space.len();
            let result = self.stream.read(space);
            self.reader.filled(*result.as_ref().unwrap_or(&0));
            match result {
                Ok(0) => {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the replica closed the connection",
                    ));
                }
                Ok(read) => {
                    if read == room {
                        self.read_room = (self.read_room * 2).min(READ_MAX);
                    }
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
                Err(error) => return Err(error),
            }
        }
        Ok(ReadEnd::More)
    }
}
