//! Who watches what: events go to the watches of their keys as they are executed; a watch that is behind reads what it lacks.
//!
//! A watch is either in step (it gets what the dispatcher hands out) or behind: a task of its own reads pages of the store, sends them
//! as fast as its client takes them, and puts it in step when nothing is missing any more. What waits for all clients together has a
//! limit in bytes; a watch that finds no room falls behind and costs nothing until its client reads on. So a slow client
//! never holds up a write, another client, or memory, and no event is lost or sent twice.
//! Tests: `tests/watch.rs`.

use crate::backend::Backend;
use crate::errors::Refusal;
use crate::framing::{Message, framed};
use crate::header::Header;
use crate::hub::Hub;
use bytes::Bytes;
use quorate_etcd::{EtcdError, EventsPage, EventsQuery, LiveEvents, Query, Wants, proto};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Semaphore, mpsc};

/// What waits for all clients that watch, in KiB.
const BUDGET_KIB: usize = 64 << 10;
/// What was handed out last is kept for watches that are nearly in step.
const RECENT_BYTES_MAX: usize = 4 << 20;
/// A response to a watch that takes fragments is about so long.
const FRAGMENT_BYTES: usize = 1 << 20;
/// So many watches that are behind read at once.
const READS_MAX: usize = 8;
/// When to read again after it failed.
const AGAIN: Duration = Duration::from_millis(100);
/// How often a watch that wants it is told how far it is when nothing happens, as in etcd.
const PROGRESS: Duration = Duration::from_secs(600);

/// A client's stream of responses.
#[derive(Clone)]
pub(crate) struct Stream {
    pub(crate) sender: mpsc::Sender<Result<Message, Refusal>>,
    pub(crate) number: u64,
}

/// What one watch is about.
#[derive(Clone)]
pub(crate) struct Watch {
    pub(crate) stream: Stream,
    pub(crate) id: i64,
    pub(crate) key: Bytes,
    pub(crate) range_end: Bytes,
    pub(crate) no_put: bool,
    pub(crate) no_delete: bool,
    pub(crate) prev_kv: bool,
    pub(crate) fragment: bool,
    pub(crate) progress_notify: bool,
}

impl Watch {
    fn query(&self, revision: i64, sub: u32) -> EventsQuery<'_> {
        EventsQuery {
            revision,
            sub,
            no_put: self.no_put,
            no_delete: self.no_delete,
            prev_kv: self.prev_kv,
            key: &self.key,
            range_end: &self.range_end,
        }
    }

    const fn takes(&self, deletes: bool) -> bool {
        if deletes { !self.no_delete } else { !self.no_put }
    }

    const fn needs(&self) -> Wants {
        if self.prev_kv { Wants::EventsAndBefore } else { Wants::Events }
    }
}

const fn covers(events: Wants, needs: Wants) -> bool {
    matches!((events, needs), (Wants::EventsAndBefore, _) | (Wants::Events, Wants::Events))
}

/// All watches of a front. Clones share everything.
#[derive(Clone)]
pub(crate) struct Watchers {
    hub: Hub,
    backend: Backend,
    header: Arc<Header>,
    room: Arc<Semaphore>,
    /// Reads of watches that are behind, at once: so many of them are no burden to the replica.
    reads: Arc<Semaphore>,
    state: Arc<Mutex<State>>,
}

/// Number of a stream, and of a watch in it.
type Name = (u64, i64);

#[derive(Default)]
struct State {
    /// All, in step or not.
    watches: BTreeMap<Name, Arc<Watch>>,
    /// Those in step, and the revision from which on each wants events.
    in_step: HashMap<Name, i64>,
    by_key: HashMap<Bytes, Vec<Name>>,
    ranges: Vec<Name>,
    /// Handed out up to this revision.
    revision: i64,
    recent: VecDeque<Arc<LiveEvents>>,
    recent_bytes: usize,
    with_before: usize,
    /// Streams that asked how far they are while a watch was behind.
    asked: HashSet<u64>,
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

    /// The newest revision here; asks when nothing was executed yet.
    pub(crate) async fn revision(&self) -> Result<i64, Refusal> {
        if self.hub.revision() == 0 {
            let done = self.backend.look(&Query::Size).await?;
            self.hub.saw(done.revision);
        }
        Ok(self.hub.revision())
    }

