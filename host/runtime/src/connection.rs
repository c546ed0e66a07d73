//! One socket: receives and sends frames, with bounded memory; with TLS in between unless the configuration says `plain`.

use crate::lane::Lately;
use bytes::Bytes;
use mio::net::TcpStream;
use quorate_tls::{Session, Trouble, looks_like_tls, unexpected_tls};
use quorate_types::{Identity, Reject, ReplicaId, Span, Time};
use quorate_wire::{Frame, FrameReader, Memory, OutFrame, Refusal, RefusalReason};
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;

/// Space for reading comes in chunks: the size of the first one, and the largest.
const READ_MIN: usize = 4 << 10;
pub(crate) const READ_MAX: usize = 256 << 10;
/// How many bytes that are not read may arrive at once on a connection that is being closed.
const DISCARDED_BYTES: usize = 2 << 20;
/// About how many bytes TLS encrypts ahead of the socket at most.
const SEALED_BYTES_MAX: usize = 256 << 10;
const SLICES_MAX: usize = 64;

/// Why a connection has to end.
#[derive(Debug)]
pub(crate) enum End {
    /// The other side closed it, or it broke.
    Closed,
    /// The bytes that arrived are no frame.
    Bad(Reject),
    /// The other side is not identified, or its bytes can not be trusted.
    Unsafe(Trouble),
}

/// Something that arrived.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// The other side of an accepted connection has proved its identity.
    Identity(Identity),
    /// A frame.
    Frame(Frame),
}

/// The kind of a connection, for the order of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Not identified yet.
    Door,
    /// A replica's connection.
    Member,
    /// A connection of a client or operator; the number is its owner's.
    Client(u64),
}

/// The layer between the socket and the frames.
pub(crate) enum Channel {
    /// None.
    Plain,
    /// TLS.
    Tls(Box<Session>),
}

/// A non-blocking connection.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    channel: Channel,
    /// The identity of the other side was reported.
    identified: bool,
    reader: FrameReader,
    read_size: usize,
    out: VecDeque<Bytes>,
    /// Frames that leave later, and since when each waits. (lane/late.rs)
    held: VecDeque<(Time, OutFrame)>,
    /// The bytes of both.
    out_bytes: usize,
    /// The system takes no more bytes until the socket becomes writable again.
    blocked: bool,
    /// The socket may hold more than was read, and no event will say so.
    pub(crate) unread: bool,
    /// The other side sends nothing more. Its bytes are read to the end, which no further event announces.
    pub(crate) ending: bool,
    /// The connection ends when everything is sent.
    pub(crate) closing: bool,
    /// The sending half is closed.
    finished: bool,
    /// The connection is being made.
    pub(crate) connecting: bool,
    /// This side made the connection.
    dialed: bool,
    /// The other side's address.
    pub(crate) from: Option<SocketAddr>,
    /// Whether anything arrived yet.
    begun: bool,
    pub(crate) class: Class,
    /// The member at the other end, once it is known.
    pub(crate) member: Option<ReplicaId>,
    /// The link to which it belongs; 0 if to none, or to the first one.
    pub(crate) link: u16,
    /// The connection stands among those to be read.
    pub(crate) queued: bool,
    /// How much a client sent lately.
    pub(crate) lately: Lately,
    /// Bytes were sent since this was last checked.
    pub(crate) moved: bool,
    /// How many bytes the system took, since this was last taken.
    pub(crate) sent: u64,
    /// The bytes that were counted for this connection.
    pub(crate) counted: usize,
    /// About how many bytes TLS has encrypted that the socket has not taken.
    sealed: usize,
}

impl Connection {
    /// A connection that the other side made.
    pub(crate) fn accepted(stream: TcpStream, channel: Channel, from: SocketAddr) -> Self {
        Self { from: Some(from), ..Self::new(stream, channel) }
    }

    /// A connection that this side is making to a member.
    pub(crate) fn dialed(member: ReplicaId, stream: TcpStream, channel: Channel) -> Self {
        let (class, member) = (Class::Member, Some(member));
        Self { blocked: true, connecting: true, dialed: true, class, member, ..Self::new(stream, channel) }
    }

    fn new(stream: TcpStream, channel: Channel) -> Self {
        Self {
            stream,
            channel,
            identified: false,
            reader: FrameReader::new(0),
            read_size: READ_MIN,
            out: VecDeque::new(),
            held: VecDeque::new(),
            out_bytes: 0,
            blocked: false,
            unread: false,
            ending: false,
            closing: false,
            finished: false,
            connecting: false,
            dialed: false,
            from: None,
            begun: false,
            class: Class::Door,
            member: None,
            link: 0,
            queued: false,
            lately: Lately::default(),
            moved: false,
            sent: 0,
            counted: 0,
            sealed: 0,
        }
    }

