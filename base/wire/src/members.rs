//! Messages about memberships and feature levels outside the protocols: the ordered commands, and what operators ask for.
//!
//! ```text
//! system command   kind u8 | memberships (1, a change) or number u64 (2, it ended) or level u32 (3, the feature level from here on)
//!                  or count u16 (4, the number of instances from the next generation border on)
//!                  or leader u16, slot u64, view u64, memberships (5, they hold in this instance from the next slot on)
//!                  or count u8, (replica u16 | tag u64) ... (6, these members count in small quorums again)
//!                  or a signed command (7, `administration.rs`)
//!                  or an era (8, `era.rs`: this one ends here, that one begins)
//!                  or level u32 (9, the service's level from here on)
//!                  or a change of the neighbours (10, `neighbours.rs`)
//! member request   kind u8 | replica u16 | other u16 | incarnation u64 | key 32 (kind 6, add with a key, and 7, another key)
//!                  | address, to the end
//! upgrade request  level u32, or 0 for the highest that all members can work at | 1 u8: the service's level is meant, not the cluster's
//! instances request  count u16
//! ```
//!
//! A system command is the body of the only request of a batch, of kind [`RequestKind::System`]. No client may send one.
//! Tests: members/tests.rs.

use crate::administration::SignedCommand;
use crate::batch::{Batch, BatchHeader, RequestHeader, RequestKind, RequestProof};
use crate::codec::{Put, Reader};
use crate::era::Era;
use crate::frame::{FrameKind, OutFrame};
use crate::membership::{ADDRESS_MAX, MEMBERS_MAX, Memberships};
use crate::neighbours::NeighbourCommand;
use bytes::Bytes;
use quorate_types::{
    AgreedTime, Incarnation, InstanceId, MembershipId, Reject, ReplicaId, RequestNumber, SessionId, Slot,
    View,
};

/// The kind of a member request that adds a replica with a key.
const ADD_WITH_KEY: u8 = 6;
/// The kind of a request for another key.
const REKEY: u8 = 7;
/// Follows the level in an upgrade request that means the service's.
const OF_SERVICE: u8 = 1;
/// The offset of the kind in a request's header.
const KIND_AT: usize = 28;

/// A command to the engine itself, which is ordered like commands to the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SystemCommand {
    /// Begin this change of membership; it holds the old and the new one.
    Change(Memberships),
    /// The change to this membership is complete in every instance.
    Changed(MembershipId),
    /// From now on the cluster works at this feature level.
    Raise(u32),
    /// From the next generation border on this many instances order batches.
    Instances(u16),
    /// From the next slot of this instance on, another membership holds there. An ordering protocol decides this itself; nothing is
    /// executed.
    Holds(Holds),
    /// From the next slot of this instance on these members count in small quorums, each as it named itself with a tag. An ordering protocol
    /// decides this itself; nothing is executed.
    Back(Vec<(ReplicaId, u64)>),
    /// What administrators command. Where replicas may lie, only this changes members and levels.
    Signed(SignedCommand),
    /// This era ends here, and that one begins.
    Era(Era),
    /// From now on the service works at this level: a version that all programs have.
    RaiseService(u32),
    /// Another service is a neighbour from here on, or no longer.
    Neighbour(NeighbourCommand),
}

/// What the log of an instance says where its membership changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holds {
    /// The membership that decides this, and the next one.
    pub change: Memberships,
    /// The slot after which the deciding membership began.
    pub since: Slot,
    /// The first view of the deciding membership.
    pub begins: View,
    /// The first leader of the next membership, if it votes there.
    pub leader: ReplicaId,
}

