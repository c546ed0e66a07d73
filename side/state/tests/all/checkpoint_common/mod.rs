//! What the checkpoint tests share: a disk that loses what was not synced, a history with borders, a replica that executes it.

mod disk;
mod history;
mod replica;

pub(crate) use disk::Disk;
pub(crate) use history::{Event, History, Mode};
pub(crate) use replica::{Replica, check_image, digest_of, image_of};

/// Small and fast; the same numbers for the same seed. (xorshift64*, Vigna)
#[derive(Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
    pub(crate) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}
