//! What the oracle keeps for one instance and membership: which small quorums were granted, and the rule for the next one.
//!
//! The oracle is a register with a version: it can be read, and swapped if it is unchanged. Whoever swaps and whoever reads apply the rule;
//! the oracle itself knows nothing of it.
//!
//! ```text
//! register   1 u8 | floor u64 | count u16 | grants
//! grant      view u64 | count u8 | ids u16, ascending
//! ```
//!
//! The rule (docs/protocols/visigoth.md): a small quorum of a view is granted only if no later view has one, and if it shares more members
//! than may lie with each small quorum of the views from the floor on. The floor is a view in which something was decided. That decision's
//! quorum meets every later quorum, and whoever took part in it knows what earlier views decided; so earlier small quorums bind nobody any
//! more. Source: Visigoth Fault Tolerance, EuroSys 2015, section 4; the paper does not treat views that follow each other.
//!
//! INV-VISIGOTH-1: any two granted quorums that bind share a member that tells the truth. Tests: tests/register.rs.

use bytes::Bytes;
use quorate_types::{Reject, ReplicaId, Trust, View, planted};
use quorate_wire::{MEMBERS_MAX, Put, Reader};
use std::fmt;

/// The layout of the register.
const VERSION: u8 = 1;
/// A register holds at most this many grants.
const GRANTS_MAX: usize = 512;

/// A small quorum of a view.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    /// The view.
    pub view: View,
    /// Its members, by id.
    pub set: Vec<ReplicaId>,
}

/// What the oracle keeps for one instance and membership.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Register {
    /// Something was decided in this view; grants of earlier views bind nobody.
    floor: View,
    /// In the order in which they were granted, by ascending view. Those that bind nobody show that what they decided is decided.
    grants: Vec<Grant>,
}

/// Why a small quorum is not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is no set of so many members of the instance.
    NoQuorum,
    /// A later view has a small quorum, or decided something.
    Old(View),
    /// It shares too few members with this one.
    Misses(Grant),
    /// The register is full: a later view must decide something first.
    Full,
    /// Members may lie, and this is not shown.
    Unshown(&'static str),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoQuorum => f.write_str("these are too few members, or others than members"),
            Self::Old(view) => write!(f, "{view} goes on already"),
            Self::Misses(Grant { view, set }) => {
                write!(f, "it shares too few members with that of {view},")?;
                set.iter().try_for_each(|id| write!(f, " {id}"))
            }
            Self::Full => f.write_str("there are too many already"),
            Self::Unshown(why) => f.write_str(why),
        }
    }
}

impl Register {
    /// The view from which on small quorums bind.
    pub fn floor(&self) -> View {
        self.floor
    }

    /// The small quorums, in the order in which they were granted.
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// Those of this view.
    pub fn grants_of(&self, view: View) -> impl Iterator<Item = &Grant> {
        self.grants.iter().filter(move |grant| grant.view == view)
    }

    /// Those that bind.
    pub fn binding(&self) -> impl Iterator<Item = &Grant> {
        self.grants.iter().filter(|grant| grant.view >= self.floor)
    }

    /// Whether this set is a small quorum of this view.
    pub fn has(&self, view: View, set: &[ReplicaId]) -> bool {
        self.grants_of(view).any(|grant| grant.set == set)
    }

    /// The register after a grant. `decided`: the highest view, up to this one, in which something is known to be decided. [visigoth L1-L7]
    ///
    /// # Errors
    /// When the rule forbids it.
    pub fn with(
        &self,
        grant: Grant,
        decided: View,
        voters: &[ReplicaId],
        trust: Trust,
    ) -> Result<Self, Refusal> {
        let decided = if planted("visigoth-floor-too-high") { grant.view } else { decided };
        // A leader that learned of a decision in a later view is about to leave its own.
        let decided = if decided <= grant.view { decided } else { View::ZERO };
        let mut next = Self { floor: self.floor.max(decided), grants: self.grants.clone() };
        next.admits(&grant, voters, trust)?;
        if next.grants.len() >= GRANTS_MAX {
            // The oldest one binds nobody, unless all do.
            if next.grants.first().is_none_or(|oldest| oldest.view >= next.floor) {
                return Err(Refusal::Full);
            }
            next.grants.remove(0);
        }
        next.grants.push(grant);
        Ok(next)
    }

