//! Load at a given rate, however fast the cluster is. Calls are due at fixed moments, and a latency counts from the moment at which the
//! call was due. So a slow cluster makes the following calls late as well, as it does for users.
//!
//! Every call that was due in the measured time counts, also if it ends after that: the calls that wait the longest would be missing else.

use super::cpu::Cpu;
use super::load::{Look, Work, open};
use super::target::Target;
use hdrhistogram::Histogram;
use quorate::client::{Completed, CompletionQueue, Error};
use quorate_command::failure::{Failure, Outcome};
use std::time::{Duration, Instant};

/// How often the replicas are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long the last calls may take after their time-out.
const STALL: Duration = Duration::from_secs(30);
/// A call that is sent this long after it was due was sent late: the load generator fell behind its plan.
pub(super) const LATE: Duration = Duration::from_millis(1);

/// How much load, at what rate, for how long.
pub(super) struct Pace {
    pub(super) sessions: usize,
    /// Calls per second.
    pub(super) calls_per_s: f64,
    /// The most calls under way. A call that is due then is not sent.
    pub(super) outstanding_max: usize,
    /// How long a call waits for its answer.
    pub(super) timeout: Duration,
    pub(super) warm: Duration,
    pub(super) measure: Duration,
}

/// The result. Every call that was due is in one of: `latency`, `refused`, `timed_out`, `failed`, `skipped`.
pub(super) struct Provided {
    /// When the measured time began and ended.
    pub(super) begin: Instant,
    end: Instant,
    /// Calls that were due in the measured time; and those of them that were never sent.
    pub(super) due: u64,
    pub(super) skipped: u64,
    /// Calls that were sent late, and how late the latest was.
    pub(super) sent_late: u64,
    pub(super) latest: Duration,
    /// Calls answered in the measured time, whenever they were due.
    pub(super) answered: u64,
    pub(super) seconds: f64,
    /// Latency of calls that were due in the measured time and were answered, in nanoseconds.
    pub(super) latency: Histogram<u64>,
    /// Calls for which there was no room (`Overloaded`), that had no answer in time, and that failed otherwise.
    pub(super) refused: u64,
    pub(super) timed_out: u64,
    pub(super) failed: u64,
    /// How long the longest of these three took to fail.
    pub(super) longest_failure: Duration,
    /// Calls without an answer, whenever they were due, and why the first of them had none.
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
    /// Processor time in the measured time, of all replicas and of the load generator; `None` when a replica came or went, or is elsewhere.
    pub(super) replicas_cpu: Option<Cpu>,
    /// That of the oracle, where the cluster was started with one.
    pub(super) oracle_cpu: Option<Cpu>,
    pub(super) load_cpu: Option<Cpu>,
}

impl Provided {
    /// Nothing is due yet.
    pub(super) fn between(begin: Instant, end: Instant) -> Outcome<Self> {
        Ok(Self {
            begin,
            end,
            due: 0,
            skipped: 0,
            sent_late: 0,
            latest: Duration::ZERO,
            answered: 0,
            seconds: (end - begin).as_secs_f64(),
            latency: Histogram::new(3).map_err(|why| Failure::new(format!("no histogram: {why}")))?,
            refused: 0,
            timed_out: 0,
            failed: 0,
            longest_failure: Duration::ZERO,
            errors: 0,
            first_error: None,
            replicas_cpu: None,
            oracle_cpu: None,
            load_cpu: None,
        })
    }

    fn counts(&self, due: Instant) -> bool {
        (self.begin..self.end).contains(&due)
    }

    /// A call was due, and is sent now unless too many are under way.
    pub(super) fn was_due(&mut self, due: Instant, now: Instant, sent: bool) {
        if !self.counts(due) {
            return;
        }
        self.due += 1;
        if !sent {
            self.skipped += 1;
            return;
        }
        let late = now.saturating_duration_since(due);
        self.sent_late += u64::from(late >= LATE);
        self.latest = self.latest.max(late);
    }

