//! The loop of one lane: waits for sockets, completions and deadlines, gives them to the node, and carries out the node's effects.

use crate::clerk::{Act, Clerk, TlsStatus};
use crate::clock::Clock;
use crate::config::{Pillars, PlacementConfig};
use crate::connection::{Channel, Connection};
use crate::disk_thread::{Completion, DiskThreads, Mailbox};
use crate::event_log::EventLog;
use crate::facts::ProcessFacts;
use crate::health::Health;
use crate::keeper_thread::KeeperThread;
use crate::mouth::{Listener, Mouth, Speech};
use crate::network::Network;
use crate::oracle::Oracles;
use crate::stages::Seen;
use crate::workers::Crew;
use crossbeam_channel::Receiver;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use quorate_node::{
    ConnClass, Effect, Effects, Event, Inbox, Input, KeeperWork, NextEra, Node, NodeStatus, Part, Share,
};
use quorate_tls::{Credentials, Session};
use quorate_types::{ConnId, Durations, Halt, InstanceId, ReplicaId, Span, Time};
use quorate_wire::{FrameKind, OutFrame};
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

mod addresses;
mod apart;
mod balance;
mod blocks;
mod door;
mod fair;
mod hurt;
mod late;
mod long;
mod neighbor;
mod pace;
mod pillars;
mod placement;
mod pressure;
mod pulse;
mod queue;
mod reading;
mod relay;
mod side;
mod sides;
mod sockets;
mod status;
#[cfg(test)]
mod tests;

pub use apart::Partition;
pub(crate) use fair::Lately;
pub(crate) use hurt::Hurt;
pub use late::Lateness;
pub(crate) use pressure::{LaneLimits, UNSENT_TIMES};
pub(crate) use queue::Sleeper;

pub(crate) use addresses::Addresses;
use door::ENTRY;
pub(crate) use long::Long;
use placement::Placement;
use pulse::Pulse;
use sides::Sides;
use sockets::{Core, Sockets};
pub(crate) use status::{Fronts, WholeStatus};

const LISTENER: Token = Token(0);
pub(crate) const WAKER: Token = Token(1);
/// The first number of a connection; the number is also its token.
const FIRST_CONN: u64 = 2;
/// How many connections are accepted before others get their turn.
const ACCEPTED_AT_ONCE: usize = 16;
/// How long to wait after a failed accept.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// What the main lane is made from.
pub(crate) struct Parts {
    pub(crate) node: Node,
    pub(crate) poll: Poll,
    /// The other lanes: what each waits for, and its sleeper.
    pub(crate) others: Vec<(Poll, Sleeper)>,
    /// The main lane's sleeper, which the others wake.
    pub(crate) sleeper: Sleeper,
    pub(crate) listener: TcpListener,
    pub(crate) disk: DiskThreads,
    pub(crate) keeper: KeeperThread,
    pub(crate) crew: Crew,
    /// The oracle, where few members are slow.
    pub(crate) oracles: Option<Oracles>,
    pub(crate) mailbox: Mailbox,
    pub(crate) completions: Receiver<Completion>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) addresses: Addresses,
    pub(crate) fronts: Fronts,
    pub(crate) limits: LaneLimits,
    pub(crate) network: Arc<dyn Network>,
    /// The certificates of new connections; `None` where the configuration says `plain`.
    pub(crate) credentials: Option<Arc<Credentials>>,
    /// Sends other messages in place of the node's; `None` in real replicas.
    pub(crate) mouth: Option<Box<dyn Mouth>>,
    /// What is done to it on purpose.
    pub(crate) hurt: Hurt,
    pub(crate) clerk: Clerk,
    pub(crate) seen: Seen,
    pub(crate) stop: Arc<AtomicBool>,
    /// Answers probes while the lane runs.
    pub(crate) health: Option<Health>,
    /// Where the pillars stand, and how the work is divided among lanes.
    pub(crate) pillars: Pillars,
    pub(crate) placement: PlacementConfig,
    /// How many links there are to each member.
    pub(crate) links: u16,
    /// The time between two heartbeats of a leader.
    pub(crate) heartbeat: Span,
}

