//! Breaks things, and makes them whole again.

use super::{MS, Phase, World};
use crate::plan::{Fault, Suspend};
use crate::process::Process;
use crate::queue::Event;
use crate::trace::Level;
use bytes::Bytes;
use quorate_log::SyncMode;
use quorate_node::{Input, KeeperWork, Node};
use quorate_state::checkpoint::Job;
use quorate_types::{Halt, Seq};
use quorate_wire::{FRAME_HEADER, Frame, FrameKind, Hello, Role, instances_request};

impl World {
    pub(super) fn begin_fault(&mut self, index: usize) {
        let leader = self.leader();
        let fault = self.plan.faults[index].1.resolved(leader, self.plan.founders);
        // It ends for whom it began.
        self.plan.faults[index].1 = fault;
        self.trace.line(Level::Events, self.now, None, "fault", || fault.to_string());
        let lasts = self.strike(fault);
        if let Some(time) = lasts {
            self.queue.push(self.now + time, Event::Ends { index });
        }
    }

    /// Does what a fault does; says for how long it lasts, if it has to be ended.
    fn strike(&mut self, fault: Fault) -> Option<u64> {
        match fault {
            Fault::Crash { who, time } => self.crash(who, false, time),
            Fault::PowerLoss { who, time } => self.crash(who, true, time),
            Fault::Blackout { time } => {
                for who in 0..self.plan.replicas {
                    let time = time + self.rng.below(100 * MS);
                    self.crash(who, true, time);
                }
                None
            }
            Fault::Pause { who, time } => {
                let process = &mut self.processes[who];
                process.pauses += 1;
                process.away |= self.plan.times().outage.is_some_and(|long| time > long);
                // Half of the time the pause comes right after it read its clock.
                if self.now.is_multiple_of(2) && process.glimpse.is_none() {
                    process.glimpse = Some(process.clock.read(self.now));
                }
                self.note_how_many_run();
                Some(time)
            }
            Fault::Cut { from, to, time } => {
                self.cut(from, to);
                Some(time)
            }
            Fault::Partition { group, time } => {
                self.across(group).into_iter().for_each(|(from, to)| self.cut(from, to));
                Some(time)
            }
            Fault::Suspend(Suspend { who, time }) => {
                self.processes[who].pauses += 1;
                self.processes[who].clock.stop(self.now);
                Some(time)
            }
            Fault::Moment(moment) => {
                self.moments.push(moment);
                None
            }
            _ => self.strike_links_and_disks(fault),
        }
    }

    fn strike_links_and_disks(&mut self, fault: Fault) -> Option<u64> {
        match fault {
            Fault::Reset { a, b } => {
                let mut conns = self.net.between(a, b);
                // Links of other lanes may go on.
                if self.plan.lanes > 1 && !conns.is_empty() && self.rng.chance(500) {
                    conns = vec![self.rng.pick(&conns)];
                }
                conns.into_iter().for_each(|conn| self.time_out(conn));
                None
            }
            Fault::Damage { from, to } => {
                self.net.damage(from, to);
                None
            }
            Fault::Slow { from, to, by, time } => {
                self.net.slow(from, to, by);
                Some(time)
            }
            Fault::Stall { who, time } => {
                self.replicas[who].stalls += 1;
                Some(time)
            }
            Fault::Full { who, time } => {
                self.fill(who, true);
                Some(time)
            }
            Fault::Jump { who, by } => {
                self.processes[who].clock.jump(self.now, by);
                if who < self.plan.replicas {
                    self.times.jumps(self.now, who, by);
                }
                self.processes[who].wake = None;
                self.wake(who);
                None
            }
            Fault::Drift { who, rate } => {
                self.processes[who].clock.set_drift(self.now, rate);
                self.processes[who].wake = None;
                self.wake(who);
                None
            }
            Fault::Transfer { who, to } => {
                self.operate(who, FrameKind::TransferRequest, Bytes::copy_from_slice(&to.to_le_bytes()));
                None
            }
            // A cluster begins when all its members have been there: before that a lost disk is a cluster that never was.
            Fault::Lose { who } | Fault::Rot { who, .. } | Fault::RotCheckpoint { who, .. }
                if !self.others_have_begun(who) =>
            {
                None
            }
            Fault::Rot { who, part } => self.rot(who, part),
            Fault::Disk(fault) => self.strike_disk(fault),
            Fault::Lose { who } => {
                self.replicas[who].keeping.trap = None;
                if self.processes[who].up {
                    self.end_life(who, true);
                }
                let why = "its disk is lost".into();
                self.replicas[who].halt.get_or_insert(Halt::LogInconsistent { why });
                None
            }
            _ => self.strike_state(fault),
        }
    }