    /// A call that was due then was answered now.
    pub(super) fn was_answered(&mut self, due: Instant, now: Instant) {
        self.answered += u64::from((self.begin..self.end).contains(&now));
        if self.counts(due) {
            // The histogram grows as it must; it has no upper limit that a latency could reach.
            let _ = self.latency.record((now - due).as_nanos() as u64);
        }
    }

    /// A call that was due then ended now without an answer.
    pub(super) fn has_failed(&mut self, due: Instant, now: Instant, error: &Error) {
        self.errors += 1;
        self.first_error.get_or_insert_with(|| error.to_string());
        if !self.counts(due) {
            return;
        }
        self.longest_failure = self.longest_failure.max(now - due);
        match error {
            Error::Overloaded { .. } => self.refused += 1,
            Error::DeadlineExceeded { .. } => self.timed_out += 1,
            _ => self.failed += 1,
        }
    }

    /// Whether so many calls were sent late that the load was another one than was asked for.
    pub(super) fn fell_behind(&self) -> bool {
        self.sent_late * 100 > self.due
    }
}

/// Processor time at the begin and at the end of the measured time.
#[derive(Default)]
struct Looks {
    before: Option<Look>,
    after: Option<Look>,
}

impl Looks {
    fn take(&mut self, target: &Target, provided: &Provided, now: Instant) {
        if self.before.is_none() && now >= provided.begin {
            self.before = Look::take(target).ok();
        }
        if self.after.is_none() && now >= provided.end {
            self.after = Look::take(target).ok();
        }
    }

    fn put_into(&self, provided: &mut Provided) {
        let (Some(before), Some(after)) = (&self.before, &self.after) else { return };
        provided.load_cpu = Some(after.load.since(before.load));
        provided.oracle_cpu = after.oracle_since(before);
        let same = !before.replicas.is_empty() && before.pids == after.pids;
        provided.replicas_cpu = same.then(|| {
            let each = after.replicas.iter().zip(&before.replicas);
            each.fold(Cpu::default(), |sum, (after, before)| sum.plus(after.since(*before)))
        });
    }
}

/// Sends calls by the plan and measures them; returns once all have ended.
pub(super) fn run(target: &mut Target, pace: &Pace, work: &mut dyn Work) -> Outcome<Provided> {
    let sessions = open(target, pace.sessions, pace.timeout)?;
    let queue = CompletionQueue::new();
    let mut free: Vec<usize> = (0..pace.outstanding_max).rev().collect();
    let mut due_at: Vec<Instant> = vec![Instant::now(); pace.outstanding_max];
    let every = Duration::from_secs_f64(1.0 / pace.calls_per_s.max(0.1));
    let start = Instant::now();
    let (begin, end) = (start + pace.warm, start + pace.warm + pace.measure);
    let mut provided = Provided::between(begin, end)?;
    let mut looks = Looks::default();
    let (mut next, mut number, mut looked) = (start, 0_usize, start);
    let mut batch: Vec<Completed> = Vec::new();
    loop {
        let now = Instant::now();
        looks.take(target, &provided, now);
        while next <= now && next < end {
            let slot = free.pop();
            provided.was_due(next, Instant::now(), slot.is_some());
            if let Some(slot) = slot {
                due_at[slot] = next;
                sessions[number % sessions.len()].submit(work.next(slot), slot, &queue);
            }
            number += 1;
            next += every;
        }
        if now >= end && free.len() == pace.outstanding_max {
            looks.put_into(&mut provided);
            return Ok(provided);
        }
        if now >= end + pace.timeout + STALL {
            let open = pace.outstanding_max - free.len();
            return Err(Failure::new(format!("{open} calls were not answered in time")));
        }
        if now - looked >= LOOK {
            looked = now;
            target.check()?;
        }
        let wait = if now < end { next.saturating_duration_since(now).min(LOOK) } else { LOOK };
        queue.recv_batch(&mut batch, wait);
        let now = Instant::now();
        for Completed { tag, result, .. } in batch.drain(..) {
            let slot = tag as usize;
            free.push(slot);
            match result {
                Ok(answer) => {
                    work.answered(slot, &answer)?;
                    provided.was_answered(due_at[slot], now);
                }
                Err(error) => provided.has_failed(due_at[slot], now, &error),
            }
        }
    }
}
