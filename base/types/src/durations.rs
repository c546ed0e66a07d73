//! How long something took, each time, in buckets that double: for status and metrics.

use crate::time::Span;
use serde::ser::{Serialize, SerializeStruct, Serializer};

/// The upper bound of the first bucket, in microseconds; each bucket after it ends at twice that of the one before.
const FIRST_US: u64 = 16;
/// How many buckets have a bound: the last one ends at 16.8 seconds. What took longer has a bucket without one.
const BOUNDS: usize = 21;

/// Counts by duration. Adding to it costs some nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    counts: [u64; BOUNDS + 1],
    sum_ns: u64,
}

impl Durations {
    /// Nothing took any time yet.
    pub const NONE: Self = Self { counts: [0; BOUNDS + 1], sum_ns: 0 };

    /// It took this long, once more.
    pub fn add(&mut self, took: Span) {
        let us = took.nanos().div_ceil(1000);
        // Bucket n ends at FIRST_US << n, which is a power of two.
        let bucket = us.div_ceil(FIRST_US).max(1).next_power_of_two().trailing_zeros() as usize;
        self.counts[bucket.min(BOUNDS)] += 1;
        self.sum_ns = self.sum_ns.saturating_add(took.nanos());
    }

    /// How often it took any time.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All of it together.
    pub const fn sum(&self) -> Span {
        Span::from_nanos(self.sum_ns)
    }

    /// The upper bounds, each with how often it took at most that long. What took longer than the last one is only in [`Self::count`].
    pub fn buckets(&self) -> impl Iterator<Item = (Span, u64)> {
        let mut so_far = 0;
        self.counts.iter().take(BOUNDS).enumerate().map(move |(bucket, count)| {
            so_far += count;
            (Span::from_nanos((FIRST_US * 1000) << bucket), so_far)
        })
    }
}

/// `count`, `sum_s`, and `buckets`: pairs of a bound in seconds and how often it took at most that long.
impl Serialize for Durations {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let seconds = |span: Span| span.nanos() as f64 / 1e9;
        let buckets: Vec<(f64, u64)> = self.buckets().map(|(bound, count)| (seconds(bound), count)).collect();
        let mut fields = to.serialize_struct("Durations", 3)?;
        fields.serialize_field("count", &self.count())?;
        fields.serialize_field("sum_s", &seconds(self.sum()))?;
        fields.serialize_field("buckets", &buckets)?;
        fields.end()
    }
}

#[cfg(test)]
mod tests;