impl SystemCommand {
    /// The request's body.
    fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        match self {
            Self::Change(memberships) => {
                body.put_u8(1);
                body.extend_from_slice(&memberships.encode());
            }
            Self::Changed(number) => {
                body.put_u8(2);
                body.put_u64(number.number());
            }
            Self::Raise(level) => {
                body.put_u8(3);
                body.put_u32(*level);
            }
            Self::Instances(count) => {
                body.put_u8(4);
                body.put_u16(*count);
            }
            Self::Holds(holds) => {
                body.put_u8(5);
                body.put_u16(holds.leader.number());
                body.put_u64(holds.since.number());
                body.put_u64(holds.begins.number());
                body.extend_from_slice(&holds.change.encode());
            }
            Self::Back(members) => {
                body.put_u8(6);
                body.put_u8(members.len() as u8);
                for (id, tag) in members {
                    body.put_u16(id.number());
                    body.put_u64(*tag);
                }
            }
            Self::Signed(signed) => {
                body.put_u8(7);
                body.extend_from_slice(&signed.encode());
            }
            Self::Era(era) => {
                body.put_u8(8);
                body.extend_from_slice(&era.encode());
            }
            Self::RaiseService(level) => {
                body.put_u8(9);
                body.put_u32(*level);
            }
            Self::Neighbour(command) => {
                body.put_u8(10);
                body.extend_from_slice(&command.encode());
            }
        }
        body
    }

    /// The whole request with this command, as it stands in a batch.
    pub fn request(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write_request(&mut bytes);
        bytes
    }

    fn write_request(&self, bytes: &mut Vec<u8>) {
        let body = self.encode();
        let (session, number) = (SessionId::NONE, RequestNumber::ZERO);
        let (kind, len) = (RequestKind::System, body.len() as u32);
        RequestHeader { session, number, lowest_unanswered: number, kind, len, proof: RequestProof::None }
            .write_to(bytes);
        bytes.extend_from_slice(&body);
    }

    /// A batch with this command and nothing else. The header's count is set.
    pub fn batch(&self, header: BatchHeader) -> Batch {
        let mut bytes = Vec::new();
        Batch::begin(&mut bytes);
        self.write_request(&mut bytes);
        Batch::seal(bytes, BatchHeader { count: 1, ..header })
    }

    /// A batch with this command, whose header holds nothing: no time, seed, base, border or ruling.
    pub fn alone(&self) -> Batch {
        let time = AgreedTime::ZERO;
        self.batch(BatchHeader { time, seed: 0, count: 1, border: false, base: None, ruling: None })
    }

    /// The command that a batch holds, if it holds one.
    pub fn of(batch: &Batch) -> Option<Self> {
        // One request of a client may hold thousands of commands: not looked into.
        let kind = batch.bytes().get(Batch::HEADER + KIND_AT).copied();
        if kind != Some(RequestKind::System as u8) || batch.header().count != 1 {
            return None;
        }
        let (header, body, _) = batch.requests().next()?.ok()?;
        (header.kind == RequestKind::System).then(|| Self::decode(body).ok()).flatten()
    }

    /// Reads a request's body.
    ///
    /// # Errors
    /// When the bytes are not a system command.
    pub fn decode(body: &[u8]) -> Result<Self, Reject> {
        let mut r = Reader::new(Bytes::copy_from_slice(body), "system command");
        match r.u8()? {
            1 => Ok(Self::Change(Memberships::decode(r.rest())?)),
            2 => {
                let number = MembershipId::new(r.u64()?);
                r.end()?;
                Ok(Self::Changed(number))
            }
            3 => {
                let level = r.u32()?;
                r.end()?;
                Ok(Self::Raise(level))
            }
            4 => {
                let count = r.u16()?;
                r.end()?;
                Ok(Self::Instances(count))
            }
            5 => {
                let leader = ReplicaId::new(r.u16()?);
                let (since, begins) = (Slot::new(r.u64()?), View::new(r.u64()?));
                Ok(Self::Holds(Holds { change: Memberships::decode(r.rest())?, since, begins, leader }))
            }
            6 => {
                let count = usize::from(r.u8()?);
                if count > MEMBERS_MAX {
                    let (size, max) = (count as u64, MEMBERS_MAX as u64);
                    return Err(Reject::TooLarge { what: "members that are back", size, max });
                }
                let member = |_| Ok((ReplicaId::new(r.u16()?), r.u64()?));
                let members = (0..count).map(member).collect::<Result<_, Reject>>()?;
                r.end()?;
                Ok(Self::Back(members))
            }
            7 => Ok(Self::Signed(SignedCommand::decode(r.rest())?)),
            8 => Ok(Self::Era(Era::decode(r.rest())?)),
            9 => {
                let level = r.u32()?;
                r.end()?;
                Ok(Self::RaiseService(level))
            }
            10 => Ok(Self::Neighbour(NeighbourCommand::decode(r.rest())?)),
            _ => Err(Reject::Malformed("system command")),
        }
    }
}

