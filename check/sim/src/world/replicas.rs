//! Drives the nodes, as host/runtime does, and their disks.

use super::costs::price;
use super::{MS, Phase, World};
use crate::checks::{Failure, asked, leases};
use crate::client::Client;
use crate::clock::Clock;
use crate::plan::Fault;
use crate::plan::Phase as Point;
use crate::process::Arrival;
use crate::queue::Event;
use crate::replica::{Job, NoStart, Replica, SideJob};
use crate::service::{Row, Told};
use crate::trace::Level;
use crate::trips::in_product;
use quorate_node::{Effect, Input, Node, SegmentScrub};
use quorate_order::protocols;
use quorate_order::raft::message::RaftMessage;
use quorate_types::{ConnId, Halt, Time, View, planted};
use quorate_wire::{Frame, FrameKind, StateMessage};
use std::collections::VecDeque;

/// A frame for people.
fn show(conn: ConnId, frame: &Frame) -> String {
    if frame.kind == FrameKind::Order
        && let Ok((instance, message)) = protocols::decode(frame.payload.clone())
    {
        let mut text = match message.get::<RaftMessage>() {
            Some(message) => format!("{message:?}"),
            None => format!("{instance} {message:?}"),
        };
        if let Some((at, _)) = text.char_indices().nth(300) {
            text.truncate(at);
        }
        return format!("{conn} {text}");
    }
    if frame.kind == FrameKind::State
        && let Ok(message) = StateMessage::decode(frame.payload.clone())
    {
        return format!("{conn} {}", show_state(&message));
    }
    format!("{conn} {:?}, {} bytes", frame.kind, frame.payload.len())
}

/// A message about the state for people: without what it carries.
fn show_state(message: &StateMessage) -> String {
    match message {
        StateMessage::Manifest { seq, offset, total, bytes, .. } => {
            format!("Manifest of {seq}: {} bytes at {offset} of {total}", bytes.len())
        }
        StateMessage::Chunk { seq, chunk, bytes, .. } => {
            format!("Chunk {chunk} of {seq}: {} bytes", bytes.len())
        }
        other => format!("{other:?}"),
    }
}

impl World {
    pub(super) fn start_replica(&mut self, who: usize) {
        let absent = who >= self.plan.founders && self.replicas[who].join.is_none();
        if self.replicas[who].halt.is_some() || absent {
            return;
        }
        let life = self.processes[who].life;
        let mut config = Replica::config(&self.plan, who, life + 1, self.replicas[who].join.as_ref());
        config.level = self.level_config(who);
        let calm = self.phase != Phase::Safety;
        match self.replicas[who].recover(&self.plan, config, calm) {
            Ok(()) => {}
            Err(NoStart::Full | NoStart::Interrupted) => {
                self.queue.push(self.now + 300 * MS, Event::Start { who, life });
                return;
            }
            Err(NoStart::Halt(halt)) => return self.halted(who, halt),
        }
        let replica = &mut self.replicas[who];
        // A checkpoint was restored if anything was executed before the log's first batch is.
        let seq = replica.node.as_ref().map_or(0, |node| node.executor().seq().number());
        drop(replica.tap.drain());
        replica.standing.next = (seq == 0).then_some(0);
        replica.standing.last = seq;
        let drift = self.rng.range(0, self.plan.drift * 2) as i64 - self.plan.drift as i64;
        let clock = Clock::new(self.rng.spread(1, 1_000_000 * MS), self.now, drift);
        self.processes[who].start(clock);
        self.times.starts(self.now);
        self.note_how_many_run();
        if let Some(liar) = self.liars.get_mut(&who) {
            liar.starts();
        }
        self.trace.line(Level::Events, self.now, Some(who), "start", || format!("life {}", life + 1));
        let local = self.processes[who].clock.read(self.now);
        let replica = &mut self.replicas[who];
        if let Some(node) = &mut replica.node {
            node.start(local, &mut replica.effects);
        }
        // What it executed before it told nobody, and what of its state is not as it should be.
        self.replicas[who].look_for_corruption();
        self.perform(who, local);
        self.after_steps(who);
        self.wake(who);
    }

