//! The load generator: it keeps a window of commands outstanding and gets cumulative replies. With Byzantine faults all replicas reply, and
//! enough of them must say the same.

mod crowd;

use crate::config::REPLICAS_MAX;
use crate::net::{Counts, Moved};
use crate::roles::{self, Measured, Word};
use crate::{Config, Doing, Error, Latency, Result, agree, net, tag};
use rustix::event::{PollFd, PollFlags};
use std::collections::VecDeque;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long to wait when there is nothing to do; only a bound, the replies wake us.
const IDLE: Duration = Duration::from_millis(100);

struct Load<'a> {
    config: &'a Config,
    /// The replicas that reply. Commands go to the first one.
    replicas: Vec<Replica>,
    /// The number of replicas that must say that a command is committed.
    needed: usize,
    /// Commands that this many replicas called committed.
    answered: u64,
    /// The batch being sent, and how many of its bytes are still to go.
    batch: Vec<u8>,
    unsent: std::ops::Range<usize>,
    /// Commands put into batches so far.
    sent: u64,
    /// Last command and time of each batch that is not answered yet.
    open: VecDeque<(u64, Duration)>,
    start: Instant,
    /// No new batch is begun; open batches are still awaited.
    draining: bool,
}

/// One replica, and the counts that it answers with.
struct Replica {
    number: usize,
    stream: TcpStream,
    replies: Counts,
}

pub(crate) fn run(config: &Config, addresses: &[SocketAddr]) -> Result<()> {
    let mut replicas = Vec::new();
    for (number, address) in (0u8..).zip(addresses) {
        let (stream, replies) = match config.fault_model.may_lie() {
            false => (net::connect(*address, &config.congestion_control)?, Counts::new()),
            true => (agree::connect(config, *address, tag::LOAD)?, Counts::vouched(number)),
        };
        stream.set_nonblocking(true).doing("make a socket non-blocking")?;
        replicas.push(Replica { number: usize::from(number), stream, replies });
    }
    if config.callers > 0 {
        return crowd::run(config, addresses, replicas.into_iter().map(|replica| replica.stream).collect());
    }
    let mut load = Load {
        config,
        replicas,
        needed: config.answers(),
        answered: 0,
        batch: vec![0; config.batch_bytes / config.command_bytes * config.command_bytes],
        unsent: 0..0,
        sent: 0,
        open: VecDeque::new(),
        start: Instant::now(),
        draining: false,
    };
    let measured = load.measure()?;
    load.drain()?;
    roles::say(&Word::Load(Measured { sent: load.sent, ..measured }))
}

impl Load<'_> {
    /// Runs the warm-up and the measured time.
    fn measure(&mut self) -> Result<Measured> {
        let warm = Duration::from_secs_f64(self.config.warm_up_seconds);
        let end = warm + Duration::from_secs_f64(self.config.seconds);
        let mut samples = Vec::with_capacity(1 << 20);
        let mut from: Option<(u64, Duration)> = None;
        loop {
            self.fill();
            self.exchange()?;
            let now = self.start.elapsed();
            while let Some(&(last, made)) = self.open.front() {
                if last > self.answered {
                    break;
                }
                self.open.pop_front();
                if from.is_some_and(|(_, warm)| made >= warm) {
                    samples.push((now - made).as_nanos() as u64);
                }
            }
            match from {
                None if now >= warm => {
                    roles::say(&Word::Measuring)?;
                    from = Some((self.answered, self.start.elapsed()));
                }
                Some((commits, since)) if now >= end => {
                    roles::say(&Word::Measured)?;
                    return Ok(Measured {
                        sent: self.sent,
                        commits: self.answered - commits,
                        seconds: (now - since).as_secs_f64(),
                        latency: Latency::of(&mut samples),
                    });
                }
                _ => {}
            }
        }
    }

    /// Waits until every command that was begun is answered, so that all replicas end with the same log.
    fn drain(&mut self) -> Result<()> {
        self.draining = true;
        while self.answered < self.sent {
            self.exchange()?;
        }
        Ok(())
    }

    /// Puts the next batch together, if the window has room and the last one has gone.
    fn fill(&mut self) {
        let room = self.config.window - (self.sent - self.answered);
        if !self.unsent.is_empty() || room == 0 {
            return;
        }
        let size = self.config.command_bytes;
        let n = room.min((self.batch.len() / size) as u64);
        for (number, command) in (self.sent..self.sent + n).zip(self.batch.chunks_exact_mut(size)) {
            command[..8].copy_from_slice(&number.to_le_bytes());
            command[8..16].copy_from_slice(&(number ^ 0x9e37_79b9_7f4a_7c15).to_le_bytes());
        }
        self.sent += n;
        self.unsent = 0..n as usize * size;
        self.open.push_back((self.sent, self.start.elapsed()));
    }

    /// Sends as much as the socket takes, reads the replies that are there, and waits only if there is nothing else to do.
    fn exchange(&mut self) -> Result<()> {
        let mut blocked = false;
        if !self.unsent.is_empty() {
            let leader = &self.replicas[0];
            match net::write(&leader.stream, &self.batch[self.unsent.clone()])? {
                Moved::Bytes(n) => self.unsent.start += n,
                Moved::WouldBlock => blocked = true,
                Moved::Closed => return Err(leader.gone()),
            }
        }
        let full = self.draining || self.sent - self.answered >= self.config.window;
        let nothing_to_send = blocked || (self.unsent.is_empty() && full);
        let wanted = if blocked { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let replicas = self.replicas.len().min(REPLICAS_MAX);
        let mut fds: [PollFd<'_>; REPLICAS_MAX] = std::array::from_fn(|i| match self.replicas.get(i) {
            Some(replica) if i > 0 => PollFd::new(&replica.stream, PollFlags::IN),
            _ => PollFd::new(&self.replicas[0].stream, wanted),
        });
        net::poll(&mut fds[..replicas], Some(if nothing_to_send { IDLE } else { Duration::ZERO }))?;
        let found = fds.map(|fd| fd.revents());
        for (replica, events) in self.replicas.iter_mut().zip(found) {
            if events.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR)
                && !replica.replies.read(&replica.stream)?
            {
                return Err(replica.gone());
            }
            if replica.replies.latest() > self.sent {
                return Err(replica.failed("answered what nobody asked"));
            }
        }
        self.answered = confirmed(self.replicas.iter().map(|replica| replica.replies.latest()), self.needed);
        Ok(())
    }
}

/// The largest number that at least `needed` of these counts reach.
fn confirmed(counts: impl Iterator<Item = u64>, needed: usize) -> u64 {
    let mut highest: [u64; REPLICAS_MAX] = [0; REPLICAS_MAX];
    for (slot, count) in highest.iter_mut().zip(counts) {
        *slot = count;
    }
    highest.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
    highest.get(needed.wrapping_sub(1)).copied().unwrap_or(0)
}

impl Replica {
    fn gone(&self) -> Error {
        self.failed("closed the connection of the load generator")
    }

    fn failed(&self, what: &str) -> Error {
        Error::Child { role: roles::replica(self.number), what: what.into() }
    }
}

#[cfg(test)]
mod tests;
