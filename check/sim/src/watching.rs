//! Clients that watch: beside each replica, a front like etcd's, with the state machine that decides which watch gets which events.
//!
//! Each command of the workload also puts a key into a real etcd store beside the other objects; now and then it compacts. What the replica
//! executes and jumps to goes through a short queue to the watches, which begin and end at random: from now, from a revision that another
//! replica reported, and from the past. Pages are read later than they were asked for, and sometimes there is no room for events.
//!
//! Queue and room stand for those of `front/etcd-grpc`; the store and the state machine are the real ones.

use crate::checks::Failure;
use crate::checks::watches::{Shown, Watched};
use crate::random::Rng;
use crate::service::Row;
use quorate_etcd::proto::{Fields, bytes_field, int_field};
use quorate_etcd::{
    Command, EtcdError, EventsPage, LiveEvents, Observer, Query, Reply, SizeNow, Wants, WatchName,
    WatchOutput, WatchSpec, Watches, proto,
};
use quorate_node::Node;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The first byte of a query that goes to the etcd store.
pub const ETCD: u8 = b'E';
/// This many keys are watched and changed.
const KEYS: u32 = 3;
/// A front has at most this many watches.
const WATCHES_MAX: usize = 6;
/// The number of revisions after which their older half is compacted.
const COMPACT_EVERY: i64 = 32;

/// The key that an operation changes. No other object of the service begins like the etcd store's object of such a key.
pub fn key_of(op: (u32, u32)) -> Vec<u8> {
    format!("\0w{}", (op.0 + op.1) % KEYS).into_bytes()
}

/// The put that an operation also does.
pub fn put_of(op: (u32, u32)) -> Vec<u8> {
    let (mut message, mut command) = (Vec::new(), Vec::new());
    bytes_field(&mut message, 1, &key_of(op));
    bytes_field(&mut message, 2, &[op.0.to_le_bytes(), op.1.to_le_bytes()].concat());
    Command::Put.encode(&message, &mut command);
    command
}

/// The compaction that follows a put of this revision, if one does.
pub fn compaction_at(revision: i64) -> Option<Vec<u8>> {
    let due = revision % COMPACT_EVERY == 0;
    due.then(|| {
        let (mut message, mut command) = (Vec::new(), Vec::new());
        int_field(&mut message, 1, revision - COMPACT_EVERY / 2);
        Command::Compact.encode(&message, &mut command);
        command
    })
}

/// The queue from the service to the watches.
#[derive(Clone, Debug, Default)]
pub struct Feed(Arc<Mutex<Queued>>);

#[derive(Debug, Default)]
struct Queued {
    wants: Wants,
    /// The last revision that the replica reported.
    revision: i64,
    max: usize,
    list: VecDeque<LiveEvents>,
}

impl Feed {
    fn lock(&self) -> MutexGuard<'_, Queued> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Feed {
    fn wants(&self) -> Wants {
        self.lock().wants
    }

    fn executed(&mut self, events: LiveEvents) {
        let mut queued = self.lock();
        queued.revision = events.revision;
        if queued.wants == Wants::Nothing || events.before == events.revision {
            return;
        }
        if queued.list.len() > queued.max {
            queued.list.clear();
        }
        queued.list.push_back(events);
    }
}

/// The watches at one replica.
pub struct Front {
    watches: Watches,
    feed: Feed,
    watched: BTreeMap<WatchName, Watched>,
    specs: BTreeMap<WatchName, WatchSpec>,
    /// Pages that were asked for and not read yet.
    reads: Vec<(WatchName, u64, i64, u32)>,
    out: Vec<WatchOutput>,
    streams: u64,
    /// How many events watches were given.
    events: u64,
    rng: Rng,
}

impl Front {
    /// A front without watches, for one life of a replica.
    pub fn new(mut rng: Rng) -> Self {
        let feed = Feed::default();
        feed.lock().max = rng.range(1, 12) as usize;
        Self {
            watches: Watches::new(),
            feed,
            watched: BTreeMap::new(),
            specs: BTreeMap::new(),
            reads: Vec::new(),
            out: Vec::new(),
            streams: 0,
            events: 0,
            rng,
        }
    }

    /// Where the service reports what it executes.
    pub fn feed(&self) -> Feed {
        self.feed.clone()
    }

    /// How many events its watches got.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The replica did something: some of the queue reaches the watches, and some pages are read.
    ///
    /// # Errors
    /// When a watch got what it should not.
    pub fn step(&mut self, node: &Node, rows: &[Row]) -> Result<(), Failure> {
        while self.rng.chance(700) && self.hand_on(rows)? {}
        while self.rng.chance(300) && self.read_one(node, rows)? {}
        Ok(())
    }

    /// The whole queue reaches the watches; after that none may lack an event. Some watches end, and others begin.
    ///
    /// # Errors
    /// When a watch lacks something, or got what it should not.
    pub fn settle(&mut self, node: &Node, rows: &[Row]) -> Result<(), Failure> {
        while self.hand_on(rows)? || self.read_one(node, rows)? {}
        let (newest, compacted) = numbers(node)?;
        self.watched.values_mut().try_for_each(|log| log.is_complete(newest, rows))?;
        if self.rng.chance(100)
            && let Some(name) = self.watched.keys().next().copied()
        {
            self.end(name);
        }
        if self.watched.len() < WATCHES_MAX && self.rng.chance(300) {
            self.begin(newest, compacted, rows)?;
        }
        Ok(())
    }

