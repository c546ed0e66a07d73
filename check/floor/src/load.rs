//! The load generator: a window of commands outstanding, cumulative replies.

use crate::net::{Counts, Moved};
use crate::roles::{self, Measured, Word};
use crate::{Config, Doing, Error, Latency, Result, net};
use rustix::event::{PollFd, PollFlags};
use std::collections::VecDeque;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long to wait when there is nothing to do; only a bound, the replies wake us.
const IDLE: Duration = Duration::from_millis(100);

struct Load<'a> {
    config: &'a Config,
    stream: TcpStream,
    replies: Counts,
    /// The batch being sent, and what of it is still to go.
    batch: Vec<u8>,
    unsent: std::ops::Range<usize>,
    /// Commands put into batches so far.
    sent: u64,
    /// Last command and time of each batch that is not answered yet.
    open: VecDeque<(u64, Duration)>,
    start: Instant,
    /// No new batches: only what is open is awaited.
    draining: bool,
}

pub(crate) fn run(config: &Config, leader: SocketAddr) -> Result<()> {
    let stream = net::connect(leader, &config.congestion_control)?;
    stream.set_nonblocking(true).doing("make a socket non-blocking")?;
    let mut load = Load {
        config,
        stream,
        replies: Counts::new(),
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
    fn answered(&self) -> u64 {
        self.replies.latest()
    }

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
                if last > self.answered() {
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
                    from = Some((self.answered(), self.start.elapsed()));
                }
                Some((commits, since)) if now >= end => {
                    roles::say(&Word::Measured)?;
                    return Ok(Measured {
                        sent: self.sent,
                        commits: self.answered() - commits,
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
        while self.answered() < self.sent {
            self.exchange()?;
        }
        Ok(())
    }

    /// Puts the next batch together, if the window has room and the last one has gone.
    fn fill(&mut self) {
        let room = self.config.window - (self.sent - self.answered());
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

    /// Sends what goes, takes the replies that are there, waits only if there is nothing else to do.
    fn exchange(&mut self) -> Result<()> {
        let mut blocked = false;
        if !self.unsent.is_empty() {
            match net::write(&self.stream, &self.batch[self.unsent.clone()])? {
                Moved::Bytes(n) => self.unsent.start += n,
                Moved::WouldBlock => blocked = true,
                Moved::Closed => return Err(gone()),
            }
        }
        let full = self.draining || self.sent - self.answered() >= self.config.window;
        let nothing_to_send = blocked || (self.unsent.is_empty() && full);
        let wanted = if blocked { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut fds = [PollFd::new(&self.stream, wanted)];
        net::poll(&mut fds, Some(if nothing_to_send { IDLE } else { Duration::ZERO }))?;
        if fds[0].revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR)
            && !self.replies.read(&self.stream)?
        {
            return Err(gone());
        }
        if self.answered() > self.sent {
            return Err(Error::Child { role: "leader".into(), what: "answered what nobody asked".into() });
        }
        Ok(())
    }
}

fn gone() -> Error {
    Error::Child { role: "leader".into(), what: "closed the connection of the load generator".into() }
}
