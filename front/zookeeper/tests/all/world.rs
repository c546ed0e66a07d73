//! Random worlds: servers that lag, die, lose events, take checkpoints and may not be read for a while; clients that move, are cut off, and fall
//! silent. Checkers look at what clients see, and at what the log has.
//!
//! `QUORATE_SEEDS` says how many worlds. Each runs the service and the servers as they are, on a log of its own, with seeded randomness and
//! virtual time. A world of two thousand steps takes some milliseconds.

mod checks;
mod client;

use crate::support::cluster::Plain;
use bytes::Bytes;
use checks::History;
use client::{Client, Sent};
use quorate_execute::{Context, InStore, Parallel, Published, ReplySink, Service};
use quorate_types::{AgreedTime, Random, Seq, Span, Time};
use quorate_zookeeper::feed::Heard;
use quorate_zookeeper::server::{ConnId, Now, Output, SaslUsers, Server, ServerConfig};
use quorate_zookeeper::service::{Told, What, ZooKeeper};
use quorate_zookeeper::tree::Rules;
use std::any::Any;
use std::collections::{BTreeMap, VecDeque};

pub(super) const TICK_MS: u64 = 3000;
const START_MS: u64 = 1 << 20;
const SERVERS: usize = 3;

/// What was done, as a server's replica takes it.
type Turn = (Vec<Told>, Published);

/// A server, and its replica.
struct Member {
    server: Option<Server>,
    behind: VecDeque<Turn>,
    /// Whether its replica answers reads.
    is_open: bool,
    /// Its connections, and what its clients sent that it has not read.
    conns: BTreeMap<ConnId, VecDeque<Bytes>>,
    /// The number of the server's life.
    life: i64,
    /// Commands that are not ordered yet, with the life that sent them.
    orders: VecDeque<(i64, u64, Vec<u8>)>,
    /// Answers on their way: to commands, and to questions.
    answers: VecDeque<(u64, Bytes)>,
    asked: VecDeque<(u64, Bytes)>,
    /// Until when a dead one stays dead.
    back_at: u64,
}

/// All of it.
pub(super) struct World {
    random: Random,
    ms: u64,
    seq: u64,
    lives: i64,
    next_conn: ConnId,
    service: InStore<Parallel<ZooKeeper>>,
    members: Vec<Member>,
    clients: Vec<Client>,
    history: History,
    /// Until when nothing can be ordered, since too few replicas reach each other.
    halted_until: u64,
    /// When nothing waited to be ordered.
    all_ordered_at: u64,
    /// From now on nothing fails any more.
    calm: bool,
}

