//! Connections: the handshake, the members that we dial and that dial us, and all other peers.
//!
//! Each member dials every other; a connection carries ordering messages one way, from the dialer. A member is up while both directions
//! are. A member may make further connections to each other member; see `links.rs`.

mod able;
mod across;

use super::levels::{check_level, check_service, too_low, too_old};
use super::links::{Incoming, Lines, Outgoing, REDIAL_FIRST, carries, link_for};
use super::lives::Lives;
use super::seats::{ConnClass, Owner, Seats, network};
use crate::config::{HELLO_BYTES_MAX, NodeConfig};
use crate::effects::{Effect, Effects, Event};
use crate::status::SeatsStatus;
use quorate_admit::{Members, check_identity};
use quorate_order::Random;
use quorate_types::{ClientId, ConnId, Identity, ReplicaId, Span, Time, planted};
use quorate_wire::{Frame, FrameKind, Hello, LeaderNotice, Link, Refusal, RefusalReason, Role, Welcome};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// How long a dial may take.
const DIAL_TIME: Span = Span::from_millis(2000);
/// How long to wait after a refusal, which does not change soon.
const REDIAL_REFUSED: Span = Span::from_millis(1000);

/// What a frame of a client may have beyond its requests: clients put requests together into frames of up to 1 MiB.
const CLIENT_FRAME_MORE: usize = 2 << 20;

/// The kind of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conn {
    /// Accepted; the peer has not introduced itself.
    Stranger { until: Time },
    /// Dialed, on this link to a member; the welcome has not come yet.
    Dialed { replica: ReplicaId, link: u16, until: Time },
    /// Established: we send ordering messages to this member.
    To(ReplicaId, u16),
    /// Established: this member sends ordering messages to us.
    From(ReplicaId, Link),
    /// Established with a replica that does not count this one as a member and knows a later membership: it sends that, and nothing else.
    Better(ReplicaId),
    /// Established: this member is in another era. It sends which one, and parts of checkpoints.
    Across(ReplicaId),
    /// Established: the same, the other way.
    ToAcross(ReplicaId),
    /// Established with a client.
    Client(ClientId),
    /// Established with an operator.
    Admin,
}

#[derive(Clone, Debug)]
struct Peer {
    address: String,
    lines: Lines,
    incoming: Incoming,
    /// The highest feature level of the member's program: as it said when it dialed, and when it was dialed.
    levels: [u32; 2],
    /// The highest version that the member's program has of the service, in the same way.
    versions: [u32; 2],
    /// When the last frame came in on `incoming`.
    heard: Time,
    /// The reason why there is no connection, in words.
    problem: Option<String>,
}

impl Peer {
    fn new(now: Time, address: String, links: u16) -> Self {
        Self {
            address,
            lines: Lines::new(now, links),
            incoming: Incoming::default(),
            levels: [0; 2],
            versions: [0; 2],
            heard: Time::ZERO,
            problem: None,
        }
    }

    fn up(&self) -> bool {
        self.lines.first().ready().is_some() && self.incoming.first.is_some()
    }

    fn up_in(&self, at: usize) -> bool {
        self.up() && self.lines.of(at).ready().is_some() && !self.incoming.broken_for(at)
    }
}

/// A change of connections that matters to the ordering protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Up(ReplicaId),
    Down(ReplicaId),
    /// A further connection is established.
    Joined(ReplicaId),
    /// A further connection broke, in one of the directions.
    Cut(ReplicaId, Link),
    /// This replica can send to a member of another era.
    Across(ReplicaId),
    /// It can not any more.
    CutAcross(ReplicaId),
}

impl Change {
    /// Whether this change cuts an instance off.
    pub(crate) fn cuts(self, at: usize) -> bool {
        match self {
            Self::Down(_) => true,
            Self::Cut(_, link) => carries(link, at),
            Self::Up(_) | Self::Joined(_) | Self::Across(_) | Self::CutAcross(_) => false,
        }
    }
}

