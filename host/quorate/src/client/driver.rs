//! Drives one client core: its connections, and one queue for all its callers. `thread.rs` has the loop.
//!
//! In each turn everything that arrived is given to the core, the core is flushed once, and its frames are written. So all calls that were
//! made while the thread was busy are sent together.

use super::completions::{Answer, Completed, Shared as QueueShared};
use super::oneshot::{Outcome, Shot};
use super::replies::Outlets;
use super::resolve;
use super::socket::{Broken, READ_MAX, ReadEnd, Socket};
use super::thread::Wake;
use super::tls::ClientTls;
use super::{Error, ReadResult, Replies};
use bytes::Bytes;
use mio::event::Event;
use mio::{Interest, Registry, Token};
use quorate_client::{
    CallId, ClientCore, Completion, Config, Effect, Effects, Input, ReadConsistency, SessionHandle,
};
use quorate_tls::Session;
use quorate_types::{ConnId, ReplicaId, Seq, ServiceName, Time};
use quorate_wire::{FRAME_HEADER, Frame, FrameKind, Refusal, RefusalReason};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A token has a connection's number in these lower bits; above them is the number of its client.
pub(super) const CONN_BITS: u32 = 40;
const CONN_MASK: usize = (1 << CONN_BITS) - 1;
/// How long the end of the last handle may take; sessions that are not closed by then expire.
const LINGER: Duration = Duration::from_millis(200);
/// The largest answer frame; what replicas send is bounded by their own limits.
const ANSWER_BYTES_MAX: u32 = 64 << 20;
/// The most that a turn takes from the queue. More would keep the thread from reading answers for long: callers that ask faster than it can
/// take would then get none at all.
const ASKS_PER_TURN: usize = 1024;
/// The bytes that an entry in the queue counts on top of its own.
const ASK_COST: usize = 128;

/// What is told when a call ends.
#[derive(Debug)]
pub(crate) enum Waiter {
    Future(Arc<Shot>),
    Queue { queue: Arc<QueueShared>, tag: u64 },
    Nobody,
}

impl Waiter {
    /// Tells the outcome outside of a turn.
    fn tell(self, outcome: Outcome) {
        match self {
            Self::Future(shot) => drop(shot.deliver(outcome)),
            Self::Queue { queue, tag } => queue.deliver(&mut vec![completed(tag, outcome)]),
            Self::Nobody => {}
        }
    }
}

fn completed(tag: u64, outcome: Outcome) -> Completed {
    let result = match outcome {
        Ok(Completion::Replies(body)) => Ok(Answer::Replies(Replies::new(body))),
        Ok(Completion::Read { seq, body }) => Ok(Answer::Read(ReadResult { seq, body })),
        Ok(_) => Err(Error::SessionClosed),
        Err(error) => Err(error),
    };
    Completed { tag, result }
}

/// What callers ask for.
#[derive(Debug)]
pub(crate) enum Ask {
    Open {
        deadline: Time,
    },
    Call {
        session: SessionHandle,
        commands: Bytes,
        deadline: Time,
    },
    Close {
        session: SessionHandle,
        deadline: Time,
    },
    Read {
        consistency: ReadConsistency,
        after: Seq,
        replica: Option<ReplicaId>,
        query: Bytes,
        deadline: Time,
    },
    Resolved {
        conn: ConnId,
        replica: ReplicaId,
        addresses: Result<Vec<SocketAddr>, String>,
    },
    Shutdown,
}

impl Ask {
    const fn cost(&self) -> usize {
        ASK_COST
            + match self {
                Self::Call { commands, .. } => commands.len(),
                Self::Read { query, .. } => query.len(),
                _ => 0,
            }
    }
}

#[derive(Debug, Default)]
struct Inbox {
    asks: VecDeque<(Ask, Waiter)>,
    closed: bool,
}

