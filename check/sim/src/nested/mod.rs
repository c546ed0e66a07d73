//! Two clusters in one world: a shop, whose commands ask a bank. Whole replicas with disks, a network between all of them, clients of the shop,
//! and faults on either side.
//!
//! A run has a phase with faults, then everything heals, and all that was asked must end. What is checked: each nested request that was ordered
//! ran once at the bank, and its answer counted once at the shop; money that moves between them is neither made nor lost; all replicas of
//! a side end in the same state, journals included. The members of a side that lie say something else in the copies that they send to the other
//! side, and are right among themselves: what lies do within a cluster is the subject of the other runs.
//!
//! It is smaller than [`crate::world`]: one network without limits of bandwidth, right clocks, no changes of membership, one instance.
//! `site.rs` is a replica, `client.rs` who asks from outside, `services.rs` the two services. Tests: `tests/all/nested.rs`.

mod client;
mod net;
mod services;
mod site;

use crate::random::Rng;
use client::{Outsider, Task, arrives};
use net::Net;
use quorate_execute::Schedule;
use quorate_node::{Effect, Input, neighbours};
use quorate_types::{ClientId, ClusterId, ConnId, FaultModel, ReplicaId, SessionId};
use quorate_wire::{
    AdminCommand, Frame, FrameKind, Neighbour, NeighbourCommand, OutFrame, Relation, Role, copies_frame,
    read_copies,
};
use services::{BANK, COMMAND, SHOP, numbers, state};
use site::{Party, Site};
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;
/// Until then there are faults.
const FAULTS_UNTIL: u64 = 6000 * MS;
/// A run may take so long.
const END: u64 = 120_000 * MS;

/// And so many events.
const EVENTS_MAX: u64 = 3_000_000;

/// What a run is like.
#[derive(Clone, Debug)]
pub struct NestedPlan {
    /// Everything random follows from it.
    pub seed: u64,
    /// The faults that the shop's cluster survives, and the bank's.
    pub models: [FaultModel; 2],
    /// In which order legs run.
    pub schedule: Schedule,
    /// Sessions of each side at the other.
    pub sessions: u16,
    /// Whether one member of each side lies to the other side, where members may lie.
    pub lies: bool,
    /// Whether processes die and links break.
    pub faults: bool,
    /// Clients, and how much each moves.
    pub clients: u64,
    /// How often each of them moves money.
    pub moves: u64,
}

impl NestedPlan {
    /// A plan from a seed alone.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::of(seed, 7);
        let models = [FaultModel::Crash, FaultModel::Byzantine];
        let schedule = rng.pick(&[Schedule::Answered, Schedule::Ring(4)]);
        Self {
            seed,
            models: [rng.pick(&models), rng.pick(&models)],
            schedule,
            sessions: rng.range(1, 3) as u16,
            lies: rng.chance(500),
            faults: rng.chance(800),
            clients: rng.range(1, 3),
            moves: rng.range(3, 10),
        }
    }
}

/// What happened in a run that was right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Events.
    pub events: u64,
    /// The virtual time, in milliseconds.
    pub millis: u64,
    /// How often money moved.
    pub moves: u64,
    /// How many copies were lies.
    pub lies: u64,
}

/// Something that happens.
#[derive(Debug)]
enum Event {
    Arrives { to: usize, conn: u64, frame: Frame },
    Closed { to: usize, conn: u64 },
    Accepted { to: usize, conn: u64 },
    Dialed { who: usize, life: u32, conn: Option<u64>, to: Dialing },
    Wakes { who: usize, life: u32 },
    Wrote { who: usize, life: u32 },
    Helped { who: usize, life: u32 },
    Says { who: usize },
    Starts { who: usize },
    Fault,
}

/// Whom somebody dials.
#[derive(Clone, Copy, Debug)]
enum Dialing {
    Member(ReplicaId, u16),
    Service(u32, ReplicaId),
    Outsider(u16),
}

/// The world: sites first, then those outside.
struct Pair {
    plan: NestedPlan,
    rng: Rng,
    now: u64,
    parties: [Party; 2],
    sites: Vec<Site>,
    outside: Vec<Outsider>,
    queue: BTreeMap<(u64, u64), Event>,
    events: u64,
    net: Net,
    /// When each site is to be woken.
    wakes: Vec<u64>,
    down: Vec<bool>,
    lies: u64,
}

/// Runs a plan.
///
/// # Errors
/// What was wrong.
pub fn run(plan: &NestedPlan) -> Result<Ran, String> {
    let mut world = Pair::new(plan.clone());
    world.begin()?;
    world.run()?;
    world.judge()
}

