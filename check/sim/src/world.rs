//! One run: replicas, clients, disks and network in one thread on virtual time, all from one seed.
//!
//! A safety phase in which the faults of the plan happen, then healing, then a liveness phase in which the workload must finish.
//! `world/replicas.rs`, `world/lanes.rs`, `world/keeping.rs` and `world/clients.rs` drive the processes, `world/faults.rs` breaks things,
//! `world/moments.rs` waits for moments, `world/backup.rs` gives them a state to begin with, `world/liars.rs` lets some lie,
//! `world/members.rs` lets replicas come and go,
//! `world/upgrades.rs` replaces their programs, `world/watches.rs` has clients watch, `world/verdict.rs` judges.
//!
//! INV-SIM-1 (writes go to prepared segments) and INV-SIM-2 (replies are of the kind that was asked for) are about the
//! simulator and its workload itself.

mod backup;
mod clients;
mod costs;
mod disks;
mod faults;
mod keeping;
mod lanes;
mod liars;
mod members;
mod moments;
mod replicas;
mod upgrades;
mod verdict;
mod watches;

use crate::checks::agreement::Agreement;
use crate::checks::alarm::Alarm;
use crate::checks::answers::Answers;
use crate::checks::checkpoints::Checkpoints;
use crate::checks::instances::Instances;
use crate::checks::levels::Levels;
use crate::checks::members::Members;
use crate::checks::once::Once;
use crate::checks::states::States;
use crate::checks::time::Times;
use crate::checks::{Failure, bounded, progress};
use crate::client::Client;
use crate::clock::Clock;
use crate::liars::Liar;
use crate::net::{Dial, Net};
use crate::plan::{Moment, Plan};
use crate::process::{Arrival, Process};
use crate::queue::{Event, Queue};
use crate::random::Rng;
use crate::replica::Replica;
use crate::trace::{Arrow, Level, Trace};
use quorate_types::{ConnId, ReplicaId};
use std::collections::BTreeMap;

pub use costs::At;
pub use lanes::Lanes;

const MS: u64 = 1_000_000;

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// The hash of everything that happened.
    pub hash: u64,
    /// How many events that were.
    pub events: u64,
    /// How long it took, in virtual nanoseconds.
    pub time: u64,
    /// Commands that were executed.
    pub commands: usize,
    /// Operations that clients began.
    pub operations: usize,
    /// What went wrong, if anything did.
    pub failure: Option<Failure>,
    /// What could not be judged.
    pub unjudged: Option<String>,
}

/// Which part of a run it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Safety,
    Liveness,
    Reads,
    CatchUp,
}

/// One run.
pub struct World {
    plan: Plan,
    now: u64,
    queue: Queue,
    net: Net,
    processes: Vec<Process>,
    replicas: Vec<Replica>,
    clients: Vec<Client>,
    liars: BTreeMap<usize, Liar>,
    phase: Phase,
    trace: Trace,
    rng: Rng,
    agreement: Agreement,
    once: Once,
    answers: Answers,
    alarm: Alarm,
    states: States,
    times: Times,
    /// When the service's alarm rang first in which batch.
    rang: BTreeMap<u64, u64>,
    checkpoints: Checkpoints,
    members: Members,
    levels: Levels,
    instances: Instances,
    /// Faults that wait for their moment.
    moments: Vec<Moment>,
    /// The last border must come after this seq; how often it was asked for, and whether it is everywhere.
    last_border: (u64, u64, bool),
    failure: Option<Failure>,
    unjudged: Option<String>,
}

