//! Requests that run on workers: what a worker gets, and what it answers.

use crate::context::Context;
use crate::parallel::{ParallelService, Ran, run};
use crate::view::{Earlier, RunId, StateView};
use bytes::Bytes;
use quorate_state::store::Version;
use quorate_wire::RequestKind;
use std::fmt;
use std::sync::Arc;

/// Tells how much time passes while commands run. Only where they run depends on it, never what they do.
pub trait Stopwatch: Send {
    /// Nanoseconds since some moment.
    fn nanos(&mut self) -> u64;
}

/// A request that runs on a worker, with all that it needs.
pub struct Task {
    pub(super) at: u64,
    pub(super) run: RunId,
    pub(super) service: Arc<dyn ParallelService>,
    pub(super) version: Version,
    pub(super) earlier: Vec<Earlier>,
    pub(super) kind: RequestKind,
    pub(super) body: Bytes,
    pub(super) ctx: Context,
    pub(super) replies_max: usize,
}

impl Task {
    fn run(&self) -> Ran {
        let view = StateView::noting(&self.version, &self.earlier);
        run(&*self.service, view, (self.kind, &self.body), &self.ctx, self.replies_max)
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Task({} of {}, run {})", self.ctx.request_index(), self.ctx.seq(), self.run.0)
    }
}

/// Requests for one worker.
#[derive(Debug)]
pub struct Work(pub(super) Vec<Task>);

impl Work {
    /// Runs them.
    pub fn run(&self, watch: &mut dyn Stopwatch) -> Worked {
        let mut before = watch.nanos();
        let one = |task: &Task| {
            let ran = task.run();
            let now = watch.nanos();
            let nanos = now.saturating_sub(std::mem::replace(&mut before, now));
            Done { at: task.at, run: task.run, ran: Some(ran), nanos }
        };
        Worked(self.0.iter().map(one).collect())
    }

    /// The answer when nobody ran them; the lane does it then.
    pub fn undone(&self) -> Worked {
        let one = |task: &Task| Done { at: task.at, run: task.run, ran: None, nanos: 0 };
        Worked(self.0.iter().map(one).collect())
    }

    /// How many requests these are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// How a request ran, if it did.
pub(super) struct Done {
    pub(super) at: u64,
    pub(super) run: RunId,
    pub(super) ran: Option<Ran>,
    pub(super) nanos: u64,
}

/// The answer to [`Work`].
pub struct Worked(pub(super) Vec<Done>);

impl fmt::Debug for Worked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.iter().map(|done| (done.run.0, done.ran.is_some()));
        f.debug_list().entries(runs).finish()
    }
}
