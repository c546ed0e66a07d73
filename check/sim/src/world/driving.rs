//! Gives replicas and clients their turns, as host/runtime and the client's runtime do, and carries out their effects.

use super::oracle::Letter;
use super::show::show;
use super::{MS, World};
use crate::checks::Failure;
use crate::clock::Clock;
use crate::liars::{Saying, Twisted, clients, twist};
use crate::plan::{Fate, OraclePlan};
use crate::processes::{Arrival, Part};
use crate::queue::Event;
use crate::replica::{CLUSTER, NoStart, Replica, SideJob};
use crate::service::Told;
use crate::trace::Level;
use crate::trips::in_product;
use crate::work::Work;
use bytes::Bytes;
use quorate_auth::CheckWork;
use quorate_client::{Effect as ClientEffect, Input as ClientInput};
use quorate_node::{ConnClass, Effect, Event as NodeEvent, Input, KeeperWork, Node, OracleWork};
use quorate_order::visigoth::OracleRequest;
use quorate_state::checkpoint::Job;
use quorate_types::{ConnId, ReplicaId, SessionId, Time, planted};
use quorate_wire::{Era, FRAME_HEADER, Frame, FrameKind, OutFrame, StateMessage};
use std::collections::VecDeque;

/// The largest frame that a client accepts from a replica.
const FRAME_MAX: u32 = 4 << 20;
/// The cost of a turn, in nanoseconds, where messages cost time.
const TURN: u64 = 2_000;

/// Lives and turns.
impl World {
    pub(super) fn start(&mut self, who: usize, life: u32) {
        if self.processes.life(who) != life || self.processes.is_up(who) {
            return;
        }
        if who < self.cluster.plan.replicas {
            self.start_replica(who);
        } else {
            self.processes.start_client(who, &mut self.time);
        }
    }

    pub(super) fn start_replica(&mut self, who: usize) {
        let (plan, level) = (&self.cluster.plan, self.cluster.level_config(who));
        let replica = &mut self.cluster.replicas[who];
        let absent = who >= plan.founders && replica.join.is_none();
        if replica.halt.is_some() || absent {
            return;
        }
        let life = self.processes.life(who);
        let mut config = Replica::config(plan, who, life + 1, replica.join.as_ref(), replica.era.as_deref());
        config.level = level;
        let guest = self.hosting.service(who);
        match replica.recover(plan, config, guest, self.course.is_healed()) {
            Ok(()) => {}
            Err(NoStart::Full | NoStart::Interrupted { .. }) => {
                return self.time.after(300 * MS, Event::Start { who, life });
            }
            Err(NoStart::Halt(halt)) => return self.halted(who, halt),
        }
        let seq = replica.node.as_ref().map_or(0, |node| node.executor().seq().number());
        drop(replica.tap.drain());
        let drift = plan.draw_drift(self.time.rng());
        let clock = Clock::new(self.time.rng().spread(1, 1_000_000 * MS), self.time.now(), drift);
        self.processes.start(who, clock);
        self.judge.starts(self.time.now(), who, seq);
        self.note_how_many_run();
        if let Some(liar) = self.liars.get_mut(&who) {
            liar.starts();
        }
        self.time.note(Level::Events, Some(who), "start", || format!("life {}", life + 1));
        let local = self.processes.local(who, &self.time);
        let replica = &mut self.cluster.replicas[who];
        if let Some(node) = &mut replica.node {
            if let Some((places, every)) = self.cluster.plan.moves_of(who, life + 1) {
                node.bridge(self.processes.stand_on_lanes(who, places, every, &mut self.time));
            }
            if let Some(publisher) = self.hosting.publisher(who) {
                node.publish_to(Box::new(publisher));
            }
            node.start(local, &mut replica.effects);
            // What it executed before it told nobody, and what of its state is not as it should be.
            self.judge.restored(who, node);
        }
        self.perform(who, local);
        self.after_step(who);
        self.processes.wake(who, &mut self.time);
    }

    pub(super) fn turn(&mut self, who: usize, life: u32) {
        if !self.processes.has_turn(who, life) || !self.go_on(who) {
            return;
        }
        let arrived = self.processes.take_arrived(who, &mut self.time);
        let deadline = if who < self.cluster.plan.replicas {
            self.replica_turn(who, arrived)
        } else {
            self.client_turn(who, arrived)
        };
        self.processes.sleep(who, deadline, &mut self.time);
    }