/// This replica's side of a handshake: what a hello is checked against, and what it is answered.
pub(crate) struct Us<'a> {
    pub(crate) config: &'a NodeConfig,
    pub(crate) notice: LeaderNotice,
    pub(crate) lives: &'a Lives,
}

/// The connections that found no seat, since the start of the process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Refused {
    /// Over a limit.
    pub(crate) too_many: u64,
    /// Not introduced in time.
    pub(crate) late: u64,
    /// Not introduced yet, and closed to make room.
    pub(crate) crowded_out: u64,
}

/// All connections of the node.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    conns: BTreeMap<ConnId, Conn>,
    peers: BTreeMap<ReplicaId, Peer>,
    /// The identities in the certificates of peers that connected.
    identities: BTreeMap<ConnId, Arc<Identity>>,
    /// The addresses of peers that connected, where they are known.
    addresses: BTreeMap<ConnId, IpAddr>,
    pub(crate) seats: Seats,
    pub(crate) refused: Refused,
    random: Random,
    pub(crate) changes: Vec<Change>,
    /// Connections that depend on others that ended; nothing is taken from them any more.
    pub(crate) orphans: Vec<ConnId>,
    links: u16,
}

impl Peers {
    pub(crate) fn new(config: &NodeConfig) -> Self {
        Self {
            conns: BTreeMap::new(),
            peers: config
                .members
                .others()
                .map(|m| (m.replica, Peer::new(Time::ZERO, m.address.clone(), config.links)))
                .collect(),
            identities: BTreeMap::new(),
            addresses: BTreeMap::new(),
            seats: Seats::new(config.seats),
            refused: Refused::default(),
            random: Random::new(config.seed ^ 0x70_65_65_72),
            changes: Vec::new(),
            orphans: Vec::new(),
            links: config.links,
        }
    }

    fn insert(&mut self, conn: ConnId, role: Conn) {
        let owner = self.owner(conn);
        self.seats.take(conn, role, || owner);
        self.conns.insert(conn, role);
    }

    fn remove(&mut self, conn: ConnId) -> Option<Conn> {
        self.identities.remove(&conn);
        self.addresses.remove(&conn);
        self.seats.leave(conn);
        self.conns.remove(&conn)
    }

    /// The owner of a connection, as far as it is known.
    pub(crate) fn owner(&self, conn: ConnId) -> Owner {
        match (self.identities.get(&conn), self.addresses.get(&conn)) {
            (Some(identity), _) => Owner::Holder(identity.holder.clone()),
            (None, Some(address)) => Owner::Address(network(*address)),
            (None, None) => Owner::Unknown,
        }
    }

    pub(crate) fn conn(&self, conn: ConnId) -> Option<Conn> {
        self.conns.get(&conn).copied()
    }

    /// The connection to a member for what concerns the whole replica; none while the member is not connected.
    pub(crate) fn to(&self, replica: ReplicaId) -> Option<ConnId> {
        self.peers.get(&replica)?.lines.first().ready()
    }

    /// The connection to a member for the messages of an instance.
    pub(crate) fn way(&self, replica: ReplicaId, at: usize) -> Option<ConnId> {
        self.peers.get(&replica)?.lines.of(at).ready()
    }

    /// The connections on which the messages of other members for an instance come in, and those members.
    pub(crate) fn links(&self, at: usize) -> impl Iterator<Item = (ConnId, ReplicaId)> {
        self.peers.iter().filter_map(move |(id, peer)| Some((peer.incoming.of(at)?, *id)))
    }

    /// Whether the messages of an instance reach a member and come back.
    pub(crate) fn is_up_in(&self, replica: ReplicaId, at: usize) -> bool {
        self.peers.get(&replica).is_some_and(|peer| peer.up_in(at))
    }

    /// How many connections are established on which this replica sends to a member.
    pub(crate) fn standing(&self, replica: ReplicaId) -> usize {
        self.peers.get(&replica).map_or(0, |peer| peer.lines.standing())
    }

