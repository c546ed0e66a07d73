//! One run: replicas, clients, disks and network in one thread on virtual time, all from one seed.
//!
//! First comes a safety phase, in which the faults of the plan happen, then healing, then a liveness phase, in which the workload must
//! finish.
//!
//! A world is made of parts that are stepped alone, and return what must be done (`docs/decisions/0035-a-replica-is-made-of-parts.md`):
//!
//! | part | where | owns |
//! | --- | --- | --- |
//! | cluster | `world/cluster.rs` | replicas and clients, with the plan; all other parts may read it |
//! | time | `timeline.rs` | what happens when, chance, the trace |
//! | processes | `processes.rs` | lives, clocks, turns, lanes, connections, the network |
//! | adversary | `world/adversary.rs` | faults, and moments that they wait for |
//! | operator | `world/operator.rs` | what it asked for |
//! | judge | `world/judge.rs` | all checkers, the verdict |
//! | course | `world/course.rs` | which phase it is, and the last border |
//! | hosting | `world/hosting.rs` | a guest, if there is one |
//!
//! `step` is the order of a step. `world/driving.rs` gives replicas and clients their turns; `world/faults.rs` carries out faults.
//!
//! INV-SIM-1 (writes go to prepared segments) and INV-SIM-2 (replies are of the kind that was asked for) concern the simulator and its
//! workload themselves.

mod adversary;
mod backup;
mod cluster;
mod course;
mod driving;
mod faults;
mod hosting;
mod judge;
mod open;
mod operator;
mod oracle;
mod show;

pub(crate) use operator::{administrators, signed_for};

use crate::checks::{Failure, progress};
use crate::client::Done;
use crate::guest::Guest;
use crate::liars::Liar;
use crate::plan::Plan;
use crate::processes::Processes;
use crate::queue::Event;
use crate::timeline::Timeline;
use crate::trace::{Level, Trace};
use adversary::Adversary;
use cluster::Cluster;
use course::{Course, Next};
use hosting::Hosting;
use judge::Judge;
use operator::Operator;
use oracle::Oracle;
use std::collections::{BTreeMap, BTreeSet};

const MS: u64 = 1_000_000;
/// After the last fault a run takes at most this many times its bound, as long as clients are answered in each.
const LONGEST: u64 = 3;

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// The hash of everything that happened.
    pub hash: u64,
    /// How many events happened.
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

/// How far a run has come.
#[derive(Clone, Debug)]
pub struct Worked {
    /// The virtual time, in nanoseconds.
    pub at: u64,
    /// Calls that were executed, if each has one command; and slots of the global log.
    pub calls: usize,
    /// See `calls`.
    pub slots: u64,
    /// How long each lane of each replica worked, in nanoseconds.
    pub worked: Vec<Vec<u64>>,
}

/// One run.
pub struct World {
    cluster: Cluster,
    time: Timeline,
    processes: Processes,
    liars: BTreeMap<usize, Liar>,
    adversary: Adversary,
    operator: Operator,
    oracle: Oracle,
    judge: Judge,
    course: Course,
    hosting: Hosting,
}

impl World {
    /// A world in which nothing has happened yet.
    pub fn new(plan: Plan, level: Level) -> Self {
        Self {
            time: Timeline::new(plan.seed, Trace::new(level, plan.replicas)),
            processes: Processes::new(&plan),
            liars: plan.liars.iter().map(|liar| (liar.who, Liar::new(&plan, liar))).collect(),
            adversary: Adversary::new(&plan),
            operator: Operator::default(),
            oracle: Oracle::new(&plan),
            judge: Judge::new(&plan),
            course: Course::new(),
            hosting: Hosting::default(),
            cluster: Cluster::new(plan),
        }
    }

    /// The same world, with a guest. The plan is one of [`Plan::with_guest`].
    #[must_use]
    pub fn hosting(mut self, guest: Box<dyn Guest>) -> Self {
        self.hosting = Hosting::of(guest, self.cluster.plan.replicas);
        self
    }