fn neighbour(of: &Party, relation: Relation, sessions: u16) -> Neighbour {
    let lying = if of.may_lie() { 1 } else { 0 };
    let address = |id: u16| format!("{}-{id}", of.service);
    Neighbour {
        relation,
        service: of.service,
        name: if of.service == SHOP { "shop" } else { "bank" }.into(),
        cluster: of.cluster,
        faulty: 1,
        lying,
        sessions,
        members: (1..=of.members).map(|id| (ReplicaId::new(id), address(id))).collect(),
    }
}

impl Pair {
    fn new(plan: NestedPlan) -> Self {
        let party = |service: u32| {
            let model = plan.models[service as usize - 1];
            Party {
                service,
                cluster: ClusterId::new(0x600d + u128::from(service)),
                model,
                members: if model.may_lie() { 4 } else { 3 },
                schedule: plan.schedule,
                seed: plan.seed * 4 + u64::from(service),
            }
        };
        let parties = [party(SHOP), party(BANK)];
        let sites: Vec<Site> = parties
            .iter()
            .flat_map(|party| (1..=party.members).map(|me| Site::new(party.clone(), me)))
            .collect();
        let mut outside = Vec::new();
        for (side, other) in [(0, 1), (1, 0)] {
            let relation = if side == 0 { Relation::Backend } else { Relation::Caller };
            let command = NeighbourCommand::Allow(neighbour(&parties[other], relation, plan.sessions));
            let party = &parties[side];
            let frame = if party.may_lie() {
                let command = (1, AdminCommand::Neighbour(command));
                crate::world::signed_for(party.cluster, party.seed, command).frame()
            } else {
                command.frame()
            };
            outside.push(Outsider::new(Role::Admin, party.cluster, 1, Task::Hand(frame)));
        }
        for client in 0..plan.clients {
            let enough = if parties[0].may_lie() { 2 } else { 1 };
            let rng = Rng::of(plan.seed, 900 + client);
            let (session, sent) = (SessionId::NONE, Vec::new());
            let task = Task::Move { session, number: 1, of: plan.moves, rng, sent };
            let who = Role::Client(ClientId::new(77 + client));
            outside.push(Outsider::new(who, parties[0].cluster, enough, task));
        }
        let count = sites.len();
        let rng = Rng::of(plan.seed, 1);
        Self {
            rng,
            now: 0,
            parties,
            outside,
            queue: BTreeMap::new(),
            events: 0,
            net: Net::default(),
            wakes: vec![u64::MAX; count],
            down: vec![true; count],
            lies: 0,
            sites,
            plan,
        }
    }

    fn at(&mut self, at: u64, event: Event) {
        self.events += 1;
        self.queue.insert((at, self.events), event);
    }

    fn soon(&mut self) -> u64 {
        let most = if self.plan.faults && self.now < FAULTS_UNTIL { 8 * MS } else { MS };
        self.now + self.rng.range(MS / 10, most)
    }

    fn begin(&mut self) -> Result<(), String> {
        for who in 0..self.sites.len() {
            self.start(who)?;
        }
        for who in 0..self.outside.len() {
            let who = self.sites.len() + who;
            self.at(50 * MS, Event::Says { who });
        }
        if self.plan.faults {
            self.at(1500 * MS, Event::Fault);
        }
        Ok(())
    }

    fn start(&mut self, who: usize) -> Result<(), String> {
        self.down[who] = false;
        let mut effects = Vec::new();
        self.sites[who].start(self.now, &mut effects)?;
        self.perform(who, effects)
    }

    /// The site of a member.
    fn site(&self, service: u32, id: u16) -> usize {
        let before = if service == SHOP { 0 } else { self.parties[0].members };
        usize::from(before + id - 1)
    }

    fn is_done(&self) -> bool {
        let moved = self.outside.iter().all(|outsider| outsider.moved().2);
        let same = |range: std::ops::Range<usize>| {
            let seqs: Vec<_> =
                self.sites[range].iter().map(|site| site.node().map(|node| node.executor().seq())).collect();
            seqs.iter().all(|seq| seq.is_some() && *seq == seqs[0])
        };
        let first = usize::from(self.parties[0].members);
        moved && same(0..first) && same(first..self.sites.len())
    }

