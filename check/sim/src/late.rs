//! An execution that is late on purpose: a delivered batch becomes final only some batches later, or after a while. Some batches are
//! executed, taken back, and executed again. It exposes code that expects a batch to be executed once it is delivered.
//! Tests: tests/all/late.rs.

use crate::random::Rng;
use crate::service::Tap;
use quorate_execute::{CheckpointError, Execution, Executor, Final, Ordered, Outcomes, Version};
use quorate_types::{Span, Time};
use std::collections::VecDeque;

/// How late execution is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lateness {
    /// The most batches, borders and gaps that wait.
    pub behind: usize,
    /// The longest time that they wait, in nanoseconds.
    pub patience: u64,
    /// This many of 1000 batches are executed, taken back, and executed again.
    pub takes_back: u64,
}

/// An execution that is late; see the module.
pub struct Late {
    executor: Executor,
    delivered: VecDeque<Ordered>,
    lateness: Lateness,
    /// When the waiting batches become final, if nothing else is delivered.
    due: Option<Time>,
    rng: Rng,
    /// The reports of the service; those of batches that are taken back are dropped.
    tap: Tap,
}

impl Late {
    /// Continues from a state.
    pub fn new(executor: Executor, lateness: Lateness, rng: Rng, tap: Tap) -> Self {
        Self { executor, delivered: VecDeque::new(), lateness, due: None, rng, tap }
    }

    /// Executes the next batch and takes it back: the state is as before, and the outcomes are void.
    fn take_back(&mut self, outcomes: &mut Outcomes) {
        let said = self.tap.len();
        // Nothing is taken back if the service can not give its state.
        let Ok(before) = self.executor.image() else { return };
        let follow = self.delivered.iter().skip(1).take_while(|ordered| ordered.follows()).count();
        self.executor.take(&mut self.delivered.iter().take(1 + follow).cloned().collect(), outcomes);
        self.executor.roll_back(&before).expect("a service takes back the state that it gave");
        self.tap.forget_after(said);
    }
}

impl Execution for Late {
    fn deliver(&mut self, ordered: Ordered) {
        self.delivered.push_back(ordered);
    }

    fn next(&mut self, now: Time, outcomes: &mut Outcomes) -> Option<Final> {
        if self.delivered.is_empty() {
            self.due = None;
            return None;
        }
        let due = *self.due.get_or_insert(now.plus(Span::from_nanos(self.lateness.patience)));
        if self.delivered.len() <= self.lateness.behind && due > now {
            return None;
        }
        if matches!(self.delivered.front(), Some(Ordered::Batch(..)))
            && self.rng.chance(self.lateness.takes_back)
        {
            self.take_back(outcomes);
        }
        self.executor.take(&mut self.delivered, outcomes)
    }

    fn deadline(&self) -> Option<Time> {
        self.due
    }

    fn is_behind(&self) -> bool {
        !self.delivered.is_empty()
    }

    fn state(&self) -> &Executor {
        &self.executor
    }

    fn state_mut(&mut self) -> &mut Executor {
        &mut self.executor
    }

    fn restore(&mut self, system: &[u8], objects: &Version) -> Result<(), CheckpointError> {
        self.delivered.clear();
        self.due = None;
        self.executor.restore_image(system, objects)
    }
}
