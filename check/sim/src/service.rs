//! The service of simulated clusters: the real key-value service with lists beside it, in the three kinds of services that there are, and a
//! record of everything that was executed.
//!
//! A command is `client u32, number u32`, which name the operation, then a command of the key-value service, or `A`, a list's name, a zero
//! and a token to append. A query is one of the key-value service, or `L` and a list's name, or `C`, which asks whether this replica's
//! state was corrupted. `G` begins commands and queries of a guest, which executes them on the same state.

use crate::random::Rng;
use crate::watching::{ETCD, Feed, compaction_at, put_of};
use quorate_etcd::{Etcd, EtcdConfig, Reply};
use quorate_execute::{
    CheckpointError, CheckpointSink, CheckpointSource, Context, Events, InStore, KeyUse, MembershipNow,
    ObjectService, Observer, Parallel, ParallelService, Ran, ReplySink, Service, SessionEnd, StateView,
    Store, Tells, Tracked, Version,
};
use quorate_kv::{Kv, KvConfig};
use quorate_types::{AgreedTime, Span, planted};
use quorate_wire::FEATURE_LEVEL;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The first byte of an append.
pub const APPEND: u8 = b'A';
/// The first byte of a query for a list.
pub const LIST: u8 = b'L';
/// The query that asks whether the state was corrupted.
pub const CORRUPTED: u8 = b'C';
/// The first byte of a command or query of a guest.
pub const GUEST: u8 = b'G';
/// The first bytes of a command, which name the operation.
pub const NAME: usize = 8;
/// Lists have keys with this prefix; no key of the workload begins with it.
const LISTS: &[u8] = b"list/";
/// The key that a corruption adds to the state. No client asks for it.
const CORRUPTION: &[u8] = b"\xffcorrupt";
/// The key under which the state holds when the alarm rings.
const ALARM: &[u8] = b"\xffalarm";
/// At an older feature level each command leaves its time under this key. It stands for any change of a service with a level: a replica
/// that executes by its own program's level gets another state than the others.
const OLD_LEVEL: &[u8] = b"\xfflevel";
/// The key under which the last race left its luck.
const RACE: &[u8] = b"\xfdrace";
/// The key under which the state holds how many sessions ended, and the last one.
const ENDED: &[u8] = b"\xfeended";
/// The key under which the state holds the members after the first change, and how many changes there were.
const MEMBERS: &[u8] = b"\xfemembers";
/// There may be this many large objects beside what clients write, each beginning with another half byte.
const BULKY_OBJECTS: u64 = 16;
/// The size of the objects that are there from the beginning.
const FILLER_BYTES: u64 = 1 << 10;

/// How the engine sees the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The state lies in the engine's store.
    InStore,
    /// The service keeps its state itself, and writes all of it.
    Plain,
    /// The service keeps its state itself, and reports what changed.
    Tracked,
}

/// The service of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceConfig {
    /// How the engine sees its state.
    pub kind: Kind,
    /// The size of some large objects, one of which every command changes; 0: there are none. With them the state has many chunks.
    pub bulk: u64,
    /// How many bytes of objects the state holds from the beginning, beside what clients write.
    pub filled: u64,
    /// Whether each command also changes a store that clients watch.
    pub watched: bool,
    /// Whether the state holds how many sessions ended, and the members: a replica that missed one, or heard it twice, has another state.
    pub hears: bool,
    /// Commands may run before their turn, so they are reported when they are final.
    pub side_by_side: bool,
    /// The alarm rings when no command came for this long, in nanoseconds of agreed time; 0: there is no alarm.
    pub alarm: u64,
}

impl Default for ServiceConfig {
    fn default() -> Self {
        Self {
            kind: Kind::InStore,
            bulk: 0,
            filled: 0,
            watched: false,
            hears: false,
            side_by_side: false,
            alarm: 0,
        }
    }
}

/// One command that was executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The seq of its batch.
    pub seq: u64,
    /// The agreed time.
    pub time: u64,
    /// The randomness that the service was given.
    pub seed: u64,
    /// Client and number of the operation.
    pub op: (u32, u32),
    /// The whole command.
    pub command: Vec<u8>,
    /// The reply.
    pub reply: Vec<u8>,
    /// A digest of the state after it, if one was made.
    pub state: Option<u32>,
}

