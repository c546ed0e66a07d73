//! Speculative execution: the commands of a batch run in waves on several threads, and see what the others of their wave write.
//!
//! The mixer (`waves.rs`) keeps requests apart that use the same keys, as far as the service names them. If it names them right, the result is that of
//! one command after the other. If not, it may depend on luck, and replicas may come to different ones. So results have to be verified
//! ([`crate::Verified`]): those that a quorum has become final, and otherwise everything runs again, one command after the other. Each run notes
//! the keys that it used. If two of a wave met at a key, that batch may not come out the same when it runs again ([`Execution::has_varied`]); and
//! if no order of them gives what they did (`serial.rs`), the batch runs one after the other at once.
//!
//! Source: Kapritsos (Eve), sections 3.3 and 3.4. Docs: docs/protocols/speculative.md. Tests: `tests/all/speculative.rs`.

mod batch;
mod failures;
mod plan;
mod serial;
mod waves;

#[cfg(all(test, planted))]
pub(crate) mod planted {
    pub(crate) use super::waves::tests::a_session_keeps_its_order;
}

use crate::cells::{Cells, NewCells};
use crate::checkpoint::CheckpointError;
use crate::costs::Costs;
use crate::execution::{Execution, Final, Known, Ordered};
use crate::executor::{Executor, Results};
use crate::ordered::{Ahead, AheadLimits, Parallelism};
use crate::outcomes::Outcomes;
use crate::parallel::{ParallelService, Ran};
use crate::work::{Stopwatch, Task, Work, Worked};
use batch::{BatchRun, Finished, Ground};
use failures::Failures;
use quorate_state::store::Version;
use quorate_types::{Seq, Span, Time};
use quorate_wire::{Batch, RequestKind};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A command that waits for others for ever is given up after this time, and its batch runs alone.
const PATIENCE: Span = Span::from_secs(10);
/// How many pieces of work there are for each worker, so that none waits.
const PIECES_EACH: usize = 2;

/// Speculative execution; see the module.
pub struct Speculative {
    executor: Executor,
    service: Arc<dyn ParallelService>,
    new_cells: NewCells,
    cells: Arc<dyn Cells>,
    delivered: VecDeque<Ordered>,
    bytes: usize,
    limits: AheadLimits,
    /// The first delivered batch, while it runs in waves, and the most bytes of replies that it has besides.
    run: Option<(BatchRun, u64)>,
    /// The first delivered batch runs alone.
    alone: bool,
    failures: Failures,
    costs: Costs,
    watch: Box<dyn Stopwatch>,
    workers: usize,
    pieces: usize,
    last_run: u64,
    has_varied: bool,
    counts: Parallelism,
}

impl Speculative {
    /// Continues from a state.
    ///
    /// # Errors
    /// Gives back the state if the service is not one whose commands may run at the same time.
    pub fn new(
        executor: Executor,
        ahead: Ahead,
        watch: Box<dyn Stopwatch>,
        new_cells: NewCells,
    ) -> Result<Self, Box<Executor>> {
        let Ahead { workers, long, limits } = ahead;
        let Some(service) = executor.parallel() else { return Err(Box::new(executor)) };
        Ok(Self {
            executor,
            service,
            cells: new_cells(),
            new_cells,
            delivered: VecDeque::new(),
            bytes: 0,
            limits,
            run: None,
            alone: false,
            failures: Failures::new(),
            costs: Costs::new(long),
            watch,
            workers: workers.max(1),
            pieces: 0,
            last_run: 0,
            has_varied: false,
            counts: Parallelism::default(),
        })
    }

    /// Begins to run the first batch in waves, if it may.
    fn begin(&mut self, now: Time) {
        if self.run.is_some() || self.alone {
            return;
        }
        let Some(Ordered::Batch(seq, moment, batch)) = self.delivered.front() else { return };
        let (seq, moment, batch) = (*seq, *moment, batch.clone());
        self.alone = true;
        if !self.costs.on_workers() || self.failures.alone(seq) {
            return;
        }
        let planned = plan::plan(&mut self.executor, &*self.service, (seq, moment), &batch);
        if let (Some(planned), Some(objects)) = (planned, self.executor.in_store()) {
            let run = BatchRun::new(now, planned.entries, planned.waves, objects);
            let (waves, requests) = run.size();
            self.counts.waves += waves as u64;
            self.counts.runs += requests as u64;
            self.run = Some((run, planned.others));
            self.alone = false;
        }
    }

    /// Goes on with the batch that runs in waves. Whether it is at its end.
    fn go_on(&mut self, now: Time) -> bool {
        let replies_max = self.executor.replies_max();
        let Some((run, others)) = &mut self.run else { return false };
        let ground = Ground { service: &self.service, cells: &self.cells, replies_max };
        let (nanos, count) = run.go_on(now, &mut self.last_run, &ground, &mut *self.watch);
        self.costs.took(nanos, count);
        if now >= run.since().plus(PATIENCE) && !run.is_done() {
            // Otherwise nothing would be given out any more once all workers are lost.
            (run.is_broken, self.pieces) = (true, 0);
        }
        let is_done = run.is_done() && !run.is_broken;
        if run.is_broken || run.is_tangled || is_done && !plan::fit(&self.executor, *others, run.replies()) {
            self.give_up();
            return false;
        }
        is_done
    }

