//! Servers and their clients, whatever takes their commands.

use super::checks::History;
use super::client::{Client, Sent};
use crate::support::cluster::Plain;
use bytes::Bytes;
use quorate_execute::Published;
use quorate_types::{Random, Span, Time};
use quorate_zookeeper::feed::Heard;
use quorate_zookeeper::server::{ConnId, Now, Output, SaslUsers, Server, ServerConfig};
use quorate_zookeeper::service::What;
use std::collections::{BTreeMap, VecDeque};

/// How long things take, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timing {
    pub(super) tick: u64,
    /// The time-out that clients ask for, and get.
    pub(super) timeout: u64,
}

/// A command that a server wants ordered.
pub(super) struct Order {
    pub(super) life: i64,
    pub(super) token: u64,
    pub(super) conn: Option<ConnId>,
    pub(super) command: Vec<u8>,
}

/// A server, and what passes through its process.
#[derive(Default)]
pub(super) struct Place {
    pub(super) server: Option<Server>,
    /// What the clocks of its process show.
    pub(super) now: Option<Now>,
    /// Whether its replica answers reads.
    pub(super) is_open: bool,
    /// Its connections, and what its clients sent that it has not read.
    pub(super) conns: BTreeMap<ConnId, VecDeque<Bytes>>,
    /// The number of the server's life.
    pub(super) life: i64,
    /// Commands that are not ordered yet.
    pub(super) orders: VecDeque<Order>,
    /// Questions that are not asked yet.
    pub(super) asks: VecDeque<(u64, Vec<u8>)>,
    /// Answers on their way to it: to commands, and to questions.
    pub(super) answers: VecDeque<(u64, Option<Bytes>)>,
    pub(super) asked: VecDeque<(u64, Option<Bytes>)>,
}

/// All servers and clients.
pub(super) struct Ensemble {
    pub(super) random: Random,
    pub(super) timing: Timing,
    /// The time as everybody outside knows it.
    pub(super) ms: u64,
    pub(super) places: Vec<Place>,
    pub(super) clients: Vec<Client>,
    pub(super) history: History,
    /// From now on clients begin nothing.
    pub(super) calm: bool,
    lives: i64,
    next_conn: ConnId,
}

impl Ensemble {
    pub(super) fn new(seed: u64, servers: usize, timing: Timing, ms: u64) -> Self {
        Self {
            random: Random::new(seed),
            timing,
            ms,
            places: (0..servers).map(|_| Place::default()).collect(),
            clients: (0..4).map(|number| Client::new(number, timing.timeout)).collect(),
            history: History::new(timing),
            calm: false,
            lives: 0,
            next_conn: 0,
        }
    }

    pub(super) fn chance(&mut self, of: u64) -> bool {
        self.random.next().is_multiple_of(of)
    }

    pub(super) fn below(&mut self, count: u64) -> u64 {
        self.random.next() % count.max(1)
    }

    /// What the clocks of a server's process show: those of everybody, unless it was told others.
    fn now(&self, at: usize) -> Now {
        let ours = Now { time: Time::from_nanos(self.ms * 1_000_000), wall_ms: self.ms as i64 };
        self.places[at].now.unwrap_or(ours)
    }

    /// Whether the server has no command or question under way that it waits for.
    pub(super) fn waits_for_nothing(&self, at: usize) -> bool {
        let Place { answers, asked, asks, .. } = &self.places[at];
        answers.is_empty() && asked.is_empty() && asks.is_empty()
    }
}

/// What happens to a server.
impl Ensemble {
    /// It begins, as a new life with a state that its replica has, if it has one.
    pub(super) fn start(&mut self, at: usize, published: Option<&Published>) {
        self.lives += 1;
        let Timing { tick, .. } = self.timing;
        let config = ServerConfig {
            server: self.lives,
            tick: Span::from_millis(tick),
            timeout_ms: (2 * tick as i32, 20 * tick as i32),
            waiting_max: (64, 1 << 20),
            super_digest: None,
            sasl_users: SaslUsers::default(),
            linearizable: false,
            may_reconfigure: true,
            read_only: true,
        };
        let now = self.now(at);
        let mut server = Server::new(config, Box::new(Plain::new(self.lives as u8)));
        server.turn(Heard::default(), published, now);
        let place = &mut self.places[at];
        (place.server, place.is_open, place.life) = (Some(server), published.is_some(), self.lives);
        self.perform(at);
    }

    /// Its process ends. Some of what it had sent may still be ordered, but never without what came before.
    pub(super) fn stop(&mut self, at: usize) {
        let place = &mut self.places[at];
        place.server = None;
        let kept = (self.random.next() % (place.orders.len() as u64 + 1)) as usize;
        place.orders.truncate(kept);
        place.asks.clear();
        place.answers.clear();
        place.asked.clear();
        for conn in std::mem::take(&mut place.conns).into_keys() {
            self.clients.iter_mut().for_each(|client| client.lost(conn));
        }
    }