    pub(super) fn halted(&mut self, who: usize, halt: Halt) {
        self.trace.mix(&[0xdead, who as u64]);
        self.trace.line(Level::Events, self.now, Some(who), "halt", || halt.to_string());
        if matches!(halt, Halt::FeatureLevel { .. }) && self.gets_newer_program(who) {
            return;
        }
        self.end_life(who, false);
        let checkpoint = matches!(halt, Halt::CheckpointUnusable { .. });
        let expected = self.plan.faults.iter().any(|(_, fault)| match fault {
            Fault::Rot { who: rotten, .. } => *rotten == who,
            Fault::Disk(fault) => fault.damages() && fault.who() == who,
            Fault::RotCheckpoint { who: rotten, .. } => *rotten == who && checkpoint,
            _ => false,
        });
        if !expected && !self.plan.is_liar(who) {
            let text = format!("{} halts without a reason: {halt}", self.trace.name(who));
            self.fail(Failure::new("halt", text));
        }
        self.replicas[who].halt = Some(halt);
    }

    fn step(&mut self, who: usize, local: Time, input: Input) {
        let replica = &mut self.replicas[who];
        if let Some(node) = &mut replica.node {
            in_product(|| node.step(local, input, &mut replica.effects));
        }
    }

    /// Gives a replica its turn; says when its next deadline is, in virtual time.
    pub(super) fn replica_turn(&mut self, who: usize, arrived: Vec<Arrival>) -> Option<u64> {
        let before = self.replicas[who].node.as_ref().map(Node::leases).unwrap_or_default();
        // As in host/runtime, a turn goes by a time that was read after everything in it arrived: the process may have been paused
        // between an earlier look at the clock and now.
        let earlier = self.processes[who].glimpse.take().filter(|_| planted("stale-lease-after-a-pause"));
        let local = earlier.unwrap_or_else(|| self.processes[who].clock.read(self.now));
        let waits = if self.plan.costs {
            self.read_by_cost(who, local, arrived)
        } else {
            arrived.into_iter().for_each(|arrival| self.replica_arrival(who, local, arrival));
            None
        };
        if self.replicas[who].node.as_ref()?.deadline().is_some_and(|deadline| deadline <= local) {
            self.step(who, local, Input::Deadline);
        }
        self.step(who, local, Input::TurnEnd);
        self.perform(who, local);
        self.after_steps(who);
        self.look_at_lease(who, &before);
        self.look_for_leaders(who, &before);
        self.look_for_decisions(who);
        if self.processes[who].waits {
            return None;
        }
        let waits = waits.map(|wait| self.now + wait);
        let deadline = self.replicas[who].node.as_ref()?.deadline();
        let deadline = deadline.map(|deadline| self.processes[who].clock.when(self.now, deadline));
        waits.into_iter().chain(deadline).min()
    }

    /// A replica that stood like that in its instances before may have answered reads by a lease.
    fn look_at_lease(&mut self, who: usize, before: &[(View, bool, u64)]) {
        let Some(node) = &self.replicas[who].node else { return };
        for (at, ((view, _, answered), (.., now))) in before.iter().zip(node.leases()).enumerate() {
            // They begin anew with another stay of the instance.
            if now <= *answered {
                continue;
            }
            let others = self.replicas.iter().enumerate().filter_map(|(other, replica)| {
                let leases = replica.node.as_ref().filter(|_| other != who)?.leases();
                leases
                    .get(at)
                    // In another stay of the instance views mean something else.
                    .filter(|(other, leads, _)| *leads && other.number() >> 40 == view.number() >> 40)
                    .map(|(view, ..)| (self.trace.name(other), *view))
            });
            if let Err(failure) = leases::judge(&self.trace.name(who), *view, others) {
                return self.fail(failure);
            }
        }
    }

