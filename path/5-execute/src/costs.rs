//! Where requests run: cheap ones on the lane, since handing one over costs more than it saves.

/// The share of a new measurement.
const SHARE: u64 = 8;
/// One piece of work should take about this long, so that handing it over costs little.
const PIECE: u64 = 100_000;
/// The most requests in one piece of work.
const TASKS_MAX: u64 = 32;

/// How long requests take, in nanoseconds.
#[derive(Debug)]
pub(crate) struct Costs {
    /// On average longer requests go to the workers. Once they take less than half of this, they stay on the lane again.
    long: u64,
    mean: Option<u64>,
    on_workers: bool,
}

impl Costs {
    /// Requests that take so long on average go to the workers; with 0 all of them.
    pub(crate) const fn new(long: u64) -> Self {
        Self { long, mean: None, on_workers: long == 0 }
    }

    /// So many requests took so long in all.
    pub(crate) fn took(&mut self, nanos: u64, requests: u64) {
        if requests == 0 {
            return;
        }
        let each = nanos / requests;
        let mean = self.mean.map_or(each, |mean| mean - mean / SHARE + each / SHARE);
        self.mean = Some(mean);
        self.on_workers = mean >= if self.on_workers { self.long / 2 } else { self.long };
    }

    /// Whether requests go to the workers.
    pub(crate) const fn on_workers(&self) -> bool {
        self.on_workers
    }

    /// The average.
    pub(crate) fn mean(&self) -> u64 {
        self.mean.unwrap_or(0)
    }

    /// How many requests one piece of work should have.
    pub(crate) fn tasks(&self) -> usize {
        (PIECE / self.mean().max(1)).clamp(1, TASKS_MAX) as usize
    }
}
