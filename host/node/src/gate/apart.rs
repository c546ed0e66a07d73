//! A gate that has a lane of its own. The main lane keeps a gate in its place, which shows the connections as the lane showed them last.
//! Inputs from the main lane wait until the lane has a turn, and reports of the lane wait until the main lane hears them. The lane in turn
//! goes by what the main lane told it last.
//!
//! Everything from one connection reaches the main lane in order, its end last. Tests: apart/tests.rs, check/sim.

use super::{Arrived, Change, Gate, In, Lives, Peers, Proofs};
use crate::config::NodeConfig;
use crate::effects::Effects;
use crate::neighbours::Neighbours;
use quorate_admit::Members;
use quorate_log::Record;
use quorate_types::{ConnId, RecordId, ReplicaId, Time};
use quorate_wire::{Frame, LeaderNotice};
use std::collections::VecDeque;

/// A report of a gate to the main lane.
#[derive(Debug)]
pub(crate) enum Said {
    /// A frame came in over an established connection, and was read.
    Arrived(ConnId, Arrived),
    /// A peer introduced itself. If it is a member whose life was not known: the record that says it.
    Met(ConnId, Option<(ReplicaId, Record)>),
    /// A member that was dialed answered.
    Answered(ConnId, ReplicaId),
    /// A connection is gone.
    Closed(ConnId),
    /// Members came and went.
    Changed(Vec<Change>),
}

/// An input for a gate from the main lane.
#[derive(Debug)]
pub(super) enum Told {
    /// An event of a connection.
    Step(In),
    /// A connection broke the rules, in words.
    Reject(ConnId, String),
    /// Something else broke a rule: it is counted.
    Wrong,
    /// The members have changed.
    Meet(Members),
    /// There was no room to write down the life of a member.
    Unlearn(ReplicaId),
    /// The facts of the main lane have changed.
    Facts(Box<Facts>),
}

/// The facts of the main lane that a gate goes by.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    config: NodeConfig,
    notice: LeaderNotice,
    /// How much of the log is durable.
    durable: RecordId,
}

/// What a gate shows to the main lane.
#[derive(Debug)]
struct Shown {
    peers: Peers,
    lives: Lives,
    rejected: u64,
}

/// The lane of a gate, with everything that is under way between it and the main lane.
#[derive(Debug)]
pub(crate) struct GateLane {
    /// The gate that has the connections.
    gate: Gate,
    /// The facts that the gate goes by.
    facts: Facts,
    /// Inputs that the gate has not taken yet.
    told: VecDeque<Told>,
    /// Whether the lane was asked to take them.
    asked: bool,
    /// The last facts that the lane was told: the feature level and that of the service, the leaders, and whether the own life is durable. It is told of members
    /// by [`Told::Meet`].
    last: ([u32; 2], LeaderNotice, bool),
    /// Reports that the main lane has not heard yet, with what the gate shows since then.
    said: VecDeque<(Said, Option<Box<Shown>>)>,
}

/// Questions of hosts.
impl GateLane {
    pub(super) const fn gate(&self) -> &Gate {
        &self.gate
    }

    pub(super) const fn gate_mut(&mut self) -> &mut Gate {
        &mut self.gate
    }

    /// When the lane must have a turn, if nothing else happens.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.told.is_empty().then(|| self.gate.deadline(self.facts.durable)).flatten()
    }
}

/// Methods for the main lane.
impl GateLane {
    /// Gives the gate a lane of its own.
    pub(super) fn new(gate: Gate, config: &NodeConfig, notice: LeaderNotice, durable: RecordId) -> Self {
        let speaks = gate.may_speak(durable);
        Self {
            gate,
            facts: Facts { config: config.clone(), notice, durable },
            told: VecDeque::new(),
            asked: false,
            last: ([config.level.cluster, config.service.level], notice, speaks),
            said: VecDeque::new(),
        }
    }

    /// Queues an input for the gate.
    pub(super) fn tell(&mut self, told: Told) {
        self.told.push_back(told);
    }

    /// Tells the lane what has changed about the main lane.
    pub(crate) fn learn(&mut self, config: &NodeConfig, notice: LeaderNotice, durable: RecordId) {
        let speaks = self.gate.may_speak(durable);
        let now = ([config.level.cluster, config.service.level], notice, speaks);
        if std::mem::replace(&mut self.last, now) != now {
            self.tell(Told::Facts(Box::new(Facts { config: config.clone(), notice, durable })));
        }
    }

