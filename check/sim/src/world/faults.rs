//! Carries out faults: of processes, network, disks and states. Also heals them, and lets the threads of replicas finish.

use super::operator::{self, Act, Request};
use super::{MS, World};
use crate::plan::{Change, DiskFault, EraKind, Fault, Phase, Suspend};
use crate::processes::Arrival;
use crate::queue::Event;
use crate::replica::{Join, Replica, Side};
use crate::trace::Level;
use quorate_log::SyncMode;
use quorate_node::{Input, KeeperWork, NextEra};
use quorate_state::checkpoint::{Job, Report};
use quorate_types::Halt;
use quorate_wire::{FRAME_HEADER, Frame, FrameKind, Hello, Role};

/// A replica starts again this long after its disk changed.
const SOON: u64 = 50 * MS;

/// What faults do.
impl World {
    pub(super) fn begin_fault(&mut self, index: usize) {
        let fault = self.adversary.begin(index, &self.cluster);
        self.time.note(Level::Events, None, "fault", || fault.to_string());
        if let Some(time) = self.strike(fault) {
            self.time.after(time, Event::Ends { index });
        }
    }

    /// Carries out a fault. Returns how long it lasts, if it must be ended.
    fn strike(&mut self, fault: Fault) -> Option<u64> {
        match fault {
            Fault::Crash { who, time } => self.crash(who, false, time),
            Fault::PowerLoss { who, time } => self.crash(who, true, time),
            Fault::Blackout { time } => {
                for who in 0..self.cluster.plan.replicas {
                    let time = time + self.time.rng().below(100 * MS);
                    self.crash(who, true, time);
                }
            }
            Fault::Pause { who, time } => {
                let long = self.cluster.plan.times().outage.is_some_and(|long| time > long);
                self.processes.pause(who, long, &self.time);
                self.note_how_many_run();
                return Some(time);
            }
            Fault::Suspend(Suspend { who, time }) => {
                self.judge.suspends(self.time.now());
                self.processes.suspend(who, &self.time);
                return Some(time);
            }
            Fault::Jump { who, by } => {
                if who < self.cluster.plan.replicas {
                    self.judge.jumps(self.time.now(), who, by);
                }
                self.processes.jump(who, by, &mut self.time);
            }
            Fault::Drift { who, rate } => self.processes.drift(who, rate, &mut self.time),
            Fault::Moment(moment) => self.adversary.wait_for(moment),
            _ => return self.strike_link(fault),
        }
        None
    }

    fn strike_link(&mut self, fault: Fault) -> Option<u64> {
        let time = &mut self.time;
        match fault {
            Fault::Cut { from, to, time: lasts } => {
                self.processes.cut(from, to, time);
                Some(lasts)
            }
            Fault::Partition { group, time: lasts } => {
                self.processes.cut_off(group, time);
                Some(lasts)
            }
            Fault::Reset { a, b } => {
                // Links of other lanes may go on.
                self.processes.reset(a, b, self.cluster.plan.lanes > 1, time);
                None
            }
            Fault::Damage { from, to } => {
                self.processes.damage(from, to);
                None
            }
            Fault::Slow { from, to, by, time: lasts } => {
                self.processes.slow(from, to, by);
                Some(lasts)
            }
            Fault::Away { who, time: lasts } if self.cluster.plan.log.sync == SyncMode::Memory => {
                self.processes.cut_off(1 << who, time);
                Some(lasts)
            }
            Fault::Away { who, time } => {
                self.crash(who, false, time);
                None
            }
            _ => self.strike_disk(fault),
        }
    }