/// A report of a replica's service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Told {
    /// It ran a command.
    Ran(Row),
    /// Its whole state was replaced by that of a checkpoint.
    Restored,
    /// Its state was corrupted in this batch.
    Corrupted(u64),
    /// The alarm rang in this batch.
    Rang(u64),
}

#[derive(Debug, Default)]
struct Tapped {
    told: Vec<Told>,
    corrupt: bool,
    /// How commands race that run now; 0: they do not.
    race: u64,
}

/// Where the service of one replica reports what it executed, and how a fault changes its state.
#[derive(Clone, Debug, Default)]
pub struct Tap(Arc<Mutex<Tapped>>);

impl Tap {
    fn lock(&self) -> MutexGuard<'_, Tapped> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Adds a report.
    pub fn tell(&self, told: Told) {
        self.lock().told.push(told);
    }
    /// Takes the reports since the last call.
    pub fn drain(&self) -> Vec<Told> {
        std::mem::take(&mut self.lock().told)
    }
    /// How many reports were not taken.
    pub fn len(&self) -> usize {
        self.lock().told.len()
    }
    /// Whether all reports were taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Drops all reports after the first `len`.
    pub fn forget_after(&self, len: usize) {
        self.lock().told.truncate(len);
    }
    /// Commands that run from now on leave this in the state, unless it is 0.
    pub fn race(&self, luck: u64) {
        self.lock().race = luck;
    }
    fn luck(&self) -> u64 {
        self.lock().race
    }
    /// The next command leaves something in the state that does not belong there.
    pub fn corrupt(&self) {
        self.lock().corrupt = true;
    }
}

/// The objects, and everything that can happen to them. What was executed is told as [`Told`].
struct Objects {
    kv: Kv,
    bulk: u64,
    hears: bool,
    side_by_side: bool,
    alarm: u64,
    tap: Option<Tap>,
    guest: Option<Arc<dyn ParallelService>>,
    /// Only for a planted bug: a service that is not deterministic.
    queries: AtomicU64,
}

impl Objects {
    fn run(&self, view: &mut StateView<'_>, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        match command.split_first() {
            Some((&GUEST, rest)) => {
                if let Some(guest) = &self.guest {
                    guest.execute(view, rest, ctx, reply);
                }
            }
            Some((&APPEND, rest)) => {
                let (key, token) = append_of(rest);
                let mut tokens = view.get(&key).map_or_else(Vec::new, Cow::into_owned);
                if !tokens.is_empty() {
                    tokens.push(b',');
                }
                tokens.extend_from_slice(token);
                view.put(&key, &tokens);
                reply.write(b"appended");
            }
            _ => self.kv.execute(view, command, ctx, reply),
        }
    }

    /// Reports something that is in the state: at once, or when it is final.
    fn tell(&self, view: &mut StateView<'_>, tap: &Tap, told: Told) {
        match self.side_by_side {
            true => view.tell(told),
            false => tap.tell(told),
        }
    }

    /// Changes one of the large objects; the first time all of them.
    fn change_bulk(&self, view: &mut StateView<'_>, op: (u32, u32)) {
        if self.bulk == 0 {
            return;
        }
        let mut rng = Rng::of(u64::from(op.0) << 32 | u64::from(op.1), 77);
        let missing = (0..BULKY_OBJECTS).filter(|number| !view.contains(&bulky(*number))).collect::<Vec<_>>();
        let changed = rng.below(BULKY_OBJECTS);
        for number in missing.into_iter().chain([changed]) {
            let mut value = vec![number as u8; self.bulk as usize];
            value[..8].copy_from_slice(&rng.number().to_le_bytes());
            view.set(&bulky(number), &value);
        }
    }
}

/// The key and the token of an append.
fn append_of(rest: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut parts = rest.splitn(2, |byte| *byte == 0);
    let (list, token) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    (list_key(list), token)
}

/// The number that an object begins with.
fn counted(view: &StateView<'_>, key: &[u8]) -> u64 {
    view.get(key).and_then(|value| value.first_chunk().copied()).map_or(0, u64::from_le_bytes)
}

