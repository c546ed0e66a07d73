//! What a replica's checkpoints should be, by the jobs of its keeper.

use quorate_state::checkpoint::Job;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What was asked for, and what was written.
#[derive(Debug, Default)]
pub struct Record {
    /// The seq of the fetched checkpoint that is being made durable.
    installs: Option<u64>,
    /// Whether a capture was given up: until the next capture, its checkpoints may be other files than those of other replicas, with the
    /// same content.
    disturbed: bool,
    captured: Option<u64>,
    fetched: u64,
    /// The seq of the checkpoint that was fetched last.
    repaired: Option<u64>,
    /// The borders with such files.
    strange: BTreeSet<u64>,
    /// The seqs of checkpoints that were written in this life, with the log's position when their borders came.
    written: Vec<(u64, u64)>,
    /// Borders whose checkpoints must be written, with the log's position.
    asked: VecDeque<(u64, u64)>,
    /// The log's position when a border was first reached (with several instances by any replica). Later lives reach it again with a longer
    /// log.
    first_asked: BTreeMap<u64, u64>,
}

impl Record {
    /// Whether a replica has reached this border before.
    pub fn knows_border(&self, seq: u64) -> bool {
        self.first_asked.contains_key(&seq)
    }

    /// A replica reaches a border while the log stands at this position.
    pub fn border_comes(&mut self, seq: u64, log_position: u64) {
        self.first_asked.entry(seq).or_insert(log_position);
    }

    /// Whether a fetched checkpoint is being made durable.
    pub(super) fn installs(&self) -> bool {
        self.installs.is_some()
    }

    /// Whether the file of this border was written in the usual way, so that it has the same bytes on all replicas.
    pub fn is_usual(&self, seq: u64) -> bool {
        self.installs != Some(seq) && !self.strange.contains(&seq)
    }

    /// The log's position when the border of the last checkpoint but one came.
    pub fn last_but_one(&self) -> u64 {
        self.written.iter().rev().nth(1).map_or(0, |(_, position)| *position)
    }

    /// The keeper gets a job, while the log stands at this position.
    pub(super) fn asked(&mut self, job: &Job, log_position: u64) {
        match job {
            // A capture for a border before that of a fetched checkpoint is not recorded.
            Job::Ahead { border, .. } => {
                self.captured = Some(*border).filter(|border| *border > self.fetched)
            }
            Job::Discard { .. } => (self.disturbed, self.captured) = (true, None),
            Job::Border { image, write } => {
                let seq = image.seq.number();
                self.disturbed &= self.captured != Some(image.border);
                if self.disturbed {
                    self.strange.insert(seq);
                }
                if write.is_some() {
                    self.asked.push_back((seq, *self.first_asked.entry(seq).or_insert(log_position)));
                }
            }
            Job::Install { image } => {
                (self.installs, self.repaired) = (Some(image.seq.number()), Some(image.seq.number()));
                (self.disturbed, self.captured, self.fetched) = (true, None, image.border);
            }
            // A replica that was repaired disowns the checkpoints before: the next one is its second.
            Job::Forget { keep } if self.repaired == Some(keep.number()) => {
                self.written.retain(|(seq, _)| *seq >= keep.number());
            }
            _ => {}
        }
    }

    /// A checkpoint is written.
    pub(super) fn wrote(&mut self, seq: u64) {
        self.installs = self.installs.filter(|installs| *installs != seq);
        while self.asked.front().is_some_and(|(asked, _)| *asked < seq) {
            self.asked.pop_front();
        }
        if let Some((_, position)) = self.asked.front().copied().filter(|(asked, _)| *asked == seq) {
            // It may be there already, with another state: what was repaired takes its place.
            self.written.retain(|(other, _)| *other < seq);
            self.written.push((seq, position));
        }
    }

    /// The process dies.
    pub(super) fn die(&mut self) {
        let first_asked = std::mem::take(&mut self.first_asked);
        *self = Self { first_asked, ..Self::default() };
    }
}
