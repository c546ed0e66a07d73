//! The stand-in for a pillar that has a lane of its own. The main lane steps and asks the stand-in as it would the pillar. Inputs wait until
//! the pillar's lane has a turn, and effects wait until the main lane hears of that turn. In between the main lane knows what the lane said
//! last.
//!
//! INV-NODE-11: the main lane never looks into a pillar while its lane has something to take. Tests: apart/tests.rs, check/sim.

use super::own_lane::{Facts, OwnLane, Told, Turn};
use super::pillar::Pillar;
use crate::effects;
use crate::engine::Proposes;
use quorate_merge::Proposer;
use quorate_order::{Effects, Standing, Status};
use quorate_types::{RecordId, Time};
use std::collections::VecDeque;

/// What the main lane knows of a pillar.
#[derive(Debug)]
struct Known {
    standing: Standing,
    status: Status,
    keep_from: Option<RecordId>,
    waiting_bytes: usize,
    proposer: Proposer,
}

impl Known {
    fn of(lane: &OwnLane) -> Self {
        let order = &lane.pillar.order;
        Self {
            standing: order.standing(),
            status: order.status(),
            keep_from: order.keep_from(),
            waiting_bytes: lane.waiting_bytes(),
            proposer: lane.proposer,
        }
    }
}

/// The stand-in of a pillar; see the module.
#[derive(Debug)]
pub(super) struct StandIn {
    lane: OwnLane,
    /// What is known of the pillar once its protocol has started. From then on only its lane steps it.
    known: Option<Known>,
    /// Inputs that the lane has not taken yet.
    told: VecDeque<Told>,
    /// Whether the lane was asked to take them.
    asked: bool,
    /// The facts that the lane was told last.
    facts: Option<Facts>,
    /// The sizes of proposed batches that are not yet part of what is known.
    proposed: VecDeque<usize>,
    /// Turns of the lane that the main lane has not heard of yet, and what is known since then.
    turns: VecDeque<(Turn, Known)>,
    /// News for the merge.
    news: Option<Proposes>,
}

impl StandIn {
    /// A stand-in for a pillar whose protocol has not started.
    pub(super) const fn new(lane: OwnLane) -> Self {
        Self {
            lane,
            known: None,
            told: VecDeque::new(),
            asked: false,
            facts: None,
            proposed: VecDeque::new(),
            turns: VecDeque::new(),
            news: None,
        }
    }

    /// Queues an input for the lane.
    pub(super) fn tell(&mut self, told: Told) {
        match &told {
            Told::Propose(batch) => self.proposed.push_back(batch.bytes().len()),
            Told::Start(_) => self.known = Some(Known::of(&self.lane)),
            _ => {}
        }
        self.told.push_back(told);
    }

    /// Tells the lane the facts, if they have changed.
    pub(super) fn learn(&mut self, facts: Facts) {
        if self.known.is_some() && self.facts.as_ref() != Some(&facts) {
            self.facts = Some(facts.clone());
            self.tell(Told::Facts(Box::new(facts)));
        }
    }

    /// Whether the lane has something to take and was not asked yet.
    pub(super) fn asks(&mut self) -> bool {
        !self.told.is_empty() && !std::mem::replace(&mut self.asked, true)
    }

    /// A turn of the lane: the pillar takes its inputs, if there are any.
    pub(super) fn take_turn(&mut self, now: Time, out: &mut effects::Effects) {
        self.asked = false;
        if self.told.is_empty() {
            return;
        }
        let mut turn = Turn::default();
        for told in self.told.drain(..) {
            self.lane.take(now, told, &mut turn, out);
        }
        self.lane.end_turn(now, &mut turn, out);
        self.turns.push_back((turn, Known::of(&self.lane)));
    }

    /// The main lane hears the lane's turns: their effects are added to the list. Whether there was a turn.
    pub(super) fn hear(&mut self, out: &mut Effects) -> bool {
        let any = !self.turns.is_empty();
        for (Turn { effects, taken, proposed, waits_for_room }, known) in self.turns.drain(..) {
            self.proposed.drain(..taken);
            let before = self.news.and_then(|news| news.batch);
            let batch = proposed.or(before);
            self.news = Some(Proposes { proposer: known.proposer, batch, waits_for_room });
            self.known = Some(known);
            effects.into_iter().for_each(|effect| out.push(effect));
        }
        any
    }

    /// Takes the news for the merge.
    pub(super) fn news(&mut self) -> Option<Proposes> {
        self.news.take()
    }

    /// The pillar itself, while its lane has nothing to take.
    pub(super) fn here(&self) -> &Pillar {
        assert!(
            self.told.is_empty(),
            "INV-NODE-11 the main lane looks into a pillar while its lane steps it"
        );
        &self.lane.pillar
    }

    /// The pillar itself, before its lane steps it.
    pub(super) fn before_start(&mut self) -> &mut Pillar {
        assert!(self.known.is_none(), "INV-NODE-11 the main lane changes a pillar that its lane steps");
        &mut self.lane.pillar
    }

    /// The status of the protocol, as its lane knows it.
    pub(super) fn own_status(&self) -> Status {
        self.lane.pillar.order.status()
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.told.is_empty().then(|| self.lane.pillar.deadline()).flatten()
    }

    /// The protocol's standing as it will be when it has taken the proposed batches.
    pub(super) fn standing(&self) -> Standing {
        let Some(known) = &self.known else { return self.lane.pillar.standing() };
        let mut standing = known.standing;
        standing.in_flight += self.proposed.len();
        standing.in_flight_bytes += self.proposed.iter().sum::<usize>();
        standing
    }

    pub(super) fn status(&self) -> Status {
        self.known.as_ref().map_or_else(|| self.own_status(), |known| known.status.clone())
    }

    pub(super) fn keep_from(&self) -> Option<RecordId> {
        let order = &self.lane.pillar.order;
        self.known.as_ref().map_or_else(|| order.keep_from(), |known| known.keep_from)
    }

    /// Bytes of requests that wait for a batch: those at the lane, and those that it has not taken yet.
    pub(super) fn waiting_bytes(&self) -> usize {
        let told = |told: &Told| if let Told::Requests(passed) = told { passed.requests.len() } else { 0 };
        let told: usize = self.told.iter().map(told).sum();
        self.known.as_ref().map_or(0, |known| known.waiting_bytes) + told
    }

    pub(super) fn invariants(&self, thorough: bool) {
        let durable = self.lane.pillar.held.known_durable();
        self.lane.pillar.invariants(thorough, durable);
    }
}

#[cfg(test)]
mod tests;