    fn strike_state(&mut self, fault: Fault) -> Option<u64> {
        match fault {
            Fault::RotCheckpoint { who, part, sector, restart } => {
                let file = self.replicas[who].keeping.files.rot(part, sector);
                self.trace.line(Level::Events, self.now, Some(who), "rot", || format!("{file:?}"));
                if restart { self.crash(who, false, 50 * MS) } else { self.scrub(who) }
            }
            Fault::Corrupt { who } => {
                self.replicas[who].tap.corrupt();
                None
            }
            Fault::Scrub { who } => self.scrub(who),
            Fault::CrashInCheckpoint { who, phase, skip, machine, time } => {
                let keeping = &mut self.replicas[who].keeping;
                keeping.trap = Some((phase, skip, machine, time));
                keeping.files.set_trap(phase, skip);
                None
            }
            Fault::Away { who, time } if self.plan.log.sync == SyncMode::Memory => {
                self.across(1 << who).into_iter().for_each(|(from, to)| self.cut(from, to));
                Some(time)
            }
            Fault::Away { who, time } => self.crash(who, false, time),
            Fault::Lie { who, how, time } => {
                self.replicas[who].keeping.lie = Some(how);
                Some(time)
            }
            Fault::WantBorder { who } => {
                self.want_border(who, u64::MAX);
                None
            }
            Fault::Member { what, pick } => {
                self.change_members(what, pick);
                None
            }
            Fault::Program { who, level, time } => self.change_program(who, level, time),
            Fault::Raise => {
                self.ask_to_raise();
                None
            }
            Fault::Instances { count } => {
                let payload = Bytes::from(instances_request(count).to_vec()).slice(FRAME_HEADER..);
                self.operate(self.leader(), FrameKind::InstancesRequest, payload);
                None
            }
            _ => None,
        }
    }

    /// The keeper goes through all files.
    pub(super) fn scrub(&mut self, who: usize) -> Option<u64> {
        if self.processes[who].up {
            self.keep(who, KeeperWork { job: Job::Scrub, stops: false });
        }
        None
    }

    fn fill(&mut self, who: usize, full: bool) {
        let replica = &mut self.replicas[who];
        replica.disk.full = full;
        replica.keeping.files.full = full;
    }

    pub(super) fn others_have_begun(&self, who: usize) -> bool {
        self.replicas.iter().enumerate().filter(|(at, _)| *at != who).all(|(_, replica)| {
            let begun = |node: &Node| node.has_begun() && node.executor().seq() > Seq::ZERO;
            replica.halt.is_some() || replica.node.as_ref().is_some_and(begun)
        })
    }

    pub(super) fn end_fault(&mut self, index: usize) {
        if self.phase != Phase::Safety {
            return;
        }
        let fault = self.plan.faults[index].1;
        self.trace.line(Level::Events, self.now, None, "ends", || fault.to_string());
        match fault {
            Fault::Pause { who, .. } => self.resume(who),
            Fault::Suspend(Suspend { who, .. }) => {
                self.processes[who].clock.go(self.now);
                self.resume(who);
            }
            Fault::Cut { from, to, .. } => self.net.join(self.now, from, to, &mut self.queue),
            Fault::Partition { group, .. } => {
                for (from, to) in self.across(group) {
                    self.net.join(self.now, from, to, &mut self.queue);
                }
            }
            Fault::Slow { from, to, .. } => self.net.slow(from, to, 0),
            Fault::Stall { who, .. } => {
                self.replicas[who].stalls = self.replicas[who].stalls.saturating_sub(1);
                self.resume_disk(who);
            }
            Fault::Full { who, .. } => self.fill(who, false),
            Fault::Lie { who, .. } => self.replicas[who].keeping.lie = None,
            Fault::Away { who, .. } => {
                for (from, to) in self.across(1 << who) {
                    self.net.join(self.now, from, to, &mut self.queue);
                }
            }
            _ => {}
        }
    }

    /// Who leads the first instance in the highest view, or any; the first replica when nobody does.
    pub(super) fn leader(&self) -> usize {
        let leads = |who: &usize| self.replicas[*who].node.as_ref().is_some_and(Node::leads);
        let standing = |who: &usize| {
            let node = self.replicas[*who].node.as_ref()?;
            let first = node.leases().first().is_some_and(|(_, leads, _)| *leads);
            Some((first, node.view()))
        };
        (0..self.plan.replicas).filter(leads).max_by_key(standing).unwrap_or_default()
    }

    fn across(&self, group: u64) -> Vec<(usize, usize)> {
        let size = self.processes.len();
        let inside = |who: usize| group >> who & 1 == 1;
        (0..size * size)
            .map(|pair| (pair / size, pair % size))
            .filter(|(from, to)| inside(*from) != inside(*to))
            .collect()
    }

    fn cut(&mut self, from: usize, to: usize) {
        self.net.cut(from, to);
        for conn in self.net.between(from, to) {
            // Some connections time out while nothing gets through; the others wait for better times.
            if self.rng.chance(300) {
                let wait = self.rng.spread(10 * MS, 10_000 * MS);
                self.queue.push(self.now + wait, Event::TimeOut { conn });
            }
        }
    }

