//! The instances whose leader a replica hears, told to other replicas: 32 bytes, a bit for each instance, the lowest bit first.
//! docs/protocols/merge.md. Tests: `tests/all/golden.rs`, `tests/all/properties.rs`.

use crate::frame::{FrameKind, OutFrame};
use quorate_types::{InstanceId, Reject};

const WORDS: usize = 4;
const BYTES: usize = WORDS * 8;

/// A set of instances: those whose leader a replica hears.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sight([u64; WORDS]);

impl FromIterator<InstanceId> for Sight {
    fn from_iter<I: IntoIterator<Item = InstanceId>>(instances: I) -> Self {
        let mut sight = Self::default();
        instances.into_iter().for_each(|instance| sight.add(instance));
        sight
    }
}

impl Sight {
    fn place(instance: InstanceId) -> Option<(usize, u64)> {
        let at = usize::from(instance.number()).checked_sub(1)?;
        (at < BYTES * 8).then_some((at / 64, 1 << (at % 64)))
    }

    /// Adds an instance. There are at most 256.
    pub fn add(&mut self, instance: InstanceId) {
        if let Some((word, bit)) = Self::place(instance) {
            self.0[word] |= bit;
        }
    }

    /// Whether this instance is in it.
    pub fn has(&self, instance: InstanceId) -> bool {
        Self::place(instance).is_some_and(|(word, bit)| self.0[word] & bit != 0)
    }

    /// Whether no instance is in it.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    /// How many instances are in both.
    pub fn shared(&self, other: &Self) -> u32 {
        self.0.iter().zip(other.0).map(|(a, b)| (a & b).count_ones()).sum()
    }

    /// Whether some instance is in `one` and `other`, and not in this set.
    pub fn misses(&self, one: &Self, other: &Self) -> bool {
        let missed = self.0.iter().zip(one.0.iter().zip(other.0)).map(|(own, (a, b))| a & b & !own);
        missed.fold(0, |all, word| all | word) != 0
    }

    /// The frame that tells another replica.
    pub fn frame(&self) -> OutFrame {
        let mut bytes = [0; BYTES];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(self.0) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        OutFrame::new(FrameKind::Sight, &bytes, vec![])
    }

    /// Reads what another replica tells.
    ///
    /// # Errors
    /// When it has another size.
    pub fn decode(payload: &[u8]) -> Result<Self, Reject> {
        let (words, rest) = payload.as_chunks::<8>();
        let words: Option<&[[u8; 8]; WORDS]> = words.try_into().ok().filter(|_| rest.is_empty());
        let words = words.ok_or(Reject::Malformed("sight: not 32 bytes"))?;
        Ok(Self(words.map(u64::from_le_bytes)))
    }
}
