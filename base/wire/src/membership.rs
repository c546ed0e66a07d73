//! Memberships: who belongs to a cluster. The same bytes are sent to replicas and clients, and lie in logs and checkpoints.
//!
//! ```text
//! memberships  joint u8 | membership before, if joint is 1 | membership
//! membership   number u64 | count u16 | (replica u16 | role u8 | incarnation u64 | life u64 | length u8, address | key 32) ...
//! ```
//!
//! A member has a key if its role has the highest bit: where replicas may lie. The bytes are canonical: members in the order of their ids, each once. Numbers grow by one with each change.
//!
//! Source for two memberships at once: joint consensus, Ongaro's dissertation, section 4.3. Tests: tests/all/properties.rs,
//! membership/tests.rs.

use crate::codec::{Put, Reader};
use bytes::Bytes;
use quorate_types::{FaultModel, Faults, Incarnation, MembershipId, Reject, ReplicaId, planted};

/// A membership has at most this many members.
pub const MEMBERS_MAX: usize = 64;
/// An address has at most this many bytes.
pub const ADDRESS_MAX: usize = 255;
/// [`Memberships`] take at most this many bytes.
pub const MEMBERSHIPS_BYTES_MAX: usize = 1 + 2 * (10 + MEMBERS_MAX * (52 + ADDRESS_MAX));

/// The bit of a role that says that the member has a key.
const KEYED: u8 = 0x80;

/// The part of a member in agreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MemberRole {
    /// Takes part in agreement.
    Voter = 1,
    /// Gets everything, and does not take part in agreement.
    Learner = 2,
}

/// One replica of a membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its id.
    pub replica: ReplicaId,
    /// Its part in agreement.
    pub role: MemberRole,
    /// Its address: host and port. Empty in a cluster that was just made; the configuration files then have it.
    pub address: String,
    /// The incarnation of the data directory that may run under this id.
    pub incarnation: Incarnation,
    /// The life of that directory, once it is known; otherwise 0.
    pub life: u64,
    /// Where replicas may lie: the public key of its signatures. Known to the configuration files alone in a cluster that was just made.
    pub key: Option<[u8; 32]>,
}

impl Member {
    /// A voter with nothing but an id.
    pub fn voter(replica: ReplicaId) -> Self {
        Self {
            replica,
            role: MemberRole::Voter,
            address: String::new(),
            incarnation: Incarnation::default(),
            life: 0,
            key: None,
        }
    }
    /// A learner with nothing but an id.
    pub fn learner(replica: ReplicaId) -> Self {
        Self { role: MemberRole::Learner, ..Self::voter(replica) }
    }
}

/// A numbered list of replicas: at least one of them votes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    number: MembershipId,
    members: Vec<Member>,
}

impl Membership {
    /// A membership of these replicas, in any order.
    ///
    /// # Errors
    /// When it has no voter, too many members, an id twice, or an address that is too long.
    pub fn new(number: MembershipId, mut members: Vec<Member>) -> Result<Self, Reject> {
        members.sort_by_key(|member| member.replica);
        let membership = Self { number, members };
        membership.check()?;
        Ok(membership)
    }

    fn check(&self) -> Result<(), Reject> {
        let malformed = |what| Err(Reject::Malformed(what));
        if self.members.len() > MEMBERS_MAX {
            let (size, max) = (self.members.len() as u64, MEMBERS_MAX as u64);
            return Err(Reject::TooLarge { what: "membership", size, max });
        }
        if self.number == MembershipId::ZERO || self.number.number() == u64::MAX {
            return malformed("membership: number");
        }
        if !self.members.is_sorted_by(|one, next| one.replica < next.replica) {
            return malformed("membership: order of its members");
        }
        if self.voters().next().is_none() {
            return malformed("membership: nobody votes");
        }
        if self.members.iter().any(|member| member.address.len() > ADDRESS_MAX) {
            return malformed("membership: address");
        }
        Ok(())
    }

    /// Its number.
    pub fn number(&self) -> MembershipId {
        self.number
    }
    /// All replicas, by id.
    pub fn members(&self) -> &[Member] {
        &self.members
    }
    /// The replica with this id.
    pub fn get(&self, replica: ReplicaId) -> Option<&Member> {
        self.members.iter().find(|member| member.replica == replica)
    }
    /// The replicas that vote.
    pub fn voters(&self) -> impl Iterator<Item = ReplicaId> {
        self.members.iter().filter(|member| member.role == MemberRole::Voter).map(|member| member.replica)
    }
    /// Whether this replica votes.
    pub fn is_voter(&self, replica: ReplicaId) -> bool {
        self.voters().any(|voter| voter == replica)
    }
    /// Whether the replicas for which `holds` is true, and `extra` more, are a quorum.
    fn has_quorum(&self, extra: usize, holds: &impl Fn(ReplicaId) -> bool) -> bool {
        let (mut voters, mut holders) = (0, 0);
        for member in &self.members {
            let votes = member.role == MemberRole::Voter;
            voters += u32::from(votes);
            holders += usize::from((votes || planted("learner-counted")) && holds(member.replica));
        }
        holders + extra >= Faults::of(FaultModel::Crash).among(voters).agreement() as usize
    }