/// When the alarm rings.
fn rings_at(view: &StateView<'_>) -> Option<AgreedTime> {
    let at = *view.get(ALARM)?.first_chunk::<8>()?;
    Some(AgreedTime::from_nanos(u64::from_le_bytes(at)))
}

fn list_key(list: &[u8]) -> Vec<u8> {
    [LISTS, list].concat()
}

fn bulky(number: u64) -> [u8; 2] {
    [(number << 4) as u8, b'*']
}

/// No key of the workload begins like this one.
fn filler(number: u64) -> Vec<u8> {
    format!("filler/{number:08}").into_bytes()
}

impl ParallelService for Objects {
    fn execute(&self, view: &mut StateView<'_>, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        let mut answer = Vec::new();
        let mut sink = ReplySink::new(&mut answer, reply.room());
        self.run(view, command.get(NAME..).unwrap_or_default(), ctx, &mut sink);
        reply.write(&answer);
        self.change_bulk(view, op_of(command));
        if self.alarm > 0 {
            view.set(ALARM, &ctx.time().plus(Span::from_nanos(self.alarm)).nanos().to_le_bytes());
        }
        if ctx.level() < FEATURE_LEVEL {
            view.set(OLD_LEVEL, &ctx.level().to_le_bytes());
        }
        let Some(tap) = &self.tap else { return };
        // A run on a view may not count; then this counts for nothing either.
        if std::mem::take(&mut tap.lock().corrupt) {
            view.set(CORRUPTION, &ctx.seq().number().to_le_bytes());
            self.tell(view, tap, Told::Corrupted(ctx.seq().number()));
        }
        let luck = tap.luck();
        if luck > 0 {
            view.set(RACE, &luck.to_le_bytes());
        }
        if planted("state-of-its-own") && self.queries.load(Ordering::Relaxed) > 0 {
            view.set(b"\xfequeries", &self.queries.load(Ordering::Relaxed).to_le_bytes());
        }
        let ran = Told::Ran(Row {
            seq: ctx.seq().number(),
            time: ctx.time().nanos(),
            seed: ctx.seed(),
            op: op_of(command),
            command: command.to_vec(),
            reply: answer,
            state: None,
        });
        self.tell(view, tap, ran);
    }

