//! How long each stage of a batch took here, for the log of slow requests and for traces: the witness of a replica ([`quorate_node::Witness`]).
//!
//! Moments of one batch are told from those of others by its seed, until it has its place in the global log. What is noted is per batch, and a
//! few numbers; the clock is read when execution begins, when a batch is executed, and when replies left. A batch is done when its replies have
//! left and its record is durable here, which may be later. Tests: stages/tests.rs.

mod life;
mod slow;
#[cfg(test)]
mod tests;

use crate::clock::Clock;
use crate::config::Config;
use crate::traces::{Origin, StageSpan, Trace, Traces, TracesCounts, TracesStatus};
use life::{Asked, Life, Place, Stage};
use quorate_execute::{Executor, Outcome};
use quorate_node::{Moment, Sealed, Witness};
use quorate_types::{Items, RecordId, ReplicaId, Seq, Span, Time};
use quorate_wire::{Batch, RequestHeader, RequestKind};
use serde::Serialize;
use slow::Lines;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// So many batches may be under way. A batch that never gets a place, since its leader lost its view, goes as later ones come.
const LIVES_MAX: usize = 4096;
/// So many requests of a slow batch are named.
const NAMED_MAX: usize = 8;

/// How often something was slow since the process started.
#[derive(Debug, Default)]
struct Slow {
    executions: AtomicU64,
    requests: AtomicU64,
}

/// As it stands in the status.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq)]
pub(crate) struct SlowStatus {
    /// Batches whose execution took too long.
    executions: u64,
    /// Batches whose requests waited too long.
    requests: u64,
}

/// What the status says of what was seen.
#[derive(Debug)]
pub(crate) struct Seen {
    slow: Arc<Slow>,
    traces: Option<TracesCounts>,
}

impl Seen {
    pub(crate) fn slow(&self) -> SlowStatus {
        self.slow.status()
    }

    /// None where there are no traces.
    pub(crate) fn traces(&self) -> Option<TracesStatus> {
        self.traces.as_ref().map(TracesCounts::status)
    }
}

impl Slow {
    fn status(&self) -> SlowStatus {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        SlowStatus { executions: get(&self.executions), requests: get(&self.requests) }
    }
}

/// From when on something is slow; none: it never is.
#[derive(Clone, Copy, Debug)]
struct Limits {
    execution: Option<Span>,
    request: Option<Span>,
}

/// See the module.
pub(crate) struct Stages {
    clock: Arc<dyn Clock>,
    limits: Limits,
    slow: Arc<Slow>,
    lines: Lines,
    traces: Option<Traces>,
    /// The batches that are not done, about in the order in which they began.
    lives: VecDeque<Life>,
    /// When the plain execution went on to the next batch.
    executes: Option<Time>,
    /// How many batches are executed whose replies have not left.
    unreplied: usize,
}

