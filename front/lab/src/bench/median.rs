//! The median of a few measurements, and bounds for the true median.
//!
//! The shape of the distribution does not matter: the number of measurements below the true median is binomial. So the k-th smallest and
//! the k-th largest measurement bound it with a confidence that depends on k and on the number of measurements. Tests: `tests.rs`.

use serde::{Deserialize, Serialize};

/// The order in which ways are measured in this turn. Every other time it is the other way round: what changes steadily favours nobody.
pub(super) fn order(turn: u32, ways: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..ways).collect();
    if turn.is_multiple_of(2) {
        order.reverse();
    }
    order
}

/// The probability that a bound is wrong, on each side.
const WRONG: f64 = 0.025;

/// A median with bounds of 95 % confidence, or of as much as so few measurements allow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Median {
    pub(super) median: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    /// Number of measurements.
    pub(super) of: usize,
    /// Confidence of the bounds, in percent.
    pub(super) confidence: f64,
}

impl Median {
    /// `None` without measurements.
    pub(super) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let count = values.len();
        let (low, high) = (values.get(count.checked_sub(1)? / 2)?, values.get(count / 2)?);
        let (outside, wrong) = outside(count);
        Some(Self {
            median: f64::midpoint(*low, *high),
            low: values[outside],
            high: values[count - 1 - outside],
            of: count,
            confidence: (1.0 - 2.0 * wrong) * 100.0,
        })
    }

    /// The median and its bounds as text; `show` writes each number.
    pub(super) fn text(&self, show: impl Fn(f64) -> String) -> String {
        format!("{} [{}, {}]", show(self.median), show(self.low), show(self.high))
    }
}

/// The number of measurements beyond the bounds on each side, and the probability that the true median lies there.
fn outside(count: usize) -> (usize, f64) {
    // The chance that no measurement is below the median, that exactly one is, and so on.
    let mut exactly = 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let (mut chance, mut outside) = (exactly, 0);
    loop {
        exactly *= (count - outside) as f64 / (outside + 1) as f64;
        if chance + exactly > WRONG || 2 * (outside + 1) >= count {
            return (outside, chance);
        }
        (chance, outside) = (chance + exactly, outside + 1);
    }
}
