//! Services that ask each other: who they are, what a cluster is told of them, and what their members send each other.
//!
//! ```text
//! nested request   in a frame of copies: lowest unanswered u64 | body
//! its body         count u8 | service u32 ... (those that led to it, the last one asks) | commands, an item list
//! answer           in a frame of copies, and the body of a request: status u8 | what belongs to it
//! copies           (position u64 | length u32 | bytes) ..., at most 4096
//! seen             position u64: the sender is done with everything before it
//! neighbour        relation u8 (1 caller, 2 backend) | service u32 | cluster u128 | faulty u16 | lying u16 | sessions u16
//!                  | length u8, name | count u8 | (replica u16 | length u16, address) ...
//! command          1 u8 | neighbour: it is one from here on
//!                | 2 u8 | relation u8 | service u32: it is none any more
//! ```
//!
//! Each member of a caller makes connections as a client of the backend's cluster, under a name that follows from its service and its id
//! ([`member_name`]). So where connections are secured, the backend's own authority says who is a member of a caller.
//! docs/protocols/adam.md. Tests: `neighbours/tests.rs`, `tests/all/golden.rs`.

use crate::client::ReplyStatus;
use crate::codec::{Put, Reader};
use crate::frame::{FrameKind, OutFrame};
use crate::membership::{ADDRESS_MAX, MEMBERS_MAX};
use bytes::Bytes;
use quorate_types::{ClientId, ClusterId, Items, Name, Reject, ReplicaId};
use std::fmt;

/// A frame has at most this many copies.
pub const COPIES_MAX: usize = 4096;
/// A neighbour has at most this many sessions.
pub const NEIGHBOUR_SESSIONS_MAX: u16 = 64;
/// The longest name of a neighbour, in bytes.
const NAME_MAX: usize = 64;

/// What another service is to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Relation {
    /// It asks, and this service answers.
    Caller = 1,
    /// It answers, and this service asks.
    Backend = 2,
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Caller => "caller",
            Self::Backend => "backend",
        })
    }
}

impl Relation {
    fn read(number: u8) -> Result<Self, Reject> {
        match number {
            1 => Ok(Self::Caller),
            2 => Ok(Self::Backend),
            _ => Err(Reject::Malformed("neighbour: relation")),
        }
    }

    /// The client that owns the sessions of such a neighbour. No client has its id.
    pub const fn client(self, service: u32) -> ClientId {
        ClientId::reserved(self as u32, service)
    }
}

/// Another service, as this one's cluster knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// What it is to this one.
    pub relation: Relation,
    /// Its number.
    pub service: u32,
    /// Its name, for people.
    pub name: String,
    /// Its cluster.
    pub cluster: ClusterId,
    /// How many of its members may be faulty.
    pub faulty: u16,
    /// How many of them may lie.
    pub lying: u16,
    /// How many sessions it has here: so many of its messages are taken at a time, each after the one before it in its session.
    pub sessions: u16,
    /// Its members, in ascending order, with their addresses; those of a caller need none.
    pub members: Vec<(ReplicaId, String)>,
}

impl Neighbour {
    /// How many members must say the same.
    pub fn copies(&self) -> usize {
        usize::from(self.lying) + 1
    }

    /// The session and the number in it that a message has which is the service's so many-th, from 1.
    pub fn place(&self, position: u64) -> (u16, u64) {
        let (of, at) = (u64::from(self.sessions.max(1)), position.saturating_sub(1));
        ((at % of) as u16, at / of + 1)
    }

    /// The inverse of [`Self::place`].
    pub fn position(&self, session: u16, number: u64) -> u64 {
        let of = u64::from(self.sessions.max(1));
        number.saturating_sub(1).saturating_mul(of).saturating_add(u64::from(session) + 1)
    }

    /// The lowest number in a session whose message is not before this position.
    pub fn lowest(&self, session: u16, position: u64) -> u64 {
        let of = u64::from(self.sessions.max(1));
        position.saturating_sub(u64::from(session) + 1).div_ceil(of) + 1
    }