    fn run(&mut self) -> Result<(), String> {
        while let Some(((at, _), event)) = self.queue.pop_first() {
            self.now = at;
            if at > END || self.events > EVENTS_MAX {
                let moved: Vec<_> = self.outside.iter().map(Outsider::moved).collect();
                return Err(format!(
                    "it does not end: {} events, {moved:?}, {:?}",
                    self.events,
                    self.statuses()
                ));
            }
            self.happens(event)?;
            if self.events.is_multiple_of(64) {
                self.sites.iter().filter_map(Site::node).for_each(|node| node.invariants(true));
                self.known();
                if at > FAULTS_UNTIL && self.is_done() {
                    return Ok(());
                }
            }
        }
        Err("nothing happens any more".into())
    }

    fn statuses(&self) -> Vec<String> {
        let status = |site: &Site| {
            let Some(node) = site.node() else { return "down".to_owned() };
            let (executor, under_way) = (node.executor(), node.executor().under_way());
            let open = executor.unanswered().count();
            format!(
                "{} r{}: {} {under_way} {open} {:?}",
                site.side.service,
                site.me,
                executor.seq(),
                neighbours(node)
            )
        };
        self.sites.iter().map(status).collect()
    }

    /// Operators whose command was executed rest.
    fn known(&mut self) {
        for side in 0..2 {
            let service = self.parties[side].service;
            let mut nodes = self.sites.iter().filter(|site| site.side.service == service);
            if nodes.any(|site| site.node().is_some_and(|node| !node.executor().neighbours().is_empty())) {
                self.outside[side].task = Task::Rests;
            }
        }
    }