    /// Notes a sign of life of a member.
    pub(crate) fn heard(&mut self, now: Time, replica: ReplicaId) {
        if let Some(peer) = self.peers.get_mut(&replica) {
            peer.heard = now;
        }
    }

    pub(crate) fn clients(&self) -> impl Iterator<Item = ConnId> {
        self.conns.iter().filter(|(_, c)| matches!(c, Conn::Client(_))).map(|(id, _)| *id)
    }

    /// The client at the other end of a connection.
    pub(crate) fn client(&self, conn: ConnId) -> Option<ClientId> {
        match self.conns.get(&conn)? {
            Conn::Client(client) => Some(*client),
            _ => None,
        }
    }

    /// The class of a connection, for the host.
    pub(crate) fn class(&self, conn: ConnId) -> ConnClass {
        match self.conn(conn) {
            Some(Conn::Client(_) | Conn::Admin | Conn::Better(_)) => {
                ConnClass::Client(self.seats.number(conn))
            }
            Some(Conn::Dialed { .. } | Conn::To(..) | Conn::From(..)) => ConnClass::Member,
            Some(Conn::Across(_) | Conn::ToAcross(_)) => ConnClass::Member,
            Some(Conn::Stranger { .. }) | None => ConnClass::Stranger,
        }
    }

    /// How many connections clients and operators have.
    pub(crate) fn others(&self) -> usize {
        self.seats.clients() + self.seats.operators()
    }

    pub(crate) fn seats_status(&self) -> SeatsStatus {
        let limits = self.seats.limits();
        SeatsStatus {
            clients: self.seats.clients(),
            clients_max: limits.clients_max,
            largest_client: self.seats.largest().map_or(0, |(_, count)| count),
            per_client_max: limits.per_client_max,
            operators: self.seats.operators(),
            strangers: self.seats.strangers(),
            strangers_max: limits.strangers_max,
            refused: self.refused.too_many,
            late: self.refused.late,
            crowded_out: self.refused.crowded_out,
        }
    }

    pub(crate) fn peers(&self) -> impl Iterator<Item = (ReplicaId, &str, bool, Option<&str>)> {
        self.peers.iter().map(|(id, p)| (*id, p.address.as_str(), p.up(), p.problem.as_deref()))
    }

    /// Whether to accept a connection from this address.
    pub(crate) fn lets_in(&mut self, from: Option<IpAddr>) -> bool {
        let lets_in = self.seats.lets_in(from);
        self.refused.crowded_out += u64::from(!lets_in);
        lets_in
    }

    pub(crate) fn on_accepted(
        &mut self,
        now: Time,
        conn: ConnId,
        from: Option<IpAddr>,
        config: &NodeConfig,
        out: &mut Effects,
    ) {
        let until = now.plus(config.handshake_time);
        if let Some(leaves) = self.seats.came(conn, from, until) {
            self.refused.crowded_out += 1;
            let text = format!(
                "{} connections have not said who they are, which is the limit: this one was the first of where most of them come from. \
                 Look who connects and does not go on, or raise limits.handshakes",
                config.seats.strangers_max
            );
            self.turn_away(leaves, Refusal { reason: RefusalReason::TooMany, text }, out);
        }
        self.conns.insert(conn, Conn::Stranger { until });
        if let Some(from) = from {
            self.addresses.insert(conn, from);
        }
        out.push(Effect::FrameLimit { conn, bytes: HELLO_BYTES_MAX });
    }

    /// Sends a refusal, and closes the connection.
    fn turn_away(&mut self, conn: ConnId, refusal: Refusal, out: &mut Effects) {
        out.event(Event::Refused { text: refusal.text.clone() });
        out.send(conn, refusal.frame());
        self.remove(conn);
        out.push(Effect::Close(conn));
    }

    /// A peer that connected showed its certificate.
    pub(crate) fn on_identified(&mut self, conn: ConnId, identity: Arc<Identity>) {
        if self.conns.contains_key(&conn) {
            self.identities.insert(conn, identity);
        }
    }

