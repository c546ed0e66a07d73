//! Load at a given rate, however fast the cluster is. Calls are due at fixed moments, and a latency counts from the moment at which the
//! call was due. So a slow cluster makes the following calls late as well, as it does for users.

use super::load::{Work, open};
use super::target::Target;
use hdrhistogram::Histogram;
use quorate::client::{Completed, CompletionQueue};
use quorate_command::failure::{Failure, Outcome};
use std::time::{Duration, Instant};

/// How often the replicas are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long the last calls may take.
const STALL: Duration = Duration::from_secs(30);

/// How much load, at what rate, for how long.
pub(super) struct Pace {
    pub(super) sessions: usize,
    /// Calls per second.
    pub(super) calls_per_s: f64,
    /// The most calls under way. A call that is due then is not sent.
    pub(super) outstanding_max: usize,
    pub(super) warm: Duration,
    pub(super) measure: Duration,
}

/// The result.
pub(super) struct Provided {
    /// Calls that were due in the measured time; and those of them that were never sent.
    pub(super) due: u64,
    pub(super) skipped: u64,
    /// Calls answered in the measured time.
    pub(super) answered: u64,
    pub(super) seconds: f64,
    /// Latency of calls that were due and answered in the measured time, in nanoseconds.
    pub(super) latency: Histogram<u64>,
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
}

/// Sends calls by the plan and measures them; returns once all are answered.
pub(super) fn run(target: &mut Target, pace: &Pace, work: &mut dyn Work) -> Outcome<Provided> {
    let sessions = open(target, pace.sessions)?;
    let queue = CompletionQueue::new();
    let histogram = Histogram::new(3).map_err(|why| Failure::new(format!("no histogram: {why}")))?;
    let mut free: Vec<usize> = (0..pace.outstanding_max).rev().collect();
    let mut due_at: Vec<Instant> = vec![Instant::now(); pace.outstanding_max];
    let every = Duration::from_secs_f64(1.0 / pace.calls_per_s.max(0.1));
    let start = Instant::now();
    let (begin, end) = (start + pace.warm, start + pace.warm + pace.measure);
    let mut provided = Provided {
        due: 0,
        skipped: 0,
        answered: 0,
        seconds: pace.measure.as_secs_f64(),
        latency: histogram,
        errors: 0,
        first_error: None,
    };
    let (mut next, mut number, mut looked) = (start, 0_usize, start);
    let mut batch: Vec<Completed> = Vec::new();
    loop {
        let now = Instant::now();
        while next <= now && next < end {
            let counts = next >= begin;
            provided.due += u64::from(counts);
            match free.pop() {
                Some(slot) => {
                    due_at[slot] = next;
                    sessions[number % sessions.len()].submit(work.next(slot), slot, &queue);
                }
                None => provided.skipped += u64::from(counts),
            }
            number += 1;
            next += every;
        }
        if now >= end && free.len() == pace.outstanding_max {
            return Ok(provided);
        }
        if now >= end + STALL {
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
        for completed in batch.drain(..) {
            let slot = completed.tag as usize;
            free.push(slot);
            match completed.result {
                Ok(answer) => {
                    work.answered(slot, &answer)?;
                    provided.answered += u64::from((begin..end).contains(&now));
                    if due_at[slot] >= begin && now < end {
                        let _ = provided.latency.record((now - due_at[slot]).as_nanos() as u64);
                    }
                }
                Err(error) => {
                    provided.errors += 1;
                    provided.first_error.get_or_insert_with(|| error.to_string());
                }
            }
        }
    }
}