    fn happens(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Arrives { to, conn, frame } => return self.arrived(to, conn, frame),
            Event::Closed { to, conn } => {
                self.net.forget(conn);
                return self.closed(to, conn);
            }
            Event::Accepted { to, conn } => {
                let input = Input::Accepted { conn: ConnId::new(conn), from: None };
                return self.turn(to, vec![input]);
            }
            Event::Dialed { who, life, conn, to } => return self.dialed(who, life, conn, to),
            Event::Wakes { who, life } if self.lives(who, life) && self.wakes[who] <= self.now => {
                self.wakes[who] = u64::MAX;
                return self.turn(who, vec![Input::Deadline]);
            }
            Event::Wrote { who, life } if self.lives(who, life) => {
                let done = self.sites[who].wrote();
                return self.turn(who, done);
            }
            Event::Helped { who, life } if self.lives(who, life) => {
                let bytes = self.sites[who].segment_bytes();
                let done = self.sites[who].helped(bytes);
                return self.turn(who, done);
            }
            Event::Says { who } => {
                self.says(who);
                self.at(self.now + 300 * MS, Event::Says { who });
            }
            Event::Starts { who } => return self.start(who),
            Event::Fault => self.fault()?,
            Event::Wakes { .. } | Event::Wrote { .. } | Event::Helped { .. } => {}
        }
        Ok(())
    }

    fn lives(&self, who: usize, life: u32) -> bool {
        !self.down[who] && self.sites[who].life == life
    }

    fn turn(&mut self, who: usize, inputs: Vec<Input>) -> Result<(), String> {
        if self.down[who] {
            return Ok(());
        }
        let mut effects = Vec::new();
        self.sites[who].turn(self.now, inputs, &mut effects);
        self.perform(who, effects)
    }

    fn perform(&mut self, who: usize, effects: Vec<Effect>) -> Result<(), String> {
        let mut heard = Vec::new();
        for effect in effects {
            match effect {
                Effect::Send { conn, frame } => {
                    let frame = self.perhaps_lies(who, conn.number(), frame);
                    self.send(who, conn.number(), &frame);
                }
                Effect::Dial { replica, link } => {
                    let to = self.site(self.sites[who].side.service, replica.number());
                    self.dial(who, to, Dialing::Member(replica, link));
                }
                Effect::DialService { service, replica, .. } => {
                    let to = self.site(service, replica.number());
                    self.dial(who, to, Dialing::Service(service, replica));
                }
                Effect::Close(conn) => self.hang_up(who, conn.number()),
                effect => heard.extend(self.sites[who].work(effect)?),
            }
        }
        let life = self.sites[who].life;
        let (writer, helper) = self.sites[who].disk();
        if let Some(after) = writer {
            self.at(self.now + after, Event::Wrote { who, life });
        }
        if let Some(after) = helper {
            self.at(self.now + after, Event::Helped { who, life });
        }
        if !heard.is_empty() {
            return self.turn(who, heard);
        }
        if let Some(at) = self.sites[who].wakes() {
            let at = at.max(self.now);
            if at < self.wakes[who] {
                self.wakes[who] = at;
                self.at(at, Event::Wakes { who, life });
            }
        }
        Ok(())
    }

    /// The first member of a side whose members may lie says something else to the other side, as often as not.
    fn perhaps_lies(&mut self, who: usize, conn: u64, frame: OutFrame) -> OutFrame {
        let site = &self.sites[who];
        let across = self.net.other(conn, who).and_then(|other| self.sites.get(other));
        let across = across.is_some_and(|other| other.side.service != site.side.service);
        let lies = self.plan.lies && site.side.may_lie() && site.me == 1;
        if !(lies && across && frame.kind() == FrameKind::Copies) || self.rng.chance(300) {
            return frame;
        }
        let Ok(mut list) = read_copies(arrives(&frame).payload) else { return frame };
        for (_, message) in &mut list {
            let mut bytes = message.to_vec();
            // The amount of the last command, or a byte of the last reply.
            let at = if site.side.service == SHOP { COMMAND - 1 } else { 8 };
            if let Some(byte) = bytes.len().checked_sub(at).and_then(|at| bytes.get_mut(at)) {
                *byte = byte.wrapping_add(1);
            }
            *message = bytes.into();
            self.lies += 1;
        }
        copies_frame(&list)
    }

    fn send(&mut self, from: usize, conn: u64, frame: &OutFrame) {
        let soon = self.soon();
        if let Some((to, at)) = self.net.way(conn, from, soon) {
            self.at(at, Event::Arrives { to, conn, frame: arrives(frame) });
        }
    }

    fn hang_up(&mut self, who: usize, conn: u64) {
        let soon = self.soon();
        if let Some((to, at)) = self.net.hang_up(conn, who, soon) {
            self.at(at, Event::Closed { to, conn });
        }
    }

    fn dial(&mut self, who: usize, to: usize, dialing: Dialing) {
        let life = self.sites.get(who).map_or(0, |site| site.life);
        let reached = !self.down[to] && !self.net.is_cut(who, to);
        let soon = self.soon();
        if !reached {
            return self.at(soon + 30 * MS, Event::Dialed { who, life, conn: None, to: dialing });
        }
        let conn = self.net.connect(who, to);
        self.at(soon, Event::Accepted { to, conn });
        // The hello leaves later.
        self.at(soon, Event::Dialed { who, life, conn: Some(conn), to: dialing });
    }

    fn dialed(&mut self, who: usize, life: u32, conn: Option<u64>, to: Dialing) -> Result<(), String> {
        if who >= self.sites.len() {
            if let (Some(conn), Dialing::Outsider(replica)) = (conn, to) {
                let hello = self.outside[who - self.sites.len()].hello(replica);
                self.send(who, conn, &hello);
            }
            return Ok(());
        }
        if !self.lives(who, life) {
            conn.into_iter().for_each(|conn| self.hang_up(who, conn));
            return Ok(());
        }
        let input = match (to, conn.filter(|conn| self.net.other(*conn, who).is_some()).map(ConnId::new)) {
            (Dialing::Member(replica, link), Some(conn)) => Input::Dialed { conn, replica, link },
            (Dialing::Member(replica, link), None) => Input::DialFailed { replica, link },
            (Dialing::Service(service, replica), Some(conn)) => {
                Input::ServiceDialed { conn, service, replica }
            }
            (Dialing::Service(service, replica), None) => Input::ServiceDialFailed { service, replica },
            (Dialing::Outsider(_), _) => return Ok(()),
        };
        self.turn(who, vec![input])
    }

    fn arrived(&mut self, to: usize, conn: u64, frame: Frame) -> Result<(), String> {
        let Some(from) = self.net.other(conn, to) else { return Ok(()) };
        if to < self.sites.len() {
            return self.turn(to, vec![Input::Frame { conn: ConnId::new(conn), frame }]);
        }
        let replica = self.sites[from].me;
        let outsider = &mut self.outside[to - self.sites.len()];
        if Outsider::is_welcome(&frame) {
            outsider.conns.insert(replica, conn);
            self.says(to);
        } else if outsider.hears(replica, frame)? {
            self.says(to);
        }
        Ok(())
    }

    fn closed(&mut self, to: usize, conn: u64) -> Result<(), String> {
        if to < self.sites.len() {
            return self.turn(to, vec![Input::Closed(ConnId::new(conn))]);
        }
        self.outside[to - self.sites.len()].conns.retain(|_, its| *its != conn);
        Ok(())
    }

    /// Somebody outside says what it has to say to all replicas, and connects to those that it lost.
    fn says(&mut self, who: usize) {
        let outsider = &self.outside[who - self.sites.len()];
        let (frame, conns) = (outsider.says(), outsider.conns.clone());
        let party = self.parties.iter().find(|party| party.cluster == outsider.cluster);
        let Some((service, members)) = party.map(|party| (party.service, party.members)) else { return };
        for id in 1..=members {
            match (conns.get(&id), &frame) {
                (Some(conn), Some(frame)) => self.send(who, *conn, frame),
                (Some(_), None) => {}
                (None, _) => {
                    let to = self.site(service, id);
                    if !self.net.connects(who, to) {
                        self.dial(who, to, Dialing::Outsider(id));
                    }
                }
            }
        }
    }

    /// At most one member of a side is faulty at a time: the one that lies, or one that dies or is cut off.
    fn fault(&mut self) -> Result<(), String> {
        if self.now >= FAULTS_UNTIL {
            self.net.heal();
            return Ok(());
        }
        self.net.heal();
        let side = self.rng.below(2) as usize;
        let party = self.parties[side].clone();
        let is_free = !(self.plan.lies && party.may_lie());
        let id = 1 + self.rng.below(party.members.into()) as u16;
        let who = self.site(party.service, id);
        let others_up = (1..=party.members).all(|id| !self.down[self.site(party.service, id)]);
        if self.rng.chance(300) {
            // One that lies may be cut off from the other side, since it is faulty anyway; all may be from one member there.
            let across = self.site(self.parties[1 - side].service, 1);
            self.cut(who, across);
        } else if is_free && others_up && self.rng.chance(600) {
            self.down[who] = true;
            let machine = self.rng.chance(500);
            self.sites[who].replica.die(machine);
            self.wakes[who] = u64::MAX;
            for (conn, to) in self.net.drop_all(who) {
                let soon = self.soon();
                self.at(soon, Event::Closed { to, conn });
            }
            let again = self.now + self.rng.range(200, 1500) * MS;
            self.at(again, Event::Starts { who });
        } else if is_free && others_up {
            for other in 0..self.sites.len() {
                if other != who && self.rng.chance(700) {
                    self.cut(who, other);
                }
            }
        }
        let next = self.now + self.rng.range(150, 900) * MS;
        self.at(next, Event::Fault);
        Ok(())
    }

    fn cut(&mut self, one: usize, other: usize) {
        for conn in self.net.cut(one, other) {
            for to in [one, other] {
                let soon = self.soon();
                self.at(soon, Event::Closed { to, conn });
            }
        }
    }

    fn judge(&self) -> Result<Ran, String> {
        let mut replies = None;
        let moved =
            self.outside.iter().map(Outsider::moved).fold((0, 0), |all, it| (all.0 + it.0, all.1 + it.1));
        for side in 0..2 {
            let service = self.parties[side].service;
            let sites: Vec<&Site> = self.sites.iter().filter(|site| site.side.service == service).collect();
            let mut first = None;
            for site in sites {
                let Some(node) = site.node() else { return Err("a replica is down in the end".into()) };
                let executor = node.executor();
                let bytes = state(executor).map_err(|why| why.to_string())?;
                if *first.get_or_insert_with(|| bytes.clone()) != bytes {
                    return Err(format!("service {service}: r{} has another state", site.me));
                }
                if executor.under_way() > 0 || executor.unanswered().count() > 0 {
                    return Err(format!("service {service}: something is under way in the end"));
                }
                let (sum, ..) = numbers(executor, b'a');
                let (sign, kind) = if service == SHOP { (-1, b'd') } else { (1, b's') };
                if sum != sign * moved.0 {
                    return Err(format!(
                        "service {service}: {sum} where clients moved {moved:?}; {:?} {:?}",
                        numbers(executor, b'd'),
                        numbers(executor, b's')
                    ));
                }
                let told = numbers(executor, b'r');
                if *replies.get_or_insert(told) != told {
                    return Err("the shop was told other balances than the bank had".into());
                }
                let (times, count, most) = numbers(executor, kind);
                if (times as u64, count as u64) != (moved.1, moved.1) || most != 1 {
                    return Err(format!(
                        "service {service}: {count} transfers ran {times} times, one of them {most} times; there were {}",
                        moved.1
                    ));
                }
            }
        }
        Ok(Ran { events: self.events, millis: self.now / MS, moves: moved.1, lies: self.lies })
    }
}