    /// Whether the lane has something to take and was not asked yet.
    pub(crate) fn asks(&mut self) -> bool {
        !self.told.is_empty() && !std::mem::replace(&mut self.asked, true)
    }
}

/// Methods for the lane.
impl GateLane {
    /// A turn of the lane: the gate takes its inputs.
    pub(crate) fn take_turn(&mut self, now: Time, out: &mut Effects) {
        self.asked = false;
        for told in std::mem::take(&mut self.told) {
            match told {
                Told::Step(input) => self.act(now, input, out),
                Told::Reject(conn, why) => self.gate.reject(conn, why, out),
                Told::Wrong => self.gate.count_wrong(),
                Told::Meet(members) => {
                    self.gate.meet(now, &members, out);
                    self.facts.config.members = members;
                }
                Told::Unlearn(replica) => self.gate.unlearn(replica),
                Told::Facts(facts) => self.facts = *facts,
            }
        }
        self.say_changes(out);
    }

    /// Handles an event of a connection.
    pub(crate) fn happened(&mut self, now: Time, input: In, out: &mut Effects) {
        let gone = input.ends();
        self.act(now, input, out);
        if let Some(conn) = gone {
            self.act(now, In::Closed(conn), out);
            self.said.push_back((Said::Closed(conn), None));
        }
        self.say_changes(out);
    }

    /// Handles a frame.
    pub(crate) fn framed(&mut self, now: Time, conn: ConnId, frame: Frame, out: &mut Effects) {
        let said = match self.gate.arrived(now, conn, frame, &self.facts.config.order) {
            Arrived::Nothing => return,
            Arrived::Hello(frame, _) => {
                let Facts { config, notice, .. } = &self.facts;
                Said::Met(conn, self.gate.hello(now, (conn, frame), (config, *notice), out))
            }
            Arrived::Answer { replica, link, frame } => {
                self.act(now, In::Answer { conn, replica, link, frame }, out);
                Said::Answered(conn, replica)
            }
            arrived => return self.said.push_back((Said::Arrived(conn, arrived), None)),
        };
        let shown = self.shown();
        self.said.push_back((said, Some(shown)));
        self.say_changes(out);
    }

    fn act(&mut self, now: Time, input: In, out: &mut Effects) {
        self.gate.step(now, (&self.facts.config, self.facts.durable), input, out);
    }

    /// Reports to the main lane which members came and went, and shows the connections.
    fn say_changes(&mut self, out: &mut Effects) {
        let said = Said::Changed(self.gate.changes(out));
        let shown = self.shown();
        self.said.push_back((said, Some(shown)));
    }

    fn shown(&self) -> Box<Shown> {
        let Gate { peers, lives, rejected, .. } = &self.gate;
        let mut peers = peers.clone();
        (peers.changes, peers.orphans) = (Vec::new(), Vec::new());
        Box::new(Shown { peers, lives: lives.clone(), rejected: *rejected })
    }
}

/// The main lane's gate, while another one has the connections.
impl Gate {
    /// Moves the connections to a lane of their own.
    pub(crate) fn stands_apart(&mut self, config: &NodeConfig, notice: LeaderNotice, durable: RecordId) {
        let gate = Self {
            peers: self.peers.clone(),
            lives: self.lives.clone(),
            own_life: self.own_life,
            access: self.access.clone(),
            rejected: self.rejected,
            proofs: Proofs::default(),
            // What their members say goes to the main lane.
            neighbours: Neighbours::default(),
            lane: None,
        };
        self.lane = Some(Box::new(GateLane::new(gate, config, notice, durable)));
    }

    /// The main lane takes the lane's next report, and sees what the gate showed with it.
    pub(crate) fn hear(&mut self) -> Option<Said> {
        let (said, shown) = self.lane.as_mut()?.said.pop_front()?;
        if let Some(shown) = shown {
            (self.peers, self.lives, self.rejected) = (shown.peers, shown.lives, shown.rejected);
        }
        Some(said)
    }
}

#[cfg(test)]
mod tests;