/// What callers and the thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    inbox: Mutex<Inbox>,
    /// The bytes of what callers asked for and the thread has not taken yet.
    bytes: AtomicUsize,
    bytes_max: usize,
    /// Set while the queue has entries.
    asked: AtomicBool,
    wake: Arc<Wake>,
    /// The number of the leader; 0 when unknown.
    pub(crate) leader: AtomicU16,
    /// The newest known seq. It is raised before the caller gets the answer that told of it.
    pub(crate) newest: AtomicU64,
    /// What the cluster calls its service, once it is known.
    pub(crate) service: OnceLock<ServiceName>,
    start: Instant,
}

impl Shared {
    pub(crate) fn time(&self, at: Instant) -> Time {
        let nanos = at.saturating_duration_since(self.start).as_nanos();
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX).saturating_add(1))
    }

    /// The moment after this time-out.
    pub(crate) fn deadline(&self, timeout: Duration) -> Time {
        let nanos = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        Time::from_nanos(self.time(Instant::now()).nanos().saturating_add(nanos))
    }

    /// Queues something for the thread. If the queue is full the caller gets an error at once.
    pub(crate) fn ask(&self, ask: Ask, waiter: Waiter) {
        let cost = ask.cost();
        let urgent = matches!(ask, Ask::Shutdown | Ask::Resolved { .. } | Ask::Close { .. });
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = self.bytes.load(Ordering::Relaxed);
        let refused = if inbox.closed {
            Some(Error::Stopped { outcome_unknown: false })
        } else if !urgent && bytes > 0 && bytes + cost > self.bytes_max {
            Some(Error::Overloaded { outcome_unknown: false })
        } else {
            None
        };
        if let Some(error) = refused {
            drop(inbox);
            return waiter.tell(Err(error));
        }
        self.bytes.fetch_add(cost, Ordering::Relaxed);
        inbox.asks.push_back((ask, waiter));
        self.asked.store(true, Ordering::SeqCst);
        drop(inbox);
        self.wake.up();
    }
}

/// Held by everything that uses the thread, which ends when the last handle is dropped.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
}

impl Handle {
    /// Closes a session without waiting for it.
    pub(crate) fn close_unwatched(&self, session: SessionHandle) {
        let deadline = self.shared.deadline(Duration::from_secs(10));
        self.shared.ask(Ask::Close { session, deadline }, Waiter::Nobody);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.ask(Ask::Shutdown, Waiter::Nobody);
    }
}

/// A connection, or a step on the way to one.
#[derive(Debug)]
enum Conn {
    /// The name is being resolved.
    Resolving(ReplicaId),
    /// A connection to this member, made or in the making; these addresses are left to try.
    Socket(Box<Socket>, Vec<SocketAddr>, ReplicaId),
}

pub(super) struct Driver {
    core: ClientCore,
    out: Effects,
    shared: Arc<Shared>,
    registry: Registry,
    /// The index of this driver in its thread.
    index: usize,
    /// Something happened since the core was last flushed.
    touched: bool,
    /// When the core must be stepped next.
    due: Option<Time>,
    members: Vec<(ReplicaId, String)>,
    tls: Option<ClientTls>,
    /// Scratch space for encrypted input, shared by all connections.
    scratch: Vec<u8>,
    /// Members whose name a thread is resolving.
    resolving: Vec<ReplicaId>,
    conns: BTreeMap<ConnId, Conn>,
    waiters: Vec<Option<Waiter>>,
    free: Vec<usize>,
    bursts: Vec<(Arc<QueueShared>, Vec<Completed>)>,
    /// Connections with more to read.
    readable: Vec<ConnId>,
    /// What the thread fetched from the queue and has not taken yet.
    asks: VecDeque<(Ask, Waiter)>,
    ends_at: Option<Instant>,
    outlets: Outlets,
}

