//! The stand-in for a pillar that has a lane of its own. The main lane steps and asks the stand-in as it would the pillar. Inputs wait until
//! the pillar's lane has a turn, and effects wait until the main lane hears of that turn. In between the main lane knows what the lane said
//! last.
//!
//! INV-NODE-11: the main lane never looks into a pillar while its lane has something to take. Tests: apart/tests.rs, check/sim.

use super::Inbox;
use super::bridge::{Bridge, Mail};
use super::own_lane::{Facts, OwnLane, Told, Turn};
use super::pillar::SEALED_MAX;
use crate::effects;
use crate::engine::Proposes;
use crate::witness::Sealed;
use quorate_merge::Proposer;
use quorate_order::{Effects, Standing, Status};
use quorate_types::{RecordId, ReplicaId, Time};
use std::collections::VecDeque;

/// While this many bytes of messages are on their way to a lane, further ones count as lost.
const RECEIVED_MAX: usize = 64 << 20;

/// What the main lane knows of a pillar.
#[derive(Debug)]
pub(crate) struct Known {
    standing: Standing,
    status: Status,
    keep_from: Option<RecordId>,
    waiting_bytes: usize,
    proposer: Proposer,
}

impl Known {
    pub(super) fn of(lane: &OwnLane) -> Self {
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

/// Whether the lane must take something soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Urgent(bool);

/// The stand-in of a pillar; see the module.
#[derive(Debug)]
pub(super) struct StandIn {
    bridge: Box<dyn Bridge>,
    known: Known,
    /// What was not sent to the lane yet.
    told: Mail,
    /// Whether the lane may have inputs that it has not taken.
    sent: bool,
    /// Mail was sent since the lane was asked for a turn, and whether that is urgent.
    unasked: Option<Urgent>,
    /// Whether the lane is held.
    held: bool,
    /// The facts that the lane was told last.
    facts: Option<Facts>,
    /// The sizes of proposed batches that are not yet part of what is known.
    proposed: VecDeque<usize>,
    /// The same of requests.
    passed: VecDeque<usize>,
    /// The bytes of messages that are not yet part of what is known.
    received: usize,
    /// Reports that were not heard yet.
    reports: VecDeque<(Turn, Known)>,
    /// How often the main lane heard that the lane had been stopped.
    wakes: u64,
    /// When it wanted to act then, if the engine does not know yet.
    woke: Option<Time>,
    /// News for the engine.
    news: Option<Proposes>,
    /// The members whose messages the lane took, if the gate does not know yet.
    signs: Vec<ReplicaId>,
    /// The batches that the lane made of requests, if the witness does not know yet.
    sealed: VecDeque<Sealed>,
}

impl StandIn {
    /// A stand-in for a pillar that was taken to a lane.
    pub(super) fn new(bridge: Box<dyn Bridge>, known: Known) -> Self {
        Self {
            bridge,
            known,
            told: Mail::default(),
            unasked: None,
            sent: false,
            held: false,
            facts: None,
            proposed: VecDeque::new(),
            passed: VecDeque::new(),
            received: 0,
            reports: VecDeque::new(),
            wakes: 0,
            woke: None,
            news: None,
            signs: Vec::new(),
            sealed: VecDeque::new(),
        }
    }

    /// Adds an input for the lane.
    pub(super) fn tell(&mut self, told: Told) {
        match &told {
            Told::Propose(batch) => self.proposed.push_back(batch.bytes().len()),
            Told::Requests(passed) => self.passed.push_back(passed.requests.len()),
            Told::Receive(_, bytes) => self.received += bytes,
            _ => {}
        }
        self.told.told.push(told);
    }

    /// Tells the lane the facts, if they have changed, or if it needs a newer clock.
    pub(super) fn learn(&mut self, facts: Facts) {
        let facts = Facts { wakes: self.wakes, ..facts };
        // The time alone is no news.
        let known = self.facts.as_mut().is_some_and(|known| {
            let at = std::mem::replace(&mut known.at, facts.at);
            let same = *known == facts;
            known.at = at;
            same
        });
        if !known {
            self.facts = Some(facts.clone());
            self.told.facts = Some(Box::new(facts));
        }
    }

    /// The lane has no turn of its own until it is asked for one.
    pub(super) fn hold(&mut self) {
        self.held = true;
        self.bridge.hold(true);
    }

    /// The stay is no longer in force: its lane leaves the pillar alone. The effects of all turns until now are added to the list.
    pub(super) fn rests(&mut self, out: &mut Effects) {
        self.bridge.rest(true);
        while self.hear(out) {}
    }

    /// The stay is in force again. Which requests are in flight is unknown.
    pub(super) fn returns(&mut self) {
        self.bridge.rest(false);
        self.facts = None;
        self.tell(Told::Forget);
    }

    /// Sends the inputs. Whether the lane must be asked for a turn.
    pub(super) fn asks(&mut self) -> bool {
        let held = std::mem::take(&mut self.held);
        if held {
            self.bridge.hold(false);
        }
        self.sends();
        let Some(urgent) = self.unasked else { return held && self.bridge.ask() };
        if !held && !urgent.0 && !self.waits_for_facts() {
            return false;
        }
        self.unasked = None;
        self.bridge.ask()
    }

    fn sends(&mut self) {
        if self.told.is_empty() {
            return;
        }
        let before = self.unasked.is_some_and(|urgent| urgent.0);
        self.unasked = Some(Urgent(before || !self.told.told.is_empty()));
        self.sent = true;
        self.bridge.send(std::mem::take(&mut self.told));
    }

    /// Whether new facts may let the lane do something now, as far as the main lane knows: to begin to propose, to propose what waits, or a
    /// no-op. Otherwise they can wait for its next turn.
    fn waits_for_facts(&self) -> bool {
        let bounds = self.facts.as_ref().and_then(|facts| facts.bounds);
        let proposer = &self.known.proposer;
        let waits = self.waiting_bytes() > 0 || !self.proposed.is_empty() || !proposer.is_settled();
        self.known.standing.leading && (waits || bounds.is_some_and(|bounds| proposer.is_wanted(&bounds)))
    }

    /// A turn of the lane, here and now: the pillar takes all inputs, and frames that came in on its lane.
    pub(super) fn take_turn(&mut self, now: Time, inbox: &mut Inbox, out: &mut effects::Effects) {
        self.sends();
        self.bridge.turn(now, inbox, out);
        (self.sent, self.unasked) = (false, None);
    }

    /// The main lane hears the lane's next turn: its effects are added to the list. Whether there was one.
    pub(super) fn hear(&mut self, out: &mut Effects) -> bool {
        if self.reports.is_empty() {
            self.reports.extend(self.bridge.hear().0);
        }
        let Some((turn, known)) = self.reports.pop_front() else { return false };
        self.proposed.drain(..turn.taken);
        self.passed.drain(..turn.passed);
        self.received -= turn.received;
        let before = self.news.and_then(|news| news.batch);
        let batch = turn.proposed.or(before);
        self.signs.extend(turn.signs);
        if self.sealed.len() < SEALED_MAX {
            self.sealed.extend(turn.sealed);
        }
        self.wakes += u64::from(turn.woke.is_some());
        self.woke = self.woke.or(turn.woke);
        self.news = Some(Proposes { proposer: known.proposer, batch, waits_for_room: turn.waits_for_room });
        self.known = known;
        if turn.is_late {
            self.facts = None;
        }
        turn.effects.into_iter().for_each(|effect| out.push(effect));
        true
    }

    /// Whether so much is on its way to the lane that a message must count as lost.
    pub(super) const fn is_full(&self) -> bool {
        self.received > RECEIVED_MAX
    }

    /// When the lane wanted to act that was stopped meanwhile.
    pub(super) const fn woke(&mut self) -> Option<Time> {
        self.woke.take()
    }

    /// The members whose messages the lane took since the last call.
    pub(super) fn signs(&mut self) -> Vec<ReplicaId> {
        std::mem::take(&mut self.signs)
    }

    /// Takes what the lane made of requests.
    pub(super) fn take_sealed(&mut self) -> VecDeque<Sealed> {
        std::mem::take(&mut self.sealed)
    }

    /// Takes the news for the merge.
    pub(super) fn news(&mut self) -> Option<Proposes> {
        self.news.take()
    }

    /// Looks at the pillar, while its lane has nothing to take.
    pub(super) fn look<R>(&self, look: impl FnOnce(&OwnLane) -> R) -> R {
        assert!(
            self.told.is_empty() && !self.sent,
            "INV-NODE-11 the main lane looks into a pillar while its lane steps it"
        );
        self.peek(look)
    }

    /// Looks at the pillar as its lane has it, whatever the main lane knows: for checks.
    pub(super) fn peek<R>(&self, look: impl FnOnce(&OwnLane) -> R) -> R {
        let (mut look, mut seen) = (Some(look), None);
        self.bridge.look(&mut |lane| seen = look.take().map(|look| look(lane)));
        seen.expect("a bridge shows its pillar once")
    }

    /// When the lane wants to act, or wanted to act while the process was stopped.
    pub(super) fn wanted(&self) -> Option<Time> {
        let heard = self.reports.iter().filter_map(|(turn, _)| turn.woke).min();
        heard.into_iter().chain(self.bridge.wanted()).min()
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.told.is_empty().then(|| self.bridge.deadline()).flatten()
    }

    /// The protocol's standing as it will be when it has taken the proposed batches.
    pub(super) fn standing(&self) -> Standing {
        let mut standing = self.known.standing;
        standing.in_flight += self.proposed.len();
        standing.in_flight_bytes += self.proposed.iter().sum::<usize>();
        standing
    }

    pub(super) fn status(&self) -> Status {
        self.known.status.clone()
    }

    pub(super) const fn keep_from(&self) -> Option<RecordId> {
        self.known.keep_from
    }

    /// Bytes of requests that wait for a batch: those at the lane, and those that it has not taken as far as the main lane heard.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.known.waiting_bytes + self.passed.iter().sum::<usize>()
    }

    pub(super) fn invariants(&self, thorough: bool) {
        self.peek(|lane| lane.pillar.invariants(thorough, lane.pillar.held.known_durable()));
    }
}

#[cfg(test)]
mod tests;
