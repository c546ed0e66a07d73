//! The handshake. The side that dials says who it is, what it speaks and which cluster it means; the other side accepts the connection or
//! says why not.

use crate::codec::{Put, Reader};
use crate::frame::{FrameKind, OutFrame};
use bytes::Bytes;
use quorate_types::{
    ClientId, ClusterId, Incarnation, MembershipId, Reject, ReplicaId, ServiceName, ServiceVersion, View,
};

/// The oldest wire format that this program speaks.
pub const FORMAT_MIN: u16 = 1;
/// The newest wire format that this program speaks.
pub const FORMAT_MAX: u16 = 1;
/// The lowest feature level that this program can still work at. Level 1 is artificial: it differs from level 2 in nothing but its number.
/// From level 3 on there are eras ([`ERAS_LEVEL`]).
pub const FEATURE_LEVEL_MIN: u32 = 1;
/// The highest feature level that this program can work at. A cluster works at the level on which its log agreed; it is raised once all
/// members can do more (docs/operations/upgrades.md).
pub const FEATURE_LEVEL: u32 = 3;
/// From this feature level on a cluster can begin another era.
pub const ERAS_LEVEL: u32 = 3;
/// From this feature level on the level of the service can be raised.
pub const SERVICE_LEVELS: u32 = 3;

/// Roles on the wire: a member's first connection, and further ones.
const PEER: u8 = 1;
const CLIENT: u8 = 2;
const PEER_AGAIN: u8 = 4;
/// Added to the role of a member that is in a later era than the first, whose number then follows. Programs of a lower feature level than
/// [`ERAS_LEVEL`] do not read such a hello, and can be no members then.
const IN_ERA: u8 = 0x80;
/// Added to the format in the welcome of a replica that is in a later era, for the same reason.
const WELCOME_IN_ERA: u16 = 0x8000;
/// Added to the role of a side that names a service, or a version of it after the first; both then follow.
const SERVES: u8 = 0x40;
/// Added to the format in the welcome of a replica that names a service, for the same reason.
const WELCOME_SERVES: u16 = 0x4000;
const MAGIC: u32 = u32::from_le_bytes(*b"QRT1");
/// The most bytes of a refusal text, so that a peer can not make this program keep or print more.
const TEXT_MAX: usize = 1024;

/// The role of a side that connects. The same port serves all roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A member of the cluster, which sends ordering messages of all instances.
    Peer {
        /// The member.
        replica: ReplicaId,
        /// The incarnation of its data directory.
        incarnation: Incarnation,
    },
    /// A client, with sessions or reads.
    Client(ClientId),
    /// An operator.
    Admin,
}

/// A member has at most this many connections to another, in one direction.
pub const LINKS_MAX: u16 = 64;

/// Which of a member's connections to another member this is. The first, number 0, introduces them to each other and carries what concerns
/// the whole replica. Further ones carry ordering messages of some instances each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// Its number.
    pub number: u16,
    /// How many there are, counting the first one.
    pub of: u16,
}

impl Link {
    /// The first link. It does not say how many will follow.
    pub const FIRST: Self = Self { number: 0, of: 1 };
}

/// The first frame of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Oldest format the sender speaks.
    pub format_min: u16,
    /// Newest format the sender speaks.
    pub format_max: u16,
    /// The highest feature level that the sender can work at.
    pub feature_level: u32,
    /// The cluster that is meant; zero from a client that does not know it yet.
    pub cluster: ClusterId,
    /// The replica that is meant. So a replica that moved, or a port that was given to another one, is noticed at once.
    pub to: Option<ReplicaId>,
    /// The role of the sender.
    pub role: Role,
    /// From a member: a digest of all settings that must be equal on all replicas and are not in the log. From others 0.
    pub parameters: u64,
    /// From a member: which life of its log this is, drawn when it first started. From others 0.
    pub life: u64,
    /// From a member: the number of the membership that it knows. A receiver with an older one accepts the connection to learn the newer.
    /// From others 0.
    pub membership: MembershipId,
    /// From a client whose certificate has a name: its own number, of which its id was made. It shows that the id belongs to that name. 0
    /// from a client that does not say, and from others.
    pub own: ClientId,
    /// From a member: which of its connections this is.
    pub link: Link,
    /// From a member: the number of the era that it is in. From others 1.
    pub era: u64,
    /// The service: from a member the one that it runs, with the version of its program; from a client the one that it means. Unnamed from
    /// one that does not say.
    pub service: ServiceVersion,
}

