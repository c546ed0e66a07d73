//! When replicas wrote checkpoints: their status is asked for again and again while the load runs.
//!
//! The status says in `checkpoints` the seq of the last durable checkpoint and of the one being written. A replica that stops for a
//! checkpoint answers only afterwards: then the first seq has changed, and the time since the previous question counts.

use quorate::client::BlockingClient;
use quorate_types::ReplicaId;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often each replica is asked. Each question takes a new connection, so it is no more often than the curves have points.
const ASK: Duration = Duration::from_millis(100);

/// A span of time, in seconds since the window began.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(in crate::bench) struct Span {
    pub(in crate::bench) from_s: f64,
    pub(in crate::bench) to_s: f64,
}

/// What a status says of checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bench) struct Seen {
    /// The seq of the last one that is durable.
    pub(in crate::bench) done: u64,
    /// The seq of the one that is being written.
    pub(in crate::bench) writing: Option<u64>,
}

impl Seen {
    /// `None` when the status says nothing of checkpoints, as those of other versions may.
    pub(in crate::bench) fn of(status: &str) -> Option<Self> {
        let status: Value = serde_json::from_str(status).ok()?;
        let checkpoints = status.get("checkpoints")?.as_object()?;
        let done = checkpoints.get("durable_seq").and_then(Value::as_u64)?;
        Some(Self { done, writing: checkpoints.get("writing").and_then(Value::as_u64) })
    }
}

/// Turns statuses, in their order, into spans.
#[derive(Default)]
pub(in crate::bench) struct Follow {
    spans: Vec<(Instant, Instant)>,
    begun: Option<(Instant, u64)>,
    before: Option<(Instant, Seen)>,
}

impl Follow {
    /// Takes the status that answers a question asked at `asked`.
    pub(in crate::bench) fn saw(&mut self, asked: Instant, answered: Instant, seen: Seen) {
        let written = self.before.is_some_and(|(_, before)| before.done != seen.done);
        match (self.begun, seen.writing) {
            (None, Some(seq)) => self.begun = Some((asked, seq)),
            (Some((begun, _)), None) => {
                self.spans.push((begun, answered));
                self.begun = None;
            }
            // One ended and the next began since the question before.
            (Some((begun, before)), Some(seq)) if before != seq => {
                self.spans.push((begun, asked));
                self.begun = Some((asked, seq));
            }
            // Begun and done between two answers.
            (None, None) if written => {
                let since = self.before.map_or(asked, |(at, _)| at);
                self.spans.push((since, answered));
            }
            _ => {}
        }
        self.before = Some((asked, seen));
    }

    /// How many checkpoints, and when.
    pub(in crate::bench) fn finish(mut self, now: Instant) -> Vec<(Instant, Instant)> {
        self.spans.extend(self.begun.map(|(begun, _)| (begun, now)));
        self.spans
    }
}

/// Asks all replicas until it is stopped.
pub(in crate::bench) struct Watch {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<(bool, Follow)>>,
}

/// The spans of all replicas.
pub(in crate::bench) struct Marks {
    /// Whether any replica's status spoke of checkpoints.
    pub(in crate::bench) known: bool,
    /// By replica.
    pub(in crate::bench) spans: Vec<Vec<Span>>,
    /// The times in which any replica wrote a checkpoint, in order.
    pub(in crate::bench) any: Vec<Span>,
}

impl Watch {
    /// Begins to ask these replicas.
    pub(in crate::bench) fn start(client: &BlockingClient, replicas: &[ReplicaId]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let watch = |replica: &ReplicaId| {
            let (client, replica, stop) = (client.clone(), *replica, stop.clone());
            std::thread::spawn(move || follow(&client, replica, &stop))
        };
        Self { threads: replicas.iter().map(watch).collect(), stop }
    }

    /// Stops asking; times are counted from `began`.
    pub(in crate::bench) fn finish(mut self, began: Instant) -> Marks {
        self.stop.store(true, Ordering::Release);
        let (mut known, mut spans) = (false, Vec::new());
        for thread in std::mem::take(&mut self.threads) {
            let Ok((knew, follow)) = thread.join() else { continue };
            known |= knew;
            let seconds = |at: Instant| match at.checked_duration_since(began) {
                Some(after) => after.as_secs_f64(),
                None => -began.duration_since(at).as_secs_f64(),
            };
            let of = follow.finish(Instant::now());
            spans.push(
                of.into_iter().map(|(from, to)| Span { from_s: seconds(from), to_s: seconds(to) }).collect(),
            );
        }
        let any = union(spans.iter().flatten().copied().collect());
        Marks { known, spans, any }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

fn follow(client: &BlockingClient, replica: ReplicaId, stop: &AtomicBool) -> (bool, Follow) {
    let (mut known, mut follow) = (false, Follow::default());
    while !stop.load(Ordering::Acquire) {
        let asked = Instant::now();
        // One that does not answer is asked again.
        if let Some(seen) = client.status(replica).ok().as_deref().and_then(Seen::of) {
            known = true;
            follow.saw(asked, Instant::now(), seen);
        }
        std::thread::sleep(ASK.saturating_sub(asked.elapsed()));
    }
    (known, follow)
}

/// The union of the spans, in order and without overlaps.
pub(in crate::bench) fn union(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by(|a, b| a.from_s.total_cmp(&b.from_s));
    let mut apart: Vec<Span> = Vec::new();
    for span in spans {
        match apart.last_mut() {
            Some(last) if span.from_s <= last.to_s => last.to_s = last.to_s.max(span.to_s),
            _ => apart.push(span),
        }
    }
    apart
}