impl Driver {
    /// The driver of one client, on the thread that `wake` wakes; and what its callers hold.
    pub(super) fn new(
        config: Config,
        members: Vec<(ReplicaId, String)>,
        tls: Option<ClientTls>,
        (registry, index, wake): (Registry, usize, Arc<Wake>),
        outlets: Outlets,
    ) -> (Self, Arc<Handle>) {
        let start = wake.start;
        let shared = Arc::new(Shared {
            inbox: Mutex::default(),
            bytes: AtomicUsize::new(0),
            bytes_max: config.queue_bytes_max,
            asked: AtomicBool::new(false),
            wake,
            leader: AtomicU16::new(0),
            newest: AtomicU64::new(0),
            service: OnceLock::new(),
            start,
        });
        let ids: Vec<ReplicaId> = members.iter().map(|(id, _)| *id).collect();
        let driver = Self {
            core: ClientCore::new(config, &ids),
            out: Effects::new(),
            shared: Arc::clone(&shared),
            registry,
            index,
            touched: true,
            due: None,
            members,
            scratch: if tls.is_some() { vec![0; READ_MAX] } else { Vec::new() },
            tls,
            resolving: Vec::new(),
            conns: BTreeMap::new(),
            waiters: Vec::new(),
            free: Vec::new(),
            bursts: Vec::new(),
            readable: Vec::new(),
            asks: VecDeque::new(),
            ends_at: None,
            outlets,
        };
        (driver, Arc::new(Handle { shared }))
    }
}

impl Driver {
    /// The first part of a turn: reads on from connections that were not read to the end.
    pub(super) fn begin_turn(&mut self, now: Time) {
        for conn in std::mem::take(&mut self.readable) {
            self.touched = true;
            self.read(now, conn);
        }
    }

    /// Handles an event of a connection.
    pub(super) fn on_event(&mut self, now: Time, event: &Event) {
        self.touched = true;
        let conn = ConnId::new((event.token().0 & CONN_MASK) as u64);
        let readable = event.is_readable() || event.is_read_closed() || event.is_error();
        self.ready(now, conn, readable, event.is_writable() || event.is_error());
    }

    /// The last part of a turn: takes the callers' requests and due deadlines, and carries out what the core asks for.
    pub(super) fn end_turn(&mut self, now: Time) {
        self.take_asks(now);
        if self.due.is_some_and(|due| due <= now) {
            self.touched = true;
            self.core.step(now, Input::Deadline, &mut self.out);
        }
        if std::mem::take(&mut self.touched) {
            self.settle(now);
            self.deliver_bursts();
            self.due = self.core.deadline();
        }
    }

    /// Whether there is work now. Ask after the sleep was announced: callers that queue something later wake the thread.
    pub(super) fn is_busy(&self) -> bool {
        self.shared.asked.load(Ordering::SeqCst) || !self.readable.is_empty() || !self.asks.is_empty()
    }

    /// How long the thread may sleep if no caller queues something.
    pub(super) fn sleep_for(&self, now: Time) -> Option<Duration> {
        let due = self.due.map(|due| Duration::from_nanos(due.since(now).nanos()));
        let end = self.ends_at.map(|end| end.saturating_duration_since(Instant::now()));
        due.into_iter().chain(end).min()
    }

    /// Whether the last handle is gone, and all work is done or its time is over.
    pub(super) fn ended(&self) -> bool {
        let Some(end) = self.ends_at else { return false };
        let idle = self.core.waiting() == (0, 0)
            && self
                .conns
                .values()
                .all(|conn| !matches!(conn, Conn::Socket(socket, ..) if socket.has_output()));
        idle || Instant::now() >= end
    }

    // Callers.

