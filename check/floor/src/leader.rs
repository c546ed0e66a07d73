//! The leader: cuts what the load generator sends into frames, sends them to the followers and to its disk
//! thread, and answers what a majority holds.
//!
//! A frame is filled straight from the socket, never copied, and shared by reference between the followers'
//! sockets and the disk thread; when all of them are through, it is filled again.

mod backlog;

use crate::config::REPLICAS_MAX;
use crate::disk::{Disk, LogFile};
use crate::net::{Counts, Moved};
use crate::roles::{self, Done, Word};
use crate::{Config, Doing, Error, Result, net};
use backlog::Backlog;
use rustix::event::{PollFd, PollFlags};
use std::io::IoSlice;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The most frames of one write to a follower.
const SEND_FRAMES_MAX: usize = 16;
/// How long to wait when nothing happens; only a bound, sockets and disk wake us.
const IDLE: Duration = Duration::from_millis(100);
/// All followers, the disk, the load generator.
const FDS_MAX: usize = REPLICAS_MAX + 1;
const HUNG_UP: PollFlags = PollFlags::HUP.union(PollFlags::ERR);

struct Follower {
    stream: TcpStream,
    /// Bytes of the log sent, and where that is: the frame and the offset inside it.
    sent: u64,
    frame: u64,
    inside: usize,
    acks: Counts,
}

struct Leader<'a> {
    config: &'a Config,
    followers: Vec<Follower>,
    client: TcpStream,
    disk: Option<Disk>,
    backlog: Backlog,
    replies: Vec<u8>,
    replied: usize,
    /// The load generator has closed: finish what is begun, then end.
    closing: bool,
    /// Scratch space for the majority's rule.
    held: Vec<u64>,
}

pub(crate) fn run(config: &Config, followers: &[SocketAddr]) -> Result<()> {
    let backlog = LogFile::of(config, "leader.log")?;
    let followers = followers.iter().map(|a| Follower::connect(*a, config)).collect::<Result<_>>()?;
    let (listener, address) = net::listen()?;
    roles::say(&Word::Ready(address))?;
    let client = net::accept(&listener, &config.congestion_control)?;
    client.set_nonblocking(true).doing("make a socket non-blocking")?;
    let mut leader = Leader {
        config,
        followers,
        client,
        disk: backlog.map(Disk::start).transpose()?,
        backlog: Backlog::new(config.batch_bytes),
        replies: Vec::new(),
        replied: 0,
        closing: false,
        held: Vec::new(),
    };
    while !leader.turn()? {}
    let writes = leader.disk.as_mut().map_or(Ok(0), Disk::finish)?;
    // the followers end when their connection does
    roles::say(&Word::Replica(Done { commands: leader.backlog.commands, sum: leader.backlog.sum, writes }))
}

impl Follower {
    fn connect(address: SocketAddr, config: &Config) -> Result<Follower> {
        let stream = net::connect(address, &config.congestion_control)?;
        stream.set_nonblocking(true).doing("make a socket non-blocking")?;
        Ok(Follower { stream, sent: 0, frame: 0, inside: 0, acks: Counts::new() })
    }

    /// Sends what is missing, as far as the socket takes it.
    fn send(&mut self, backlog: &Backlog) -> Result<()> {
        let mut slices = [IoSlice::new(&[]); SEND_FRAMES_MAX];
        let mut n = 0;
        let mut inside = self.inside;
        for (slot, frame) in slices.iter_mut().zip(backlog.from(self.frame)) {
            *slot = IoSlice::new(&frame.sealed()[inside..]);
            inside = 0;
            n += 1;
        }
        let moved = match &slices[..n] {
            // the usual case with few commands outstanding; send is a little cheaper than writev
            [one] => net::write(&self.stream, one)?,
            several => net::write_vectored(&self.stream, several)?,
        };
        match moved {
            Moved::WouldBlock => Ok(()),
            Moved::Closed => Err(closed()),
            Moved::Bytes(wrote) => {
                self.sent += wrote as u64;
                let mut left = self.inside + wrote;
                let mut done = 0;
                for frame in backlog.from(self.frame) {
                    if left < frame.sealed().len() {
                        break;
                    }
                    left -= frame.sealed().len();
                    done += 1;
                }
                self.frame += done;
                self.inside = left;
                Ok(())
            }
        }
    }
}

