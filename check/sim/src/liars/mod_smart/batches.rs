//! A leader that proposes requests of clients with a time far ahead, or with a border; or a no-op instead.

use crate::liars::voice::{rebuilt, requests_of};
use crate::liars::{Plays, Said, Saying, Voice};
use quorate_order::mod_smart::message::ModSmartBody as Body;
use quorate_types::{AgreedTime, InstanceId, Slot, View};
use quorate_wire::{Batch, BatchHeader};
use std::collections::BTreeSet;

const SECOND: u64 = 1_000_000_000;

/// Replaces a proposed batch of requests.
pub(super) fn propose(said: &mut Said, change: impl FnOnce(Slot, &Batch) -> Batch) {
    if let Said::ModSmart(_, message) = said
        && let Body::Propose { slot, batch } = &mut message.body
        && batch.no_op_target().is_none()
    {
        *batch = change(*slot, batch);
    }
}

/// Proposes times far ahead, and long ago.
#[derive(Debug)]
pub(in crate::liars) struct Times;

impl Plays for Times {
    fn instead(&mut self, me: &mut Voice, to: usize, mut said: Said) -> Vec<Saying> {
        propose(&mut said, |slot, batch| {
            let header = batch.header();
            let nanos = header.time.nanos();
            // The same for all: one slot after the other is as wrong as the one before.
            let time = match slot.number() % 5 {
                0 => nanos.saturating_add(86_400 * SECOND),
                1 => u64::MAX,
                2 => 0,
                3 => nanos.saturating_add(me.rng.below(20) * SECOND),
                _ => nanos.saturating_add(9 * SECOND),
            };
            rebuilt(BatchHeader { time: AgreedTime::from_nanos(time), ..header }, &requests_of(batch))
        });
        vec![Saying::now(to, said)]
    }
}

/// A leader that holds time back.
#[derive(Debug)]
pub(in crate::liars) enum Holds {
    /// All its batches have the time 0.
    Zero,
    /// Its time runs at a tenth of its proper speed, from the first proposal on.
    Tenth(Option<u64>),
    /// Its batches claim that it has executed nothing since the cluster began.
    Base,
}

impl Plays for Holds {
    fn instead(&mut self, _me: &mut Voice, to: usize, mut said: Said) -> Vec<Saying> {
        propose(&mut said, |_, batch| {
            let header = batch.header();
            let (mut nanos, mut base) = (header.time.nanos(), header.base);
            match self {
                Self::Zero => nanos = 0,
                Self::Tenth(first) => {
                    let first = *first.get_or_insert(nanos);
                    nanos = first + nanos.saturating_sub(first) / 10;
                }
                Self::Base => base = base.map(|_| AgreedTime::from_nanos(0)),
            }
            rebuilt(BatchHeader { time: AgreedTime::from_nanos(nanos), base, ..header }, &requests_of(batch))
        });
        vec![Saying::now(to, said)]
    }
}

/// Proposes a border with every batch.
#[derive(Debug)]
pub(in crate::liars) struct Borders;

impl Plays for Borders {
    fn instead(&mut self, _me: &mut Voice, to: usize, mut said: Said) -> Vec<Saying> {
        propose(&mut said, |_, batch| {
            rebuilt(BatchHeader { border: true, ..batch.header() }, &requests_of(batch))
        });
        vec![Saying::now(to, said)]
    }
}

/// Proposes some kinds of batches never, and does not vote for them.
#[derive(Debug)]
pub(in crate::liars) struct Withholds {
    which: fn(&Batch) -> bool,
    kept: BTreeSet<(InstanceId, View, Slot)>,
}

impl Withholds {
    pub(in crate::liars) fn new(which: fn(&Batch) -> bool) -> Self {
        Self { which, kept: BTreeSet::new() }
    }
}

/// Whether a batch was ordered without any request: for time alone, and not to fill an instance.
pub(in crate::liars) fn is_time_alone(batch: &Batch) -> bool {
    batch.header().count == 0 && batch.no_op_target().is_none()
}

impl Plays for Withholds {
    fn instead(&mut self, _me: &mut Voice, to: usize, said: Said) -> Vec<Saying> {
        let keeps = match &said {
            Said::ModSmart(instance, message) => match &message.body {
                Body::Propose { slot, batch } if (self.which)(batch) => {
                    self.kept.insert((*instance, message.view, *slot));
                    true
                }
                Body::Write { slot, .. } | Body::Accept { slot, .. } => {
                    self.kept.contains(&(*instance, message.view, *slot))
                }
                _ => false,
            },
            _ => false,
        };
        if keeps { vec![] } else { vec![Saying::now(to, said)] }
    }
}

/// Proposes no-ops for slots far ahead.
#[derive(Debug)]
pub(in crate::liars) struct NoOps;

impl Plays for NoOps {
    fn instead(&mut self, me: &mut Voice, to: usize, mut said: Said) -> Vec<Saying> {
        let far = me.rng.pick(&[0, 1, 3, 100, 1 << 20, 1 << 47]);
        propose(&mut said, |slot, _| Batch::no_op(slot.plus(far)));
        vec![Saying::now(to, said)]
    }
}