/// The node, and its pending effects.
struct Home {
    node: Node,
    effects: Effects,
    /// Sends other messages in place of the node's; `None` in real replicas.
    speech: Option<Speech>,
    /// How long turns took, and how often another leader of the first instance was heard of.
    turns: Durations,
    leader_changes: u64,
}

impl Home {
    fn new(node: Node, mouth: Option<Box<dyn Mouth>>) -> Self {
        let (effects, speech) = (Effects::new(), mouth.map(Speech::of));
        Self { node, effects, speech, turns: Durations::NONE, leader_changes: 0 }
    }
}

impl Core for Home {
    fn take(&mut self, now: Time, input: Input) {
        if let (Some(speech), Input::Frame { conn, frame }) = (&mut self.speech, &input) {
            let from = Listener { conn: *conn, member: self.node.member_at(*conn) };
            let sayings = speech.mouth.hears(now, from, frame);
            speech.note(now, sayings);
        }
        self.node.step(now, input, &mut self.effects);
    }

    fn frame_limit(&self, conn: ConnId) -> Option<u32> {
        self.effects.frame_limit(conn)
    }

    fn takes_more(&self, contended: bool) -> bool {
        self.node.takes_more(contended)
    }

    fn takes_any(&self) -> bool {
        true
    }

    fn class(&self, conn: ConnId) -> ConnClass {
        self.node.class(conn)
    }

    fn member(&self, conn: ConnId) -> Option<ReplicaId> {
        self.node.member_at(conn)
    }

    fn suspects(&self, now: Time, conn: ConnId) -> bool {
        self.node.suspects_lately(now, conn)
    }
}

/// The main lane.
pub(crate) struct Lane {
    home: Home,
    sockets: Sockets,
    pulse: Pulse,
    /// What it executes for long.
    long: Long,
    /// The share of a busy lane's time for accepting connections.
    entry: Share,
    /// The other lanes, and the lane of each connection.
    sides: Sides,
    listener: TcpListener,
    disk: DiskThreads,
    keeper: KeeperThread,
    crew: Crew,
    oracles: Option<Oracles>,
    mailbox: Mailbox,
    completions: Receiver<Completion>,
    addresses: Addresses,
    network: Arc<dyn Network>,
    credentials: Option<Arc<Credentials>>,
    fronts: Fronts,
    clerk: Clerk,
    events: EventLog,
    seen: Seen,
    hurt: Hurt,
    stop: Arc<AtomicBool>,
    health: Option<Health>,
    dialing: BTreeMap<ConnId, (ReplicaId, u16)>,
    /// How often each replica was dialed.
    dials: BTreeMap<ReplicaId, usize>,
    /// Connections may wait to be accepted, and no event will say so: when to accept again.
    accept_again: Option<Duration>,
    next_conn: u64,
    /// The next turn follows at once.
    at_once: bool,
    halt: Option<Halt>,
    /// The era that begins: this replica does nothing more.
    next_era: Option<Box<NextEra>>,
}

