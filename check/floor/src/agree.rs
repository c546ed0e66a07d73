//! A replica that agrees as a cluster with Byzantine faults does, in the good case: PROPOSE, WRITE and ACCEPT among 3f+1 replicas. Each
//! message has a MAC for every replica over the digest of the batch; each step takes a quorum of votes; every replica answers.
//!
//! Replica 0 leads for ever. It fills its next batch straight from the socket while slots are under way, so batches
//! grow with the load. A batch that is to be durable is written and synced before the WRITE that says so, by the
//! replica's only thread: with one slot under way there is nothing else to do. A real protocol needs more than that
//! one sync for each slot.

mod crowd;
mod mesh;
mod message;
mod peer;
mod proposals;
mod slots;

pub(crate) use mesh::connect;

use crate::config::REPLICAS_MAX;
use crate::disk::LogFile;
use crate::net::{self, Moved};
use crate::roles::{self, Done, Word};
use crate::tag::{self, Key};
use crate::{Config, Doing, Error, Result};
use crowd::Crowd;
use message::{Heard, Kind, Message, Sender};
use peer::Peer;
use proposals::Proposals;
use rustix::event::{PollFd, PollFlags};
use slots::Slots;
use std::io::IoSlice;
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::time::Duration;

/// How long to wait when nothing happens; only a bound, sockets wake us.
const IDLE: Duration = Duration::from_millis(100);
/// All other replicas and the load generator.
const FDS_MAX: usize = REPLICAS_MAX;
const HUNG_UP: PollFlags = PollFlags::HUP.union(PollFlags::ERR);

struct Replica<'a> {
    config: &'a Config,
    sender: Sender,
    peers: Vec<Peer>,
    slots: Slots,
    log: Option<LogFile>,
    /// The leader's part; `None` in the other replicas.
    leader: Option<Leader>,
    client: Client,
    /// Callers with connections of their own, if the commands come from such.
    crowd: Option<Crowd>,
    /// Every slot is decided, and every message is sent.
    finished: bool,
}

struct Leader {
    proposals: Proposals,
    /// Proposals that are not in the log file yet.
    unwritten: Vec<Rc<Message>>,
    /// The load generator has closed.
    closing: bool,
}

/// The load generator, and the answers that wait for it.
struct Client {
    stream: TcpStream,
    key: Key,
    answers: Vec<u8>,
    sent: usize,
    listens: bool,
}

/// Runs replica `number`, given where those before it listen.
pub(crate) fn run(config: &Config, number: u8, earlier: &[SocketAddr]) -> Result<()> {
    let log = LogFile::of(config, &format!("{}.log", roles::replica(number.into()).replace(' ', "-")))?;
    let replicas = config.replicas();
    let mesh::Mesh { peers: streams, client, listener } = mesh::join(config, number, earlier)?;
    let crowd = Crowd::join(config, number, &listener)?;
    client.set_nonblocking(true).doing("make a socket non-blocking")?;
    let mut peers = Vec::new();
    for (from, stream) in streams {
        let expected = message::Expected {
            replicas: usize::from(replicas),
            from,
            to: number,
            key: Key::of(from, number),
            leads: from == 0,
            batch_max: config.batch_bytes,
            command_bytes: config.command_bytes,
        };
        peers.push(Peer::new(stream, expected)?);
    }
    let leader = || Leader {
        proposals: Proposals::new(usize::from(replicas), config.batch_bytes, config.command_bytes),
        unwritten: Vec::new(),
        closing: false,
    };
    let key = Key::of(number, tag::LOAD);
    let mut replica = Replica {
        config,
        sender: Sender::new(number, replicas),
        peers,
        slots: Slots::new(number, config.quorum(), config.command_bytes).answering(crowd.is_some()),
        log,
        leader: (number == 0).then(leader),
        client: Client { stream: client, key, answers: Vec::new(), sent: 0, listens: crowd.is_none() },
        crowd,
        finished: false,
    };
    while !replica.turn()? {}
    let Slots { commands, sum, .. } = replica.slots;
    roles::say(&Word::Replica(Done { commands, sum, writes: replica.log.map_or(0, |log| log.writes) }))
}