    fn take_asks(&mut self, now: Time) {
        if self.asks.is_empty() && !self.shared.asked.load(Ordering::SeqCst) {
            return;
        }
        self.touched = true;
        if self.asks.is_empty() {
            let mut inbox = self.shared.inbox.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut inbox.asks, &mut self.asks);
            self.shared.asked.store(false, Ordering::SeqCst);
        }
        let mut bytes = 0;
        for _ in 0..ASKS_PER_TURN {
            let Some((ask, waiter)) = self.asks.pop_front() else { break };
            bytes += ask.cost();
            self.take_ask(now, ask, waiter);
        }
        self.shared.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn take_ask(&mut self, now: Time, ask: Ask, waiter: Waiter) {
        let input = match ask {
            Ask::Open { deadline } => Input::Open { call: self.number(waiter), deadline: Some(deadline) },
            Ask::Call { session, commands, deadline } => {
                Input::Call { call: self.number(waiter), session, commands, deadline: Some(deadline) }
            }
            Ask::Close { session, deadline } => {
                Input::Close { call: Some(self.number(waiter)), session, deadline: Some(deadline) }
            }
            Ask::Read { consistency, after, replica, query, deadline } => {
                let (call, deadline) = (self.number(waiter), Some(deadline));
                Input::Read { call, reader: 0, consistency, after, replica, query, deadline }
            }
            Ask::Resolved { conn, replica, addresses } => {
                self.resolving.retain(|id| *id != replica);
                if self.conns.contains_key(&conn) {
                    self.connect(now, conn, addresses);
                }
                return;
            }
            Ask::Shutdown => {
                self.ends_at = Some(Instant::now() + LINGER);
                Input::EndReads
            }
        };
        self.core.step(now, input, &mut self.out);
    }

    fn number(&mut self, waiter: Waiter) -> CallId {
        let index = self.free.pop().unwrap_or(self.waiters.len());
        if index == self.waiters.len() {
            self.waiters.push(Some(waiter));
        } else {
            self.waiters[index] = Some(waiter);
        }
        CallId(index as u64)
    }