    pub(super) fn replica_arrival(&mut self, who: usize, local: Time, arrival: Arrival) {
        match arrival {
            Arrival::Accepted(conn) => self.step(who, local, Input::Accepted { conn, from: None }),
            Arrival::Dialed(conn, replica, link) => {
                self.step(who, local, Input::Dialed { conn, replica, link });
            }
            Arrival::DialFailed(_, replica, link) => {
                self.step(who, local, Input::DialFailed { replica, link });
            }
            Arrival::Frame(conn, frame) => {
                // What another lane reads of a connection that was ended here is nothing any more.
                if self.processes[who].lanes.has(conn) {
                    self.trace.line(Level::All, self.now, Some(who), "frame", || show(conn, &frame));
                    self.overhear(who, conn, &frame);
                    self.step(who, local, Input::Frame { conn, frame });
                }
            }
            Arrival::GivenBack(conn) => self.given_back(who, conn),
            Arrival::Bytes(conn, bytes) => self.replica_bytes(who, local, conn, &bytes),
            Arrival::End(conn) => self.replica_end(who, local, conn),
            Arrival::Left(..) => {}
            Arrival::Written(id) => self.step(who, local, Input::Written(id)),
            Arrival::Synced(id) => self.step(who, local, Input::Synced(id)),
            Arrival::Prepared(segment, result) => self.step(who, local, Input::Prepared { segment, result }),
            Arrival::Scrubbed(segment, result) => self.step(who, local, Input::Scrubbed { segment, result }),
            Arrival::Kept(report) => self.step(who, local, Input::Kept(report)),
            Arrival::Loaded(load, records) => self.step(who, local, Input::Loaded { load, records }),
        }
    }

    fn replica_end(&mut self, who: usize, local: Time, conn: ConnId) {
        if self.processes[who].conns.contains_key(&conn) {
            self.hang_up(who, conn);
            self.forget_at_lane(who, conn);
            self.step(who, local, Input::Closed(conn));
        }
    }

    fn replica_bytes(&mut self, who: usize, local: Time, id: ConnId, bytes: &[u8]) {
        let Some(conn) = self.processes[who].conns.get(&id).copied() else { return };
        let Some(side) = self.net.side(conn, who, id) else { return };
        let Some(found) = self.net.conn(conn) else { return };
        let reader = &mut found.ends[side].reader;
        let (node, effects) = match &mut self.replicas[who] {
            Replica { node: Some(node), effects, .. } => (node, effects),
            _ => return,
        };
        // What the node asked for since the last turn's end counts at once.
        if let Some(limit) = effects.frame_limit(id) {
            reader.set_limit(limit);
        }
        reader.push(bytes);
        let lies = self.plan.is_liar(who);
        let mut heard = Vec::new();
        let ended = loop {
            match reader.frame() {
                Ok(None) => break false,
                Err(_) => break true,
                Ok(Some(frame)) => {
                    heard.extend(lies.then(|| frame.clone()));
                    self.processes[who].cost += price(&frame);
                    let handshake = matches!(frame.kind, FrameKind::Hello | FrameKind::Welcome);
                    self.trace.line(Level::All, self.now, Some(who), "frame", || show(id, &frame));
                    node.step(local, Input::Frame { conn: id, frame }, effects);
                    if handshake && let Some(limit) = effects.frame_limit(id) {
                        reader.set_limit(limit);
                    }
                }
            }
        };
        heard.iter().for_each(|frame| self.overhear(who, id, frame));
        if ended {
            self.trace.line(Level::Events, self.now, Some(who), "damaged", || format!("{id}"));
            self.replica_end(who, local, id);
        }
    }

    /// Does what the node wants, until nothing is left.
    fn perform(&mut self, who: usize, local: Time) {
        loop {
            let effects: Vec<Effect> = self.replicas[who].effects.drain().collect();
            if effects.is_empty() {
                break;
            }
            if !self.perform_these(who, effects.into()) {
                return;
            }
            self.step(who, local, Input::TurnEnd);
        }
        self.run_disk(who);
    }

    /// Whether all of it was done, and the process still runs: what comes after work that it waits for has to wait as well.
    fn perform_these(&mut self, who: usize, mut effects: VecDeque<Effect>) -> bool {
        while let Some(effect) = effects.pop_front() {
            self.perform_one(who, effect);
            if self.replicas[who].node.is_none() {
                return false;
            }
            if self.processes[who].waits {
                self.replicas[who].keeping.rest = effects;
                self.run_disk(who);
                return false;
            }
        }
        true
    }

    /// A process that waited for its keeper does what was left to do. Whether it can have its turn.
    pub(super) fn go_on(&mut self, who: usize) -> bool {
        if who >= self.plan.replicas {
            return true;
        }
        let rest = std::mem::take(&mut self.replicas[who].keeping.rest);
        if rest.is_empty() {
            return true;
        }
        let done = self.perform_these(who, rest);
        self.run_disk(who);
        done
    }