    /// Gives a replica its turn. Returns its next deadline, in virtual time.
    fn replica_turn(&mut self, who: usize, arrived: Vec<Arrival>) -> Option<u64> {
        let before = self.cluster.node(who).map(Node::leases).unwrap_or_default();
        // As in host/runtime, a turn goes by a time that was read after everything in it arrived: the process may have been paused
        // between an earlier look at the clock and now.
        let earlier = self.processes.take_glimpse(who).filter(|_| planted("stale-lease-after-a-pause"));
        let local = earlier.unwrap_or_else(|| self.processes.local(who, &self.time));
        let waits = if self.cluster.plan.costs {
            self.read_by_cost(who, local, arrived)
        } else {
            let mut arrived = arrived.into_iter();
            while !self.processes.has_read_enough(who, 0, self.time.now())
                && let Some(arrival) = arrived.next()
            {
                self.replica_arrival(who, local, arrival);
            }
            let rests = arrived.len() > 0;
            self.processes.put_back(who, arrived);
            rests.then_some(0)
        };
        if self.cluster.node(who)?.deadline().is_some_and(|deadline| deadline <= local) {
            self.node_step(who, local, Input::Deadline);
        }
        self.node_step(who, local, Input::TurnEnd);
        self.processes.mail_is_sent(who);
        self.perform(who, local);
        self.turn_own_pillars(who, local);
        self.after_step(who);
        self.judge.lease(&self.cluster, who, &before);
        let begin = self.adversary.had_turn(&self.cluster, (self.time.now(), who), &before);
        self.schedule(begin);
        if self.processes.waits(who) {
            return None;
        }
        let waits = waits.map(|wait| self.time.now() + wait);
        let own = self.processes.own_due(who);
        let deadline = self.cluster.node(who)?.deadline().into_iter().chain(own).min();
        let deadline = deadline.map(|deadline| self.processes.when(who, deadline, &self.time));
        waits.into_iter().chain(deadline).min()
    }

    /// The pillars that stand on the main lane have their turns. What they say the node hears now, and works off in its next turn, at once.
    fn turn_own_pillars(&mut self, who: usize, local: Time) {
        // While the process waits for its keeper, they wait, too.
        if self.processes.waits(who) || self.cluster.node(who).is_none() {
            return;
        }
        self.processes.place_pillars(who, &mut self.time);
        let out = &mut self.cluster.replicas[who].effects;
        if self.processes.turn_own_pillars(who, local, out) {
            self.node_step(who, local, Input::Run(quorate_node::Part::Main));
            self.perform(who, local);
            self.processes.wake(who, &mut self.time);
        }
    }

    /// Checks that hold after every step of a replica.
    fn after_step(&mut self, who: usize) {
        let told = self.cluster.replicas[who].tap.drain();
        self.pay_for_execution(who, &told);
        // What a liar says it executed counts for nothing.
        if !self.cluster.lies(who)
            && let Err(failure) = self.check_step(who, &told)
        {
            self.judge.fail(failure);
        }
    }

    /// The main lane of a replica pays for the slots that it merged, and for what it executed.
    fn pay_for_execution(&mut self, who: usize, told: &[Told]) {
        let Some(node) = self.cluster.node(who) else { return };
        let slots = self.processes.merged(who, node.executor().seq().number());
        let ran = told.iter().filter(|told| matches!(told, Told::Ran(_))).count();
        let price = |work: &Work| work.prices.slot * slots as f64 + work.prices.execute * ran as f64;
        self.processes.pay(who, 0, self.time.now(), price);
    }

    fn check_step(&mut self, who: usize, told: &[Told]) -> Result<(), Failure> {
        let did = self.judge.told(&self.cluster, who, told, &mut self.time)?;
        self.watch(who, false);
        let thorough = self.time.rng().chance(10);
        let Some(node) = self.cluster.node(who) else { return Ok(()) };
        node.invariants(thorough);
        self.judge.stands(&self.time.name(who), who, node, did)
    }

    /// The watches at a replica get some of the events on their way to them, or, with `all`, all of them: then they must lack nothing.
    pub(super) fn watch(&mut self, who: usize, all: bool) {
        let replica = &mut self.cluster.replicas[who];
        let Replica { node: Some(node), front: Some(front), .. } = replica else { return };
        if self.cluster.plan.is_liar(who) {
            return;
        }
        let rows = self.judge.rows();
        let found = if all { front.settle(node, rows) } else { front.step(node, rows) };
        if let Err(Failure { checker, text }) = found {
            self.judge.fail(Failure::new(checker, format!("{}: {text}", self.time.name(who))));
        }
    }
}

