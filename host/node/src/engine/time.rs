//! Agreed time at this replica: the time that it would propose, and when the service's deadlines pass.
//!
//! When a deadline passes and nothing else is ordered, the leader orders an empty batch that carries the time. Execution decides whether
//! the deadline is reached, since another leader with a slow clock may have set the batch's time. While batches are under way they carry
//! the time themselves, so a busy system orders nothing more for it. Tests: engine/tests.rs, `host/quorate/tests/all/deadlines.rs`.

use super::clock::{Clock, Rule};
use super::{Engine, EngineConfig};
use quorate_admit::AHEAD_MAX;
use quorate_order::Input as OrderInput;
use quorate_types::{AgreedTime, Digest, Durations, InstanceId, Random, Span, Time, planted};
use quorate_wire::BatchHeader;

/// As long as there is a deadline, the time is ordered after this long without a batch.
const EVERY: Span = Span::from_secs(5);
/// A batch for a deadline that is not executed after this long may be lost; another one is proposed.
const AGAIN: Span = Span::from_millis(200);
/// The allowance for clocks that differ, and for a leader that has just begun.
const GRACE: Span = Span::from_secs(1);

/// What is known of time, beside what was executed.
#[derive(Debug)]
pub(super) struct Timing {
    clock: Clock,
    /// Whether the first instance has a known leader, and whether that is this replica and hears no quorum.
    led: bool,
    alone: bool,
    patience: Span,
    random: Random,
    /// The last batch that was ordered for a deadline of the service: its agreed time, and when.
    ticked: Option<(AgreedTime, Time)>,
    /// The past deadline of the service that no leader orders; the protocol waits for it as for a request.
    overdue: Option<AgreedTime>,
    /// How long batches took that this replica dated, until they were delivered.
    ordered: Durations,
}

impl Timing {
    pub(super) fn new(config: &EngineConfig) -> Self {
        Self {
            clock: Clock::new(config.start_time, Time::ZERO),
            led: false,
            alone: false,
            patience: config.patience,
            random: Random::new(config.seed ^ 0x74_75_72_6e),
            ticked: None,
            overdue: None,
            ordered: Durations::NONE,
        }
    }

    pub(super) fn start(&mut self, agreed: AgreedTime, now: Time) {
        self.clock = Clock::new(agreed, now);
    }
}

/// The name under which a deadline is watched. No request has it, since names of requests are hashes.
fn name_of(due: AgreedTime) -> Digest {
    let mut name = [0; 32];
    name[..8].copy_from_slice(&due.nanos().to_le_bytes());
    Digest::new(name)
}

impl Engine {
    /// The rule by which this replica takes the time of batches.
    fn time_rule(&self) -> Rule {
        let (liars, many) = (self.may_lie, self.leads_many());
        Rule { liars, many, patience: self.timing.patience, off: AHEAD_MAX }
    }

    /// Agreed time, as this replica extends it.
    pub(crate) fn agreed_time(&self, now: Time) -> AgreedTime {
        self.timing.clock.read(now)
    }

    /// The first instance has a known leader, or none any more.
    pub(crate) fn led(&mut self, now: Time, leader: bool) {
        let rule = self.time_rule();
        (self.timing.led, self.timing.alone) = (leader, false);
        self.timing.clock.led(now, leader, rule);
    }

    /// This replica leads the first instance, and whether it does so without hearing a quorum. Such a time counts as one without a leader:
    /// no client can renew anything in it.
    pub(crate) fn leads_alone(&mut self, now: Time, alone: bool) {
        if self.timing.led && alone != self.timing.alone && !planted("time-of-the-patient") {
            self.timing.alone = alone;
            let rule = self.time_rule();
            self.timing.clock.alone(now, alone, rule);
        }
    }

    /// This replica wanted to act at the moment `since` and acts only now: its process was stopped.
    pub(crate) fn woke(&mut self, since: Time, now: Time) {
        let rule = self.time_rule();
        self.timing.clock.woke(since, now, rule);
    }