    fn perform_one(&mut self, who: usize, effect: Effect) {
        match effect {
            Effect::Dial { replica, link } => {
                let id = self.processes[who].conn();
                self.dial(who, id, (replica, link));
            }
            Effect::Move { conn, lane } => self.move_to_lane(who, conn, lane),
            Effect::Close(conn) => {
                if !self.close_by_lane(who, conn) {
                    self.hang_up(who, conn);
                }
            }
            Effect::Send { conn, frame } => {
                if let Some(frame) = self.perhaps_lie(who, frame) {
                    self.say(who, conn, &frame);
                }
            }
            Effect::Keep(work) => self.keep(who, work),
            Effect::Release(version) => drop(version),
            Effect::Scrub(scrub) => self.replicas[who].side.push_back(SideJob::Scrub(scrub)),
            Effect::RemoveSegments(segments) => {
                self.trace
                    .line(Level::Events, self.now, Some(who), "trim", || format!("segments {segments:?}"));
                self.replicas[who].side.push_back(SideJob::Remove(segments));
            }
            Effect::FrameLimit { conn: id, bytes } => {
                if let Some(conn) = self.processes[who].conns.get(&id).copied()
                    && let Some(side) = self.net.side(conn, who, id)
                    && let Some(conn) = self.net.conn(conn)
                {
                    conn.ends[side].reader.set_limit(bytes);
                }
            }
            Effect::Disk(work) => {
                self.trace.line(Level::All, self.now, Some(who), "disk", || format!("{work:?}"));
                self.replicas[who].submit(work);
            }
            Effect::Load { load, places } => {
                let count = places.len();
                self.trace
                    .line(Level::All, self.now, Some(who), "load", || format!("{load}: {count} records"));
                self.replicas[who].side.push_back(SideJob::Load(load, places));
            }
            Effect::Status { .. } | Effect::Audit { .. } | Effect::Address { .. } => {}
            Effect::Event(event) => {
                if let quorate_node::Event::Level { level, begun: true } = event
                    && !self.plan.is_liar(who)
                    && let Err(failure) = self.proposed_level(who, level)
                {
                    self.fail(failure);
                }
                self.trace.line(Level::Events, self.now, Some(who), "event", || format!("{event:?}"));
            }
            Effect::Halt(halt) => self.halted(who, halt),
        }
    }

    /// Checks that hold after every step.
    fn after_steps(&mut self, who: usize) {
        let name = self.trace.name(who);
        let told = self.replicas[who].tap.drain();
        if self.plan.is_liar(who) {
            // What it says it executed counts for nothing.
            return;
        }
        let (mut ran, mut jumped) = (false, false);
        for told in &told {
            let standing = &mut self.replicas[who].standing;
            match told {
                Told::Ran(row) => {
                    ran = true;
                    self.times.goes_on(self.now, who);
                    standing.last = standing.last.max(row.seq);
                    let index = standing.next.unwrap_or_else(|| self.agreement.first_from(row.seq));
                    standing.next = Some(index + 1);
                    if let Err(failure) = self.executed(&name, index, row) {
                        return self.fail(failure);
                    }
                }
                Told::Corrupted(seq) => {
                    standing.corrupt.get_or_insert(*seq);
                    self.trace
                        .line(Level::Events, self.now, Some(who), "corrupt", || format!("at seq {seq}"));
                }
                Told::Rang(seq) => {
                    self.rang.entry(*seq).or_insert_with(|| {
                        self.alarm.rang();
                        self.now
                    });
                }
                Told::Restored => {
                    jumped = true;
                    standing.replaced();
                }
            }
        }
        if jumped {
            self.replicas[who].look_for_corruption();
        }
        if let Err(failure) = self.look_at_level(who) {
            return self.fail(failure);
        }
        self.watch(who, false);
        let thorough = self.rng.chance(10);
        let Replica { node: Some(node), standing, .. } = &mut self.replicas[who] else { return };
        node.invariants(thorough);
        let seq = node.executor().seq().number();
        standing.last = standing.last.max(seq);
        // Comparing states costs more than running: often enough to name the seq where they part.
        if (jumped || (ran && seq.is_multiple_of(4)))
            && standing.corrupt.is_none()
            && let Err(failure) = self.states.look(&name, node.executor())
        {
            self.fail(failure);
        }
    }