    /// The identity in the certificate of a peer; none where connections are plain.
    pub(crate) fn identity(&self, conn: ConnId) -> Option<&Arc<Identity>> {
        self.identities.get(&conn)
    }

    /// A connection could not be secured. Certificates do not change soon, so the next dial comes later.
    pub(crate) fn on_unsafe(&mut self, now: Time, conn: ConnId, text: String, out: &mut Effects) {
        let Some(Conn::Dialed { replica, link, .. } | Conn::To(replica, link)) = self.conn(conn) else {
            return out.event(Event::Refused { text });
        };
        self.on_closed(now, conn);
        self.redial_later(now, (replica, link), Some(REDIAL_REFUSED));
        let problem = format!("the connection to {replica} is not safe: {text}");
        if let Some(peer) = self.peers.get_mut(&replica)
            && peer.problem.as_ref() != Some(&problem)
        {
            peer.problem = Some(problem);
            out.event(Event::Unsafe { replica, text });
        }
    }

    pub(crate) fn on_dialed(
        &mut self,
        now: Time,
        conn: ConnId,
        (replica, link): (ReplicaId, u16),
        config: &NodeConfig,
        life: u64,
        out: &mut Effects,
    ) {
        let Some(peer) = self.peers.get_mut(&replica) else {
            out.push(Effect::Close(conn));
            return;
        };
        let first = peer.lines.first().ready().is_some() || link == 0;
        let number = peer.lines.link(link);
        let Some(line) = peer.lines.get_mut(link).filter(|line| first && line.awaits_dial()) else {
            // An earlier dial that was given up has succeeded after all.
            out.push(Effect::Close(conn));
            return;
        };
        line.outgoing = Outgoing::Shaking;
        self.insert(conn, Conn::Dialed { replica, link, until: now.plus(config.handshake_time) });
        let role = Role::Peer { replica: config.members.me(), incarnation: config.incarnation };
        out.push(Effect::FrameLimit { conn, bytes: 2 * HELLO_BYTES_MAX });
        let hello = Hello::new(config.members.cluster(), Some(replica), role);
        let hello = hello.of_member(config.members.parameters(), life).able(config.level.highest);
        let hello = hello.knowing(config.members.number()).on_link(number).in_era(config.era.number);
        let hello = hello.of_service(config.service.says());
        out.send(conn, hello.frame());
    }

    pub(crate) fn on_dial_failed(&mut self, now: Time, (replica, link): (ReplicaId, u16)) {
        // A dial that was given up before may fail while a later one is established.
        let line = self.peers.get_mut(&replica).and_then(|peer| peer.lines.get_mut(link));
        if line.is_some_and(|line| line.awaits_dial()) {
            self.redial_later(now, (replica, link), None);
        }
    }

    /// Takes the members as they are from now on: connections to others end, new members are dialed.
    pub(crate) fn meet(&mut self, now: Time, members: &Members, out: &mut Effects) {
        let gone: Vec<ReplicaId> =
            self.peers.keys().copied().filter(|id| members.others().all(|m| m.replica != *id)).collect();
        for replica in gone {
            self.down(replica);
            let of = |conn: &Conn| match conn {
                Conn::To(id, _) | Conn::From(id, _) | Conn::Dialed { replica: id, .. } => *id == replica,
                Conn::Across(id) | Conn::ToAcross(id) => *id == replica,
                Conn::Stranger { .. } | Conn::Better(_) | Conn::Client(_) | Conn::Admin => false,
            };
            let conns: Vec<ConnId> =
                self.conns.iter().filter(|(_, conn)| of(conn)).map(|(id, _)| *id).collect();
            for conn in conns {
                self.remove(conn);
                out.push(Effect::Close(conn));
            }
            self.peers.remove(&replica);
            out.push(Effect::Address { replica, address: None });
        }
        // A replica that has become a member connects again as one.
        let better = |conn: &Conn| matches!(conn, Conn::Better(_));
        let heard: Vec<ConnId> =
            self.conns.iter().filter(|(_, conn)| better(conn)).map(|(id, _)| *id).collect();
        for conn in heard {
            self.remove(conn);
            out.push(Effect::Close(conn));
        }
        for member in members.others() {
            let (replica, address) = (member.replica, &member.address);
            let links = self.links;
            let peer = self.peers.entry(replica).or_insert_with(|| Peer::new(now, String::new(), links));
            if peer.address != *address {
                peer.address.clone_from(address);
                out.push(Effect::Address { replica, address: Some(address.clone()) });
                let line = peer.lines.first_mut();
                if let Outgoing::Waiting { until } = &mut line.outgoing {
                    (*until, line.backoff) = (now, REDIAL_FIRST);
                }
            }
        }
    }

