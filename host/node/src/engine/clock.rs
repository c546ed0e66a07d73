//! Agreed time as this replica extends it: what it would propose as the time of a batch, and what it expects of others.
//!
//! With one leader the lag of agreed time behind real time never shrinks. A replica extends the time of the last batch that it executed, from
//! the moment at which it executed that batch. Who leads extends its own proposals. A short time without a leader counts. A long one does not,
//! since nobody could renew anything meanwhile. Nor does what its last leader proposed before it noticed that it was alone, or the time for which
//! this replica's process was stopped.
//!
//! With several leaders a replica's extension is at most [`LEADERS_APART`] ahead of a batch when the replica executes it. Execution does the rest.
//! docs/protocols/merge.md, "Agreed time", has the rules and their arguments. Tests: clock/tests.rs, front/cli/tests/hurt/etcd_leases.rs.

use quorate_execute::LEADERS_APART;
use quorate_types::{AgreedTime, Span, Time, planted};

/// Where replicas may lie, what is executed slows the own extension down by such a part of the time that passed at most.
const SLOWER: u64 = 10;

/// An extension of agreed time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Agreed time was this
    agreed: AgreedTime,
    /// at this moment of the own clock.
    at: Time,
    /// It stands still until this moment, and while nobody was heard to lead in this life.
    stands: Time,
    /// Nobody is known to lead.
    gap: Option<Gap>,
    /// This replica leads, and has proposed as its leader.
    proposes: bool,
}

/// A time in which nobody is known to lead.
#[derive(Clone, Copy, Debug)]
struct Gap {
    since: Time,
    /// For how long nobody may have led when that was noticed.
    noticed: Span,
}

/// How a replica takes what it executes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    /// Others may lie: the time of their batches has to stay near the own extension.
    pub(crate) liars: bool,
    /// Several leaders propose.
    pub(crate) many: bool,
    /// A leader that is silent for so long is given up. A gap without one that is longer than twice that counts for nothing.
    pub(crate) patience: Span,
    /// An own extension that is off by more is wrong itself.
    pub(crate) off: Span,
}

impl Rule {
    /// A time without a leader that is longer counts for nothing.
    fn long(&self) -> Span {
        self.patience.times(2)
    }
}

impl Clock {
    /// A life begins: time goes on from what was executed in an earlier one. Nobody knows how long ago that was: it stands until somebody leads.
    pub(crate) fn new(agreed: AgreedTime, now: Time) -> Self {
        let gap = Gap { since: now, noticed: Span::ZERO };
        let stands = if planted("time-of-outages") { now } else { Time::MAX };
        Self { agreed, at: now, stands, gap: Some(gap), proposes: false }
    }

    /// What it is now. As long as nobody leads it stands where a leader was heard for the last time: whoever leads another instance by then
    /// must not count a gap that may become a long one.
    pub(crate) fn read(&self, now: Time) -> AgreedTime {
        let passed = match self.gap {
            Some(gap) if !planted("time-of-outages") => {
                now.min(gap.since).since(self.from()).minus(gap.noticed)
            }
            _ => now.since(self.from()),
        };
        self.agreed.plus(passed)
    }

    /// From when on time passes.
    fn from(&self) -> Time {
        self.at.max(self.stands)
    }

    /// When it will be that time.
    pub(crate) fn reaches(&self, time: AgreedTime) -> Time {
        self.from().plus(time.since(self.agreed))
    }

    /// Somebody leads again. What passed from the moment `since` until now does not count. The leader of before may have proposed alone until it noticed
    /// that it was alone, and this may be agreed on from now on. So time stands still for as long as that leader may have gone on.
    fn go_on(&mut self, since: Time, now: Time, rule: Rule) {
        let alone = if rule.liars || planted("time-of-the-lonely") { Span::ZERO } else { rule.long() };
        (self.agreed, self.at, self.stands) = (self.read(since), now, now.plus(alone));
    }

    /// Somebody is known to lead, or nobody any more. Whoever led before does not propose by its old extension.
    pub(crate) fn led(&mut self, now: Time, leader: bool, rule: Rule) {
        self.proposes = false;
        match (leader, self.gap) {
            (false, None) => self.gap = Some(Gap { since: now, noticed: rule.patience }),
            (true, Some(gap)) if !planted("time-of-outages") => {
                let gone = now.since(gap.since);
                if self.stands == Time::MAX || gone > rule.long() {
                    self.go_on(now, now, rule);
                } else if self.stands > gap.since {
                    // What is left of it follows.
                    self.stands = self.stands.plus(gone);
                }
                self.gap = None;
            }
            (true, Some(_)) => self.gap = None,
            _ => {}
        }
    }

    /// This replica wanted to act at the moment `since`, and acts only now: its process was stopped. If it led, nobody else may have led meanwhile, so a
    /// long time counts as one without a leader.
    pub(crate) fn woke(&mut self, since: Time, now: Time, rule: Rule) {
        if now.since(since) > rule.long() && self.gap.is_none() && !planted("time-of-pauses") {
            self.go_on(since, now, rule);
        }
    }

    /// This replica leads, knows all that was ordered before, and proposes: its extension is the cluster's from now on.
    pub(crate) fn propose(&mut self) {
        self.proposes = true;
    }

    /// A batch was executed, of this time.
    pub(crate) fn executed(&mut self, now: Time, executed: AgreedTime, rule: Rule) {
        let own = self.read(now);
        if executed >= own {
            (self.agreed, self.at) = (executed, now);
            return;
        }
        let behind = own.since(executed);
        if planted("time-leaps") {
            return;
        }
        if rule.liars && behind <= rule.off {
            // Who leads must not hold time back by saying so.
            let less = Span::from_nanos(behind.nanos().min(now.since(self.from()).nanos() / SLOWER));
            if !self.proposes {
                (self.agreed, self.at) = (AgreedTime::from_nanos(own.nanos() - less.nanos()), now);
            }
        } else if rule.many && !rule.liars {
            // Batches of other leaders come late.
            (self.agreed, self.at) = (own.min(executed.plus(LEADERS_APART)), now);
        } else if !self.proposes {
            (self.agreed, self.at) = (executed, now);
        }
    }
}

#[cfg(test)]
mod tests;
