//! The health endpoint: plain HTTP/1.1, for the probes of supervisors that know nothing of Quorate, and for Prometheus.
//!
//! `/livez` says whether the lane still takes its turns, or executes a command that takes long; `/readyz` whether this replica serves: it knows a leader, its state is sound, its
//! disk has space, and it is not behind the agreed checkpoint. `/metrics` tells the numbers of the status (`metrics.rs`). The endpoint tells
//! nothing else and accepts no commands, so it needs no certificates.
//!
//! One thread serves all visitors, none of them for long: a visitor has [`VISIT`] in all, a request at most [`HEAD_BYTES_MAX`], and when
//! there are more than [`VISITORS_MAX`] the oldest must leave. The lane is asked at most once per [`FRESH`], however many visitors ask.
//! Tests: `health/tests.rs`, tests/all/health.rs.

use crate::disk_thread::{Completion, Mailbox};
use crate::lane::Long;
use crate::metrics;
use crossbeam_channel::bounded;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use quorate_node::NodeStatus;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// How long a visitor may take in all, from its connection to the last byte of the answer.
const VISIT: Duration = Duration::from_secs(5);
/// The longest head of a request; about 100 bytes are needed.
const HEAD_BYTES_MAX: usize = 4 << 10;
/// The most bytes that are read behind the head; they are ignored.
const REST_BYTES_MAX: usize = 64 << 10;
/// The most visitors at once.
const VISITORS_MAX: usize = 64;
/// How many visitors are accepted before those inside get a turn.
const ACCEPTED_AT_ONCE: usize = 32;
/// How long an answer of the lane is valid.
const FRESH: Duration = Duration::from_millis(100);
/// A lane that does not answer for this time is not alive.
const SILENCE: Duration = Duration::from_secs(2);
/// How long to wait after a failed accept.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
const FIRST_VISITOR: usize = 2;

/// The endpoint; dropping it ends it.
pub(crate) struct Health {
    address: SocketAddr,
    shared: Arc<Shared>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// The lane, once it exists.
    lane: OnceLock<Mailbox>,
    /// What it executes for long.
    long: OnceLock<Long>,
}

impl Shared {
    /// What the lane executes for long, in words.
    fn executes(&self) -> Option<String> {
        self.long.get()?.words()
    }
}

impl Health {
    /// Listens on this address. Until there is a lane, the replica counts as alive but not as ready.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn start(address: &str) -> io::Result<Self> {
        let resolved = address.to_socket_addrs()?.next().ok_or(ErrorKind::AddrNotAvailable)?;
        let mut listener = TcpListener::bind(resolved)?;
        let address = listener.local_addr()?;
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let shared = Arc::new(Shared::default());
        let host = Host {
            poll,
            listener,
            shared: shared.clone(),
            visitors: BTreeMap::new(),
            next: FIRST_VISITOR,
            accept_again: None,
            heard: None,
            metrics: None,
        };
        let thread = std::thread::Builder::new().name("health".into()).spawn(move || host.run())?;
        Ok(Self { address, shared, waker, thread: Some(thread) })
    }

    /// From now on the lane is asked. Gives the address of the endpoint.
    pub(crate) fn attach(&self, lane: Mailbox) -> SocketAddr {
        // There is only one in the life of an endpoint.
        let _ = self.shared.lane.set(lane);
        self.address
    }

    /// From now on a lane that executes for long is told from one that stands still.
    pub(crate) fn watch(&self, long: Long) {
        let _ = self.shared.long.set(long);
    }
}

