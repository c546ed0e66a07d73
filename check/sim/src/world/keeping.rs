//! Drives the keepers of checkpoints, as host/runtime does, looks at what they report, and makes replicas lie about what they have.

use super::World;
use crate::checks::Failure;
use crate::files::Published;
use crate::liars::{Twisted, twist};
use crate::plan::Phase as Point;
use crate::process::Arrival;
use crate::queue::Event;
use crate::replica::Replica;
use crate::trace::Level;
use bytes::Bytes;
use quorate_log::SyncMode;
use quorate_node::{CheckpointStatus, KeeperWork, Node};
use quorate_state::checkpoint::{Job, Report, Step};
use quorate_types::{Digest, Seq};
use quorate_wire::{FRAME_HEADER, FrameKind, OutFrame, StateMessage};

impl World {
    /// A node has work for its keeper.
    pub(super) fn keep(&mut self, who: usize, work: KeeperWork) {
        self.trace.line(Level::All, self.now, Some(who), "keep", || format!("{work:?}"));
        if !self.plan.is_liar(who)
            && let Err(failure) = self.look_at_image(who, &work.job)
        {
            self.fail(failure);
        }
        let border = match &work.job {
            Job::Border { image, .. } => Some(image.seq.number()),
            _ => None,
        };
        if let Some(seq) = border
            && !self.plan.is_liar(who)
            && let Err(failure) = self.look_at_border_rate(who, seq)
        {
            self.fail(failure);
        }
        if let Some(seq) = border {
            self.note_border(who, seq);
        }
        let replica = &mut self.replicas[who];
        let node = replica.node.as_ref().filter(|_| border.is_some());
        let position = node.map_or(0, |node| node.status().log.position);
        replica.keeping.submit(work.job, position);
        // The lane does nothing more until the keeper has nothing left to do.
        self.processes[who].waits = work.stops;
        self.run_keeper(who);
    }

    /// A replica reaches a border. What follows that border may be in the logs of others by now: with several instances, of whoever waits for
    /// one of them.
    fn note_border(&mut self, who: usize, seq: u64) {
        let many = self.plan.instances > 1 || self.plan.resizes;
        if !many || self.plan.is_liar(who) || self.replicas[who].keeping.knows_border(seq) {
            return;
        }
        for replica in &mut self.replicas {
            if let Some(node) = &replica.node {
                replica.keeping.border_comes(seq, node.status().log.position);
            }
        }
    }

    /// Lets the keeper begin with what waits.
    pub(super) fn run_keeper(&mut self, who: usize) {
        let (low, high) = self.plan.keeping;
        let life = self.processes[who].life;
        let replica = &mut self.replicas[who];
        let keeping = &mut replica.keeping;
        if keeping.busy || (keeping.idle && keeping.queued.is_empty()) {
            return;
        }
        keeping.begin();
        let at = self.now + replica.rng.range(low, high);
        self.queue.push(at, Event::Keep { who, life });
    }

    /// A piece of its work is done.
    pub(super) fn keeper_done(&mut self, who: usize, life: u32) {
        if self.processes[who].life != life || !self.processes[who].up {
            return;
        }
        let replica = &mut self.replicas[who];
        if replica.stalls > 0 || self.processes[who].pauses > 0 {
            replica.held.2 = true;
            return;
        }
        let keeping = &mut replica.keeping;
        keeping.busy = false;
        let Some(keeper) = &mut keeping.keeper else { return };
        let step = keeper.step(&mut keeping.files);
        let reports: Vec<Report> = keeper.reports().collect();
        let published = keeping.files.take_published();
        if keeping.files.take_death() {
            return self.spring(who);
        }
        self.trace.mix(&[who as u64, reports.len() as u64, published.len() as u64]);
        let lies = self.plan.is_liar(who);
        for file in published.iter().filter(|_| !lies) {
            if let Err(failure) = self.look_at_file(who, file, &reports) {
                self.fail(failure);
            }
        }
        for report in reports {
            self.trace.line(Level::All, self.now, Some(who), "kept", || format!("{report:?}"));
            if !lies && let Err(failure) = self.look_at_report(who, &report) {
                self.fail(failure);
            }
            self.arrive(who, Arrival::Kept(report));
        }
        let keeping = &mut self.replicas[who].keeping;
        keeping.idle = step == Step::Idle;
        if keeping.idle && keeping.queued.is_empty() {
            keeping.rested = true;
            if std::mem::take(&mut self.processes[who].waits) {
                self.wake(who);
            }
        } else {
            self.run_keeper(who);
        }
    }

    fn look_at_report(&mut self, who: usize, report: &Report) -> Result<(), Failure> {
        let name = self.trace.name(who);
        let replica = &mut self.replicas[who];
        match report {
            Report::Digest { seq, digest, .. } if !replica.standing.may_be_wrong(seq.number()) => {
                self.checkpoints.digest(&name, seq.number(), *digest)
            }
            Report::Written { seq, digest, .. } => {
                let number = seq.number();
                let keeping = &mut replica.keeping;
                if keeping.installs == Some(number) {
                    keeping.installs = None;
                    keeping.files.installing = false;
                }
                while keeping.asked.front().is_some_and(|(asked, _)| *asked < number) {
                    keeping.asked.pop_front();
                }
                if let Some((_, position)) =
                    keeping.asked.front().copied().filter(|(asked, _)| *asked == number)
                {
                    // It may be there already, with another state: what was repaired takes its place.
                    keeping.written.retain(|(other, _)| *other < number);
                    keeping.written.push((number, position));
                }
                if replica.standing.may_be_wrong(number) {
                    return Ok(());
                }
                self.checkpoints.digest(&name, number, *digest)
            }
            _ => Ok(()),
        }
    }