    /// Runs to the end.
    pub fn run(&mut self) -> Report {
        self.begin();
        let bound = self.cluster.plan.bound;
        let (mut end, mut answered) = (self.cluster.plan.heal_at + bound, self.answered());
        while self.judge.failure().is_none() && !self.is_over() {
            match self.time.next(end) {
                Some(event) => self.step(event),
                // Where slow leaders rotate, each answer takes long. It is enough that they come: that they do is another checker's.
                None if end < self.cluster.plan.heal_at + LONGEST * bound && self.answered() > answered => {
                    (end, answered) = (end + bound, self.answered());
                }
                None => self.judge.fail(progress::late(&self.cluster.open(&self.judge))),
            }
        }
        if self.judge.failure().is_none() {
            self.judge.conclude(&self.cluster, &self.adversary);
        }
        self.report()
    }

    /// How many operations of clients are over.
    fn answered(&self) -> usize {
        let done = self.cluster.clients.iter().flat_map(|client| &client.done);
        done.filter(|done| done.outcome.is_some()).count()
    }

    fn begin(&mut self) {
        backup::restore(&mut self.cluster);
        let spares = self.cluster.plan.founders..self.cluster.plan.replicas;
        for who in (0..self.processes.count()).filter(|who| !spares.contains(who)) {
            let at = self.time.rng().below(50 * MS);
            self.time.at(at, Event::Start { who, life: 0 });
        }
        self.schedule(self.adversary.events());
        self.time.at(self.cluster.plan.heal_at, Event::Heal);
        self.time.at(0, Event::Look);
        if self.hosting.has_guest() {
            self.time.at(0, Event::Guest);
        }
    }

    fn schedule(&mut self, events: Vec<(u64, Event)>) {
        events.into_iter().for_each(|(at, event)| self.time.at(at, event));
    }

    /// Runs until clients' calls so many were executed.
    ///
    /// # Errors
    /// When a checker found something, or that would take too much virtual time.
    pub fn work_until(&mut self, calls: usize) -> Result<Worked, Failure> {
        if self.time.events() == 0 {
            self.begin();
        }
        while self.judge.rows().len() < calls {
            if let Some(failure) = self.judge.failure() {
                return Err(failure.clone());
            }
            match self.time.next(self.cluster.plan.bound) {
                Some(event) => self.step(event),
                None => return Err(progress::late(&self.cluster.open(&self.judge))),
            }
        }
        let slots = self.cluster.foremost().map_or(0, |node| node.executor().seq().number());
        let (at, calls) = (self.time.now(), self.judge.rows().len());
        Ok(Worked { at, calls, slots, worked: self.processes.worked() })
    }

    /// Handles one event. What follows from it happens at once, or is put on the timeline.
    fn step(&mut self, event: Event) {
        if self.cluster.plan.work.is_none()
            && self.time.events() > progress::EVENTS_PER_SECOND * (self.time.now() / 1_000_000_000 + 1)
        {
            self.judge.fail(Failure::new("progress", "too many events: something goes in circles"));
        }
        match event {
            Event::Start { who, life } => self.start(who, life),
            Event::Turn { who, life } => self.turn(who, life),
            Event::Wake { who, life } => self.processes.timer(who, life, &mut self.time),
            Event::MoveLink { who, life } => {
                let goes_on = self.time.now() < self.cluster.plan.heal_at;
                self.processes.move_a_link(who, life, goes_on, &mut self.time);
            }
            Event::Lane { who, life, lane } => self.processes.lane_turn(who, life, lane, &mut self.time),
            Event::Dial { dial } => self.processes.dialed(dial, &mut self.time),
            Event::Deliver { conn, from } => self.processes.deliver(conn, from, &mut self.time),
            Event::TimeOut { conn } => self.processes.time_out(conn, &mut self.time),
            Event::Run { who, life, part } => self.processes.run_part(who, life, part, &mut self.time),
            Event::Said { who, life, number } => self.said_late(who, life, number),
            Event::Disk { who, life } => self.disk_done(who, life),
            Event::Side { who, life } => self.side_done(who, life),
            Event::Keep { who, life } => self.keeper_done(who, life),
            Event::Checked { who, life, work } => self.checked(who, life, work),
            Event::Worked { who, life, work } => self.worked(who, life, work),
            Event::Letter { who, life, letter } => self.letter(who, life, letter),
            Event::Fault { index } => self.begin_fault(index),
            Event::Ends { index } => self.end_fault(index),
            Event::Heal => self.heal(),
            Event::Look => self.look(),
            Event::Guest => {
                let (cluster, processes, time) = (&mut self.cluster, &mut self.processes, &mut self.time);
                self.hosting.act(cluster, processes, self.course.is_healed(), time);
            }
        }
    }

