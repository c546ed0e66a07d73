//! How replicas execute, and how wrong hints are.

use crate::bench::load::{Call, Work};
use crate::bench::temporary::{Settings, executes};
use quorate::client::{Answer, Encoded};
use quorate_command::execution::{ExecutionChoice, ExecutorChoice};
use quorate_command::failure::{Failure, Outcome};
use quorate_kv::WorkCommand;
use serde::Serialize;

/// A way to execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Sequential,
    /// With so many workers.
    Ordered(u16),
    Speculative(u16),
}

impl Way {
    pub(super) fn settings(self, verify: bool) -> Settings {
        let (executor, workers) = match self {
            Self::Sequential => (ExecutorChoice::Sequential, None),
            Self::Ordered(workers) => (ExecutorChoice::Ordered, Some(workers)),
            Self::Speculative(workers) => (ExecutorChoice::Speculative, Some(workers)),
        };
        executes(ExecutionChoice {
            executor,
            workers,
            verify: verify || matches!(self, Self::Speculative(_)),
            late: false,
        })
    }

    pub(super) const fn executor(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Ordered(_) => "ordered",
            Self::Speculative(_) => "speculative",
        }
    }

    /// How many workers; 0: the main lane.
    pub(super) const fn workers(self) -> u16 {
        match self {
            Self::Sequential => 0,
            Self::Ordered(workers) | Self::Speculative(workers) => workers,
        }
    }
}

/// Which objects commands change, and which of them hints name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Errors {
    /// How many objects there are: two requests conflict with the probability of one divided by this.
    pub(super) objects: u32,
    /// In so many of 1000 commands the object is the same one.
    pub(super) conflicts: u32,
    /// The share of conflicting pairs that hints do not show.
    pub(super) missed: f64,
    /// The share of other pairs that hints show as conflicting.
    pub(super) imagined: f64,
}

/// Hints name one of so many objects that do not exist.
const IMAGINED: u32 = 64;

/// Commands that take long.
pub(super) struct Long {
    pub(super) command: WorkCommand,
    pub(super) errors: Errors,
    next: u64,
    pub(super) answered: u64,
}

impl Long {
    pub(super) const fn new(command: WorkCommand, errors: Errors) -> Self {
        Self { command, errors, next: 1, answered: 0 }
    }

    fn below(&mut self, below: u32) -> u32 {
        self.next = self.next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.next >> 33) % u64::from(below.max(1))) as u32
    }

    fn chance(&mut self, share: f64) -> bool {
        f64::from(self.below(1 << 30)) < share * f64::from(1 << 30)
    }
}

impl Work for Long {
    fn next(&mut self, _: usize) -> Call {
        let Errors { objects, conflicts, missed, imagined } = self.errors;
        self.command.objects[0] = if self.below(1000) < conflicts { objects } else { self.below(objects) };
        // A pair is missed if one of the two names nothing.
        self.command.hidden = self.chance(missed / 2.0);
        // And imagined if both name the same object that does not exist.
        let named = self.chance((imagined * f64::from(IMAGINED)).sqrt().min(1.0));
        self.command.also = named.then(|| u32::MAX - self.below(IMAGINED));
        Call::Commands(Encoded::one(&self.command.encode()))
    }

    fn answered(&mut self, _: usize, answer: &Answer) -> Outcome<()> {
        self.answered += 1;
        match answer.first() {
            Some(reply) if reply.len() == 8 => Ok(()),
            other => Err(Failure::new(format!("a command was answered with {other:?}"))),
        }
    }
}