    fn redial_later(&mut self, now: Time, (replica, link): (ReplicaId, u16), at_least: Option<Span>) {
        let line = self.peers.get_mut(&replica).and_then(|peer| peer.lines.get_mut(link));
        let Some(line) = line else { return };
        let wait = at_least.unwrap_or(line.backoff);
        let jitter = Span::from_nanos(self.random.below(wait.nanos() / 2 + 1));
        line.later(now.plus(wait).plus(jitter));
    }

    /// Refuses a peer that has introduced itself. If its role is not that of its certificate, the audit log gets an entry.
    fn refuse(&mut self, conn: ConnId, refusal: Refusal, out: &mut Effects) {
        self.refused.too_many += u64::from(refusal.reason == RefusalReason::TooMany);
        if let (RefusalReason::Certificate, Some(who)) = (refusal.reason, self.identity(conn)) {
            let (who, outcome) = (who.holder.to_string(), format!("refused: {}", refusal.text));
            out.push(Effect::Audit { conn, who, what: "connect in another role".into(), outcome });
        }
        self.turn_away(conn, refusal, out);
    }

    /// A peer introduced itself. Gives the member and its life, if it is one and was accepted.
    pub(crate) fn on_hello(
        &mut self,
        now: Time,
        conn: ConnId,
        frame: Frame,
        us: &Us<'_>,
        out: &mut Effects,
    ) -> Option<(ReplicaId, u64)> {
        let Us { config, notice, lives } = us;
        let hello = match frame.kind {
            FrameKind::Hello => Hello::decode(frame.payload).map_err(|why| why.to_string()),
            kind => Err(format!("the first frame is a {kind:?}")),
        };
        let (who, served) = (self.identity(conn).map(|who| &**who), config.served_by_replicas);
        let me = config.members.me();
        let checked = hello
            .map_err(|text| Refusal {
                reason: RefusalReason::NoHello,
                text: format!("{text}: this port speaks Quorate's own protocol"),
            })
            .and_then(|hello| check_identity(&hello, who, me, served).map(|()| hello))
            .and_then(|hello| {
                check_service(&hello, &config.service, config.members.cluster()).map(|()| hello)
            })
            .and_then(|hello| config.members.check(&hello).map(|format| (format, hello)))
            .and_then(|(format, hello)| check_level(&hello, config.level.cluster).map(|()| (format, hello)))
            .and_then(|(format, hello)| check_life(&hello, lives, &config.members).map(|()| (format, hello)))
            .and_then(|(format, hello)| self.room_for(now, conn, &hello, config).map(|()| (format, hello)));
        let (format, hello) = match checked {
            Ok(checked) => checked,
            Err(refusal) => {
                self.refuse(conn, refusal, out);
                return None;
            }
        };
        let bytes = match hello.role {
            Role::Peer { .. } => config.frame_bytes_max,
            Role::Client(_) | Role::Admin => config.frame_bytes_max.min(client_frame_bytes(config)),
        };
        out.push(Effect::FrameLimit { conn, bytes });
        out.send(conn, across::welcome(config, format, notice).frame());
        let better = config.members.may_know_better(&hello);
        let elsewhere = hello.era != config.era.number && !planted("era-votes-count"); // [E12]
        let role = match hello.role {
            Role::Peer { replica, .. } if better => Conn::Better(replica),
            Role::Peer { replica, .. } if elsewhere => {
                self.on_incoming_across(replica, out);
                Conn::Across(replica)
            }
            Role::Peer { replica, .. } => {
                self.on_incoming(now, conn, replica, &hello, out);
                Conn::From(replica, hello.link)
            }
            Role::Client(client) => Conn::Client(client),
            Role::Admin => Conn::Admin,
        };
        self.insert(conn, role);
        if let (Conn::From(..), link @ 1..) = (role, link_for(hello.link, self.links)) {
            out.push(Effect::Move { conn, link });
        }
        match hello.role {
            Role::Peer { replica, .. } if matches!(role, Conn::From(_, Link::FIRST)) => {
                Some((replica, hello.life))
            }
            Role::Peer { .. } | Role::Client(_) | Role::Admin => None,
        }
    }

