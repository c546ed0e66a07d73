//! The thread that sends traces. It waits a second for more of them, so that a collector gets few requests, and after a failure longer and
//! longer, up to half a minute; what comes meanwhile waits in the queue, or is lost.

use super::document::{Origin, Trace, document};
use super::{Counts, Endpoint};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a trace waits for others to go with it, and how many go together.
const GATHER: Duration = Duration::from_secs(1);
const TOGETHER_MAX: usize = 128;
/// How long a connection may take to be made, and an exchange in all.
const CONNECT: Duration = Duration::from_secs(2);
const EXCHANGE: Duration = Duration::from_secs(5);
/// The most addresses of a host that are tried.
const ADDRESSES_MAX: usize = 4;
/// The first and the longest pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// So much of an answer is read.
const ANSWER_BYTES_MAX: usize = 4 << 10;

/// Starts it. It ends when either channel has no other end.
pub(super) fn start(
    endpoint: Endpoint,
    origin: Origin,
    channels: (Receiver<Trace>, Receiver<()>),
    counts: Arc<Counts>,
) -> io::Result<()> {
    let exporter = Exporter { endpoint, origin, traces: channels.0, stopped: channels.1, counts };
    std::thread::Builder::new().name("traces".into()).spawn(move || exporter.run())?;
    Ok(())
}

struct Exporter {
    endpoint: Endpoint,
    origin: Origin,
    traces: Receiver<Trace>,
    stopped: Receiver<()>,
    counts: Arc<Counts>,
}

impl Exporter {
    fn run(self) {
        let mut pause = None;
        while let Ok(first) = self.traces.recv() {
            // An end of the replica does not wait for this; what is in the queue then is lost, unless it goes at once.
            let _ = self.waits(GATHER);
            let mut together = vec![first];
            together.extend(self.traces.try_iter().take(TOGETHER_MAX - 1));
            let count = together.len() as u64;
            match post(&self.endpoint, &document(&self.origin, &together)) {
                Ok(()) => {
                    self.counts.sent.fetch_add(count, Ordering::Relaxed);
                    if self.counts.failing.swap(false, Ordering::Relaxed) {
                        tracing::info!("traces reach {} again", self.endpoint);
                    }
                    pause = None;
                }
                Err(why) => {
                    self.counts.lost.fetch_add(count, Ordering::Relaxed);
                    if !self.counts.failing.swap(true, Ordering::Relaxed) {
                        tracing::warn!(
                            "traces do not reach {}: {why}. Nothing else suffers; run a collector there that takes OTLP over HTTP, or \
                             remove `traces` from [telemetry]. /metrics counts what is lost, and this is said once until it works again",
                            self.endpoint
                        );
                    }
                    let next = pause.map_or(PAUSE, |before: Duration| (before * 2).min(PAUSE_MAX));
                    pause = Some(next);
                    if self.waits(next) {
                        return;
                    }
                }
            }
        }
    }

    /// Waits, but not longer than the replica lives. Whether it has ended.
    fn waits(&self, time: Duration) -> bool {
        self.stopped.recv_timeout(time) == Err(RecvTimeoutError::Disconnected)
    }
}

/// Sends a document, and waits until the collector says that it has it.
///
/// # Errors
/// Why the collector does not have it, as far as is known.
fn post(endpoint: &Endpoint, body: &[u8]) -> Result<(), String> {
    let until = Instant::now() + EXCHANGE;
    let mut stream = connect(&endpoint.address).map_err(|why| format!("no connection: {why}"))?;
    let Endpoint { address, path } = endpoint;
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: quorate/{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        env!("CARGO_PKG_VERSION"),
        body.len()
    );
    let (status, text) =
        exchange(&mut stream, &[head.as_bytes(), body].concat(), until).map_err(|why| match why.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                format!("it does not answer within {} seconds", EXCHANGE.as_secs())
            }
            _ => why.to_string(),
        })?;
    match status {
        200..=299 => Ok(()),
        _ => Err(format!("it answers {status}: {text:?}")),
    }
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
    for address in address.to_socket_addrs()?.take(ADDRESSES_MAX) {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => return Ok(stream),
            Err(why) => last = why,
        }
    }
    Err(last)
}

fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Sends a request, and gives the status of the answer with a piece of its text.
fn exchange(stream: &mut TcpStream, mut request: &[u8], until: Instant) -> io::Result<(u16, String)> {
    while !request.is_empty() {
        // A collector that reads a byte now and then gets no more time than one that reads none.
        stream.set_write_timeout(Some(left(until)?))?;
        let sent = stream.write(request)?;
        if sent == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
        request = &request[sent..];
    }
    let mut answer = Vec::new();
    let mut room = [0; 1024];
    while answer.len() < ANSWER_BYTES_MAX {
        stream.set_read_timeout(Some(left(until)?))?;
        match stream.read(&mut room) {
            Ok(0) => break,
            Ok(read) => answer.extend_from_slice(&room[..read]),
            // It said enough before.
            Err(_) if status(&answer).is_some() => break,
            Err(why) => return Err(why),
        }
        if status(&answer).is_some_and(|status| (200..300).contains(&status)) {
            break;
        }
    }
    let nonsense = || io::Error::new(ErrorKind::InvalidData, "it answers something that is not HTTP");
    let status = status(&answer).ok_or_else(nonsense)?;
    let text = String::from_utf8_lossy(&answer);
    let text = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok((status, text.chars().take(200).collect()))
}

/// The status in the first line of an answer, if that line is there and is one.
fn status(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\n').next().filter(|line| line.len() < answer.len())?;
    let line = std::str::from_utf8(line).ok()?.strip_prefix("HTTP/1.")?;
    line.split(' ').nth(1)?.trim().parse().ok().filter(|status| (100..600).contains(status))
}