    fn begin(&mut self, newest: i64, compacted: i64, rows: &[Row]) -> Result<(), Failure> {
        // What a client was told of elsewhere before it asks is no event of a watch from now on.
        let told = if self.rng.chance(500) { rows.len() as i64 + 1 } else { 0 };
        let heard = self.feed.lock().revision;
        let shown = told.max(if heard == 0 { newest } else { heard });
        let from = match self.rng.below(4) {
            0 => compacted.max(1) + self.rng.below((newest - compacted).max(1) as u64) as i64,
            _ => shown + 1,
        };
        self.streams += 1;
        let name = (self.streams, 0);
        let of = self.rng.below(u64::from(KEYS)) as u32;
        let all = self.rng.chance(300);
        let spec = WatchSpec {
            key: if all { b"\0w".to_vec() } else { key_of((0, of)) },
            range_end: if all { b"\0x".to_vec() } else { Vec::new() },
            prev_kv: self.rng.chance(200),
            ..WatchSpec::default()
        };
        self.watched.insert(name, Watched::new(spec.clone(), from));
        self.specs.insert(name, spec.clone());
        self.watches.create(name, spec, shown);
        self.feed.lock().wants = self.watches.wants();
        // As the front does: what was executed so far, as far as it was told.
        let heard = if heard == 0 { newest } else { heard };
        self.watches.begin(name, from, heard, &mut self.out);
        self.perform(rows)
    }

    fn end(&mut self, name: WatchName) {
        self.watches.cancel(name);
        self.feed.lock().wants = self.watches.wants();
        self.watched.remove(&name);
        self.specs.remove(&name);
    }

    /// The first of the queue reaches the watches. Returns whether there was something.
    fn hand_on(&mut self, rows: &[Row]) -> Result<bool, Failure> {
        let Some(events) = self.feed.lock().list.pop_front() else { return Ok(false) };
        self.watches.executed(Arc::new(events), &mut self.out);
        self.perform(rows)?;
        Ok(true)
    }

    /// Reads the page that has waited longest. Returns whether there was one.
    fn read_one(&mut self, node: &Node, rows: &[Row]) -> Result<bool, Failure> {
        if self.reads.is_empty() {
            return Ok(false);
        }
        let (name, turn, revision, sub) = self.reads.remove(0);
        let Some(spec) = self.specs.get(&name).filter(|_| self.watches.is_open(name, turn)) else {
            return Ok(true);
        };
        let answer = ask(node, &Query::Events(spec.query(revision, sub)))?;
        match Reply::decode(&answer) {
            Ok(done) => {
                let page = EventsPage::decode(done.revision, done.body).ok_or_else(strange)?;
                self.watches.answered(name, turn, &page, &mut self.out);
            }
            Err(EtcdError::Compacted) => {
                let (_, compacted) = numbers(node)?;
                self.watches.compacted(name, turn, &mut self.out);
                self.watched.get(&name).map_or(Ok(()), |log| log.may_end(compacted))?;
            }
            Err(_) => return Err(strange()),
        }
        self.perform(rows)?;
        Ok(true)
    }

    fn perform(&mut self, rows: &[Row]) -> Result<(), Failure> {
        while !self.out.is_empty() {
            for output in std::mem::take(&mut self.out) {
                match output {
                    WatchOutput::Offer { name, from, .. } if self.rng.chance(100) => {
                        self.watches.no_room(name, from, &mut self.out);
                    }
                    WatchOutput::Offer { name, events, .. } => self.show(name, &events, rows)?,
                    WatchOutput::Send { name, turn, events, .. } => {
                        self.show(name, &events, rows)?;
                        self.watches.sent(name, turn, &mut self.out);
                    }
                    WatchOutput::Read { name, turn, revision, sub } => {
                        self.reads.push((name, turn, revision, sub));
                    }
                    WatchOutput::Compacted { name } => self.end(name),
                    WatchOutput::Progress { .. } => {}
                }
            }
        }
        Ok(())
    }

    /// A watch's client gets events.
    fn show(&mut self, name: WatchName, events: &[u8], rows: &[Row]) -> Result<(), Failure> {
        let Some(log) = self.watched.get_mut(&name) else { return Ok(()) };
        for field in Fields::of(events) {
            let (_, event) = field.map_err(|_| strange())?;
            let shown = event.bytes().ok().and_then(shown).ok_or_else(strange)?;
            log.shown(&shown, rows)?;
            self.events += 1;
        }
        Ok(())
    }
}

/// The revision, key and value of an event.
fn shown(event: &[u8]) -> Option<Shown> {
    let entry = Fields::of(event).filter_map(Result::ok).find(|(number, _)| *number == 2)?.1;
    let mut shown = Shown::default();
    for field in Fields::of(entry.bytes().ok()?) {
        match field.ok()? {
            (1, value) => shown.key = value.bytes().ok()?.to_vec(),
            (3, proto::Value::Number(revision)) => shown.revision = revision as i64,
            (5, value) => shown.value = value.bytes().ok()?.to_vec(),
            _ => {}
        }
    }
    Some(shown)
}

/// The newest revision here, and the compacted one.
fn numbers(node: &Node) -> Result<(i64, i64), Failure> {
    let answer = ask(node, &Query::Size)?;
    let done = Reply::decode(&answer).map_err(|_| strange())?;
    let size = SizeNow::decode(done.body).ok_or_else(strange)?;
    Ok((done.revision, size.compacted))
}

fn ask(node: &Node, query: &Query<'_>) -> Result<Vec<u8>, Failure> {
    let (mut bytes, mut answer) = (vec![ETCD], Vec::new());
    query.encode(&mut bytes);
    node.executor().query(&bytes, &mut answer).map_err(|_| strange())?;
    Ok(answer)
}

fn strange() -> Failure {
    Failure::new("watches", "an answer of the etcd store that can not be read")
}
