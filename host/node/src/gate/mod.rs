//! The gate: all connections of this replica, and what may pass. It does the handshakes, knows which peer is a member, a client or an
//! operator, keeps the seats for each, and closes connections that break the rules. It reads frames as their sender may send them, and does
//! not look at their meaning.
//!
//! `evidence.rs` has what was proved against members; `peers.rs` has the connections and the handshake, `links.rs` the connections to and from one member, `seats.rs` how many there
//! may be, `lives.rs` whether a member is still the same, and `access.rs` the rights of clients. Tests: gate/tests.rs, and beside each
//! file.

mod access;
mod apart;
mod arrived;
mod evidence;
mod levels;
mod links;
mod lives;
mod peers;
mod seats;

pub use access::{Access, Permissions};
pub(crate) use apart::{GateLane, Said};
pub(crate) use arrived::{Arrived, Asks, ChainSays, Says, Wish};
pub use evidence::Found;
use evidence::Proofs;
pub(crate) use levels::too_low;
pub(crate) use links::link_of;
pub(crate) use lives::Lives;
pub(crate) use peers::{Change, Conn, Peers};
pub use seats::{ConnClass, SeatLimits};

use crate::config::NodeConfig;
use crate::effects::{Effect, Effects, Event, Input};
use crate::neighbours::Neighbours;
use apart::Told;
use peers::Us;
use quorate_admit::Members;
use quorate_log::Record;
use quorate_order::OrderConfig;
use quorate_order::mod_smart::evidence::Evidence;
use quorate_types::{AgreedTime, ConnId, Identity, RecordId, Reject, ReplicaId, Time};
use quorate_wire::{Frame, LeaderNotice, OutFrame, Refusal, RefusalReason, StateMessage};
use std::net::IpAddr;
use std::sync::Arc;

/// An event of a connection.
#[derive(Debug)]
pub(crate) enum In {
    /// A connection was accepted, from this address if it is known.
    Accepted { conn: ConnId, from: Option<IpAddr> },
    /// The peer showed its certificate.
    Identified { conn: ConnId, identity: Arc<Identity> },
    /// The connection could not be secured.
    Unsafe { conn: ConnId, why: String },
    /// A dial succeeded.
    Dialed { conn: ConnId, replica: ReplicaId, link: u16 },
    /// A dial failed.
    DialFailed { replica: ReplicaId, link: u16 },
    /// A connection was closed.
    Closed(ConnId),
    /// A member that was dialed answered our hello.
    Answer { conn: ConnId, replica: ReplicaId, link: u16, frame: Frame },
    /// The time of [`Gate::deadline`] may have come.
    Deadline,
}

impl In {
    /// The event that an input of the host reports, if it is about a connection and no frame.
    pub(crate) fn of(input: &Input) -> Option<Self> {
        Some(match input {
            Input::Accepted { conn, from } => Self::Accepted { conn: *conn, from: *from },
            Input::Identified { conn, identity } => {
                Self::Identified { conn: *conn, identity: identity.clone() }
            }
            Input::Unsafe { conn, why } => Self::Unsafe { conn: *conn, why: why.clone() },
            Input::Dialed { conn, replica, link } => {
                Self::Dialed { conn: *conn, replica: *replica, link: *link }
            }
            Input::DialFailed { replica, link } => Self::DialFailed { replica: *replica, link: *link },
            Input::Closed(conn) => Self::Closed(*conn),
            _ => return None,
        })
    }

    /// The connection that ends with this event.
    pub(crate) fn ends(&self) -> Option<ConnId> {
        match self {
            Self::Closed(conn) | Self::Unsafe { conn, .. } => Some(*conn),
            _ => None,
        }
    }
}

/// All connections of this replica; see the module.
#[derive(Debug)]
pub(crate) struct Gate {
    peers: Peers,
    lives: Lives,
    /// This replica's life, and the record that must be durable before any other replica may hear of the life.
    own_life: (u64, RecordId),
    access: Access,
    /// Broken rules since the start of the process.
    rejected: u64,
    /// What members signed that no honest one signs.
    proofs: Proofs,
    /// The members of other services.
    pub(crate) neighbours: Neighbours,
    /// The lane of the connections, if they have one of their own; then this gate shows them as the lane did last.
    lane: Option<Box<GateLane>>,
}

/// Questions of other parts.
impl Gate {
    pub(crate) fn new(config: &NodeConfig, lives: Lives) -> Self {
        Self {
            peers: Peers::new(config),
            lives,
            own_life: (0, RecordId::ZERO),
            access: Access::default(),
            rejected: 0,
            proofs: Proofs::new(config),
            neighbours: Neighbours::default(),
            lane: None,
        }
    }

