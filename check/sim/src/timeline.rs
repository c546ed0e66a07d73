//! Virtual time: future events, randomness beside the plan, and the trace of what happened.

use crate::queue::{Event, Queue};
use crate::random::Rng;
use crate::trace::{Arrow, Level, Trace};

/// The time of one run.
#[derive(Debug)]
pub struct Timeline {
    now: u64,
    queue: Queue,
    rng: Rng,
    trace: Trace,
}

impl Timeline {
    /// The timeline of a run of this seed in which nothing has happened yet.
    pub fn new(seed: u64, trace: Trace) -> Self {
        Self { now: 0, queue: Queue::new(Rng::of(seed, 3)), rng: Rng::of(seed, 5), trace }
    }

    /// The time, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Adds an event at this time.
    pub fn at(&mut self, at: u64, event: Event) {
        self.queue.push(at, event);
    }

    /// Adds an event this much later.
    pub fn after(&mut self, wait: u64, event: Event) {
        self.queue.push(self.now + wait, event);
    }

    /// The next event, if it happens until `end`. The time becomes that of the event.
    pub fn next(&mut self, end: u64) -> Option<Event> {
        let (at, event) = self.queue.pop_until(end)?;
        self.now = at;
        self.trace.events += 1;
        self.trace.mix(&[at]);
        Some(event)
    }

    /// How many events there were.
    pub fn events(&self) -> u64 {
        self.trace.events
    }

    /// The randomness of the run.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// Adds words to the hash of what happened.
    pub fn mix(&mut self, words: &[u64]) {
        self.trace.mix(words);
    }

    /// Notes something that a process, or the world, did.
    pub fn note(
        &mut self,
        level: Level,
        who: Option<usize>,
        what: &'static str,
        text: impl FnOnce() -> String,
    ) {
        self.trace.line(level, self.now, who, what, text);
    }

    /// Notes that a process received a message now.
    pub fn arrow(&mut self, sent: (u64, usize), receiver: usize, bytes: usize) {
        self.trace.arrow(Arrow { sent, got: (self.now, receiver), bytes });
    }

    /// The name of a process.
    pub fn name(&self, who: usize) -> String {
        self.trace.name(who)
    }

    /// What happened.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }
}

#[cfg(test)]
mod tests;