impl Replica<'_> {
    /// One round of the loop. `true`: all replicas have everything.
    fn turn(&mut self) -> Result<bool> {
        let ready = self.wait()?;
        if ready.client {
            self.take_commands()?;
        }
        self.hear_crowd(ready.crowd)?;
        for (peer, events) in self.peers.iter_mut().zip(ready.peers) {
            if events.intersects(PollFlags::IN | HUNG_UP) && !peer.is_silent() {
                peer.hear(&mut self.slots, self.log.as_mut())?;
            }
        }
        if self.leader.is_none() {
            // their proposals went to the log file as they came
            self.slots.hold();
        }
        self.vote();
        if self.slots.decide() {
            self.client.answer(self.slots.commands);
            if let Some(crowd) = &self.crowd {
                crowd.answer(self.slots.take_answers())?;
            }
        }
        self.propose()?;
        self.vote();
        self.send(&ready.peers)?;
        self.write_own()?;
        self.client.send()?;
        self.is_over()
    }

    /// Waits until something can be done, and says what.
    fn wait(&self) -> Result<Ready> {
        let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(FDS_MAX);
        for peer in &self.peers {
            if !peer.wanted().is_empty() {
                fds.push(PollFd::new(peer.stream(), peer.wanted()));
            }
        }
        fds.extend(self.crowd.iter().map(|crowd| PollFd::from_borrowed_fd(crowd.fd(), PollFlags::IN)));
        let mut wanted = PollFlags::empty();
        let takes = self.leader.as_ref().is_some_and(|l| !l.closing && l.proposals.takes_commands());
        wanted.set(PollFlags::IN, takes);
        wanted.set(PollFlags::OUT, self.client.sent < self.client.answers.len());
        // left out where nothing is wanted of it, since one that has closed wakes poll each time
        if !wanted.is_empty() {
            fds.push(PollFd::new(&self.client.stream, wanted));
        }
        net::poll(&mut fds, Some(IDLE))?;
        let mut found = fds.iter().map(PollFd::revents);
        let mut ready = Ready { peers: [PollFlags::empty(); FDS_MAX], client: false, crowd: false };
        for (events, peer) in ready.peers.iter_mut().zip(&self.peers) {
            if !peer.wanted().is_empty() {
                *events = found.next().unwrap_or(PollFlags::empty());
            }
        }
        ready.crowd = self.crowd.is_some() && found.next().is_some_and(|e| e.intersects(PollFlags::IN));
        ready.client = takes && found.next().is_some_and(|e| e.intersects(PollFlags::IN | HUNG_UP));
        Ok(ready)
    }

    /// The leader reads commands into the open batch.
    fn take_commands(&mut self) -> Result<()> {
        let Some(Leader { proposals, closing, .. }) = &mut self.leader else { return Ok(()) };
        match net::read(&self.client.stream, proposals.unfilled())? {
            Moved::WouldBlock => {}
            Moved::Closed => *closing = true,
            Moved::Bytes(n) => proposals.filled(n),
        }
        Ok(())
    }

    /// Reads the commands of callers, and puts those that wait into the leader's open batch.
    fn hear_crowd(&mut self, readable: bool) -> Result<()> {
        let Some(crowd) = &mut self.crowd else { return Ok(()) };
        if readable {
            crowd.read(self.leader.is_some())?;
        }
        if let Some(leader) = &mut self.leader {
            crowd.propose(&mut leader.proposals);
        }
        Ok(())
    }

    /// The leader proposes its open batch if the number of slots under way allows it. When no more commands come, it says so.
    fn propose(&mut self) -> Result<()> {
        let Some(leader) = &mut self.leader else { return Ok(()) };
        let number = self.sender.number;
        let wrong = |what: &str| Error::Child {
            role: roles::replica(number.into()),
            what: format!("proposed {what}"),
        };
        let mut new: Vec<Rc<Message>> = Vec::new();
        while self.slots.proposed - self.slots.decided < self.config.in_flight {
            let slot = self.slots.proposed;
            let Some((sealed, digest)) = leader.proposals.seal(slot, &self.sender) else { break };
            let heard = Heard { kind: Kind::Propose, slot, digest: &digest, batch: sealed.sealed_batch() };
            self.slots.hear(number, &heard).map_err(wrong)?;
            if self.log.is_some() {
                leader.unwritten.push(sealed.clone());
            } else {
                self.slots.hold();
            }
            new.push(sealed);
        }
        if leader.closing && !leader.proposals.is_due() && self.slots.end.is_none() {
            self.slots.end = Some(self.slots.proposed);
            new.push(said(Kind::End, self.slots.proposed, &tag::NO_BATCH, &self.sender));
        }
        for message in new {
            self.peers.iter_mut().for_each(|peer| peer.push(message.clone()));
        }
        Ok(())
    }

    /// Sends every vote that is due.
    fn vote(&mut self) {
        let Replica { slots, peers, sender, .. } = self;
        slots.vote(|kind, slot, digest| {
            let vote = said(kind, slot, digest, sender);
            peers.iter_mut().for_each(|peer| peer.push(vote.clone()));
        });
    }

    fn send(&mut self, ready: &[PollFlags; FDS_MAX]) -> Result<()> {
        for (peer, events) in self.peers.iter_mut().zip(ready) {
            peer.send(events.intersects(PollFlags::OUT | HUNG_UP))?;
        }
        Ok(())
    }

    /// The leader writes its own proposals only after enough other replicas for a quorum have received them: they write at the same time.
    fn write_own(&mut self) -> Result<()> {
        let (Some(leader), Some(log)) = (&mut self.leader, &mut self.log) else { return Ok(()) };
        let have = 1 + self.peers.iter().filter(|peer| peer.is_sent()).count();
        if leader.unwritten.is_empty() || have < self.slots.quorum() {
            return Ok(());
        }
        let mut slices: Vec<IoSlice<'_>> =
            leader.unwritten.iter().map(|m| IoSlice::new(m.sealed())).collect();
        log.append(&mut slices)?;
        leader.unwritten.clear();
        self.slots.hold();
        self.vote();
        self.send(&[PollFlags::empty(); FDS_MAX])
    }

    /// Whether this replica has decided everything, and all others have finished too.
    fn is_over(&mut self) -> Result<bool> {
        if !self.finished && self.slots.complete() && self.peers.iter().all(Peer::is_sent) {
            self.finished = true;
            self.peers.iter_mut().for_each(Peer::finish);
        }
        if !self.peers.iter().all(Peer::is_silent) {
            return Ok(false);
        }
        if self.finished {
            return Ok(true);
        }
        Err(Error::Child { role: "other replicas".into(), what: "closed their connections".into() })
    }
}

impl Client {
    /// Tells how many commands were decided so far.
    fn answer(&mut self, commands: u64) {
        if self.listens {
            self.answers.extend_from_slice(&commands.to_le_bytes());
            self.answers.extend_from_slice(&self.key.mac(tag::ANSWER, commands, &tag::NO_BATCH));
        }
    }

    /// Sends the waiting answers, as far as the socket takes them.
    fn send(&mut self) -> Result<()> {
        if self.sent < self.answers.len() {
            match net::write(&self.stream, &self.answers[self.sent..])? {
                Moved::Bytes(n) => self.sent += n,
                Moved::WouldBlock => {}
                // it heard enough others
                Moved::Closed => self.listens = false,
            }
        }
        if !self.listens || self.sent == self.answers.len() {
            self.answers.clear();
            self.sent = 0;
        }
        Ok(())
    }
}

/// A message without a batch.
fn said(kind: Kind, slot: u64, digest: &tag::Digest, sender: &Sender) -> Rc<Message> {
    let mut message = Message::new(sender.keys.len(), 0);
    message.seal(0, kind, slot, digest, sender);
    Rc::new(message)
}

/// What poll found.
struct Ready {
    peers: [PollFlags; FDS_MAX],
    client: bool,
    crowd: bool,
}