    /// The connections, as the main lane knows them.
    pub(crate) const fn peers(&self) -> &Peers {
        &self.peers
    }

    /// The connections, as the host has them.
    pub(crate) fn own_peers(&self) -> &Peers {
        self.lane.as_ref().map_or(&self.peers, |lane| lane.gate().peers())
    }

    /// The lane of the connections, if they have one of their own.
    pub(crate) fn lane(&mut self) -> Option<&mut GateLane> {
        self.lane.as_deref_mut()
    }

    /// The known lives of the members.
    pub(crate) const fn lives(&self) -> &Lives {
        &self.lives
    }

    /// Broken rules since the start of the process.
    pub(crate) const fn rejected(&self) -> u64 {
        self.rejected
    }

    /// What members signed that no honest one signs.
    pub(crate) const fn proofs(&self) -> &Proofs {
        &self.proofs
    }

    /// The protocol proved this. [mod_smart L167]
    pub(crate) fn prove(&mut self, at: AgreedTime, evidence: Evidence, out: &mut Effects) {
        self.proofs.prove(at, evidence, out);
    }

    /// The rights of the peer at the other end; it may do everything if there are none.
    pub(crate) fn rights(&self, conn: ConnId) -> Option<&Arc<Permissions>> {
        self.access.of(self.peers.identity(conn))
    }

    /// Whether every client may do everything.
    pub(crate) fn permits_all(&self) -> bool {
        self.access.named.is_empty() && self.access.others.is_none()
    }

    /// Whether other replicas may hear of this one: its own life is durable, and no crash can take it back.
    fn may_speak(&self, durable: RecordId) -> bool {
        durable >= self.own_life.1
    }

    /// When to step it with [`In::Deadline`], if nothing else happens. This much of the log is durable.
    pub(crate) fn deadline(&self, durable: RecordId) -> Option<Time> {
        match &self.lane {
            Some(lane) => lane.deadline(),
            None => self.may_speak(durable).then(|| self.peers.deadline()).flatten(),
        }
    }
}

/// Inputs.
impl Gate {
    /// Sets which clients may use which keys. If it is never called, all clients may use all keys.
    pub(crate) fn permit(&mut self, access: Access) {
        self.access = access;
    }

    /// The process starts. Gives the record of this replica's life, if it is a new one.
    pub(crate) fn begin(&mut self, me: ReplicaId, seed: u64) -> Option<Record> {
        let (life, record) = self.lives.begin(me, seed);
        self.own_life.0 = life;
        record
    }

    /// The life's record has this number in the log.
    pub(crate) fn wrote_life(&mut self, id: RecordId) {
        self.own_life.1 = id;
    }

    /// Handles an event of a connection. This much of the log is durable.
    pub(crate) fn step(
        &mut self,
        now: Time,
        (config, durable): (&NodeConfig, RecordId),
        input: In,
        out: &mut Effects,
    ) {
        if let Some(lane) = &mut self.lane {
            return lane.tell(Told::Step(input));
        }
        match input {
            In::Accepted { conn, from } => self.peers.on_accepted(now, conn, from, config, out),
            In::Identified { conn, identity } => self.peers.on_identified(conn, identity),
            In::Unsafe { conn, why } => {
                self.rejected += 1;
                self.peers.on_unsafe(now, conn, why, out);
            }
            In::Dialed { conn, replica, link } => {
                self.peers.on_dialed(now, conn, (replica, link), config, self.own_life.0, out)
            }
            In::DialFailed { replica, link } => self.peers.on_dial_failed(now, (replica, link)),
            In::Closed(conn) => self.peers.on_closed(now, conn),
            In::Answer { conn, replica, link, frame } => {
                self.peers.on_answer(now, conn, (replica, link), frame, config, out)
            }
            In::Deadline if self.may_speak(durable) => self.peers.on_deadline(now, config, out),
            In::Deadline => {}
        }
    }

    /// Reads a frame as the peer at the other end may send it.
    pub(crate) fn arrived(&mut self, now: Time, conn: ConnId, frame: Frame, order: &OrderConfig) -> Arrived {
        let Some(who) = self.peers.conn(conn) else { return Arrived::Nothing };
        if let Conn::From(replica, _) = who {
            self.peers.heard(now, replica); // a sign of life
        }
        Arrived::read(who, frame, order)
    }

