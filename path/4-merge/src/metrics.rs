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

/// What the merge waits for.
pub(crate) fn waits<T>(merge: &Merge<T>) -> Option<Waits> {
    let (at, since) = merge.waiting?;
    let slot = Slot::new(merge.course.slot());
    Some(Waits { instance: InstanceId::new(at as u16 + 1), slot, since })
}

/// Where it stands.
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
