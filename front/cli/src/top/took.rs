//! How long something took, as replicas count it: in buckets that double. Of a bucket only the bounds are known, so a percentile is
//! a bound, too.

use serde_json::{Value, json};

/// More buckets than this has no honest replica.
const BUCKETS: usize = 64;

/// Counts by duration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Took {
    /// The upper bounds in microseconds, which rise, each with how often it took at most that long.
    buckets: Vec<(u64, u64)>,
    /// How often it took any time.
    count: u64,
}

/// What is known of a percentile, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Bound {
    /// It is at most this.
    AtMost(u64),
    /// It is more than this, the last bound.
    Over(u64),
}

impl Took {
    /// From a status; empty if that has none, or one that can not be.
    pub(super) fn of(status: &Value) -> Self {
        let (Some(list), Some(count)) = (status["buckets"].as_array(), status["count"].as_u64()) else {
            return Self::default();
        };
        let bucket = |pair: &Value| {
            let us = pair[0].as_f64().filter(|s| (0.0..1e9).contains(s))? * 1e6;
            Some((us.round() as u64, pair[1].as_u64()?))
        };
        let Some(buckets) = list.iter().take(BUCKETS).map(bucket).collect::<Option<Vec<_>>>() else {
            return Self::default();
        };
        let rises = |pair: &[(u64, u64)]| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1;
        let ends = buckets.last().is_some_and(|(_, counted)| *counted <= count);
        if ends && buckets.windows(2).all(rises) { Self { buckets, count } } else { Self::default() }
    }

    /// How often it took any time.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// What was added since then; none if it is no longer the same count, since the process began again.
    pub(super) fn since(&self, before: &Self) -> Option<Self> {
        if *before == Self::default() {
            return Some(self.clone());
        }
        if self.buckets.len() != before.buckets.len() {
            return None;
        }
        let added = |((bound, now), (old, then)): (&(u64, u64), &(u64, u64))| {
            (bound == old).then(|| now.checked_sub(*then)).flatten().map(|count| (*bound, count))
        };
        let buckets = self.buckets.iter().zip(&before.buckets).map(added).collect::<Option<Vec<_>>>()?;
        let count = self.count.checked_sub(before.count)?;
        // Of one process, so that the counts by bound rise here, too.
        let rises = buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1);
        (rises && buckets.last().is_none_or(|(_, last)| *last <= count)).then_some(Self { buckets, count })
    }

    /// Counts both together, if they have the same bounds.
    pub(super) fn add(&mut self, other: &Self) {
        if self.buckets.is_empty() {
            self.clone_from(other);
            return;
        }
        let same = |(mine, theirs): (&(u64, u64), &(u64, u64))| mine.0 == theirs.0;
        if self.buckets.len() == other.buckets.len() && self.buckets.iter().zip(&other.buckets).all(same) {
            self.buckets.iter_mut().zip(&other.buckets).for_each(|(mine, theirs)| {
                mine.1 = mine.1.saturating_add(theirs.1);
            });
            self.count = self.count.saturating_add(other.count);
        }
    }

    /// This many of a hundred took at most so long; none if nothing took any time.
    pub(super) fn percentile(&self, of_hundred: u64) -> Option<Bound> {
        if self.count == 0 {
            return None;
        }
        let rank = (u128::from(self.count) * u128::from(of_hundred)).div_ceil(100);
        let found = self.buckets.iter().find(|(_, count)| u128::from(*count) >= rank);
        match found {
            Some((bound, _)) => Some(Bound::AtMost(*bound)),
            None => self.buckets.last().map(|(bound, _)| Bound::Over(*bound)),
        }
    }
}

impl Bound {
    /// The bound itself.
    pub(super) const fn us(self) -> u64 {
        let (Self::AtMost(us) | Self::Over(us)) = self;
        us
    }

    /// As text: `<= 512 us`. It is rounded so that it stays true.
    pub(super) fn shown(self) -> String {
        match self {
            Self::AtMost(us) => format!("<= {}", span(us, true)),
            Self::Over(us) => format!("> {}", span(us, false)),
        }
    }

    pub(super) fn json(self) -> Value {
        match self {
            Self::AtMost(us) => json!({ "at_most_us": us }),
            Self::Over(us) => json!({ "more_than_us": us }),
        }
    }
}

/// A time with three digits, rounded up or down.
fn span(us: u64, up: bool) -> String {
    let (unit, name) = match us {
        0..1000 => return format!("{us} us"),
        1000..1_000_000 => (1000, "ms"),
        _ => (1_000_000, "s"),
    };
    // The unit in parts of which three digits are shown.
    let (part, digits) = match us / unit {
        0..10 => (unit / 100, 2),
        10..100 => (unit / 10, 1),
        _ => (unit, 0),
    };
    let parts = if up { us.div_ceil(part) } else { us / part };
    let value = parts as f64 * part as f64 / unit as f64;
    format!("{value:.digits$} {name}")
}