    /// Whether the last phase is complete; moves on to the next phase when another one is.
    fn is_over(&mut self) -> bool {
        let next = self.course.step(&self.cluster, self.time.now());
        if let Next::Phase(name) | Next::LastReads(name) = next {
            self.time.note(Level::Events, None, "phase", || name.to_owned());
        }
        if let Next::LastReads(_) = next {
            self.read_last();
        }
        next == Next::End
    }

    /// Clients that are lost have not done their work yet; those that were lost read later than the others.
    fn read_last(&mut self) {
        let first = self.cluster.plan.replicas;
        for (index, client) in self.cluster.clients.iter_mut().enumerate() {
            if client.is_done() && !client.reads_last() {
                let who = first + index;
                client.final_reads(self.time.now(), self.processes.local(who, &self.time));
                self.processes.wake(who, &mut self.time);
            }
        }
    }

    /// Checks bounds now and then.
    fn look(&mut self) {
        for who in 0..self.cluster.plan.replicas {
            self.judge.look_at(&self.cluster, who);
            self.watch(who, true);
            self.judge.suspects(&self.cluster, who);
        }
        self.judge.look(&self.cluster, self.time.now());
        // Liars among themselves may send what they like.
        self.judge.on_the_way(self.processes.bytes_max(|who| !self.cluster.plan.is_liar(who)));
        if self.judge.failure().is_none()
            && let Some(after) = self.course.look(&self.cluster, &self.judge)
        {
            for who in 0..self.cluster.plan.replicas {
                self.operate(who, operator::border(after));
            }
        }
        self.time.after(100 * MS, Event::Look);
    }

    /// The report so far; also for a run that panicked.
    pub fn report(&self) -> Report {
        Report {
            seed: self.cluster.plan.seed,
            hash: self.time.trace().hash(),
            events: self.time.events(),
            time: self.time.now(),
            commands: self.judge.rows().len(),
            operations: self.cluster.clients.iter().map(|client| client.done.len()).sum(),
            failure: self.judge.failure().cloned(),
            unjudged: self.judge.unjudged().cloned(),
        }
    }

    fn operations(&self) -> impl Iterator<Item = &Done> {
        self.cluster.clients.iter().flat_map(|client| &client.done)
    }

    /// What honest replicas hold at the end that proves something: the kind, and against which replica.
    pub fn proved(&self) -> BTreeSet<(&'static str, u16)> {
        let held = self.cluster.honest_nodes().flat_map(|(_, node)| node.status().evidence);
        held.map(|evidence| (evidence.kind, evidence.replica)).collect()
    }

    /// When the last operation of a client ended, in virtual nanoseconds.
    pub fn last_answer(&self) -> u64 {
        self.operations().filter_map(|done| done.ret).max().unwrap_or(0)
    }

    /// The longest time, in virtual nanoseconds, that an operation took which was called in this period.
    pub fn longest_wait(&self, called: std::ops::Range<u64>) -> u64 {
        let called = self.operations().filter(|done| called.contains(&done.call));
        called.map(|done| done.ret.unwrap_or(self.time.now()) - done.call).max().unwrap_or(0)
    }

    /// How many eras were entered by honest replicas.
    pub fn eras(&self) -> usize {
        self.judge.eras()
    }

    /// The highest view of the first instance that any replica is in.
    pub fn view(&self) -> u64 {
        let nodes = self.cluster.replicas.iter().filter_map(|replica| replica.node.as_ref());
        nodes.map(|node| node.status().view).max().unwrap_or(0)
    }

    /// How many events the watches got that exist in the end.
    pub fn watched_events(&self) -> u64 {
        self.cluster.replicas.iter().filter_map(|replica| Some(replica.front.as_ref()?.events())).sum()
    }

    /// When each command was first executed, and its agreed time.
    pub fn agreed_times(&self) -> &[(u64, u64)] {
        self.judge.agreed_times()
    }

    /// When the service's alarm rang.
    pub fn rang(&self) -> Vec<u64> {
        self.judge.rang()
    }

    /// What happened.
    pub fn trace(&self) -> &Trace {
        self.time.trace()
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.cluster.plan
    }
}
