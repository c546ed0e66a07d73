//! A frame that came in, read as the peer at the other end may send it. Tests: arrived/tests.rs, fuzz.

use super::Conn;
use crate::eras::Across;
use crate::rulings::Results;
use bytes::Bytes;
use quorate_admit::verify;
use quorate_merge::{INSTANCES_MAX, Place, SLOT_MAX};
use quorate_order::{OrderConfig, OrderMessage};
use quorate_types::{ClientId, Digest, InstanceId, MembershipId, ReplicaId, Room, Seq};
use quorate_wire::{
    Chain, ClientMessage, EarlyTokens, EraNotice, FaultsRequest, Frame, FrameKind, Hello, LevelOf,
    MemberRequest, Memberships, Memos, MemosWanted, NeighbourCommand, Role, Sight, SignedCommand,
    StateMessage, Tokens, Verified, read_attest_request, read_caught_up, read_chain_request, read_fill,
    read_forwarded, read_instances_request, read_lanes_request, read_room, read_upgrade_request,
};

/// A message, by the kind of its sender.
#[derive(Debug)]
pub(crate) enum Arrived {
    /// An unknown peer introduces itself; it may be this client.
    Hello(Frame, Option<ClientId>),
    /// A member that was dialed answers.
    Answer { replica: ReplicaId, link: u16, frame: Frame },
    /// A message of a member.
    Member(ReplicaId, Says),
    /// A replica that does not count this one as a member says who the members are.
    Members(Memberships),
    /// A member of another era sends something.
    Across(ReplicaId, Across),
    /// A request of a client.
    Client(ClientId, ClientMessage),
    /// A request of an operator.
    Operator(Asks),
    /// A message that breaks the rules, in words.
    Wrong(String),
    /// A message without a meaning here.
    Nothing,
}

/// A message between members.
#[derive(Debug)]
pub(crate) enum Says {
    /// A message of an instance's ordering protocol.
    Order(InstanceId, Verified<OrderMessage>),
    /// A message about checkpoints.
    State(StateMessage),
    /// The room that the sender has.
    Room(Room),
    /// The instances whose leaders the sender hears.
    Sight(Sight),
    /// What batches did.
    Results(Results),
    /// The membership that the sender knows.
    Members(Memberships),
    /// A command that administrators signed.
    Signed(SignedCommand),
    /// The replicas that have caught up with an instance that the sender leads.
    CaughtUp(InstanceId, Vec<ReplicaId>),
    /// The sender waits for an instance that leads here, up to this place.
    Fill(Place),
    /// Requests that the sender heard from clients.
    Requests(Bytes),
    /// About membership links.
    Chain(ChainSays),
}

/// What members say of membership links.
#[derive(Debug)]
pub(crate) enum ChainSays {
    /// The sender asks for those after this membership.
    Wants(MembershipId),
    /// The answer.
    Shows(Chain),
}

/// A change that an operator asks for.
#[derive(Debug)]
pub(crate) enum Wish {
    /// Of the membership.
    Members(MemberRequest),
    /// One that administrators signed, and why it was handed over, for the audit log; empty: the operator did not say.
    Signed(SignedCommand, String),
    /// Of the feature level, or of the service's.
    Level(LevelOf, u32),
    /// Of the number of instances.
    Instances(u16),
    /// Of the faults that are survived: the era is to end.
    Faults(FaultsRequest),
    /// Of the services that this one asks, and those that ask it.
    Neighbour(NeighbourCommand),
}

/// A request of an operator.
#[derive(Debug)]
pub(crate) enum Asks {
    /// The status of this replica.
    Status,
    /// The evidence against members.
    Evidence,
    /// The membership links after this membership.
    Chain(MembershipId),
    /// To hand leadership over to this replica; 0 stands for any.
    Transfer(Option<u16>),
    /// To change the membership, the level or the number of instances.
    Reconfigure(Wish),
    /// To have instances on these lanes.
    Lanes(Vec<(InstanceId, u16)>),
    /// To read everything at rest.
    Scrub,
    /// To fetch a checkpoint.
    State(StateMessage),
    /// To sign this digest of the checkpoint of this seq.
    Attest((Seq, Digest)),
}

