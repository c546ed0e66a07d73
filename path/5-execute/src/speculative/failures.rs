//! How often replicas came to different results, by what the log ruled: after a few times commands run one after the other for a while.
//!
//! Source: Kapritsos (Eve), section 3.4: after a rollback the batch runs alone, and a workload that conflicts all the time would
//! run everything twice.

use quorate_types::Seq;
use std::collections::VecDeque;

/// So many rollbacks within so many seqs are too many.
const FAILURES: usize = 3;
const WITHIN: u64 = 256;
/// For so many seqs commands run alone then: first and at most.
const PAUSE: (u64, u64) = (16, 1024);

/// See the module.
#[derive(Debug)]
pub(super) struct Failures {
    recent: VecDeque<Seq>,
    alone_until: Seq,
    pause: u64,
}

impl Failures {
    pub(super) const fn new() -> Self {
        Self { recent: VecDeque::new(), alone_until: Seq::ZERO, pause: PAUSE.0 }
    }

    /// Everything up to this seq ran again.
    pub(super) fn failed(&mut self, seq: Seq) {
        if seq.number() > self.alone_until.number() + PAUSE.1 {
            self.pause = PAUSE.0;
        }
        self.recent.push_back(seq);
        while self.recent.front().is_some_and(|first| first.number() + WITHIN < seq.number()) {
            self.recent.pop_front();
        }
        if self.recent.len() >= FAILURES {
            self.recent.clear();
            self.alone_until = Seq::new(seq.number() + self.pause);
            self.pause = (2 * self.pause).min(PAUSE.1);
        }
    }

    /// Whether the batch of this seq runs alone.
    pub(super) fn alone(&self, seq: Seq) -> bool {
        seq <= self.alone_until
    }
}
