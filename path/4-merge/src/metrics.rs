//! What operators see: how much of the global log is empty, whom it waits for, how far instances are apart.

use crate::merge::Merge;
use quorate_types::{InstanceId, Seq, Slot, Span, Time};

/// Sums since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Batches delivered.
    pub batches: u64,
    /// Places of the global log delivered that hold nothing.
    pub noop_slots: u64,
    /// Records that said so.
    pub noop_records: u64,
    /// Those of them that stood for no slot: repeated after a change of leaders, or overtaken by batches.
    pub noop_records_empty: u64,
    /// No-ops proposed here.
    pub fills: u64,
    /// Questions to leaders elsewhere.
    pub asks: u64,
}

impl Counts {
    /// Which part of the delivered global log is empty.
    pub fn noop_share(&self) -> f64 {
        let all = self.batches.saturating_add(self.noop_slots);
        if all == 0 { 0.0 } else { self.noop_slots as f64 / all as f64 }
    }
}

/// One instance, for an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceStatus {
    /// Which.
    pub instance: InstanceId,
    /// The last slot that is decided here.
    pub decided: Slot,
    /// The last slot that is delivered.
    pub delivered: Slot,
    /// Bytes that are decided here and not delivered.
    pub held_bytes: usize,
    /// How long work waited for it, summed up.
    pub waited: Span,
}

/// What the merge waits for, while work waits behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// For this instance.
    pub instance: InstanceId,
    /// For this slot of it.
    pub slot: Slot,
    /// Since then.
    pub since: Time,
}

/// Where the merge stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// What was delivered last.
    pub seq: Seq,
    /// How many slots the furthest instance is ahead of the one that is least far.
    pub skew: u64,
    /// What it waits for.
    pub waits: Option<Waits>,
    /// All instances that ever were.
    pub instances: Vec<InstanceStatus>,
}

impl<T> Merge<T> {
    /// Sums since the start.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// What the merge waits for while work waits behind it: for the timer of a leader that holds everybody up.
    pub fn waits(&self) -> Option<Waits> {
        let (at, since) = self.waiting?;
        Some(Waits { instance: InstanceId::new(at as u16 + 1), slot: Slot::new(self.slot), since })
    }

    /// Where it stands.
    pub fn status(&self, now: Time) -> Status {
        let instances = self.locals.iter().enumerate().map(|(at, local)| {
            let waits = self.waiting.filter(|(whom, _)| *whom == at);
            InstanceStatus {
                instance: InstanceId::new(at as u16 + 1),
                decided: Slot::new(local.placed),
                delivered: Slot::new(self.done(at)),
                held_bytes: local.bytes,
                waited: waits.map_or(local.waited, |(_, since)| local.waited.plus(now.since(since))),
            }
        });
        let (highest, lowest) = self.extremes();
        Status {
            seq: Seq::new(self.seq),
            skew: highest - lowest,
            waits: self.waits(),
            instances: instances.collect(),
        }
    }
}
