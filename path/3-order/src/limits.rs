//! What a cluster can not do because of its protocol and of the faults that it survives: one table, with one text for each reason.
//!
//! A combination is refused where it is configured, where an operator asks for it, and where it was ordered all the same. All of these ask
//! [`Nature::can`], and add only which key or option to write instead. Tests: limits/tests.rs.

use crate::{Changes, Nature, Protocol};

/// Something that not every cluster can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Survive replicas that lie.
    SurviveLies,
    /// Answer strong reads by a lease.
    Leases,
    /// Let leaders rotate.
    Rotate,
    /// Change its members while it runs.
    ChangeMembers,
    /// Change the number of its instances while it runs.
    ChangeInstances,
    /// Go on with fewer members than a quorum where few of them are slow.
    CountOnFast,
    /// Let the votes of some members count more.
    WeighVotes,
}

/// One row: clusters of some natures can not do something.
struct Limit {
    feature: Feature,
    /// Whether a cluster of this nature can not do it.
    lacks: fn(&Nature) -> bool,
    /// The reason, and what to do instead where that does not depend on who asks.
    why: &'static str,
}

/// The table. Of several rows that fit, the first one says why.
const LIMITS: &[Limit] = &[
    Limit {
        feature: Feature::SurviveLies,
        lacks: |nature| !nature.lies,
        why: "this protocol survives crashes only",
    },
    Limit {
        feature: Feature::Leases,
        lacks: |nature| !nature.leases,
        why: "leaders of this protocol have no leases",
    },
    Limit {
        feature: Feature::Rotate,
        lacks: |nature| !nature.rotates,
        why: "leaders of this protocol do not rotate",
    },
    Limit {
        feature: Feature::CountOnFast,
        lacks: |nature| !nature.few,
        why: "this protocol does not count on fast replicas, as s below u asks",
    },
    Limit {
        feature: Feature::WeighVotes,
        lacks: |nature| !nature.weighs,
        why: "with this protocol all votes count alike",
    },
    Limit {
        feature: Feature::ChangeMembers,
        lacks: |nature| nature.membership == Changes::Fixed,
        why: "with this protocol the members stay: make a new cluster from a backup (`quorate backup`)",
    },
    Limit {
        feature: Feature::ChangeInstances,
        lacks: |nature| !nature.stays,
        why: "with this protocol the number of instances stays: make a new cluster from a backup (`quorate backup`)",
    },
];

impl Nature {
    /// Whether a cluster of this nature can do it.
    ///
    /// # Errors
    /// Why it can not, in words.
    pub fn can(&self, feature: Feature) -> Result<(), &'static str> {
        let limit = LIMITS.iter().find(|limit| limit.feature == feature && (limit.lacks)(self));
        limit.map_or(Ok(()), |limit| Err(limit.why))
    }
}

impl Feature {
    /// The first protocol that can do it, to name it to somebody who chose another one.
    pub fn protocol(self) -> Protocol {
        Protocol::ALL.into_iter().find(|protocol| protocol.able().can(self).is_ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