/// What arrives at a replica.
impl World {
    fn node_step(&mut self, who: usize, local: Time, input: Input) {
        let replica = &mut self.cluster.replicas[who];
        if let Some(node) = &mut replica.node {
            in_product(|| node.step(local, input, &mut replica.effects));
        }
    }

    /// A replica reads what arrived, of each member as much as its share allows. The rest waits for the next turn, and at least for so
    /// long, in nanoseconds.
    fn read_by_cost(&mut self, who: usize, local: Time, arrived: Vec<Arrival>) -> Option<u64> {
        self.processes.unread(who).begin();
        for arrival in arrived {
            match self.member_of(who, &arrival) {
                Some(conn) => self.processes.unread(who).push(conn, arrival),
                None => self.replica_arrival(who, local, arrival),
            }
        }
        let mut wait = None;
        for conn in self.processes.unread(who).conns() {
            let now = local.plus(self.processes.unread(who).took());
            if let Some(part) = self.processes.unread(who).part(now, conn) {
                self.read_member(who, conn, local, part);
            }
            if let Some(opens) = self.processes.unread(who).opens_in(now, conn) {
                wait = Some(wait.unwrap_or(u64::MAX).min(opens));
            }
        }
        let took = self.processes.unread(who).end();
        self.processes.works(who, TURN + took, &self.time);
        wait
    }

    /// The connection on which something of a member arrived.
    fn member_of(&mut self, who: usize, arrival: &Arrival) -> Option<ConnId> {
        let (Arrival::Bytes(conn, _) | Arrival::End(conn)) = arrival else { return None };
        let is_member = |class| class == ConnClass::Member;
        let node = self.cluster.node(who)?;
        (self.processes.unread(who).has(*conn) || is_member(node.class(*conn))).then_some(*conn)
    }

    /// One member has its part of a turn.
    fn read_member(&mut self, who: usize, conn: ConnId, local: Time, mut part: Part) {
        let mut now = local;
        while let Some(arrival) = self.processes.unread(who).next(&mut part) {
            self.replica_arrival(who, local, arrival);
            let unread = self.processes.unread(who);
            unread.read(&mut part);
            now = local.plus(unread.took());
        }
        let suspect = self.cluster.node(who).is_some_and(|node| node.suspects_lately(now, conn));
        self.processes.unread(who).served(now, &part, suspect);
    }

    fn replica_arrival(&mut self, who: usize, local: Time, arrival: Arrival) {
        let input = match arrival {
            Arrival::Bytes(conn, bytes) => return self.replica_bytes(who, local, conn, &bytes),
            Arrival::End(conn) => return self.replica_end(who, local, conn),
            Arrival::GivenBack(conn) => return self.processes.given_back(who, conn, &mut self.time),
            Arrival::Left(..) => return,
            Arrival::Heard(lane, count) => return self.processes.hears(who, lane, count),
            Arrival::Without(id) => {
                self.processes.ask_pillar(who, id, &mut self.time);
                return;
            }
            Arrival::Send(conn, bytes) => {
                return self.processes.send(who, conn, &bytes, &mut self.time);
            }
            // What another lane reads of a connection that was ended here is nothing any more.
            Arrival::Frame(conn, _) if !self.processes.is_at_lane(who, conn) => return,
            Arrival::Frame(conn, frame) => {
                self.time.note(Level::All, Some(who), "frame", || show(conn, &frame));
                self.overhear(who, conn, &frame);
                Input::Frame { conn, frame }
            }
            Arrival::Accepted(conn) => Input::Accepted { conn, from: None },
            Arrival::Dialed(conn, replica, link) => Input::Dialed { conn, replica, link },
            Arrival::DialFailed(_, replica, link) => Input::DialFailed { replica, link },
            Arrival::Written(id) => Input::Written(id),
            Arrival::Synced(id) => Input::Synced(id),
            Arrival::Prepared(segment, result) => Input::Prepared { segment, result },
            Arrival::Scrubbed(segment, result) => Input::Scrubbed { segment, result },
            Arrival::Kept(report) => Input::Kept(report),
            Arrival::Checked(id, right) => Input::Checked { id, right },
            Arrival::Worked(done) => Input::Worked(done),
            Arrival::Oracle(instance, answer) => Input::Oracle { instance, answer },
            Arrival::Run(part) => Input::Run(part),
            Arrival::Loaded(load, records) => Input::Loaded { load, records },
        };
        self.node_step(who, local, input);
    }

