//! A lane beside the main one. It has the connections of some instances, to replicas and clients: it decrypts and encrypts, cuts the bytes
//! into frames, decides which connection is read next, and gives the frames of a turn to the main lane, which has the node. Frames of the
//! main lane come back the same way. Connections begin on the main lane, which identifies them; it moves them here, and from here to other
//! lanes.
//!
//! In a staged replica the connections are on some of these lanes and the pillars on another one, which takes what they read (`relay.rs`).
//!
//! Queues are bounded in bytes. While the main lane has more than [`CLIENT_BYTES`] of this lane's input to work off, clients are not read,
//! and beyond [`ANY_BYTES`] no connection is. While this lane has too much to send, the main lane takes nothing from it (`neighbor.rs`).
//! Tests: `queue/tests.rs`, `side/tests.rs`, host/runtime/tests/all/lanes.rs, front/cli/tests/hurt/kills.rs; check/sim has lanes of its own.

use super::WAKER;
use super::neighbor::{Joints, Neighbor};
use super::pace::idle_since;
use super::pillars::{Pillars, Post};
use super::queue::{Inlet, Outlet, Sleeper};
use super::sockets::{Core, Sockets};
use crate::connection::Connection;
use mio::Events;
use quorate_node::{ConnClass, Effect, Inbox, Input};
use quorate_types::{ConnId, InstanceId, ReplicaId, Time};
use quorate_wire::OutFrame;
use serde::Serialize;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
use std::thread::JoinHandle;
use std::time::Duration;

/// While the main lane has not worked off this many bytes of a lane, the lane's clients are not read.
pub(super) const CLIENT_BYTES: usize = 4 << 20;
/// The same for all of its connections: replicas send more than a window only if a lane can not keep up.
pub(super) const ANY_BYTES: usize = 32 << 20;
/// The bytes that every item counts on top of its payload.
pub(super) const WORD_BYTES: usize = 64;

/// What a lane tells the main lane.
pub(crate) enum Up {
    /// Something happened to one of its connections.
    Input(Input),
    /// Gives back a connection that the main lane asked for.
    Back(ConnId, Box<Connection>),
    /// Pillars had turns, and their reports wait.
    Turned,
    /// The pillar of this instance has no more turns here. Its next one may be due at another time than its new lane knows.
    Without(InstanceId),
    /// A pillar sends a frame over a connection that another lane has.
    Send(ConnId, OutFrame),
}

/// What the main lane tells another lane.
pub(crate) enum Down {
    Send(ConnId, OutFrame),
    /// Send a pillar's frame. If the connection is not here, the main lane knows where it is.
    Pass(ConnId, OutFrame),
    Close(ConnId),
    /// Take this connection.
    Take(ConnId, Box<Connection>),
    /// Give this connection back.
    GiveBack(ConnId),
    /// Take this pillar.
    Pillar(Arc<Post>),
    /// Give this pillar no more turns: another lane has it.
    Without(Arc<Post>),
    /// Give a turn to the pillar of this instance.
    Run(InstanceId),
}

/// State that both lanes read.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Whether the node takes more from clients that send much, without and with contention, as bits.
    takes: AtomicU8,
    /// The lane waits until more of its input is taken.
    pub(super) waits: AtomicBool,
    /// How much of what this lane passed on the main lane has heard, and sent to pillars what follows from it.
    heard: AtomicU64,
    /// In a staged replica: the bytes that wait for the main lane at the lane that takes this one's input.
    pub(super) ahead: AtomicUsize,
    /// A lane that sends frames to this one waits until it has taken them.
    pub(super) held: AtomicBool,
    stop: AtomicBool,
    connections: AtomicUsize,
    buffer_bytes: AtomicUsize,
    slow_readers: AtomicUsize,
    cut: AtomicU64,
    member_bytes: AtomicU64,
    busy: AtomicU64,
    /// When that was measured.
    measured: AtomicU64,
}

impl Shared {
    pub(super) fn new() -> Self {
        Self { takes: AtomicU8::new(3), ..Self::default() }
    }
}

/// The part of the status about a lane.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct LaneStatus {
    /// Its number, from 1.
    pub(super) lane: u16,
    /// In a staged replica: the step of the work that it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) step: Option<&'static str>,
    /// Connections on it.
    pub(super) connections: usize,
    /// Thousandths of its time in which it worked lately.
    pub(super) busy: u64,
    /// Bytes that it sent to members since the start of the process.
    pub(super) member_bytes: u64,
    /// Bytes that it read and that the main lane has not worked off.
    pub(super) waiting_bytes: usize,
    /// The links whose connections it has, and whose pillars if pillars have lanes.
    pub(super) links: Vec<u16>,
}