/// A change of the membership that an operator asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberRequest {
    /// A new replica joins, as a learner.
    Add {
        /// Its id, never used before.
        replica: ReplicaId,
        /// Its address.
        address: String,
        /// The data directory that was made for it.
        incarnation: Incarnation,
        /// Where replicas may lie: the public key of its signatures.
        key: Option<[u8; 32]>,
    },
    /// A learner becomes a voter.
    Promote(ReplicaId),
    /// A replica leaves.
    Remove(ReplicaId),
    /// A learner becomes a voter, and a replica leaves, at once.
    Replace {
        /// The replica that leaves.
        old: ReplicaId,
        /// The learner.
        new: ReplicaId,
    },
    /// A replica signs with another key from then on. Only where replicas may lie.
    Rekey {
        /// The replica.
        replica: ReplicaId,
        /// The public half of its new key.
        key: [u8; 32],
    },
    /// A replica has another address from now on.
    Move {
        /// The replica.
        replica: ReplicaId,
        /// The new address.
        address: String,
    },
}

impl MemberRequest {
    /// The frame to send.
    pub fn frame(&self) -> OutFrame {
        let none = (ReplicaId::new(0), Incarnation::default(), "");
        let (kind, replica, other, incarnation, address) = match self {
            Self::Add { replica, address, incarnation, .. } => {
                (1, *replica, none.0, *incarnation, address.as_str())
            }
            Self::Promote(replica) => (2, *replica, none.0, none.1, none.2),
            Self::Remove(replica) => (3, *replica, none.0, none.1, none.2),
            Self::Replace { old, new } => (4, *old, *new, none.1, none.2),
            Self::Move { replica, address } => (5, *replica, none.0, none.1, address.as_str()),
            Self::Rekey { replica, .. } => (REKEY, *replica, none.0, none.1, none.2),
        };
        let key = match self {
            Self::Add { key, .. } => *key,
            Self::Rekey { key, .. } => Some(*key),
            _ => None,
        };
        let kind = if key.is_some() && kind != REKEY { ADD_WITH_KEY } else { kind };
        let mut out = Vec::with_capacity(48 + address.len());
        out.put_u8(kind);
        out.put_u16(replica.number());
        out.put_u16(other.number());
        out.put_u64(incarnation.bits());
        key.iter().for_each(|key| out.extend_from_slice(key));
        out.extend_from_slice(address.as_bytes());
        OutFrame::new(FrameKind::MemberRequest, &out, vec![])
    }

