//! A gate that has a lane of its own. Another gate is there in its place, which is the main lane's: it shows the connections as the lane showed
//! them last. What the main lane wants done with them waits until the lane has a turn, and what the lane has to say waits until the main lane hears of
//! it. The lane in turn goes by what the main lane told it last.
//!
//! What comes in over one connection reaches the main lane in order, its end last. Tests: apart/tests.rs, check/sim.

use super::{Arrived, Change, Gate, In, Lives, Peers};
use crate::config::NodeConfig;
use crate::effects::Effects;
use quorate_admit::Members;
use quorate_log::Record;
use quorate_types::{ConnId, RecordId, ReplicaId, Time};
use quorate_wire::{Frame, LeaderNotice};
use std::collections::VecDeque;

/// What a gate says to the main lane.
#[derive(Debug)]
pub(crate) enum Said {
    /// What came in over a connection that stands.
    Arrived(ConnId, Arrived),
    /// A stranger said who it is. If it is a member of whose life this replica hears for the first time: the record that says it.
    Met(ConnId, Option<(ReplicaId, Record)>),
    /// A member that was dialed answered.
    Answered(ConnId, ReplicaId),
    /// A connection is gone.
    Closed(ConnId),
    /// These members came and went.
    Changed(Vec<Change>),
}

/// What the main lane wants of a gate.
#[derive(Debug)]
pub(super) enum Told {
    /// Something happened.
    Step(In),
    /// A connection broke the rules.
    Reject(ConnId, String),
    /// What came was wrong in another way.
    Wrong,
    /// These are the members from now on.
    Meet(Members),
    /// What was learned of a member could not be written down.
    Unlearn(ReplicaId),
    /// It goes by this from now on.
    Facts(Box<Facts>),
}

/// What a gate knows of the main lane.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    config: NodeConfig,
    notice: LeaderNotice,
    /// So much of the log is durable.
    durable: RecordId,
}

/// What the main lane sees of a gate.
#[derive(Debug)]
struct Shown {
    peers: Peers,
    lives: Lives,
    rejected: u64,
}

/// The lane of a gate, and what is under way between it and the main lane.
#[derive(Debug)]
pub(crate) struct GateLane {
    /// The gate that has the connections.
    gate: Gate,
    /// What it goes by.
    facts: Facts,
    /// What it was told, and did not take yet.
    told: VecDeque<Told>,
    /// The lane was asked to take it.
    asked: bool,
    /// The last facts that it was told: the number of the membership, the feature level, who leads, and whether the own life is durable.
    last: (u64, u32, LeaderNotice, bool),
    /// What it said, and the main lane did not hear yet; with what it shows since.
    said: VecDeque<(Said, Option<Box<Shown>>)>,
}

/// What hosts ask.
impl GateLane {
    pub(super) const fn gate(&self) -> &Gate {
        &self.gate
    }

    pub(super) const fn gate_mut(&mut self) -> &mut Gate {
        &mut self.gate
    }

    /// When it has to have its turn, if nothing else happens.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.told.is_empty().then(|| self.gate.deadline(self.facts.durable)).flatten()
    }
}

/// What the main lane does.
impl GateLane {
    /// The gate that is there goes to a lane of its own.
    pub(super) fn new(gate: Gate, config: &NodeConfig, notice: LeaderNotice, durable: RecordId) -> Self {
        let speaks = gate.may_speak(durable);
        Self {
            gate,
            facts: Facts { config: config.clone(), notice, durable },
            told: VecDeque::new(),
            asked: false,
            last: (config.members.number().number(), config.level.cluster, notice, speaks),
            said: VecDeque::new(),
        }
    }

    /// The lane is to do this.
    pub(super) fn tell(&mut self, told: Told) {
        self.told.push_back(told);
    }

    /// The main lane stands like this: the lane is told what it does not know.
    pub(crate) fn learn(&mut self, config: &NodeConfig, notice: LeaderNotice, durable: RecordId) {
        let speaks = self.gate.may_speak(durable);
        let now = (config.members.number().number(), config.level.cluster, notice, speaks);
        if std::mem::replace(&mut self.last, now) != now {
            self.tell(Told::Facts(Box::new(Facts { config: config.clone(), notice, durable })));
        }
    }

    /// Whether the lane has to be asked to take something.
    pub(crate) fn asks(&mut self) -> bool {
        !self.told.is_empty() && !std::mem::replace(&mut self.asked, true)
    }
}

/// What its lane does.
impl GateLane {
    /// A turn of the lane: it takes what the main lane told it.
    pub(crate) fn take_turn(&mut self, now: Time, out: &mut Effects) {
        self.asked = false;
        for told in std::mem::take(&mut self.told) {
            match told {
                Told::Step(input) => self.act(now, input, out),
                Told::Reject(conn, why) => self.gate.reject(conn, why, out),
                Told::Wrong => self.gate.count_wrong(),
                Told::Meet(members) => self.gate.meet(now, &members, out),
                Told::Unlearn(replica) => self.gate.unlearn(replica),
                Told::Facts(facts) => self.facts = *facts,
            }
        }
        self.say_changes(out);
    }

    /// Something happened to a connection.
    pub(crate) fn happened(&mut self, now: Time, input: In, out: &mut Effects) {
        let gone = input.ends();
        self.act(now, input, out);
        if let Some(conn) = gone {
            self.act(now, In::Closed(conn), out);
            self.said.push_back((Said::Closed(conn), None));
        }
        self.say_changes(out);
    }

    /// A frame came in.
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

    /// The main lane is told who came and went, and shown how the connections stand.
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

/// The main lane's gate, where another one has the connections.
impl Gate {
    /// The connections go to a lane of their own.
    pub(crate) fn stands_apart(&mut self, config: &NodeConfig, notice: LeaderNotice, durable: RecordId) {
        let gate = Self {
            peers: self.peers.clone(),
            lives: self.lives.clone(),
            own_life: self.own_life,
            access: self.access.clone(),
            rejected: self.rejected,
            lane: None,
        };
        self.lane = Some(Box::new(GateLane::new(gate, config, notice, durable)));
    }

    /// The main lane hears what the lane said next, and sees what it showed with that.
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