    /// The newest revision that a client of this front was told of.
    pub(crate) fn told(&self) -> i64 {
        self.backend.told()
    }

    /// Begins a watch from a revision on. Its response "created" was sent before.
    pub(crate) fn add(&self, watch: Watch, from: i64) {
        let name = (watch.stream.number, watch.id);
        let watch = Arc::new(watch);
        let mut state = self.state();
        state.with_before += usize::from(watch.prev_kv);
        let first = state.watches.is_empty();
        state.watches.insert(name, watch.clone());
        let wants = if state.with_before > 0 { Wants::EventsAndBefore } else { Wants::Events };
        self.hub.want(wants);
        if first {
            // From here on everything is queued.
            state.revision = self.hub.revision();
        }
        if from > state.revision {
            state.put_in_step(name, &watch, from);
        } else {
            tokio::spawn(self.clone().catch_up(name, watch, from));
        }
    }

    /// Ends a watch; whether there was one.
    pub(crate) fn remove(&self, name: Name) -> bool {
        let mut state = self.state();
        let removed = state.forget(name);
        self.relax(&state);
        removed
    }

    /// Ends all watches of a stream.
    pub(crate) fn remove_stream(&self, stream: u64) {
        let mut state = self.state();
        let names: Vec<Name> =
            state.watches.range((stream, i64::MIN)..=(stream, i64::MAX)).map(|(name, _)| *name).collect();
        for name in names {
            state.forget(name);
        }
        state.asked.remove(&stream);
        self.relax(&state);
    }

    /// Wants no more than is needed.
    fn relax(&self, state: &State) {
        let wants = match (state.watches.is_empty(), state.with_before) {
            (true, _) => Wants::Nothing,
            (_, 0) => Wants::Events,
            _ => Wants::EventsAndBefore,
        };
        self.hub.want(wants);
    }

    pub(crate) fn has(&self, name: Name) -> bool {
        self.state().watches.contains_key(&name)
    }

    /// A stream asks how far it is: told at once if all of its watches are in step, else when they are.
    pub(crate) fn progress(&self, stream: &Stream) {
        let mut state = self.state();
        if state.is_in_step(stream.number) {
            // Without watches nothing is handed out that would count.
            let revision = if state.watches.is_empty() { self.hub.revision() } else { state.revision };
            self.tell(stream, -1, revision);
        } else {
            state.asked.insert(stream.number);
        }
    }

    /// Sends how far a watch is, if there is room.
    fn tell(&self, stream: &Stream, id: i64, revision: i64) {
        let message = response(&self.header, revision, id, |_| ());
        let _ = stream.sender.try_send(Ok(message.into()));
    }

    async fn notify(self) {
        loop {
            tokio::time::sleep(PROGRESS).await;
            let state = self.state();
            for name in state.in_step.keys() {
                if let Some(watch) = state.watches.get(name).filter(|watch| watch.progress_notify) {
                    self.tell(&watch.stream, watch.id, state.revision);
                }
            }
        }
    }

    async fn dispatch(self) {
        loop {
            self.hub.filled().await;
            while let Some(events) = self.hub.take() {
                self.hand_out(Arc::new(events));
                // Others have their turn.
                tokio::task::yield_now().await;
            }
        }
    }