    /// Reads into this memory, which is used again.
    pub(crate) fn use_memory(&mut self, memory: Arc<dyn Memory>) {
        self.reader.use_memory(memory);
    }

    pub(crate) fn set_frame_limit(&mut self, bytes: u32) {
        self.reader.set_limit(bytes);
    }

    /// The bytes that wait to be sent. Bytes that TLS has encrypted are bounded, and count as one byte.
    pub(crate) fn out_bytes(&self) -> usize {
        match &self.channel {
            Channel::Tls(session) => self.out_bytes + usize::from(session.wants_send()),
            Channel::Plain => self.out_bytes,
        }
    }

    /// The memory that it holds in bytes: what waits to be sent, and the space for what arrives.
    pub(crate) fn holds(&self) -> usize {
        self.out_bytes + self.sealed + self.reader.held()
    }

    /// Frees unused space.
    pub(crate) fn relax(&mut self) {
        self.reader.relax();
        self.read_size = READ_MIN;
    }

    /// Reads about `bytes` at most, and gives what arrived to the caller. Returns the number of bytes. `scratch` is space for encrypted
    /// input.
    pub(crate) fn read(
        &mut self,
        scratch: &mut [u8],
        bytes: usize,
        on_arrival: impl FnMut(&mut Self, Arrival),
    ) -> (usize, Result<(), End>) {
        let mut taken = 0;
        let ended = match self.channel {
            Channel::Plain => self.read_plain(&mut taken, bytes, on_arrival),
            Channel::Tls(_) => {
                let room = bytes.min(scratch.len());
                self.read_tls(&mut scratch[..room], &mut taken, bytes, on_arrival)
            }
        };
        (taken, ended)
    }

