//! The feature level: what the cluster does that older programs can not do. Everything that is new on disk, in checkpoints or between
//! replicas, and that a program of the level before would not understand, begins with a level (docs/operations/upgrades.md).
//!
//! The level is agreed on in the log: an ordered command raises it, so that all replicas work by it from the same seq on, whatever
//! their programs could do before. A leader proposes the command only when every member, learners too, is connected and said in its
//! handshake that it can: by itself after a time in which that did not change, or when an operator asks. Until then each replica can go
//! back to the program before; afterwards a program that can not do the level stops, and is refused by the others.
//!
//! Nothing depends on the level yet: level 1 is made up, so that there is one to raise (docs/decisions/0036-forms-of-nobody-go.md).
//!
//! INV-LEVEL-1: what depends on the level follows from the executed commands, never from the own program. Tests: levels/tests.rs,
//! check/sim, front/cli/tests/hurt/upgrades.rs.

use crate::journal::NODE;
use bytes::Bytes;
use quorate_log::Record;
use quorate_types::{Halt, Span, Time};
use quorate_wire::{FEATURE_LEVEL, FEATURE_LEVEL_MIN};

/// A record of the node that says which level it works at: a program that can not do it stops before it takes part.
pub(crate) const LEVEL: u8 = 2;

/// What a replica is told about feature levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelConfig {
    /// The level that the cluster works at: at the start of a replica the one that the cluster was made with, then as it was executed.
    pub cluster: u32,
    /// The highest that this program can work at.
    pub highest: u32,
    /// A leader raises it by itself when all members could do more for so long.
    pub raise_after: Option<Span>,
}

impl LevelConfig {
    /// A cluster that was made with this level, and a program that can do what it can.
    pub fn made_with(cluster: u32) -> Self {
        Self { cluster, highest: FEATURE_LEVEL, raise_after: None }
    }

    /// The same for a program that can work at this level at most.
    pub fn limit(&mut self, highest: Option<u32>) {
        self.highest = self.highest.min(highest.unwrap_or(self.highest));
    }

    /// Whether this program can work at a level.
    ///
    /// # Errors
    /// When it can not.
    pub(crate) fn check(&self, level: u32) -> Result<(), Halt> {
        let (lowest, highest) = (FEATURE_LEVEL_MIN, self.highest);
        if (lowest..=highest).contains(&level) {
            return Ok(());
        }
        Err(Halt::FeatureLevel { cluster: level, lowest, highest })
    }
}

/// What a replica knows of levels beside the executed one.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    /// Since when all members can do more, at a leader that raises by itself.
    since: Option<(u32, Time)>,
    /// What a record of this log says.
    noted: u32,
}

impl Levels {
    /// Takes back what an earlier run wrote down.
    pub(crate) fn restore(&mut self, record: &Record, config: &LevelConfig) -> Result<(), Halt> {
        let Some(level) = record.head.first_chunk::<4>().filter(|_| record.head.len() == 4) else {
            return Err(Halt::LogInconsistent { why: "a record about the feature level is none".into() });
        };
        self.noted = u32::from_le_bytes(*level);
        config.check(self.noted)
    }

    /// Whether the log does not say this level yet.
    pub(super) const fn is_unnoted(&self, level: u32) -> bool {
        self.noted < level
    }

    /// The log says it.
    pub(super) fn noted(&mut self, level: u32) {
        self.noted = level;
    }

    /// The level that a leader raises to by itself, if all members could do so much for long enough; `possible`: what they can do now.
    pub(super) fn raises(&mut self, now: Time, config: &LevelConfig, possible: Option<u32>) -> Option<u32> {
        let before = self.since.take();
        let level = possible?;
        let since = before.filter(|since| since.0 == level).map_or(now, |since| since.1);
        if now.since(since) >= config.raise_after? {
            return Some(level);
        }
        self.since = Some((level, since));
        None
    }

    /// When that is, if nothing changes.
    pub(super) fn due(&self, config: &LevelConfig) -> Option<Time> {
        Some(self.since?.1.plus(config.raise_after?))
    }
}

/// The record that says the level.
pub(crate) fn record(level: u32) -> Record {
    let head = Bytes::copy_from_slice(&level.to_le_bytes());
    Record { instance: NODE, kind: LEVEL, head, payload: Bytes::new() }
}

#[cfg(test)]
mod tests;
