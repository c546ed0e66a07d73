//! Which faults a cluster survives, and every quorum size of every protocol. Quorum sizes are computed in this file only.
//!
//! INV-QUORUM-1: any two quorums share enough replicas that at least one of them is correct and tells the truth.
//! `trust/tests.rs` compares each size with a brute-force search over all sets.
//!
//! Sources: Raft (majorities); Mod-SMaRt, EDCC 2012; Visigoth, EuroSys 2015 (u, s and o, and section 3.2.2 for the two sizes); UpRight,
//! SOSP 2009, and Eve, OSDI 2012 (u and o apart); WHEAT, SRDS 2015 (votes that count more).

mod visigoth;
mod written;

use std::fmt;
pub use visigoth::{Mismatch, Visigoth};

/// Which faults a cluster survives, as operators say it.
///
/// In files it is `"crash"`, `"byzantine"`, or a table: `{ kind = "visigoth", u = 2, s = 1, o = 1, t_ms = 50 }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FaultModel {
    /// Replicas stop, and may come back with what they had on disk. n >= 2f+1.
    #[default]
    Crash,
    /// Up to f replicas do anything at all. n >= 3f+1.
    Byzantine,
    /// Few replicas are slow at a time, and fewer lie in concert than are faulty. n >= u+min(u,s)+o+1.
    Visigoth(Visigoth),
}

impl fmt::Display for FaultModel {
    /// The word, with the numbers if there are some: what replicas of one cluster must have in common.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.visigoth() {
            Some(numbers) => write!(f, "{} {numbers}", self.name()),
            None => f.write_str(self.name()),
        }
    }
}

impl FaultModel {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::Byzantine => "byzantine",
            Self::Visigoth(_) => "visigoth",
        }
    }

    /// Whether a member may lie.
    pub const fn may_lie(self) -> bool {
        Faults::of(self).may_lie()
    }

    /// The same without what makes no difference: where s >= u, neither how far s exceeds u nor the time counts.
    #[must_use]
    pub const fn counting(self) -> Self {
        match self {
            Self::Visigoth(Visigoth { u, s, o, .. }) if s >= u => {
                Self::Visigoth(Visigoth { u, s: u, o, t_ms: 0 })
            }
            other => other,
        }
    }

    /// Whether quorums count on most members being fast, so that slow members look like stopped ones.
    pub const fn few_are_slow(self) -> bool {
        matches!(self, Self::Visigoth(sizes) if sizes.s < sizes.u)
    }

    /// The numbers of the Visigoth model, if it is that one.
    pub const fn visigoth(self) -> Option<Visigoth> {
        match self {
            Self::Visigoth(sizes) => Some(sizes),
            Self::Crash | Self::Byzantine => None,
        }
    }
}

/// The faults that a cluster is made to survive, however many members it has. The configuration makes it of a [`FaultModel`]; protocols do
/// not know fault models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Faulty members may lie.
    lies: bool,
    /// The most faults that are survived; fewer make quorums smaller. `None`: as many as the number of members allows.
    most: Option<u32>,
    /// Exactly these, whatever the number of members.
    chosen: Option<Visigoth>,
    /// The votes of some members count more.
    weighted: bool,
}

impl Faults {
    /// Faults of this kind, as many as the members allow.
    #[inline]
    pub const fn of(model: FaultModel) -> Self {
        let chosen = model.visigoth();
        let lies = match chosen {
            Some(sizes) => sizes.o > 0,
            None => matches!(model, FaultModel::Byzantine),
        };
        Self { lies, most: None, chosen, weighted: false }
    }

    /// The same kind of faults, but at most this many. Numbers that were chosen one by one stay.
    pub const fn at_most(self, faults: u32) -> Self {
        Self { most: Some(faults), ..self }
    }

    /// The same, where the votes of some members count more, if there are more members than the faults need ([`Trust::heavy`]).
    #[must_use]
    pub const fn weighted(self) -> Self {
        Self { weighted: self.chosen.is_none(), ..self }
    }

    /// Whether a member may lie, so that its word alone counts for nothing.
    pub const fn may_lie(self) -> bool {
        self.lies
    }

    /// After how many milliseconds a member that is not slow has answered, where few members are slow. `None`: silence says nothing.
    #[inline]
    pub const fn slow_after_ms(self) -> Option<u32> {
        match self.chosen {
            Some(Visigoth { u, s, t_ms, .. }) if s < u => Some(t_ms),
            _ => None,
        }
    }

    /// Whether this many members are enough to survive what was chosen, and at least one liar where members may lie.
    pub const fn fit(self, n: u32) -> bool {
        match self.chosen {
            Some(sizes) => n >= sizes.members_min(),
            None if self.lies => n >= 4,
            None => n > 0,
        }
    }

