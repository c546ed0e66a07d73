//! Which faults a cluster survives, and with that every quorum size of every protocol: they stand in this file and nowhere else.
//!
//! INV-QUORUM-1: any two quorums share enough replicas that at least one of them is correct and tells the truth.
//! `trust/tests.rs` compares each size with a brute-force search over all sets.
//!
//! Sources: Raft (majorities); Mod-SMaRt, EDCC 2012; Visigoth, EuroSys 2015 (u, s and o, and 3.2.2 for the two sizes); UpRight, SOSP 2009,
//! and Eve, OSDI 2012 (u and o apart).

use serde::{Deserialize, Serialize};

/// Which faults a cluster survives, as operators say it.
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

    /// Whether a member may lie.
    pub const fn may_lie(self) -> bool {
        Faults::of(self).may_lie()
    }
}

/// The faults that a cluster is made to survive, however many members it has. The configuration makes one of a [`FaultModel`]; protocols
/// know no models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Faulty members may lie.
    lies: bool,
    /// No more faults than this are survived, so that quorums are smaller. `None`: as many as the members allow.
    most: Option<u32>,
}

impl Faults {
    /// Faults of this kind, as many as the members allow.
    pub const fn of(model: FaultModel) -> Self {
        Self { lies: matches!(model, FaultModel::Byzantine), most: None }
    }

    /// The same, and no more of them than this.
    pub const fn at_most(self, faults: u32) -> Self {
        Self { most: Some(faults), ..self }
    }

    /// Whether a member may lie: then its word counts for nothing where it stands alone.
    pub const fn may_lie(self) -> bool {
        self.lies
    }

    /// What these faults mean among `n` members.
    ///
    /// # Panics
    /// When `n` is 0: there is no cluster without members.
    pub const fn among(self, n: u32) -> Trust {
        assert!(n > 0, "a cluster has at least one member");
        let most = if self.lies { (n - 1) / 3 } else { (n - 1) / 2 };
        let u = match self.most {
            Some(chosen) if chosen < most => chosen,
            _ => most,
        };
        Trust { n, u, s: n, o: if self.lies { u } else { 0 } }
    }
}

impl From<FaultModel> for Faults {
    fn from(model: FaultModel) -> Self {
        Self::of(model)
    }
}

/// How far the members of one membership are trusted: a value, which protocols ask for the sizes of quorums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trust {
    /// So many members there are.
    n: u32,
    /// So many of them may be faulty in all.
    u: u32,
    /// So many correct ones may be slower than any time-out, at a time. From u on nothing is known of how fast any of them is.
    s: u32,
    /// So many of the faulty ones may lie, in concert.
    o: u32,
}

impl Trust {
    /// `n` members survive `u` faults, of which `o` are lies in concert, while `s` correct members are slow. `None`: they are too few for that,
    /// or more lie than are faulty. It takes u + min(u, s) + o + 1 of them.
    pub const fn new(n: u32, u: u32, s: u32, o: u32) -> Option<Self> {
        let slow = if s < u { s } else { u };
        if o > u || n <= u.saturating_add(slow).saturating_add(o) {
            return None;
        }
        Some(Self { n, u, s, o })
    }

    /// How many members there are.
    pub const fn members(self) -> u32 {
        self.n
    }
    /// How many of them may be faulty.
    pub const fn faults(self) -> u32 {
        self.u
    }
    /// Decides a slot, elects a leader, installs a view, confirms a read: any two of these sets share a member that tells the truth.
    /// Crash: a majority. Byzantine: floor((n+f)/2)+1. Where few are slow: all but those.
    pub const fn agreement(self) -> u32 {
        if self.s < self.u { self.n - self.s } else { (self.n + self.o) / 2 + 1 }
    }
    /// As many answers as can be waited for without waiting for a faulty member. Where few are slow this is the small quorum as well: it shares
    /// a member that tells the truth with each quorum of the usual size. Two of them may share none, so that each needs a reason to believe
    /// that the others have stopped.
    pub const fn collect(self) -> u32 {
        self.n - self.u
    }
    /// So many replicas answer a request when it is executed: enough that one more than may lie are there and do not. Where nobody lies the one
    /// that proposed it answers, whichever it is.
    pub const fn answers(self) -> u32 {
        if self.o > 0 { self.u + self.o + 1 } else { self.n }
    }
    /// What so many members say they heard, all can come to know: enough of them do not lie to convince each other.
    pub const fn spreads(self) -> u32 {
        self.u + self.o + 1
    }
    /// At least one of so many tells the truth, so what they say in unison is true.
    pub const fn truth(self) -> u32 {
        self.o + 1
    }
}

#[cfg(test)]
mod tests;
