//! Digests: what stands for bytes, nodes and whole states.

use std::fmt;

/// 32 bytes that stand for other bytes: two states are taken as equal when their digests are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// How many bytes a digest has.
    pub const BYTES: usize = 32;

    /// The digest with these bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
    /// Its bytes.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    /// All of it, in hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    /// The first 8 bytes: enough to tell two apart in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..8].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
