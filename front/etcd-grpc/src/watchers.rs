//! The watches of a front: carries out what the state machine of `quorate-etcd` says, with streams, reads and limits of memory.
//!
//! [`Watches`] decides which watch gets which events and when. This module gives it what the replica executed, reads pages for watches that
//! are behind, and sends as fast as clients read. The bytes that wait for all clients together have a limit. A watch that finds no room
//! falls behind, and takes no memory until its client reads on. So a slow client delays neither writes nor other clients, and no event is
//! lost or sent twice. Tests: `tests/all/watch.rs`.

use crate::backend::Backend;
use crate::errors::Refusal;
use crate::framing::{Message, framed};
use crate::header::Header;
use crate::hub::Hub;
use bytes::Bytes;
use quorate_etcd::{
    EtcdError, EventsPage, Query, SizeNow, WatchName, WatchOutput, WatchSpec, Watches, proto,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Semaphore, mpsc};

/// The most that may wait for all watching clients together, in KiB.
const BUDGET_KIB: usize = 64 << 10;
/// How many watches that are behind may read at once.
const READS_MAX: usize = 8;
/// When to read again after it failed.
const AGAIN: Duration = Duration::from_millis(100);
/// How often an idle watch is told its progress if it wants that, as in etcd.
const PROGRESS: Duration = Duration::from_secs(600);

/// A client's stream of responses.
#[derive(Clone)]
pub(crate) struct Stream {
    pub(crate) sender: mpsc::Sender<Result<Message, Refusal>>,
    pub(crate) number: u64,
}

/// All watches of a front. Clones share everything.
#[derive(Clone)]
pub(crate) struct Watchers {
    hub: Hub,
    backend: Backend,
    header: Arc<Header>,
    room: Arc<Semaphore>,
    /// Bounds the reads of watches that are behind, to spare the replica.
    reads: Arc<Semaphore>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    watches: Watches,
    /// What each watch asked for, and where its responses go.
    outlets: HashMap<WatchName, Arc<Outlet>>,
    /// Streams that asked for their progress.
    askers: HashMap<u64, Stream>,
    /// The outputs of the last input.
    out: Vec<WatchOutput>,
}

struct Outlet {
    spec: WatchSpec,
    stream: Stream,
    id: i64,
}

