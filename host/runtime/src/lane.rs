//! The loop of one lane: waits for sockets, completions and deadlines, hands them to the node, and does what the node wants.

use crate::clerk::{Act, Clerk, DiskRoom, TlsStatus};
use crate::clock::Clock;
use crate::connection::{Channel, Class, Connection, READ_MAX};
use crate::disk_thread::{Completion, DiskThreads, Mailbox};
use crate::facts::Facts;
use crate::health::Health;
use crate::keeper_thread::KeeperThread;
use crate::network::Network;
use crate::throttle::Throttle;
use crossbeam_channel::Receiver;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use quorate_node::{Effect, Effects, Event, Input, KeeperWork, Node};
use quorate_tls::{Credentials, Session};
use quorate_types::{ConnId, Halt, ReplicaId, Span, Time};
use quorate_wire::{FrameKind, OutFrame};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

mod door;
mod fair;
mod pace;
mod pressure;
mod reading;
#[cfg(test)]
mod tests;

pub(crate) use pressure::{LaneLimits, UNSENT_TIMES};

use door::{Door, Share};
use fair::Fair;
use pace::Pace;
use pressure::{BufferStatus, Pressure};

const LISTENER: Token = Token(0);
pub(crate) const WAKER: Token = Token(1);
/// Connections are numbered from here; a token is a connection's number.
const FIRST_CONN: u64 = 2;
/// So much waits to be sent to a member at most, in bytes.
const MEMBER_OUT_BYTES_MAX: usize = 256 << 20;
/// So many are let in before others get their turn.
const ACCEPTED_AT_ONCE: usize = 16;
/// Of more connections that are being closed than this, those that began first end at once.
const CLOSING_MAX: usize = 1024;
/// How long the other side of a connection that is being closed may take to close it, too.
const CLOSING: Span = Span::from_millis(1000);
/// When to accept again after it failed.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// How long what was sent last may take to leave when the lane ends.
const LINGER: Duration = Duration::from_millis(200);

/// What a lane is made of.
pub(crate) struct Parts {
    pub(crate) node: Node,
    pub(crate) poll: Poll,
    pub(crate) listener: TcpListener,
    pub(crate) disk: DiskThreads,
    pub(crate) keeper: KeeperThread,
    pub(crate) mailbox: Mailbox,
    pub(crate) completions: Receiver<Completion>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) addresses: BTreeMap<ReplicaId, String>,
    /// Where clients of etcd are served: to be shown.
    pub(crate) etcd: Option<String>,
    pub(crate) limits: LaneLimits,
    pub(crate) network: Arc<dyn Network>,
    /// What new connections show and trust; none where the configuration says `plain`.
    pub(crate) credentials: Option<Arc<Credentials>>,
    pub(crate) clerk: Clerk,
    pub(crate) stop: Arc<AtomicBool>,
    /// Answers probes as long as the lane runs.
    pub(crate) health: Option<Health>,
}

/// One lane.
pub(crate) struct Lane {
    parts: Parts,
    connections: BTreeMap<ConnId, Connection>,
    /// Members that have something to be read, and connections that are being closed.
    first: Vec<ConnId>,
    fair: Fair,
    pace: Pace,
    door: Door,
    entry: Share,
    pressure: Pressure,
    /// There was something else to do in this turn than to let somebody in.
    busy: bool,
    dialing: BTreeMap<ConnId, ReplicaId>,
    /// How often each replica was dialed.
    dials: BTreeMap<ReplicaId, usize>,
    /// Connections that wait for the other side to close, too, and until when.
    closing: VecDeque<(Time, ConnId)>,
    /// Somebody may wait to be let in, and nobody will say so: when to look.
    accept_again: Option<Duration>,
    /// Room for what TLS has to open, shared by all connections.
    scratch: Vec<u8>,
    /// Whoever connects in vain again and again must not fill the log.
    refusals: Throttle,
    next_conn: u64,
    effects: Effects,
    halt: Option<Halt>,
}

