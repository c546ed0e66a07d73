//! Ordered execution: commands run at the same time on workers, and have the effect of one after the other in the order of the log.
//!
//! Each request has a place in the order. Workers run it on a view ([`crate::StateView`]): a version of the final objects, with the writes of
//! earlier requests. At its turn the result is taken over if nothing that it read was written differently meanwhile; otherwise it runs
//! again (`plan.rs`). So the outcomes, the state and its digests are those of [`crate::Sequential`], byte for byte, whatever workers do
//! and whatever the service names as keys. Each replica decides for itself where requests run, by the time that they take (`costs.rs`).
//!
//! Sources: Aria (VLDB 2020) and Block-STM (PPoPP 2023), for optimistic execution in a preset order; Kapritsos (Eve), section 3.3.1, for
//! the mixer. Docs: docs/protocols/eve.md. Tests: `tests/all/ordered.rs`, beside the sequential execution of the same batches.

mod mixer;
mod plan;
mod written;

use crate::Lookup;
use crate::agreed::Moment;
use crate::checkpoint::CheckpointError;
use crate::context::Context;
use crate::costs::Costs;
use crate::execution::{Execution, Final, Known, Ordered};
use crate::executor::{Executor, Results};
use crate::hints::{Entry, hints};
use crate::outcomes::Outcomes;
use crate::parallel::ParallelService;
use crate::work::{Stopwatch, Task, Work, Worked};
pub use plan::AheadLimits;
use plan::{Ground, OfBatch, Plan};
use quorate_state::store::{Store, Version};
use quorate_types::{Seq, Span, Time, planted};
use quorate_wire::{Batch, RequestHeader, RequestKind};
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::Arc;

/// How many pieces of work there are for each worker, so that none waits.
const PIECES_EACH: usize = 2;

/// A delivered item, and its places in the order: the first is its beginning, and those of its requests follow.
struct Item {
    ordered: Ordered,
    first: u64,
    places: u64,
}

/// Ordered execution; see the module.
pub struct InOrder {
    executor: Executor,
    service: Arc<dyn ParallelService>,
    delivered: VecDeque<Item>,
    /// How many of the delivered items are planned.
    planned: usize,
    bytes: usize,
    next_place: u64,
    plan: Plan,
    costs: Costs,
    watch: Box<dyn Stopwatch>,
    workers: usize,
    /// Pieces of work on their way.
    pieces: usize,
    /// The final objects, until they change.
    version: Option<Version>,
    limits: AheadLimits,
    /// The request for which all wait, and since when.
    held_up: Option<(u64, Time)>,
}

/// A run on a view that no order of commands gives may not end. After this time nobody waits for it any more.
const PATIENCE: Span = Span::from_secs(10);

/// How commands run side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// How many workers there are.
    pub workers: usize,
    /// Requests that take this many nanoseconds on average go to the workers; with 0 all of them do.
    pub long: u64,
    /// Limits of what runs before its turn.
    pub limits: AheadLimits,
}

/// Numbers for the status. Counts are since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Parallelism {
    /// How long a request takes on average, in nanoseconds.
    pub mean_nanos: u64,
    /// Whether requests run on workers now.
    pub on_workers: bool,
    /// Runs on workers.
    pub runs: u64,
    /// Runs that did not count, since an earlier request wrote what they had read; with waves, batches that ran alone after all.
    pub void: u64,
    /// Results that counted.
    pub adopted: u64,
    /// Waves of requests that ran at the same time, where they run so.
    pub waves: u64,
    /// Waves in which requests met at a key.
    pub met: u64,
}

