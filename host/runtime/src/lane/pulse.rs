//! Heartbeats of a lane that executes for long.
//!
//! A command may take long, and the lane that executes it hears and says nothing meanwhile. The others would think that the leader is gone.
//! So the lane lends its connections to a thread for the part of a turn in which it executes. If the turn goes on, the thread repeats the
//! last heartbeats on them. Besides, it tells what takes long (`long.rs`). A lane whose turns are short never notices that thread.
//!
//! It repeats heartbeats for [`LIMIT`] at most: a command that takes longer may never end, and another replica may do better.
//! Tests: `pulse/tests.rs`, host/quorate/tests/all/long_commands.rs.

use super::long::{Long, Watcher};
use crate::connection::Connection;
use quorate_types::{ConnId, Span, Time};
use quorate_wire::OutFrame;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// For how long heartbeats of one turn are repeated.
const LIMIT: Duration = Duration::from_secs(30);
/// The shortest time between two looks.
const LOOK_MIN: Duration = Duration::from_millis(5);

/// The connections of a lane, by their numbers.
type Connections = BTreeMap<ConnId, Connection>;

/// The thread, and what it shares with the lane.
pub(super) struct Pulse {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// How often the lane asks its node for heartbeats.
    every: Span,
    /// When it does so next.
    due: Time,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Tells the thread to end.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    /// The connections, while they are lent.
    lent: Option<Connections>,
    /// How often they were lent.
    times: u64,
    /// The heartbeats.
    beats: Vec<(ConnId, OutFrame)>,
    ends: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pulse {
    /// Starts the thread. `heartbeat` is the time between two heartbeats of a leader.
    ///
    /// # Errors
    /// The error of the system.
    pub(super) fn start(heartbeat: Span, long: Long) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let look = Duration::from_nanos(heartbeat.nanos() / 2).max(LOOK_MIN);
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new()
            .name("pulse".into())
            .spawn(move || watch(&of_thread, look, Watcher::new(long)))?;
        Ok(Self { shared, thread: Some(thread), every: heartbeat, due: Time::ZERO })
    }

    /// Whether the lane should ask its node for heartbeats now.
    pub(super) fn wants(&mut self, now: Time) -> bool {
        // The clock may have jumped back.
        let wants = now >= self.due || self.due > now.plus(self.every);
        if wants {
            self.due = now.plus(self.every);
        }
        wants
    }

    /// Others lead now: the heartbeats of before are wrong.
    pub(super) fn renew(&mut self) {
        self.due = Time::ZERO;
    }

    /// The heartbeats to repeat from now on.
    pub(super) fn set(&self, beats: Vec<(ConnId, OutFrame)>) {
        self.shared.lock().beats = beats;
    }

    /// Lends the connections.
    pub(super) fn lend(&self, connections: &mut Connections) {
        let mut state = self.shared.lock();
        state.times += 1;
        state.lent = Some(std::mem::take(connections));
    }

    /// Takes the connections back.
    pub(super) fn take_back(&self, connections: &mut Connections) {
        *connections = self.shared.lock().lent.take().unwrap_or_default();
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.shared.lock().ends = true;
        self.shared.ended.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Looks again and again whether the same turn still goes on.
fn watch(shared: &Shared, look: Duration, mut watcher: Watcher) {
    let (mut seen, mut since) = (0, Instant::now());
    let mut state = shared.lock();
    while !state.ends {
        if state.lent.is_none() || state.times != seen {
            (seen, since) = (state.times, Instant::now());
        } else if since.elapsed() < LIMIT {
            beat(&mut state);
        }
        if let Some(text) = watcher.look(Instant::now()) {
            tracing::warn!("{text}");
        }
        state = shared.ended.wait_timeout(state, look).unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Repeats the heartbeats. Where earlier bytes still wait, the other side has something to hear anyway. A connection that breaks here is
/// noticed by its lane.
fn beat(state: &mut State) {
    let State { lent: Some(lent), beats, .. } = state else { return };
    for (conn, frame) in beats {
        if let Some(connection) = lent.get_mut(conn).filter(|connection| connection.out_bytes() == 0) {
            connection.send(frame.clone());
            let _ = connection.write();
        }
    }
}