impl Hello {
    /// A hello of this program.
    pub fn new(cluster: ClusterId, to: Option<ReplicaId>, role: Role) -> Self {
        Self {
            format_min: FORMAT_MIN,
            format_max: FORMAT_MAX,
            feature_level: FEATURE_LEVEL,
            cluster,
            to,
            role,
            parameters: 0,
            life: 0,
            membership: MembershipId::ZERO,
            own: ClientId::new(0),
            link: Link::FIRST,
            era: 1,
            service: ServiceVersion::UNNAMED,
        }
    }

    /// Adds what a member says of itself: the digest of its parameters, and its life.
    #[must_use]
    pub fn of_member(self, parameters: u64, life: u64) -> Self {
        Self { parameters, life, ..self }
    }

    /// Adds the highest feature level that the sender can work at.
    #[must_use]
    pub fn able(self, feature_level: u32) -> Self {
        Self { feature_level, ..self }
    }

    /// Adds the number of the membership that a member knows.
    #[must_use]
    pub fn knowing(self, membership: MembershipId) -> Self {
        Self { membership, ..self }
    }

    /// Adds the number of which a client's id was made.
    #[must_use]
    pub fn made_of(self, own: ClientId) -> Self {
        Self { own, ..self }
    }

    /// Makes it the hello of one of a member's further links.
    #[must_use]
    pub fn on_link(self, link: Link) -> Self {
        Self { link, ..self }
    }

    /// Adds the number of the era that a member is in.
    #[must_use]
    pub fn in_era(self, era: u64) -> Self {
        Self { era, ..self }
    }

    /// Adds the service that is run, or meant.
    #[must_use]
    pub fn of_service(self, service: ServiceVersion) -> Self {
        Self { service, ..self }
    }

    /// The frame to send.
    pub fn frame(&self) -> OutFrame {
        let mut out = Vec::with_capacity(80);
        out.put_u32(MAGIC);
        out.put_u16(self.format_min);
        out.put_u16(self.format_max);
        out.put_u32(self.feature_level);
        out.put_u128(self.cluster.bits());
        out.put_u16(self.to.map_or(0, ReplicaId::number));
        let (role, id, incarnation) = match self.role {
            Role::Peer { replica, incarnation } if self.link == Link::FIRST => {
                (PEER, u64::from(replica.number()), incarnation.bits())
            }
            Role::Peer { replica, incarnation } => {
                let Link { number, of } = self.link;
                let link = u64::from(number) << 16 | u64::from(of) << 32;
                (PEER_AGAIN, u64::from(replica.number()) | link, incarnation.bits())
            }
            // Programs that do not know of it do not look there.
            Role::Client(client) => (CLIENT, client.number(), self.own.number()),
            Role::Admin => (3, 0, 0),
        };
        let later = self.era > 1 && matches!(self.role, Role::Peer { .. });
        let serves = self.service != ServiceVersion::UNNAMED;
        let role = if later { role | IN_ERA } else { role };
        out.put_u8(if serves { role | SERVES } else { role });
        out.put_u64(id);
        out.put_u64(incarnation);
        out.put_u64(self.parameters);
        out.put_u64(self.life);
        out.put_u64(self.membership.number());
        if later {
            out.put_u64(self.era);
        }
        if serves {
            write_service(&self.service, &mut out);
        }
        OutFrame::new(FrameKind::Hello, &out, vec![])
    }