/// The main lane's end of another lane. Dropping it stops and joins the lane.
pub(crate) struct Side {
    pub(super) lane: u16,
    neighbor: Neighbor,
    /// How much of what the lane passed on was taken.
    heard: u64,
    thread: Option<JoinHandle<()>>,
}

impl Side {
    /// Starts a lane's thread. The thread holds `watch`, which reports a panic when it is dropped.
    pub(super) fn start<W: Send + 'static>(
        (lane, sockets): (u16, Sockets),
        (neighbor, joints): (Neighbor, Joints),
        watch: W,
    ) -> io::Result<Self> {
        let side = SideLane::new(sockets, joints);
        let run = move || {
            let _watch = watch;
            side.run();
        };
        let thread = quorate_tls::start_thread(&format!("lane-{}", lane + 1), run)?;
        Ok(Self { lane, neighbor, heard: 0, thread: Some(thread) })
    }

    pub(super) fn put(&mut self, word: Down) {
        self.neighbor.put(word);
    }

    /// Sends the added items.
    pub(super) fn flush(&mut self) {
        self.neighbor.flush();
    }

    /// Whether little enough waits for the lane that the main lane may take more.
    pub(super) fn has_room(&self) -> bool {
        self.neighbor.has_room()
    }

    /// The number of pieces that came from the lane.
    pub(super) fn pieces(&self) -> usize {
        self.neighbor.pieces()
    }

    /// The next piece.
    pub(super) fn take(&mut self) -> Option<Vec<Up>> {
        self.neighbor.take()
    }

    /// Notes that something which the lane passed on was taken.
    pub(super) fn heard(&mut self) {
        self.heard += 1;
    }

    /// Notes that a piece is worked off.
    pub(super) fn done(&mut self) {
        self.neighbor.worked_off();
    }

    /// Tells the lane how much the node takes, and what of the lane it has heard. Wakes the lane if it waits for that.
    pub(super) fn tell(&self, takes: u8) {
        let shared = &self.neighbor.shared;
        shared.heard.store(self.heard, Ordering::Release);
        shared.takes.store(takes, Ordering::SeqCst);
        self.neighbor.goes_on();
    }

    /// The thousandths of its time in which it worked lately. A lane that sleeps has not worked since it measured itself.
    pub(super) fn busy(&self, now: Time) -> u64 {
        let (busy, at) = (&self.neighbor.shared.busy, &self.neighbor.shared.measured);
        let busy = busy.load(Ordering::Relaxed);
        let since = Time::from_nanos(at.load(Ordering::Relaxed));
        if self.neighbor.is_asleep() { idle_since(busy, now.since(since)) } else { busy }
    }

    pub(super) fn status(&self, now: Time) -> LaneStatus {
        LaneStatus {
            lane: self.lane + 1,
            connections: self.neighbor.shared.connections.load(Ordering::Relaxed),
            busy: self.busy(now),
            member_bytes: self.neighbor.shared.member_bytes.load(Ordering::Relaxed),
            waiting_bytes: self.neighbor.waiting_bytes(),
            ..LaneStatus::default()
        }
    }

    /// What its connections hold: bytes, slow readers, disconnected clients.
    pub(super) fn holds(&self) -> (usize, usize, u64) {
        let Shared { buffer_bytes, slow_readers, cut, .. } = &*self.neighbor.shared;
        (
            buffer_bytes.load(Ordering::Relaxed),
            slow_readers.load(Ordering::Relaxed),
            cut.load(Ordering::Relaxed),
        )
    }

    /// Tells the lane to send what it has, and to end.
    pub(super) fn stop(&mut self) {
        self.neighbor.flush();
        self.neighbor.shared.stop.store(true, Ordering::SeqCst);
        self.neighbor.wake();
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Where the input of a lane goes: to its pillars, and what they do not take to the main lane. In a staged replica the pillars are on another
/// lane.
pub(super) struct Away {
    pub(super) up: Outlet<Up>,
    pub(super) shared: Arc<Shared>,
    /// Another lane takes the input first.
    relayed: bool,
    pillars: Pillars,
    pub(super) inbox: Inbox,
    /// What follows what is in the inbox.
    pub(super) later: Vec<Up>,
}

impl Away {
    /// Passes on to the main lane what the pillars left.
    fn pass_on(&mut self) {
        for input in self.inbox.pass_on() {
            put_input(&mut self.up, input);
        }
        for word in self.later.drain(..) {
            let bytes = if let Up::Send(_, frame) = &word { frame.len() } else { 0 };
            self.up.put(word, bytes + WORD_BYTES);
        }
    }

    /// The bytes that the main lane has not worked off.
    pub(super) fn bytes(&self) -> usize {
        let ahead = self.shared.ahead.load(Ordering::SeqCst);
        self.up.bytes() + self.inbox.bytes() + self.pillars.unheard() + ahead
    }

    /// Gives turns to the pillars. The main lane gets what they do not take.
    fn give_turns(&mut self, now: Time) {
        // Before mail is taken: what follows from what the main lane has heard is in it.
        self.inbox.heard(self.shared.heard.load(Ordering::Acquire));
        if self.pillars.turn(now, &mut self.inbox) {
            self.up.put(Up::Turned, WORD_BYTES);
        }
        self.pass_on();
    }
}

fn put_input(up: &mut Outlet<Up>, input: Input) {
    let bytes = match &input {
        Input::Frame { frame, .. } => frame.payload.len(),
        _ => 0,
    };
    up.put(Up::Input(input), bytes + WORD_BYTES);
}

impl Core for Away {
    fn take(&mut self, _: Time, input: Input) {
        if self.relayed {
            // The inbox of the lane that takes it counts what the main lane has heard.
            put_input(&mut self.up, input);
        } else {
            self.inbox.put(input);
        }
    }

    fn frame_limit(&self, _: ConnId) -> Option<u32> {
        None
    }

    fn takes_more(&self, contended: bool) -> bool {
        let bit = 1 << u8::from(contended);
        self.shared.takes.load(Ordering::SeqCst) & bit != 0 && self.bytes() < CLIENT_BYTES
    }

    fn takes_any(&self) -> bool {
        self.bytes() < ANY_BYTES
    }

    fn class(&self, _: ConnId) -> ConnClass {
        ConnClass::Stranger
    }

    // The main lane identifies both sides before a connection comes here.
    fn member(&self, _: ConnId) -> Option<ReplicaId> {
        None
    }

    // What a message costs shows on the main lane only.
    fn suspects(&self, _: Time, _: ConnId) -> bool {
        false
    }
}

pub(super) struct SideLane {
    sockets: Sockets,
    pub(super) away: Away,
    words: Vec<Inlet<Down>>,
    sleeper: Sleeper,
    above: Vec<Sleeper>,
    /// The lanes whose input this one takes before the main lane.
    pub(super) readers: Vec<Neighbor>,
    /// The bytes that wait for the main lane, as those lanes were told.
    pub(super) told: usize,
}

impl SideLane {
    pub(super) fn new(sockets: Sockets, joints: Joints) -> Self {
        let Joints { up, words, above, shared, sleeper, readers, relayed } = joints;
        let (pillars, inbox) = (Pillars::default(), Inbox::default());
        let away = Away { up, shared, relayed, pillars, inbox, later: Vec::new() };
        Self { sockets, away, words, sleeper, above, readers, told: 0 }
    }

    fn run(mut self) {
        let mut events = Events::with_capacity(256);
        while !self.away.shared.stop.load(Ordering::SeqCst) {
            let mut timeout = self.timeout();
            let began = self.sockets.clock.now();
            self.sleeper.dozes();
            if self.have_something() || self.may_read_now() || self.readers_may_go_on() {
                timeout = Some(Duration::ZERO);
            }
            if let Err(error) = self.sockets.poll.poll(&mut events, timeout)
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!("waiting for events: {error}");
                std::thread::sleep(Duration::from_millis(10));
            }
            self.sleeper.woke();
            let woke = self.sockets.clock.now();
            self.turn(&events);
            self.sockets.pace.turned(began, woke, self.sockets.clock.now());
            self.publish();
        }
        self.hear(self.sockets.clock.now());
        self.sockets.linger();
    }

    /// Whether another lane has sent something; asked when the lane is about to sleep.
    fn have_something(&self) -> bool {
        let told = self.words.iter().any(|words| !words.is_empty());
        told || self.away.shared.stop.load(Ordering::SeqCst) || self.readers_have_something()
    }

    fn timeout(&self) -> Option<Duration> {
        let now = self.sockets.clock.now();
        let of_sockets = self.sockets.look_at_slow().into_iter().chain(self.sockets.holds_until());
        let of_sockets = of_sockets.chain(self.sockets.rejoins_at());
        let due = of_sockets.chain(self.away.pillars.due()).min();
        let wait = due.map(|at| Duration::from_nanos(at.since(now).nanos()));
        wait.into_iter().chain(self.sockets.reads_in(&self.away)).min()
    }

    /// Announces that the lane waits for room, if connections have bytes to read and there is none. Says whether there is room by now.
    fn may_read_now(&self) -> bool {
        let (any, heavy) = (!self.sockets.first.is_empty(), self.sockets.fair.has_heavy());
        let stuck = || {
            let contended = self.sockets.fair.is_contended(self.sockets.clock.now());
            (any || heavy) && !self.away.takes_any() || heavy && !self.away.takes_more(contended)
        };
        if !stuck() {
            return false;
        }
        self.away.shared.waits.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        !stuck()
    }

    pub(super) fn turn(&mut self, events: &Events) {
        let now = self.sockets.clock.now();
        self.sockets.busy = false;
        for event in events.iter().filter(|event| event.token() != WAKER) {
            self.sockets.on_event(now, event, &mut self.away);
        }
        self.hear(now);
        self.hear_readers();
        self.sockets.read_all(now, &mut self.away);
        let now = self.sockets.clock.now();
        self.sockets.end_closing(now);
        self.sockets.relieve(now, &mut self.away);
        self.sockets.let_go(&mut self.away);
        self.sockets.rejoin(now, &mut self.away);
        self.give_turns(now);
        self.away.up.flush();
        self.tell_readers();
    }

    /// Gives turns to the pillars, and sends what they want sent.
    fn give_turns(&mut self, now: Time) {
        self.away.give_turns(now);
        let mut written: Vec<ConnId> = Vec::new();
        let mut effects = std::mem::take(&mut self.away.pillars.effects);
        for effect in effects.drain() {
            let Effect::Send { conn, frame } = effect else { continue };
            if let Some(frame) = self.sockets.send(conn, frame, &mut written) {
                self.send_away(conn, frame);
            }
        }
        self.away.pillars.effects = effects;
        self.sockets.write_all(now, written, &mut self.away);
        // Connections may have broken just now.
        self.away.pass_on();
    }

    /// Carries out what other lanes say.
    fn hear(&mut self, now: Time) {
        let mut written = Vec::new();
        let mut pieces = VecDeque::new();
        for inlet in &self.words {
            while let Some((words, bytes)) = inlet.take() {
                // From here on it is counted with the connections.
                inlet.done(bytes);
                pieces.extend(words);
            }
        }
        if pieces.is_empty() {
            return;
        }
        for word in pieces {
            match word {
                Down::Send(conn, frame) => drop(self.sockets.send(conn, frame, &mut written)),
                Down::Pass(conn, frame) => {
                    if let Some(frame) = self.sockets.send(conn, frame, &mut written) {
                        let bytes = frame.len();
                        self.away.up.put(Up::Send(conn, frame), bytes + WORD_BYTES);
                    }
                }
                Down::Close(conn) => {
                    self.sockets.close(now, conn);
                    written.push(conn);
                }
                Down::Take(conn, connection) => {
                    if self.sockets.receive(now, conn, *connection, &mut self.away) {
                        written.push(conn);
                    }
                }
                Down::Pillar(post) => self.away.pillars.add(post),
                Down::Without(post) => {
                    self.away.pillars.remove(&post);
                    self.away.up.put(Up::Without(post.id), WORD_BYTES);
                }
                Down::Run(id) => self.away.pillars.ask(id),
                Down::GiveBack(conn) => {
                    // Connections that ended meanwhile were reported.
                    if let Some(connection) = self.sockets.release(conn) {
                        self.away.up.put(Up::Back(conn, Box::new(connection)), WORD_BYTES);
                    }
                }
            }
        }
        self.sockets.write_all(now, written, &mut self.away);
        fence(Ordering::SeqCst);
        if self.away.shared.held.load(Ordering::SeqCst) && self.away.shared.held.swap(false, Ordering::SeqCst)
        {
            self.above.iter().for_each(Sleeper::wake);
        }
    }

    fn publish(&self) {
        let shared = &self.away.shared;
        let holds = self.sockets.buffer_status();
        shared.connections.store(self.sockets.connections.len(), Ordering::Relaxed);
        shared.buffer_bytes.store(holds.bytes, Ordering::Relaxed);
        shared.slow_readers.store(holds.slow_readers, Ordering::Relaxed);
        shared.cut.store(holds.cut, Ordering::Relaxed);
        shared.member_bytes.store(self.sockets.member_bytes, Ordering::Relaxed);
        shared.busy.store(self.sockets.pace.busy(), Ordering::Relaxed);
        shared.measured.store(self.sockets.clock.now().nanos(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
