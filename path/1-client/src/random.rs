//! The seeded generator of one client; there is no other randomness in it.

use quorate_types::Span;

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): small, fast, and the same everywhere.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    const fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { ((self.next() as u128 * end as u128) >> 64) as u64 }
    }

    /// How long to wait before attempt number `attempt` (from 0): doubles from `min` to `max`, and half of it is drawn, so
    /// that clients that failed together do not come back together. Never zero, or somebody would spin.
    pub(crate) fn back_off(&mut self, attempt: u32, min: Span, max: Span) -> Span {
        let full = min.times(1 << attempt.min(20)).min(max).nanos().max(2);
        Span::from_nanos(full / 2 + self.below(full / 2 + 1))
    }
}