    fn hand_out(&self, events: Arc<LiveEvents>) {
        let mut guard = self.state();
        let state = &mut *guard;
        if events.revision <= state.revision || state.watches.is_empty() {
            return;
        }
        if events.before != state.revision {
            // Something is missing in between: everybody reads it.
            let lacking: Vec<Name> = state.in_step.keys().copied().collect();
            let from = state.revision + 1;
            state.forget_recent();
            lacking.into_iter().for_each(|name| self.fall_behind(state, name, from));
            state.revision = events.revision;
            return;
        }
        let mut shares: BTreeMap<Name, Vec<u8>> = BTreeMap::new();
        let mut message = Vec::new();
        for event in events.iter() {
            let ranges = state.ranges.iter();
            for name in state.by_key.get(event.key).into_iter().flatten().chain(ranges) {
                let (Some(watch), Some(from)) = (state.watches.get(name), state.in_step.get(name)) else {
                    continue;
                };
                let wanted = event.revision >= *from && watch.takes(event.deletes);
                if wanted && watch.query(0, 0).covers(event.key) {
                    message.clear();
                    event.write(watch.prev_kv, &mut message);
                    proto::message_field(shares.entry(*name).or_default(), 11, &message);
                }
            }
        }
        // Events without what was before are no use to those who want it.
        let short = state.with_before > 0 && !covers(events.wants, Wants::EventsAndBefore);
        if short || events.wants == Wants::Nothing {
            let lacking = |name: &&Name| {
                state.watches.get(*name).is_some_and(|watch| !covers(events.wants, watch.needs()))
            };
            let lacking: Vec<Name> = state.in_step.keys().filter(lacking).copied().collect();
            for name in lacking {
                shares.remove(&name);
                let from = state.in_step.get(&name).copied().unwrap_or(0).max(events.before + 1);
                self.fall_behind(state, name, from);
            }
        }
        state.revision = events.revision;
        state.remember(events.clone());
        for (name, share) in shares {
            let Some(watch) = state.watches.get(&name).cloned() else { continue };
            if !self.send_now(&watch, events.revision, &share) {
                let from = state.in_step.get(&name).copied().unwrap_or(0).max(events.before + 1);
                self.fall_behind(state, name, from);
            }
        }
    }

    /// Sends events if there is room for them now.
    fn send_now(&self, watch: &Watch, revision: i64, events: &[u8]) -> bool {
        if watch.fragment && events.len() > FRAGMENT_BYTES {
            return false;
        }
        let message = response(&self.header, revision, watch.id, |out| out.extend_from_slice(events));
        let kib = (message.len() >> 10) as u32 + 1;
        let Ok(room) = self.room.clone().try_acquire_many_owned(kib.min(BUDGET_KIB as u32)) else {
            return false;
        };
        match watch.stream.sender.try_send(Ok(Message { bytes: message, room: Some(room) })) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => false,
            // Its stream ends, and with it the watch.
            Err(TrySendError::Closed(_)) => true,
        }
    }

    fn fall_behind(&self, state: &mut State, name: Name, from: i64) {
        state.take_out(name);
        if let Some(watch) = state.watches.get(&name) {
            tokio::spawn(self.clone().catch_up(name, watch.clone(), from));
        }
    }

    /// Reads and sends what a watch lacks, then puts it in step.
    async fn catch_up(self, name: Name, watch: Arc<Watch>, from: i64) {
        let (mut next, mut sub) = (from, 0);
        // Events of a revision go together.
        let mut events = Vec::new();
        loop {
            if !self.still(name, &watch) || watch.stream.sender.is_closed() {
                return;
            }
            let Ok(turn) = self.reads.acquire().await else { return };
            let done = self.backend.look(&Query::Events(watch.query(next, sub))).await;
            drop(turn);
            let done = match done {
                Ok(done) => done,
                Err(refusal) if refusal == EtcdError::Compacted.into() => {
                    return self.compacted(name, &watch).await;
                }
                Err(_) => {
                    tokio::time::sleep(AGAIN).await;
                    continue;
                }
            };
            let Some(page) = EventsPage::decode(done.revision, &done.body) else { return };
            events.extend_from_slice(page.events);
            (next, sub) = (page.next_revision, page.next_sub);
            if sub != 0 && !(watch.fragment && events.len() > FRAGMENT_BYTES) {
                continue;
            }
            if !events.is_empty() && !self.send(&watch, page.revision, &events, sub != 0).await {
                return;
            }
            events.clear();
            if next > page.revision && self.join(name, &watch, next) {
                return;
            }
        }
    }

    /// Whether that very watch was not ended meanwhile.
    fn still(&self, name: Name, watch: &Arc<Watch>) -> bool {
        self.state().watches.get(&name).is_some_and(|known| Arc::ptr_eq(known, watch))
    }

    /// Sends events when there is room; `false` when nobody takes them any more.
    async fn send(&self, watch: &Watch, revision: i64, events: &[u8], more: bool) -> bool {
        let message = response(&self.header, revision, watch.id, |out| {
            proto::flag_field(out, 7, more);
            out.extend_from_slice(events);
        });
        let kib = (message.len() >> 10) as u32 + 1;
        let room = self.room.clone().acquire_many_owned(kib.min(BUDGET_KIB as u32)).await.ok();
        watch.stream.sender.send(Ok(Message { bytes: message, room })).await.is_ok()
    }

    /// Puts a watch in step if all that it lacks was handed out a moment ago, and sends that; `false` if it must read on.
    fn join(&self, name: Name, watch: &Arc<Watch>, next: i64) -> bool {
        let mut state = self.state();
        if !state.watches.get(&name).is_some_and(|known| Arc::ptr_eq(known, watch)) {
            return true;
        }
        if next <= state.revision {
            let Some(share) = state.recent_for(watch, next) else { return false };
            if !share.is_empty() && !self.send_now(watch, state.revision, &share) {
                return false;
            }
        }
        state.put_in_step(name, watch, next);
        if state.asked.contains(&name.0) && state.is_in_step(name.0) {
            state.asked.remove(&name.0);
            self.tell(&watch.stream, -1, state.revision);
        }
        true
    }

    /// What the watch wants to see is compacted: it ends.
    async fn compacted(&self, name: Name, watch: &Watch) {
        self.remove(name);
        let size = self.backend.look(&Query::Size).await;
        let (revision, compacted) = match &size {
            Ok(done) => {
                let mut body: &[u8] = &done.body;
                let _ = (proto::read_number(&mut body), proto::read_number(&mut body));
                (done.revision, proto::read_number(&mut body).unwrap_or(0) as i64)
            }
            Err(_) => (self.hub.revision(), 0),
        };
        let message = response(&self.header, revision, watch.id, |out| {
            proto::flag_field(out, 4, true);
            proto::int_field(out, 5, compacted);
        });
        let _ = watch.stream.sender.send(Ok(message.into())).await;
    }
}

