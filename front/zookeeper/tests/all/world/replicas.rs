//! The same servers and clients on simulated replicas: what they see, and who takes their commands, is the real product with everything going
//! wrong that the simulator knows.
//!
//! The log of a cluster is what its replicas' services say that they ran. A service beside it runs the same again, and has to give the same
//! replies; its states are what the checkers compare with.
//!
//! `QUORATE_SEEDS` says how many runs of each kind, `QUORATE_FIRST` which seed is the first, `QUORATE_TRACE` prints what happened in that one.

use super::ensemble::{Ensemble, Order, Timing};
use super::{all_told, checks, rules, seeds};
use bytes::Bytes;
use quorate_execute::{
    Context, Events, InStore, KeyUse, Observer, Parallel, ParallelService, Published, ReplySink, Service,
    StateView,
};
use quorate_sim::campaign::run_guest;
use quorate_sim::guest::{Front, Guest, Hosted};
use quorate_sim::{Level, Plan, Profile};
use quorate_types::AgreedTime;
use quorate_zookeeper::feed::{Feed, Heard};
use quorate_zookeeper::server::{ConnId, Now};
use quorate_zookeeper::service::ZooKeeper;
use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

const TIMING: Timing = Timing { tick: 300, timeout: 1000 };
/// What servers send for clients, and what they say of themselves, goes two ways; and what a server had sent when it died may be ordered
/// while the next life sends already.
const CARRIERS: usize = 4;
/// The most bytes of commands in a call.
const CALL_BYTES: usize = 600;
/// For so long after the last fault, in milliseconds, replicas find each other again, and clients go on.
const FINDS: u64 = 5000;
/// For so long clients only say that they are there.
const CALM: u64 = 3 * TIMING.timeout;
/// Then for so long one of them does, and the others are gone. The slowest disks and networks delay the words of servers by some ticks.
const ALONE: u64 = 8 * TIMING.timeout;

/// What a service ran.
enum Ran {
    Command { ctx: Context, command: Vec<u8>, reply: Vec<u8> },
    Deadline { ctx: Context },
}

/// A place in the log: a seq, a request in its batch, a command in that. What is due comes before all requests.
type Place = (u64, Option<(u32, u32)>);

impl Ran {
    const fn place(&self) -> Place {
        match self {
            Self::Command { ctx, .. } => {
                (ctx.seq().number(), Some((ctx.request_index(), ctx.command_index())))
            }
            Self::Deadline { ctx } => (ctx.seq().number(), None),
        }
    }
}

/// What a life of a replica ran, when that was final.
type Log = Arc<Mutex<VecDeque<Ran>>>;

/// The service, and a record of what it runs.
struct Recorded {
    zookeeper: ZooKeeper,
    feed: Feed,
    log: Log,
}

impl ParallelService for Recorded {
    fn execute(&self, view: &mut StateView<'_>, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        let mut answer = Vec::new();
        self.zookeeper.execute(view, command, ctx, &mut ReplySink::new(&mut answer, reply.room()));
        reply.write(&answer);
        view.tell(Ran::Command { ctx: *ctx, command: command.to_vec(), reply: answer });
    }

    fn query(&self, view: &StateView<'_>, query: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        self.zookeeper.query(view, query, ctx, reply);
    }