    /// Reads a hello.
    ///
    /// # Errors
    /// When the bytes are not a hello.
    pub fn decode(payload: Bytes) -> Result<Self, Reject> {
        let mut r = Reader::new(payload, "hello");
        if r.u32()? != MAGIC {
            return Err(Reject::Malformed("hello: not a Quorate peer"));
        }
        let (format_min, format_max, feature_level) = (r.u16()?, r.u16()?, r.u32()?);
        let cluster = ClusterId::new(r.u128()?);
        let to = Some(r.u16()?).filter(|to| *to != 0).map(ReplicaId::new);
        let (role, id, incarnation) = (r.u8()?, r.u64()?, r.u64()?);
        let (later, serves) = (role & IN_ERA > 0, role & SERVES > 0);
        let role = role & !(IN_ERA | SERVES);
        let (id, link) = if role == PEER_AGAIN { read_link(id)? } else { (id, Link::FIRST) };
        let own = ClientId::new(if role == CLIENT { incarnation } else { 0 });
        let role = match role {
            PEER | PEER_AGAIN => Role::Peer {
                replica: ReplicaId::new(
                    u16::try_from(id).map_err(|_| Reject::Malformed("hello: replica id"))?,
                ),
                incarnation: Incarnation::new(incarnation),
            },
            CLIENT => Role::Client(ClientId::new(id)),
            3 => Role::Admin,
            _ => return Err(Reject::Malformed("hello: role")),
        };
        let (parameters, life, membership) = (r.u64()?, r.u64()?, MembershipId::new(r.u64()?));
        let (era, service) = (read_era(&mut r, later)?, read_service(&mut r, serves)?);
        r.end()?;
        if later && !matches!(role, Role::Peer { .. }) {
            return Err(Reject::Malformed("hello: era"));
        }
        Ok(Self {
            format_min,
            format_max,
            feature_level,
            cluster,
            to,
            role,
            parameters,
            life,
            membership,
            own,
            link,
            era,
            service,
        })
    }
}

/// The number of the era, if one follows.
fn read_era(r: &mut Reader, follows: bool) -> Result<u64, Reject> {
    match if follows { r.u64()? } else { 1 } {
        1 if follows => Err(Reject::Malformed("era: the first one is not written")),
        0 => Err(Reject::Malformed("era: none")),
        era => Ok(era),
    }
}

fn write_service(service: &ServiceVersion, out: &mut Vec<u8>) {
    let name = service.name.as_str().as_bytes();
    out.put_u32(service.version);
    out.put_u8(name.len() as u8);
    out.extend_from_slice(name);
}

/// The service, if it follows.
fn read_service(r: &mut Reader, follows: bool) -> Result<ServiceVersion, Reject> {
    const WRONG: Reject = Reject::Malformed("service: name or version");
    if !follows {
        return Ok(ServiceVersion::UNNAMED);
    }
    let (version, len) = (r.u32()?, r.u8()?);
    let bytes = r.bytes(usize::from(len))?;
    let name = std::str::from_utf8(&bytes).ok().and_then(ServiceName::new).ok_or(WRONG)?;
    let service = ServiceVersion { name, version };
    if version == 0 || service == ServiceVersion::UNNAMED { Err(WRONG) } else { Ok(service) }
}

/// The replica's id, and the number of a further link, with how many there are.
fn read_link(bits: u64) -> Result<(u64, Link), Reject> {
    let link = Link { number: (bits >> 16) as u16, of: (bits >> 32) as u16 };
    if bits >> 48 != 0 || !(2..=LINKS_MAX).contains(&link.of) || !(1..link.of).contains(&link.number) {
        return Err(Reject::Malformed("hello: which connection"));
    }
    Ok((bits & 0xffff, link))
}

/// The connection is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The format that both sides use from now on.
    pub format: u16,
    /// The highest feature level that the sender can work at.
    pub feature_level: u32,
    /// The sender's cluster.
    pub cluster: ClusterId,
    /// The sender.
    pub replica: ReplicaId,
    /// The incarnation of its data directory.
    pub incarnation: Incarnation,
    /// The view it is in.
    pub view: View,
    /// The leader in that view, if the sender knows it.
    pub leader: Option<ReplicaId>,
    /// The number of the era that it is in.
    pub era: u64,
    /// The service that it runs, with the version of its program.
    pub service: ServiceVersion,
}