    fn query(&self, view: &StateView<'_>, query: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        match query.split_first() {
            Some((&CORRUPTED, _)) => reply.write(view.get(CORRUPTION).as_deref().unwrap_or_default()),
            Some((&LIST, list)) => reply.write(view.get(&list_key(list)).as_deref().unwrap_or_default()),
            Some((&GUEST, rest)) => {
                if let Some(guest) = &self.guest {
                    guest.query(view, rest, ctx, reply);
                }
            }
            _ => self.kv.query(view, query, ctx, reply),
        }
        if query.first() != Some(&CORRUPTED) {
            self.queries.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn write_told(&self, told: &(dyn Any + Send), out: &mut Vec<u8>) -> bool {
        let told = told.downcast_ref::<Told>();
        told.is_some_and(|told| serde_json::to_writer(out, told).is_ok())
    }

    fn read_told(&self, bytes: &[u8]) -> Option<Box<dyn Any + Send>> {
        serde_json::from_slice::<Told>(bytes).ok().map(|told| Box::new(told) as Box<dyn Any + Send>)
    }

    /// Sometimes wrong: some keys are left out, and some are others.
    fn hints(&self, command: &[u8], uses: &mut dyn FnMut(KeyUse<'_>)) -> bool {
        let op = op_of(command);
        let command = command.get(NAME..).unwrap_or_default();
        match command.split_first() {
            _ if op.1 % 7 == 3 => return false,
            _ if op.1 % 11 == 5 => uses(KeyUse::Write(b"another")),
            Some((&APPEND, rest)) => uses(KeyUse::Write(&append_of(rest).0)),
            Some((&GUEST, rest)) => {
                return self.guest.as_ref().is_some_and(|guest| guest.hints(rest, uses));
            }
            _ => return self.kv.keys(command, false, uses),
        }
        true
    }

    fn objects(&self, bytes: &[u8], is_query: bool, each: &mut dyn FnMut(&[u8])) {
        let bytes = if is_query { bytes } else { bytes.get(NAME..).unwrap_or_default() };
        match bytes.split_first() {
            // Lists are short, and few.
            Some((&APPEND, _)) if !is_query => {}
            Some((&(CORRUPTED | LIST | ETCD), _)) if is_query => {}
            Some((&GUEST, _)) => {}
            _ => self.kv.objects(bytes, is_query, each),
        }
    }

    fn next_deadline(&self, view: &StateView<'_>) -> Option<AgreedTime> {
        let guest = self.guest.as_ref().and_then(|guest| guest.next_deadline(view));
        rings_at(view).into_iter().chain(guest).min()
    }

    fn deadline_reached(&self, view: &mut StateView<'_>, ctx: &Context) {
        let is_due = |at: Option<AgreedTime>| at.is_some_and(|at| at <= ctx.time());
        if is_due(rings_at(view)) {
            view.remove(ALARM);
            if let Some(tap) = &self.tap {
                self.tell(view, tap, Told::Rang(ctx.seq().number()));
            }
        }
        if let Some(guest) = &self.guest
            && is_due(guest.next_deadline(view))
        {
            guest.deadline_reached(view, ctx);
        }
    }

    fn restored(&self, view: &StateView<'_>) -> Option<Box<dyn Any + Send>> {
        self.guest.as_ref()?.restored(view)
    }

    fn session_ended(&self, view: &mut StateView<'_>, why: SessionEnd, ctx: &Context) {
        if self.hears {
            let (ended, session) = (counted(view, ENDED) + 1, ctx.session());
            let last = format!("{why:?} {} {session} at {}", ctx.client(), ctx.seq());
            view.set(ENDED, &[&ended.to_le_bytes(), last.as_bytes()].concat());
        }
        if let Some(guest) = &self.guest {
            guest.session_ended(view, why, ctx);
        }
    }

    fn membership_changed(&self, view: &mut StateView<'_>, now: &MembershipNow, ctx: &Context) {
        if self.hears {
            let changes = counted(view, MEMBERS) + 1;
            let last = format!("{} {:?} at {}", now.number, now.replicas, ctx.seq());
            view.set(MEMBERS, &[&changes.to_le_bytes(), last.as_bytes()].concat());
        }
        if let Some(guest) = &self.guest {
            guest.membership_changed(view, now, ctx);
        }
    }
}

/// The objects, beside a store that is watched, if there is one.
struct Whole {
    objects: Parallel<Objects>,
    etcd: Option<Etcd>,
    guest: Option<Arc<dyn ParallelService>>,
    tap: Option<Tap>,
}

/// Passes on what became final: to the tap, and to the guest.
struct Passes(Tap, Option<Box<dyn Observer>>);

impl Observer for Passes {
    fn told(&mut self, events: Events) {
        let told = events.of::<Vec<Box<dyn Any + Send>>>().unwrap_or_default();
        let (own, others): (Vec<_>, Vec<_>) = told.into_iter().partition(|told| told.is::<Told>());
        self.0.lock().told.extend(own.into_iter().filter_map(|told| told.downcast().ok()).map(|told| *told));
        if let Some(guest) = &mut self.1
            && !others.is_empty()
        {
            guest.told(Events::new(others));
        }
    }
}

impl Whole {
    /// Changes a key of the watched store, and compacts it now and then.
    fn change_etcd(&mut self, store: &mut Store, op: (u32, u32), ctx: &Context) {
        let Some(etcd) = &mut self.etcd else { return };
        let mut run = |command: &[u8]| {
            let mut reply = Vec::new();
            etcd.execute(store, command, ctx, &mut ReplySink::new(&mut reply, 1 << 16));
            Reply::decode(&reply).map_or(0, |done| done.revision)
        };
        if let Some(compaction) = compaction_at(run(&put_of(op))) {
            run(&compaction);
            etcd.deadline_reached(store, ctx);
        }
    }
}

impl ObjectService for Whole {
    fn execute(&mut self, store: &mut Store, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        self.objects.execute(store, command, ctx, reply);
        if self.etcd.is_some() {
            self.change_etcd(store, op_of(command), ctx);
        }
    }

    fn query(&self, store: &Store, query: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        match (query.split_first(), &self.etcd) {
            (Some((&ETCD, query)), Some(etcd)) => etcd.query(store, query, ctx, reply),
            (Some((&ETCD, _)), None) => {}
            _ => self.objects.query(store, query, ctx, reply),
        }
    }

    fn objects(&self, bytes: &[u8], is_query: bool, each: &mut dyn FnMut(&[u8])) {
        self.objects.objects(bytes, is_query, each);
    }

    fn next_deadline(&self, store: &Store) -> Option<AgreedTime> {
        self.objects.next_deadline(store)
    }

    fn deadline_reached(&mut self, store: &mut Store, ctx: &Context) {
        self.objects.deadline_reached(store, ctx);
    }

    fn session_ended(&mut self, store: &mut Store, why: SessionEnd, ctx: &Context) {
        self.objects.session_ended(store, why, ctx);
    }

    fn membership_changed(&mut self, store: &mut Store, now: &MembershipNow, ctx: &Context) {
        self.objects.membership_changed(store, now, ctx);
    }

    fn restored(&mut self, store: &Store) {
        self.objects.restored(store);
        if let Some(etcd) = &mut self.etcd {
            etcd.restored(store);
        }
    }

    fn tells(&mut self) -> Option<&mut dyn Tells> {
        Some(self)
    }

    fn parallel(&self) -> Option<Arc<dyn ParallelService>> {
        self.objects.parallel().filter(|_| self.etcd.is_none())
    }

    fn twin(&self) -> Option<Self> {
        let objects = self.objects.twin().filter(|_| self.etcd.is_none())?;
        Some(Self { objects, etcd: None, guest: None, tap: self.tap.clone() })
    }

    fn adopt(&mut self, store: &mut Store, ran: &mut Ran) {
        self.objects.adopt(store, ran);
    }
}

/// The observer is that of the watched store, if there is one; otherwise what the objects told goes to the tap.
impl Tells for Whole {
    fn observer(&mut self) -> Option<Box<dyn Observer>> {
        match &mut self.etcd {
            Some(etcd) => etcd.tells()?.observer(),
            None => {
                Some(Box::new(Passes(self.tap.clone()?, self.guest.as_ref().and_then(|of| of.observer()))))
            }
        }
    }

    fn take_events(&mut self) -> Option<Events> {
        match &mut self.etcd {
            Some(etcd) => etcd.tells()?.take_events(),
            None => Tells::take_events(&mut self.objects),
        }
    }
}

/// The service: the objects, and the part of them that the engine sees.
pub struct Watched {
    objects: InStore<Whole>,
    kind: Kind,
    /// Where it tells that its state was replaced.
    tap: Option<Tap>,
    /// The objects as they were when changes were reported last.
    told: Version,
}

impl Watched {
    /// An empty one that reports what it executes.
    pub fn new(config: ServiceConfig, tap: Option<Tap>) -> Self {
        Self::made(config, tap, None, None)
    }

    /// One that also executes the commands of a guest.
    pub fn hosting(config: ServiceConfig, tap: Tap, guest: Arc<dyn ParallelService>) -> Self {
        Self::made(config, Some(tap), None, Some(guest))
    }

    /// One with an etcd store, which reports its changes.
    pub fn fed(config: ServiceConfig, tap: Tap, feed: Feed) -> Self {
        let etcd = Etcd::new(EtcdConfig::default()).observed(feed);
        Self::made(config, Some(tap), Some(etcd), None)
    }

    fn made(
        config: ServiceConfig,
        tap: Option<Tap>,
        etcd: Option<Etcd>,
        guest: Option<Arc<dyn ParallelService>>,
    ) -> Self {
        let objects = Objects {
            kv: Kv::new(KvConfig::default()),
            bulk: config.bulk,
            hears: config.hears,
            side_by_side: config.side_by_side,
            alarm: config.alarm,
            tap: tap.clone(),
            guest: guest.clone(),
            queries: AtomicU64::new(0),
        };
        let objects = Parallel::new(objects);
        let mut objects = InStore::new(Whole { objects, etcd, guest, tap: tap.clone() });
        if let Some(store) = objects.store_mut() {
            for number in 0..config.filled.div_ceil(FILLER_BYTES) {
                store.put(&filler(number), &[number as u8; FILLER_BYTES as usize]);
            }
        }
        Self { objects, kind: config.kind, tap, told: Store::new().version() }
    }
}

/// The operation that a command belongs to.
pub fn op_of(command: &[u8]) -> (u32, u32) {
    let word = |at: usize| command.get(at..at + 4).and_then(|b| b.first_chunk::<4>()).copied();
    (u32::from_le_bytes(word(0).unwrap_or_default()), u32::from_le_bytes(word(4).unwrap_or_default()))
}

impl Service for Watched {
    fn execute(&mut self, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        self.objects.execute(command, ctx, reply);
    }

    fn query(&self, query: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        self.objects.query(query, ctx, reply);
    }

    fn objects(&self, bytes: &[u8], is_query: bool, each: &mut dyn FnMut(&[u8])) {
        Service::objects(&self.objects, bytes, is_query, each);
    }

    fn next_deadline(&self) -> Option<AgreedTime> {
        Service::next_deadline(&self.objects)
    }

    fn deadline_reached(&mut self, ctx: &Context) {
        Service::deadline_reached(&mut self.objects, ctx);
    }

    fn session_ended(&mut self, why: SessionEnd, ctx: &Context) {
        Service::session_ended(&mut self.objects, why, ctx);
    }

    fn membership_changed(&mut self, now: &MembershipNow, ctx: &Context) {
        Service::membership_changed(&mut self.objects, now, ctx);
    }

    fn checkpoint(&self, out: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        self.objects.checkpoint(out)
    }

    fn restore(&mut self, from: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        self.objects.restore(from)
    }

    fn restored(&mut self) {
        Service::restored(&mut self.objects);
        if let Some(tap) = &self.tap {
            tap.tell(Told::Restored);
        }
    }

    fn twin(&self) -> Option<Box<dyn Service>> {
        let mut objects = InStore::new(self.objects.service().twin()?);
        *objects.store_mut()? = Store::from_version(&self.objects.objects().version());
        // What runs ahead is taken back in silence.
        Some(Box::new(Self { objects, kind: self.kind, tap: None, told: Store::new().version() }))
    }

    fn tells(&mut self) -> Option<&mut dyn Tells> {
        Service::tells(&mut self.objects)
    }

    fn parallel(&self) -> Option<Arc<dyn ParallelService>> {
        if self.kind == Kind::InStore { Service::parallel(&self.objects) } else { None }
    }

    fn adopt(&mut self, ran: &mut Ran) {
        Service::adopt(&mut self.objects, ran);
    }

    fn store(&self) -> Option<&Store> {
        if self.kind == Kind::InStore { self.objects.store() } else { None }
    }

    /// The engine asks for it only to replace its content.
    fn store_mut(&mut self) -> Option<&mut Store> {
        if self.kind == Kind::InStore { self.objects.store_mut() } else { None }
    }

    fn tracked(&mut self) -> Option<&mut dyn Tracked> {
        if self.kind == Kind::Tracked { Some(self) } else { None }
    }
}

impl Tracked for Watched {
    fn track(&mut self) {
        self.told = self.objects.objects().version();
    }

    fn copy(&self, after: Option<&[u8]>, bytes: usize, take: &mut dyn FnMut(&[u8], &[u8])) -> bool {
        // What comes directly after a key is that key and a zero.
        let start = after.map_or_else(Vec::new, |after| [after, &[0]].concat());
        let mut left = bytes.max(1);
        for (key, value) in self.objects.objects().range(&start, None) {
            if left == 0 {
                return true;
            }
            take(key, value);
            left = left.saturating_sub(key.len() + value.len());
        }
        false
    }

    fn changes(&mut self, take: &mut dyn FnMut(&[u8], Option<&[u8]>)) {
        let now = self.objects.objects().version();
        for (key, value) in now.changes_since(&self.told) {
            take(key, value);
        }
        self.told = now;
    }

    fn load(&mut self, objects: &mut dyn Iterator<Item = (&[u8], &[u8])>) -> Result<(), CheckpointError> {
        let mut store = Store::new();
        for (key, value) in objects {
            store.put(key, value);
        }
        if let Some(own) = self.objects.store_mut() {
            *own = store;
        }
        self.told = self.objects.objects().version();
        Ok(())
    }
}