    /// A file is durable under its name: the same border's file of another replica has the same bytes, if both wrote it in the usual
    /// way.
    fn look_at_file(&mut self, who: usize, file: &Published, reports: &[Report]) -> Result<(), Failure> {
        let usual = reports.iter().find_map(|report| match report {
            Report::Written { seq, instead: None, .. } => Some(seq.number()),
            _ => None,
        });
        let replica = &self.replicas[who];
        let keeping = &replica.keeping;
        match usual.filter(|seq| keeping.installs != Some(*seq) && !keeping.strange.contains(seq)) {
            Some(seq) if !replica.standing.may_be_wrong(seq) => {
                let name = self.trace.name(who);
                self.checkpoints.file(&name, file)
            }
            _ => Ok(()),
        }
    }

    /// Whether the replica is to die at this point, now.
    pub(super) fn is_trapped(&mut self, who: usize, at: Point) -> bool {
        match &mut self.replicas[who].keeping.trap {
            Some((point, skip, ..)) if *point == at => {
                let now = *skip == 0;
                *skip = skip.saturating_sub(1);
                now
            }
            _ => false,
        }
    }

    /// A replica dies in the middle of its keeper's work.
    pub(super) fn spring(&mut self, who: usize) {
        let (point, _, machine, time) =
            self.replicas[who].keeping.trap.take().unwrap_or((Point::Write, 0, false, 0));
        self.trace.line(Level::Events, self.now, Some(who), "trap", || format!("{point:?}"));
        self.crash(who, machine, time);
    }

    /// What a replica sends, if it sends it: in place of parts of its checkpoints perhaps something else.
    pub(super) fn perhaps_lie(&mut self, who: usize, frame: OutFrame) -> Option<OutFrame> {
        let Some(lie) = self.replicas[who].keeping.lie.filter(|_| frame.kind() == FrameKind::State) else {
            return Some(frame);
        };
        let payload = Bytes::from(frame.to_vec()).slice(FRAME_HEADER..);
        let Ok(mut message) = StateMessage::decode(payload) else { return Some(frame) };
        match twist(lie, &mut message, &mut self.replicas[who].rng) {
            Twisted::Not => return Some(frame),
            Twisted::Gone => return None,
            Twisted::Wrong => {}
        }
        self.trace.line(Level::Events, self.now, Some(who), "lie", || format!("{lie:?}"));
        Some(message.frame())
    }

    /// In the end everybody is to be at the same border, one that comes after all that clients asked for.
    pub(super) fn look_at_borders(&mut self) {
        let (after, looks, _) = self.last_border;
        let current = self.current();
        let members = |who: &usize| current.contains(who);
        let replicas = || (0..self.plan.replicas).filter(members).map(|who| &self.replicas[who]);
        let settled = replicas()
            .filter_map(|r| r.node.as_ref())
            .all(|node| node.change().is_none() && node.generations().1.is_none());
        let states: Vec<(u64, CheckpointStatus)> = replicas()
            .filter_map(|replica| replica.node.as_ref())
            .map(|node| (node.executor().seq().number(), node.status().checkpoints))
            .collect();
        // Who started from a checkpoint executed its border in an earlier life.
        let border = |status: &CheckpointStatus| status.last_seq.max(status.durable_seq);
        let calm = states.iter().all(|(seq, status)| {
            let at_rest = status.diverged.is_none() && status.transfer.is_none() && status.writing.is_none();
            at_rest && *seq == states[0].0 && border(status) > after && status.agreed_seq >= border(status)
        });
        // What a log gives up goes once the records that say so are durable.
        let written = |node: &Node| {
            let log = node.status().log;
            self.plan.log.sync == SyncMode::Memory || log.durable == log.appended
        };
        let settled = settled && replicas().filter_map(|r| r.node.as_ref()).all(written);
        let rested = |replica: &Replica| replica.keeping.rested && replica.standing.corrupt.is_none();
        let all_rested = replicas().filter(|replica| replica.node.is_some()).all(rested);
        let asks = looks.is_multiple_of(5) && states.iter().all(|(_, status)| border(status) <= after);
        self.last_border = (after, looks + 1, calm && all_rested && settled);
        if asks {
            for who in 0..self.plan.replicas {
                self.want_border(who, after);
            }
        }
    }

    /// An operator asks a replica for a border.
    pub(super) fn want_border(&mut self, who: usize, after: u64) {
        let message = StateMessage::WantBorder { seq: Seq::new(after), digest: Digest::new([0; 32]) };
        let payload = Bytes::from(message.frame().to_vec()).slice(FRAME_HEADER..);
        self.operate(who, FrameKind::State, payload);
    }
}