    fn strike_disk(&mut self, fault: Fault) -> Option<u64> {
        let segment_bytes = self.cluster.plan.log.segment_bytes;
        match fault {
            Fault::Stall { who, time } => {
                self.cluster.replicas[who].stalls += 1;
                return Some(time);
            }
            Fault::Full { who, time } => {
                self.cluster.replicas[who].fill(true);
                return Some(time);
            }
            // A cluster begins when all its members have been there: before that a lost disk is a cluster that never was.
            Fault::Lose { who }
            | Fault::Rot { who, .. }
            | Fault::RotCheckpoint { who, .. }
            | Fault::Disk(DiskFault::OldBlock { who, .. })
                if !self.cluster.others_have_begun(who) => {}
            Fault::Lose { who } => self.lose_disk(who),
            Fault::Rot { who, part } => {
                self.cluster.replicas[who].storage.rot(segment_bytes, part);
                self.crash(who, false, SOON);
            }
            Fault::Disk(DiskFault::OldBlock { who, part }) => {
                let replica = &mut self.cluster.replicas[who];
                if let Some((segment, sectors)) = replica.storage.go_back(segment_bytes, part) {
                    let text = || format!("segment {segment}, {sectors:?}");
                    self.time.note(Level::Events, Some(who), "old", text);
                }
                self.crash(who, false, SOON);
            }
            Fault::Disk(DiskFault::FailedSync { who, .. }) => {
                self.cluster.replicas[who].storage.fail_sync(true)
            }
            Fault::RotCheckpoint { who, part, sector, restart } => {
                let file = self.cluster.replicas[who].keeping.files.rot(part, sector);
                self.time.note(Level::Events, Some(who), "rot", || format!("{file:?}"));
                if restart { self.crash(who, false, SOON) } else { self.scrub(who) }
            }
            _ => return self.strike_state(fault),
        }
        None
    }

    fn strike_state(&mut self, fault: Fault) -> Option<u64> {
        match fault {
            Fault::Corrupt { who } => self.cluster.replicas[who].tap.corrupt(),
            Fault::Scrub { who } => self.scrub(who),
            Fault::CrashInCheckpoint { who, phase, skip, machine, time } => {
                let keeping = &mut self.cluster.replicas[who].keeping;
                keeping.trap = Some((phase, skip, machine, time));
                keeping.files.set_trap(phase, skip);
            }
            Fault::Lie { who, how, time } => {
                self.cluster.replicas[who].keeping.lie = Some(how);
                return Some(time);
            }
            Fault::Transfer { who, to } => self.operate(who, operator::transfer(to)),
            Fault::WantBorder { who } => self.operate(who, operator::border(u64::MAX)),
            Fault::Member { what, pick } => self.change_members(what, pick),
            Fault::Program { who, level, time } => self.change_program(who, level, time),
            Fault::Raise => self.operate(self.cluster.leader(), operator::raise()),
            Fault::Era(kind) => self.ask_for_era(kind),
            Fault::Instances { count } => self.operate(self.cluster.leader(), operator::instances(count)),
            _ => {}
        }
        None
    }

    /// The keeper goes through all files.
    fn scrub(&mut self, who: usize) {
        if self.processes.is_up(who) {
            self.keep(who, KeeperWork { job: Job::Scrub, stops: false });
        }
    }

    pub(super) fn end_fault(&mut self, index: usize) {
        let Some(fault) = self.adversary.end(index) else { return };
        self.time.note(Level::Events, None, "ends", || fault.to_string());
        match fault {
            Fault::Pause { who, .. } => self.resume(who),
            Fault::Suspend(Suspend { who, .. }) => {
                self.processes.clock_goes_on(who, &self.time);
                self.resume(who);
            }
            Fault::Cut { from, to, .. } => self.processes.join(from, to, &mut self.time),
            Fault::Partition { group, .. } => self.processes.join_again(group, &mut self.time),
            Fault::Away { who, .. } => self.processes.join_again(1 << who, &mut self.time),
            Fault::Slow { from, to, .. } => self.processes.slow(from, to, 0),
            Fault::Stall { who, .. } => {
                let stalls = &mut self.cluster.replicas[who].stalls;
                *stalls = stalls.saturating_sub(1);
                self.resume_disk(who);
            }
            Fault::Full { who, .. } => self.cluster.replicas[who].fill(false),
            Fault::Lie { who, .. } => self.cluster.replicas[who].keeping.lie = None,
            _ => {}
        }
    }

    fn resume(&mut self, who: usize) {
        self.processes.go_on(who);
        self.note_how_many_run();
        if who < self.cluster.plan.replicas {
            self.resume_disk(who);
        }
        self.processes.wake(who, &mut self.time);
    }

