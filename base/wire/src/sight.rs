//! Of which instances a replica hears the leader, between replicas: 32 bytes, a bit for each instance, the lowest bit first.
//! docs/protocols/merge.md. Tests: `tests/golden.rs`, `tests/properties.rs`.

use crate::frame::{FrameKind, OutFrame};
use quorate_types::{InstanceId, Reject};

const BYTES: usize = 32;

/// A set of instances: of whom a replica hears the leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sight([u8; BYTES]);

impl FromIterator<InstanceId> for Sight {
    fn from_iter<I: IntoIterator<Item = InstanceId>>(instances: I) -> Self {
        let mut sight = Self::default();
        instances.into_iter().for_each(|instance| sight.add(instance));
        sight
    }
}

impl Sight {
    fn place(instance: InstanceId) -> Option<(usize, u8)> {
        let at = usize::from(instance.number()).checked_sub(1)?;
        (at < BYTES * 8).then_some((at / 8, 1 << (at % 8)))
    }

    /// Adds an instance. There are at most 256.
    pub fn add(&mut self, instance: InstanceId) {
        if let Some((byte, bit)) = Self::place(instance) {
            self.0[byte] |= bit;
        }
    }

    /// Whether this instance is in it.
    pub fn has(&self, instance: InstanceId) -> bool {
        Self::place(instance).is_some_and(|(byte, bit)| self.0[byte] & bit != 0)
    }

    /// Whether no instance is in it.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// How many instances are in both.
    pub fn shared(&self, other: &Self) -> u32 {
        self.0.iter().zip(&other.0).map(|(a, b)| (a & b).count_ones()).sum()
    }

    /// Whether some instance is in both of these, and not in this one.
    pub fn misses(&self, one: &Self, other: &Self) -> bool {
        self.0.iter().zip(one.0.iter().zip(&other.0)).any(|(own, (a, b))| a & b & !own != 0)
    }

    /// Tells another replica.
    pub fn frame(&self) -> OutFrame {
        OutFrame::new(FrameKind::Sight, &self.0, vec![])
    }

    /// Reads what another replica tells.
    ///
    /// # Errors
    /// When it has another size.
    pub fn decode(payload: &[u8]) -> Result<Self, Reject> {
        payload.try_into().map(Self).map_err(|_| Reject::Malformed("sight: not 32 bytes"))
    }
}
