//! The only randomness of a run: generators that all follow from one seed.

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator whose numbers all follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator of its own for one part of the run, so that taking one number more here changes nothing there.
    pub fn of(seed: u64, part: u64) -> Self {
        let mut mixed = Self(seed ^ part.wrapping_mul(0xd6e8_feb8_6659_fd93));
        Self(mixed.next())
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 when `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// A number from `low` to `high` whose logarithm is spread evenly: small ones are as likely as large ones.
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