impl Arrived {
    /// Reads a frame.
    pub(super) fn read(who: Conn, frame: Frame, order: &OrderConfig) -> Self {
        match who {
            Conn::Stranger { .. } => {
                let client = client_of(&frame);
                Self::Hello(frame, client)
            }
            Conn::Dialed { replica, link, .. } => Self::Answer { replica, link, frame },
            Conn::From(replica, _) => match Says::read(replica, frame, order) {
                Ok(says) => Self::Member(replica, says),
                Err(why) => Self::Wrong(why),
            },
            // Everything else that it sends is meant for a member.
            Conn::Better(_) if frame.kind == FrameKind::Members => {
                Memberships::decode(frame.payload).map_or(Self::Nothing, Self::Members)
            }
            Conn::Better(_) => Self::Nothing,
            Conn::Across(replica) => Self::read_across(replica, frame),
            Conn::Client(client) => match ClientMessage::decode(frame) {
                Ok(message) => Self::Client(client, message),
                Err(why) => Self::Wrong(why.to_string()),
            },
            Conn::Admin => Asks::read(frame).map_or_else(Self::Wrong, Self::Operator),
            Conn::To(..) | Conn::ToAcross(_) => Self::Wrong("a member answers where it only listens".into()),
        }
    }
}

impl Arrived {
    /// What a member of another era sends. It may have sent the rest before it knew that. [E12]
    fn read_across(from: ReplicaId, frame: Frame) -> Self {
        let says = match frame.kind {
            FrameKind::Era => EraNotice::decode(frame.payload).map(|notice| Across::Notice(Box::new(notice))),
            FrameKind::State => StateMessage::decode(frame.payload).map(Across::State),
            _ => return Self::Nothing,
        };
        says.map_or_else(|why| Self::Wrong(why.to_string()), |says| Self::Across(from, says))
    }
}

impl Says {
    fn read(from: ReplicaId, frame: Frame, order: &OrderConfig) -> Result<Self, String> {
        let says = match frame.kind {
            FrameKind::Order => verify(from, frame.payload, |payload| order.decode(payload))
                .map(|(at, says)| Self::Order(at, says)),
            FrameKind::State => StateMessage::decode(frame.payload).map(Self::State),
            FrameKind::Room => read_room(&frame.payload).map(Self::Room),
            FrameKind::Sight => Sight::decode(&frame.payload).map(Self::Sight),
            FrameKind::Tokens => Tokens::decode(frame.payload).map(Results::Tokens).map(Self::Results),
            FrameKind::EarlyTokens => {
                EarlyTokens::decode(frame.payload).map(Results::Early).map(Self::Results)
            }
            FrameKind::MemosWanted => {
                MemosWanted::decode(frame.payload).map(Results::Wanted).map(Self::Results)
            }
            FrameKind::Memos => Memos::decode(frame.payload).map(Results::Memos).map(Self::Results),
            FrameKind::Members => Memberships::decode(frame.payload).map(Self::Members),
            FrameKind::SignedCommand => SignedCommand::decode(frame.payload).map(Self::Signed),
            FrameKind::ChainRequest => {
                read_chain_request(frame.payload).map(ChainSays::Wants).map(Self::Chain)
            }
            FrameKind::Chain => Chain::decode(frame.payload).map(ChainSays::Shows).map(Self::Chain),
            FrameKind::CaughtUp => read_caught_up(&frame.payload).map(|(at, who)| Self::CaughtUp(at, who)),
            FrameKind::Fill => {
                let (slot, instance) = read_fill(&frame.payload).map_err(|why| why.to_string())?;
                // The last of all instances stands for the whole slot, however many instances there are.
                if !(1..=INSTANCES_MAX).contains(&instance.number()) || slot.number() > SLOT_MAX {
                    return Err(format!("there is no place {slot} of {instance}"));
                }
                return Ok(Self::Fill(Place { slot, instance }));
            }
            FrameKind::Requests => read_forwarded(frame.payload).map(Self::Requests),
            kind => return Err(format!("a member sends {kind:?}")),
        };
        says.map_err(|why| why.to_string())
    }
}