    /// Whether the rule allows this grant now.
    fn admits(&self, grant: &Grant, voters: &[ReplicaId], trust: Trust) -> Result<(), Refusal> {
        let members = grant.set.iter().all(|id| voters.contains(id));
        let enough = grant.set.len() >= trust.smallest() as usize;
        if !members || !enough || !grant.set.is_sorted_by(|one, next| one < next) {
            return Err(Refusal::NoQuorum);
        }
        let latest = self.grants.last().map_or(View::ZERO, |last| last.view);
        if grant.view < latest.max(self.floor) {
            return Err(Refusal::Old(latest.max(self.floor)));
        }
        let few = |before: &&Grant| {
            let shared = before.set.iter().filter(|id| grant.set.contains(id)).count();
            shared < trust.truth() as usize && !planted("visigoth-grants-unmet")
        };
        match self.binding().find(few) {
            Some(before) => Err(Refusal::Misses(before.clone())),
            None => Ok(()),
        }
    }

    /// The bytes that the oracle keeps.
    pub fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        out.put_u64(self.floor.number());
        out.put_u16(self.grants.len() as u16);
        for Grant { view, set } in &self.grants {
            out.put_u64(view.number());
            out.put_u8(set.len() as u8);
            set.iter().for_each(|id| out.put_u16(id.number()));
        }
        out.into()
    }

    /// Reads what the oracle keeps; nothing, if nothing was granted yet. Whoever wrote it kept to the rule: that is checked again.
    /// [visigoth L8-L9]
    ///
    /// # Errors
    /// When these are not the bytes of a register of these members, or break the rule.
    pub fn decode(bytes: Bytes, voters: &[ReplicaId], trust: Trust) -> Result<Self, Reject> {
        let read = Self::read(bytes)?;
        let mut register = Self { floor: View::ZERO, grants: Vec::new() };
        for grant in read.grants {
            // Those below the floor met what bound them then.
            register.floor = if grant.view < read.floor { grant.view } else { read.floor };
            let allowed = register.admits(&grant, voters, trust);
            allowed.map_err(|_| {
                Reject::Malformed("register of the oracle: INV-VISIGOTH-1, grants that miss each other")
            })?;
            register.grants.push(grant);
        }
        register.floor = read.floor;
        Ok(register)
    }

    /// Reads what the oracle keeps as it stands, for people.
    ///
    /// # Errors
    /// When these are not the bytes of a register.
    pub fn read(bytes: Bytes) -> Result<Self, Reject> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let mut r = Reader::new(bytes, "register of the oracle");
        if r.u8()? != VERSION {
            return Err(Reject::Malformed("register of the oracle: version"));
        }
        let (floor, count) = (View::new(r.u64()?), usize::from(r.u16()?));
        if count > GRANTS_MAX {
            let (size, max) = (count as u64, GRANTS_MAX as u64);
            return Err(Reject::TooLarge { what: "small quorums", size, max });
        }
        let mut register = Self { floor, grants: Vec::with_capacity(count) };
        for _ in 0..count {
            let (view, len) = (View::new(r.u64()?), usize::from(r.u8()?));
            if len > MEMBERS_MAX {
                let (size, max) = (len as u64, MEMBERS_MAX as u64);
                return Err(Reject::TooLarge { what: "members of a small quorum", size, max });
            }
            let set = (0..len).map(|_| r.u16().map(ReplicaId::new)).collect::<Result<_, _>>()?;
            register.grants.push(Grant { view, set });
        }
        r.end()?;
        Ok(register)
    }
}