impl InOrder {
    /// Continues from a state. The stopwatch tells how long requests take on the lane.
    ///
    /// # Errors
    /// Gives back the state if the service is not one whose commands may run at the same time.
    pub fn new(executor: Executor, ahead: Ahead, watch: Box<dyn Stopwatch>) -> Result<Self, Box<Executor>> {
        let Ahead { workers, long, limits } = ahead;
        let Some(service) = executor.parallel() else { return Err(Box::new(executor)) };
        Ok(Self {
            executor,
            service,
            delivered: VecDeque::new(),
            planned: 0,
            bytes: 0,
            next_place: 0,
            plan: Plan::new(limits),
            costs: Costs::new(long),
            watch,
            workers: workers.max(1),
            pieces: 0,
            version: None,
            limits,
            held_up: None,
        })
    }

    /// Plans what was delivered, in order and as far as there is room.
    fn plan_more(&mut self) {
        while self.costs.on_workers() && self.plan.has_room() {
            let Some(item) = self.delivered.get(self.planned) else { return };
            self.planned += 1;
            if let Ordered::Batch(seq, moment, batch) = &item.ordered {
                let (whose, batch) = ((*seq, *moment, item.first), batch.clone());
                self.plan(whose, &batch);
            }
        }
    }

    /// Plans the requests of a batch that may run before their turn.
    fn plan(&mut self, (seq, moment, first): (Seq, Moment, u64), batch: &Batch) {
        let ctx = self.executor.ctx_of(seq, &moment, batch);
        for (index, (header, body, _)) in batch.requests().flatten().enumerate() {
            if let Some(entry) = self.entry(&header, &ctx.with_request(index as u32), batch, body) {
                self.plan.add(first + 1 + index as u64, entry);
            }
        }
    }

    /// A request that will probably run at its turn.
    fn entry(&self, header: &RequestHeader, ctx: &Context, batch: &Batch, body: &[u8]) -> Option<Entry> {
        if !matches!(header.kind, RequestKind::Commands | RequestKind::Query) {
            return None;
        }
        let client = self.executor.client(header.session)?;
        let is_fresh = matches!(self.executor.lookup(header.session, header.number), Lookup::Fresh);
        is_fresh.then(|| {
            let (hints, is_known) = hints(&*self.service, header.kind, body);
            let (body, ctx) = (batch.bytes().slice_ref(body), ctx.with_session(client, header.session));
            Entry { kind: header.kind, body, ctx, hints, is_known }
        })
    }

    /// Whether all requests before this place are settled. Nobody waits for one that is on its way for too long.
    fn is_settled(&mut self, now: Time, end: u64) -> bool {
        loop {
            let settled = self.plan.settle_up_to(end);
            let held_up = if settled { None } else { self.plan.holds_up(end) };
            self.held_up = held_up.map(|at| match self.held_up {
                Some((before, since)) if before == at => (at, since),
                _ => (at, now),
            });
            match self.held_up {
                Some((at, since)) if now >= since.plus(PATIENCE) => {
                    self.plan.give_up(at);
                    // Otherwise nothing would be given out any more once all workers are lost.
                    self.pieces = self.pieces.saturating_sub(1);
                }
                _ => return settled,
            }
        }
    }

    /// The final objects as they are now.
    fn version(&mut self) -> Option<Version> {
        if self.version.is_none() {
            self.version = self.executor.objects_now();
        }
        self.version.clone()
    }

    /// Executes the next item, whose results are settled.
    fn take_next(&mut self, outcomes: &mut Outcomes) -> Option<Final> {
        let Item { ordered, first, places } = self.delivered.pop_front()?;
        let was_planned = self.planned > 0;
        self.planned = self.planned.saturating_sub(1);
        let done = match ordered {
            Ordered::Batch(seq, moment, batch) => {
                self.bytes -= batch.bytes().len();
                let began = (!was_planned).then(|| self.watch.nanos());
                self.version = self.version.take().filter(|_| planted("old-version"));
                let any = self.plan.len() > 0;
                let mut results = OfBatch { plan: &mut self.plan, first };
                let results = any.then_some(&mut results as &mut dyn Results);
                self.executor.run_batch(seq, &batch, moment, results, outcomes);
                if let Some(began) = began {
                    self.costs.took(self.watch.nanos().saturating_sub(began), commands(&batch));
                }
                Final::Batch(seq)
            }
            Ordered::Level(_) | Ordered::Service(_) | Ordered::Members(_) | Ordered::Neighbour(_) => {
                let before = (self.plan.len() > 0).then(|| self.executor.objects_now()).flatten();
                self.version = None;
                let done = self.executor.take_one(ordered, outcomes);
                if let (Some(before), Some(after)) = (before, self.version()) {
                    self.plan.changed(first, &before, &after);
                }
                done
            }
            other => self.executor.take_one(other, outcomes),
        };
        self.plan.became_final(first + places);
        Some(done)
    }
}

