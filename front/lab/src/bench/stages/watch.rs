//! How long each stage takes where one thread does them all, one after the other.

use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// A stage of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::bench) enum Stage {
    /// TLS of what arrives
    Open,
    Admit,
    Order,
    Log,
    Execute,
    /// TLS of replies
    Reply,
}

impl Stage {
    const ALL: [Self; 6] = [Self::Open, Self::Admit, Self::Order, Self::Log, Self::Execute, Self::Reply];
}

/// Looks at the clock when a stage ends, if it runs: that takes some time itself.
#[derive(Debug, Default)]
pub(super) struct Watch {
    last: Option<Instant>,
    took: [Duration; Stage::ALL.len()],
}

impl Watch {
    pub(super) fn new(runs: bool) -> Self {
        Self { last: runs.then(Instant::now), took: Default::default() }
    }

    /// What was before belongs to no stage.
    pub(super) fn begins(&mut self) {
        self.last = self.last.map(|_| Instant::now());
    }

    /// What was since the last look belongs to this stage.
    pub(super) fn ends(&mut self, stage: Stage) {
        if let Some(last) = &mut self.last {
            let now = Instant::now();
            self.took[stage as usize] += now - *last;
            *last = now;
        }
    }

    /// The share of each stage; none if the watch did not run. Shares are right even if other programs had the processor now and then.
    pub(super) fn shares(&self) -> Vec<(Stage, f64)> {
        let all = self.took.iter().sum::<Duration>().as_secs_f64();
        let share = |stage: Stage| (stage, self.took[stage as usize].as_secs_f64() / all);
        if all > 0.0 { Stage::ALL.map(share).to_vec() } else { Vec::new() }
    }
}