    /// Faults are over: everything works again, and every process starts that can.
    pub(super) fn heal(&mut self) {
        self.time.note(Level::Events, None, "heal", String::new);
        self.course.heal();
        self.judge.heal();
        self.adversary.heal();
        self.processes.heal(&mut self.time);
        self.note_how_many_run();
        for who in 0..self.processes.count() {
            self.processes.clock_goes_on_at_last(who, &self.time);
            if who < self.cluster.plan.replicas {
                self.heal_replica(who);
            }
            self.processes.wake(who, &mut self.time);
        }
    }

    fn heal_replica(&mut self, who: usize) {
        self.cluster.replicas[who].heal();
        self.resume_disk(who);
        // A replica with rot in its checkpoints finds it now at the latest.
        if self.adversary.has_rot(who) {
            self.scrub(who);
        }
        // Nobody is left with a program that can not do what was proposed.
        if self.judge.level_begun() > self.cluster.replicas[who].able {
            self.give_program(who, self.judge.level_begun());
            self.crash(who, false, SOON);
        }
        if !self.processes.is_up(who) {
            self.start_replica(who);
        }
    }
}

/// Lives that end, and what the operator does.
impl World {
    fn crash(&mut self, who: usize, machine: bool, time: u64) {
        if self.processes.is_up(who) {
            self.end_life(who, machine);
            let life = self.processes.life(who);
            self.time.after(time, Event::Start { who, life });
        } else if machine {
            self.cluster.replicas[who].die(true);
        }
    }

    /// A replica's process ends, and its connections with it.
    fn end_life(&mut self, who: usize, machine: bool) {
        self.time.note(Level::Events, Some(who), "dies", || format!("machine: {machine}"));
        self.processes.end(who, machine, &mut self.time);
        self.cluster.replicas[who].die(machine);
        self.judge.dies(who);
        self.hosting.dies(who);
        self.note_how_many_run();
    }

    /// Whether enough replicas run to decide anything.
    pub(super) fn note_how_many_run(&mut self) {
        self.judge.runs(self.time.now(), self.processes.can_agree());
    }

    pub(super) fn halted(&mut self, who: usize, halt: Halt) {
        self.time.mix(&[0xdead, who as u64]);
        self.time.note(Level::Events, Some(who), "halt", || halt.to_string());
        if matches!(halt, Halt::FeatureLevel { .. }) && self.gets_newer_program(who) {
            return;
        }
        self.end_life(who, false);
        let checkpoint = matches!(halt, Halt::CheckpointUnusable { .. });
        if !self.adversary.may_halt(who, checkpoint) && !self.cluster.plan.is_liar(who) {
            self.judge.halts(&self.time.name(who), &halt);
        }
        self.cluster.replicas[who].halt = Some(halt);
    }

    fn lose_disk(&mut self, who: usize) {
        self.cluster.replicas[who].keeping.trap = None;
        if self.processes.is_up(who) {
            self.end_life(who, true);
        }
        let why = "its disk is lost".into();
        self.cluster.replicas[who].halt.get_or_insert(Halt::LogInconsistent { why });
    }

    /// A replica's program is replaced. Operators know that they can not go back once a raise was proposed.
    fn change_program(&mut self, who: usize, level: u32, time: u64) {
        let Replica { able, halt, .. } = &self.cluster.replicas[who];
        let careless = self.cluster.plan.upgrades.careless;
        let too_late = level < *able && self.judge.level_begun() > level && !careless;
        if halt.is_some() || too_late || level == *able {
            return;
        }
        self.give_program(who, level);
        if self.processes.is_up(who) {
            self.crash(who, false, time);
        }
    }

    fn give_program(&mut self, who: usize, level: u32) {
        self.time.note(Level::Events, Some(who), "program", || format!("level {level}"));
        let replica = &mut self.cluster.replicas[who];
        replica.able = level;
        replica.once_able = replica.once_able.max(level);
    }

    /// A replica stopped because its older program does not support the proposed level; it gets a newer program again.
    fn gets_newer_program(&mut self, who: usize) -> bool {
        let begun = self.judge.level_begun();
        if begun <= self.cluster.replicas[who].able {
            return false;
        }
        self.end_life(who, false);
        self.give_program(who, begun);
        let life = self.processes.life(who);
        self.time.after(300 * MS, Event::Start { who, life });
        true
    }