    fn check(&self) -> Result<(), Reject> {
        let known = self.members.iter().map(|(replica, _)| *replica);
        let ascends = known.is_sorted_by(|one, next| one < next);
        let count = self.members.len();
        let sessions = (1..=NEIGHBOUR_SESSIONS_MAX).contains(&self.sessions);
        let name = (1..=NAME_MAX).contains(&self.name.len()) && !self.name.contains(char::is_control);
        if !(1..=MEMBERS_MAX).contains(&count) || !ascends || !sessions || !name {
            return Err(Reject::Malformed("neighbour"));
        }
        // A message must count although those that are faulty say nothing.
        if self.lying > self.faulty || usize::from(self.faulty) + self.copies() > count {
            return Err(Reject::Malformed("neighbour: too few members for so many faults"));
        }
        let address = |text: &String| match self.relation {
            Relation::Caller => text.len() <= ADDRESS_MAX,
            Relation::Backend => (1..=ADDRESS_MAX).contains(&text.len()),
        };
        if self.members.iter().all(|(replica, text)| replica.number() > 0 && address(text)) {
            return Ok(());
        }
        Err(Reject::Malformed("neighbour: a member"))
    }

    /// Appends the bytes.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.put_u8(self.relation as u8);
        out.put_u32(self.service);
        out.put_u128(self.cluster.bits());
        for number in [self.faulty, self.lying, self.sessions] {
            out.put_u16(number);
        }
        out.put_u8(self.name.len() as u8);
        out.extend_from_slice(self.name.as_bytes());
        out.put_u8(self.members.len() as u8);
        for (replica, address) in &self.members {
            out.put_u16(replica.number());
            out.put_u16(address.len() as u16);
            out.extend_from_slice(address.as_bytes());
        }
    }

    /// Reads what [`Self::write_to`] wrote.
    ///
    /// # Errors
    /// When the bytes are none, or so many members do not survive so many faults.
    pub fn read(r: &mut Reader) -> Result<Self, Reject> {
        let relation = Relation::read(r.u8()?)?;
        let (service, cluster) = (r.u32()?, ClusterId::new(r.u128()?));
        let (faulty, lying, sessions) = (r.u16()?, r.u16()?, r.u16()?);
        let len = usize::from(r.u8()?);
        let name = text(r, len)?;
        let count = r.u8()?;
        let mut member = || {
            let (replica, len) = (ReplicaId::new(r.u16()?), usize::from(r.u16()?));
            Ok((replica, text(r, len)?))
        };
        let members = (0..count).map(|_| member()).collect::<Result<_, Reject>>()?;
        let read = Self { relation, service, name, cluster, faulty, lying, sessions, members };
        read.check().map(|()| read)
    }
}

fn text(r: &mut Reader, len: usize) -> Result<String, Reject> {
    String::from_utf8(r.bytes(len)?.into()).map_err(|_| Reject::Malformed("neighbour: text"))
}

/// A change of the neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NeighbourCommand {
    /// It is one from now on. One that is known gets other members and faults, and keeps its sessions.
    Allow(Neighbour),
    /// It is none any more.
    Forget(Relation, u32),
}

impl fmt::Display for NeighbourCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allow(it) => write!(f, "service {} ({}) is a {}", it.service, it.name, it.relation),
            Self::Forget(relation, service) => write!(f, "service {service} is no {relation} any more"),
        }
    }
}

impl NeighbourCommand {
    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Allow(neighbour) => {
                out.put_u8(1);
                neighbour.write_to(&mut out);
            }
            Self::Forget(relation, service) => {
                out.put_u8(2);
                out.put_u8(*relation as u8);
                out.put_u32(*service);
            }
        }
        out
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are no such command.
    pub fn decode(bytes: Bytes) -> Result<Self, Reject> {
        let mut r = Reader::new(bytes, "neighbour command");
        let command = match r.u8()? {
            1 => Self::Allow(Neighbour::read(&mut r)?),
            2 => Self::Forget(Relation::read(r.u8()?)?, r.u32()?),
            _ => return Err(Reject::Malformed("neighbour command")),
        };
        r.end()?;
        Ok(command)
    }

    /// The frame with which an operator asks for it.
    pub fn frame(&self) -> OutFrame {
        OutFrame::new(FrameKind::NeighbourRequest, &self.encode(), vec![])
    }
}

/// The name under which a member of a caller makes connections to the backend's members, in its certificate.
pub fn member_name(service: u32, replica: ReplicaId) -> Option<Name> {
    Name::parse(&format!("service-{service}-replica-{replica:#}"))
}

/// The number of which the client id of a caller's member is made.
pub const MEMBER_OWN: ClientId = ClientId::new(1);

/// The client that a member of a caller is to the backend's cluster.
pub fn member_client(service: u32, replica: ReplicaId) -> Option<ClientId> {
    member_name(service, replica).map(|name| name.client_id(MEMBER_OWN))
}

