//! Decides which watch gets which events and when: a state machine without I/O, clock or threads.
//!
//! A watch is in step or behind. In step it is offered every change as it is executed. Behind it reads pages of the store, one after the
//! other, until it misses nothing and is in step again. The driver says what was executed and what became of the outputs, and carries the
//! outputs out. Each watch has a position: the first revision that it has not seen. The position never goes back: a watch that falls behind
//! reads on from it, whether the replica missed something, installed a checkpoint, or was repaired.
//!
//! The drivers are the etcd front (`watchers.rs` there) and the simulator. docs/decisions/0026-watches-without-io.md says why this module
//! is here. Tests: `tests/all/watches.rs`, and in the simulator the checker `watches`.

use crate::events::{EventsPage, EventsQuery, LiveEvents, Wants};
use crate::proto;
use quorate_types::planted;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// How many bytes of the last changes are kept for watches that are nearly in step.
const RECENT_BYTES_MAX: usize = 4 << 20;
/// The usual size of a response to a watch that takes fragments.
const FRAGMENT_BYTES: usize = 1 << 20;

/// The number of a stream, and of a watch in it.
pub type WatchName = (u64, i64);

/// What a watch asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchSpec {
    /// The first key.
    pub key: Vec<u8>,
    /// The end of the range, as in a range request.
    pub range_end: Vec<u8>,
    /// Leave out puts.
    pub no_put: bool,
    /// Leave out deletes.
    pub no_delete: bool,
    /// Include the entries that the changes replaced.
    pub prev_kv: bool,
    /// The watch accepts the events of one revision in several responses.
    pub fragment: bool,
    /// The watch wants to be told its progress while nothing happens.
    pub progress_notify: bool,
}

impl WatchSpec {
    /// The query for events from this change on.
    pub fn query(&self, revision: i64, sub: u32) -> EventsQuery<'_> {
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

    const fn is_served_by(&self, events: Wants) -> bool {
        match events {
            Wants::Nothing => false,
            Wants::Events => !self.prev_kv,
            Wants::EventsAndBefore => true,
        }
    }
}

/// What the driver must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchOutput {
    /// Send these events if there is room for them now; else call [`Watches::no_room`] with `from` before any other input, also before
    /// [`Watches::settled`].
    Offer {
        /// The watch.
        name: WatchName,
        /// The newest revision.
        revision: i64,
        /// The first revision that the watch has not seen.
        from: i64,
        /// `Event` messages, each as field 11 of a `WatchResponse`.
        events: Vec<u8>,
    },
    /// Read a page of events, then call [`Watches::answered`] or [`Watches::compacted`].
    Read {
        /// The watch.
        name: WatchName,
        /// To be given back with the answer.
        turn: u64,
        /// The first revision wanted.
        revision: i64,
        /// The first change of that revision that is wanted.
        sub: u32,
    },
    /// Send these events when there is room, then call [`Watches::sent`].
    Send {
        /// The watch.
        name: WatchName,
        /// To be given back when they are sent.
        turn: u64,
        /// The newest revision when they were read.
        revision: i64,
        /// `Event` messages, as in an offer.
        events: Vec<u8>,
        /// More events of the last revision follow in the next response.
        more: bool,
    },
    /// Tell a watch its progress, if there is room; with the id -1 the whole stream.
    Progress {
        /// The watch.
        name: WatchName,
        /// The watch has seen everything up to this revision.
        revision: i64,
    },
    /// Tell a watch that it has ended, because what it wants to see next is compacted.
    Compacted {
        /// The watch.
        name: WatchName,
    },
}

/// One watch.
struct Watch {
    spec: Arc<WatchSpec>,
    /// The first revision that it has not seen. While it is in step, changes executed since then count as seen, too.
    next: i64,
    /// The revision that its client was told last; it must not be told an earlier one.
    shown: i64,
    behind: Option<Behind>,
}

/// The state of a watch that is behind.
struct Behind {
    turn: u64,
    sub: u32,
    /// The newest revision when the last page was read.
    read: i64,
    /// The events of an incomplete revision, which must go together.
    events: Vec<u8>,
}