impl State {
    fn put_in_step(&mut self, name: Name, watch: &Watch, from: i64) {
        self.in_step.insert(name, from);
        if watch.range_end.is_empty() {
            self.by_key.entry(watch.key.clone()).or_default().push(name);
        } else {
            self.ranges.push(name);
        }
    }

    fn take_out(&mut self, name: Name) {
        if self.in_step.remove(&name).is_none() {
            return;
        }
        let Some(watch) = self.watches.get(&name) else { return };
        if !watch.range_end.is_empty() {
            self.ranges.retain(|other| *other != name);
        } else if let Some(names) = self.by_key.get_mut(&watch.key) {
            names.retain(|other| *other != name);
            if names.is_empty() {
                self.by_key.remove(&watch.key);
            }
        }
    }

    fn forget(&mut self, name: Name) -> bool {
        self.take_out(name);
        let Some(watch) = self.watches.remove(&name) else { return false };
        self.with_before -= usize::from(watch.prev_kv);
        if self.watches.is_empty() {
            self.forget_recent();
        }
        true
    }

    fn is_in_step(&self, stream: u64) -> bool {
        let mut own = self.watches.range((stream, i64::MIN)..=(stream, i64::MAX));
        own.all(|(name, _)| self.in_step.contains_key(name))
    }

    fn remember(&mut self, events: Arc<LiveEvents>) {
        self.recent_bytes += events.byte_len();
        self.recent.push_back(events);
        while self.recent_bytes > RECENT_BYTES_MAX {
            let Some(oldest) = self.recent.pop_front() else { return };
            self.recent_bytes -= oldest.byte_len();
        }
    }

    fn forget_recent(&mut self) {
        self.recent.clear();
        self.recent_bytes = 0;
    }

    /// The events for a watch from this revision on, if all of them are kept.
    fn recent_for(&self, watch: &Watch, next: i64) -> Option<Vec<u8>> {
        if self.recent.front().is_none_or(|oldest| oldest.before >= next) {
            return None;
        }
        let (mut share, mut message) = (Vec::new(), Vec::new());
        let query = watch.query(0, 0);
        for events in self.recent.iter().filter(|events| events.revision >= next) {
            if !covers(events.wants, watch.needs()) {
                return None;
            }
            for event in events.iter() {
                if event.revision >= next && watch.takes(event.deletes) && query.covers(event.key) {
                    message.clear();
                    event.write(watch.prev_kv, &mut message);
                    proto::message_field(&mut share, 11, &message);
                }
            }
        }
        Some(share)
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