    /// The trust in each of `n` members under these faults. If the faults were chosen one by one and `n` members are too few for them, no
    /// fault is survived and every quorum is all members.
    ///
    /// # Panics
    /// When `n` is 0.
    pub const fn among(self, n: u32) -> Trust {
        assert!(n > 0, "a cluster has at least one member");
        if let Some(sizes) = self.chosen {
            return match Trust::new(n, sizes.u, sizes.s, sizes.o) {
                Some(trust) => trust,
                None => Trust { n, u: 0, s: n, o: n - 1, weighted: false },
            };
        }
        let most = if self.lies { (n - 1) / 3 } else { (n - 1) / 2 };
        let u = match self.most {
            Some(chosen) if chosen < most => chosen,
            _ => most,
        };
        let o = if self.lies { u } else { 0 };
        Trust { n, u, s: n, o, weighted: self.weighted && u > 0 && n > 2 * u + o + 1 }
    }
}

impl From<FaultModel> for Faults {
    fn from(model: FaultModel) -> Self {
        Self::of(model)
    }
}

/// How far the members of one membership are trusted. Protocols ask this value for the sizes of quorums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trust {
    /// The number of members.
    n: u32,
    /// How many of them may be faulty in all.
    u: u32,
    /// How many correct ones may be slower than any time-out at a time. With s = u, nothing is known of how fast any of them is.
    s: u32,
    /// How many of the faulty ones may lie, in concert.
    o: u32,
    /// The votes of some members count more. Only where nothing is known of how fast members are.
    weighted: bool,
}

impl Trust {
    /// `n` members survive `u` faults, of which `o` are lies in concert, while `s` correct members are slow. `None`: there are too few
    /// members, or more lie than are faulty. At least u + min(u, s) + o + 1 members are needed.
    pub const fn new(n: u32, u: u32, s: u32, o: u32) -> Option<Self> {
        let slow = if s < u { s } else { u };
        if o > u || n <= u.saturating_add(slow).saturating_add(o) {
            return None;
        }
        Some(Self { n, u, s, o, weighted: false })
    }

    /// How many members there are.
    pub const fn members(self) -> u32 {
        self.n
    }
    /// How many of them may be faulty.
    pub const fn faults(self) -> u32 {
        self.u
    }
    /// The quorum that decides a slot, elects a leader, installs a view, or confirms a read. Any two such sets share a member that tells
    /// the truth. Crash: a majority. Byzantine: floor((n+f)/2)+1. Where few are slow: all members but those. Where some votes count more,
    /// so many members are a quorum whoever they are: all but the faulty ones. Fewer may be one, too ([`Self::weigh_enough`]).
    pub const fn agreement(self) -> u32 {
        if self.s < self.u {
            self.n - self.s
        } else if self.weighted {
            self.n - self.u
        } else {
            (self.n + self.o) / 2 + 1
        }
    }
    /// The votes of so many members count more than those of the others; 0: all count alike. There are d members more than the faults need.
    /// A heavy vote counts u+d, another one u: 1+d/u against 1, in whole numbers (WHEAT, section 4.2).
    pub const fn heavy(self) -> u32 {
        if self.weighted { self.u + self.o } else { 0 }
    }
    /// Whether a set of `count` members, `heavy` of them with heavy votes, is a quorum by weight: any two such sets share more than the most
    /// that liars weigh. The smallest has 2f+1 members where members may lie and f+1 where they only crash, however many there are in all.
    pub const fn weigh_enough(self, count: u32, heavy: u32) -> bool {
        if !self.weighted {
            return false;
        }
        let Self { n, u, o, .. } = self;
        let spare = n - (2 * u + o + 1);
        let (all, lies) = (u * n + spare * self.heavy(), o * (u + spare));
        2 * (u * count + spare * heavy) > all + lies
    }
    /// The most answers that can be awaited without waiting for a faulty member. Where few members are slow, this is also the small quorum:
    /// it shares a member that tells the truth with each quorum of the usual size. Two small quorums may share none, so each needs a reason
    /// to believe that the others have stopped.
    pub const fn collect(self) -> u32 {
        self.n - self.u
    }
    /// The smallest quorum that there may be. Where few members are slow it is n-u members, once it is known that no other such quorum can
    /// miss it; otherwise as [`Self::agreement`].
    pub const fn smallest(self) -> u32 {
        if self.s < self.u { self.collect() } else { self.agreement() }
    }
    /// How many replicas answer an executed request: one more than may lie. Where no replica lies, the one that proposed the request
    /// answers.
    pub const fn answers(self) -> u32 {
        if self.o > 0 { self.u + self.o + 1 } else { self.n }
    }
    /// How many members must say that they heard a request before all replicas can come to know it. Enough of these members do not lie to
    /// convince the others. Nobody waits for more members than there are once u have stopped. Where few are slow these are s+o+1, so enough
    /// as long as o is at most s.
    pub const fn spreads(self) -> u32 {
        let (sure, there) = (self.u + self.o + 1, self.collect());
        if sure < there { sure } else { there }
    }
    /// How many executors must have the same result before it is final, where all members execute: one of them is correct, and one of them
    /// stays, max(u, r) + 1 (Eve, section 3.4). There are more executors than Eve's u + max(u, r) + 1, so it also has to be so many that no
    /// two results have them, and that a state which differs can be repaired from those that are left.
    pub const fn results(self) -> u32 {
        let (least, one) = (self.u + 1, self.smallest());
        if one > least { one } else { least }
    }
    /// At least one of this many members tells the truth, so what all of them say is true.
    pub const fn truth(self) -> u32 {
        self.o + 1
    }
}

#[cfg(test)]
mod tests;
