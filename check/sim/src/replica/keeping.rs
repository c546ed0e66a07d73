//! The keeper of checkpoints and its thread: the real keeper does one piece of its work after the other.

use super::record::Record;
use crate::files::SimFiles;
use crate::plan::{Lie, Phase};
use crate::random::Rng;
use quorate_node::Effect;
use quorate_state::checkpoint::{Job, Keeper, Report, Step};
use std::collections::VecDeque;

/// The keeper of a replica.
pub struct Keeping {
    /// The keeper, while the process runs.
    pub keeper: Option<Keeper>,
    /// Its directory, which outlives the process.
    pub files: SimFiles,
    /// Jobs that it has not been given yet.
    queued: VecDeque<Job>,
    /// Whether it is working on a piece.
    busy: bool,
    /// Whether it has nothing left to do.
    idle: bool,
    /// Whether it has been idle since it was asked for something of its own. With scrubs that follow each other, or a liar that never stops
    /// fetching, the keepers may never all be idle at the same time.
    rested: bool,
    /// If the process waits until the keeper is idle: what it does after that.
    pub rest: VecDeque<Effect>,
    /// The replica dies when its keeper is at this point: the point, how often it is passed first, whether the machine stops, and how long
    /// it is down.
    pub trap: Option<(Phase, u32, bool, u64)>,
    /// What is wrong with the parts of checkpoints that it sends.
    pub lie: Option<Lie>,
    /// What its checkpoints should be.
    pub record: Record,
}

impl Keeping {
    /// A keeper with an empty directory.
    pub(super) fn new(rng: Rng) -> Self {
        Self {
            keeper: None,
            files: SimFiles::new(rng),
            queued: VecDeque::new(),
            busy: false,
            idle: true,
            rested: true,
            rest: VecDeque::new(),
            trap: None,
            lie: None,
            record: Record::default(),
        }
    }

    /// Whether it has nothing left to do.
    pub fn is_idle(&self) -> bool {
        self.idle
    }

    /// Whether it has been idle since it was asked for something of its own.
    pub fn is_rested(&self) -> bool {
        self.rested
    }

    /// Takes a job, while the log stands at this position.
    pub fn submit(&mut self, job: Job, log_position: u64) {
        let passes = matches!(job, Job::Scrub | Job::ReadManifest { .. } | Job::ReadChunk { .. });
        self.rested &= passes;
        match &job {
            Job::Ahead { .. } => self.files.capturing = true,
            Job::Border { .. } => self.files.capturing = false,
            Job::Install { .. } => (self.files.installing, self.files.capturing) = (true, false),
            _ => {}
        }
        self.record.asked(&job, log_position);
        self.queued.push_back(job);
    }

    /// A checkpoint is written.
    pub fn wrote(&mut self, seq: u64) {
        self.record.wrote(seq);
        self.files.installing &= self.record.installs();
    }

    /// Whether the replica must die at this point, now.
    pub fn is_trapped(&mut self, at: Phase) -> bool {
        match &mut self.trap {
            Some((point, skip, ..)) if *point == at => {
                let now = *skip == 0;
                *skip = skip.saturating_sub(1);
                now
            }
            _ => false,
        }
    }

    /// The thread takes all jobs, and begins with a piece of work. False if it is working already, or has nothing to do.
    pub fn begin(&mut self) -> bool {
        if self.busy || (self.idle && self.queued.is_empty()) {
            return false;
        }
        (self.busy, self.idle) = (true, false);
        if let Some(keeper) = &mut self.keeper {
            self.queued.drain(..).for_each(|job| keeper.submit(job));
        }
        true
    }

    /// The thread has finished that piece. Returns its reports.
    pub fn step(&mut self) -> Option<Vec<Report>> {
        self.busy = false;
        let keeper = self.keeper.as_mut()?;
        self.idle = keeper.step(&mut self.files) == Step::Idle;
        Some(keeper.reports().collect())
    }

    /// Whether it is idle now.
    pub fn rests(&mut self) -> bool {
        let rests = self.idle && self.queued.is_empty();
        self.rested |= rests;
        rests
    }

    /// The process dies. The piece that the keeper was working on is done in part.
    pub(super) fn die(&mut self, machine: bool) {
        if let Some(mut keeper) = self.keeper.take().filter(|_| self.busy) {
            self.files.die_soon();
            let _ = keeper.step(&mut self.files);
        }
        self.files.take_death();
        drop(self.files.take_published());
        self.queued.clear();
        self.rest.clear();
        (self.busy, self.idle, self.rested) = (false, true, true);
        (self.files.capturing, self.files.installing) = (false, false);
        self.record.die();
        if machine {
            self.files.power_loss();
        }
    }
}