impl Lane {
    /// Starts the other lanes.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn new(parts: Parts) -> io::Result<Self> {
        let Parts { mut node, poll, others, sleeper, listener, disk, keeper, crew, mailbox, .. } = parts;
        let Parts {
            oracles,
            completions,
            clock,
            addresses,
            limits,
            network,
            credentials,
            mouth,
            hurt,
            fronts,
            clerk,
            seen,
            stop,
            health,
            pillars,
            placement,
            links,
            heartbeat,
            ..
        } = parts;
        let long = Long::default();
        health.iter().for_each(|health| health.watch(long.clone()));
        let limits = limits.shared_by(1 + others.len());
        let sockets = |poll| Sockets::new(poll, clock.clone(), limits, credentials.is_some()).hurt(&hurt);
        // A mouth hears and says everything on the main lane.
        let apart = !others.is_empty() && mouth.is_none() && pillars == Pillars::Lanes;
        let placement = placed(placement, links, 1 + others.len() as u16, apart);
        let sides = Sides::start((others, placement), sleeper, &mailbox, sockets)?;
        if apart {
            node.bridge(Box::new(sides.posts.clone()));
        }
        Ok(Self {
            home: Home::new(node, mouth),
            sockets: sockets(poll),
            pulse: Pulse::start(heartbeat, long.clone())?,
            long,
            entry: Share::one_in(ENTRY),
            sides,
            listener,
            disk,
            keeper,
            crew,
            oracles,
            mailbox,
            completions,
            addresses,
            network,
            credentials,
            fronts,
            clerk,
            events: EventLog::default(),
            seen,
            hurt,
            stop,
            health,
            dialing: BTreeMap::new(),
            dials: BTreeMap::new(),
            accept_again: None,
            next_conn: FIRST_CONN,
            at_once: false,
            halt: None,
            next_era: None,
        })
    }

    /// Runs until it is told to stop, its disk fails, or another era begins, which it gives.
    pub(crate) fn run(mut self) -> Result<Option<Box<NextEra>>, Halt> {
        self.long.watched.this_thread();
        let registry = self.sockets.poll.registry();
        if let Err(error) = registry.register(&mut self.listener, LISTENER, Interest::READABLE) {
            return Err(Halt::LogWriteFailed { why: format!("the listening socket: {error}") });
        }
        let now = self.sockets.clock.now();
        self.home.node.start(now, &mut self.home.effects);
        while !self.home.effects.is_empty() {
            self.perform();
        }
        let mut events = Events::with_capacity(256);
        while self.halt.is_none() && self.next_era.is_none() && !self.stop.load(Ordering::Acquire) {
            let mut timeout = self.timeout();
            let began = self.sockets.clock.now();
            if self.sides.have_something() {
                timeout = Some(Duration::ZERO);
            }
            if let Err(error) = self.sockets.poll.poll(&mut events, timeout)
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!("waiting for events: {error}");
                std::thread::sleep(Duration::from_millis(10));
            }
            self.sides.woke();
            let woke = self.sockets.clock.now();
            self.turn(&events);
            self.sockets.pace.turned(began, woke, self.sockets.clock.now());
        }
        self.sockets.linger();
        drop(self.sides);
        self.disk.stop();
        self.keeper.stop();
        self.crew.stop();
        self.clerk.stop();
        // The endpoint's thread may wait for an answer, and does so no longer once its question is gone.
        drop(self.completions);
        drop(self.health);
        self.halt.map_or(Ok(self.next_era), Err)
    }

    fn timeout(&self) -> Option<Duration> {
        let reads = self.sockets.reads_in(&self.home);
        if self.at_once || self.sides.own.are_asked() || reads == Some(Duration::ZERO) {
            return Some(Duration::ZERO);
        }
        let now = self.sockets.clock.now();
        let later = self.home.speech.as_ref().and_then(Speech::deadline);
        let deadlines = self.home.node.deadline().into_iter().chain(later).chain(self.sides.own.due());
        let of_sockets = self.sockets.look_at_slow().into_iter().chain(self.sockets.holds_until());
        let of_sockets = of_sockets.chain(self.sockets.rejoins_at()).chain(self.events.due());
        let deadline = deadlines.chain(of_sockets).min();
        let wait = deadline.map(|at| Duration::from_nanos(at.since(now).nanos()));
        wait.into_iter().chain(reads).chain(self.accept_again).min()
    }

    /// Gives all events to the node, then carries out its effects. The clock is read after the arrived bytes: the process may be stopped
    /// for any time between two steps.
    fn turn(&mut self, events: &Events) {
        self.at_once = false;
        let now = self.sockets.clock.now();
        let begun = now;
        let mut at_the_door = self.accept_again.take().is_some();
        self.sockets.busy = false;
        for event in events {
            match event.token() {
                LISTENER => at_the_door = true,
                WAKER => {}
                Token(number) => {
                    if event.is_writable() {
                        self.on_dialed(now, ConnId::new(number as u64));
                    }
                    self.sockets.on_event(now, event, &mut self.home);
                }
            }
        }
        if at_the_door {
            self.accept(now);
        }
        self.hear_sides();
        self.sockets.read_all(now, &mut self.home);
        // Reads that came in this turn are judged at its end, by a time after they came.
        let now = self.sockets.clock.now();
        while let Ok(completion) = self.completions.try_recv() {
            self.on_completion(now, completion);
        }
        self.sockets.end_closing(now);
        self.events.sum_up(now);
        if self.home.node.deadline().is_some_and(|deadline| deadline <= now) {
            self.step(now, Input::Deadline);
        }
        self.sockets.relieve(now, &mut self.home);
        self.sockets.let_go(&mut self.home);
        self.sockets.rejoin(now, &mut self.home);
        // A connection that breaks while it is written to is one more input.
        loop {
            self.end_turn(now);
            self.perform();
            if self.home.effects.is_empty() && !self.home.node.owes_turn() {
                break;
            }
        }
        // All that was said before has left, so that nothing in them is news.
        if self.pulse.wants(now) {
            self.pulse.set(self.heartbeats());
        }
        self.turn_pillars(now);
        self.sides.tell(&self.home.node);
        self.balance(now);
        self.home.turns.add(self.sockets.clock.now().since(begun));
        if cfg!(debug_assertions) {
            self.home.node.invariants(false);
        }
    }

    /// Gives turns to the pillars that stand here. Frames for them come in as mail, since the node is here, too. What they say the node hears
    /// now, and works off in its next turn, which follows at once.
    fn turn_pillars(&mut self, now: Time) {
        let own = &mut self.sides.own;
        if !own.are_asked() && own.due().is_none_or(|at| at > now) {
            return;
        }
        self.at_once = own.turn(now, &mut Inbox::default());
        own.effects.drain().for_each(|effect| self.home.effects.push(effect));
        if self.at_once {
            self.step(now, Input::Run(Part::Main));
        }
        self.perform();
    }

    fn step(&mut self, now: Time, input: Input) {
        self.home.take(now, input);
    }

    /// Ends the node's turn, in which it executes.
    fn end_turn(&mut self, now: Time) {
        self.pulse.lend(&mut self.sockets.connections);
        self.step(now, Input::TurnEnd);
        self.pulse.take_back(&mut self.sockets.connections);
    }

    /// The heartbeats that a long turn repeats. A replica that says other things than its node does, or says them late, repeats nothing.
    fn heartbeats(&self) -> Vec<(ConnId, OutFrame)> {
        let is_late = self.sockets.lateness.as_ref().is_some_and(|late| late.get() > Span::ZERO);
        if self.home.speech.is_some() || is_late {
            return Vec::new();
        }
        let mut beats = self.home.node.heartbeats();
        beats.retain(|(conn, _)| {
            self.sockets.connections.get(conn).is_some_and(|c| !self.sockets.is_apart(c))
        });
        beats
    }

    /// Accepts waiting connections, unless that has used up its share of a busy lane's time: then they wait in the kernel, which refuses
    /// those that do not fit there.
    fn accept(&mut self, now: Time) {
        if let Some(wait) = self.entry.opens_in(now) {
            self.accept_again = Some(Duration::from_nanos(wait.nanos()));
            return;
        }
        self.accept_some(now);
        let end = self.sockets.clock.now();
        self.entry.served(end, end.since(now), self.sockets.pace.is_busy());
    }

    fn accept_some(&mut self, now: Time) {
        for _ in 0..ACCEPTED_AT_ONCE {
            match self.listener.accept() {
                Ok((_, from)) if !self.home.node.lets_in(Some(from.ip())) => {}
                Ok((stream, from)) => {
                    let stream = stream.into();
                    self.network.accepted(&stream);
                    let stream = TcpStream::from_std(stream);
                    let Some(channel) = self.channel(None) else { continue };
                    if let Some(conn) = self.add(Connection::accepted(stream, channel, from)) {
                        tracing::debug!("{conn} comes from {from}");
                        self.step(self.sockets.clock.now(), Input::Accepted { conn, from: Some(from.ip()) });
                        if let Some(bytes) = self.home.frame_limit(conn)
                            && let Some(connection) = self.sockets.connections.get_mut(&conn)
                        {
                            connection.set_frame_limit(bytes);
                        }
                        // Its first frame may have come before it was registered.
                        self.sockets.wants_read(conn);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // There will be no other event for the waiting connections.
                    if self.sockets.refusals.allows(now) {
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

    /// TLS for a connection to this member, or from an unknown side, unless the configuration says `plain`.
    fn channel(&self, dialed: Option<ReplicaId>) -> Option<Channel> {
        let Some(credentials) = &self.credentials else { return Some(Channel::Plain) };
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

    fn add(&mut self, connection: Connection) -> Option<ConnId> {
        let conn = ConnId::new(self.next_conn);
        self.next_conn += 1;
        self.sockets.add(conn, connection).then_some(conn)
    }

    /// Checks whether a connection that this side makes is made.
    fn on_dialed(&mut self, now: Time, conn: ConnId) {
        let Some(connection) = self.sockets.connections.get_mut(&conn).filter(|c| c.connecting) else {
            return;
        };
        let failed =
            connection.stream.take_error().ok().flatten().is_some() || connection.stream.peer_addr().is_err();
        let Some((replica, link)) = self.dialing.remove(&conn) else { return };
        if failed {
            self.sockets.drop_connection(conn);
            return self.step(now, Input::DialFailed { replica, link });
        }
        connection.connecting = false;
        self.step(self.sockets.clock.now(), Input::Dialed { conn, replica, link });
    }

    fn on_completion(&mut self, now: Time, completion: Completion) {
        match completion {
            Completion::Written(id) => self.step(now, Input::Written(id)),
            Completion::Synced(id) => self.step(now, Input::Synced(id)),
            Completion::Prepared { segment, result } => self.step(now, Input::Prepared { segment, result }),
            Completion::Loaded { load, records } => self.step(now, Input::Loaded { load, records }),
            Completion::Scrubbed { segment, result } => self.step(now, Input::Scrubbed { segment, result }),
            Completion::Kept(report) => self.step(now, Input::Kept(report)),
            Completion::Checked { id, right } => self.step(now, Input::Checked { id, right }),
            Completion::Worked(done) => self.step(now, Input::Worked(done)),
            Completion::Secret(secret) => self.step(now, Input::Secret(secret)),
            Completion::Oracle { instance, answer } => self.step(now, Input::Oracle { instance, answer }),
            Completion::Failed(why) => self.halt = Some(Halt::LogWriteFailed { why }),
            Completion::Resolved { replica, link, addresses } => {
                self.connect(now, (replica, link), &addresses)
            }
            // Connections that stand keep what they have: each showed its certificate when it was made.
            Completion::Credentials(credentials) => self.credentials = Some(credentials),
            // The asking thread may have given up.
            Completion::Asked(asker) => drop(asker.try_send(self.home.node.status())),
            Completion::AskedAll(asker) => {
                let status = self.home.node.status();
                drop(asker.try_send(Box::new(self.whole(status))));
            }
        }
    }

    fn perform(&mut self) {
        let now = self.sockets.clock.now();
        let mut effects = std::mem::take(&mut self.home.effects);
        let mut written: Vec<ConnId> = Vec::new();
        self.say_due(now, &mut written);
        for effect in effects.drain() {
            match effect {
                Effect::Send { conn, frame } => self.say(now, conn, frame, &mut written),
                Effect::Disk(work) => self.disk.submit(work),
                Effect::Close(conn) => {
                    if !self.sides.close(conn) {
                        self.sockets.close(now, conn);
                        written.push(conn);
                    }
                }
                Effect::Move { conn, link } => self.belongs(now, conn, link),
                Effect::FrameLimit { conn, bytes } => {
                    if let Some(connection) = self.sockets.connections.get_mut(&conn) {
                        connection.set_frame_limit(bytes);
                    }
                }
                Effect::Dial { replica, link } => self.dial(now, (replica, link)),
                Effect::DialService { service, replica, .. } => self.dial_service(now, service, replica),
                Effect::Address { replica, address: Some(address) } => {
                    self.addresses.learn(replica, address);
                }
                Effect::Address { replica, address: None } => self.addresses.forget(replica),
                Effect::Load { load, extents } => self.disk.load(load, extents),
                Effect::Keep(KeeperWork { job, stops }) => {
                    self.keeper.submit(job);
                    if stops {
                        self.keeper.wait();
                    }
                }
                Effect::Check(work) => self.crew.workers.check(work),
                Effect::Work(work) => self.crew.executors.execute(work),
                // Only where few members are slow, and such a replica has an oracle.
                Effect::Oracle(work) => self.oracles.iter().for_each(|oracles| oracles.ask(work.clone())),
                Effect::Release(unneeded) => self.keeper.release(unneeded.0),
                Effect::Scrub(segment) => self.disk.scrub(segment),
                Effect::RemoveSegments(segments) => self.disk.remove(segments),
                Effect::Status { conn, status } => self.answer_status(conn, *status, &mut written),
                Effect::Lanes { conn, wish } => self.place(now, conn, &wish, &mut written),
                Effect::Audit { conn, who, what, outcome } => self.record(conn, who, what, outcome),
                Effect::Proved { text, name, bytes } => self.clerk.keep(&text, name, bytes),
                Effect::Link { name, bytes } => self.clerk.keep_link(name, bytes),
                Effect::Event(event) => {
                    if matches!(event, Event::Leader { .. }) {
                        self.pulse.renew();
                    }
                    self.home.leader_changes += u64::from(tells_of_a_leader(&event));
                    self.events.write(&event, &mut self.sockets.refusals, now);
                }
                Effect::Run(Part::Group(id)) => self.sides.run(id),
                Effect::Run(Part::Main) => self.step(now, Input::Run(Part::Main)),
                Effect::Run(Part::Gate) => {}
                Effect::Halt(halt) => self.halt = Some(halt),
                Effect::EnterEra(next) => self.next_era = Some(next),
            }
        }
        self.sockets.write_all(now, written, &mut self.home);
        self.sides.place_pillars();
        self.sides.flush();
    }

    /// Sends a frame, or what the mouth says in its place.
    fn say(&mut self, now: Time, conn: ConnId, frame: OutFrame, written: &mut Vec<ConnId>) {
        let Some(speech) = &mut self.home.speech else { return self.send(conn, frame, written) };
        let to = Listener { conn, member: self.home.node.member_at(conn) };
        let sayings = speech.mouth.instead(now, to, frame);
        speech.note(now, sayings);
        self.say_due(now, written);
    }

    /// Sends the delayed frames of the mouth that are due.
    fn say_due(&mut self, now: Time, written: &mut Vec<ConnId>) {
        while let Some((conn, frame)) = self.home.speech.as_mut().and_then(|speech| speech.due(now)) {
            self.send(conn, frame, written);
        }
    }

    fn send(&mut self, conn: ConnId, frame: OutFrame, written: &mut Vec<ConnId>) {
        if let Some(frame) = self.sockets.send(conn, frame, written) {
            self.sides.send(conn, frame);
        }
    }

    fn record(&self, conn: ConnId, who: String, what: String, outcome: String) {
        let from = self.sockets.connections.get(&conn).and_then(|connection| connection.from);
        let from = from.map_or_else(String::new, |from| from.to_string());
        if let Some(errands) = self.clerk.errands() {
            errands.note(Act { who, from, what, outcome });
        }
    }

    fn answer_status(&mut self, conn: ConnId, status: NodeStatus, written: &mut Vec<ConnId>) {
        let text = serde_json::to_vec(&self.whole(status)).unwrap_or_default();
        let frame = OutFrame::new(FrameKind::Status, &text, vec![]);
        if let Some(connection) = self.sockets.connections.get_mut(&conn) {
            connection.send(frame);
            written.push(conn);
        }
    }

    /// The status of the whole replica.
    fn whole(&mut self, node: NodeStatus) -> WholeStatus {
        let executors = Some(self.crew.executors.status()).filter(|executors| executors.count > 0);
        let whole = WholeStatus {
            node,
            process: ProcessFacts::now(),
            buffers: self.sides.with_buffers(self.sockets.buffer_status()),
            lanes: self.sides.status(&self.sockets),
            turns: self.home.turns,
            leader_changes: self.home.leader_changes,
            slow: self.seen.slow(),
            traces: self.seen.traces(),
            workers: self.crew.workers.status(),
            executors,
            oracle: self.oracles.as_ref().map(Oracles::status),
            disk: self.clerk.disk(),
            tls: self.credentials.as_ref().map(TlsStatus::of),
            fronts: self.fronts.addresses.clone(),
            calls: self.fronts.calls.status(),
        };
        let [one, two, three] = self.hurt.problems();
        let [evidence, links] = self.clerk.unwritten();
        whole.with_problems([evidence, links, one, two, three])
    }

    /// An operator wants instances on these lanes, counted from 1.
    fn place(&mut self, now: Time, conn: ConnId, wish: &[(InstanceId, u16)], written: &mut Vec<ConnId>) {
        let wish: Vec<_> = wish.iter().map(|(id, lane)| (*id, lane - 1)).collect();
        let text = match self.sides.placement.wish(&wish, self.home.node.generations().0.instances) {
            Ok(moves) => {
                moves.into_iter().for_each(|(link, lane)| self.move_link(now, link, lane));
                "begun".to_owned()
            }
            Err(why) => format!("error: {why}"),
        };
        self.send(conn, OutFrame::new(FrameKind::LanesReply, text.as_bytes(), vec![]), written);
    }

    /// This host makes no connections to other services yet.
    fn dial_service(&mut self, now: Time, service: u32, replica: ReplicaId) {
        tracing::warn!("service {service} is not reached: this program does not connect to other services");
        self.step(now, Input::ServiceDialFailed { service, replica });
    }

    /// Dials a replica. Its address is looked up at each dial, since it may change; a literal address needs no thread for that.
    fn dial(&mut self, now: Time, (replica, link): (ReplicaId, u16)) {
        let Some(address) = self.addresses.of(replica, link).map(str::to_owned) else { return };
        if let Ok(literal) = address.parse::<SocketAddr>() {
            return self.connect(now, (replica, link), &[literal]);
        }
        let mailbox = self.mailbox.clone();
        let spawned = std::thread::Builder::new().name("resolver".into()).spawn(move || {
            let addresses = match address.to_socket_addrs() {
                Ok(addresses) => addresses.collect(),
                Err(error) => {
                    tracing::warn!("looking up {address}: {error}");
                    Vec::new()
                }
            };
            mailbox.send(Completion::Resolved { replica, link, addresses });
        });
        if spawned.is_err() {
            self.step(now, Input::DialFailed { replica, link });
        }
    }

    fn connect(&mut self, now: Time, (replica, link): (ReplicaId, u16), addresses: &[SocketAddr]) {
        addresses.iter().for_each(|address| self.sockets.door.know(address.ip()));
        let network = &self.network;
        let dials = self.dials.entry(replica).or_default();
        let stream = from_turn(addresses, *dials).find_map(|address| network.connect(replica, *address).ok());
        *dials = dials.wrapping_add(1);
        let made = stream.map(TcpStream::from_std).zip(self.channel(Some(replica)));
        let made = made.map(|(stream, channel)| Connection::dialed(replica, stream, channel));
        match made.and_then(|connection| self.add(connection)) {
            Some(conn) => {
                self.dialing.insert(conn, (replica, link));
            }
            None => self.step(now, Input::DialFailed { replica, link }),
        }
    }
}

/// How the work is divided among the lanes.
fn placed(config: PlacementConfig, links: u16, lanes: u16, apart: bool) -> Placement {
    match config {
        PlacementConfig::Staged if apart => Placement::staged(links, lanes),
        _ => Placement::spread(links, lanes, apart),
    }
}

/// All addresses, beginning with another one at each dial: whether an address can be reached shows only after the dial.
fn from_turn(addresses: &[SocketAddr], turn: usize) -> impl Iterator<Item = &SocketAddr> {
    let first = turn.checked_rem(addresses.len()).unwrap_or(0);
    addresses[first..].iter().chain(&addresses[..first])
}

/// Whether a replica leads the first instance now that did not before.
fn tells_of_a_leader(event: &Event) -> bool {
    let first = |instance: &Option<InstanceId>| instance.is_none_or(|instance| instance.number() == 1);
    matches!(event, Event::Leader { leader: Some(_), instance, .. } if first(instance))
}
