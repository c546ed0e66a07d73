//! The bridge between the main lane and the lane of a pillar: mail for the pillar goes one way, reports of its turns come back the other way,
//! both in order. A host with threads brings bridges of its own; a host without them lets the node keep the pillars ([`Local`]).

use super::own_lane::{Facts, Told, Turn};
use super::{Inbox, OwnLane, apart::Known};
use crate::effects::Effects;
use quorate_types::{InstanceId, Time};
use std::fmt;

/// Inputs of a pillar, in order; and the newest facts, which count before all of them.
#[derive(Debug, Default)]
pub struct Mail {
    pub(super) told: Vec<Told>,
    pub(super) facts: Option<Box<Facts>>,
}

impl Mail {
    /// Adds later mail.
    pub fn append(&mut self, later: Self) {
        if self.told.is_empty() {
            self.told = later.told;
        } else {
            self.told.extend(later.told);
        }
        if later.facts.is_some() {
            self.facts = later.facts;
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.told.is_empty() && self.facts.is_none()
    }
}

/// What turns of a pillar's lane gave, in order.
#[derive(Default)]
pub struct Reports(pub(super) Vec<(Turn, Known)>);

impl fmt::Debug for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reports({})", self.0.len())
    }
}

impl Reports {
    /// The first deadline that a turn took much too late, since the process was stopped.
    pub fn woke(&self) -> Option<Time> {
        self.0.iter().filter_map(|(turn, _)| turn.woke).min()
    }

    /// The bytes of the frames that the pillar took itself.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|(turn, _)| turn.bytes).sum()
    }

    /// Adds later reports.
    pub fn append(&mut self, later: Self) {
        self.0.extend(later.0);
    }
}

/// The main lane's end of a bridge. Dropping it takes the pillar out of service.
pub trait Bridge: fmt::Debug + Send {
    /// Queues mail for the pillar.
    fn send(&mut self, mail: Mail);

    /// The pillar needs a turn. Whether the host must be asked for it: it may have been asked before.
    fn ask(&mut self) -> bool;

    /// Gives the pillar a turn here and now, after a turn that is under way on its own lane. It takes all mail, and what it may of an inbox.
    fn turn(&mut self, now: Time, inbox: &mut Inbox, out: &mut Effects);

    /// Holds the pillar's own lane, or lets it go on: while it is held, it has no turn.
    fn hold(&mut self, held: bool);

    /// The pillar's stay is no longer in force, so its lane gives it no turns; or it is in force again. Waits for a turn that is under way.
    fn rest(&mut self, rests: bool);

    /// Takes the reports of all turns since the last call.
    fn hear(&mut self) -> Reports;

    /// Looks at the pillar, after a turn that is under way.
    fn look(&self, look: &mut dyn FnMut(&OwnLane));

    /// When the pillar wants to act, or wanted to act while the process was stopped.
    fn wanted(&self) -> Option<Time>;

    /// When the pillar must have its next turn. None if its lane sees to that.
    fn deadline(&self) -> Option<Time>;
}

/// Builds bridges.
pub trait Bridges: Send {
    /// Takes the pillar of an instance to a lane.
    fn build(&mut self, instance: InstanceId, pillar: OwnLane) -> Box<dyn Bridge>;
}

/// Bridges to pillars that the node keeps. The host decides when a lane has a turn ([`crate::Effect::Run`]).
#[derive(Debug)]
pub(crate) struct Locally;

impl Bridges for Locally {
    fn build(&mut self, _: InstanceId, pillar: OwnLane) -> Box<dyn Bridge> {
        Box::new(Local { pillar, mail: Mail::default(), asked: false, reports: Reports::default() })
    }
}

/// A bridge to a pillar that the node keeps.
#[derive(Debug)]
struct Local {
    pillar: OwnLane,
    mail: Mail,
    /// Whether the host was asked for a turn.
    asked: bool,
    reports: Reports,
}

impl Bridge for Local {
    fn send(&mut self, mail: Mail) {
        self.mail.append(mail);
    }

    fn ask(&mut self) -> bool {
        !std::mem::replace(&mut self.asked, true)
    }

    fn turn(&mut self, now: Time, inbox: &mut Inbox, out: &mut Effects) {
        self.asked = false;
        if let Some(report) = self.pillar.turn(now, std::mem::take(&mut self.mail), inbox, out) {
            self.reports.append(report);
        }
    }

    // The lane has no turn while the main lane has one.
    fn hold(&mut self, _: bool) {}

    // The node gives turns only to pillars of stays in force.
    fn rest(&mut self, _: bool) {
        self.asked = false;
    }

    fn hear(&mut self) -> Reports {
        std::mem::take(&mut self.reports)
    }

    fn look(&self, look: &mut dyn FnMut(&OwnLane)) {
        look(&self.pillar);
    }

    fn wanted(&self) -> Option<Time> {
        self.reports.woke().into_iter().chain(self.pillar.deadline()).min()
    }

    fn deadline(&self) -> Option<Time> {
        (!self.asked).then(|| self.pillar.deadline()).flatten()
    }
}