    fn complete(&mut self, now: Time, call: CallId, outcome: Outcome) {
        let index = call.0 as usize;
        let waiter = self.waiters[index].take().expect("INV-CLIENT-1: a call completes once");
        self.free.push(index);
        match waiter {
            Waiter::Nobody => {}
            Waiter::Future(shot) => {
                if let Some(Ok(Completion::Opened(session, _))) = shot.deliver(outcome) {
                    self.core.step(now, Input::Close { call: None, session, deadline: None }, &mut self.out);
                }
            }
            Waiter::Queue { queue, tag } => {
                let completed = completed(tag, outcome);
                match self.bursts.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &queue)) {
                    Some((_, burst)) => burst.push(completed),
                    None => self.bursts.push((queue, vec![completed])),
                }
            }
        }
    }

    fn deliver_bursts(&mut self) {
        for (queue, burst) in &mut self.bursts {
            if !burst.is_empty() {
                queue.deliver(burst);
            }
        }
        // A queue that only we hold has no reader any more.
        self.bursts.retain(|(queue, _)| Arc::strong_count(queue) > 1);
    }

    // Effects.

    /// Flushes the core and carries out what it asks for, until it asks for nothing more.
    fn settle(&mut self, now: Time) {
        loop {
            self.core.flush(now, &mut self.out);
            if self.out.is_empty() {
                return;
            }
            self.shared.newest.store(self.core.newest().number(), Ordering::Release);
            let mut out = std::mem::take(&mut self.out);
            let mut written = Vec::new();
            for effect in out.drain() {
                self.effect(now, effect, &mut written);
            }
            for conn in written {
                self.write(now, conn);
            }
        }
    }

    fn effect(&mut self, now: Time, effect: Effect, written: &mut Vec<ConnId>) {
        match effect {
            Effect::Dial { conn, replica } => self.dial(now, conn, replica),
            Effect::Address { replica, address } => {
                match self.members.iter_mut().find(|(id, _)| *id == replica) {
                    Some((_, known)) => *known = address,
                    None => self.members.push((replica, address)),
                }
            }
            Effect::Close(conn) => self.drop_conn(conn),
            Effect::Send { conn, frame } => {
                if let Some(Conn::Socket(socket, ..)) = self.conns.get_mut(&conn) {
                    socket.push(frame);
                    if !written.contains(&conn) {
                        written.push(conn);
                    }
                }
            }
            Effect::Completed { call, result } => {
                let service = self.core.service();
                if !service.is_none() {
                    let _ = self.shared.service.set(service);
                }
                self.complete(now, call, result);
            }
            Effect::Problem { replica, text } => tracing::debug!(%replica, text, "connection lost"),
            effect @ (Effect::Replied(_) | Effect::Believed { .. } | Effect::Letter { .. }) => {
                self.outlets.put(effect);
            }
            Effect::Leader(leader) => {
                let number = leader.map_or(0, ReplicaId::number);
                self.shared.leader.store(number, Ordering::Relaxed);
            }
        }
    }

    fn dial(&mut self, now: Time, conn: ConnId, replica: ReplicaId) {
        let Some((_, address)) = self.members.iter().find(|(id, _)| *id == replica) else { return };
        self.conns.insert(conn, Conn::Resolving(replica));
        if let Ok(address) = address.parse::<SocketAddr>() {
            return self.connect(now, conn, Ok(vec![address]));
        }
        // Resolving a name can block for long, so a thread of its own does it: one at a time for each member.
        if self.resolving.contains(&replica) {
            return self.connect(now, conn, Err(format!("the name in {address} is still being resolved")));
        }
        self.resolving.push(replica);
        let shared = Arc::clone(&self.shared);
        if let Err(error) = resolve::in_background(address.clone(), move |addresses| {
            shared.ask(Ask::Resolved { conn, replica, addresses }, Waiter::Nobody);
        }) {
            self.resolving.retain(|id| *id != replica);
            self.connect(now, conn, Err(format!("no thread to resolve the name: {error}")));
        }
    }

    /// Tries the addresses in turn until one takes the connection.
    fn connect(&mut self, now: Time, conn: ConnId, addresses: Result<Vec<SocketAddr>, String>) {
        let why = match addresses {
            Ok(addresses) => match self.connect_first(conn, addresses) {
                Ok(()) => return,
                Err(error) => error.to_string(),
            },
            Err(why) => why,
        };
        self.lost(now, conn, why);
    }

    fn connect_first(&mut self, conn: ConnId, addresses: Vec<SocketAddr>) -> io::Result<()> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let Some(Conn::Resolving(replica) | Conn::Socket(_, _, replica)) = self.conns.get(&conn) else {
            return Ok(());
        };
        let replica = *replica;
        let mut left = addresses.into_iter();
        while let Some(address) = left.next() {
            let tls = self.session(replica)?;
            let socket = Socket::connect(address, ANSWER_BYTES_MAX, tls).and_then(|mut socket| {
                let token = Token(self.index << CONN_BITS | conn.number() as usize & CONN_MASK);
                let interest = Interest::READABLE | Interest::WRITABLE;
                self.registry.register(&mut socket.stream, token, interest)?;
                Ok(socket)
            });
            match socket {
                Ok(socket) => {
                    let socket = Box::new(socket);
                    self.conns.insert(conn, Conn::Socket(socket, left.collect(), replica));
                    return Ok(());
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn session(&self, replica: ReplicaId) -> io::Result<Option<Box<Session>>> {
        let session = self.tls.as_ref().map(|tls| tls.session(replica)).transpose();
        session.map_err(io::Error::other)
    }

    fn drop_conn(&mut self, conn: ConnId) {
        if let Some(Conn::Socket(mut socket, ..)) = self.conns.remove(&conn) {
            // Dropping the socket takes it out of the poll, too; an error here means that it never was in it.
            let _ = self.registry.deregister(&mut socket.stream);
        }
    }

    fn lost(&mut self, now: Time, conn: ConnId, why: String) {
        self.drop_conn(conn);
        self.core.step(now, Input::Closed { conn, why }, &mut self.out);
    }

    // Sockets.

    fn ready(&mut self, now: Time, conn: ConnId, readable: bool, writable: bool) {
        let Some(Conn::Socket(socket, ..)) = self.conns.get_mut(&conn) else { return };
        if !socket.connected {
            match socket.check_connected() {
                Ok(true) => self.core.step(now, Input::Connected(conn), &mut self.out),
                Ok(false) => return,
                Err(error) => return self.connect_failed(now, conn, &error),
            }
        } else if writable {
            socket.unblock();
            self.write(now, conn);
        }
        if readable {
            self.read(now, conn);
        }
    }

    /// Tries the next address, if there is one.
    fn connect_failed(&mut self, now: Time, conn: ConnId, error: &io::Error) {
        let (left, replica) = match self.conns.get_mut(&conn) {
            Some(Conn::Socket(_, left, replica)) => (std::mem::take(left), *replica),
            _ => return,
        };
        self.drop_conn(conn);
        if left.is_empty() {
            self.lost(now, conn, error.to_string())
        } else {
            self.conns.insert(conn, Conn::Resolving(replica));
            self.connect(now, conn, Ok(left))
        }
    }

    fn read(&mut self, now: Time, conn: ConnId) {
        let Some(Conn::Socket(socket, ..)) = self.conns.get_mut(&conn) else { return };
        let (core, out) = (&mut self.core, &mut self.out);
        let ended = socket.read(&mut self.scratch, |frame| core.step(now, Input::Frame { conn, frame }, out));
        let answers = socket.wants_send();
        match ended {
            Ok(ReadEnd::Drained) => {}
            Ok(ReadEnd::More) => self.readable.push(conn),
            Err(Broken::Io(error)) => return self.lost(now, conn, error.to_string()),
            Err(Broken::Unsafe(trouble)) => return self.turned_away(now, conn, trouble.text),
        }
        if answers {
            self.write(now, conn); // the handshake's own words
        }
    }

    /// Treats an unsafe connection like a refusal, since it will not change soon.
    fn turned_away(&mut self, now: Time, conn: ConnId, text: String) {
        let refusal = Refusal { reason: RefusalReason::Certificate, text: text.clone() }.frame().to_vec();
        let payload = Bytes::copy_from_slice(&refusal[FRAME_HEADER..]);
        let frame = Frame { kind: FrameKind::Refusal, payload };
        self.core.step(now, Input::Frame { conn, frame }, &mut self.out);
        // Unless it stood already.
        self.lost(now, conn, text);
    }

    fn write(&mut self, now: Time, conn: ConnId) {
        let Some(Conn::Socket(socket, ..)) = self.conns.get_mut(&conn) else { return };
        match socket.write() {
            Ok(0) => {}
            Ok(bytes) => self.core.step(now, Input::Written { conn, bytes }, &mut self.out),
            Err(error) => self.lost(now, conn, error.to_string()),
        }
    }
}

impl Drop for Driver {
    /// However the thread ends, no caller waits for ever.
    fn drop(&mut self) {
        let asks = {
            let mut inbox = self.shared.inbox.lock().unwrap_or_else(PoisonError::into_inner);
            inbox.closed = true;
            std::mem::take(&mut inbox.asks)
        };
        for (_, waiter) in std::mem::take(&mut self.asks).into_iter().chain(asks) {
            waiter.tell(Err(Error::Stopped { outcome_unknown: false }));
        }
        if !std::thread::panicking() {
            self.core.step(self.shared.time(Instant::now()), Input::Stop, &mut self.out);
            let mut out = std::mem::take(&mut self.out);
            for effect in out.drain() {
                if let Effect::Completed { call, result } = effect
                    && let Some(waiter) = self.waiters[call.0 as usize].take()
                {
                    waiter.tell(result);
                }
            }
        }
        for waiter in self.waiters.drain(..).flatten() {
            waiter.tell(Err(Error::Stopped { outcome_unknown: true }));
        }
    }
}

#[cfg(test)]
mod tests;
