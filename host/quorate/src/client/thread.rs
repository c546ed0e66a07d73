//! The thread of one or many clients: one mio loop for all their connections.
//!
//! It sleeps until something arrives, then every client has its turn. Callers wake it only if it sleeps, or is about to: one wake-up per
//! burst.

use super::driver::{CONN_BITS, Driver, Handle};
use super::replies::Outlets;
use super::tls::ClientTls;
use mio::{Events, Poll, Token, Waker};
use quorate_client::Config;
use quorate_types::{ReplicaId, Time};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The token of the waker. Connections are numbered from 1.
const WAKER: Token = Token(0);

/// Wakes the thread.
#[derive(Debug)]
pub(super) struct Wake {
    /// Set while the thread will check the queues before it sleeps.
    awake: AtomicBool,
    waker: Waker,
    /// The zero of its clock.
    pub(super) start: Instant,
}

impl Wake {
    /// Wakes the thread that waits with `poll`.
    pub(super) fn new(poll: &Poll) -> io::Result<Self> {
        let waker = Waker::new(poll.registry(), WAKER)?;
        Ok(Self { awake: AtomicBool::new(true), waker, start: Instant::now() })
    }

    /// Wakes the thread, since something was queued.
    pub(super) fn up(&self) {
        if !self.awake.swap(true, Ordering::SeqCst)
            && let Err(error) = self.waker.wake()
        {
            tracing::error!(%error, "the client's thread can not be woken");
        }
    }

    fn now(&self) -> Time {
        let nanos = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Time::from_nanos(nanos.saturating_add(1))
    }
}

/// Starts a thread with a client for each of these configurations, which have the same members and certificates.
pub(super) fn start(
    configs: Vec<Config>,
    members: &[(ReplicaId, String)],
    tls: Option<&ClientTls>,
    outlets: &Outlets,
) -> io::Result<Vec<Arc<Handle>>> {
    let poll = Poll::new()?;
    let wake = Arc::new(Wake::new(&poll)?);
    let (mut drivers, mut handles) = (Vec::new(), Vec::new());
    for (index, config) in configs.into_iter().enumerate() {
        let place = (poll.registry().try_clone()?, index, Arc::clone(&wake));
        let (driver, handle) = Driver::new(config, members.to_vec(), tls.cloned(), place, outlets.clone());
        drivers.push(Some(driver));
        handles.push(handle);
    }
    quorate_tls::start_thread("quorate-client", move || run(poll, &wake, drivers))?;
    Ok(handles)
}

fn run(mut poll: Poll, wake: &Wake, mut drivers: Vec<Option<Driver>>) {
    let mut events = Events::with_capacity(256);
    while drivers.iter().any(Option::is_some) {
        // Announced before the queues are checked: a caller that queues something from here on wakes this thread.
        wake.awake.store(false, Ordering::SeqCst);
        let timeout = sleep_for(wake, &drivers);
        if let Err(error) = poll.poll(&mut events, timeout)
            && error.kind() != io::ErrorKind::Interrupted
        {
            tracing::error!(%error, "the client's thread can not wait for its sockets and ends");
            return;
        }
        wake.awake.store(true, Ordering::SeqCst);
        let now = wake.now();
        drivers.iter_mut().flatten().for_each(|driver| driver.begin_turn(now));
        for event in events.iter().filter(|event| event.token() != WAKER) {
            if let Some(Some(driver)) = drivers.get_mut(event.token().0 >> CONN_BITS) {
                driver.on_event(now, event);
            }
        }
        for place in &mut drivers {
            if let Some(driver) = place {
                driver.end_turn(now);
                if driver.ended() {
                    *place = None;
                }
            }
        }
    }
}

fn sleep_for(wake: &Wake, drivers: &[Option<Driver>]) -> Option<Duration> {
    if drivers.iter().flatten().any(Driver::is_busy) {
        return Some(Duration::ZERO);
    }
    let now = wake.now();
    drivers.iter().flatten().filter_map(|driver| driver.sleep_for(now)).min()
}