    /// Whether one more connection of this kind is accepted.
    fn room_for(&self, now: Time, conn: ConnId, hello: &Hello, config: &NodeConfig) -> Result<(), Refusal> {
        let too_many = |text| Refusal { reason: RefusalReason::TooMany, text };
        match hello.role {
            Role::Peer { replica, .. } if hello.link != Link::FIRST => {
                let known = self.peers.get(&replica).is_some_and(|p| p.incoming.first.is_some());
                if !known {
                    let text = format!(
                        "a further connection of {replica}, which has no first one here: it makes that again"
                    );
                    return Err(Refusal { reason: RefusalReason::Doubled, text });
                }
            }
            Role::Peer { replica, .. } => {
                let alive = config.order.heartbeat.times(3);
                let doubled = self
                    .peers
                    .get(&replica)
                    .is_some_and(|p| p.incoming.first.is_some() && p.up() && now.since(p.heard) < alive);
                if doubled {
                    let text = format!(
                        "{replica} is connected already and alive: two processes run under this id, perhaps from a copied \
                         data directory. Stop the one that should not be there"
                    );
                    return Err(Refusal { reason: RefusalReason::Doubled, text });
                }
            }
            Role::Client(_) => self.seats.room_for_client(&self.owner(conn)).map_err(too_many)?,
            Role::Admin => self.seats.room_for_operator().map_err(too_many)?,
        }
        Ok(())
    }

    fn on_incoming(&mut self, now: Time, conn: ConnId, replica: ReplicaId, hello: &Hello, out: &mut Effects) {
        let Some(peer) = self.peers.get_mut(&replica) else { return };
        let first = hello.link == Link::FIRST;
        let was_up = peer.up();
        let old = peer.incoming.came(hello.link, conn);
        peer.heard = now;
        if first {
            peer.levels[0] = hello.feature_level;
            peer.versions[0] = hello.service.version;
            // The member is up, so our own dial need not wait.
            let line = peer.lines.first_mut();
            if let Outgoing::Waiting { until } = &mut line.outgoing {
                *until = now;
                line.backoff = REDIAL_FIRST;
            }
        }
        let is_up = peer.up();
        if let Some(old) = old {
            self.remove(old);
            out.push(Effect::Close(old));
        }
        match (first, is_up) {
            (true, _) => {
                self.end_further(now, replica, true);
                if was_up {
                    self.changes.push(Change::Down(replica));
                }
                if is_up {
                    self.changes.push(Change::Up(replica));
                }
            }
            (false, true) => {
                if old.is_some() {
                    self.changes.push(Change::Cut(replica, hello.link));
                }
                self.changes.push(Change::Joined(replica));
            }
            (false, false) => {}
        }
    }