/// All watches of a front.
#[derive(Default)]
pub struct Watches {
    watches: BTreeMap<WatchName, Watch>,
    /// The watches in step, by key; below, those with a range. Only looked up, never iterated.
    by_key: HashMap<Vec<u8>, Vec<WatchName>>,
    ranges: Vec<WatchName>,
    /// Everything up to this revision was offered.
    revision: i64,
    recent: VecDeque<Arc<LiveEvents>>,
    recent_bytes: usize,
    with_before: usize,
    turns: u64,
    /// Streams that asked for their progress at a time when it could not be told.
    asked: BTreeSet<u64>,
}

impl Watches {
    /// No watches.
    pub fn new() -> Self {
        Self::default()
    }

    /// What the watches need of the changes from now on.
    pub fn wants(&self) -> Wants {
        match (self.watches.is_empty(), self.with_before) {
            (true, _) => Wants::Nothing,
            (_, 0) => Wants::Events,
            _ => Wants::EventsAndBefore,
        }
    }

    /// Whether the watch exists.
    pub fn has(&self, name: WatchName) -> bool {
        self.watches.contains_key(&name)
    }

    /// Whether this read or send is still awaited.
    pub fn is_open(&self, name: WatchName, turn: u64) -> bool {
        self.behind(name, turn).is_some()
    }

    /// Everything up to this revision was offered.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// Adds a watch whose client was told of the revision `shown`. Then tell the executing side what is needed now ([`Self::wants`]), and
    /// call [`Self::begin`].
    pub fn create(&mut self, name: WatchName, spec: WatchSpec, shown: i64) {
        self.cancel(name);
        self.with_before += usize::from(spec.prev_kv);
        self.watches.insert(name, Watch { spec: Arc::new(spec), next: 0, shown, behind: None });
    }

    /// Starts a new watch: it gets events from the revision `from` on. `newest` is the replica's revision, read after the executing side
    /// was told what is needed.
    pub fn begin(&mut self, name: WatchName, from: i64, newest: i64, out: &mut Vec<WatchOutput>) {
        if self.watches.len() == 1 {
            // Nothing was offered before; from here on everything is.
            self.revision = newest;
        }
        let Some(watch) = self.watches.get_mut(&name) else { return };
        watch.next = from;
        if from > self.revision {
            self.put_in_step(name);
        } else {
            self.fall_behind(name, from, out);
        }
    }

    /// Ends a watch. Says whether it existed.
    pub fn cancel(&mut self, name: WatchName) -> bool {
        self.take_out(name);
        let Some(watch) = self.watches.remove(&name) else { return false };
        self.with_before -= usize::from(watch.spec.prev_kv);
        if self.watches.is_empty() {
            self.forget_recent();
        }
        true
    }

    /// Ends all watches of a stream.
    pub fn cancel_stream(&mut self, stream: u64) {
        let own = self.watches.range((stream, i64::MIN)..=(stream, i64::MAX));
        let names: Vec<WatchName> = own.map(|(name, _)| *name).collect();
        for name in names {
            self.cancel(name);
        }
        self.asked.remove(&stream);
    }

    /// A stream asks for its progress.
    pub fn progress(&mut self, stream: u64, newest: i64, out: &mut Vec<WatchOutput>) {
        if self.watches.is_empty() {
            // Nothing is offered that would count.
            out.push(WatchOutput::Progress { name: (stream, -1), revision: newest });
        } else {
            self.asked.insert(stream);
        }
    }

    /// All outputs of the last input are carried out. Tells their progress to the streams that asked, if all watches of the stream are in
    /// step and were told of nothing later.
    pub fn settled(&mut self, out: &mut Vec<WatchOutput>) {
        let (watches, revision) = (&self.watches, self.revision);
        self.asked.retain(|stream| {
            let mut own = watches.range((*stream, i64::MIN)..=(*stream, i64::MAX));
            let so_far = own.all(|(_, watch)| watch.behind.is_none() && watch.shown <= revision);
            if so_far {
                out.push(WatchOutput::Progress { name: (*stream, -1), revision });
            }
            !so_far
        });
    }