    /// The header of a batch that is proposed now. `settled`: this replica knows everything that was ordered before, so it extends its own
    /// proposals.
    pub(crate) fn header(&mut self, now: Time, settled: bool) -> BatchHeader {
        if settled {
            self.propose_time(now);
        }
        let (clock, base) = self.time_of_proposals(now);
        BatchHeader { time: clock.read(now), base, seed: self.timing.random.next(), ..BatchHeader::default() }
    }

    /// This replica proposes, so it extends its own proposals.
    pub(super) fn propose_time(&mut self, now: Time) {
        if !self.timing.clock.proposes() {
            self.timing.clock = self.time_of_proposals(now).0;
            self.timing.clock.propose();
        }
    }

    /// The clock by which proposals are dated, and the time of what was executed, if they name it.
    pub(crate) fn time_of_proposals(&self, now: Time) -> (Clock, Option<AgreedTime>) {
        let agreed = self.agreed();
        let base = agreed.takes_bases().then(|| agreed.time());
        if base.is_some() || self.may_lie || self.timing.clock.proposes() {
            return (self.timing.clock, base);
        }
        // What is decided counts although it waits for a border, or for execution.
        let mut clock = self.timing.clock;
        let held = self.merge.held(InstanceId::new(1)).map(|batch| batch.header().time).max();
        if let Some(held) = held {
            clock.executed(now, held.max(agreed.time()), self.time_rule());
        }
        (clock, None)
    }

    /// Learns the agreed time of a batch or a checkpoint that was delivered. Gives how far it is ahead of this replica's own.
    pub(crate) fn learn_time(&mut self, now: Time) -> Option<Span> {
        let (own, executed) = (self.agreed_time(now), self.agreed().time());
        let rule = self.time_rule();
        self.timing.clock.executed(now, executed, rule);
        (executed > own).then(|| executed.since(own))
    }

    /// A batch is delivered here that this replica dated with this time when it proposed it.
    pub(super) fn is_ordered(&mut self, now: Time, dated: AgreedTime) {
        let took = self.agreed_time(now).since(dated);
        self.timing.ordered.add(took);
    }

    /// How long batches took that this replica dated as a leader: from then until they were delivered here.
    pub(crate) const fn ordered(&self) -> &Durations {
        &self.timing.ordered
    }

    /// When the service's deadline passes by this replica's extension of agreed time, and the leader must order the time.
    pub(crate) fn tick_at(&self) -> Option<Time> {
        // In an idle cluster each start would lose the time since the last batch.
        let passes = self.timing.clock.reaches(self.awaited()?);
        // The batch before was not executed yet.
        let before = self.timing.ticked.filter(|(time, _)| self.agreed().time() < *time);
        Some(before.map_or(passes, |(_, since)| passes.max(since.plus(AGAIN))))
    }

    /// A batch with this time was proposed for a deadline.
    pub(crate) fn ticked(&mut self, now: Time, time: AgreedTime) {
        self.timing.ticked = Some((time, now));
    }

    /// The agreed time at which a leader must order the time: a deadline passes, or nothing was ordered for long.
    fn awaited(&self) -> Option<AgreedTime> {
        if self.is_behind() {
            return None; // the service may wait for a batch that is delivered and not executed
        }
        Some(self.executor().next_deadline()?.min(self.agreed().time().plus(EVERY)))
    }

    /// When a deadline has been past for so long that the leader is suspected. Without liars there is no such moment: a leader that lives
    /// orders the time. A replica that waited for ten seconds would no longer trust its own clock, and vote for any time.
    pub(crate) fn overdue_at(&self, now: Time) -> Option<Time> {
        if !self.may_lie {
            return None;
        }
        let over = |before| self.agreed().time() >= before || self.executor().next_deadline().is_none();
        match self.timing.overdue {
            Some(before) => over(before).then_some(now),
            None => self.awaited().map(|time| self.timing.clock.reaches(time).plus(GRACE)),
        }
    }

    /// The change, if any, of the deadline that the protocol must wait for as for a request of a client.
    pub(crate) fn overdue(&mut self) -> Option<OrderInput> {
        if let Some(before) = self.timing.overdue.take() {
            return Some(OrderInput::Unwatch(name_of(before)));
        }
        self.timing.overdue = self.awaited();
        self.timing.overdue.map(name_of).map(OrderInput::Watch)
    }
}