    /// The first connection in one direction is gone or replaced: the further ones in this direction end, too.
    fn end_further(&mut self, now: Time, replica: ReplicaId, incoming: bool) {
        let Some(peer) = self.peers.get_mut(&replica) else { return };
        if incoming {
            peer.incoming.forget_further();
        } else {
            peer.lines.forget_further(now);
        }
        let ends = |conn: &Conn| match conn {
            Conn::To(id, link) | Conn::Dialed { replica: id, link, .. } => {
                !incoming && *id == replica && *link > 0
            }
            Conn::From(id, link) => incoming && *id == replica && *link != Link::FIRST,
            Conn::Across(_) | Conn::ToAcross(_) => false,
            Conn::Stranger { .. } | Conn::Better(_) | Conn::Client(_) | Conn::Admin => false,
        };
        let ends: Vec<ConnId> = self.conns.iter().filter(|(_, conn)| ends(conn)).map(|(id, _)| *id).collect();
        for conn in ends {
            self.remove(conn);
            self.orphans.push(conn);
        }
    }

    /// The member that we dialed answered our hello.
    pub(crate) fn on_answer(
        &mut self,
        now: Time,
        conn: ConnId,
        (replica, link): (ReplicaId, u16),
        frame: Frame,
        config: &NodeConfig,
        out: &mut Effects,
    ) {
        let refusal = match frame.kind {
            FrameKind::Welcome => match Welcome::decode(frame.payload) {
                Ok(welcome) => self.on_welcome(conn, (replica, link), &welcome, config, out).err(),
                Err(why) => Some(why.to_string()),
            },
            FrameKind::Refusal => match Refusal::decode(frame.payload) {
                Ok(refusal) => Some(refusal.text),
                Err(why) => Some(why.to_string()),
            },
            kind => Some(format!("it answered a hello with {kind:?}")),
        };
        let Some(text) = refusal else { return };
        self.remove(conn);
        out.push(Effect::Close(conn));
        self.redial_later(now, (replica, link), Some(REDIAL_REFUSED));
        let problem = format!("{replica} refuses this replica: {text}");
        if let Some(peer) = self.peers.get_mut(&replica)
            && peer.problem.as_ref() != Some(&problem)
        {
            peer.problem = Some(problem);
            out.event(Event::RefusedBy { replica, text });
        }
    }

    fn on_welcome(
        &mut self,
        conn: ConnId,
        (replica, link): (ReplicaId, u16),
        welcome: &Welcome,
        config: &NodeConfig,
        out: &mut Effects,
    ) -> Result<(), String> {
        let expected = config.members.get(replica).map(|m| m.incarnation);
        if welcome.cluster != config.members.cluster() || welcome.replica != replica {
            return Err(format!(
                "at the address of {replica} answers {} of cluster {}: correct the address",
                welcome.replica, welcome.cluster
            ));
        }
        if Some(welcome.incarnation) != expected {
            return Err(format!(
                "{replica} runs on data directory {}, which is not the one it was set up with",
                welcome.incarnation
            ));
        }
        if welcome.feature_level < config.level.cluster {
            return Err(too_low(replica, welcome.feature_level, config.level.cluster));
        }
        if welcome.service.version < config.service.level {
            return Err(too_old(replica, welcome.service.version, config.service.level));
        }
        if welcome.era != config.era.number && !planted("era-votes-count") {
            return self.on_welcome_across(conn, (replica, link), welcome.era, out);
        }
        let Some(peer) = self.peers.get_mut(&replica) else { return Ok(()) };
        if link == 0 {
            peer.levels[1] = welcome.feature_level;
            peer.versions[1] = welcome.service.version;
            peer.problem = None;
        }
        if let Some(line) = peer.lines.get_mut(link) {
            line.outgoing = Outgoing::Ready(conn);
            line.backoff = REDIAL_FIRST;
        }
        let is_up = peer.up();
        self.insert(conn, Conn::To(replica, link));
        out.push(Effect::FrameLimit { conn, bytes: HELLO_BYTES_MAX });
        if link > 0 {
            out.push(Effect::Move { conn, link });
        }
        if is_up {
            self.changes.push(if link == 0 { Change::Up(replica) } else { Change::Joined(replica) });
        }
        Ok(())
    }