/// How many requests of a batch run commands.
fn commands(batch: &Batch) -> u64 {
    batch.requests().flatten().filter(|(header, ..)| header.kind == RequestKind::Commands).count() as u64
}

impl Execution for InOrder {
    fn deliver(&mut self, ordered: Ordered) {
        let places = match &ordered {
            Ordered::Batch(_, _, batch) => 1 + u64::from(batch.header().count),
            _ => 1,
        };
        let first = self.next_place;
        self.next_place += places;
        if let Ordered::Batch(_, _, batch) = &ordered {
            self.bytes += batch.bytes().len();
        }
        self.delivered.push_back(Item { ordered, first, places });
        self.plan_more();
    }

    fn next(&mut self, now: Time, outcomes: &mut Outcomes) -> Option<Final> {
        self.plan_more();
        let next = self.delivered.front()?;
        if !self.is_settled(now, next.first + next.places) {
            return None;
        }
        let done = self.take_next(outcomes)?;
        while matches!(done, Final::Batch(_))
            && self.delivered.front().is_some_and(|next| next.ordered.follows())
        {
            self.take_next(outcomes);
        }
        outcomes.set_events(self.executor.take_events());
        Some(done)
    }

    fn deadline(&self) -> Option<Time> {
        self.held_up.map(|(_, since)| since.plus(PATIENCE))
    }

    fn work(&mut self) -> Option<Work> {
        if self.pieces >= PIECES_EACH * self.workers || !self.plan.has_ready() {
            return None;
        }
        let next = self.delivered.front()?;
        let (base, next_ends) = (next.first, next.first + next.places);
        let version = self.version()?;
        let (service, replies_max) = (&self.service, self.executor.replies_max());
        let ground = Ground { service, version: &version, base, next_ends, replies_max };
        let tasks = std::iter::from_fn(|| self.plan.next_task(&ground)).take(self.costs.tasks());
        let tasks: Vec<Task> = tasks.collect();
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
        done.0.into_iter().for_each(|done| self.plan.done(done));
    }

    fn has_room(&self) -> bool {
        self.bytes < self.limits.bytes && self.delivered.len() < self.limits.items
    }

    fn parallelism(&self) -> Option<Parallelism> {
        let counts = self.plan.counts;
        Some(Parallelism {
            mean_nanos: self.costs.mean(),
            on_workers: self.costs.on_workers(),
            runs: counts.runs,
            void: counts.void,
            adopted: counts.adopted,
            ..Parallelism::default()
        })
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

    fn take_over(&mut self, known: &Known<'_>) {
        self.version = None;
        self.executor.follow(known.at, known.batch, known.outcomes, known.changed);
    }

    fn restore(&mut self, system: &[u8], objects: &Version) -> Result<(), CheckpointError> {
        self.delivered.clear();
        (self.planned, self.bytes, self.version) = (0, 0, None);
        // What is on its way counts for nothing, and may never come back.
        self.pieces = 0;
        self.plan.forget_all();
        self.held_up = None;
        self.executor.restore_image(system, objects)
    }

    fn invariants(&self) {
        self.plan.invariants();
    }
}

impl Executor {
    /// The objects as they are now, if the service is in the store.
    fn objects_now(&self) -> Option<Version> {
        self.service().store().map(Store::version)
    }
}