/// The body of a nested request: the services that led to it, and its commands, an item list.
pub fn write_nested(chain: impl ExactSizeIterator<Item = u32>, commands: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(1 + 4 * chain.len() + commands.len());
    body.put_u8(chain.len().min(usize::from(u8::MAX)) as u8);
    chain.take(usize::from(u8::MAX)).for_each(|service| body.put_u32(service));
    body.extend_from_slice(commands);
    body
}

/// What [`write_nested`] wrote: the services, 4 bytes each, and the commands.
pub fn split_nested(body: &[u8]) -> Option<(impl ExactSizeIterator<Item = u32>, &[u8])> {
    let (count, rest) = body.split_first()?;
    let (chain, commands) = rest.split_at_checked(usize::from(*count) * 4)?;
    let chain = chain.chunks_exact(4).map(|one| {
        let mut word = [0; 4];
        word.copy_from_slice(one);
        u32::from_le_bytes(word)
    });
    Some((chain, commands))
}

/// Whether this is the body of a nested request.
pub(crate) fn is_nested(body: &[u8]) -> bool {
    let Some((chain, commands)) = split_nested(body) else { return false };
    chain.len() > 0 && Items::parse(commands).is_ok_and(|list| list.len() <= commands.len())
}

/// What the members of two services send each other of a nested request: its lowest unanswered number, then its body.
pub fn write_asked(lowest: u64, body: &[u8]) -> Bytes {
    let mut bytes = Vec::with_capacity(8 + body.len());
    bytes.put_u64(lowest);
    bytes.extend_from_slice(body);
    bytes.into()
}

/// What [`write_asked`] wrote, if it is a nested request.
pub fn split_asked(bytes: &Bytes) -> Option<(u64, Bytes)> {
    let lowest = u64::from_le_bytes(*bytes.first_chunk::<8>()?);
    is_nested(&bytes[8..]).then(|| (lowest, bytes.slice(8..)))
}

/// An answer, as it travels and as it stands in the log.
pub fn write_answer(status: ReplyStatus, body: &[u8]) -> Bytes {
    let mut bytes = Vec::with_capacity(1 + body.len());
    bytes.put_u8(status as u8);
    bytes.extend_from_slice(body);
    bytes.into()
}

/// What [`write_answer`] wrote, if the backend is done with the request.
pub fn split_answer(bytes: &[u8]) -> Option<(ReplyStatus, &[u8])> {
    use ReplyStatus::{Done, ReplyForgotten, SessionExpired, TooLarge};
    let (status, body) = bytes.split_first()?;
    let status = ReplyStatus::from_number(*status)?;
    matches!(status, Done | TooLarge | ReplyForgotten | SessionExpired).then_some((status, body))
}

/// The frame with copies of messages at their positions. Give it at most [`COPIES_MAX`].
pub fn copies_frame(list: &[(u64, Bytes)]) -> OutFrame {
    let bytes: usize = list.iter().map(|(_, message)| 12 + message.len()).sum();
    let mut out = Vec::with_capacity(bytes);
    for (position, message) in list {
        out.put_u64(*position);
        out.put_u32(message.len() as u32);
        out.extend_from_slice(message);
    }
    OutFrame::new(FrameKind::Copies, &out, vec![])
}

/// Reads copies.
///
/// # Errors
/// When there are too many, one has no position, or bytes are left over.
pub fn read_copies(payload: Bytes) -> Result<Vec<(u64, Bytes)>, Reject> {
    let mut r = Reader::new(payload, "copies");
    let mut list = Vec::new();
    while r.remaining() > 0 {
        let (position, len) = (r.u64()?, r.u32()? as usize);
        if position == 0 || list.len() >= COPIES_MAX {
            return Err(Reject::Malformed("copies"));
        }
        list.push((position, r.bytes(len)?));
    }
    Ok(list)
}

/// The frame that says that everything before a position is done.
pub fn seen_frame(next: u64) -> OutFrame {
    OutFrame::new(FrameKind::Seen, &next.to_le_bytes(), vec![])
}

/// Reads what [`seen_frame`] says.
///
/// # Errors
/// When the bytes are no position.
pub fn read_seen(payload: Bytes) -> Result<u64, Reject> {
    let mut r = Reader::new(payload, "seen");
    let next = r.u64()?;
    r.end()?;
    if next == 0 { Err(Reject::Malformed("seen")) } else { Ok(next) }
}

#[cfg(test)]
mod tests;