impl Watchers {
    pub(crate) fn start(hub: Hub, backend: Backend, header: Arc<Header>) -> Self {
        let room = Arc::new(Semaphore::new(BUDGET_KIB));
        let reads = Arc::new(Semaphore::new(READS_MAX));
        let watchers = Self { hub, backend, header, room, reads, state: Arc::default() };
        tokio::spawn(watchers.clone().dispatch());
        tokio::spawn(watchers.clone().notify());
        watchers
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest revision here; read from the replica if nothing was executed yet.
    pub(crate) async fn revision(&self) -> Result<i64, Refusal> {
        if self.hub.revision() == 0 {
            let done = self.backend.look(&Query::Size).await?;
            self.hub.saw(done.revision);
        }
        Ok(self.hub.revision())
    }

    /// The newest revision that a client of this front was told.
    pub(crate) fn told(&self) -> i64 {
        self.backend.told()
    }

    /// Adds a watch from a revision on. Its response "created" was sent before, with the revision `shown`.
    pub(crate) fn add(&self, stream: &Stream, id: i64, spec: WatchSpec, from: i64, shown: i64) {
        let name = (stream.number, id);
        self.feed(|state| {
            state.watches.create(name, spec.clone(), shown);
            state.outlets.insert(name, Arc::new(Outlet { spec, stream: stream.clone(), id }));
            // From here on everything is queued.
            self.hub.want(state.watches.wants());
            state.watches.begin(name, from, self.hub.revision(), &mut state.out);
        });
    }

    /// Ends a watch. Says whether it existed.
    pub(crate) fn remove(&self, name: WatchName) -> bool {
        let mut state = self.state();
        let removed = state.watches.cancel(name);
        state.outlets.remove(&name);
        self.hub.want(state.watches.wants());
        removed
    }

    /// Ends all watches of a stream.
    pub(crate) fn remove_stream(&self, stream: u64) {
        let mut guard = self.state();
        let state = &mut *guard;
        state.watches.cancel_stream(stream);
        state.outlets.retain(|name, _| name.0 != stream);
        state.askers.remove(&stream);
        self.hub.want(state.watches.wants());
    }

    pub(crate) fn has(&self, name: WatchName) -> bool {
        self.state().watches.has(name)
    }

    /// A stream asks for its progress: it is told once all of its watches are in step.
    pub(crate) fn progress(&self, stream: &Stream) {
        self.feed(|state| {
            state.askers.insert(stream.number, stream.clone());
            state.watches.progress(stream.number, self.hub.revision(), &mut state.out);
        });
    }

    /// Sends a watch its progress, if there is room.
    fn tell(&self, stream: &Stream, id: i64, revision: i64) {
        let message = response(&self.header, revision, id, |_| ());
        let _ = stream.sender.try_send(Ok(message.into()));
    }

    async fn notify(self) {
        loop {
            tokio::time::sleep(PROGRESS).await;
            self.feed(|state| state.watches.notify(&mut state.out));
        }
    }

    async fn dispatch(self) {
        loop {
            self.hub.filled().await;
            while let Some(events) = self.hub.take() {
                let events = Arc::new(events);
                self.feed(|state| state.watches.executed(events, &mut state.out));
                // Others have their turn.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Gives an input to the watches, and carries out the outputs.
    fn feed(&self, input: impl FnOnce(&mut State)) {
        let mut guard = self.state();
        let state = &mut *guard;
        input(state);
        self.perform(state);
        state.watches.settled(&mut state.out);
        self.perform(state);
    }

    fn perform(&self, state: &mut State) {
        while !state.out.is_empty() {
            for output in std::mem::take(&mut state.out) {
                self.perform_one(state, output);
            }
        }
    }

    fn perform_one(&self, state: &mut State, output: WatchOutput) {
        match output {
            WatchOutput::Progress { name: (stream, -1), revision } => {
                if let Some(asker) = state.askers.remove(&stream) {
                    self.tell(&asker, -1, revision);
                }
            }
            WatchOutput::Progress { name, revision } => {
                if let Some(outlet) = state.outlets.get(&name) {
                    self.tell(&outlet.stream, name.1, revision);
                }
            }
            WatchOutput::Offer { name, revision, from, events } => {
                let Some(outlet) = state.outlets.get(&name) else { return };
                if !self.send_now(outlet, revision, &events) {
                    state.watches.no_room(name, from, &mut state.out);
                }
            }
            WatchOutput::Read { name, turn, revision, sub } => {
                let Some(outlet) = state.outlets.get(&name).cloned() else { return };
                tokio::spawn(self.clone().read(outlet, turn, revision, sub));
            }
            WatchOutput::Send { name, turn, revision, events, more } => {
                let Some(outlet) = state.outlets.get(&name).cloned() else { return };
                tokio::spawn(self.clone().send(outlet, turn, revision, events, more));
            }
            WatchOutput::Compacted { name } => {
                self.hub.want(state.watches.wants());
                let Some(outlet) = state.outlets.remove(&name) else { return };
                tokio::spawn(self.clone().compacted(outlet));
            }
        }
    }

    /// Sends events if there is room for them now.
    fn send_now(&self, outlet: &Outlet, revision: i64, events: &[u8]) -> bool {
        let message = response(&self.header, revision, outlet.id, |out| out.extend_from_slice(events));
        let kib = (message.len() >> 10) as u32 + 1;
        let Ok(room) = self.room.clone().try_acquire_many_owned(kib.min(BUDGET_KIB as u32)) else {
            return false;
        };
        match outlet.stream.sender.try_send(Ok(Message { bytes: message, room: Some(room) })) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => false,
            // Its stream ends, and with it the watch.
            Err(TrySendError::Closed(_)) => true,
        }
    }

    /// Reads a page for a watch that is behind.
    async fn read(self, outlet: Arc<Outlet>, turn: u64, revision: i64, sub: u32) {
        let name = (outlet.stream.number, outlet.id);
        loop {
            if outlet.stream.sender.is_closed() || !self.state().watches.is_open(name, turn) {
                return;
            }
            let Ok(permit) = self.reads.acquire().await else { return };
            let done = self.backend.look(&Query::Events(outlet.spec.query(revision, sub))).await;
            drop(permit);
            match done {
                Ok(done) => {
                    let Some(page) = EventsPage::decode(done.revision, &done.body) else { return };
                    return self.feed(|state| state.watches.answered(name, turn, &page, &mut state.out));
                }
                Err(refusal) if refusal == EtcdError::Compacted.into() => {
                    return self.feed(|state| state.watches.compacted(name, turn, &mut state.out));
                }
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
    }

    /// Sends events when there is room.
    async fn send(self, outlet: Arc<Outlet>, turn: u64, revision: i64, events: Vec<u8>, more: bool) {
        let message = response(&self.header, revision, outlet.id, |out| {
            proto::flag_field(out, 7, more);
            out.extend_from_slice(&events);
        });
        drop(events);
        let kib = (message.len() >> 10) as u32 + 1;
        let room = self.room.clone().acquire_many_owned(kib.min(BUDGET_KIB as u32)).await.ok();
        if outlet.stream.sender.send(Ok(Message { bytes: message, room })).await.is_ok() {
            let name = (outlet.stream.number, outlet.id);
            self.feed(|state| state.watches.sent(name, turn, &mut state.out));
        }
    }

    /// Tells a watch that it has ended, because what it wants to see is compacted.
    async fn compacted(self, outlet: Arc<Outlet>) {
        let size = self.backend.look(&Query::Size).await;
        let (revision, compacted) = match &size {
            Ok(done) => (done.revision, SizeNow::decode(&done.body).map_or(0, |size| size.compacted)),
            Err(_) => (self.hub.revision(), 0),
        };
        let message = response(&self.header, revision, outlet.id, |out| {
            proto::flag_field(out, 4, true);
            proto::int_field(out, 5, compacted);
        });
        let _ = outlet.stream.sender.send(Ok(message.into())).await;
    }
}

/// A `WatchResponse` with these fields.
pub(crate) fn response(header: &Header, revision: i64, id: i64, write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    framed(
        |out| {
            header.write(revision, out);
            proto::int_field(out, 2, id);
            write(out);
        },
        64,
    )
}