    fn resume(&mut self, who: usize) {
        self.processes[who].pauses = self.processes[who].pauses.saturating_sub(1);
        self.processes[who].away &= self.processes[who].pauses > 0;
        self.note_how_many_run();
        if who < self.plan.replicas {
            self.resume_disk(who);
        }
        self.wake(who);
    }

    pub(super) fn crash(&mut self, who: usize, machine: bool, time: u64) -> Option<u64> {
        if self.processes[who].up {
            self.end_life(who, machine);
            let life = self.processes[who].life;
            self.queue.push(self.now + time, Event::Start { who, life });
        } else if machine {
            self.replicas[who].die(true);
        }
        None
    }

    /// A replica's process ends, and its connections with it.
    pub(super) fn end_life(&mut self, who: usize, machine: bool) {
        self.trace.line(Level::Events, self.now, Some(who), "dies", || format!("machine: {machine}"));
        self.processes[who].up = false;
        self.processes[who].pauses = 0;
        self.processes[who].waits = false;
        self.processes[who].inbox.clear();
        self.replicas[who].die(machine);
        self.note_how_many_run();
        for (id, conn) in std::mem::take(&mut self.processes[who].conns) {
            let Some(side) = self.net.side(conn, who, id) else { continue };
            if machine {
                let wait = self.rng.spread(MS, 3_000 * MS);
                self.net.vanish(self.now, conn, side, wait, &mut self.queue);
            } else if self.rng.chance(500) {
                self.net.vanish(self.now, conn, side, 0, &mut self.queue);
            } else {
                self.net.close(self.now, conn, side, &mut self.queue);
            }
        }
    }

    /// Whether enough run to agree on anything.
    pub(super) fn note_how_many_run(&mut self) {
        let runs = |process: &&Process| process.up && !process.away;
        let up = self.processes[..self.plan.founders].iter().filter(runs).count();
        self.times.runs(self.now, up > self.plan.founders / 2);
    }

    /// An operator asks for something, on a connection that is just there.
    pub(super) fn operate(&mut self, who: usize, kind: FrameKind, payload: Bytes) {
        if !self.processes[who].runs() {
            return;
        }
        let local = self.processes[who].clock.read(self.now);
        let conn = self.processes[who].conn();
        let hello = Hello::new(crate::replica::CLUSTER, None, Role::Admin).frame().to_vec();
        let hello = Frame {
            kind: FrameKind::Hello,
            payload: Bytes::copy_from_slice(&hello[quorate_wire::FRAME_HEADER..]),
        };
        let ask = Frame { kind, payload };
        let replica = &mut self.replicas[who];
        if let Some(node) = &mut replica.node {
            node.step(local, Input::Accepted { conn, from: None }, &mut replica.effects);
            node.step(local, Input::Frame { conn, frame: hello }, &mut replica.effects);
            node.step(local, Input::Frame { conn, frame: ask }, &mut replica.effects);
            node.step(local, Input::Closed(conn), &mut replica.effects);
        }
        self.wake(who);
    }

    /// A bit flips below what is known to be synced; the replica notices when it starts again, or when it reads there.
    fn rot(&mut self, who: usize, part: u16) -> Option<u64> {
        let size = self.plan.log.segment_bytes;
        let below = self.replicas[who].witnessed;
        let from = self.replicas[who].disk.segments().first().map_or(0, |first| first * size);
        if below > from {
            let at = from + (below - from - 1) * u64::from(part) / 65_536;
            self.replicas[who].disk.rot(at / size, at % size, part as u8);
        }
        self.crash(who, false, 50 * MS)
    }

    /// Who has rot in its checkpoints finds it, at last.
    fn scrub_if_rotten(&mut self, who: usize) {
        if self.has_rot(who) {
            self.scrub(who);
        }
    }

    /// Whether bits flip in this replica's checkpoints in this run.
    pub(super) fn has_rot(&self, who: usize) -> bool {
        let rotten =
            |fault: &Fault| matches!(fault, Fault::RotCheckpoint { who: rotten, .. } if *rotten == who);
        self.plan.faults.iter().any(|(_, fault)| rotten(fault))
    }

    /// Faults are over: everything works again, and everybody starts who can.
    pub(super) fn heal(&mut self) {
        self.trace.line(Level::Events, self.now, None, "heal", String::new);
        self.phase = Phase::Liveness;
        self.moments.clear();
        self.net.heal(self.now, &mut self.queue);
        self.processes.iter_mut().for_each(|process| (process.pauses, process.away) = (0, false));
        self.note_how_many_run();
        for who in 0..self.processes.len() {
            self.processes[who].clock.go_at_last(self.now);
            if who < self.plan.replicas {
                self.replicas[who].stalls = 0;
                self.replicas[who].fails_sync = false;
                self.fill(who, false);
                let keeping = &mut self.replicas[who].keeping;
                (keeping.trap, keeping.lie) = (None, None);
                keeping.files.disarm();
                self.resume_disk(who);
                self.scrub_if_rotten(who);
                self.end_upgrades(who);
                if !self.processes[who].up {
                    self.start_replica(who);
                }
            }
            self.wake(who);
        }
    }
}