    fn replica_end(&mut self, who: usize, local: Time, conn: ConnId) {
        if self.processes.has_conn(who, conn) {
            self.processes.ended(who, conn, &mut self.time);
            self.node_step(who, local, Input::Closed(conn));
        }
    }

    fn replica_bytes(&mut self, who: usize, local: Time, id: ConnId, bytes: &[u8]) {
        let Replica { node: Some(node), effects, .. } = &mut self.cluster.replicas[who] else { return };
        let Some(reader) = self.processes.reader(who, id) else { return };
        // What the node asked for since the last turn's end counts at once.
        if let Some(limit) = effects.frame_limit(id) {
            reader.set_limit(limit);
        }
        reader.push(bytes);
        let lies = self.cluster.plan.is_liar(who);
        let mut heard = Vec::new();
        let ended = loop {
            let Some(reader) = self.processes.reader(who, id) else { break false };
            let Ok(frame) = reader.frame() else { break true };
            let Some(frame) = frame else { break false };
            heard.extend(lies.then(|| frame.clone()));
            self.processes.unread(who).pay(&frame);
            self.processes.pay_for(who, 0, &frame, self.time.now());
            let handshake = matches!(frame.kind, FrameKind::Hello | FrameKind::Welcome);
            self.time.note(Level::All, Some(who), "frame", || show(id, &frame));
            node.step(local, Input::Frame { conn: id, frame }, effects);
            if handshake && let Some(limit) = effects.frame_limit(id) {
                self.processes.set_frame_limit(who, id, limit);
            }
        };
        heard.iter().for_each(|frame| self.overhear(who, id, frame));
        if ended {
            self.time.note(Level::Events, Some(who), "damaged", || format!("{id}"));
            self.replica_end(who, local, id);
        }
    }
}

/// The effects of a replica.
impl World {
    /// Carries out all effects.
    fn perform(&mut self, who: usize, local: Time) {
        loop {
            let effects: Vec<Effect> = self.cluster.replicas[who].effects.drain().collect();
            if effects.is_empty() && !self.cluster.node(who).is_some_and(Node::owes_turn) {
                break;
            }
            if !self.perform_these(who, effects.into()) {
                return;
            }
            self.node_step(who, local, Input::TurnEnd);
        }
        self.run_disk(who);
    }

    /// Carries out these effects. Returns whether all of them were, and the process still runs: effects after work that the process waits
    /// for must wait, too.
    fn perform_these(&mut self, who: usize, mut effects: VecDeque<Effect>) -> bool {
        while let Some(effect) = effects.pop_front() {
            self.perform_one(who, effect);
            let replica = &mut self.cluster.replicas[who];
            if replica.node.is_none() {
                return false;
            }
            if self.processes.waits(who) {
                replica.keeping.rest = effects;
                self.run_disk(who);
                return false;
            }
        }
        true
    }

    /// A process that waited for its keeper carries out the remaining effects. Returns whether it can have its turn.
    fn go_on(&mut self, who: usize) -> bool {
        let Some(replica) = self.cluster.replicas.get_mut(who) else { return true };
        let rest = std::mem::take(&mut replica.keeping.rest);
        if rest.is_empty() {
            return true;
        }
        let done = self.perform_these(who, rest);
        self.run_disk(who);
        done
    }

