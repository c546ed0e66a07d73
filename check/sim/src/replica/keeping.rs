//! The keeper of checkpoints, as the thread that it is: the real one does one piece of its work after the other.

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
    /// What it was not given yet.
    queued: VecDeque<Job>,
    /// It is at a piece of its work.
    busy: bool,
    /// It has nothing left to do.
    idle: bool,
    /// It had nothing left to do since it was asked for something of its own: with scrubs that follow each other, or a liar that never
    /// stops fetching, all keepers may never be idle at one time.
    rested: bool,
    /// The process waits until it has, and what the process does then.
    pub rest: VecDeque<Effect>,
    /// The replica dies when its keeper is at this point (after so many times); the machine too; how long it is down.
    pub trap: Option<(Phase, u32, bool, u64)>,
    /// What is wrong with what it sends of its checkpoints.
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

    /// Whether it had nothing left to do at some time since it was asked for something of its own.
    pub fn is_rested(&self) -> bool {
        self.rested
    }

    /// Takes a job, while the log stands here.
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

    /// Whether the replica is to die at this point, now.
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

    /// The thread takes everything that is there, and begins with a piece of it; not if it is at one already, or has nothing to do.
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

    /// The thread has done that piece; what it reports.
    pub fn step(&mut self) -> Option<Vec<Report>> {
        self.busy = false;
        let keeper = self.keeper.as_mut()?;
        self.idle = keeper.step(&mut self.files) == Step::Idle;
        Some(keeper.reports().collect())
    }

    /// Whether it rests now.
    pub fn rests(&mut self) -> bool {
        let rests = self.idle && self.queued.is_empty();
        self.rested |= rests;
        rests
    }

    /// The process dies; what the keeper was at is done to some extent.
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