impl Lane {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            connections: BTreeMap::new(),
            first: Vec::new(),
            fair: Fair::default(),
            pace: Pace::default(),
            door: Door::default(),
            entry: Share::default(),
            pressure: Pressure::default(),
            busy: false,
            dialing: BTreeMap::new(),
            dials: BTreeMap::new(),
            closing: VecDeque::new(),
            accept_again: None,
            scratch: if parts.credentials.is_some() { vec![0; READ_MAX] } else { Vec::new() },
            refusals: Throttle::default(),
            next_conn: FIRST_CONN,
            effects: Effects::new(),
            halt: None,
            parts,
        }
    }

    /// Runs until it is told to stop or its disk fails.
    pub(crate) fn run(mut self) -> Result<(), Halt> {
        if let Err(error) =
            self.parts.poll.registry().register(&mut self.parts.listener, LISTENER, Interest::READABLE)
        {
            return Err(Halt::LogWriteFailed { why: format!("the listening socket: {error}") });
        }
        let now = self.parts.clock.now();
        self.parts.node.start(now, &mut self.effects);
        while !self.effects.is_empty() {
            self.perform();
        }
        let mut events = Events::with_capacity(256);
        while self.halt.is_none() && !self.parts.stop.load(Ordering::Acquire) {
            let timeout = self.timeout();
            let began = self.parts.clock.now();
            if let Err(error) = self.parts.poll.poll(&mut events, timeout)
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!("waiting for events: {error}");
                std::thread::sleep(Duration::from_millis(10));
            }
            let woke = self.parts.clock.now();
            self.turn(&events);
            self.pace.turned(began, woke, self.parts.clock.now());
        }
        self.linger();
        self.parts.disk.stop();
        self.parts.keeper.stop();
        self.parts.clerk.stop();
        // The endpoint's thread may wait for an answer, and does so no longer once its question is gone.
        drop(self.parts.completions);
        drop(self.parts.health);
        self.halt.map_or(Ok(()), Err)
    }

    fn timeout(&self) -> Option<Duration> {
        let reads = self.reads_in();
        if reads == Some(Duration::ZERO) {
            return reads;
        }
        let now = self.parts.clock.now();
        let deadline = self.parts.node.deadline().into_iter().chain(self.look_at_slow()).min();
        let wait = deadline.map(|at| Duration::from_nanos(at.since(now).nanos()));
        wait.into_iter().chain(reads).chain(self.accept_again).min()
    }

    /// Hands in everything that happened, then does what the node wants. What arrived is handed in with a time that was read after
    /// that: the process may be stopped for any time between two steps of this.
    fn turn(&mut self, events: &Events) {
        let now = self.parts.clock.now();
        let mut at_the_door = self.accept_again.take().is_some();
        self.busy = false;
        for event in events {
            match event.token() {
                LISTENER => at_the_door = true,
                WAKER => {}
                Token(number) => {
                    let conn = ConnId::new(number as u64);
                    if event.is_writable() {
                        self.on_writable(now, conn);
                    }
                    if event.is_read_closed()
                        && let Some(connection) = self.connections.get_mut(&conn)
                    {
                        connection.ending = true;
                    }
                    if event.is_readable() || event.is_error() {
                        self.wants_read(conn);
                    }
                }
            }
        }
        if at_the_door {
            self.accept(now);
        }
        self.read_all(now);
        // Reads that came in this turn are judged at its end, by a time after they came.
        let now = self.parts.clock.now();
        while let Ok(completion) = self.parts.completions.try_recv() {
            self.on_completion(now, completion);
        }
        while self.closing.front().is_some_and(|(until, _)| *until <= now || self.closing.len() > CLOSING_MAX)
        {
            if let Some((_, conn)) = self.closing.pop_front() {
                self.drop_connection(conn);
            }
        }
        if self.parts.node.deadline().is_some_and(|deadline| deadline <= now) {
            self.step(now, Input::Deadline);
        }
        self.relieve(now);
        // A connection that breaks while it is written to is one more input.
        loop {
            self.step(now, Input::TurnEnd);
            self.perform();
            if self.effects.is_empty() {
                break;
            }
        }
        if cfg!(debug_assertions) {
            self.parts.node.invariants(false);
        }
    }

    fn step(&mut self, now: Time, input: Input) {
        self.parts.node.step(now, input, &mut self.effects);
    }

    /// Takes in who is at the door, unless that had its part of a busy lane's time: then the kernel keeps them waiting, and turns away who
    /// does not fit there.
    fn accept(&mut self, now: Time) {
        if let Some(wait) = self.entry.opens_in(now) {
            self.accept_again = Some(Duration::from_nanos(wait.nanos()));
            return;
        }
        self.accept_some(now);
        let end = self.parts.clock.now();
        self.entry.served(end, end.since(now), self.pace.is_busy());
    }

    fn accept_some(&mut self, now: Time) {
        for _ in 0..ACCEPTED_AT_ONCE {
            match self.parts.listener.accept() {
                Ok((stream, from)) => {
                    let stream = stream.into();
                    self.parts.network.accepted(&stream);
                    let stream = TcpStream::from_std(stream);
                    let Some(channel) = self.channel(None) else { continue };
                    if let Some(conn) = self.add(Connection::accepted(stream, channel, from)) {
                        tracing::debug!("{conn} comes from {from}");
                        self.step(self.parts.clock.now(), Input::Accepted { conn, from: Some(from.ip()) });
                        if let Some(bytes) = self.effects.frame_limit(conn)
                            && let Some(connection) = self.connections.get_mut(&conn)
                        {
                            connection.set_frame_limit(bytes);
                        }
                        // Its first frame may have come before it was registered.
                        self.wants_read(conn);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // There will be no other event for who waits.
                    if self.refusals.allows(now) {
                        tracing::warn!(
                            "accepting a connection: {error}. When files run out, raise their limit (ulimit -n) or lower \
                             limits.connections"
                        );
                    }
                    self.accept_again = Some(ACCEPT_AGAIN);
                    return;
                }
            }
        }
        self.accept_again = Some(Duration::ZERO);
    }

    /// TLS for a connection to this member, or from somebody, unless the configuration says `plain`.
    fn channel(&self, dialed: Option<ReplicaId>) -> Option<Channel> {
        let Some(credentials) = &self.parts.credentials else { return Some(Channel::Plain) };
        let session = match dialed {
            Some(replica) => Session::dial(credentials, replica),
            None => Session::accept(credentials),
        };
        match session {
            Ok(session) => Some(Channel::Tls(Box::new(session))),
            Err(trouble) => {
                tracing::error!("a connection can not be made safe: {trouble}");
                None
            }
        }
    }

    fn add(&mut self, mut connection: Connection) -> Option<ConnId> {
        let conn = ConnId::new(self.next_conn);
        let token = Token(usize::try_from(self.next_conn).ok()?);
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.parts.poll.registry().register(&mut connection.stream, token, interest) {
            tracing::warn!("registering a connection: {error}");
            return None;
        }
        self.next_conn += 1;
        self.connections.insert(conn, connection);
        Some(conn)
    }

    fn on_writable(&mut self, now: Time, conn: ConnId) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        if connection.connecting {
            let failed = connection.stream.take_error().ok().flatten().is_some()
                || connection.stream.peer_addr().is_err();
            let Some(replica) = self.dialing.remove(&conn) else { return };
            if failed {
                self.drop_connection(conn);
                return self.step(now, Input::DialFailed(replica));
            }
            connection.connecting = false;
            connection.on_writable();
            return self.step(self.parts.clock.now(), Input::Dialed { conn, replica });
        }
        connection.on_writable();
        self.write(now, conn);
    }

    fn on_completion(&mut self, now: Time, completion: Completion) {
        match completion {
            Completion::Written(id) => self.step(now, Input::Written(id)),
            Completion::Synced(id) => self.step(now, Input::Synced(id)),
            Completion::Prepared { segment, result } => self.step(now, Input::Prepared { segment, result }),
            Completion::Loaded { load, records } => self.step(now, Input::Loaded { load, records }),
            Completion::Scrubbed { segment, result } => self.step(now, Input::Scrubbed { segment, result }),
            Completion::Kept(report) => self.step(now, Input::Kept(report)),
            Completion::Failed(why) => self.halt = Some(Halt::LogWriteFailed { why }),
            Completion::Resolved { replica, addresses } => self.connect(now, replica, &addresses),
            // Connections that stand keep what they have: each showed its certificate when it was made.
            Completion::Credentials(credentials) => self.parts.credentials = Some(credentials),
            // Whoever asked may have given up.
            Completion::Asked(asker) => drop(asker.try_send(self.parts.node.status())),
        }
    }

    fn perform(&mut self) {
        let now = self.parts.clock.now();
        let mut effects = std::mem::take(&mut self.effects);
        let mut written: Vec<ConnId> = Vec::new();
        for effect in effects.drain() {
            match effect {
                Effect::Send { conn, frame } => {
                    if let Some(connection) = self.connections.get_mut(&conn) {
                        connection.send(frame);
                        if written.last() != Some(&conn) {
                            written.push(conn);
                        }
                    }
                }
                Effect::Disk(work) => self.parts.disk.submit(work),
                Effect::Close(conn) => {
                    if let Some(connection) = self.connections.get_mut(&conn) {
                        connection.closing = true;
                        self.closing.push_back((now.plus(CLOSING), conn));
                        written.push(conn);
                    }
                }
                Effect::FrameLimit { conn, bytes } => {
                    if let Some(connection) = self.connections.get_mut(&conn) {
                        connection.set_frame_limit(bytes);
                    }
                }
                Effect::Dial(replica) => self.dial(now, replica),
                Effect::Address { replica, address: Some(address) } => {
                    self.parts.addresses.insert(replica, address);
                }
                Effect::Address { replica, address: None } => drop(self.parts.addresses.remove(&replica)),
                Effect::Load { load, places } => self.parts.disk.load(load, places),
                Effect::Keep(KeeperWork { job, stops }) => {
                    self.parts.keeper.submit(job);
                    if stops {
                        self.parts.keeper.wait();
                    }
                }
                Effect::Release(unneeded) => self.parts.keeper.release(unneeded.0),
                Effect::Scrub(segment) => self.parts.disk.scrub(segment),
                Effect::RemoveSegments(segments) => self.parts.disk.remove(segments),
                Effect::Status { conn, status } => self.answer_status(conn, *status, &mut written),
                Effect::Audit { conn, who, what, outcome } => self.record(conn, who, what, outcome),
                Effect::Event(event) => log_event(&event, &mut self.refusals, now),
                Effect::Halt(halt) => self.halt = Some(halt),
            }
        }
        written.sort_unstable();
        written.dedup();
        for conn in written {
            self.write(now, conn);
        }
    }

    fn record(&self, conn: ConnId, who: String, what: String, outcome: String) {
        let from = self.connections.get(&conn).and_then(|connection| connection.from);
        let from = from.map_or_else(String::new, |from| from.to_string());
        if let Some(errands) = self.parts.clerk.errands() {
            errands.note(Act { who, from, what, outcome });
        }
    }

    fn answer_status(&mut self, conn: ConnId, status: quorate_node::NodeStatus, written: &mut Vec<ConnId>) {
        #[derive(serde::Serialize)]
        struct Full {
            #[serde(flatten)]
            node: quorate_node::NodeStatus,
            process: Facts,
            buffers: BufferStatus,
            disk: DiskRoom,
            /// None where connections are plain.
            tls: Option<TlsStatus>,
            /// Where clients of etcd are served, if they are.
            etcd: Option<String>,
        }
        let tls = self.parts.credentials.as_ref().map(TlsStatus::of);
        let mut node = status;
        node.problems.extend(tls.iter().flat_map(TlsStatus::problems));
        let disk = self.parts.clerk.disk();
        node.problems.extend(self.buffer_problem().into_iter().chain(disk.problem()));
        let etcd = self.parts.etcd.clone();
        let full = Full { node, process: Facts::now(), buffers: self.buffer_status(), disk, tls, etcd };
        let text = serde_json::to_vec(&full).unwrap_or_default();
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.send(OutFrame::new(FrameKind::Status, &text, vec![]));
            written.push(conn);
        }
    }

    fn write(&mut self, now: Time, conn: ConnId) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        let ended = connection.write().is_err()
            || connection.class == Class::Member && connection.out_bytes() > MEMBER_OUT_BYTES_MAX;
        let goes_on = connection.unread && connection.out_bytes() <= self.parts.limits.unsent_bytes;
        if connection.closing {
            if ended {
                self.drop_connection(conn);
            } else if connection.out_bytes() == 0 {
                connection.finish();
            }
        } else if ended {
            self.drop_connection(conn);
            self.step(now, Input::Closed(conn));
        } else {
            if goes_on {
                self.wants_read(conn);
            }
            self.wrote(now, conn);
        }
    }

    fn drop_connection(&mut self, conn: ConnId) {
        if let Some(mut connection) = self.connections.remove(&conn) {
            tracing::debug!("{conn} ends");
            self.forget(conn, &connection);
            let _ = self.parts.poll.registry().deregister(&mut connection.stream);
        }
    }

    /// Addresses are looked up at each dial, since they change. A literal address needs no thread for that.
    fn dial(&mut self, now: Time, replica: ReplicaId) {
        let Some(address) = self.parts.addresses.get(&replica).cloned() else { return };
        if let Ok(literal) = address.parse::<SocketAddr>() {
            return self.connect(now, replica, &[literal]);
        }
        let mailbox = self.parts.mailbox.clone();
        let spawned = std::thread::Builder::new().name("resolver".into()).spawn(move || {
            let addresses = match address.to_socket_addrs() {
                Ok(addresses) => addresses.collect(),
                Err(error) => {
                    tracing::warn!("looking up {address}: {error}");
                    Vec::new()
                }
            };
            mailbox.send(Completion::Resolved { replica, addresses });
        });
        if spawned.is_err() {
            self.step(now, Input::DialFailed(replica));
        }
    }

    fn connect(&mut self, now: Time, replica: ReplicaId, addresses: &[SocketAddr]) {
        addresses.iter().for_each(|address| self.door.know(address.ip()));
        let network = &self.parts.network;
        let dials = self.dials.entry(replica).or_default();
        let stream = from_turn(addresses, *dials).find_map(|address| network.connect(replica, *address).ok());
        *dials = dials.wrapping_add(1);
        let made = stream.map(TcpStream::from_std).zip(self.channel(Some(replica)));
        match made.and_then(|(stream, channel)| self.add(Connection::dialed(stream, channel))) {
            Some(conn) => {
                self.dialing.insert(conn, replica);
            }
            None => self.step(now, Input::DialFailed(replica)),
        }
    }

    /// Gives what was sent last a moment to leave.
    fn linger(&mut self) {
        let until = std::time::Instant::now() + LINGER;
        while std::time::Instant::now() < until {
            let mut left = false;
            for connection in self.connections.values_mut() {
                connection.on_writable();
                left |= connection.write().is_ok() && connection.out_bytes() > 0;
            }
            if !left {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// All addresses, each dial beginning with the next one: that one can not be reached shows only after the dial.
fn from_turn(addresses: &[SocketAddr], turn: usize) -> impl Iterator<Item = &SocketAddr> {
    let first = turn.checked_rem(addresses.len()).unwrap_or(0);
    addresses[first..].iter().chain(&addresses[..first])
}

fn log_event(event: &Event, refusals: &mut Throttle, now: Time) {
    match event {
        Event::Refused { .. } | Event::Rejected { .. } if !refusals.allows(now) => {}
        Event::Unsafe { replica, text } => tracing::error!("no safe connection to {replica}: {text}"),
        Event::Leader { view, leader, instance } => {
            let of = instance.map_or_else(String::new, |instance| format!(" of instance {instance}"));
            match leader {
                Some(leader) => tracing::info!("{leader} leads view {view}{of}"),
                None => tracing::info!("nobody leads view {view}{of}"),
            }
        }
        Event::RefusedBy { replica, text } => tracing::error!("{replica} refuses this replica: {text}"),
        Event::Refused { text } => tracing::warn!("refused a connection: {text}"),
        Event::Rejected { conn, text } => tracing::warn!("closed {conn}: {text}"),
        Event::PeerUp(replica) => tracing::info!("{replica} is connected"),
        Event::PeerDown(replica) => tracing::info!("{replica} is not connected any more"),
        Event::DiskFull => {
            tracing::error!("the disk is full: writes are refused; free space, they resume by themselves");
        }
        Event::Members { text } | Event::Instances { text } => tracing::info!("{text}"),
        Event::Level { level, begun: true } => tracing::info!("the feature level is being raised to {level}"),
        Event::Level { level, begun: false } => tracing::info!("the cluster works at feature level {level}"),
        Event::State { text, bad: true } => tracing::error!("{text}"),
        Event::State { text, bad: false } => tracing::info!("{text}"),
        Event::DiskStalls => {
            tracing::error!("the disk finishes nothing; if this replica leads, it hands over")
        }
        Event::DiskWorks => tracing::info!("the disk finishes its work again"),
        Event::DiskHasRoom => tracing::info!("the disk has room again"),
    }
}
