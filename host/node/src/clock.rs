//! Agreed time as this replica extends it: what it would propose as the time of a batch, and what it expects of others.
//!
//! With one leader the lag of agreed time behind real time never shrinks. A replica extends the time of the last batch that it executed, from
//! the moment at which it executed that batch. Who leads extends its own proposals. A short time without a leader counts. A long one does not,
//! since nobody could renew anything meanwhile; nor does what its last leader proposed before it noticed that it was alone.
//!
//! With several leaders a replica's extension is at most [`LEADERS_APART`] ahead of a batch when the replica executes it. Execution does the rest.
//! docs/protocols/merge.md, "Agreed time", has the rules and their arguments. Tests: clock/tests.rs, front/cli/tests/etcd_leases.rs.

use quorate_execute::LEADERS_APART;
use quorate_types::{AgreedTime, Span, Time, planted};

/// Where replicas may lie, what is executed slows the own extension down by such a part of the time that passed at most.
const SLOWER: u64 = 10;

/// An extension of agreed time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Agreed time was this
    agreed: AgreedTime,
    /// at this moment of the own clock. It may be one to come: until then agreed time stands still.
    at: Time,
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

impl Clock {
    /// A life begins: time goes on from what was executed in an earlier one. Nobody knows how long ago that was: it stands until somebody leads.
    pub(crate) fn new(agreed: AgreedTime, now: Time) -> Self {
        let gap = Gap { since: now, noticed: Span::ZERO };
        let at = if planted("time-of-outages") { now } else { Time::MAX };
        Self { agreed, at, gap: Some(gap), proposes: false }
    }

    /// What it is now. As long as nobody leads it stands where a leader was heard for the last time: whoever leads another instance by then
    /// must not count a gap that may become a long one.
    pub(crate) fn read(&self, now: Time) -> AgreedTime {
        let passed = match self.gap {
            Some(gap) if !planted("time-of-outages") => now.min(gap.since).since(self.at).minus(gap.noticed),
            _ => now.since(self.at),
        };
        self.agreed.plus(passed)
    }

    /// When it will be that time.
    pub(crate) fn reaches(&self, time: AgreedTime) -> Time {
        self.at.plus(time.since(self.agreed))
    }

    /// Who leads is known, or not any more; `own`: it is this replica, which does not lead from before.
    pub(crate) fn led(&mut self, now: Time, leader: bool, rule: Rule) {
        self.proposes = false;
        let long = rule.patience.times(2);
        match (leader, self.gap) {
            (false, None) => self.gap = Some(Gap { since: now, noticed: rule.patience }),
            (true, Some(gap)) => {
                let stood = self.at > gap.since;
                if (stood || now.since(gap.since) > long) && !planted("time-of-outages") {
                    // Its last leader may have proposed alone until it noticed that it was, and that may be agreed on from now on.
                    let alone = if rule.liars || planted("time-of-the-lonely") { Span::ZERO } else { long };
                    (self.agreed, self.at) = (self.read(now), now.plus(alone));
                }
                self.gap = None;
            }
            _ => {}
        }
    }

    /// This replica leads, knows all that was ordered before, and proposes: its extension is the cluster's from now on.
    pub(crate) fn propose(&mut self) {
        self.proposes = true;
    }

    /// A batch was executed, of this time.
    pub(crate) fn executed(&mut self, now: Time, executed: AgreedTime, rule: Rule) {
        let (own, still) = (self.read(now), now.max(self.at));
        if executed >= own {
            (self.agreed, self.at) = (executed, still);
            return;
        }
        let behind = own.since(executed);
        if planted("time-leaps") {
            return;
        }
        if rule.liars && behind <= rule.off {
            // Who leads must not hold time back by saying so.
            let less = Span::from_nanos(behind.nanos().min(now.since(self.at).nanos() / SLOWER));
            if !self.proposes {
                (self.agreed, self.at) = (AgreedTime::from_nanos(own.nanos() - less.nanos()), now);
            }
        } else if rule.many && !rule.liars {
            // Batches of other leaders come late.
            (self.agreed, self.at) = (own.min(executed.plus(LEADERS_APART)), still);
        } else if !self.proposes {
            (self.agreed, self.at) = (executed, still);
        }
    }
}

#[cfg(test)]
mod tests;