    fn read_plain(
        &mut self,
        taken: &mut usize,
        bytes: usize,
        mut on_arrival: impl FnMut(&mut Self, Arrival),
    ) -> Result<(), End> {
        self.unread = true;
        while *taken < bytes {
            let space = self.reader.space(self.read_size.min(bytes));
            let room = space.len();
            match self.stream.read(space) {
                Ok(0) => return Err(End::Closed),
                Ok(n) => {
                    if !std::mem::replace(&mut self.begun, true)
                        && !self.dialed
                        && looks_like_tls(&space[..n])
                    {
                        return Err(End::Unsafe(unexpected_tls()));
                    }
                    self.reader.filled(n);
                    *taken += n;
                    self.fit(n, room);
                    self.frames(&mut on_arrival)?;
                    if n < room && !self.ending {
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

    /// Like [`Self::read_plain`]. The encrypted bytes of all connections pass through the same scratch space, so an idle connection holds
    /// only the beginning of a record.
    fn read_tls(
        &mut self,
        scratch: &mut [u8],
        taken: &mut usize,
        bytes: usize,
        mut on_arrival: impl FnMut(&mut Self, Arrival),
    ) -> Result<(), End> {
        self.unread = true;
        while *taken < bytes {
            match self.stream.read(scratch) {
                Ok(0) => return Err(End::Closed),
                Ok(n) => {
                    *taken += n;
                    self.fit(n, self.read_size);
                    self.open(&scratch[..n])?;
                    self.identify(&mut on_arrival);
                    self.frames(&mut on_arrival)?;
                    if n < scratch.len() && !self.ending {
                        self.unread = false;
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

    /// Adapts the size of chunks: an idle connection holds little, a busy one reads much at once. `n` bytes came into a chunk of `room`
    /// bytes.
    fn fit(&mut self, n: usize, room: usize) {
        if n >= room {
            self.read_size = (self.read_size * 2).min(READ_MAX);
        } else if n < self.read_size / 8 {
            self.read_size = (self.read_size / 2).max(READ_MIN);
        }
    }

    fn open(&mut self, sealed: &[u8]) -> Result<(), End> {
        let Channel::Tls(session) = &mut self.channel else { return Ok(()) };
        let (reader, chunk) = (&mut self.reader, self.read_size);
        session.receive(sealed, |plain| reader.push_part(plain, chunk)).map_err(End::Unsafe)
    }

    fn identify(&mut self, on_arrival: &mut impl FnMut(&mut Self, Arrival)) {
        let Channel::Tls(session) = &self.channel else { return };
        if let Some(peer) = session.peer().filter(|_| !self.identified) {
            let peer = peer.clone();
            self.identified = true;
            // A dialed replica was known before, or there would be no session.
            if !self.dialed {
                on_arrival(self, Arrival::Identity(peer));
            }
        }
    }

    fn frames(&mut self, on_arrival: &mut impl FnMut(&mut Self, Arrival)) -> Result<(), End> {
        while let Some(frame) = self.reader.frame().map_err(End::Bad)? {
            on_arrival(self, Arrival::Frame(frame));
        }
        Ok(())
    }

    /// Ends a connection that is not safe. TLS sends its last messages; a side that speaks no TLS gets the reason in a frame.
    pub(crate) fn turn_away(&mut self, trouble: &Trouble) {
        self.closing = true;
        self.unread = false;
        self.out.clear();
        self.held.clear();
        self.out_bytes = 0;
        if trouble.plain && !self.dialed {
            self.channel = Channel::Plain;
            self.send(Refusal { reason: RefusalReason::Certificate, text: trouble.text.clone() }.frame());
        }
    }

    /// Reads and ignores what still arrives on a connection that is being closed: closing a socket with unread bytes would take back the
    /// last bytes sent.
    pub(crate) fn discard(&mut self) -> Result<(), End> {
        let mut bytes = [0; READ_MIN];
        for _ in 0..DISCARDED_BYTES / READ_MIN {
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

    /// Closes the sending half.
    pub(crate) fn finish(&mut self) {
        if let Channel::Tls(session) = &mut self.channel
            && !std::mem::replace(&mut self.finished, true)
        {
            session.finish();
            let _ = self.write();
        }
        if self.out_bytes() == 0 {
            let _ = self.stream.shutdown(std::net::Shutdown::Write);
        }
    }

    /// Sends a frame, after those that are held.
    pub(crate) fn send(&mut self, frame: OutFrame) {
        match self.held.back() {
            None => {
                self.out_bytes += frame.len();
                self.out.extend(frame.into_parts());
            }
            Some((since, _)) => self.hold(*since, frame),
        }
    }

    /// Keeps a frame back until [`Self::let_go`].
    pub(crate) fn hold(&mut self, now: Time, frame: OutFrame) {
        self.out_bytes += frame.len();
        self.held.push_back((now, frame));
    }

    /// Sends what was held for so long. Says whether there was something.
    pub(crate) fn let_go(&mut self, now: Time, late: Span) -> bool {
        let before = self.held.len();
        while self.held.front().is_some_and(|(since, _)| since.plus(late) <= now) {
            let parts = self.held.pop_front().map(|(_, frame)| frame.into_parts());
            self.out.extend(parts.into_iter().flatten());
        }
        self.held.len() < before
    }

    /// Since when the first frame is held.
    pub(crate) fn holds_since(&self) -> Option<Time> {
        self.held.front().map(|(since, _)| *since)
    }

    pub(crate) fn on_writable(&mut self) {
        self.blocked = false;
    }

    pub(crate) fn wants_to_write(&self) -> bool {
        let sealed = matches!(&self.channel, Channel::Tls(session) if session.wants_send());
        !self.blocked && (sealed || !self.out.is_empty())
    }

    /// Writes until everything is out or the system takes no more.
    pub(crate) fn write(&mut self) -> Result<(), End> {
        while self.wants_to_write() {
            match self.write_once() {
                Ok(0) => return Err(End::Closed),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.blocked = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(End::Closed),
            }
            if !self.blocked
                && matches!(&self.channel, Channel::Tls(session) if !session.wants_send() && session.is_handshaking())
            {
                break; // before the end of the handshake nothing can be sealed
            }
        }
        Ok(())
    }

    fn write_once(&mut self) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut count = 0;
        let mut offered = 0;
        for (slice, bytes) in slices.iter_mut().zip(&self.out) {
            *slice = IoSlice::new(bytes);
            count += 1;
            offered += bytes.len();
        }
        let slices = &slices[..count];
        match &mut self.channel {
            Channel::Plain => {
                let written = self.stream.write_vectored(slices)?;
                self.moved |= written > 0;
                self.sent += written as u64;
                self.advance(written);
                self.blocked = written < offered;
                Ok(written)
            }
            Channel::Tls(session) => {
                let sealed = session.write(slices);
                let sent = if session.wants_send() {
                    let sent = session.send(&mut self.stream);
                    self.sent += *sent.as_ref().unwrap_or(&0) as u64;
                    sent
                } else {
                    Ok(1)
                };
                self.sealed =
                    if session.wants_send() { (self.sealed + sealed).min(SEALED_BYTES_MAX) } else { 0 };
                self.moved |= matches!(sent, Ok(1..));
                self.advance(sealed);
                sent
            }
        }
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

#[cfg(test)]
mod tests;