impl World {
    /// A world in which nothing has happened yet.
    pub fn new(plan: Plan, level: Level) -> Self {
        let size = plan.replicas + plan.clients;
        let mut rng = Rng::of(plan.seed, 2);
        let drift = |rng: &mut Rng| rng.range(0, plan.drift * 2) as i64 - plan.drift as i64;
        let mut process = |_| {
            let local = rng.spread(1, 1_000_000 * MS);
            Process::new(Clock::new(local, 0, drift(&mut rng)))
        };
        let processes = (0..size).map(&mut process).collect();
        Self {
            now: 0,
            queue: Queue::new(Rng::of(plan.seed, 3)),
            net: Net::new(plan.net.clone(), size, Rng::of(plan.seed, 4)),
            processes,
            replicas: (0..plan.replicas)
                .map(|n| Replica::new(Rng::of(plan.seed, 100 + n as u64), plan.upgrades.able[n]))
                .collect(),
            clients: (0..plan.clients).map(|n| Client::new(&plan, n as u32 + 1)).collect(),
            liars: plan.liars.iter().map(|liar| (liar.who, Liar::new(&plan, liar))).collect(),
            phase: Phase::Safety,
            trace: Trace::new(level, plan.replicas),
            rng: Rng::of(plan.seed, 5),
            agreement: Agreement::default(),
            once: Once::default(),
            answers: Answers::default(),
            alarm: Alarm::new(plan.service.alarm),
            states: States::default(),
            times: Times::new(plan.times()),
            rang: BTreeMap::new(),
            checkpoints: Checkpoints::default(),
            members: Members::default(),
            levels: Levels::default(),
            instances: Instances::default(),
            moments: Vec::new(),
            last_border: (0, 0, false),
            failure: None,
            unjudged: None,
            plan,
        }
    }

    /// Runs to the end.
    pub fn run(&mut self) -> Report {
        self.restore_backup();
        for who in
            (0..self.processes.len()).filter(|who| !(self.plan.founders..self.plan.replicas).contains(who))
        {
            let at = self.rng.below(50 * MS);
            self.queue.push(at, Event::Start { who, life: 0 });
        }
        for index in 0..self.plan.faults.len() {
            self.queue.push(self.plan.faults[index].0, Event::Fault { index });
        }
        self.queue.push(self.plan.heal_at, Event::Heal);
        self.queue.push(0, Event::Look);
        while self.failure.is_none() && !self.is_over() {
            let Some((at, event)) = self.queue.pop() else { break };
            if at > self.plan.heal_at + self.plan.bound {
                self.failure = Some(progress::late(&self.open()));
                break;
            }
            self.now = at;
            self.trace.events += 1;
            if self.trace.events > progress::EVENTS_PER_SECOND * (at / 1_000_000_000 + 1) {
                self.failure = Some(Failure::new("progress", "too many events: something goes in circles"));
            }
            self.trace.mix(&[at]);
            self.happen(event);
        }
        if self.failure.is_none() {
            self.judge();
        }
        self.report()
    }

    /// How it stands; for a run that panicked, too.
    pub fn report(&self) -> Report {
        Report {
            seed: self.plan.seed,
            hash: self.trace.hash(),
            events: self.trace.events,
            time: self.now,
            commands: self.agreement.rows().len(),
            operations: self.clients.iter().map(|client| client.done.len()).sum(),
            failure: self.failure.clone(),
            unjudged: self.unjudged.clone(),
        }
    }

    /// When the last operation of a client ended, in virtual nanoseconds.
    pub fn last_answer(&self) -> u64 {
        self.clients.iter().flat_map(|client| &client.done).filter_map(|done| done.ret).max().unwrap_or(0)
    }

    /// The longest time that an operation took which was called between these times, in virtual nanoseconds.
    pub fn longest_wait(&self, called: std::ops::Range<u64>) -> u64 {
        let done = self.clients.iter().flat_map(|client| &client.done);
        done.filter(|done| called.contains(&done.call))
            .map(|done| done.ret.unwrap_or(self.now) - done.call)
            .max()
            .unwrap_or(0)
    }

    /// The highest view of the first instance that a replica is in.
    pub fn view(&self) -> u64 {
        let nodes = self.replicas.iter().filter_map(|replica| replica.node.as_ref());
        nodes.map(|node| node.status().view).max().unwrap_or(0)
    }

    /// How many events the watches got that there are in the end.
    pub fn watched_events(&self) -> u64 {
        self.replicas.iter().filter_map(|replica| Some(replica.front.as_ref()?.events())).sum()
    }

    /// When each command was executed first, and at which agreed time.
    pub fn agreed_times(&self) -> &[(u64, u64)] {
        self.times.moments()
    }