    fn hints(&self, command: &[u8], uses: &mut dyn FnMut(KeyUse<'_>)) -> bool {
        self.zookeeper.hints(command, uses)
    }

    fn next_deadline(&self, view: &StateView<'_>) -> Option<AgreedTime> {
        self.zookeeper.next_deadline(view)
    }

    fn deadline_reached(&self, view: &mut StateView<'_>, ctx: &Context) {
        self.zookeeper.deadline_reached(view, ctx);
        view.tell(Ran::Deadline { ctx: *ctx });
    }

    fn restored(&self, view: &StateView<'_>) -> Option<Box<dyn Any + Send>> {
        self.zookeeper.restored(view)
    }

    fn observer(&self) -> Option<Box<dyn Observer>> {
        Some(Box::new(Both(self.feed.clone(), self.log.clone())))
    }
}

/// Hands the feed what is for servers, and the log the rest.
struct Both(Feed, Log);

impl Observer for Both {
    fn told(&mut self, events: Events) {
        let told = events.of::<Vec<Box<dyn Any + Send>>>().unwrap_or_default();
        let (ran, told): (Vec<_>, Vec<_>) = told.into_iter().partition(|told| told.is::<Ran>());
        let ran = ran.into_iter().filter_map(|ran| ran.downcast::<Ran>().ok());
        self.1.lock().expect("nobody panicked").extend(ran.map(|ran| *ran));
        self.0.told(Events::new(told));
    }
}

/// What a life of a replica has to do with its server.
#[derive(Default)]
struct Life {
    feed: Feed,
    log: Log,
    /// A state that its server has not taken yet.
    late: Option<Option<Published>>,
    lives: usize,
}

/// A command or question under way, and who waits for it: the server, in this life.
struct Waits {
    life: i64,
    token: u64,
    conn: Option<ConnId>,
}

/// All of it.
struct OnReplicas {
    ensemble: Ensemble,
    lives: Vec<Life>,
    model: InStore<Parallel<ZooKeeper>>,
    /// The last piece of the log that is known.
    known: Place,
    /// By carrier.
    calls: BTreeMap<usize, Vec<Waits>>,
    questions: BTreeMap<u64, (usize, i64, u64)>,
    names: u64,
    acts: u64,
    /// Since when clients begin nothing any more, and since when they are gone but one.
    calm_since: Option<u64>,
    alone_since: Option<u64>,
    is_over: bool,
    counts: Arc<Mutex<checks::Counts>>,
}

impl OnReplicas {
    fn new(seed: u64, counts: Arc<Mutex<checks::Counts>>) -> Self {
        let mut ensemble = Ensemble::new(seed, 0, TIMING, 0);
        let model = InStore::new(Parallel::new(ZooKeeper::new(rules(TIMING))));
        let (objects, seq, time) = (model.objects().version(), quorate_types::Seq::ZERO, AgreedTime::ZERO);
        ensemble.history.keep(&Published { objects, seq, time, level: 1, service_level: 1 });
        ensemble.history.reached_since(u64::MAX);
        Self {
            ensemble,
            lives: Vec::new(),
            model,
            known: (0, None),
            calls: BTreeMap::new(),
            questions: BTreeMap::new(),
            names: 0,
            acts: 0,
            calm_since: None,
            alone_since: None,
            is_over: false,
            counts,
        }
    }

    fn life(&mut self, who: usize) -> &mut Life {
        while self.lives.len() <= who {
            self.lives.push(Life::default());
            self.ensemble.places.push(super::ensemble::Place::default());
        }
        &mut self.lives[who]
    }

    /// The server that a carrier is of, and whether it carries for the server's present life.
    fn of(&self, carrier: usize) -> (usize, bool) {
        let at = carrier / CARRIERS;
        (at, self.lives.get(at).is_some_and(|life| life.lives % 2 == carrier % CARRIERS / 2))
    }
}

/// The log.
impl OnReplicas {
    /// Takes what replicas ran since the last time. Each piece counts once, whoever says it first: one replica ran everything before it.
    fn look_at_the_log(&mut self) {
        let mut pieces = Vec::new();
        for life in &mut self.lives {
            pieces.extend(life.log.lock().expect("nobody panicked").drain(..));
        }
        pieces.sort_by_key(Ran::place);
        for ran in pieces {
            if ran.place() > self.known {
                self.known = ran.place();
                self.run_again(&ran);
            }
        }
    }

    fn run_again(&mut self, ran: &Ran) {
        let (Ran::Command { ctx, .. } | Ran::Deadline { ctx }) = ran;
        self.ensemble.history.passes(ctx.due());
        match ran {
            Ran::Command { command, reply, .. } => {
                let mut again = Vec::new();
                self.model.execute(command, ctx, &mut ReplySink::new(&mut again, 1 << 24));
                assert_eq!(&again, reply, "a replica runs it otherwise, at {}", ctx.seq());
                self.ensemble.history.executed(command, reply, self.ensemble.ms);
            }
            Ran::Deadline { .. } => self.model.deadline_reached(ctx),
        }
        let (objects, seq, time) = (self.model.objects().version(), ctx.seq(), ctx.time());
        let published = Published { objects, seq, time, level: ctx.level(), service_level: 1 };
        self.ensemble.history.done(&all_told(&mut self.model), &published, self.ensemble.ms);
    }
}

/// Servers and clients.
impl OnReplicas {
    /// A server takes what its replica has for it.
    fn follow(&mut self, at: usize, newest: Option<&Published>) {
        let life = &mut self.lives[at];
        if self.ensemble.places[at].server.is_none() {
            life.feed.listen();
            self.ensemble.start(at, newest);
            return;
        }
        // The version first: everything up to it was told before. What is told may be ahead of it.
        let newest = match life.late.take() {
            Some(late) => late,
            None => newest.cloned(),
        };
        if self.ensemble.chance(3) {
            self.lives[at].late = Some(newest);
            return;
        }
        let heard = self.lives[at].feed.take();
        self.ensemble.turn(at, heard, newest.as_ref());
    }