    /// Its replica has done more, and told it so; or it may not be read now.
    pub(super) fn turn(&mut self, at: usize, heard: Heard, newest: Option<&Published>) {
        let now = self.now(at);
        let place = &mut self.places[at];
        let Some(server) = &mut place.server else { return };
        let replaced = heard.list.iter().filter(|told| told.what == What::Replaced).map(|told| told.zxid);
        for zxid in replaced.chain(heard.gap) {
            place.conns.keys().for_each(|conn| self.history.jumped(*conn, zxid));
        }
        place.is_open = newest.is_some();
        server.turn(heard, newest, now);
        self.perform(at);
    }

    /// Time passes for it.
    pub(super) fn tick(&mut self, at: usize) {
        let now = self.now(at);
        if let Some(server) = &mut self.places[at].server {
            server.tick(now);
            self.perform(at);
        }
    }

    /// It hears what became of a command, and of a question.
    pub(super) fn answer(&mut self, at: usize) {
        let now = self.now(at);
        let place = &mut self.places[at];
        let Some(server) = &mut place.server else { return };
        if let Some((token, answer)) = place.answers.pop_front() {
            server.ordered(token, answer, now);
        }
        if let Some((token, answer)) = place.asked.pop_front() {
            server.asked(token, answer, now);
        }
        self.perform(at);
    }

    /// It reads a frame of a client.
    pub(super) fn read(&mut self, at: usize) {
        let now = self.now(at);
        let count = self.places[at].conns.len() as u64;
        let chosen = self.below(count) as usize;
        let place = &mut self.places[at];
        let Some((conn, frames)) = place.conns.iter_mut().nth(chosen) else { return };
        let (conn, frame) = (*conn, frames.pop_front());
        if let Some((server, frame)) = place.server.as_mut().zip(frame) {
            server.received(conn, frame, now);
            if let Some(session) = self.clients.iter().find(|client| client.conn() == Some(conn)) {
                self.history.heard(session.session(), self.ms);
            }
            self.perform(at);
        }
    }

    fn perform(&mut self, at: usize) {
        loop {
            let place = &mut self.places[at];
            let Some(server) = place.server.as_mut() else { return };
            let outputs = server.take_outputs();
            if outputs.is_empty() {
                return;
            }
            for output in outputs {
                let place = &mut self.places[at];
                match output {
                    Output::Send { conn, frame } => {
                        let is_open = place.is_open;
                        self.deliver(conn, frame, is_open);
                    }
                    Output::Close { conn } => {
                        place.conns.remove(&conn);
                        self.clients.iter_mut().for_each(|client| client.closed(conn));
                    }
                    Output::Resume { .. } => {}
                    Output::Reconfigure { .. } => panic!("no client asks for it"),
                    Output::Order { token, conn, command, .. } => {
                        place.orders.push_back(Order { life: place.life, token, conn, command });
                    }
                    Output::Ask { token, query } => place.asks.push_back((token, query)),
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
}

/// What clients do.
impl Ensemble {
    /// A client acts: it connects, sends, or reads what came.
    pub(super) fn act(&mut self, which: usize) {
        let mut client = std::mem::replace(&mut self.clients[which], Client::new(99, 0));
        let draw = self.random.next();
        if client.conn().is_none() {
            let at = (draw % self.places.len() as u64) as usize;
            let now = self.now(at);
            let place = &mut self.places[at];
            if let Some(server) = &mut place.server {
                self.next_conn += 1;
                place.conns.insert(self.next_conn, VecDeque::from([client.connect(self.next_conn)]));
                server.connected(self.next_conn, Vec::new(), now);
            }
        } else if let Some(frame) = client.take() {
            client.reads(&frame, &mut self.history, self.ms);
        } else if let Some(Sent { frame, .. }) = client.sends(draw, self.ms, self.calm) {
            let conn = client.conn().expect("it has one");
            for place in &mut self.places {
                if let Some(frames) = place.conns.get_mut(&conn) {
                    frames.push_back(frame.clone());
                }
            }
        }
        self.clients[which] = client;
    }

    /// A connection is cut. Its client notices; its server perhaps later.
    pub(super) fn cut(&mut self, at: usize) {
        let count = self.places[at].conns.len() as u64;
        let chosen = self.below(count) as usize;
        let Some(conn) = self.places[at].conns.keys().nth(chosen).copied() else { return };
        self.clients.iter_mut().for_each(|client| client.lost(conn));
        if self.chance(2) {
            let place = &mut self.places[at];
            place.conns.remove(&conn);
            if let Some(server) = &mut place.server {
                server.closed(conn);
            }
        }
    }

    /// What clients that are connected wait for.
    pub(super) fn open(&self) -> Vec<String> {
        self.clients.iter().filter_map(Client::open).collect()
    }
}