    /// Tells their progress to the watches that want it.
    pub fn notify(&self, out: &mut Vec<WatchOutput>) {
        for (name, watch) in &self.watches {
            if watch.spec.progress_notify && watch.behind.is_none() && watch.shown <= self.revision {
                out.push(WatchOutput::Progress { name: *name, revision: self.revision });
            }
        }
    }

    /// Commands ran here, or a checkpoint replaced the state.
    pub fn executed(&mut self, events: Arc<LiveEvents>, out: &mut Vec<WatchOutput>) {
        if self.watches.is_empty() {
            return;
        }
        if events.before != self.revision || events.revision < events.before {
            // Something is missing in between, or a repair led back: everybody reads on from where they are.
            self.leave_step(|_| true, self.revision, out);
            self.forget_recent();
            self.revision = events.revision;
        } else {
            // Events without the entries before are of no use to watches that want those.
            if self.wants() != events.wants {
                self.leave_step(|spec| !spec.is_served_by(events.wants), events.before, out);
            }
            let shares = self.shares(&events);
            self.revision = events.revision;
            self.remember(events.clone());
            for (name, share) in shares {
                self.offer(name, events.before, share, out);
            }
        }
    }

    /// There was no room for an offer: the watch will read these events when there is.
    pub fn no_room(&mut self, name: WatchName, from: i64, out: &mut Vec<WatchOutput>) {
        if self.watches.contains_key(&name) {
            self.fall_behind(name, from, out);
        }
    }

    /// A page was read.
    pub fn answered(
        &mut self,
        name: WatchName,
        turn: u64,
        page: &EventsPage<'_>,
        out: &mut Vec<WatchOutput>,
    ) {
        let Some(watch) = self.watches.get_mut(&name) else { return };
        let Some(behind) = watch.behind.as_mut().filter(|behind| behind.turn == turn) else { return };
        behind.events.extend_from_slice(page.events);
        behind.read = page.revision;
        (watch.next, behind.sub) = (page.next_revision, page.next_sub);
        let more = behind.sub != 0;
        if more && !(watch.spec.fragment && behind.events.len() > FRAGMENT_BYTES) {
            out.push(WatchOutput::Read { name, turn, revision: watch.next, sub: behind.sub });
        } else if behind.events.is_empty() {
            self.go_on(name, out);
        } else {
            let events = std::mem::take(&mut behind.events);
            out.push(WatchOutput::Send { name, turn, revision: page.revision, events, more });
        }
    }

    /// The events of a page were sent.
    pub fn sent(&mut self, name: WatchName, turn: u64, out: &mut Vec<WatchOutput>) {
        if self.is_open(name, turn) {
            self.go_on(name, out);
        }
    }

    /// The events that the watch asked for are compacted.
    pub fn compacted(&mut self, name: WatchName, turn: u64, out: &mut Vec<WatchOutput>) {
        if self.is_open(name, turn) {
            self.cancel(name);
            out.push(WatchOutput::Compacted { name });
        }
    }

    /// Puts a watch that is behind in step again, or reads its next page.
    fn go_on(&mut self, name: WatchName, out: &mut Vec<WatchOutput>) {
        let Some(watch) = self.watches.get_mut(&name) else { return };
        let Some(behind) = &watch.behind else { return };
        let read = WatchOutput::Read { name, turn: behind.turn, revision: watch.next, sub: behind.sub };
        let whole = watch.next > behind.read;
        // Whatever was offered lately it need not read.
        let lacks = match watch.next > self.revision {
            true => Some(Vec::new()),
            false => recent_for(&self.recent, &watch.spec, watch.next),
        };
        match lacks {
            Some(share) if whole => {
                watch.behind = None;
                self.put_in_step(name);
                // No room leads it back to reading.
                self.offer(name, 0, share, out);
            }
            _ => out.push(read),
        }
    }