    /// Reads a request.
    ///
    /// # Errors
    /// When the bytes are not such a request.
    pub fn decode(payload: Bytes) -> Result<Self, Reject> {
        let mut r = Reader::new(payload, "member request");
        let kind = r.u8()?;
        let (replica, other) = (ReplicaId::new(r.u16()?), ReplicaId::new(r.u16()?));
        let incarnation = Incarnation::new(r.u64()?);
        let key = if matches!(kind, ADD_WITH_KEY | REKEY) { Some(r.array()?) } else { None };
        let address = r.rest();
        let malformed = Err(Reject::Malformed("member request"));
        if address.len() > ADDRESS_MAX {
            return malformed;
        }
        let Ok(address) = String::from_utf8(address.into()) else { return malformed };
        let plain = incarnation == Incarnation::default() && key.is_none();
        let (bare, single) = (plain && address.is_empty(), other.number() == 0);
        Ok(match kind {
            1 | ADD_WITH_KEY if single => Self::Add { replica, address, incarnation, key },
            2 if single && bare => Self::Promote(replica),
            3 if single && bare => Self::Remove(replica),
            4 if bare => Self::Replace { old: replica, new: other },
            REKEY if single && address.is_empty() && incarnation == Incarnation::default() => match key {
                Some(key) => Self::Rekey { replica, key },
                None => return malformed,
            },
            5 if single && plain => Self::Move { replica, address },
            _ => return malformed,
        })
    }
}

/// What an operator wants to be raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelOf {
    /// The feature level of the cluster.
    Cluster,
    /// The level of the service.
    Service,
}

/// The frame with which an operator asks for this level; 0 asks for the highest that all members can work at.
pub fn upgrade_request(of: LevelOf, level: u32) -> OutFrame {
    let mut out = level.to_le_bytes().to_vec();
    if of == LevelOf::Service {
        out.put_u8(OF_SERVICE);
    }
    OutFrame::new(FrameKind::UpgradeRequest, &out, vec![])
}

/// Reads the payload of such a frame.
///
/// # Errors
/// When the bytes are not a level.
pub fn read_upgrade_request(payload: Bytes) -> Result<(LevelOf, u32), Reject> {
    let mut r = Reader::new(payload, "upgrade request");
    let level = r.u32()?;
    let of = match r.remaining() {
        0 => LevelOf::Cluster,
        _ if r.u8()? == OF_SERVICE => LevelOf::Service,
        _ => return Err(Reject::Malformed("upgrade request")),
    };
    r.end()?;
    Ok((of, level))
}

/// The frame with which an operator asks for this number of instances.
pub fn instances_request(count: u16) -> OutFrame {
    OutFrame::new(FrameKind::InstancesRequest, &count.to_le_bytes(), vec![])
}

/// Reads the payload of such a frame.
///
/// # Errors
/// When the bytes are not a number.
pub fn read_instances_request(payload: Bytes) -> Result<u16, Reject> {
    let mut r = Reader::new(payload, "instances request");
    let count = r.u16()?;
    r.end()?;
    Ok(count)
}

/// The frame that asks a replica to have instances on these lanes, counted from 1; if there are none, to decide that by itself again.
pub fn lanes_request(wish: &[(InstanceId, u16)]) -> OutFrame {
    let mut body = Vec::with_capacity(4 * wish.len());
    for (instance, lane) in wish {
        body.extend_from_slice(&instance.number().to_le_bytes());
        body.extend_from_slice(&lane.to_le_bytes());
    }
    OutFrame::new(FrameKind::LanesRequest, &body, vec![])
}

/// Reads the payload of such a frame.
///
/// # Errors
/// When the bytes are no instances and lanes, or when one of them is 0.
pub fn read_lanes_request(payload: Bytes) -> Result<Vec<(InstanceId, u16)>, Reject> {
    let pairs = payload.len() / 4;
    let mut r = Reader::new(payload, "lanes request");
    let mut wish = Vec::with_capacity(pairs);
    for _ in 0..pairs {
        let (instance, lane) = (r.u16()?, r.u16()?);
        if instance == 0 || lane == 0 {
            return Err(Reject::Malformed("lanes request: instances and lanes are counted from 1"));
        }
        wish.push((InstanceId::new(instance), lane));
    }
    r.end()?;
    Ok(wish)
}

/// The frame that tells another replica, or a client, the members.
pub fn members_frame(memberships: &Memberships) -> OutFrame {
    OutFrame::new(FrameKind::Members, &memberships.encode(), vec![])
}

#[cfg(test)]
mod tests;
