//! One socket: frames in, frames out, bounded in bytes.

use bytes::Bytes;
use mio::net::TcpStream;
use quorate_types::Reject;
use quorate_wire::{Frame, FrameReader, OutFrame};
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read as _, Write as _};

/// Memory for reading comes in chunks of this size at first, and of that size at most.
const READ_MIN: usize = 4 << 10;
const READ_MAX: usize = 256 << 10;
/// One connection's share of a turn, so that a fast sender does not starve the others.
const TURN_BYTES: usize = 2 << 20;
const SLICES_MAX: usize = 64;

/// Why a connection has to end.
#[derive(Debug)]
pub(crate) enum End {
    /// The other side closed it, or it broke.
    Closed,
    /// What arrived is no frame.
    Bad(Reject),
}

/// A non-blocking connection.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    reader: FrameReader,
    read_size: usize,
    out: VecDeque<Bytes>,
    out_bytes: usize,
    /// The system said that it takes no more until the socket becomes writable again.
    blocked: bool,
    /// The socket may hold more than was read: there will be no event for it.
    pub(crate) unread: bool,
    /// Ends when everything was sent.
    pub(crate) closing: bool,
    /// The connection is being made.
    pub(crate) connecting: bool,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, connecting: bool) -> Self {
        Self {
            stream,
            reader: FrameReader::new(0),
            read_size: READ_MIN,
            out: VecDeque::new(),
            out_bytes: 0,
            blocked: connecting,
            unread: false,
            closing: false,
            connecting,
        }
    }

    pub(crate) fn set_frame_limit(&mut self, bytes: u32) {
        self.reader.set_limit(bytes);
    }

    pub(crate) fn out_bytes(&self) -> usize {
        self.out_bytes
    }

    /// Reads what is there, up to this turn's share, and hands on each whole frame.
    pub(crate) fn read(&mut self, mut on_frame: impl FnMut(&mut Self, Frame)) -> Result<(), End> {
        let mut taken = 0;
        self.unread = true;
        while taken < TURN_BYTES {
            let space = self.reader.space(self.read_size);
            let room = space.len();
            match self.stream.read(space) {
                Ok(0) => return Err(End::Closed),
                Ok(n) => {
                    self.reader.filled(n);
                    taken += n;
                    // Memory in chunks that fit what comes: an idle connection holds little, a busy one reads much at once.
                    if n == room {
                        self.read_size = (self.read_size * 2).min(READ_MAX);
                    } else if n < self.read_size / 8 {
                        self.read_size = (self.read_size / 2).max(READ_MIN);
                    }
                    while let Some(frame) = self.reader.frame().map_err(End::Bad)? {
                        on_frame(self, frame);
                    }
                    if n < room {
                        self.unread = false; // the socket is empty; the next byte is an event
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.unread = false;
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(End::Closed),
            }
        }
        Ok(())
    }

    /// Reads and forgets what the other side still sends on a connection that is being closed: closing with unread bytes would
    /// take the last words back that were sent.
    pub(crate) fn discard(&mut self) -> Result<(), End> {
        let mut bytes = [0; READ_MIN];
        for _ in 0..TURN_BYTES / READ_MIN {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(End::Closed),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(_) => return Err(End::Closed),
            }
        }
        Err(End::Closed) // it sends and sends, and does not listen
    }

    /// Nothing more will be sent.
    pub(crate) fn finish(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    pub(crate) fn send(&mut self, frame: OutFrame) {
        self.out_bytes += frame.len();
        self.out.extend(frame.into_parts());
    }

    pub(crate) fn on_writable(&mut self) {
        self.blocked = false;
    }

    pub(crate) fn wants_to_write(&self) -> bool {
        !self.blocked && !self.out.is_empty()
    }

    /// Writes until everything is out or the system takes no more.
    pub(crate) fn write(&mut self) -> Result<(), End> {
        while self.wants_to_write() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let mut count = 0;
            let mut offered = 0;
            for (slice, bytes) in slices.iter_mut().zip(&self.out) {
                *slice = IoSlice::new(bytes);
                count += 1;
                offered += bytes.len();
            }
            match self.stream.write_vectored(&slices[..count]) {
                Ok(0) => return Err(End::Closed),
                Ok(written) => {
                    self.advance(written);
                    self.blocked = written < offered;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.blocked = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(End::Closed),
            }
        }
        Ok(())
    }

    fn advance(&mut self, mut written: usize) {
        use bytes::Buf as _;
        self.out_bytes -= written;
        while written > 0 {
            let Some(front) = self.out.front_mut() else { return };
            if front.len() > written {
                front.advance(written);
                return;
            }
            written -= front.len();
            self.out.pop_front();
        }
        while self.out.front().is_some_and(Bytes::is_empty) {
            self.out.pop_front();
        }
    }
}