impl Drop for Health {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        let _ = self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The state of the replica, as far as known.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Heard {
    /// It is reading its log back.
    Starts,
    /// The lane did not answer in time.
    Silence,
    /// It did not, since it executes: what, in words.
    Executes(String),
    /// Why it is not ready; empty when it is.
    Lacks(Vec<String>),
}

impl Heard {
    /// The state by the lane's status.
    fn from_status(status: &NodeStatus) -> Self {
        let mut lacks = Vec::new();
        if status.membership.removed {
            lacks.push("is no member of the cluster any more".to_owned());
        }
        if status.leader.is_none() {
            lacks.push("knows no leader".to_owned());
        }
        if status.checkpoints.diverged.is_some() {
            lacks.push("its state is not the agreed one".to_owned());
        }
        if let Some(transfer) = &status.checkpoints.transfer {
            lacks.push(format!("fetches the state from other replicas ({})", transfer.why));
        }
        if status.log.disk_full {
            lacks.push(FULL.to_owned());
        }
        let agreed = status.checkpoints.agreed_seq;
        if agreed > status.executed {
            lacks.push(format!(
                "is behind: it executed seq {:#}, and the others agreed on seq {agreed:#}",
                status.executed
            ));
        }
        Self::Lacks(lacks)
    }
}

/// What a replica says whose disk is full. It serves reads and deletes all the same.
const FULL: &str = "its disk is full: it takes no writes";

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Live,
    Ready,
    /// The same, but that the disk may be full: where clients must reach a replica to delete something.
    ReadyButFull,
    Metrics,
}

/// The part of a request that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Probe {
        wish: Wish,
        /// A HEAD request: the answer has no body.
        bodiless: bool,
    },
    /// The request can not be served; the status of the answer.
    Refused(u16),
}

/// Parses the first line; the others do not matter.
fn parse(head: &[u8]) -> Request {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let [method, target, version] = words[..] else { return Request::Refused(400) };
    if !matches!(version, b"HTTP/1.1" | b"HTTP/1.0") {
        return Request::Refused(if version.starts_with(b"HTTP/") { 505 } else { 400 });
    }
    let bodiless = match method {
        b"GET" => false,
        b"HEAD" => true,
        _ => return Request::Refused(405),
    };
    let mut parts = target.splitn(2, |byte| *byte == b'?');
    let (path, query) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    match path {
        b"/livez" => Request::Probe { wish: Wish::Live, bodiless },
        b"/readyz" if query.split(|byte| *byte == b'&').any(|wish| wish == b"exclude=disk") => {
            Request::Probe { wish: Wish::ReadyButFull, bodiless }
        }
        b"/readyz" => Request::Probe { wish: Wish::Ready, bodiless },
        b"/metrics" => Request::Probe { wish: Wish::Metrics, bodiless },
        _ => Request::Refused(404),
    }
}

/// The complete answer to a probe.
fn answer(request: Request, heard: &Heard) -> Vec<u8> {
    let (status, body, bodiless) = match request {
        Request::Refused(status) => (status, format!("{}\n", reason(status)), false),
        Request::Probe { wish, bodiless } => {
            let lacks = match (wish, heard) {
                // To start it again would not help: it executes the same once more.
                (Wish::Live, Heard::Starts | Heard::Executes(_) | Heard::Lacks(_)) => String::new(),
                (_, Heard::Starts) => "starts\n".to_owned(),
                (_, Heard::Silence) => "does not take its turns\n".to_owned(),
                (_, Heard::Executes(what)) => format!("{what}\n"),
                (wish, Heard::Lacks(lacks)) => {
                    let counts = |lack: &&String| wish != Wish::ReadyButFull || *lack != FULL;
                    lacks.iter().filter(counts).map(|lack| format!("{lack}\n")).collect()
                }
            };
            if lacks.is_empty() { (200, "ok\n".to_owned(), bodiless) } else { (503, lacks, bodiless) }
        }
    };
    page(status, "text/plain; charset=utf-8", &body, bodiless)
}

/// The bytes of an answer.
fn page(status: u16, kind: &str, body: &str, bodiless: bool) -> Vec<u8> {
    let allow = if status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status} {}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         {allow}Connection: close\r\n\r\n",
        reason(status),
        body.len(),
    );
    let mut bytes = head.into_bytes();
    if !bodiless {
        bytes.extend_from_slice(body.as_bytes());
    }
    bytes
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        431 => "Request Header Fields Too Large",
        505 => "HTTP Version Not Supported",
        _ => "Service Unavailable",
    }
}

