//! Requests that run on workers: what a worker gets, and what it answers.

use crate::cells::Cells;
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
    pub(crate) at: u64,
    pub(crate) run: RunId,
    pub(crate) service: Arc<dyn ParallelService>,
    pub(crate) version: Version,
    pub(crate) above: Above,
    pub(crate) kind: RequestKind,
    pub(crate) body: Bytes,
    pub(crate) ctx: Context,
    pub(crate) replies_max: usize,
}

/// What a request sees above the version.
pub(crate) enum Above {
    /// Writes of earlier requests, sorted by key.
    Earlier(Vec<Earlier>),
    /// What other requests write at the same time.
    Cells(Arc<dyn Cells>),
}

impl Task {
    fn run(&self) -> Ran {
        let view = match &self.above {
            Above::Earlier(earlier) => StateView::noting(&self.version, earlier),
            Above::Cells(cells) => StateView::live(&self.version, &**cells, self.run.0),
        };
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
pub struct Work(pub(crate) Vec<Task>);

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
pub(crate) struct Done {
    pub(crate) at: u64,
    pub(crate) run: RunId,
    pub(crate) ran: Option<Ran>,
    pub(crate) nanos: u64,
}

/// The answer to [`Work`].
pub struct Worked(pub(crate) Vec<Done>);

impl fmt::Debug for Worked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.iter().map(|done| (done.run.0, done.ran.is_some()));
        f.debug_list().entries(runs).finish()
    }
}
