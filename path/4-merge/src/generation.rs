//! The mapping between slots and seqs. docs/protocols/merge.md L1-L4.
//!
//! While the number of instances stays the same, one formula gives the seq of every place; such a stretch is a generation. It ends at the
//! same slot in all instances. So across generations, too, the global log is ordered by slot, then by instance ([`Place`]). Tests:
//! tests/merge/changes.rs.

use quorate_types::{InstanceId, Seq, Slot};

/// A cluster has at most this many instances.
pub const INSTANCES_MAX: u16 = 256;
/// No slot has a higher number; a thousand years would not be enough to decide more. So seqs never overflow.
pub const SLOT_MAX: u64 = 1 << 48;
/// A window of one could stay shut: filling for a batch brings the other instances up to the slot before the batch's, not up to its own.
pub const WINDOW_MIN: u64 = 2;
/// The largest window.
pub const WINDOW_MAX: u64 = 1 << 20;

/// A place in the global log. Places compare in the order of the global log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The slot.
    pub slot: Slot,
    /// The instance.
    pub instance: InstanceId,
}

impl Place {
    /// The place of this slot in this instance.
    pub const fn new(slot: u64, instance: u16) -> Self {
        Self { slot: Slot::new(slot), instance: InstanceId::new(instance) }
    }

    /// The place of this slot in the instance at this index of a list.
    pub(crate) const fn at(slot: u64, at: usize) -> Self {
        Self::new(slot, at as u16 + 1)
    }

    /// How far the instance at this index of the list must be decided for everything up to this place. [merge L9]
    pub(crate) fn needs(self, at: usize) -> u64 {
        if usize::from(self.instance.number()) > at {
            self.slot.number()
        } else {
            self.slot.number().saturating_sub(1)
        }
    }
}

/// A stretch of the global log with one number of instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation {
    /// How many instances.
    pub instances: u16,
    /// Its first slot, the same in each of them.
    pub first: Slot,
    /// The last seq before it.
    pub base: Seq,
}

impl Generation {
    /// The first generation of a cluster.
    pub const fn begin(instances: u16) -> Self {
        Self { instances, first: Slot::FIRST, base: Seq::ZERO }
    }

    /// The seq of a place in this generation, wherever the generation ends. None if the place lies before it, or the instance does not
    /// belong to it. [merge L2]
    pub fn seq(&self, place: Place) -> Option<Seq> {
        let instance = place.instance.number();
        if instance == 0 || instance > self.instances {
            return None;
        }
        let rows = place.slot.number().checked_sub(self.first.number())?;
        let before = rows.checked_mul(u64::from(self.instances))?;
        self.base.number().checked_add(before)?.checked_add(u64::from(instance)).map(Seq::new)
    }

    /// The place with this seq in this generation, wherever the generation ends. None if the seq lies before it.
    pub fn place(&self, seq: Seq) -> Option<Place> {
        let before = seq.number().checked_sub(self.base.number())?.checked_sub(1)?;
        let instances = u64::from(self.instances);
        let slot = self.first.number().checked_add(before.checked_div(instances)?)?;
        Some(Place::new(slot, (before % instances) as u16 + 1))
    }

    /// The generation after this one, which ends with slot `border`. [merge L3]
    pub(crate) fn after(&self, border: u64, instances: u16) -> Option<Self> {
        let last = self.seq(Place::new(border, self.instances))?;
        Some(Self { instances, first: Slot::new(border.checked_add(1)?), base: last })
    }

    /// Whether a cluster can reach these numbers.
    pub(crate) fn is_sound(&self) -> bool {
        let slots = u64::from(INSTANCES_MAX) * SLOT_MAX;
        (1..=INSTANCES_MAX).contains(&self.instances)
            && (1..=SLOT_MAX).contains(&self.first.number())
            && self.base.number() <= slots
    }
}