    /// A replica enters another era: its disk holds the new state, or, if the machine stopped just before, still the old one.
    pub(super) fn enter_era(&mut self, who: usize, next: &NextEra) {
        let healed = self.course.is_healed();
        let torn = !healed && self.time.rng().chance(150);
        self.time.note(Level::Events, Some(who), "era", || format!("{next:?}, torn: {torn}"));
        self.end_life(who, torn);
        if !torn {
            self.cluster.replicas[who].enter(next);
            if !self.cluster.plan.is_liar(who) {
                self.judge.enters((&self.time.name(who), who), next);
            }
        }
        let (life, wait) = (self.processes.life(who), self.time.rng().spread(MS, 20 * MS));
        self.time.after(wait, Event::Start { who, life });
    }

    fn ask_for_era(&mut self, kind: EraKind) {
        match self.operator.end_era(&self.cluster, kind) {
            None => {}
            Some(Act::Sign { signed, .. }) => {
                self.time.note(Level::Events, None, "signed", || format!("{:?}", signed.command));
                for whom in 0..self.cluster.replicas.len() {
                    self.operate(whom, Act::pass_on(&signed));
                }
            }
            Some(_) => self.operate(self.cluster.leader(), operator::faults(kind)),
        }
    }

    fn change_members(&mut self, what: Change, pick: u16) {
        match self.operator.change(&self.cluster, self.time.now(), what, pick) {
            None => {}
            Some(Act::LoseDisk { whose }) => self.lose_disk(whose),
            Some(Act::Sign { signed, joins }) => {
                self.begin_join(joins);
                self.time.note(Level::Events, None, "signed", || format!("{:?}", signed.command));
                for whom in 0..self.cluster.replicas.len() {
                    self.operate(whom, Act::pass_on(&signed));
                }
            }
            Some(Act::Ask { whom, what, joins }) => {
                self.begin_join(joins);
                self.time.note(Level::Events, Some(whom), "asked", || format!("{what:?}"));
                self.operate(whom, Act::request(&what));
            }
        }
    }

    /// The process of a replica that joins starts soon, or late.
    fn begin_join(&mut self, joins: Option<(usize, Join)>) {
        if let Some((who, join)) = joins {
            self.cluster.replicas[who].join = Some(join);
            let wait = self.time.rng().spread(MS, 2_000 * MS);
            self.time.after(wait, Event::Start { who, life: self.processes.life(who) });
        }
    }

    /// The operator asks for something, on a new connection.
    pub(super) fn operate(&mut self, who: usize, (kind, payload): Request) {
        if !self.processes.runs(who) {
            return;
        }
        let local = self.processes.local(who, &self.time);
        let conn = self.processes.new_conn(who);
        let hello = Hello::new(crate::replica::CLUSTER, None, Role::Admin).frame().to_vec();
        let hello = bytes::Bytes::from(hello).slice(FRAME_HEADER..);
        let hello = Frame { kind: FrameKind::Hello, payload: hello };
        let Replica { node, effects, .. } = &mut self.cluster.replicas[who];
        if let Some(node) = node {
            node.step(local, Input::Accepted { conn, from: None }, effects);
            node.step(local, Input::Frame { conn, frame: hello }, effects);
            node.step(local, Input::Frame { conn, frame: Frame { kind, payload } }, effects);
            node.step(local, Input::Closed(conn), effects);
        }
        self.processes.wake(who, &mut self.time);
    }
}

/// The threads that work for a replica: a writer, a helper, a keeper.
impl World {
    /// Lets the writer and the helper begin what waits.
    pub(super) fn run_disk(&mut self, who: usize) {
        let plan = &self.cluster.plan;
        let takes = if plan.is_fast(who) { (1, 1) } else { plan.disk };
        let life = self.processes.life(who);
        let (writer, helper) = self.cluster.replicas[who].storage.begin(takes);
        if let Some(wait) = writer {
            self.time.after(wait, Event::Disk { who, life });
        }
        if let Some(wait) = helper {
            self.time.after(wait, Event::Side { who, life });
        }
    }