impl Leader<'_> {
    /// One round of the loop. `true`: the load generator has gone and everything is held everywhere.
    fn turn(&mut self) -> Result<bool> {
        let ready = self.wait()?;
        if ready.disk {
            self.disk.iter().for_each(Disk::woken);
        }
        let before = self.backlog.end;
        if ready.client {
            self.take_commands()?;
        }
        let end = self.backlog.end;
        for (follower, events) in self.followers.iter_mut().zip(ready.followers) {
            // one that had everything has room in its socket: no need to be told so by poll
            if follower.sent < end && (events.contains(PollFlags::OUT) || follower.sent == before) {
                follower.send(&self.backlog)?;
            }
            if events.intersects(PollFlags::IN | HUNG_UP) && !follower.acks.read(&follower.stream)? {
                return Err(closed());
            }
        }
        let durable = self.disk.as_mut().map_or(Ok(end), Disk::durable)?;
        self.commit(durable);
        self.reply()?;
        self.backlog.forget(self.followers.iter().map(|f| f.frame).min().unwrap_or(0), durable);
        let all_hold = self.followers.iter().all(|f| f.acks.latest() == end);
        Ok(self.closing && durable == end && all_hold)
    }

    /// Waits until something can be done, and says what.
    fn wait(&self) -> Result<Ready> {
        let followers = self.followers.len();
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::IN, self.backlog.has_room() && !self.closing);
        wanted.set(PollFlags::OUT, self.replied < self.replies.len());
        let has_disk = usize::from(self.disk.is_some());
        // the client comes last: with nothing wanted of it, it is left out, since a closed one wakes poll each time
        let mut fds: [PollFd<'_>; FDS_MAX] =
            std::array::from_fn(|i| match (self.followers.get(i), &self.disk) {
                (Some(f), _) if f.sent < self.backlog.end => {
                    PollFd::new(&f.stream, PollFlags::IN | PollFlags::OUT)
                }
                (Some(f), _) => PollFd::new(&f.stream, PollFlags::IN),
                (None, Some(disk)) if i == followers => PollFd::new(disk.wake(), PollFlags::IN),
                _ => PollFd::new(&self.client, wanted),
            });
        let used = followers + has_disk + usize::from(!wanted.is_empty());
        net::poll(&mut fds[..used], Some(IDLE))?;
        let mut ready = Ready { followers: [PollFlags::empty(); FDS_MAX], disk: false, client: false };
        for (i, fd) in fds[..used].iter().enumerate() {
            let events = fd.revents();
            if i < followers {
                ready.followers[i] = events;
            } else if i < followers + has_disk {
                ready.disk = !events.is_empty();
            } else {
                ready.client = wanted.contains(PollFlags::IN) && events.intersects(PollFlags::IN | HUNG_UP);
            }
        }
        Ok(ready)
    }

    /// Reads commands into the open frame and hands it on.
    fn take_commands(&mut self) -> Result<()> {
        match net::read(&self.client, self.backlog.unfilled())? {
            Moved::WouldBlock => {}
            Moved::Closed => self.closing = true,
            Moved::Bytes(n) => {
                let sealed = self.backlog.filled(n, self.config.command_bytes);
                if let (Some(frame), Some(disk)) = (sealed, &self.disk) {
                    disk.write(frame);
                }
            }
        }
        Ok(())
    }

    /// Commits what a quorum of all replicas holds, the leader among them.
    fn commit(&mut self, durable: u64) {
        self.held.clear();
        self.held.extend(self.followers.iter().map(|f| f.acks.latest()));
        self.held.push(durable);
        if let Some(commands) = self.backlog.commit(held_by(self.config.quorum() as usize, &mut self.held)) {
            self.replies.extend_from_slice(&commands.to_le_bytes());
        }
    }

    /// Sends the waiting replies, as far as the socket takes them.
    fn reply(&mut self) -> Result<()> {
        if self.replied < self.replies.len() {
            match net::write(&self.client, &self.replies[self.replied..])? {
                Moved::Bytes(n) => self.replied += n,
                Moved::WouldBlock => {}
                Moved::Closed => self.closing = true,
            }
        }
        if self.closing || self.replied == self.replies.len() {
            self.replies.clear();
            self.replied = 0;
        }
        Ok(())
    }
}

/// The most that this number of replicas holds, given what each holds.
fn held_by(quorum: usize, held: &mut [u64]) -> u64 {
    held.sort_unstable();
    held[held.len() - quorum]
}

/// What poll found.
struct Ready {
    followers: [PollFlags; FDS_MAX],
    disk: bool,
    client: bool,
}

fn closed() -> Error {
    Error::Child { role: "follower".into(), what: "closed its connection".into() }
}

#[cfg(test)]
mod tests;
