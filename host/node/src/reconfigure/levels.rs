//! The feature level: what the cluster does that older programs can not do. A new form on disk, in checkpoints or between replicas begins
//! with a level if a program of the level before would not understand it (docs/operations/upgrades.md).
//!
//! The level is agreed on in the log. An ordered command raises it, so that all replicas work by it from the same seq, whatever their
//! programs can do. A leader proposes the command only when every member (learners, too) is connected and has said in its handshake that it
//! can. The leader does so by itself after that has been true for some time, or when an operator asks. Until then each replica can go back
//! to the program before. Afterwards a program that can not work at the level stops, and the others refuse it.
//!
//! Eras need level 3 (reconfigure/eras.rs). Level 1 does nothing, and exists so that there is a level to raise
//! (docs/decisions/0036-forms-of-nobody-go.md).
//!
//! INV-LEVEL-1: what depends on the level follows from the executed commands, never from a replica's own program. Tests: levels/tests.rs,
//! check/sim, front/cli/tests/hurt/upgrades.rs.

use crate::journal::NODE;
use bytes::Bytes;
use quorate_log::Record;
use quorate_types::{Halt, Span, Time};
use quorate_wire::{FEATURE_LEVEL, FEATURE_LEVEL_MIN};

/// The kind of the node's record with the cluster's level. A program that can not work at it stops before it takes part.
pub(crate) const LEVEL: u8 = 2;
/// The same for the level of the service.
pub(crate) const SERVICE_LEVEL: u8 = 6;

/// The configuration of feature levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelConfig {
    /// The level of the cluster: at first the one with which the cluster was made, then the executed one.
    pub cluster: u32,
    /// The highest level of this program.
    pub highest: u32,
    /// How long all members must be able to work at a higher level before a leader raises it by itself.
    pub raise_after: Option<Span>,
}

impl LevelConfig {
    /// A cluster that was made with this level, and this program with its highest level.
    pub fn made_with(cluster: u32) -> Self {
        Self { cluster, highest: FEATURE_LEVEL, raise_after: None }
    }

    /// Limits this program to a highest level.
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

/// What a replica knows of levels, beside the executed one.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    /// The higher level that all members can work at, and since when; for a leader that raises the level by itself.
    since: Option<(u32, Time)>,
    /// The level in this log's records.
    noted: u32,
    /// The level of the service in this log's records; 0: there is none.
    pub(super) service_noted: u32,
}

impl Levels {
    /// Restores the level from a record of an earlier run.
    pub(crate) fn restore(&mut self, record: &Record, config: &LevelConfig) -> Result<(), Halt> {
        self.noted = read(record)?;
        config.check(self.noted)
    }

    /// Restores the level of the service in the same way; whether this program has the version is seen when there is a service.
    pub(crate) fn restore_service(&mut self, record: &Record) -> Result<(), Halt> {
        self.service_noted = read(record)?;
        Ok(())
    }

    /// The level of the service in this log; 0: the log has none.
    pub(crate) const fn service_noted(&self) -> u32 {
        self.service_noted
    }

    /// Whether this log does not have the level yet.
    pub(super) const fn is_unnoted(&self, level: u32) -> bool {
        self.noted < level
    }

    /// This log has the level.
    pub(super) fn noted(&mut self, level: u32) {
        self.noted = level;
    }

    /// The level to which a leader raises by itself, if all members could work at it for long enough. `possible`: what they can do now.
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

    /// When the leader raises the level, if nothing changes.
    pub(super) fn due(&self, config: &LevelConfig) -> Option<Time> {
        Some(self.since?.1.plus(config.raise_after?))
    }
}

fn read(record: &Record) -> Result<u32, Halt> {
    match record.head.first_chunk::<4>().filter(|_| record.head.len() == 4) {
        Some(level) => Ok(u32::from_le_bytes(*level)),
        None => Err(Halt::LogInconsistent { why: "a record about a level is none".into() }),
    }
}

/// The record of a level; `kind`: of which.
pub(crate) fn record(kind: u8, level: u32) -> Record {
    let head = Bytes::copy_from_slice(&level.to_le_bytes());
    Record { instance: NODE, kind, head, payload: Bytes::new() }
}

#[cfg(test)]
mod tests;