    /// Whether nothing that was begun at the disk can be finished now.
    fn is_held_up(&self, who: usize) -> bool {
        self.cluster.replicas[who].stalls > 0 || self.processes.is_paused(who)
    }

    pub(super) fn disk_done(&mut self, who: usize, life: u32) {
        if !self.processes.lives(who, life) {
            return;
        }
        if self.is_held_up(who) {
            self.cluster.replicas[who].held.0 = true;
            return;
        }
        let done = self.cluster.replicas[who].storage.end_writing();
        let Some(done) = done else { return self.sync_failed(who) };
        self.time.mix(&[who as u64, done.len() as u64]);
        for arrival in done {
            self.processes.arrive(who, arrival, &mut self.time);
        }
        self.run_disk(who);
    }

    /// After a failed sync it is unknown what is on the disk: the process ends, and starts again from what is there.
    fn sync_failed(&mut self, who: usize) {
        self.time.note(Level::Events, Some(who), "sync", || "failed".into());
        let time = self.adversary.down_after_failed_sync(who);
        self.crash(who, false, time.unwrap_or(MS));
    }

    pub(super) fn side_done(&mut self, who: usize, life: u32) {
        if !self.processes.lives(who, life) {
            return;
        }
        if self.is_held_up(who) {
            self.cluster.replicas[who].held.1 = true;
            return;
        }
        let replica = &mut self.cluster.replicas[who];
        match replica.storage.end_helping(self.cluster.plan.log.segment_bytes) {
            None => return,
            Some(Side::Removed) if replica.keeping.is_trapped(Phase::TrimLog) => return self.spring(who),
            Some(Side::Removed) => {}
            Some(Side::Done(arrival)) => self.processes.arrive(who, arrival, &mut self.time),
        }
        self.run_disk(who);
    }

    /// Lets the keeper begin with what waits.
    pub(super) fn run_keeper(&mut self, who: usize) {
        let Replica { keeping, storage, .. } = &mut self.cluster.replicas[who];
        if keeping.begin() {
            let (low, high) = self.cluster.plan.keeping;
            let life = self.processes.life(who);
            self.time.after(storage.rng().range(low, high), Event::Keep { who, life });
        }
    }

    /// A piece of the keeper's work is done.
    pub(super) fn keeper_done(&mut self, who: usize, life: u32) {
        if !self.processes.lives(who, life) {
            return;
        }
        if self.is_held_up(who) {
            self.cluster.replicas[who].held.2 = true;
            return;
        }
        let keeping = &mut self.cluster.replicas[who].keeping;
        let Some(reports) = keeping.step() else { return };
        let published = keeping.files.take_published();
        if keeping.files.take_death() {
            return self.spring(who);
        }
        self.time.mix(&[who as u64, reports.len() as u64, published.len() as u64]);
        let (lies, name) = (self.cluster.plan.is_liar(who), self.time.name(who));
        for file in published.iter().filter(|_| !lies) {
            self.judge.file((&name, who), &keeping.record, file, &reports);
        }
        for report in reports {
            self.time.note(Level::All, Some(who), "kept", || format!("{report:?}"));
            if !lies {
                if let Report::Written { seq, .. } = &report {
                    keeping.wrote(seq.number());
                }
                self.judge.kept((&name, who), &report);
            }
            self.processes.arrive(who, Arrival::Kept(report), &mut self.time);
        }
        if !keeping.rests() {
            self.run_keeper(who);
        } else if self.processes.set_waits(who, false) {
            self.processes.wake(who, &mut self.time);
        }
    }

    /// A replica dies in the middle of its keeper's work.
    fn spring(&mut self, who: usize) {
        let trap = self.cluster.replicas[who].keeping.trap.take();
        let (point, _, machine, time) = trap.unwrap_or((Phase::Write, 0, false, 0));
        self.time.note(Level::Events, Some(who), "trap", || format!("{point:?}"));
        self.crash(who, machine, time);
    }

    /// What was delayed while the disk was stalled, or the process paused, continues.
    fn resume_disk(&mut self, who: usize) {
        if self.is_held_up(who) {
            return;
        }
        let life = self.processes.life(who);
        let (writer, helper, keeper) = std::mem::take(&mut self.cluster.replicas[who].held);
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