    fn step(&mut self, at: usize) {
        let clients = if self.alone_since.is_some() { 1 } else { self.ensemble.clients.len() as u64 };
        match self.ensemble.below(100) {
            0..35 => {
                let which = self.ensemble.below(clients) as usize;
                self.ensemble.act(which);
            }
            35..65 => self.ensemble.read(at),
            65..98 => self.ensemble.answer(at),
            98 if !self.ensemble.calm && self.ensemble.chance(20) => self.ensemble.cut(at),
            99 if !self.ensemble.calm && self.ensemble.chance(60) => {
                let Some(Some(newest)) = self.lives[at].late.take() else { return };
                // It was too slow to keep all that was told.
                let gap = self.lives[at].feed.take().list.last().map(|told| told.zxid);
                if gap.is_some() {
                    self.ensemble.turn(at, Heard { list: Vec::new(), gap }, Some(&newest));
                }
            }
            _ => {}
        }
    }

    /// What is left to do when nothing fails any more.
    fn wind_up(&mut self) {
        let (Some(calm), ms) = (self.calm_since, self.ensemble.ms) else { return };
        self.ensemble.calm = ms >= calm;
        match self.alone_since {
            None if ms >= calm + CALM && self.ensemble.open().is_empty() => {
                self.alone_since = Some(ms);
            }
            Some(alone) if ms >= alone + ALONE && !self.is_over => {
                self.is_over = true;
                let (objects, seq) = (self.model.objects().version(), quorate_types::Seq::new(self.known.0));
                self.ensemble.history.at_the_end(&Published {
                    objects,
                    seq,
                    time: AgreedTime::ZERO,
                    level: 1,
                    service_level: 1,
                });
                let mut counts = self.counts.lock().expect("nobody panicked");
                *counts = counts.plus(&self.ensemble.history.counts());
            }
            _ => {}
        }
    }
}

impl Guest for OnReplicas {
    fn service(&mut self, who: usize) -> Hosted {
        self.look_at_the_log();
        let life = self.life(who);
        *life = Life { lives: life.lives + 1, ..Life::default() };
        let (feed, log) = (life.feed.clone(), life.log.clone());
        Hosted::Beside(Arc::new(Recorded { zookeeper: ZooKeeper::new(rules(TIMING)), feed, log }))
    }

    fn carriers(&self, replicas: usize) -> usize {
        CARRIERS * replicas
    }

    fn dies(&mut self, who: usize) {
        self.look_at_the_log();
        self.life(who).late = None;
        self.ensemble.stop(who);
    }

    fn acts(&mut self, now: u64, fronts: &[Front]) {
        self.look_at_the_log();
        self.ensemble.ms = now / 1_000_000;
        self.acts += 1;
        if self.is_over || self.lives.is_empty() {
            return;
        }
        for (at, front) in fronts.iter().enumerate().take(self.lives.len()) {
            let Some(local) = front.local else { continue };
            let wall_ms = self.ensemble.ms as i64;
            self.ensemble.places[at].now = Some(Now { time: local, wall_ms });
            self.follow(at, front.newest.as_ref());
            if self.acts.is_multiple_of(TIMING.tick / 6) {
                self.ensemble.tick(at);
            }
            for _ in 0..self.ensemble.below(10) {
                self.step(at);
            }
        }
        self.wind_up();
    }

    fn commands(&mut self, carrier: usize) -> Vec<Bytes> {
        let (at, is_present) = self.of(carrier);
        if !is_present || self.is_over {
            return Vec::new();
        }
        let is_for_clients = carrier.is_multiple_of(2);
        let place = &mut self.ensemble.places[at];
        let (mut taken, mut bytes) = (Vec::new(), 0);
        let mut rest = VecDeque::new();
        for order in place.orders.drain(..) {
            bytes += if order.conn.is_some() == is_for_clients { order.command.len() } else { 0 };
            let fits = taken.is_empty() || bytes <= CALL_BYTES;
            match order.conn.is_some() == is_for_clients && fits {
                true => taken.push(order),
                false => rest.push_back(order),
            }
        }
        place.orders = rest;
        let waits = |order: &Order| Waits { life: order.life, token: order.token, conn: order.conn };
        self.calls.insert(carrier, taken.iter().map(waits).collect());
        taken.into_iter().map(|order| order.command.into()).collect()
    }

    fn queries(&mut self, carrier: usize) -> Vec<(u64, Bytes)> {
        let (at, is_present) = self.of(carrier);
        if !is_present || !carrier.is_multiple_of(2) || self.is_over {
            return Vec::new();
        }
        let place = &mut self.ensemble.places[at];
        let asks: Vec<_> = place.asks.drain(..).map(|(token, query)| (place.life, token, query)).collect();
        let named = asks.into_iter().map(|(life, token, query)| {
            self.names += 1;
            self.questions.insert(self.names, (at, life, token));
            (self.names, query.into())
        });
        named.collect()
    }

