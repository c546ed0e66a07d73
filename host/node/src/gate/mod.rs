//! The gate: every connection of this replica, and what it lets through. It shakes hands, knows who is a member, a client or an operator,
//! keeps the places of each, and closes who breaks the rules. What comes in over a connection that stands is not looked at here.
//!
//! `peers.rs` has the connections and the handshake, `links.rs` those of one member on several lanes, `seats.rs` how many there may be,
//! `lives.rs` whether a member is still the one that it was, `access.rs` what clients may do. Tests: gate/tests.rs, and beside each of them.

mod access;
mod apart;
mod arrived;
mod levels;
mod links;
mod lives;
mod peers;
mod seats;

pub use access::{Access, Permissions};
pub(crate) use apart::{GateLane, Said};
pub(crate) use arrived::{Arrived, Asks, Says};
pub(crate) use levels::too_low;
pub(crate) use links::lane_of;
pub(crate) use lives::Lives;
pub(crate) use peers::{Change, Conn, Peers};
pub use seats::{ConnClass, SeatLimits};

use crate::config::NodeConfig;
use crate::effects::{Effect, Effects, Event, Input};
use apart::Told;
use peers::Us;
use quorate_admit::Members;
use quorate_log::Record;
use quorate_order::OrderConfig;
use quorate_types::{ConnId, Identity, RecordId, ReplicaId, Time};
use quorate_wire::{Frame, LeaderNotice, Refusal, RefusalReason, StateMessage};
use std::net::IpAddr;
use std::sync::Arc;

/// What happened to a connection.
#[derive(Debug)]
pub(crate) enum In {
    /// Somebody connected, from there if that is known.
    Accepted { conn: ConnId, from: Option<IpAddr> },
    /// It showed its certificate.
    Identified { conn: ConnId, identity: Arc<Identity> },
    /// It could not be made safe.
    Unsafe { conn: ConnId, why: String },
    /// A dial came through.
    Dialed { conn: ConnId, replica: ReplicaId, link: u16 },
    /// It did not.
    DialFailed { replica: ReplicaId, link: u16 },
    /// A connection is gone.
    Closed(ConnId),
    /// A member that was dialed answered our hello.
    Answer { conn: ConnId, replica: ReplicaId, link: u16, frame: Frame },
    /// The time is up that [`Gate::deadline`] named, perhaps.
    Deadline,
}

impl In {
    /// What an input of the host says about a connection, if it is about one, and no frame.
    pub(crate) fn of(input: Input) -> Option<Self> {
        Some(match input {
            Input::Accepted { conn, from } => Self::Accepted { conn, from },
            Input::Identified { conn, identity } => Self::Identified { conn, identity },
            Input::Unsafe { conn, why } => Self::Unsafe { conn, why },
            Input::Dialed { conn, replica, link } => Self::Dialed { conn, replica, link },
            Input::DialFailed { replica, link } => Self::DialFailed { replica, link },
            Input::Closed(conn) => Self::Closed(conn),
            _ => return None,
        })
    }

    /// The connection that is gone with that.
    pub(crate) fn ends(&self) -> Option<ConnId> {
        match self {
            Self::Closed(conn) | Self::Unsafe { conn, .. } => Some(*conn),
            _ => None,
        }
    }
}

/// Every connection of this replica; see the module.
#[derive(Debug)]
pub(crate) struct Gate {
    peers: Peers,
    lives: Lives,
    /// This replica's life, and the record that must be durable before anybody hears of it.
    own_life: (u64, RecordId),
    access: Access,
    /// What broke a rule since the start of the process.
    rejected: u64,
    /// The connections have a lane of their own: this is how it showed them last.
    lane: Option<Box<GateLane>>,
}

/// What others may ask of it.
impl Gate {
    pub(crate) fn new(config: &NodeConfig, lives: Lives) -> Self {
        Self {
            peers: Peers::new(config),
            lives,
            own_life: (0, RecordId::ZERO),
            access: Access::default(),
            rejected: 0,
            lane: None,
        }
    }

    /// The connections, to be looked at.
    pub(crate) const fn peers(&self) -> &Peers {
        &self.peers
    }

    /// The same, as the host has them.
    pub(crate) fn own_peers(&self) -> &Peers {
        self.lane.as_ref().map_or(&self.peers, |lane| lane.gate().peers())
    }

    /// The lane of the connections, if they have one of their own.
    pub(crate) fn lane(&mut self) -> Option<&mut GateLane> {
        self.lane.as_deref_mut()
    }

