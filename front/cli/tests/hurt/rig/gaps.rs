//! How long clients waited for the next acknowledged write, and what went on then.

use super::recorder::Recorder;
use quorate_history::{Op, Outcome};
use std::sync::Arc;

/// The steps of a test, with when each began.
pub(crate) struct Steps {
    recorder: Arc<Recorder>,
    begun: Vec<(u64, String)>,
}

impl Steps {
    pub(crate) fn new(recorder: &Arc<Recorder>) -> Self {
        Self { recorder: recorder.clone(), begun: Vec::new() }
    }

    pub(crate) fn begin(&mut self, step: impl Into<String>) {
        self.begun.push((self.recorder.now(), step.into()));
    }

    /// The longest times between two writes that were acknowledged, one after the other, of all clients together, each with the step
    /// in which it ended.
    pub(crate) fn longest(&self, count: usize) -> Vec<(f64, String)> {
        let is_write = |op: &Op| !matches!(op, Op::Get | Op::ReadWeak);
        let events = self.recorder.events();
        let acknowledged = events.iter().filter(|event| is_write(&event.op));
        let mut times: Vec<u64> = acknowledged
            .filter_map(|event| match &event.outcome {
                Outcome::Ok { ret, .. } => Some(*ret),
                _ => None,
            })
            .collect();
        times.sort_unstable();
        let mut gaps: Vec<(u64, u64)> = times.windows(2).map(|pair| (pair[1] - pair[0], pair[1])).collect();
        gaps.sort_unstable_by(|a, b| b.cmp(a));
        gaps.truncate(count);
        let step = |end: u64| self.begun.iter().rev().find(|(at, _)| *at <= end);
        let named =
            |end| step(end).map_or_else(|| "before the first step".to_owned(), |(_, step)| step.clone());
        gaps.into_iter().map(|(gap, end)| (gap as f64 / 1e6, named(end))).collect()
    }

    /// Prints them.
    pub(crate) fn print(&self) {
        println!("the longest gaps between acknowledged writes of all clients:");
        for (ms, step) in self.longest(5) {
            println!("  {ms:7.1} ms  {step}");
        }
    }
}