    /// A message of a member came in on another lane: a sign of life.
    pub(crate) fn heard(&mut self, now: Time, replica: ReplicaId) {
        match &mut self.lane {
            Some(lane) => lane.gate_mut().heard(now, replica),
            None => self.peers.heard(now, replica),
        }
    }

    /// Sends a message about checkpoints to a member, if it is connected.
    pub(crate) fn tell(&self, to: ReplicaId, message: &StateMessage, out: &mut Effects) {
        self.tell_frame(to, &message.frame(), out);
    }

    /// Sends a frame to a member, if it is connected, in whatever era it is.
    pub(crate) fn tell_frame(&self, to: ReplicaId, frame: &OutFrame, out: &mut Effects) {
        let peers = self.peers();
        if let Some(conn) = peers.to(to).or_else(|| peers.across(to)) {
            out.send(conn, frame.clone());
        }
    }

    /// Sends a frame to all other members that are connected.
    pub(crate) fn tell_all(&self, members: &Members, frame: &OutFrame, out: &mut Effects) {
        for conn in members.others().filter_map(|member| self.peers.to(member.replica)) {
            out.send(conn, frame.clone());
        }
    }

    /// Records an operator's request and its result in the audit log.
    pub(crate) fn audit(&self, conn: ConnId, what: String, outcome: String, out: &mut Effects) {
        let who = match self.peers.identity(conn) {
            Some(identity) => identity.holder.to_string(),
            None => "an operator (connections are plain)".to_owned(),
        };
        out.push(Effect::Audit { conn, who, what, outcome });
    }

    /// A peer introduces itself. Gives the member whose life was not known, and the record that says it.
    pub(crate) fn hello(
        &mut self,
        now: Time,
        (conn, frame): (ConnId, Frame),
        (config, notice): (&NodeConfig, LeaderNotice),
        out: &mut Effects,
    ) -> Option<(ReplicaId, Record)> {
        let us = Us { config, notice, lives: &self.lives };
        let (replica, life) = self.peers.on_hello(now, conn, frame, &us, out)?;
        self.lives.learn(replica, life).map(|record| (replica, record))
    }

    /// Forgets a member's life that could not be written down: the member may come with another life after all.
    pub(crate) fn unlearn(&mut self, replica: ReplicaId) {
        self.lives.unlearn(replica);
        if let Some(lane) = &mut self.lane {
            lane.tell(Told::Unlearn(replica));
        }
    }

    /// Takes the members as they are from now on.
    pub(crate) fn meet(&mut self, now: Time, members: &Members, out: &mut Effects) {
        match &mut self.lane {
            Some(lane) => lane.tell(Told::Meet(members.clone())),
            None => self.peers.meet(now, members, out),
        }
    }

    /// The members that came and went since the last call. Connections that depend on ended ones are closed.
    pub(crate) fn changes(&mut self, out: &mut Effects) -> Vec<Change> {
        self.peers.orphans.drain(..).for_each(|conn| out.push(Effect::Close(conn)));
        std::mem::take(&mut self.peers.changes)
    }

    /// Counts a broken rule, and closes the connection.
    pub(crate) fn reject(&mut self, conn: ConnId, text: String, out: &mut Effects) {
        if let Some(lane) = &mut self.lane {
            return lane.tell(Told::Reject(conn, text));
        }
        self.rejected += 1;
        out.event(Event::Rejected { conn, text: text.clone() });
        if matches!(self.peers.conn(conn), Some(Conn::Client(_) | Conn::Admin)) {
            out.send(conn, Refusal { reason: RefusalReason::NoHello, text }.frame());
        }
        out.push(Effect::Close(conn));
    }

    /// A member sent what no honest one sends.
    pub(crate) fn refuses(&mut self, from: ReplicaId, why: &Reject, out: &mut Effects) {
        self.count_wrong();
        out.event(Event::Refused { text: format!("{from} sent what the protocol does not know: {why}") });
    }

    /// Counts something else that broke a rule.
    pub(crate) fn count_wrong(&mut self) {
        match &mut self.lane {
            Some(lane) => lane.tell(Told::Wrong),
            None => self.rejected += 1,
        }
    }

    /// Whether to accept a connection from this address.
    pub(crate) fn lets_in(&mut self, from: Option<IpAddr>) -> bool {
        match &mut self.lane {
            Some(lane) => lane.gate_mut().lets_in(from),
            None => self.peers.lets_in(from),
        }
    }
}

#[cfg(test)]
mod tests;
