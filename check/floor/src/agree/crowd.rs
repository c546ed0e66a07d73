//! Callers with connections of their own, as one replica sees them. Each has one command outstanding.

use super::proposals::Proposals;
use super::slots::Answer;
use crate::net::{self, Moved};
use crate::{Config, Doing, Error, Result, tag};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use std::collections::VecDeque;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The most connections that are read in one turn.
const READ_MAX: usize = 1024;

pub(crate) struct Crowd {
    epoll: OwnedFd,
    callers: Vec<Caller>,
    /// Callers whose command is there and not proposed yet; at the leader only.
    due: VecDeque<usize>,
    events: Vec<epoll::Event>,
    /// Whether this replica is one of those that answer.
    answers: bool,
}

struct Caller {
    stream: TcpStream,
    command: Vec<u8>,
    have: usize,
}

impl Crowd {
    /// Waits for all callers; none if the configuration has none.
    pub(crate) fn join(config: &Config, number: u8, listener: &TcpListener) -> Result<Option<Crowd>> {
        if config.callers == 0 {
            return Ok(None);
        }
        let mut callers: Vec<Option<Caller>> = (0..config.callers).map(|_| None).collect();
        let epoll = epoll::create(CreateFlags::CLOEXEC).doing("make an epoll")?;
        for _ in 0..config.callers {
            let (caller, stream) = accept(config, listener)?;
            epoll::add(&epoll, &stream, EventData::new_u64(caller as u64), EventFlags::IN)
                .doing("watch a socket")?;
            let place = callers.get_mut(caller).filter(|place| place.is_none());
            let place = place.ok_or_else(|| unexpected(caller))?;
            *place = Some(Caller { stream, command: vec![0; config.command_bytes], have: 0 });
        }
        Ok(Some(Crowd {
            epoll,
            callers: callers.into_iter().flatten().collect(),
            due: VecDeque::new(),
            events: Vec::with_capacity(READ_MAX),
            answers: usize::from(number) < config.answers(),
        }))
    }

    /// It is readable when a caller sent something.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Reads what callers sent. Only the leader keeps it: the others know then that the caller asked.
    pub(crate) fn read(&mut self, leads: bool) -> Result<()> {
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&NOW)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e).doing("wait for callers"),
        }
        for event in &self.events {
            let at = event.data.u64() as usize;
            let Some(caller) = self.callers.get_mut(at) else { continue };
            match net::read(&caller.stream, &mut caller.command[caller.have..])? {
                Moved::WouldBlock => {}
                // It has all its answers.
                Moved::Closed => epoll::delete(&self.epoll, &caller.stream).doing("forget a socket")?,
                Moved::Bytes(n) => caller.have += n,
            }
            if caller.have == caller.command.len() {
                caller.have = 0;
                if leads {
                    self.due.push_back(at);
                }
            }
        }
        Ok(())
    }

    /// The leader puts the commands that came into its open batch, as long as there is room.
    pub(crate) fn propose(&mut self, proposals: &mut Proposals) {
        while let Some(at) = self.due.front() {
            if !proposals.push(&self.callers[*at].command) {
                return;
            }
            self.due.pop_front();
        }
    }

    /// Answers these commands.
    pub(crate) fn answer(&self, answers: impl Iterator<Item = Answer>) -> Result<()> {
        for answer in answers.filter(|_| self.answers) {
            let [a, b, c, d, ..] = answer;
            let at = u32::from_le_bytes([a, b, c, d]) as usize;
            let caller = self.callers.get(at).ok_or_else(|| unexpected(at))?;
            // Its socket has room for one answer, since it has one command outstanding.
            net::write(&caller.stream, &answer)?;
        }
        Ok(())
    }
}

const NOW: rustix::event::Timespec = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };

fn accept(config: &Config, listener: &TcpListener) -> Result<(usize, TcpStream)> {
    let mut stream = net::accept(listener, &config.congestion_control)?;
    let mut hello = [0u8; 5];
    stream.read_exact(&mut hello).doing("read which caller connected")?;
    let [kind, a, b, c, d] = hello;
    let caller = u32::from_le_bytes([a, b, c, d]) as usize;
    if kind != tag::CALLER {
        return Err(unexpected(caller));
    }
    stream.set_nonblocking(true).doing("make a socket non-blocking")?;
    Ok((caller, stream))
}

fn unexpected(caller: usize) -> Error {
    Error::Child { role: format!("caller {caller}"), what: "is one that nobody expects".into() }
}
