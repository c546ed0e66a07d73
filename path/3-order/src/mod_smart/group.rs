//! The members of a cluster, as an oracle that knows the rule is told of them.
//!
//! ```text
//! group      1 u8 | cluster u128 | u u32 | s u32 | o u32 | count u8 | members
//! member     id u16 | public key 32 bytes
//! ```
//!
//! Tests: tests/referee.rs for the rule, front/oracle/tests for groups.

use super::{Referee, Statements};
use crate::visigoth::{Claim, Register};
use bytes::Bytes;
use quorate_auth::{Ed25519, PublicKey, bounded};
use quorate_types::{ClusterId, InstanceId, MembershipId, Reject, ReplicaId, Trust, Visigoth};
use quorate_wire::{MEMBERS_MAX, Put, Reader};

/// The layout of a group.
const VERSION: u8 = 1;

/// Who the members of a cluster are, and what is assumed of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The cluster.
    pub cluster: ClusterId,
    /// What is assumed of its members; the time does not count.
    pub sizes: Visigoth,
    /// Its members by id, with the keys that they sign with.
    pub members: Vec<(ReplicaId, PublicKey)>,
}

impl Group {
    /// The bytes that go to the oracle.
    pub fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.cluster.bits().to_le_bytes());
        [self.sizes.u, self.sizes.s, self.sizes.o].into_iter().for_each(|size| out.put_u32(size));
        out.put_u8(self.members.len() as u8);
        for (id, key) in &self.members {
            out.put_u16(id.number());
            out.extend_from_slice(key.bytes());
        }
        out.into()
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// When these are not the bytes of a group, or of one in which few may go on and some may lie.
    pub fn decode(bytes: Bytes) -> Result<Self, Reject> {
        let mut r = Reader::new(bytes, "group");
        if r.u8()? != VERSION {
            return Err(Reject::Malformed("group: version"));
        }
        let cluster = ClusterId::new(u128::from_le_bytes(r.array()?));
        let sizes = Visigoth { u: r.u32()?, s: r.u32()?, o: r.u32()?, t_ms: 1 };
        let count = bounded(usize::from(r.u8()?), MEMBERS_MAX, "members")?;
        let member = |r: &mut Reader| Ok((ReplicaId::new(r.u16()?), PublicKey::new(r.array()?)?));
        let members = (0..count).map(|_| member(&mut r)).collect::<Result<Vec<_>, Reject>>()?;
        r.end()?;
        let group = Self { cluster, sizes, members };
        let sorted = group.members.is_sorted_by(|one, next| one.0 < next.0);
        let fit = sizes.check().and_then(|()| sizes.check_members(count as u32)).is_ok();
        let asks = sizes.s < sizes.u && sizes.o > 0;
        if sorted && fit && asks { Ok(group) } else { Err(Reject::Malformed("group: members")) }
    }

    /// What the register of an instance holds after this claim; none if it stays as it is. Where members may lie the membership does not
    /// change: it is the first one.
    ///
    /// # Errors
    /// When these are not the bytes of a claim, or it does not show enough; in words.
    pub fn judge(
        &self,
        instance: InstanceId,
        register: Bytes,
        claim: Bytes,
    ) -> Result<Option<Bytes>, String> {
        let (register, claim) = (Register::read(register), Claim::decode(claim));
        let (register, claim) =
            (register.map_err(|why| why.to_string())?, claim.map_err(|why| why.to_string())?);
        let Visigoth { u, s, o, .. } = self.sizes;
        let trust = Trust::new(self.members.len() as u32, u, s, o).ok_or("too few members")?;
        // It signs nothing.
        let members = self.members.iter().copied();
        let auth = Ed25519::since(MembershipId::FIRST, ReplicaId::new(0), &[], members)
            .map_err(|why| why.to_string())?;
        let voters: Vec<ReplicaId> = self.members.iter().map(|(id, _)| *id).collect();
        let statements = Statements { cluster: self.cluster, membership: MembershipId::FIRST, instance };
        let referee = Referee { statements, voters: &voters, trust, auth: &auth };
        let next = referee.judge(&register, claim).map_err(|why| why.to_string())?;
        Ok((next != register).then(|| next.encode()))
    }
}