    /// A connection was closed.
    pub(crate) fn on_closed(&mut self, now: Time, conn: ConnId) {
        match self.remove(conn) {
            Some(Conn::Dialed { replica, link, .. }) => self.redial_later(now, (replica, link), None),
            Some(Conn::To(replica, link)) => {
                if link == 0 {
                    self.down(replica);
                    self.end_further(now, replica, false);
                } else {
                    self.changes.push(Change::Cut(replica, Link { number: link, of: self.links }));
                }
                self.redial_later(now, (replica, link), None);
            }
            Some(Conn::ToAcross(replica)) => {
                self.changes.push(Change::CutAcross(replica));
                self.redial_later(now, (replica, 0), None);
            }
            Some(Conn::From(replica, link)) => {
                if link == Link::FIRST {
                    self.down(replica);
                } else {
                    self.changes.push(Change::Cut(replica, link));
                }
                if let Some(peer) = self.peers.get_mut(&replica) {
                    peer.incoming.broke(link);
                }
                if link == Link::FIRST {
                    self.end_further(now, replica, true);
                }
            }
            Some(Conn::Stranger { .. } | Conn::Better(_) | Conn::Client(_) | Conn::Admin) | None => {}
            Some(Conn::Across(_)) => {}
        }
    }

    fn down(&mut self, replica: ReplicaId) {
        if self.peers.get(&replica).is_some_and(Peer::up) {
            self.changes.push(Change::Down(replica));
        }
    }

    /// Dials the members that are due, and closes connections whose peers have not introduced themselves in time.
    pub(crate) fn on_deadline(&mut self, now: Time, config: &NodeConfig, out: &mut Effects) {
        for (replica, peer) in &mut self.peers {
            // A dial without an answer is given up: the operating system would wait for minutes after a partition.
            for (link, line) in peer.lines.dialable() {
                if line.due().is_some_and(|due| due <= now) {
                    line.outgoing = Outgoing::Dialing { until: now.plus(DIAL_TIME) };
                    out.push(Effect::Dial { replica: *replica, link });
                }
            }
        }
        for conn in self.seats.late(now) {
            let ours = matches!(self.conn(conn), Some(Conn::Dialed { .. }));
            self.refused.late += u64::from(!ours);
            let text = format!(
                "no hello within {} ms: this port speaks Quorate's own protocol",
                config.handshake_time.millis()
            );
            if !ours {
                out.send(conn, Refusal { reason: RefusalReason::NoHello, text }.frame());
            }
            out.push(Effect::Close(conn));
            self.on_closed(now, conn);
        }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        let dials = self.peers.values().filter_map(|peer| peer.lines.deadline());
        dials.chain(self.seats.deadline()).min()
    }
}

/// The largest frame of a client: one that is full but for a byte, and the largest request.
fn client_frame_bytes(config: &NodeConfig) -> u32 {
    let largest = config.admission.request_bytes_max.saturating_mul(2).saturating_add(CLIENT_FRAME_MORE);
    u32::try_from(largest).unwrap_or(u32::MAX)
}

/// Refuses a member whose life is not the known one: it has lost its disk.
fn check_life(hello: &Hello, lives: &Lives, members: &Members) -> Result<(), Refusal> {
    let fits = |replica| {
        lives.fits(replica, hello.life) && members.life(replica).is_none_or(|life| life == hello.life)
    };
    match hello.role {
        Role::Peer { replica, .. } if !fits(replica) => {
            let text = format!(
                "{replica} began anew: its log is not the one that the others know. A replica that lost its disk is a new replica and \
                 must not vote under the old one's id: bring its directory back, or set up a replacement (`quorate member replace`)"
            );
            Err(Refusal { reason: RefusalReason::Incarnation, text })
        }
        Role::Peer { .. } | Role::Client(_) | Role::Admin => Ok(()),
    }
}