    fn perform_one(&mut self, who: usize, effect: Effect) {
        let replica = &mut self.cluster.replicas[who];
        match effect {
            Effect::Dial { replica, link } => {
                let id = self.processes.new_conn(who);
                self.dial(who, id, (replica, link));
            }
            Effect::Move { conn, link } => self.processes.belongs(who, conn, link, &mut self.time),
            Effect::Close(conn) => self.processes.close(who, conn, &mut self.time),
            Effect::Send { conn, frame } => {
                if let Some(frame) = self.perhaps_lie(who, frame) {
                    self.say(who, conn, &frame);
                }
            }
            Effect::FrameLimit { conn, bytes } => self.processes.set_frame_limit(who, conn, bytes),
            Effect::Keep(work) => self.keep(who, work),
            Effect::Check(work) => self.check(who, &work),
            Effect::Work(work) => self.work(who, work),
            Effect::Oracle(work) => self.ask_oracle(who, work),
            Effect::Release(version) => drop(version),
            Effect::Scrub(scrub) => replica.storage.help(SideJob::Scrub(scrub)),
            Effect::RemoveSegments(segments) => {
                self.time.note(Level::Events, Some(who), "trim", || format!("segments {segments:?}"));
                replica.storage.help(SideJob::Remove(segments));
            }
            Effect::Disk(work) => {
                self.time.note(Level::All, Some(who), "disk", || format!("{work:?}"));
                replica.storage.submit(work);
            }
            Effect::Load { load, extents } => {
                let count = extents.len();
                self.time.note(Level::All, Some(who), "load", || format!("{load}: {count} records"));
                replica.storage.help(SideJob::Load(load, extents));
            }
            Effect::Run(quorate_node::Part::Group(id))
                if self.processes.ask_pillar(who, id, &mut self.time) => {}
            Effect::Run(part) => {
                let wait = self.cluster.plan.apart.map_or(0, |apart| apart.draw(self.time.rng()));
                self.time.after(wait, Event::Run { who, life: self.processes.life(who), part });
            }
            Effect::Proved { text, bytes, .. } => {
                self.time.note(Level::Events, Some(who), "proved", || text);
                self.judge.proved(&self.cluster, who, &bytes);
            }
            Effect::Link { .. }
            | Effect::Status { .. }
            | Effect::Lanes { .. }
            // No neighbour is known here.
            | Effect::DialService { .. }
            | Effect::Audit { .. }
            | Effect::Address { .. } => {}
            Effect::Event(event) => {
                if let NodeEvent::Level { level, begun: true } = event
                    && !self.cluster.plan.is_liar(who)
                {
                    self.judge.proposed(&self.cluster, who, level);
                }
                self.time.note(Level::Events, Some(who), "event", || format!("{event:?}"));
            }
            Effect::Halt(halt) => self.halted(who, halt),
            Effect::EnterEra(next) => self.enter_era(who, &next),
        }
    }

    /// A node gives signatures to its workers.
    fn check(&mut self, who: usize, work: &CheckWork) {
        let Some(workers) = self.cluster.plan.workers else { return };
        let fate = workers.draw(self.time.rng());
        self.time.note(Level::All, Some(who), "check", || format!("{}: {fate:?}", work.id));
        let (right, after) = match fate {
            Fate::Done(after) => (Some(work.run()), after),
            Fate::GivenBack(after) => (None, after),
            Fate::Lost => return,
        };
        self.cluster.replicas[who].checked.insert(work.id, right);
        let life = self.processes.life(who);
        self.time.after(after, Event::Checked { who, life, work: work.id });
    }

    /// A worker's answer reaches its replica.
    pub(super) fn checked(&mut self, who: usize, life: u32, work: u64) {
        if self.processes.lives(who, life)
            && let Some(right) = self.cluster.replicas[who].checked.remove(&work)
        {
            self.processes.arrive(who, Arrival::Checked(work, right), &mut self.time);
        }
    }

    /// A node gives commands to its workers.
    fn work(&mut self, who: usize, work: quorate_execute::Work) {
        let Some(plan) = self.cluster.plan.executor else { return };
        let (after, runs) = plan.draw(self.time.rng());
        self.time.note(Level::All, Some(who), "work", || format!("{work:?}: {runs}"));
        let replica = &mut self.cluster.replicas[who];
        replica.works += 1;
        replica.worked.insert(replica.works, (work, runs));
        let (life, work) = (self.processes.life(who), self.cluster.replicas[who].works);
        self.time.after(after, Event::Worked { who, life, work });
    }

    /// What workers did reaches their replica.
    pub(super) fn worked(&mut self, who: usize, life: u32, work: u64) {
        if self.processes.lives(who, life)
            && let Some((work, runs)) = self.cluster.replicas[who].worked.remove(&work)
            && let Some(plan) = self.cluster.plan.executor
        {
            let mut watch = plan.watch(crate::random::Rng::of(self.time.rng().number(), 1));
            let done = if runs { work.run(&mut watch) } else { work.undone() };
            self.processes.arrive(who, Arrival::Worked(done), &mut self.time);
        }
    }