    /// The events of each watch in step.
    fn shares(&self, events: &LiveEvents) -> BTreeMap<WatchName, Vec<u8>> {
        let mut shares: BTreeMap<WatchName, Vec<u8>> = BTreeMap::new();
        let mut message = Vec::new();
        for event in events.iter() {
            let names = self.by_key.get(event.key).into_iter().flatten().chain(&self.ranges);
            for name in names {
                let Some(watch) = self.watches.get(name) else { continue };
                let wanted = event.revision >= watch.next && watch.spec.takes(event.deletes);
                if wanted && watch.spec.query(0, 0).covers(event.key) {
                    message.clear();
                    event.write(watch.spec.prev_kv, &mut message);
                    proto::message_field(shares.entry(*name).or_default(), 11, &message);
                }
            }
        }
        shares
    }

    /// Offers events to a watch that has seen everything up to `before`, or up to its position if that is later.
    fn offer(&mut self, name: WatchName, before: i64, events: Vec<u8>, out: &mut Vec<WatchOutput>) {
        let Some(watch) = self.watches.get(&name).filter(|_| !events.is_empty()) else { return };
        let from = watch.next.max(before + 1);
        if watch.spec.fragment && events.len() > FRAGMENT_BYTES {
            self.fall_behind(name, from, out);
        } else {
            out.push(WatchOutput::Offer { name, revision: self.revision, from, events });
        }
    }

    /// The selected watches in step fall behind. They have seen everything up to `seen`, or up to their position if that is later, and read
    /// on from there.
    fn leave_step(&mut self, meant: impl Fn(&WatchSpec) -> bool, seen: i64, out: &mut Vec<WatchOutput>) {
        let leaves = |watch: &Watch| watch.behind.is_none() && meant(&watch.spec);
        let leaving: Vec<(WatchName, i64)> = self
            .watches
            .iter()
            .filter(|(_, watch)| leaves(watch))
            .map(|(name, watch)| (*name, watch.next))
            .collect();
        for (name, next) in leaving {
            let from = if planted("watch-from-where-all-are") { seen + 1 } else { next.max(seen + 1) };
            self.fall_behind(name, from, out);
        }
    }

    fn fall_behind(&mut self, name: WatchName, from: i64, out: &mut Vec<WatchOutput>) {
        self.take_out(name);
        self.turns += 1;
        let turn = self.turns;
        let Some(watch) = self.watches.get_mut(&name) else { return };
        watch.next = from;
        watch.behind = Some(Behind { turn, sub: 0, read: 0, events: Vec::new() });
        out.push(WatchOutput::Read { name, turn, revision: from, sub: 0 });
    }

    fn behind(&self, name: WatchName, turn: u64) -> Option<&Behind> {
        self.watches.get(&name)?.behind.as_ref().filter(|behind| behind.turn == turn)
    }

    fn put_in_step(&mut self, name: WatchName) {
        let Some(watch) = self.watches.get(&name) else { return };
        if watch.spec.range_end.is_empty() {
            self.by_key.entry(watch.spec.key.clone()).or_default().push(name);
        } else {
            self.ranges.push(name);
        }
    }

    fn take_out(&mut self, name: WatchName) {
        let Some(watch) = self.watches.get(&name).filter(|watch| watch.behind.is_none()) else { return };
        if !watch.spec.range_end.is_empty() {
            self.ranges.retain(|other| *other != name);
        } else if let Some(names) = self.by_key.get_mut(&watch.spec.key) {
            names.retain(|other| *other != name);
            if names.is_empty() {
                self.by_key.remove(&watch.spec.key);
            }
        }
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
}

/// The events for a watch from this revision on, if all of them are kept.
fn recent_for(recent: &VecDeque<Arc<LiveEvents>>, spec: &WatchSpec, next: i64) -> Option<Vec<u8>> {
    if recent.front().is_none_or(|oldest| oldest.before >= next) {
        return None;
    }
    let (mut share, mut message) = (Vec::new(), Vec::new());
    let query = spec.query(0, 0);
    for events in recent.iter().filter(|events| events.revision >= next) {
        if !spec.is_served_by(events.wants) {
            return None;
        }
        for event in events.iter() {
            if event.revision >= next && spec.takes(event.deletes) && query.covers(event.key) {
                message.clear();
                event.write(spec.prev_kv, &mut message);
                proto::message_field(&mut share, 11, &message);
            }
        }
    }
    Some(share)
}
