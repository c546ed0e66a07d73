//! Eras: stretches of a cluster's history, each ordered by one protocol and trusted under one fault model.
//!
//! ```text
//! era             number u64 | protocol u16 | faults | administrators: 0 u8, or 1 u8 and what `administration.rs` says | memberships
//! faults          1 u8: crash, 2 u8: byzantine, 3 u8: visigoth, with u, s, o and t_ms, u32 each | most u32, 0: as many as the members allow
//! era notice      began u64 | digest before 32 bytes | era
//! faults request  protocol u16, 0: the one that suits the faults | faults
//! ```
//!
//! The memberships are one: the first membership of the era, in which all vote. Where replicas may lie, each of its members has a key.
//! Tests: era/tests.rs, tests/all/properties.rs.

use crate::administration::Administrators;
use crate::codec::{Put, Reader};
use crate::frame::{FrameKind, OutFrame};
use crate::membership::{MEMBERSHIPS_BYTES_MAX, Membership, Memberships};
use bytes::Bytes;
use quorate_types::{ClusterId, Digest, FaultModel, Faults, MembershipId, Reject, Seq, Visigoth};

/// An era takes at most this many bytes.
pub const ERA_BYTES_MAX: usize = 1024 + MEMBERSHIPS_BYTES_MAX;

/// Which faults the replicas may have in an era.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EraFaults {
    /// The model.
    pub model: FaultModel,
    /// How many faults are survived, if fewer than the members allow.
    pub most: Option<u32>,
}

impl EraFaults {
    /// As protocols count them.
    pub const fn counted(self) -> Faults {
        let faults = Faults::of(self.model);
        match self.most {
            Some(most) => faults.at_most(most),
            None => faults,
        }
    }

    fn write_to(self, out: &mut Vec<u8>) {
        match self.model {
            FaultModel::Crash => out.put_u8(1),
            FaultModel::Byzantine => out.put_u8(2),
            FaultModel::Visigoth(Visigoth { u, s, o, t_ms }) => {
                out.put_u8(3);
                [u, s, o, t_ms].into_iter().for_each(|number| out.put_u32(number));
            }
        }
        out.put_u32(self.most.unwrap_or(0));
    }

    fn read(r: &mut Reader) -> Result<Self, Reject> {
        let model = match r.u8()? {
            1 => FaultModel::Crash,
            2 => FaultModel::Byzantine,
            3 => {
                let sizes = Visigoth { u: r.u32()?, s: r.u32()?, o: r.u32()?, t_ms: r.u32()? };
                sizes.check().map_err(|_| Reject::Malformed("era: faults"))?;
                FaultModel::Visigoth(sizes)
            }
            _ => return Err(Reject::Malformed("era: fault model")),
        };
        Ok(Self { model, most: Some(r.u32()?).filter(|most| *most > 0) })
    }
}

/// An era, as the command says that begins it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Era {
    /// Its number. A cluster begins with era 1, of which there is no such description: the configuration says what it is.
    pub number: u64,
    /// The number of the ordering protocol, as in ordering messages.
    pub protocol: u16,
    /// Which faults are survived.
    pub faults: EraFaults,
    /// Its first membership. The numbers of memberships begin anew in each era.
    pub members: Membership,
    /// Who administers the cluster from then on, where replicas may lie.
    pub administrators: Option<Administrators>,
}

impl Era {
    /// The id that stands for the cluster in everything that is signed in era `number`, so that no signature of one era counts in another.
    pub const fn signed_as(cluster: ClusterId, number: u64) -> ClusterId {
        // The multiplier of the 128-bit FNV-1a hash, so that the eras of two clusters have no id in common by chance.
        let mixed = (number as u128).wrapping_sub(1).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013B);
        ClusterId::new(cluster.bits() ^ mixed)
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        self.write_to(&mut out);
        out
    }

    fn write_to(&self, out: &mut Vec<u8>) {
        out.put_u64(self.number);
        out.put_u16(self.protocol);
        self.faults.write_to(out);
        out.put_u8(u8::from(self.administrators.is_some()));
        self.administrators.iter().for_each(|administrators| administrators.write_to(out));
        out.extend_from_slice(&Memberships::one(self.members.clone()).encode());
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are no era.
    pub fn decode(bytes: Bytes) -> Result<Self, Reject> {
        Self::read(Reader::new(bytes, "era"))
    }

    /// Reads to the end.
    fn read(mut r: Reader) -> Result<Self, Reject> {
        let (number, protocol, faults) = (r.u64()?, r.u16()?, EraFaults::read(&mut r)?);
        let administrators = if r.bool()? { Some(Administrators::read(&mut r)?) } else { None };
        let memberships = Memberships::decode(r.rest())?;
        let members = memberships.now().clone();
        let all_vote = members.voters().count() == members.members().len();
        let is_first = memberships.before().is_none() && members.number() == MembershipId::FIRST;
        let keyed = members.members().iter().all(|member| member.key.is_some());
        if number < 2 || number == u64::MAX || !is_first || !all_vote {
            return Err(Reject::Malformed("era"));
        }
        if faults.model.may_lie() && !keyed {
            return Err(Reject::Malformed("era: a member without a key"));
        }
        Ok(Self { number, protocol, faults, members, administrators })
    }
}

/// What a replica says of the era that it is in, to replicas of earlier ones and to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EraNotice {
    /// The seq at which the era began.
    pub began: Seq,
    /// The digest of the image of that seq in the era before.
    pub before: Digest,
    /// The era.
    pub era: Era,
}

impl EraNotice {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        out.put_u64(self.began.number());
        out.extend_from_slice(self.before.bytes());
        self.era.write_to(&mut out);
        out
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are no notice.
    pub fn decode(bytes: Bytes) -> Result<Self, Reject> {
        let mut r = Reader::new(bytes, "era notice");
        let (began, before) = (Seq::new(r.u64()?), Digest::new(r.array()?));
        Ok(Self { began, before, era: Era::read(r)? })
    }

    /// The frame to send.
    pub fn frame(&self) -> OutFrame {
        OutFrame::new(FrameKind::Era, &self.encode(), vec![])
    }
}

/// An operator asks for the end of the era.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultsRequest {
    /// The number of the protocol of the next era; none: the one that suits the faults.
    pub protocol: Option<u16>,
    /// The faults of the next era.
    pub faults: EraFaults,
}

impl FaultsRequest {
    /// The frame to send.
    pub fn frame(&self) -> OutFrame {
        let mut out = Vec::with_capacity(24);
        out.put_u16(self.protocol.unwrap_or(0));
        self.faults.write_to(&mut out);
        OutFrame::new(FrameKind::FaultsRequest, &out, vec![])
    }

    /// Reads a request.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn decode(payload: Bytes) -> Result<Self, Reject> {
        let mut r = Reader::new(payload, "faults request");
        let (protocol, faults) = (r.u16()?, EraFaults::read(&mut r)?);
        r.end()?;
        Ok(Self { protocol: Some(protocol).filter(|number| *number > 0), faults })
    }
}

#[cfg(test)]
mod tests;