/// How many worlds.
fn seeds(usual: u64) -> u64 {
    std::env::var("QUORATE_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(usual)
}

/// What was told since the last call.
fn all_told(service: &mut InStore<Parallel<ZooKeeper>>) -> Vec<Told> {
    let events = service.tells().and_then(|tells| tells.take_events());
    let list = events.and_then(|events| events.of::<Vec<Box<dyn Any + Send>>>()).unwrap_or_default();
    list.into_iter().map(|told| *told.downcast::<Told>().expect("what servers must know")).collect()
}

impl World {
    fn new(seed: u64) -> Self {
        let (tick, empty_for) = (Span::from_millis(TICK_MS), Span::from_secs(5));
        let rules = Rules { tick, empty_for, enforce_quotas: true, ..Rules::default() };
        let member = || Member {
            server: None,
            behind: VecDeque::new(),
            is_open: true,
            conns: BTreeMap::new(),
            life: 0,
            orders: VecDeque::new(),
            answers: VecDeque::new(),
            asked: VecDeque::new(),
            back_at: 0,
        };
        let mut world = Self {
            random: Random::new(seed),
            ms: START_MS,
            seq: 0,
            lives: 0,
            next_conn: 0,
            service: InStore::new(Parallel::new(ZooKeeper::new(rules))),
            members: (0..SERVERS).map(|_| member()).collect(),
            clients: (0..4).map(Client::new).collect(),
            history: History::default(),
            halted_until: 0,
            all_ordered_at: START_MS,
            calm: false,
        };
        world.history.keep(&world.published());
        (0..SERVERS).for_each(|at| world.start(at));
        world
    }

    fn chance(&mut self, of: u64) -> bool {
        self.random.next().is_multiple_of(of)
    }

    fn below(&mut self, count: u64) -> u64 {
        self.random.next() % count.max(1)
    }

    fn now(&self) -> Now {
        Now { time: Time::from_nanos(self.ms * 1_000_000), wall_ms: self.ms as i64 }
    }

    fn context(&self) -> Context {
        Context::at(Seq::new(self.seq), AgreedTime::from_nanos(self.ms * 1_000_000))
    }

    fn published(&self) -> Published {
        let (seq, time) = (Seq::new(self.seq), self.context().time());
        Published { objects: self.service.objects().version(), seq, time, level: 1 }
    }

    /// A server begins, as a new life with the newest state that its replica has.
    fn start(&mut self, at: usize) {
        self.lives += 1;
        let config = ServerConfig {
            server: self.lives,
            tick: Span::from_millis(TICK_MS),
            timeout_ms: (2 * TICK_MS as i32, 20 * TICK_MS as i32),
            waiting_max: (64, 1 << 20),
            super_digest: None,
            sasl_users: SaslUsers::default(),
            linearizable: false,
            may_reconfigure: true,
            read_only: true,
        };
        let (published, now) = (self.published(), self.now());
        let mut server = Server::new(config, Box::new(Plain::new(self.lives as u8)));
        server.turn(Heard::default(), Some(&published), now);
        let member = &mut self.members[at];
        (member.server, member.is_open, member.life) = (Some(server), true, self.lives);
        member.behind.clear();
        self.perform(at);
    }

    fn kill(&mut self, at: usize) {
        let away = 500 + self.below(8000);
        let member = &mut self.members[at];
        (member.server, member.back_at) = (None, self.ms + away);
        // What it had sent may still be ordered, but never without what came before.
        let kept = (self.random.next() % (member.orders.len() as u64 + 1)) as usize;
        member.orders.truncate(kept);
        member.answers.clear();
        member.asked.clear();
        member.behind.clear();
        for conn in std::mem::take(&mut member.conns).into_keys() {
            self.clients.iter_mut().for_each(|client| client.lost(conn));
        }
    }

    /// The log takes the next command of a server.
    fn order(&mut self, at: usize) {
        if self.ms < self.halted_until {
            return;
        }
        let Some((life, token, command)) = self.members[at].orders.pop_front() else { return };
        self.seq += 1;
        let (mut reply, ctx) = (Vec::new(), self.context());
        self.service.execute(&command, &ctx, &mut ReplySink::new(&mut reply, 1 << 24));
        self.history.executed(&command, &reply, self.ms);
        self.done();
        let member = &mut self.members[at];
        if member.server.is_some() && member.life == life {
            member.answers.push_back((token, reply.into()));
        }
    }

    /// Something was done: all replicas take it in time.
    fn done(&mut self) {
        let told = all_told(&mut self.service);
        for told in &told {
            if let What::Ended { session, .. } = &told.what {
                self.history.ended(*session, self.ms);
            }
        }
        let published = self.published();
        self.history.told(&told);
        self.history.keep(&published);
        for member in self.members.iter_mut().filter(|member| member.server.is_some()) {
            member.behind.push_back((told.clone(), published.clone()));
        }
    }

    /// A replica takes some of what was done, in one turn.
    fn catch_up(&mut self, at: usize, most: usize) {
        let (now, early) = (self.now(), self.chance(3));
        let member = &mut self.members[at];
        let Some(server) = member.server.as_mut().filter(|_| member.is_open) else { return };
        let (mut list, mut newest) = (Vec::new(), None);
        for _ in 0..most {
            let Some((told, published)) = member.behind.pop_front() else { break };
            list.extend(told);
            newest = Some(published);
        }
        // What is told may be ahead of the version: the lane goes on between the two.
        if early && let Some((told, _)) = member.behind.front_mut() {
            list.append(told);
        }
        if let Some(published) = newest {
            server.turn(Heard { list, gap: None }, Some(&published), now);
            self.perform(at);
        }
    }

    /// A replica loses what was told, or takes a checkpoint instead of what is behind.
    fn jump(&mut self, at: usize) {
        let (now, has_gap) = (self.now(), self.chance(2));
        let newest = self.members[at].behind.back().map(|(_, published)| published.clone());
        let member = &mut self.members[at];
        let Some((server, published)) = member.server.as_mut().filter(|_| member.is_open).zip(newest) else {
            return;
        };
        member.behind.clear();
        let zxid = checks::zxid_of(&published);
        let list = if has_gap { Vec::new() } else { vec![Told { zxid, what: What::Replaced }] };
        member.conns.keys().for_each(|conn| self.history.jumped(*conn, zxid));
        server.turn(Heard { list, gap: has_gap.then_some(zxid) }, Some(&published), now);
        self.perform(at);
    }

    /// A replica may not be read for now, and is repaired later.
    fn diverge(&mut self, at: usize) {
        let now = self.now();
        let member = &mut self.members[at];
        let Some(server) = member.server.as_mut() else { return };
        member.is_open = !member.is_open;
        if !member.is_open {
            server.turn(Heard::default(), None, now);
        } else if let Some((_, published)) = member.behind.back().cloned() {
            member.behind.clear();
            let told = Told { zxid: checks::zxid_of(&published), what: What::Replaced };
            member.conns.keys().for_each(|conn| self.history.jumped(*conn, told.zxid));
            server.turn(Heard { list: vec![told], gap: None }, Some(&published), now);
        }
        self.perform(at);
    }

    fn perform(&mut self, at: usize) {
        loop {
            let member = &mut self.members[at];
            let Some(server) = member.server.as_mut() else { return };
            let outputs = server.take_outputs();
            if outputs.is_empty() {
                return;
            }
            for output in outputs {
                match output {
                    Output::Send { conn, frame } => {
                        let is_open = self.members[at].is_open;
                        self.deliver(conn, frame, is_open);
                    }
                    Output::Close { conn } => {
                        self.members[at].conns.remove(&conn);
                        self.clients.iter_mut().for_each(|client| client.closed(conn));
                    }
                    Output::Resume { .. } => {}
                    Output::Reconfigure { .. } => panic!("no client asks for it"),
                    Output::Order { token, command, .. } => {
                        let member = &mut self.members[at];
                        member.orders.push_back((member.life, token, command));
                    }
                    Output::Ask { token, query } => {
                        let (mut reply, ctx) = (Vec::new(), self.context());
                        self.service.query(&query, &ctx, &mut ReplySink::new(&mut reply, 1 << 24));
                        self.members[at].asked.push_back((token, reply.into()));
                    }
                }
            }
        }
    }

    fn deliver(&mut self, conn: ConnId, frame: Bytes, is_open: bool) {
        if let Some(client) = self.clients.iter_mut().find(|client| client.conn() == Some(conn)) {
            assert!(is_open || !client.shows(&frame), "an answer of a replica that may not be read");
            client.came(frame);
        }
    }

    /// A server reads a frame of a client.
    fn read(&mut self, at: usize) {
        let now = self.now();
        let count = self.members[at].conns.len() as u64;
        let chosen = self.below(count) as usize;
        let member = &mut self.members[at];
        let Some((conn, frames)) = member.conns.iter_mut().nth(chosen) else { return };
        let (conn, frame) = (*conn, frames.pop_front());
        if let Some((server, frame)) = member.server.as_mut().zip(frame) {
            server.received(conn, frame, now);
            if let Some(session) = self.clients.iter().find(|client| client.conn() == Some(conn)) {
                self.history.heard(session.session(), self.ms);
            }
            self.perform(at);
        }
    }

    /// A client acts: it connects, sends, or reads what came.
    fn act(&mut self, which: usize) {
        let mut client = std::mem::replace(&mut self.clients[which], Client::new(99));
        let draw = self.random.next();
        if client.conn().is_none() {
            let at = (draw % SERVERS as u64) as usize;
            if self.members[at].server.is_some() {
                self.next_conn += 1;
                let hello = client.connect(self.next_conn);
                let now = self.now();
                let member = &mut self.members[at];
                member.conns.insert(self.next_conn, VecDeque::from([hello]));
                if let Some(server) = &mut member.server {
                    server.connected(self.next_conn, Vec::new(), now);
                }
            }
        } else if let Some(frame) = client.take() {
            client.reads(&frame, &mut self.history, self.ms);
        } else if let Some(Sent { frame, .. }) = client.sends(draw, self.ms, self.calm) {
            let conn = client.conn().expect("it has one");
            for member in &mut self.members {
                if let Some(frames) = member.conns.get_mut(&conn) {
                    frames.push_back(frame.clone());
                }
            }
        }
        self.clients[which] = client;
    }

    /// A connection is cut. Its client notices; its server perhaps later.
    fn cut(&mut self, at: usize) {
        let count = self.members[at].conns.len() as u64;
        let chosen = self.below(count) as usize;
        let Some(conn) = self.members[at].conns.keys().nth(chosen).copied() else { return };
        self.clients.iter_mut().for_each(|client| client.lost(conn));
        if self.chance(2) {
            let member = &mut self.members[at];
            member.conns.remove(&conn);
            if let Some(server) = &mut member.server {
                server.closed(conn);
            }
        }
    }

    fn pass(&mut self, ms: u64) {
        self.ms += ms;
        let now = self.now();
        for at in 0..SERVERS {
            if let Some(server) = &mut self.members[at].server {
                server.tick(now);
                self.perform(at);
            } else if self.ms >= self.members[at].back_at {
                self.start(at);
            }
        }
        let ctx = self.context();
        let is_due = self.service.next_deadline().is_some_and(|due| due <= ctx.time());
        if is_due && self.ms >= self.halted_until {
            self.service.deadline_reached(&ctx);
            self.done();
        }
    }

    fn answer(&mut self, at: usize) {
        let now = self.now();
        let member = &mut self.members[at];
        let Some(server) = &mut member.server else { return };
        if let Some((token, answer)) = member.answers.pop_front() {
            server.ordered(token, Some(answer), now);
        }
        if let Some((token, answer)) = member.asked.pop_front() {
            server.asked(token, Some(answer), now);
        }
        self.perform(at);
    }

    fn step(&mut self) {
        let at = self.below(SERVERS as u64) as usize;
        let clients = self.clients.len() as u64;
        match self.below(100) {
            0..30 => {
                let which = self.below(clients) as usize;
                self.act(which);
            }
            30..50 => self.read(at),
            50..65 => self.order(at),
            65..78 => self.answer(at),
            78..92 => {
                let most = 1 + self.below(4) as usize;
                self.catch_up(at, most);
            }
            92..97 => {
                let ms = self.below(200);
                self.pass(ms);
            }
            _ if self.calm => {}
            97 if self.chance(3) => self.cut(at),
            98 if self.chance(3) => self.jump(at),
            99 if self.chance(12) => self.kill(at),
            99 if self.chance(30) => self.halted_until = self.ms + self.random.next() % 30_000,
            99 if self.chance(4) => self.diverge(at),
            _ => {}
        }
        // A server's word is ordered and answered in time, as it is where there is a majority: no session lives without that.
        if self.ms > self.all_ordered_at + 500 && self.ms >= self.halted_until {
            self.all_ordered_at = self.ms;
            for at in 0..SERVERS {
                while !self.members[at].orders.is_empty() {
                    self.order(at);
                }
                while !self.members[at].answers.is_empty() {
                    self.answer(at);
                }
            }
        }
    }

    /// Everything that waits anywhere moves on.
    fn settle(&mut self) {
        self.settle_servers();
        (0..self.clients.len()).for_each(|which| self.act(which));
    }

    fn settle_servers(&mut self) {
        for at in 0..SERVERS {
            for _ in 0..4 {
                self.read(at);
            }
            while !self.members[at].orders.is_empty() {
                self.order(at);
            }
        }
        for at in 0..SERVERS {
            self.catch_up(at, usize::MAX);
            while !self.members[at].answers.is_empty() || !self.members[at].asked.is_empty() {
                self.answer(at);
            }
        }
    }

    /// Runs until everybody has done its part, and everything is known everywhere.
    fn run(&mut self, steps: u64) {
        for _ in 0..steps {
            self.step();
        }
        self.calm = true;
        self.halted_until = 0;
        for at in 0..SERVERS {
            if !self.members[at].is_open {
                self.done();
                self.diverge(at);
            }
        }
        // Then time stands, so that nothing new begins.
        for round in 0..560 {
            self.settle();
            if round < 500 {
                self.pass(20);
            }
        }
        let open: Vec<String> = self.clients.iter().filter_map(Client::open).collect();
        assert!(open.is_empty(), "still open: {open:?}");
        // Then all but one are gone, and no other session lives on because of that one's.
        for _ in 0..60 {
            self.pass(500);
            for _ in 0..4 {
                self.act(0);
                self.settle_servers();
            }
        }
        self.history.at_the_end(&self.published());
    }
}

/// What happened in a world, for messages.
fn run(seed: u64) -> std::thread::Result<checks::Counts> {
    std::panic::catch_unwind(|| {
        let mut world = World::new(seed);
        world.run(3000);
        world.history.counts()
    })
}

#[test]
fn whatever_fails_clients_see_one_history() {
    let mut all = checks::Counts::default();
    for seed in 1..=seeds(60) {
        match run(seed) {
            Ok(counts) => all = all.plus(&counts),
            Err(why) => panic!("seed {seed}: {:?}", why.downcast_ref::<String>()),
        }
    }
    println!("{all:?}");
    // Otherwise the checkers looked at nothing.
    let checks::Counts { reads, writes, events, caught_up, moves, expired, refused, syncs } = all;
    for (what, count) in [
        ("reads", reads),
        ("writes", writes),
        ("events", events),
        ("events that were made up for", caught_up),
        ("moves", moves),
        ("expired sessions", expired),
        ("late writes", refused),
        ("syncs", syncs),
    ] {
        assert!(count > 0, "no {what} in {all:?}");
    }
}

/// Each bug is found. They are only in programs that are built with `--cfg planted`.
#[test]
#[ignore = "a bug is in force in the whole process: run it alone"]
fn planted_bugs_are_found() {
    if !quorate_types::HAS_PLANTED {
        return quorate_skipped::skipped("planted bugs are only in builds with --cfg planted");
    }
    for bug in [
        "zk-write-before-read",
        "zk-event-after-reply",
        "zk-watch-on-older-version",
        "zk-late-write",
        "zk-expiry-by-local-clock",
        "zk-version-kept-after-transfer",
        "zk-read-of-diverged",
    ] {
        quorate_types::plant(Some(bug));
        let found = (1..=400).find(|seed| run(*seed).is_err());
        quorate_types::plant(None);
        println!("{bug}: {found:?}");
        assert!(found.is_some(), "{bug} is not found");
    }
    quorate_types::plant(Some("zk-pzxid-forgotten"));
    let found = std::panic::catch_unwind(crate::sessions::a_close_takes_all_ephemeral_nodes_in_one_step);
    quorate_types::plant(None);
    assert!(found.is_err(), "zk-pzxid-forgotten is not found");
}
