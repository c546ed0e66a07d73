//! What the checkpoint tests share: a disk that loses what was not synced, a history with borders, a replica that executes it.

#![allow(dead_code, unreachable_pub, unused_imports)] // each test uses some of it

mod disk;
mod history;
mod replica;

pub use disk::Disk;
pub use history::{Event, History, Mode};
pub use replica::{Replica, check_image, digest_of, image_of};

/// Small and fast; the same numbers for the same seed. (xorshift64*, Vigna)
#[derive(Clone)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}