    /// When the service's alarm rang.
    pub fn rang(&self) -> Vec<u64> {
        self.rang.values().copied().collect()
    }

    /// What happened.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Turn { who, life } => {
                if self.processes[who].life == life {
                    self.turn(who);
                }
            }
            Event::Wake { who, life } => {
                let process = &mut self.processes[who];
                if process.life == life && process.wake == Some(self.now) {
                    process.wake = None;
                    self.wake(who);
                }
            }
            Event::Deliver { conn, from } => self.deliver(conn, from),
            Event::Dial { dial } => self.dialed(dial),
            Event::TimeOut { conn } => self.time_out(conn),
            Event::Lane { who, life, lane } => self.lane_turn(who, life, lane),
            Event::Said { who, life, number } => self.said_late(who, life, number),
            Event::Disk { who, life } => self.disk_done(who, life),
            Event::Side { who, life } => self.side_done(who, life),
            Event::Keep { who, life } => self.keeper_done(who, life),
            Event::Fault { index } => self.begin_fault(index),
            Event::Ends { index } => self.end_fault(index),
            Event::Start { who, life } => {
                if self.processes[who].life == life && !self.processes[who].up {
                    self.start(who);
                }
            }
            Event::Heal => self.heal(),
            Event::Look => self.look(),
        }
    }

    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    /// Looks at bounds now and then.
    fn look(&mut self) {
        for who in 0..self.plan.replicas {
            let Some(node) = &self.replicas[who].node else { continue };
            node.invariants(true);
            node.executor().invariants(true);
            if let Err(failure) = bounded::queued(&self.trace.name(who), &self.plan, &node.status()) {
                self.fail(failure);
            }
            self.watch(who, true);
            if let Err(failure) = self.look_at_suspects(who) {
                self.fail(failure);
            }
        }
        if let Err(failure) = self.look_at_answers() {
            self.fail(failure);
        }
        if let Err(failure) = self.alarm.look(self.now, self.plan.heal_at) {
            self.fail(failure);
        }
        if let Err(failure) = self.look_at_members() {
            self.fail(failure);
        }
        for client in &self.clients {
            client.core.invariants();
        }
        // Liars among themselves may send what they like.
        if let Err(failure) = bounded::on_the_way(self.net.bytes_max(|who| !self.plan.is_liar(who))) {
            self.fail(failure);
        }
        if self.phase == Phase::CatchUp && self.failure.is_none() {
            self.look_at_borders();
        }
        self.queue.push(self.now + 100 * MS, Event::Look);
    }

    fn start(&mut self, who: usize) {
        if who < self.plan.replicas {
            self.start_replica(who);
        } else {
            let clock = self.processes[who].clock.clone();
            self.processes[who].start(clock);
            self.wake(who);
        }
    }

    /// A process will have a turn soon.
    fn wake(&mut self, who: usize) {
        let process = &mut self.processes[who];
        if process.turn || !process.runs() {
            return;
        }
        process.turn = true;
        let at = process.busy.max(self.now + 1_000 + self.rng.below(20_000));
        let life = process.life;
        let at = self.has_core(who, at);
        self.queue.push(at, Event::Turn { who, life });
    }

    fn turn(&mut self, who: usize) {
        self.processes[who].turn = false;
        if !self.processes[who].runs() || !self.go_on(who) {
            return;
        }
        let process = &mut self.processes[who];
        let arrived: Vec<Arrival> = process.inbox.drain(..).collect();
        self.works(who, 2_000 + 1_000 * arrived.len() as u64);
        self.trace.mix(&[who as u64, arrived.len() as u64]);
        let deadline = if who < self.plan.replicas {
            self.replica_turn(who, arrived)
        } else {
            self.client_turn(who, arrived)
        };
        let process = &mut self.processes[who];
        match deadline {
            Some(at) if at <= self.now => self.wake(who),
            Some(at) if process.up && process.wake != Some(at) => {
                process.wake = Some(at);
                self.queue.push(at, Event::Wake { who, life: process.life });
            }
            Some(_) => {}
            None => process.wake = None,
        }
    }

    /// Something arrived at a process.
    fn arrive(&mut self, who: usize, arrival: Arrival) {
        if self.processes[who].up
            && let Some(arrival) = self.arrives_at_lane(who, arrival)
        {
            self.arrive_at_main(who, arrival);
        }
    }

    fn arrive_at_main(&mut self, who: usize, arrival: Arrival) {
        self.processes[who].inbox.push_back(arrival);
        self.wake(who);
    }

    fn dial(&mut self, who: usize, id: ConnId, (replica, link): (ReplicaId, u16)) {
        let to = usize::from(replica.number()).wrapping_sub(1);
        if to >= self.plan.replicas {
            let text = format!("{} dials {replica}, which does not exist", self.trace.name(who));
            return self.fail(Failure::new("members", text));
        }
        let wait = self.rng.spread(200 * MS, 10_000 * MS);
        let dial = Dial { from: (who, self.processes[who].life), id, to, link, until: self.now + wait };
        self.net.dial(self.now, dial, &mut self.queue);
    }

    fn dialed(&mut self, number: u64) {
        let Some(dial) = self.net.take_dial(number) else { return };
        let (from, life) = dial.from;
        if self.processes[from].life != life || !self.processes[from].up {
            return;
        }
        let replica = ReplicaId::new(dial.to as u16 + 1);
        let cut = self.net.is_cut(from, dial.to) || self.net.is_cut(dial.to, from);
        if cut && self.now < dial.until {
            return self.net.dial_again(self.now, number, dial, &mut self.queue);
        }
        if cut || !self.processes[dial.to].up {
            return self.arrive(from, Arrival::DialFailed(dial.id, replica, dial.link));
        }
        let there = self.processes[dial.to].conn();
        let conn = self.net.connect((from, dial.id), (dial.to, there));
        self.processes[from].conns.insert(dial.id, conn);
        self.processes[dial.to].conns.insert(there, conn);
        self.arrive(dial.to, Arrival::Accepted(there));
        self.arrive(from, Arrival::Dialed(dial.id, replica, dial.link));
    }

    fn deliver(&mut self, number: u64, from: usize) {
        let arrived = self.net.deliver(self.now, number, from, &mut self.queue);
        let Some(conn) = self.net.conn(number) else { return };
        let (sender, sender_id) = (conn.ends[from].who, conn.ends[from].id);
        let (receiver, id, open) =
            (conn.ends[1 - from].who, conn.ends[1 - from].id, conn.ends[1 - from].open);
        let sender_open = conn.ends[from].open;
        for chunk in arrived {
            let Some(bytes) = chunk.bytes else {
                if open {
                    self.arrive(receiver, Arrival::End(id));
                }
                return;
            };
            self.trace.mix(&[number << 1 | from as u64, u64::from(crc32c::crc32c(&bytes))]);
            let len = bytes.len();
            self.trace.arrow(Arrow { sent: (chunk.sent, sender), got: (self.now, receiver), bytes: len });
            if open {
                self.arrive(receiver, Arrival::Bytes(id, bytes));
            }
            if sender_open && sender >= self.plan.replicas {
                self.arrive(sender, Arrival::Left(sender_id, len));
            }
        }
    }

    /// A connection ends at both sides without a word.
    fn time_out(&mut self, conn: u64) {
        for (who, id) in self.net.break_up(conn) {
            self.arrive(who, Arrival::End(id));
        }
    }

    /// A process ends its side of a connection.
    fn hang_up(&mut self, who: usize, id: ConnId) {
        if let Some(conn) = self.processes[who].conns.remove(&id)
            && let Some(side) = self.net.side(conn, who, id)
        {
            self.net.close(self.now, conn, side, &mut self.queue);
        }
    }

    fn send(&mut self, who: usize, id: ConnId, bytes: &[u8]) {
        if let Some(conn) = self.processes[who].conns.get(&id).copied()
            && let Some(side) = self.net.side(conn, who, id)
        {
            self.net.send(self.now, conn, side, bytes, &mut self.queue);
        }
    }
}