impl Welcome {
    /// The frame to send.
    pub fn frame(&self) -> OutFrame {
        let mut out = Vec::with_capacity(56);
        let later = self.era > 1;
        let serves = self.service != ServiceVersion::UNNAMED;
        let format = if later { self.format | WELCOME_IN_ERA } else { self.format };
        out.put_u16(if serves { format | WELCOME_SERVES } else { format });
        out.put_u32(self.feature_level);
        out.put_u128(self.cluster.bits());
        out.put_u16(self.replica.number());
        out.put_u64(self.incarnation.bits());
        out.put_u64(self.view.number());
        out.put_u16(self.leader.map_or(0, ReplicaId::number));
        if later {
            out.put_u64(self.era);
        }
        if serves {
            write_service(&self.service, &mut out);
        }
        OutFrame::new(FrameKind::Welcome, &out, vec![])
    }

    /// Reads a welcome.
    ///
    /// # Errors
    /// When the bytes are not a welcome.
    pub fn decode(payload: Bytes) -> Result<Self, Reject> {
        let mut r = Reader::new(payload, "welcome");
        let format = r.u16()?;
        let (later, serves) = (format & WELCOME_IN_ERA > 0, format & WELCOME_SERVES > 0);
        let format = format & !(WELCOME_IN_ERA | WELCOME_SERVES);
        let welcome = Self {
            format,
            feature_level: r.u32()?,
            cluster: ClusterId::new(r.u128()?),
            replica: ReplicaId::new(r.u16()?),
            incarnation: Incarnation::new(r.u64()?),
            view: View::new(r.u64()?),
            leader: Some(r.u16()?).filter(|id| *id != 0).map(ReplicaId::new),
            era: read_era(&mut r, later)?,
            service: read_service(&mut r, serves)?,
        };
        r.end()?;
        Ok(welcome)
    }
}

/// Why a connection was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RefusalReason {
    /// The other side belongs to another cluster.
    ForeignCluster = 1,
    /// There is no format that both speak, or the dialer can not work at the cluster's feature level.
    Format = 2,
    /// The dialer says that it is a member, and is not.
    UnknownReplica = 3,
    /// The dialer's data directory is not the one with which this member started.
    Incarnation = 4,
    /// This member is connected already: two processes run under one id.
    Doubled = 5,
    /// The dialer meant another replica.
    WrongReplica = 6,
    /// No more connections are accepted now.
    TooMany = 7,
    /// The first frame was not a hello.
    NoHello = 8,
    /// The dialer's parameters are not this replica's.
    Parameters = 9,
    /// The dialer runs, or means, another service.
    Service = 10,
    /// The dialer's certificate does not fit its role, or the connection is not protected.
    Certificate = 16,
}

/// The connection is not accepted; the sender closes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason, for programs.
    pub reason: RefusalReason,
    /// Why and what to do, for people.
    pub text: String,
}

impl Refusal {
    /// The frame to send.
    pub fn frame(&self) -> OutFrame {
        let text = &self.text.as_bytes()[..self.text.len().min(TEXT_MAX)];
        let mut out = Vec::with_capacity(1 + text.len());
        out.put_u8(self.reason as u8);
        out.extend_from_slice(text);
        OutFrame::new(FrameKind::Refusal, &out, vec![])
    }

    /// Reads a refusal.
    ///
    /// # Errors
    /// When the bytes are not a refusal.
    pub fn decode(payload: Bytes) -> Result<Self, Reject> {
        let mut r = Reader::new(payload, "refusal");
        let reason = match r.u8()? {
            1 => RefusalReason::ForeignCluster,
            2 => RefusalReason::Format,
            3 => RefusalReason::UnknownReplica,
            4 => RefusalReason::Incarnation,
            5 => RefusalReason::Doubled,
            6 => RefusalReason::WrongReplica,
            7 => RefusalReason::TooMany,
            8 => RefusalReason::NoHello,
            9 => RefusalReason::Parameters,
            10 => RefusalReason::Service,
            16 => RefusalReason::Certificate,
            _ => return Err(Reject::Malformed("refusal")),
        };
        let text = r.rest();
        if text.len() > TEXT_MAX {
            return Err(Reject::Malformed("refusal"));
        }
        Ok(Self { reason, text: String::from_utf8_lossy(&text).into_owned() })
    }
}
