//! The only randomness of a run: generators that all follow from one seed.

use quorate_types::Random;

/// The usual generator, with the additional draws that a simulator needs.
#[derive(Clone, Debug)]
pub struct Rng(Random);

impl Rng {
    /// A generator for one part of the run, so that drawing one more number here changes nothing in other parts.
    pub fn of(seed: u64, part: u64) -> Self {
        let mut mixed = Random::new(seed ^ part.wrapping_mul(0xd6e8_feb8_6659_fd93));
        Self(Random::new(mixed.next()))
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0.next()
    }

    /// A number below `end`; 0 when `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    /// A number from `low` to `high`, both included.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// A number from `low` to `high` whose logarithm is evenly distributed: small ones are as likely as large ones.
    pub fn spread(&mut self, low: u64, high: u64) -> u64 {
        let (low, high) = (low.max(1), high.max(low.max(1)));
        let octaves = u64::from((high / low).max(1).ilog2());
        let base = low << self.below(octaves + 1);
        self.range(base, (base * 2 - 1).min(high))
    }

    /// True in `count` of 1000 cases.
    pub fn chance(&mut self, count: u64) -> bool {
        self.below(1000) < count
    }

    /// One of them.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}