    fn dial(&mut self, who: usize, id: ConnId, (replica, link): (ReplicaId, u16)) {
        if !(1..=self.cluster.plan.replicas).contains(&usize::from(replica.number())) {
            let text = format!("{} dials {replica}, which does not exist", self.time.name(who));
            return self.judge.fail(Failure::new("members", text));
        }
        self.processes.dial(who, id, (replica, link), &mut self.time);
    }

    /// A node has work for its keeper.
    pub(super) fn keep(&mut self, who: usize, work: KeeperWork) {
        self.time.note(Level::All, Some(who), "keep", || format!("{work:?}"));
        let mut position = 0;
        if let Job::Border { image, .. } = &work.job {
            let seq = image.seq.number();
            if !self.cluster.plan.is_liar(who) {
                self.judge.captured(&self.cluster, who, image);
                self.note_border(who, seq);
            }
            position = self.cluster.node(who).map_or(0, |node| node.status().log.position);
        }
        self.cluster.replicas[who].keeping.submit(work.job, position);
        // The lane does nothing more until the keeper has nothing left to do.
        self.processes.set_waits(who, work.stops);
        self.run_keeper(who);
    }

    /// A replica reaches a border. The logs of other replicas may already hold what follows the border; with several instances, those of a
    /// replica that waits for one of them.
    fn note_border(&mut self, who: usize, seq: u64) {
        let many = self.cluster.plan.instances > 1 || self.cluster.plan.resizes;
        if !many || self.cluster.replicas[who].keeping.record.knows_border(seq) {
            return;
        }
        for replica in &mut self.cluster.replicas {
            if let Some(node) = &replica.node {
                replica.keeping.record.border_comes(seq, node.status().log.position);
            }
        }
    }
}

/// What replicas send, and what liars send instead.
impl World {
    /// What a replica sends instead of a frame: perhaps wrong parts of its checkpoints, or nothing.
    fn perhaps_lie(&mut self, who: usize, frame: OutFrame) -> Option<OutFrame> {
        let Replica { keeping, storage, .. } = &mut self.cluster.replicas[who];
        let Some(lie) = keeping.lie.filter(|_| frame.kind() == FrameKind::State) else { return Some(frame) };
        let payload = Bytes::from(frame.to_vec()).slice(FRAME_HEADER..);
        let Ok(mut message) = StateMessage::decode(payload) else { return Some(frame) };
        match twist(lie, &mut message, storage.rng()) {
            Twisted::Not => return Some(frame),
            Twisted::Gone => return None,
            Twisted::Wrong => {}
        }
        self.time.note(Level::Events, Some(who), "lie", || format!("{lie:?}"));
        Some(message.frame())
    }

    /// A replica's node wants a frame sent.
    fn say(&mut self, who: usize, conn: ConnId, frame: &OutFrame) {
        let Some(liar) = self.liars.get_mut(&who) else { return self.say_this(who, conn, frame) };
        let Some(to) = self.processes.other_end(who, conn) else { return };
        // Where no lie is survived nobody lies.
        if self.cluster.plan.is_liar(to) || !self.cluster.replicas[who].may_lie(&self.cluster.plan) {
            // Liars do not deceive each other: what one adds to what it hears the next one would add to, without end.
            return self.say_this(who, conn, frame);
        }
        if let Some(membership) = self.cluster.node(who).and_then(Node::membership) {
            liar.learn(membership);
        }
        liar.signs_as(Era::signed_as(CLUSTER, self.cluster.replicas[who].era_number()));
        let healed = self.time.now() >= self.cluster.plan.heal_at;
        for saying in liar.instead((self.time.now(), healed), (to, conn), frame) {
            // Frames for the same process take the same way: a process may have several connections.
            let way = if saying.to == to { Some(conn) } else { None };
            self.say_as_liar(who, way, saying);
        }
    }

    fn say_as_liar(&mut self, who: usize, way: Option<ConnId>, saying: Saying) {
        let Some(liar) = self.liars.get_mut(&who) else { return };
        if saying.after > 0 {
            let (wait, life) = (saying.after, self.processes.life(who));
            let number = liar.hold(Saying { after: 0, ..saying });
            return self.time.after(wait, Event::Said { who, life, number });
        }
        if let Some(conn) = way.or(liar.way(saying.to)) {
            self.say_this(who, conn, &saying.said.frame());
        }
    }

