//! One connection to another replica: the messages to send, and the bytes received.

use super::message::{self, Expected, Kind, Message};
use super::slots::Slots;
use crate::disk::LogFile;
use crate::net::{self, Moved};
use crate::{Doing, Error, Result, roles};
use rustix::event::PollFlags;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::{Shutdown, TcpStream};
use std::rc::Rc;

/// The most messages of one write.
const SEND_MAX: usize = 16;
/// Room for the votes that arrive between two turns.
const BUFFER_MIN: usize = 64 << 10;

pub(crate) struct Peer {
    stream: TcpStream,
    expected: Expected,
    buffer: Vec<u8>,
    have: usize,
    queue: VecDeque<Rc<Message>>,
    /// Bytes of the first message of `queue` that are sent.
    inside: usize,
    /// The last write took less than it was given.
    blocked: bool,
    /// The other side may still send; and it may still receive.
    hears: bool,
    speaks: bool,
}

impl Peer {
    pub(crate) fn new(stream: TcpStream, expected: Expected) -> Result<Peer> {
        stream.set_nonblocking(true).doing("make a socket non-blocking")?;
        let longest = message::head_bytes(expected.replicas) + expected.batch_max;
        let room = if expected.leads { 2 * longest } else { 0 };
        Ok(Peer {
            stream,
            expected,
            buffer: vec![0; room + BUFFER_MIN],
            have: 0,
            queue: VecDeque::new(),
            inside: 0,
            blocked: false,
            hears: true,
            speaks: true,
        })
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// The events that poll is to wait for.
    pub(crate) fn wanted(&self) -> PollFlags {
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::IN, self.hears);
        wanted.set(PollFlags::OUT, self.blocked);
        wanted
    }

    /// Whether the other side will send nothing more.
    pub(crate) fn is_silent(&self) -> bool {
        !self.hears
    }

    /// Whether everything queued is sent.
    pub(crate) fn is_sent(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn push(&mut self, message: Rc<Message>) {
        if self.speaks {
            self.queue.push_back(message);
        }
    }

    /// Sends what is queued, as far as the socket takes it. `writable`: poll said that it takes more.
    pub(crate) fn send(&mut self, writable: bool) -> Result<()> {
        if writable {
            self.blocked = false;
        }
        while !self.blocked && !self.queue.is_empty() {
            let mut slices = [IoSlice::new(&[]); SEND_MAX];
            let (mut inside, mut n, mut bytes) = (self.inside, 0, 0);
            for (slice, message) in slices.iter_mut().zip(&self.queue) {
                let rest = &message.sealed()[inside..];
                *slice = IoSlice::new(rest);
                (inside, n, bytes) = (0, n + 1, bytes + rest.len());
            }
            let moved = match &slices[..n] {
                [one] => net::write(&self.stream, one)?,
                several => net::write_vectored(&self.stream, several)?,
            };
            match moved {
                Moved::Bytes(wrote) => {
                    self.blocked = wrote < bytes;
                    self.sent(wrote);
                }
                Moved::WouldBlock => self.blocked = true,
                // enough others may be left, or the load generator sees that too few are
                Moved::Closed => self.give_up(),
            }
        }
        Ok(())
    }

    /// Notes that `n` more bytes are sent.
    fn sent(&mut self, n: usize) {
        self.inside += n;
        while let Some(first) = self.queue.front() {
            if self.inside < first.sealed().len() {
                break;
            }
            self.inside -= first.sealed().len();
            self.queue.pop_front();
        }
    }

    fn give_up(&mut self) {
        self.speaks = false;
        self.blocked = false;
        self.queue.clear();
        self.inside = 0;
    }

    /// Closes the sending half. What the other side sends before it does the same is still read: closing a socket with unread bytes would
    /// discard what the other side has not read yet.
    pub(crate) fn finish(&mut self) {
        if std::mem::take(&mut self.speaks) {
            // the other side may be gone already
            let _ = self.stream.shutdown(Shutdown::Write);
        }
    }

    /// Reads what is there, checks it and hands it to `slots`; batches go to `log` first, if there is one.
    pub(crate) fn hear(&mut self, slots: &mut Slots, log: Option<&mut LogFile>) -> Result<()> {
        match net::read(&self.stream, &mut self.buffer[self.have..])? {
            Moved::Bytes(n) => self.have += n,
            Moved::WouldBlock => return Ok(()),
            Moved::Closed => {
                self.hears = false;
                return Ok(());
            }
        }
        let from = self.expected.from;
        let wrong =
            |what: &str| Error::Child { role: roles::replica(from.into()), what: format!("sent {what}") };
        let mut rest = &self.buffer[..self.have];
        let mut has_batches = false;
        while let Some((heard, next)) = message::split(rest, &self.expected).map_err(wrong)? {
            slots.hear(from, &heard).map_err(wrong)?;
            has_batches |= heard.kind == Kind::Propose;
            rest = next;
        }
        let whole = self.have - rest.len();
        if let (Some(log), true) = (log, has_batches) {
            log.append(&mut [IoSlice::new(&self.buffer[..whole])])?;
        }
        self.buffer.copy_within(whole..self.have, 0);
        self.have -= whole;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
