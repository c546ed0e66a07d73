//! Callers of a plain server: each is a thread with a connection, and one request outstanding.

use super::{read, write};
use crate::bench::figure::eve::shop::{Shopping, lock};
use hdrhistogram::Histogram;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long a reply may take.
const STALL: Duration = Duration::from_secs(60);

/// What callers saw.
pub(in super::super) struct Called {
    pub(in super::super) per_s: f64,
    /// Latency of calls that were sent and answered in the measured time, in nanoseconds.
    pub(in super::super) latency: Histogram<u64>,
}

/// When calls are measured.
#[derive(Clone, Copy)]
struct Window {
    from: Instant,
    to: Instant,
}

/// Calls a server from so many threads. `at` is told when the measured time begins and ends.
pub(in super::super) fn call(
    server: SocketAddr,
    callers: usize,
    (warm, measure): (Duration, Duration),
    shopping: &mut Shopping,
    at: &mut dyn FnMut(),
) -> Outcome<Called> {
    let from = Instant::now() + warm;
    let window = Window { from, to: from + measure };
    let shared = Mutex::new(shopping);
    let all = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..callers)
            .map(|caller| {
                let shared = &shared;
                scope.spawn(move || one(server, caller, shared, window))
            })
            .collect();
        for moment in [window.from, window.to] {
            std::thread::sleep(moment.saturating_duration_since(Instant::now()));
            at();
        }
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(Failure::new("a caller ended with a panic")))
        };
        threads.into_iter().map(join).collect::<Outcome<Vec<(u64, Histogram<u64>)>>>()
    })?;
    let count: u64 = all.iter().map(|(count, _)| count).sum();
    let mut latency = none()?;
    for (_, one) in &all {
        latency.add(one).map_err(|why| Failure::new(format!("no histogram: {why}")))?;
    }
    Ok(Called { per_s: count as f64 / measure.as_secs_f64(), latency })
}

fn none() -> Outcome<Histogram<u64>> {
    Histogram::new(3).map_err(|why| Failure::new(format!("no histogram: {why}")))
}

/// How many calls of one caller were answered in the window, and how long they took.
fn one(
    server: SocketAddr,
    caller: usize,
    shopping: &Mutex<&mut Shopping>,
    window: Window,
) -> Outcome<(u64, Histogram<u64>)> {
    let doing = "call a server";
    let mut socket = TcpStream::connect(server).doing(doing)?;
    socket.set_nodelay(true).doing(doing)?;
    socket.set_read_timeout(Some(STALL)).doing(doing)?;
    let (mut count, mut latency) = (0, none()?);
    loop {
        let sent = Instant::now();
        if sent >= window.to {
            return Ok((count, latency));
        }
        let command = lock(shopping).ask(caller);
        write(&mut socket, &command).doing(doing)?;
        let reply = read(&mut socket).doing(doing)?;
        let now = Instant::now();
        lock(shopping).take(caller, &reply)?;
        if (window.from..window.to).contains(&now) {
            count += 1;
            if sent >= window.from {
                // The histogram grows as it must.
                let _ = latency.record((now - sent).as_nanos() as u64);
            }
        }
    }
}
