//! Agreed time at this replica: what it would propose, and when the service's deadlines pass.
//!
//! When a deadline passes and nothing else is ordered, the leader orders an empty batch that carries the time. Execution decides whether the
//! deadline is reached: the batch's time may be that of another leader whose clock runs behind. While batches are under way they carry the
//! time themselves, so that a busy system orders nothing more for it. Tests: engine/tests.rs, `host/quorate/tests/all/deadlines.rs`.

use super::clock::{Clock, Rule};
use super::{Engine, EngineConfig};
use quorate_admit::AHEAD_MAX;
use quorate_order::Input as OrderInput;
use quorate_types::{AgreedTime, Digest, Random, Span, Time};
use quorate_wire::BatchHeader;

/// Without a batch for so long the time is ordered, as long as there is a deadline.
const EVERY: Span = Span::from_secs(5);
/// A batch that was not executed after so long is no reason to wait on: it may be lost.
const AGAIN: Span = Span::from_millis(200);
/// Clocks differ, and a leader may have taken its office a moment ago.
const GRACE: Span = Span::from_secs(1);

/// What is known of time beside what was executed.
#[derive(Debug)]
pub(super) struct Timing {
    clock: Clock,
    patience: Span,
    random: Random,
    /// The time of the last batch that was ordered for a deadline of the service, and when.
    ticked: Option<(AgreedTime, Time)>,
    /// The service's deadline that is past, while nobody orders that; its leader is complained about.
    overdue: Option<AgreedTime>,
}

impl Timing {
    pub(super) fn new(config: &EngineConfig) -> Self {
        Self {
            clock: Clock::new(config.start_time, Time::ZERO),
            patience: config.patience,
            random: Random::new(config.seed ^ 0x74_75_72_6e),
            ticked: None,
            overdue: None,
        }
    }

    pub(super) fn start(&mut self, agreed: AgreedTime, now: Time) {
        self.clock = Clock::new(agreed, now);
    }
}

/// Under which name a deadline is watched: no request has it, since theirs are hashes.
fn name_of(due: AgreedTime) -> Digest {
    let mut name = [0; 32];
    name[..8].copy_from_slice(&due.nanos().to_le_bytes());
    Digest::new(name)
}

impl Engine {
    /// How the time of batches is taken here.
    fn time_rule(&self) -> Rule {
        let (liars, many) = (self.may_lie, self.leads_many());
        Rule { liars, many, patience: self.timing.patience, off: AHEAD_MAX }
    }

    /// Agreed time, as this replica extends it.
    pub(crate) fn agreed_time(&self, now: Time) -> AgreedTime {
        self.timing.clock.read(now)
    }

    /// Somebody is known to lead the first instance, or nobody any more.
    pub(crate) fn led(&mut self, now: Time, leader: bool) {
        let rule = self.time_rule();
        self.timing.clock.led(now, leader, rule);
    }

    /// This replica wanted to act at the moment `since`, and acts only now: its process was stopped.
    pub(crate) fn woke(&mut self, since: Time, now: Time) {
        let rule = self.time_rule();
        self.timing.clock.woke(since, now, rule);
    }

    /// The header of a batch that is proposed now. `settled`: this replica knows all that was ordered before, so that it extends its own
    /// proposals.
    pub(crate) fn header(&mut self, now: Time, settled: bool) -> BatchHeader {
        if settled {
            self.timing.clock.propose();
        }
        let (time, seed) = (self.agreed_time(now), self.timing.random.next());
        let agreed = self.agreed();
        let base = agreed.takes_bases().then(|| agreed.time());
        BatchHeader { time, base, seed, ..BatchHeader::default() }
    }

    /// A batch was delivered, or a checkpoint: its time is agreed. Gives by how much it is ahead of this replica's own.
    pub(crate) fn learn_time(&mut self, now: Time) -> Option<Span> {
        let (own, executed) = (self.agreed_time(now), self.agreed().time());
        let rule = self.time_rule();
        self.timing.clock.executed(now, executed, rule);
        (executed > own).then(|| executed.since(own))
    }

    /// When the service's deadline passes by this replica's extension of the agreed time, and it is to say so.
    pub(crate) fn tick_at(&self) -> Option<Time> {
        // In an idle cluster each start would lose the time since the last batch.
        let passes = self.timing.clock.reaches(self.awaited()?);
        // The one before was not executed yet.
        let before = self.timing.ticked.filter(|(time, _)| self.agreed().time() < *time);
        Some(before.map_or(passes, |(_, since)| passes.max(since.plus(AGAIN))))
    }

    /// A batch that carries this time was proposed for a deadline.
    pub(crate) fn ticked(&mut self, now: Time, time: AgreedTime) {
        self.timing.ticked = Some((time, now));
    }

    /// When whoever leads should order the time, if nothing else tells it: a deadline passes, or long nothing was ordered.
    fn awaited(&self) -> Option<AgreedTime> {
        if self.is_behind() {
            return None; // what was delivered may be what the service waits for
        }
        Some(self.executor().next_deadline()?.min(self.agreed().time().plus(EVERY)))
    }

    /// When that has passed for so long that whoever leads has to be asked why. Where nobody lies a leader that lives orders it. Who waited for ten
    /// seconds would not trust its own clock any more, and vote for any time.
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

    /// A deadline that nobody orders is waited for like a request of a client: what changes about that now.
    pub(crate) fn overdue(&mut self) -> Option<OrderInput> {
        if let Some(before) = self.timing.overdue.take() {
            return Some(OrderInput::Unwatch(name_of(before)));
        }
        self.timing.overdue = self.awaited();
        self.timing.overdue.map(name_of).map(OrderInput::Watch)
    }
}
