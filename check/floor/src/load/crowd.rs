//! Callers with connections of their own, in one thread: each has a connection to every replica and one command outstanding, and sends the
//! next one once enough replicas answered.

use crate::config::HeardBy;
use crate::net::{self, Moved};
use crate::roles::{self, Measured, Word};
use crate::{Config, Doing, Error, Latency, Result, tag};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The most connections that are read in one turn.
const READ_MAX: usize = 1024;
/// How long to wait when nothing happens; only a bound, answers wake us.
const IDLE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Size of an answer.
const ANSWER: usize = 8;

struct Caller {
    /// To each replica, the leader first.
    streams: Vec<TcpStream>,
    /// Its number for the command that is outstanding; 0: there is none yet.
    number: u32,
    /// One bit for each replica that answered that.
    answered: u32,
    sent: Duration,
}

struct Crowd<'a> {
    config: &'a Config,
    callers: Vec<Caller>,
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    /// Commands that were sent, and that enough replicas answered.
    sent: u64,
    done: u64,
    start: Instant,
    /// When the measured time began, once it did.
    since: Option<Duration>,
    samples: Vec<u64>,
    command: Vec<u8>,
}

/// Runs the callers. `control`: the connections whose end says to the replicas that no more commands come.
pub(super) fn run(config: &Config, addresses: &[SocketAddr], control: Vec<TcpStream>) -> Result<()> {
    let epoll = epoll::create(CreateFlags::CLOEXEC).doing("make an epoll")?;
    let callers = (0..config.callers as u32).map(|number| connect(config, addresses, number, &epoll));
    let mut crowd = Crowd {
        config,
        callers: callers.collect::<Result<_>>()?,
        epoll,
        events: Vec::with_capacity(READ_MAX),
        sent: 0,
        done: 0,
        start: Instant::now(),
        since: None,
        samples: Vec::with_capacity(1 << 20),
        command: vec![0; config.command_bytes],
    };
    let measured = crowd.measure()?;
    while crowd.done < crowd.sent {
        crowd.turn(false)?;
    }
    drop(control);
    roles::say(&Word::Load(Measured { sent: crowd.sent, ..measured }))
}

/// The connections of one caller.
fn connect(config: &Config, addresses: &[SocketAddr], number: u32, epoll: &OwnedFd) -> Result<Caller> {
    let mut streams = Vec::new();
    for (replica, address) in addresses.iter().enumerate() {
        let mut stream = net::connect(*address, &config.congestion_control)?;
        let [a, b, c, d] = number.to_le_bytes();
        stream.write_all(&[tag::CALLER, a, b, c, d]).doing("say which caller connects")?;
        stream.set_nonblocking(true).doing("make a socket non-blocking")?;
        let which = u64::from(number) << 8 | replica as u64;
        epoll::add(epoll, &stream, EventData::new_u64(which), EventFlags::IN).doing("watch a socket")?;
        streams.push(stream);
    }
    Ok(Caller { streams, number: 0, answered: 0, sent: Duration::ZERO })
}

impl Crowd<'_> {
    /// Runs the warm-up and the measured time.
    fn measure(&mut self) -> Result<Measured> {
        let warm = Duration::from_secs_f64(self.config.warm_up_seconds);
        let end = warm + Duration::from_secs_f64(self.config.seconds);
        for caller in 0..self.callers.len() {
            self.send(caller)?;
        }
        let mut before = 0;
        loop {
            self.turn(true)?;
            let now = self.start.elapsed();
            match self.since {
                None if now >= warm => {
                    roles::say(&Word::Measuring)?;
                    before = self.done;
                    self.since = Some(self.start.elapsed());
                }
                Some(since) if now >= end => {
                    roles::say(&Word::Measured)?;
                    return Ok(Measured {
                        sent: self.sent,
                        commits: self.done - before,
                        seconds: (now - since).as_secs_f64(),
                        latency: Latency::of(&mut self.samples),
                    });
                }
                _ => {}
            }
        }
    }

    /// Reads the answers that are there, and sends the next command of each caller that has enough, if there is to be one.
    fn turn(&mut self, goes_on: bool) -> Result<()> {
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&IDLE)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e).doing("wait for answers"),
        }
        for at in 0..self.events.len() {
            let which = self.events[at].data.u64();
            let (caller, replica) = ((which >> 8) as usize, (which & 0xff) as usize);
            if self.hear(caller, replica)? && goes_on {
                self.send(caller)?;
            }
        }
        Ok(())
    }

    /// Reads an answer of this replica. `true`: the command is done with it.
    fn hear(&mut self, at: usize, replica: usize) -> Result<bool> {
        let Some(caller) = self.callers.get_mut(at) else { return Ok(false) };
        let failed = |what: &str| Error::Child { role: roles::replica(replica), what: what.into() };
        // One command is outstanding, but an answer may come late, when the next one is.
        let mut bytes = [0; 64 * ANSWER];
        let n = match net::read(&caller.streams[replica], &mut bytes)? {
            Moved::Bytes(n) => n,
            Moved::WouldBlock => return Ok(false),
            Moved::Closed => return Err(failed("closed the connection of a caller")),
        };
        let mut done = false;
        let (answers, rest) = bytes[..n].as_chunks::<ANSWER>();
        if !rest.is_empty() {
            return Err(failed("sent half an answer"));
        }
        for [a, b, c, d, number @ ..] in answers {
            let (of, number) = (u32::from_le_bytes([*a, *b, *c, *d]), u32::from_le_bytes(*number));
            if of as usize != at || number > caller.number {
                return Err(failed("answered what nobody asked"));
            }
            let waits = (caller.answered.count_ones() as usize) < self.config.answers();
            if number < caller.number || !waits {
                continue;
            }
            caller.answered |= 1 << replica;
            if caller.answered.count_ones() as usize >= self.config.answers() {
                done = true;
                self.done += 1;
                if self.since.is_some_and(|since| caller.sent >= since) {
                    self.samples.push((self.start.elapsed() - caller.sent).as_nanos() as u64);
                }
            }
        }
        Ok(done)
    }

    /// Sends the caller's next command to all who are to hear it.
    fn send(&mut self, at: usize) -> Result<()> {
        let caller = &mut self.callers[at];
        (caller.number, caller.answered, caller.sent) = (caller.number + 1, 0, self.start.elapsed());
        self.command[..4].copy_from_slice(&(at as u32).to_le_bytes());
        self.command[4..8].copy_from_slice(&caller.number.to_le_bytes());
        let hearers = match self.config.heard_by {
            HeardBy::Leader => 1,
            HeardBy::All => caller.streams.len(),
        };
        for (replica, stream) in caller.streams.iter().enumerate().take(hearers) {
            // The socket has room for one command, since the one before was read.
            if net::write(stream, &self.command)? != Moved::Bytes(self.command.len()) {
                let what = "took no command of a caller".into();
                return Err(Error::Child { role: roles::replica(replica), what });
            }
        }
        self.sent += 1;
        Ok(())
    }
}