impl Stages {
    /// What watches a replica, if the configuration wants anything that needs it, and where it counts.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn of(config: &Config, clock: Arc<dyn Clock>) -> io::Result<(Option<Box<dyn Witness>>, Seen)> {
        let slow = Arc::new(Slow::default());
        let telemetry = &config.telemetry;
        let limits = Limits { execution: telemetry.slow_execution(), request: telemetry.slow_request() };
        let (cluster, replica) = (config.cluster_id().unwrap_or_default(), ReplicaId::new(config.replica));
        let service = config.service.name.clone();
        let traces = Traces::start(telemetry, Origin { cluster, replica, service: service.clone() })?;
        let (traces, counts) = traces.unzip();
        let seen = Seen { slow: slow.clone(), traces: counts };
        if limits.execution.is_none() && limits.request.is_none() && traces.is_none() {
            return Ok((None, seen));
        }
        let stages = Self { traces, ..Self::new(clock, limits, slow, service) };
        Ok((Some(Box::new(stages)), seen))
    }

    fn new(clock: Arc<dyn Clock>, limits: Limits, slow: Arc<Slow>, service: String) -> Self {
        let (lines, traces) = (Lines::new(service), None);
        Self { clock, limits, slow, lines, traces, lives: VecDeque::new(), executes: None, unreplied: 0 }
    }

    /// The batch with this seed. The newest are looked at first: what never got a place stays behind.
    fn life(&mut self, seed: u64) -> &mut Life {
        let at = match self.lives.iter().rposition(|life| life.seed == seed && life.executed.is_none()) {
            Some(at) => at,
            None => {
                if self.lives.len() == LIVES_MAX
                    && let Some(oldest) = self.lives.pop_front()
                {
                    self.unreplied -= usize::from(oldest.executed.is_some() && oldest.replied.is_none());
                    self.is_done(oldest);
                }
                self.lives.push_back(Life::new(seed));
                self.lives.len() - 1
            }
        };
        &mut self.lives[at]
    }

    fn sealed(&mut self, Sealed { seed, since, at }: Sealed) {
        // It may be executed already, where a replica is alone.
        let known = self.lives.iter_mut().rev().find(|life| life.seed == seed);
        match known {
            Some(life) => (life.since, life.sealed) = (Some(since), Some(at)),
            None => {
                let life = self.life(seed);
                (life.since, life.sealed) = (Some(since), Some(at));
            }
        }
    }

    fn durable(&mut self, record: RecordId, at: Time) {
        let mut done = false;
        for life in self.lives.iter_mut().filter(|life| life.durable.is_none()) {
            if life.record.is_some_and(|own| own <= record) {
                life.durable = Some(at);
                done |= life.is_done();
            }
        }
        if done {
            self.finish();
        }
    }

    fn executed(&mut self, seq: Seq, outcomes: &[Outcome], executor: &Executor) {
        let now = self.clock.now();
        let began = self.executes.take();
        let Some(life) = self.lives.iter_mut().rev().find(|life| life.place.is_some_and(|at| at.seq == seq))
        else {
            return;
        };
        let delivered = life.delivered.unwrap_or(now);
        // The clock of a step is a little older than that of the moment.
        life.executes = Some(began.unwrap_or(delivered).max(delivered));
        life.executed = Some(now);
        self.unreplied += 1;
        let took = now.since(life.executes.unwrap_or(now));
        let is_slow = self.limits.execution.is_some_and(|limit| took >= limit);
        let waited = life.since.map(|since| now.since(since));
        if is_slow || self.limits.request.zip(waited).is_some_and(|(limit, waited)| waited >= limit) {
            life.asked = asked(outcomes, executor);
        }
        if self.traces.as_ref().is_some_and(|traces| traces.wants(seq)) {
            life.clients = clients(outcomes, executor);
        }
        if is_slow && life.place.is_some_and(|at| at.count > 0) {
            self.slow.executions.fetch_add(1, Ordering::Relaxed);
            self.lines.execution(now, life, took);
        }
    }

    fn replied(&mut self) {
        if self.lines.owe_count() {
            self.lines.count(self.clock.now());
        }
        if self.unreplied == 0 {
            return;
        }
        let now = self.clock.now();
        self.unreplied = 0;
        for life in self.lives.iter_mut().filter(|life| life.executed.is_some()) {
            life.replied.get_or_insert(now);
        }
        self.finish();
    }

    /// Takes out the batches that are done.
    fn finish(&mut self) {
        let mut at = 0;
        while let Some(life) = self.lives.get(at) {
            if life.is_done() {
                if let Some(life) = self.lives.remove(at) {
                    self.is_done(life);
                }
            } else {
                at += 1;
            }
        }
    }

    /// Hands over what is traced. What was read back from the log at a start is not: its trace is there from the time before.
    fn trace(&self, life: &Life) {
        let Some(place) = life.place.filter(|place| place.count > 0 && life.logged.is_some()) else { return };
        let Some(traces) = self.traces.as_ref().filter(|traces| traces.wants(place.seq)) else { return };
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let now = self.clock.now();
        let unix = |at: Time| since_1970.saturating_sub(now.since(at).nanos());
        let span = |(stage, began, ended): (Stage, Time, Time)| StageSpan {
            name: stage.name(),
            began: unix(began),
            ended: unix(ended.max(began)),
        };
        let whole = life.since.zip(life.replied).map(|(since, replied)| (unix(since), unix(replied)));
        traces.take(Trace {
            seq: place.seq,
            instance: place.instance,
            view: place.view,
            requests: place.count,
            commands: life.commands,
            clients: life.clients,
            bytes: place.bytes,
            whole,
            stages: life.stages().map(span).collect(),
        });
    }

    fn is_done(&mut self, life: Life) {
        self.trace(&life);
        let (Some(since), Some(replied), Some(place)) = (life.since, life.replied, life.place) else {
            return;
        };
        // Whoever leads now answers what an earlier leader proposed; that one knows when it came in.
        if self.limits.request.is_some_and(|limit| replied.since(since) >= limit) && place.count > 0 {
            self.slow.requests.fetch_add(1, Ordering::Relaxed);
            self.lines.request(self.clock.now(), &life, replied.since(since));
        }
    }
}

/// How many clients a batch is from.
fn clients(outcomes: &[Outcome], executor: &Executor) -> u32 {
    let client = |outcome: &Outcome| outcome.opening.or_else(|| executor.client(outcome.session));
    outcomes.iter().filter_map(client).collect::<BTreeSet<_>>().len() as u32
}

/// How many commands a batch has. Each request that brings none, such as an opening, counts as one.
fn commands(batch: &Batch) -> u32 {
    let count = |(header, body, _): (RequestHeader, &[u8], &[u8])| match header.kind {
        RequestKind::Commands => Items::parse(body).map_or(0, |commands| commands.len() as u32),
        _ => 1,
    };
    batch.requests().flatten().map(count).sum()
}

/// The clients of a batch, and the numbers of their requests; the first of them only.
fn asked(outcomes: &[Outcome], executor: &Executor) -> Vec<Asked> {
    let named = outcomes.iter().take(NAMED_MAX);
    let client = |outcome: &Outcome| outcome.opening.or_else(|| executor.client(outcome.session));
    named.map(|outcome| Asked { client: client(outcome), number: outcome.number }).collect()
}

impl Witness for Stages {
    fn hears(&mut self, moment: Moment<'_>) {
        match moment {
            Moment::Sealed(sealed) => self.sealed(sealed),
            Moment::Logged { seed, record, at, durable } => {
                let life = self.life(seed);
                // Of several records of a slot the first counts.
                if life.logged.is_none() {
                    (life.logged, life.record, life.durable) =
                        (Some(at), Some(record), durable.then_some(at));
                }
            }
            Moment::Durable(record, at) => self.durable(record, at),
            Moment::Decided { seed, at } => self.life(seed).decided = Some(at),
            Moment::Delivered { seq, batch, instance: (instance, view), proposed, at } => {
                let header = batch.header();
                let (count, bytes) = (header.count, batch.bytes().len());
                let is_traced = self.traces.as_ref().is_some_and(|traces| traces.wants(seq));
                let life = self.life(header.seed);
                if is_traced {
                    life.commands = commands(batch);
                }
                life.place = Some(Place { seq, instance, view, count, bytes, proposed });
                life.delivered = Some(at);
            }
            Moment::Executes => self.executes = Some(self.clock.now()),
            Moment::Executed { seq, outcomes, executor } => self.executed(seq, outcomes, executor),
            Moment::Replied => self.replied(),
        }
    }
}