    /// A replica ran a command.
    fn executed(&mut self, name: &str, index: usize, row: &Row) -> Result<(), Failure> {
        self.trace.mix(&[row.seq, u64::from(row.op.0) << 32 | u64::from(row.op.1)]);
        if !self.agreement.executed(name, index, row)? {
            return Ok(());
        }
        self.alarm.set(self.now);
        let client = self.clients.get((row.op.0 as usize).wrapping_sub(1));
        if client.is_some_and(Client::lies) {
            return Ok(());
        }
        asked::judge(row, client.and_then(|client| client.asked(row.op.1)).as_deref())?;
        self.once.ran(index, row)?;
        let called = client.and_then(|client| client.done.get(row.op.1 as usize)).map(|done| done.call);
        let Some(call) = called else { return Ok(()) };
        self.times.executed((self.now, self.phase != Phase::Safety), call, row.time)
    }

    /// Lets the writer and the helper begin what waits.
    pub(super) fn run_disk(&mut self, who: usize) {
        let life = self.processes[who].life;
        let (low, high) = if self.plan.is_fast(who) { (1, 1) } else { self.plan.disk };
        let replica = &mut self.replicas[who];
        if replica.at_disk.is_empty() && !replica.jobs.is_empty() {
            replica.begin_writing();
            let at = self.now + replica.rng.range(low, high);
            self.queue.push(at, Event::Disk { who, life });
        }
        if !replica.side_busy && !replica.side.is_empty() {
            replica.side_busy = true;
            let at = self.now + replica.rng.range(low, high);
            self.queue.push(at, Event::Side { who, life });
        }
    }

    pub(super) fn disk_done(&mut self, who: usize, life: u32) {
        if self.processes[who].life != life || !self.processes[who].up {
            return;
        }
        let replica = &mut self.replicas[who];
        if replica.stalls > 0 || self.processes[who].pauses > 0 {
            replica.held.0 = true;
            return;
        }
        let Some(done) = replica.end_writing() else { return self.sync_failed(who) };
        self.trace.mix(&[who as u64, done.len() as u64]);
        for job in done {
            let arrival = match job {
                Job::Write(write) => Arrival::Written(write.id),
                Job::Sync(id, _) => Arrival::Synced(id),
            };
            self.arrive(who, arrival);
        }
        self.run_disk(who);
    }

    pub(super) fn side_done(&mut self, who: usize, life: u32) {
        if self.processes[who].life != life || !self.processes[who].up {
            return;
        }
        let segment_bytes = self.plan.log.segment_bytes;
        let replica = &mut self.replicas[who];
        if replica.stalls > 0 || self.processes[who].pauses > 0 {
            replica.held.1 = true;
            return;
        }
        replica.side_busy = false;
        let Some(job) = replica.side.pop_front() else { return };
        let arrival = match job {
            SideJob::Prepare(segment) => {
                Arrival::Prepared(segment, replica.disk.prepare(segment, segment_bytes))
            }
            SideJob::Remove(mut segments) => {
                // One at a time: the process may die between two of them.
                if let Some(segment) = segments.next() {
                    replica.disk.remove(segment);
                }
                if !segments.is_empty() {
                    replica.side.push_front(SideJob::Remove(segments));
                }
                if self.is_trapped(who, Point::TrimLog) {
                    return self.spring(who);
                }
                return self.run_disk(who);
            }
            SideJob::Scrub(SegmentScrub { log_id, config, segment }) => {
                let read = replica.disk.segment(segment);
                Arrival::Scrubbed(segment, quorate_log::scrub(log_id, &config, segment, &read))
            }
            SideJob::Load(load, places) => {
                let read = places.iter().map(|p| replica.disk.read(p.segment, p.offset, p.len)).collect();
                Arrival::Loaded(load, read)
            }
        };
        self.arrive(who, arrival);
        self.run_disk(who);
    }

    /// What was held up while the disk was stalled, or the process paused, goes on.
    pub(super) fn resume_disk(&mut self, who: usize) {
        if self.replicas[who].stalls > 0 || self.processes[who].pauses > 0 {
            return;
        }
        let life = self.processes[who].life;
        let (writer, helper, keeper) = std::mem::take(&mut self.replicas[who].held);
        if writer {
            self.disk_done(who, life);
        }
        if helper {
            self.side_done(who, life);
        }
        if keeper {
            self.keeper_done(who, life);
        }
    }
}