/// A visitor of the endpoint.
struct Visitor {
    stream: TcpStream,
    /// When it must leave.
    until: Instant,
    head: Vec<u8>,
    /// Bytes read behind the head.
    rest: usize,
    /// The answer, and how many of its bytes are sent.
    answer: Option<Vec<u8>>,
    sent: usize,
}

/// The visitor left, or must leave.
struct Leaves;

impl Visitor {
    /// Reads what is there. Gives the request once it is complete.
    fn read(&mut self) -> Result<Option<Request>, Leaves> {
        let mut room = [0; 1024];
        loop {
            let read = match self.stream.read(&mut room) {
                Ok(0) => return Err(Leaves),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return Err(Leaves),
            };
            if self.answer.is_some() {
                self.rest += read;
                if self.rest > REST_BYTES_MAX {
                    return Err(Leaves);
                }
                continue;
            }
            self.head.extend_from_slice(&room[..read]);
            if self.head.windows(4).any(|end| end == b"\r\n\r\n") {
                return Ok(Some(parse(&self.head)));
            }
            if self.head.len() > HEAD_BYTES_MAX {
                return Ok(Some(Request::Refused(431)));
            }
        }
    }

    /// Sends as much of the answer as possible. Then the visitor closes, or its time runs out.
    fn write(&mut self) -> Result<(), Leaves> {
        let Some(answer) = &self.answer else { return Ok(()) };
        while self.sent < answer.len() {
            match self.stream.write(&answer[self.sent..]) {
                Ok(0) => return Err(Leaves),
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Leaves),
            }
            if self.sent == answer.len() {
                self.stream.shutdown(Shutdown::Write).map_err(|_| Leaves)?;
            }
        }
        Ok(())
    }
}

/// The thread.
struct Host {
    poll: Poll,
    listener: TcpListener,
    shared: Arc<Shared>,
    /// In the order in which they came, which is the order in which they must leave.
    visitors: BTreeMap<usize, Visitor>,
    next: usize,
    /// Visitors may be waiting, and no event will say so: when to accept again.
    accept_again: Option<Duration>,
    heard: Option<(Instant, Heard)>,
    /// All metrics, if the lane told them.
    metrics: Option<(Instant, Option<String>)>,
}

impl Host {
    fn run(mut self) {
        let mut events = Events::with_capacity(VISITORS_MAX * 2);
        while !self.shared.stop.load(Ordering::Acquire) {
            let timeout = self.timeout();
            if let Err(error) = self.poll.poll(&mut events, timeout)
                && error.kind() != ErrorKind::Interrupted
            {
                tracing::warn!("waiting for probes: {error}");
                std::thread::sleep(ACCEPT_AGAIN);
            }
            let now = Instant::now();
            self.visitors.retain(|_, visitor| visitor.until > now);
            let mut at_the_door = self.accept_again.take().is_some();
            for event in &events {
                match event.token() {
                    LISTENER => at_the_door = true,
                    WAKER => {}
                    Token(number) => self.serve(number),
                }
            }
            if at_the_door {
                self.accept();
            }
        }
    }