    fn replied(&mut self, carrier: usize, replies: Vec<Option<Bytes>>) {
        self.look_at_the_log();
        let place = &mut self.ensemble.places[carrier / CARRIERS];
        let waits = self.calls.remove(&carrier).unwrap_or_default();
        assert_eq!(waits.len(), replies.len(), "as many replies as commands");
        for (Waits { life, token, conn }, reply) in waits.into_iter().zip(replies) {
            if place.life != life || place.server.is_none() {
                continue;
            }
            // Behind a command of which nothing is known, nothing of its client is sent.
            let (cut, rest): (VecDeque<Order>, VecDeque<Order>) = place
                .orders
                .drain(..)
                .partition(|order| reply.is_none() && conn.is_some() && order.conn == conn);
            place.orders = rest;
            place.answers.push_back((token, reply));
            place.answers.extend(cut.into_iter().map(|order| (order.token, None)));
        }
    }

    fn answered(&mut self, _: usize, name: u64, answer: Option<Bytes>) {
        self.look_at_the_log();
        let Some((at, life, token)) = self.questions.remove(&name) else { return };
        let place = &mut self.ensemble.places[at];
        if place.life == life && place.server.is_some() {
            place.asked.push_back((token, answer));
        }
    }

    fn calms_down(&mut self) {
        self.calm_since = Some(self.ensemble.ms + FINDS);
        self.ensemble.history.reached_since(self.ensemble.ms + FINDS);
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}

/// Runs one seed, and tells what went wrong.
fn run(seed: u64, profile: &Profile, counts: &Arc<Mutex<checks::Counts>>, level: Level) -> Option<String> {
    let guest = OnReplicas::new(seed, counts.clone());
    let (report, trace) = run_guest(Plan::with_guest(seed, profile, &guest), Box::new(guest), level);
    if level != Level::Hash {
        print!("{}", trace.text());
    }
    report.failure.map(|failure| format!("seed {seed}: {}: {}", failure.checker, failure.text))
}

fn profile(instances: u16) -> Profile {
    Profile { replicas: Some(3), instances: Some(instances), ..Profile::default() }
}

/// Runs of a kind, on two threads.
fn all(profile: &Profile) -> checks::Counts {
    let first = std::env::var("QUORATE_FIRST").ok().and_then(|first| first.parse().ok()).unwrap_or(1);
    let level = if std::env::var("QUORATE_TRACE").is_ok() { Level::Events } else { Level::Hash };
    let (end, counts) = (first + seeds(6), Arc::new(Mutex::new(checks::Counts::default())));
    let found: Vec<String> = std::thread::scope(|scope| {
        let part = |part| {
            let counts = counts.clone();
            scope.spawn(move || {
                let mine = (first..end).filter(move |seed| seed % 2 == part);
                mine.filter_map(|seed| run(seed, profile, &counts, level)).take(5).collect::<Vec<_>>()
            })
        };
        let parts = [part(0), part(1)];
        parts.into_iter().flat_map(|part| part.join().expect("it reports")).collect()
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
    let counts = *counts.lock().expect("nobody panicked");
    println!("{counts:?}");
    counts
}

#[test]
fn replicas_of_one_instance_are_one_zookeeper() {
    let checks::Counts { reads, writes, events, moves, .. } = all(&profile(1));
    assert!(reads > 0 && writes > 0 && events > 0 && moves > 0, "otherwise nothing was looked at");
}

#[test]
fn replicas_of_merged_instances_are_one_zookeeper() {
    let checks::Counts { reads, writes, events, .. } = all(&profile(3));
    assert!(reads > 0 && writes > 0 && events > 0, "otherwise nothing was looked at");
}

/// Each bug is found. They are only in programs that are built with `--cfg planted`.
#[test]
#[ignore = "a bug is in force in the whole process: run it alone"]
fn planted_bugs_are_found_on_replicas() {
    if !quorate_types::HAS_PLANTED {
        return quorate_skipped::skipped("planted bugs are only in builds with --cfg planted");
    }
    let counts = Arc::default();
    for bug in super::PLANTED {
        quorate_types::plant(Some(bug));
        let found = (1..=400).find_map(|seed| Some((seed, run(seed, &profile(1), &counts, Level::Hash)?)));
        quorate_types::plant(None);
        println!("{bug}: {found:?}");
        assert!(found.is_some(), "{bug} is not found");
    }
}
