//! The median of rounds, with the lowest and the highest of them.

use crate::bench::draw::Mark;
use serde::Serialize;

/// What a few rounds gave.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) lowest: f64,
    pub(super) highest: f64,
}

impl Spread {
    /// Of those that are numbers; `None` without any.
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let Mark { value, range } = Mark::of(values)?;
        let (lowest, highest) = range.unwrap_or((value, value));
        Some(Self { median: value, lowest, highest })
    }

    pub(super) fn text(self, show: impl Fn(f64) -> String) -> String {
        format!("{} [{}, {}]", show(self.median), show(self.lowest), show(self.highest))
    }

    pub(super) fn mark(self) -> Option<Mark> {
        Mark::of([self.lowest, self.median, self.highest])
    }
}