    /// Which life of each member is known.
    pub(crate) const fn lives(&self) -> &Lives {
        &self.lives
    }

    /// What broke a rule since the start of the process.
    pub(crate) const fn rejected(&self) -> u64 {
        self.rejected
    }

    /// What whoever is at the other end may do; everything if none is given.
    pub(crate) fn rights(&self, conn: ConnId) -> Option<&Arc<Permissions>> {
        self.access.of(self.peers.identity(conn))
    }

    /// Whether every client may do everything.
    pub(crate) fn permits_all(&self) -> bool {
        self.access.named.is_empty() && self.access.others.is_none()
    }

    /// Whether anybody may hear of this replica: its own life is durable, and no crash can take it back.
    fn may_speak(&self, durable: RecordId) -> bool {
        durable >= self.own_life.1
    }

    /// When to step it with [`In::Deadline`], if nothing else happens; so much of the log is durable.
    pub(crate) fn deadline(&self, durable: RecordId) -> Option<Time> {
        match &self.lane {
            Some(lane) => lane.deadline(),
            None => self.may_speak(durable).then(|| self.peers.deadline()).flatten(),
        }
    }
}

/// What it is told.
impl Gate {
    /// Says which clients may use which keys; without a word all may use all.
    pub(crate) fn permit(&mut self, access: Access) {
        self.access = access;
    }

    /// The process begins: gives the record that says whose life this is, if it is a new one.
    pub(crate) fn begin(&mut self, me: ReplicaId, seed: u64) -> Option<Record> {
        let (life, record) = self.lives.begin(me, seed);
        self.own_life.0 = life;
        record
    }

    /// That record is this one of the log.
    pub(crate) fn wrote_life(&mut self, id: RecordId) {
        self.own_life.1 = id;
    }

    /// Something happened to a connection; so much of the log is durable.
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

    /// A frame came in: reads it as whoever is at the other end may send it.
    pub(crate) fn arrived(&mut self, now: Time, conn: ConnId, frame: Frame, order: &OrderConfig) -> Arrived {
        let Some(who) = self.peers.conn(conn) else { return Arrived::Nothing };
        if let Conn::From(replica, _) = who {
            self.peers.heard(now, replica); // a sign of life
        }
        Arrived::read(who, frame, order)
    }

    /// Says something about the state to a member, if it is connected.
    pub(crate) fn tell(&self, to: ReplicaId, message: &StateMessage, out: &mut Effects) {
        if let Some(conn) = self.peers.to(to) {
            out.send(conn, message.frame());
        }
    }

    /// Records what an operator asked for, and what came of it.
    pub(crate) fn audit(&self, conn: ConnId, what: String, outcome: String, out: &mut Effects) {
        let who = match self.peers.identity(conn) {
            Some(identity) => identity.holder.to_string(),
            None => "an operator (connections are plain)".to_owned(),
        };
        out.push(Effect::Audit { conn, who, what, outcome });
    }

    /// A stranger says who it is. Gives the member of whose life this replica hears for the first time, and the record that says it.
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

    /// What was learned of a member could not be written down: it may come with another life after all.
    pub(crate) fn unlearn(&mut self, replica: ReplicaId) {
        self.lives.unlearn(replica);
        if let Some(lane) = &mut self.lane {
            lane.tell(Told::Unlearn(replica));
        }
    }

    /// These are the members from now on.
    pub(crate) fn meet(&mut self, now: Time, members: &Members, out: &mut Effects) {
        match &mut self.lane {
            Some(lane) => lane.tell(Told::Meet(members.clone())),
            None => self.peers.meet(now, members, out),
        }
    }

    /// Which members came and went since this was asked last. Connections that go with those that ended are closed.
    pub(crate) fn changes(&mut self, out: &mut Effects) -> Vec<Change> {
        self.peers.orphans.drain(..).for_each(|conn| out.push(Effect::Close(conn)));
        std::mem::take(&mut self.peers.changes)
    }

    /// A connection broke the rules: that is counted, and it is closed.
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

    /// What came was wrong in another way.
    pub(crate) fn count_wrong(&mut self) {
        match &mut self.lane {
            Some(lane) => lane.tell(Told::Wrong),
            None => self.rejected += 1,
        }
    }

    /// Whether to let somebody in who comes from there.
    pub(crate) fn lets_in(&mut self, from: Option<IpAddr>) -> bool {
        match &mut self.lane {
            Some(lane) => lane.gate_mut().lets_in(from),
            None => self.peers.lets_in(from),
        }
    }
}

#[cfg(test)]
mod tests;