impl Asks {
    fn read(frame: Frame) -> Result<Self, String> {
        let asks = match frame.kind {
            FrameKind::StatusRequest => return Ok(Self::Status),
            FrameKind::ScrubRequest => return Ok(Self::Scrub),
            FrameKind::EvidenceRequest => return Ok(Self::Evidence),
            FrameKind::TransferRequest => {
                let to = frame.payload.first_chunk::<2>().map(|id| u16::from_le_bytes(*id));
                return Ok(Self::Transfer(to));
            }
            FrameKind::MemberRequest => {
                MemberRequest::decode(frame.payload).map(Wish::Members).map(Self::Reconfigure)
            }
            FrameKind::SignedCommand => SignedCommand::decode_with_reason(frame.payload)
                .map(|(signed, reason)| Wish::Signed(signed, reason))
                .map(Self::Reconfigure),
            FrameKind::UpgradeRequest => read_upgrade_request(frame.payload)
                .map(|(of, level)| Wish::Level(of, level))
                .map(Self::Reconfigure),
            FrameKind::InstancesRequest => {
                read_instances_request(frame.payload).map(Wish::Instances).map(Self::Reconfigure)
            }
            FrameKind::FaultsRequest => {
                FaultsRequest::decode(frame.payload).map(Wish::Faults).map(Self::Reconfigure)
            }
            FrameKind::NeighbourRequest => {
                NeighbourCommand::decode(frame.payload).map(Wish::Neighbour).map(Self::Reconfigure)
            }
            FrameKind::ChainRequest => read_chain_request(frame.payload).map(Self::Chain),
            FrameKind::LanesRequest => read_lanes_request(frame.payload).map(Self::Lanes),
            FrameKind::State => StateMessage::decode(frame.payload).map(Self::State),
            FrameKind::AttestRequest => read_attest_request(frame.payload).map(Self::Attest),
            kind => return Err(format!("an operator sends {kind:?}")),
        };
        asks.map_err(|why| why.to_string())
    }

    /// The text for the audit log, if the request belongs there. A backup is recorded when it begins, not with each of its parts.
    pub(crate) fn what(&self) -> Option<String> {
        Some(match self {
            Self::Status | Self::Evidence | Self::Chain(_) | Self::Attest(_) => return None,
            Self::Transfer(to) => {
                format!("hand over leadership to replica {} (0: any)", to.unwrap_or_default())
            }
            Self::Reconfigure(Wish::Members(request)) => format!("{request:?}"),
            Self::Reconfigure(Wish::Signed(signed, reason)) if reason.is_empty() => {
                format!("command {} of administrators", signed.number)
            }
            Self::Reconfigure(Wish::Signed(signed, reason)) => {
                format!("command {} of administrators: {reason}", signed.number)
            }
            Self::Reconfigure(Wish::Level(of, level)) => {
                let what = match of {
                    LevelOf::Cluster => "feature level",
                    LevelOf::Service => "level of the service",
                };
                format!("raise the {what} to {level} (0: as far as possible)")
            }
            Self::Reconfigure(Wish::Instances(count)) => format!("have {count} instances"),
            Self::Reconfigure(Wish::Faults(request)) => {
                format!("end the era, for {} faults", request.faults.model)
            }
            Self::Reconfigure(Wish::Neighbour(command)) => command.to_string(),
            Self::Lanes(wish) if wish.is_empty() => "place instances on lanes by itself".into(),
            Self::Lanes(wish) => {
                let each = wish.iter().map(|(id, lane)| format!("instance {} on lane {lane}", id.number()));
                format!("have {}", each.collect::<Vec<_>>().join(", "))
            }
            Self::Scrub => "scrub".into(),
            Self::State(StateMessage::WantBorder { seq, .. }) => {
                format!("ask for a checkpoint newer than seq {seq:#}")
            }
            Self::State(StateMessage::FetchManifest { seq, offset: 0, .. }) => {
                format!("fetch the checkpoint of seq {seq:#}")
            }
            Self::State(_) => return None,
        })
    }
}

/// The client that sends this hello, if it is one.
fn client_of(frame: &Frame) -> Option<ClientId> {
    match (frame.kind, Hello::decode(frame.payload.clone())) {
        (FrameKind::Hello, Ok(Hello { role: Role::Client(client), .. })) => Some(client),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
