//! What operators see: how much of the global log is empty, which instance it waits for, and how far instances are apart.

use crate::merge::Merge;
use quorate_types::{InstanceId, Seq, Slot, Span, Time};

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Delivered batches.
    pub batches: u64,
    /// Delivered places of the global log that hold nothing.
    pub noop_slots: u64,
    /// Delivered records of no-ops.
    pub noop_records: u64,
    /// No-ops among them that stood for no slot: repeated after a change of leaders, or overtaken by batches.
    pub noop_records_empty: u64,
    /// No-ops proposed here.
    pub fills: u64,
    /// Questions to leaders elsewhere.
    pub asks: u64,
}

impl Counts {
    /// The share of the delivered global log that is empty, from 0 to 1.
    pub fn noop_share(&self) -> f64 {
        let all = self.batches.saturating_add(self.noop_slots);
        if all == 0 { 0.0 } else { self.noop_slots as f64 / all as f64 }
    }
}

/// The state of one instance, for an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceStatus {
    /// The instance.
    pub instance: InstanceId,
    /// The last slot that is decided here.
    pub decided: Slot,
    /// The last slot that is delivered.
    pub delivered: Slot,
    /// Bytes that are decided here and not delivered.
    pub held_bytes: usize,
    /// For how long in total work waited for it.
    pub waited: Span,
}

/// What the merge waits for, while work waits behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// The instance.
    pub instance: InstanceId,
    /// The slot of it.
    pub slot: Slot,
    /// Since when.
    pub since: Time,
}

/// The state of the merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The last seq that was delivered.
    pub seq: Seq,
    /// By how many slots the furthest instance is ahead of the last one.
    pub skew: u64,
    /// The place that the merge waits for.
    pub waits: Option<Waits>,
    /// All instances that ever took part.
    pub instances: Vec<InstanceStatus>,
}

/// What the merge waits for.
pub(crate) fn waits<T>(merge: &Merge<T>) -> Option<Waits> {
    let (at, since) = merge.waiting?;
    let slot = Slot::new(merge.course.slot());
    Some(Waits { instance: InstanceId::new(at as u16 + 1), slot, since })
}

/// The full status.
pub(crate) fn status<T>(merge: &Merge<T>, now: Time) -> Status {
    let instances = merge.locals.iter().enumerate().map(|(at, local)| {
        let waits = merge.waiting.filter(|(whom, _)| *whom == at);
        InstanceStatus {
            instance: InstanceId::new(at as u16 + 1),
            decided: Slot::new(local.placed),
            delivered: Slot::new(merge.done(at)),
            held_bytes: local.bytes,
            waited: waits.map_or(local.waited, |(_, since)| local.waited.plus(now.since(since))),
        }
    });
    let placed = merge.locals[..merge.course.count()].iter().map(|local| local.placed);
    let (highest, lowest) = (placed.clone().max().unwrap_or(0), placed.min().unwrap_or(0));
    let skew = highest - lowest;
    Status { seq: merge.seq(), skew, waits: waits(merge), instances: instances.collect() }
}