    /// The first batch runs alone after all.
    fn give_up(&mut self) {
        if let Some((run, _)) = self.run.take()
            && run.is_broken
        {
            // Late answers may still come, and commands that go on would write into the old ones.
            self.cells = (self.new_cells)();
        }
        self.alone = true;
        self.counts.void += 1;
    }

    /// Executes the next item.
    fn take_next(&mut self, outcomes: &mut Outcomes) -> Option<Final> {
        let ordered = self.delivered.pop_front()?;
        let Ordered::Batch(seq, moment, batch) = ordered else {
            return Some(self.executor.take_one(ordered, outcomes));
        };
        self.bytes -= batch.bytes().len();
        self.alone = false;
        if let Some((run, _)) = self.run.take() {
            self.has_varied = run.has_varied();
            self.counts.met += run.met;
            let Finished { ran, told, changed } = run.finish();
            self.counts.adopted += ran.len() as u64;
            let mut results = OfWaves(ran);
            self.executor.run_batch(seq, &batch, moment, Some(&mut results), outcomes);
            assert!(results.0.is_empty(), "INV-EXEC-10: what ran in waves runs at its turn");
            self.executor.apply(&changed);
            self.executor.tell(told);
        } else {
            let began = self.watch.nanos();
            self.executor.run_batch(seq, &batch, moment, None, outcomes);
            self.costs.took(self.watch.nanos().saturating_sub(began), commands(&batch));
        }
        Some(Final::Batch(seq))
    }
}

/// How many requests of a batch run commands.
fn commands(batch: &Batch) -> u64 {
    batch.requests().flatten().filter(|(header, ..)| header.kind == RequestKind::Commands).count() as u64
}

/// The results of a batch that ran in waves.
struct OfWaves(BTreeMap<usize, Ran>);

impl Results for OfWaves {
    fn are_open(&self) -> bool {
        false
    }
    fn take(&mut self, index: usize) -> Option<Ran> {
        self.0.remove(&index)
    }
    fn void(&mut self, index: usize) {
        panic!("INV-EXEC-10: request {index} ran in a wave, and does not run at its turn");
    }
    fn changed(&mut self, _: Option<usize>, _: &Version, _: &Version) {}
}

impl Execution for Speculative {
    fn deliver(&mut self, ordered: Ordered) {
        if let Ordered::Batch(_, _, batch) = &ordered {
            self.bytes += batch.bytes().len();
        }
        self.delivered.push_back(ordered);
    }

    fn next(&mut self, now: Time, outcomes: &mut Outcomes) -> Option<Final> {
        self.begin(now);
        if self.run.is_some() && !self.go_on(now) && self.run.is_some() {
            return None;
        }
        if self.delivered.is_empty() {
            return None;
        }
        self.has_varied = false;
        let done = self.take_next(outcomes)?;
        while matches!(done, Final::Batch(_)) && self.delivered.front().is_some_and(Ordered::follows) {
            self.take_next(outcomes);
        }
        outcomes.set_events(self.executor.take_events());
        Some(done)
    }

    fn deadline(&self) -> Option<Time> {
        self.run.as_ref().map(|(run, _)| run.since().plus(PATIENCE))
    }

    fn work(&mut self) -> Option<Work> {
        let replies_max = self.executor.replies_max();
        let (run, _) = self.run.as_mut().filter(|_| self.pieces < PIECES_EACH * self.workers)?;
        let ground = Ground { service: &self.service, cells: &self.cells, replies_max };
        // All workers should have something of each wave.
        let count = run.left().div_ceil(self.workers).min(self.costs.tasks());
        let tasks: Vec<Task> = (0..count)
            .map_while(|_| {
                self.last_run += 1;
                run.next_task(self.last_run, &ground)
            })
            .collect();
        if tasks.is_empty() {
            return None;
        }
        self.pieces += 1;
        Some(Work(tasks))
    }

    fn worked(&mut self, done: Worked) {
        self.pieces = self.pieces.saturating_sub(1);
        let ran = done.0.iter().filter(|done| done.ran.is_some());
        let (nanos, count) = ran.fold((0_u64, 0), |(nanos, count), done| (nanos + done.nanos, count + 1));
        self.costs.took(nanos, count);
        for done in done.0 {
            if let Some((run, _)) = &mut self.run {
                run.done(done);
            }
        }
    }

    fn has_room(&self) -> bool {
        self.bytes < self.limits.bytes && self.delivered.len() < self.limits.items
    }

    fn parallelism(&self) -> Option<Parallelism> {
        let (mean_nanos, on_workers) = (self.costs.mean(), self.costs.on_workers());
        Some(Parallelism { mean_nanos, on_workers, ..self.counts })
    }

    fn may_vary(&self) -> bool {
        true
    }

    fn has_varied(&self) -> bool {
        self.has_varied
    }

    fn failed(&mut self, seq: Seq) {
        self.failures.failed(seq);
    }

    fn take_over(&mut self, known: &Known<'_>) {
        self.executor.follow(known.at, known.batch, known.outcomes, known.changed);
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
        (self.bytes, self.run, self.alone, self.pieces) = (0, None, false, 0);
        // Commands that are on their way count for nothing.
        self.cells = (self.new_cells)();
        self.executor.restore_image(system, objects)
    }
}