    /// Appends its bytes.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.put_u64(self.number.number());
        out.put_u16(self.members.len() as u16);
        for member in &self.members {
            out.put_u16(member.replica.number());
            out.put_u8(member.role as u8 | if member.key.is_some() { KEYED } else { 0 });
            out.put_u64(member.incarnation.bits());
            out.put_u64(member.life);
            out.put_u8(member.address.len() as u8);
            out.extend_from_slice(member.address.as_bytes());
            member.key.iter().for_each(|key| out.extend_from_slice(key));
        }
    }

    fn read(r: &mut Reader) -> Result<Self, Reject> {
        let (number, count) = (MembershipId::new(r.u64()?), r.u16()?);
        let mut members = Vec::new();
        for _ in 0..count {
            let replica = ReplicaId::new(r.u16()?);
            let role = r.u8()?;
            let keyed = role & KEYED > 0;
            let role = match role & !KEYED {
                1 => MemberRole::Voter,
                2 => MemberRole::Learner,
                _ => return Err(Reject::Malformed("membership: role")),
            };
            let (incarnation, life, len) = (Incarnation::new(r.u64()?), r.u64()?, r.u8()?);
            let address = String::from_utf8(r.bytes(usize::from(len))?.into())
                .map_err(|_| Reject::Malformed("membership: address"))?;
            let key = if keyed { Some(r.array()?) } else { None };
            members.push(Member { replica, role, address, incarnation, life, key });
        }
        let membership = Self { number, members };
        membership.check()?;
        Ok(membership)
    }
}

/// The membership in force; during a change the old and the new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memberships {
    before: Option<Membership>,
    now: Membership,
}

impl Memberships {
    /// One membership, without a change.
    pub fn one(now: Membership) -> Self {
        Self { before: None, now }
    }

    /// A change from one membership to the next.
    ///
    /// # Errors
    /// When the second does not have the next number.
    pub fn change(before: Membership, now: Membership) -> Result<Self, Reject> {
        if now.number != before.number.next() {
            return Err(Reject::Malformed("membership: not the next one"));
        }
        Ok(Self { before: Some(before), now })
    }

    /// The membership with which a cluster begins.
    ///
    /// # Panics
    /// When the list is empty, too long, or names a replica twice.
    pub fn created(voters: &[ReplicaId]) -> Self {
        let members = voters.iter().copied().map(Member::voter).collect();
        let membership = Membership::new(MembershipId::FIRST, members);
        Self::one(membership.expect("a cluster begins with a list of different replicas"))
    }

    /// The membership that holds; during a change the new one.
    pub fn now(&self) -> &Membership {
        &self.now
    }
    /// During a change the old membership.
    pub fn before(&self) -> Option<&Membership> {
        self.before.as_ref()
    }
    /// The same after the change is complete.
    #[must_use]
    pub fn ended(&self) -> Self {
        Self::one(self.now.clone())
    }
    /// Whether the same replicas vote before and after.
    pub fn keeps_voters(&self) -> bool {
        self.before.as_ref().is_none_or(|before| before.voters().eq(self.now.voters()))
    }
    /// Each membership that holds.
    pub fn all(&self) -> impl Iterator<Item = &Membership> {
        self.before.iter().chain([&self.now])
    }
    /// Whether this replica votes in one of the memberships.
    pub fn is_voter(&self, replica: ReplicaId) -> bool {
        self.all().any(|membership| membership.is_voter(replica))
    }
    /// The replica with this id, as the newest membership that has it describes it.
    pub fn get(&self, replica: ReplicaId) -> Option<&Member> {
        self.now.get(replica).or_else(|| self.before.as_ref()?.get(replica))
    }
    /// All replicas of both, by id, each once.
    pub fn replicas(&self) -> Vec<ReplicaId> {
        let mut all: Vec<_> =
            self.all().flat_map(|membership| &membership.members).map(|m| m.replica).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
    /// Whether the replicas for which `holds` is true, and `extra` more, are a quorum of each membership that holds.
    pub fn has_quorum(&self, extra: usize, holds: impl Fn(ReplicaId) -> bool) -> bool {
        self.all().all(|membership| membership.has_quorum(extra, &holds))
    }

    /// Its bytes.
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(64 * (1 + self.now.members.len()));
        out.put_u8(u8::from(self.before.is_some()));
        self.all().for_each(|membership| membership.write_to(&mut out));
        Bytes::from(out)
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are not memberships.
    pub fn decode(bytes: Bytes) -> Result<Self, Reject> {
        let mut r = Reader::new(bytes, "membership");
        let before = if r.bool()? { Some(Membership::read(&mut r)?) } else { None };
        let now = Membership::read(&mut r)?;
        r.end()?;
        match before {
            Some(before) => Self::change(before, now),
            None => Ok(Self::one(now)),
        }
    }
}

#[cfg(test)]
mod tests;
