//! Every quorum size of every protocol stands in this file and nowhere else.
//!
//! INV-QUORUM-1: any two quorums share enough replicas that at least one of them is correct and tells the truth.
//! `quorum/tests.rs` compares each size with a brute-force search over all sets.
//!
//! Sources: Raft (majorities); Mod-SMaRt, EDCC 2012; Visigoth, EuroSys 2015; Eve, OSDI 2012.

use serde::{Deserialize, Serialize};

/// Which faults a cluster survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultModel {
    /// Replicas stop, and may come back with what they had on disk. n >= 2f+1.
    #[default]
    Crash,
    /// Up to f replicas do anything at all. n >= 3f+1.
    Byzantine,
}

impl FaultModel {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::Byzantine => "byzantine",
        }
    }
}

/// The quorum sizes of one membership: `n` members of which up to `f` may be faulty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quorums {
    model: FaultModel,
    n: u32,
    f: u32,
}

impl Quorums {
    /// The sizes for `n` members, with the largest number of faults that `n` allows.
    ///
    /// # Panics
    /// When `n` is 0: there is no cluster without members.
    pub const fn new(model: FaultModel, n: u32) -> Self {
        assert!(n > 0, "a cluster has at least one member");
        let f = match model {
            FaultModel::Crash => (n - 1) / 2,
            FaultModel::Byzantine => (n - 1) / 3,
        };
        Self { model, n, f }
    }

    /// How many members there are.
    pub const fn n(self) -> u32 {
        self.n
    }
    /// How many of them may be faulty.
    pub const fn f(self) -> u32 {
        self.f
    }
    /// Decides a slot, elects a leader, installs a view, confirms a read: any two of these sets share a correct member
    /// that tells the truth. Crash: a majority. Byzantine: floor((n+f)/2)+1.
    pub const fn agreement(self) -> u32 {
        match self.model {
            FaultModel::Crash => self.n / 2 + 1,
            FaultModel::Byzantine => (self.n + self.f) / 2 + 1,
        }
    }
    /// As many answers as can be waited for without waiting for a faulty member.
    pub const fn collect(self) -> u32 {
        self.n - self.f
    }
    /// At least one of so many is correct, so what they say in unison is true.
    pub const fn one_correct(self) -> u32 {
        match self.model {
            FaultModel::Crash => 1,
            FaultModel::Byzantine => self.f + 1,
        }
    }
}

#[cfg(test)]
mod tests;