    /// The time has come to send a message that was delayed.
    pub(super) fn said_late(&mut self, who: usize, life: u32, number: u64) {
        if self.processes.lives(who, life)
            && let Some(saying) = self.liars.get_mut(&who).and_then(|liar| liar.held(number))
        {
            self.say_as_liar(who, None, saying);
        }
    }

    fn say_this(&mut self, who: usize, conn: ConnId, frame: &OutFrame) {
        let to = self.processes.other_end(who, conn);
        let begin = self.adversary.sent(&self.cluster, (self.time.now(), who), to, frame);
        self.schedule(begin);
        self.send(who, conn, frame);
    }

    fn send(&mut self, who: usize, conn: ConnId, frame: &OutFrame) {
        let kind = frame.kind();
        self.time.note(Level::All, Some(who), "send", || format!("{conn} {kind:?} {}", frame.len()));
        self.processes.send(who, conn, &frame.to_vec(), &mut self.time);
    }

    /// A liar hears what its node hears.
    fn overhear(&mut self, who: usize, id: ConnId, frame: &Frame) {
        let lies = self.cluster.replicas.get(who).is_some_and(|replica| replica.may_lie(&self.cluster.plan));
        let Some(liar) = self.liars.get_mut(&who).filter(|_| lies) else { return };
        let from = self.processes.other_end(who, id);
        let Some(from) = from.filter(|from| !self.cluster.plan.is_liar(*from)) else { return };
        for saying in liar.hears(self.time.now(), from, frame) {
            self.say_as_liar(who, None, saying);
        }
    }
}

/// Clients.
impl World {
    fn client_step(&mut self, who: usize, local: Time, input: ClientInput) {
        let client = self.cluster.client(who);
        in_product(|| client.core.step(local, input, &mut client.effects));
    }

    /// Gives a client its turn. Returns when it wants the next one, in virtual time.
    fn client_turn(&mut self, who: usize, arrived: Vec<Arrival>) -> Option<u64> {
        let local = self.processes.local(who, &self.time);
        for arrival in arrived {
            self.client_arrival(who, local, arrival);
        }
        if self.cluster.client(who).core.deadline().is_some_and(|deadline| deadline <= local) {
            self.client_step(who, local, ClientInput::Deadline);
        }
        loop {
            let client = self.cluster.client(who);
            client.act(self.time.now(), local);
            in_product(|| client.core.flush(local, &mut client.effects));
            let effects: Vec<ClientEffect> = client.effects.drain().collect();
            if effects.is_empty() {
                break;
            }
            for effect in effects {
                self.client_effect(who, local, effect);
            }
        }
        let client = self.cluster.client(who);
        let core = client.core.deadline().map(|at| self.processes.when(who, at, &self.time));
        [core, client.next_at()].into_iter().flatten().min()
    }

    fn client_arrival(&mut self, who: usize, local: Time, arrival: Arrival) {
        match arrival {
            Arrival::Dialed(conn, ..) => {
                self.processes.set_frame_limit(who, conn, FRAME_MAX);
                self.client_step(who, local, ClientInput::Connected(conn));
            }
            Arrival::DialFailed(conn, ..) => {
                let why = "no connection".into();
                self.client_step(who, local, ClientInput::Closed { conn, why });
            }
            Arrival::Bytes(conn, bytes) => self.client_bytes(who, local, conn, &bytes),
            Arrival::End(conn) => self.client_end(who, local, conn, "the connection ended"),
            Arrival::Left(conn, bytes) => self.client_step(who, local, ClientInput::Written { conn, bytes }),
            _ => {}
        }
    }

    fn client_end(&mut self, who: usize, local: Time, conn: ConnId, why: &str) {
        if self.processes.has_conn(who, conn) {
            self.processes.hang_up(who, conn, &mut self.time);
            self.client_step(who, local, ClientInput::Closed { conn, why: why.to_owned() });
        }
    }

    fn client_bytes(&mut self, who: usize, local: Time, id: ConnId, bytes: &[u8]) {
        let Some((frames, ended)) = self.processes.read(who, id, bytes) else { return };
        for frame in frames {
            let kind = frame.kind;
            self.time.note(Level::All, Some(who), "frame", || format!("{id} {kind:?}"));
            self.client_step(who, local, ClientInput::Frame { conn: id, frame });
        }
        if ended {
            self.client_end(who, local, id, "the bytes were damaged");
        }
    }