    fn timeout(&self) -> Option<Duration> {
        let first = self.visitors.first_key_value().map(|(_, visitor)| visitor.until);
        let leaves = first.map(|until| until.saturating_duration_since(Instant::now()));
        leaves.into_iter().chain(self.accept_again).min()
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTED_AT_ONCE {
            match self.listener.accept() {
                Ok((stream, _)) => self.let_in(stream),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::warn!("accepting a probe: {error}");
                    self.accept_again = Some(ACCEPT_AGAIN);
                    return;
                }
            }
        }
        self.accept_again = Some(Duration::ZERO);
    }

    fn let_in(&mut self, mut stream: TcpStream) {
        let number = self.next;
        let interest = Interest::READABLE | Interest::WRITABLE;
        if self.poll.registry().register(&mut stream, Token(number), interest).is_err() {
            return;
        }
        if self.visitors.len() >= VISITORS_MAX {
            self.visitors.pop_first();
        }
        self.next = self.next.checked_add(1).unwrap_or(FIRST_VISITOR);
        let until = Instant::now() + VISIT;
        let visitor = Visitor { stream, until, head: Vec::new(), rest: 0, answer: None, sent: 0 };
        self.visitors.insert(number, visitor);
    }

    fn serve(&mut self, number: usize) {
        let Some(visitor) = self.visitors.get_mut(&number) else { return };
        let request = match visitor.read() {
            Ok(request) => request,
            Err(Leaves) => return drop(self.visitors.remove(&number)),
        };
        if let Some(request) = request {
            let answer = match request {
                // The lane has nothing to do with it.
                Request::Refused(_) => answer(request, &Heard::Starts),
                Request::Probe { wish: Wish::Metrics, bodiless } => match self.ask_all() {
                    Some(text) => page(200, "text/plain; version=0.0.4; charset=utf-8", text, bodiless),
                    None => page(
                        503,
                        "text/plain; charset=utf-8",
                        "starts, or does not take its turns\n",
                        bodiless,
                    ),
                },
                Request::Probe { .. } => answer(request, self.ask()),
            };
            if let Some(visitor) = self.visitors.get_mut(&number) {
                visitor.answer = Some(answer);
            }
        }
        let Some(visitor) = self.visitors.get_mut(&number) else { return };
        // What came with the request is read away, too: an unread rest would break the connection before the answer is there.
        let goes_on =
            visitor.write().and_then(|()| if request.is_some() { visitor.read().map(drop) } else { Ok(()) });
        if goes_on.is_err() {
            self.visitors.remove(&number);
        }
    }

    /// The present metrics of the replica.
    fn ask_all(&mut self) -> Option<&str> {
        let fresh = self.metrics.as_ref().is_some_and(|(at, _)| at.elapsed() < FRESH);
        if !fresh {
            let told = count(self.shared.lane.get());
            // Only now: the lane may have begun a long command while it was asked.
            let told = told.or_else(|| self.shared.executes().map(|_| String::new()));
            let lasts = self.shared.long.get().map_or(Duration::ZERO, Long::lasts);
            let told = told.map(|others| others + &metrics::executing(lasts));
            self.metrics = Some((Instant::now(), told));
        }
        self.metrics.as_ref()?.1.as_deref()
    }

    /// The present state of the replica.
    fn ask(&mut self) -> &Heard {
        let fresh = self.heard.as_ref().is_some_and(|(at, _)| at.elapsed() < FRESH);
        if !fresh {
            self.heard = None;
        }
        let shared = &self.shared;
        let (_, heard) = self.heard.get_or_insert_with(|| {
            let heard = match hear(shared.lane.get()) {
                Heard::Silence => shared.executes().map_or(Heard::Silence, Heard::Executes),
                heard => heard,
            };
            (Instant::now(), heard)
        });
        heard
    }
}

/// Everything that the lane tells of the replica, as metrics; nothing if there is no lane yet, or it is silent.
fn count(lane: Option<&Mailbox>) -> Option<String> {
    let (asker, answer) = bounded(1);
    lane?.send(Completion::AskedAll(asker));
    let status = answer.recv_timeout(SILENCE).ok()?;
    Some(metrics::text(&serde_json::to_value(status).ok()?))
}

fn hear(lane: Option<&Mailbox>) -> Heard {
    let Some(lane) = lane else { return Heard::Starts };
    let (asker, answer) = bounded(1);
    lane.send(Completion::Asked(asker));
    match answer.recv_timeout(SILENCE) {
        Ok(status) => Heard::from_status(&status),
        Err(_) => Heard::Silence,
    }
}