    fn client_effect(&mut self, who: usize, local: Time, effect: ClientEffect) {
        match effect {
            ClientEffect::Dial { conn, replica } => self.dial(who, conn, (replica, 0)),
            ClientEffect::Close(conn) => self.processes.hang_up(who, conn, &mut self.time),
            ClientEffect::Send { conn, frame } => {
                for frame in self.client_frames(who, conn, frame) {
                    self.send(who, conn, &frame);
                }
            }
            ClientEffect::Completed { call, result } => {
                self.time.mix(&[who as u64, call.0, u64::from(result.is_ok())]);
                self.time.note(Level::Events, Some(who), "done", || format!("call {}: {result:?}", call.0));
                let index = who - self.cluster.plan.replicas;
                let client = &mut self.cluster.clients[index];
                let ended = client.completed(self.time.now(), local, call, result);
                let ended = self.hosting.ended(&self.cluster.plan, index, client, ended);
                if !client.lies() {
                    ended.into_iter().for_each(|number| self.judge.answered(&client.done[number]));
                }
            }
            ClientEffect::Address { .. } | ClientEffect::Problem { .. } | ClientEffect::Leader(_) => {}
            // No client of the simulation wants them.
            ClientEffect::Replied(_) | ClientEffect::Believed { .. } | ClientEffect::Letter { .. } => {}
        }
    }

    /// What is sent instead of a frame of a client's core.
    fn client_frames(&mut self, who: usize, conn: ConnId, frame: OutFrame) -> Vec<OutFrame> {
        let Some(trick) = self.cluster.plan.client_trick(who - self.cluster.plan.replicas) else {
            let used = clients::session_of(&frame);
            let client = self.cluster.client(who);
            client.used = used.or(client.used);
            return vec![frame];
        };
        let Some(to) = self.processes.other_end(who, conn) else { return vec![frame] };
        let sessions: Vec<SessionId> =
            self.cluster.honest_clients().filter_map(|client| client.used).collect();
        clients::instead(trick, self.cluster.client(who).rng(), to, &sessions, frame)
    }
}

/// The oracle.
impl World {
    /// A node asks the oracle.
    pub(super) fn ask_oracle(&mut self, who: usize, work: OracleWork) {
        self.time.note(Level::All, Some(who), "asks", || format!("{work:?}"));
        let (instance, membership) = (work.instance, work.request.membership);
        let now = self.time.now();
        let wishes = self.liars.get_mut(&who).map(|liar| liar.wishes(now, instance, membership));
        let more = wishes.unwrap_or_default().into_iter().map(|wish| OracleRequest { membership, wish });
        let more = more.map(|request| OracleWork { instance, request });
        for work in [work].into_iter().chain(more) {
            let number = self.oracle.send(Letter::Question(work));
            self.forward(who, number);
        }
    }

    /// A letter leaves, perhaps twice, perhaps for nothing.
    fn forward(&mut self, who: usize, letter: u64) {
        let Some(OraclePlan { wait, stalls, stall, loses, .. }) = self.cluster.plan.oracle else { return };
        let life = self.processes.life(who);
        let rng = self.time.rng();
        let most = if rng.chance(stalls) { stall } else { wait };
        let copies = if rng.chance(loses) { 0 } else { 1 + u64::from(rng.chance(loses)) };
        for _ in 0..copies {
            let after = self.time.rng().range(0, most);
            self.time.after(after, Event::Letter { who, life, letter });
        }
    }

    /// A letter arrives: a question at the oracle, an answer at its replica.
    pub(super) fn letter(&mut self, who: usize, life: u32, letter: u64) {
        match self.oracle.letters.get(&letter) {
            Some(Letter::Question(work)) => {
                let away = self.cluster.plan.oracle.is_some_and(|oracle| oracle.is_away(self.time.now()));
                if !away && self.processes.lives(who, life) {
                    let (instance, answer) = (work.instance, self.oracle.serve(work.clone()));
                    self.time.note(Level::Events, Some(who), "oracle", || {
                        format!("{instance}: version {}, {:?}", answer.version, answer.value)
                    });
                    let number = self.oracle.send(Letter::Answer(instance, answer));
                    self.forward(who, number);
                }
            }
            Some(Letter::Answer(instance, answer)) if self.processes.lives(who, life) => {
                let arrival = Arrival::Oracle(*instance, answer.clone());
                self.processes.arrive(who, arrival, &mut self.time);
            }
            _ => {}
        }
    }
}
