//! Agreed time as this replica extends it: the time that it would propose for a batch, and the time that it expects of others.
//!
//! With one leader the lag of agreed time behind real time never shrinks. A replica extends the time of the last batch that it executed,
//! from the moment at which it executed that batch. A leader extends its own proposals.
//!
//! A short time without a leader counts; a long one does not, since no client could renew anything meanwhile. Two more times do not count:
//! the time for which the last leader may have proposed before it noticed that it was alone, and the time for which this replica's process
//! was stopped.
//!
//! With several leaders a replica's extension is at most [`LEADERS_APART`] ahead of a batch when the replica executes it. Execution does
//! the rest. docs/protocols/merge.md, "Agreed time", has the rules and their arguments. Tests: clock/tests.rs,
//! front/cli/tests/hurt/etcd_leases.rs.

use quorate_execute::LEADERS_APART;
use quorate_types::{AgreedTime, Span, Time, planted};

/// Where replicas may lie, an executed batch may slow this replica's extension by at most the passed time divided by this.
const SLOWER: u64 = 10;

/// An extension of agreed time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    /// The agreed time
    agreed: AgreedTime,
    /// at this moment of this replica's clock.
    at: Time,
    /// The extension stands still until this moment. It is the end of time until the first leader of this life is heard.
    stands: Time,
    /// The present time without a known leader, if there is one.
    gap: Option<Gap>,
    /// Whether this replica leads and has proposed as the leader.
    proposes: bool,
}

/// A time without a known leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gap {
    since: Time,
    /// How long there may have been no leader before that was noticed.
    noticed: Span,
}

/// How a replica takes the times of executed batches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    /// Whether leaders may lie: the time of their batches must stay near this replica's extension.
    pub(crate) liars: bool,
    /// Whether several leaders propose.
    pub(crate) many: bool,
    /// After this silence a leader is given up. A time without a leader that is more than twice as long does not count.
    pub(crate) patience: Span,
    /// If this replica's extension is further off than this, the extension is wrong itself.
    pub(crate) off: Span,
}

impl Rule {
    /// A time without a leader that is longer than this does not count.
    fn long(&self) -> Span {
        self.patience.times(2)
    }
}

impl Clock {
    /// Begins a life: time goes on from what an earlier life executed. It is unknown how long ago that was, so time stands still until a
    /// replica leads.
    pub(crate) fn new(agreed: AgreedTime, now: Time) -> Self {
        let gap = Gap { since: now, noticed: Span::ZERO };
        let stands = if planted("time-of-outages") { now } else { Time::MAX };
        Self { agreed, at: now, stands, gap: Some(gap), proposes: false }
    }

    /// The extension now. While no replica is known to lead, it stands at the moment at which a leader was last heard: a leader of another
    /// instance must not count a time that may become a long one.
    pub(crate) fn read(&self, now: Time) -> AgreedTime {
        let passed = match self.gap {
            Some(gap) if !planted("time-of-outages") => {
                now.min(gap.since).since(self.from()).minus(gap.noticed)
            }
            _ => now.since(self.from()),
        };
        self.agreed.plus(passed)
    }

    /// The moment from which time passes.
    fn from(&self) -> Time {
        self.at.max(self.stands)
    }

    /// The moment at which the extension reaches this time.
    pub(crate) fn reaches(&self, time: AgreedTime) -> Time {
        self.from().plus(time.since(self.agreed))
    }

    /// Goes on after a time that does not count: from the moment `since` until now. The leader before may have proposed until it noticed
    /// that it was alone, and these proposals may be decided from now on. So time stands still for as long as that leader may have gone on.
    fn go_on(&mut self, since: Time, now: Time, rule: Rule) {
        let alone = if rule.liars || planted("time-of-the-lonely") { Span::ZERO } else { rule.long() };
        (self.agreed, self.at, self.stands) = (self.read(since), now, now.plus(alone));
    }

    /// A leader is known, or none any more. A leader of before does not propose by its old extension.
    pub(crate) fn led(&mut self, now: Time, leader: bool, rule: Rule) {
        self.proposes = false;
        match (leader, self.gap) {
            (false, None) => self.gap = Some(Gap { since: now, noticed: rule.patience }),
            (true, Some(gap)) if !planted("time-of-outages") => {
                let gone = now.since(gap.since);
                if self.stands == Time::MAX || gone > rule.long() {
                    self.go_on(now, now, rule);
                } else if self.stands > gap.since {
                    // The rest of the standstill follows the gap.
                    self.stands = self.stands.plus(gone);
                }
                self.gap = None;
            }
            (true, Some(_)) => self.gap = None,
            _ => {}
        }
    }

    /// This replica leads, and from now on hears no quorum, or hears one again. It goes on proposing meanwhile, by what it reads in this
    /// time, and these proposals are decided once it hears a quorum. So this time never counts, however short it is.
    pub(crate) fn alone(&mut self, now: Time, alone: bool, rule: Rule) {
        if !alone && self.gap.is_some() {
            (self.agreed, self.at) = (self.read(now), now);
        }
        self.led(now, !alone, rule);
    }

    /// This replica wanted to act at the moment `since` and acts only now, because its process was stopped. If it led, there may have been
    /// no other leader meanwhile, so a long stop counts as a time without a leader.
    pub(crate) fn woke(&mut self, since: Time, now: Time, rule: Rule) {
        if now.since(since) > rule.long() && self.gap.is_none() && !planted("time-of-pauses") {
            self.go_on(since, now, rule);
        }
    }

    /// This replica leads, knows everything that was ordered before, and proposes: its extension is the cluster's from now on.
    pub(crate) fn propose(&mut self) {
        self.proposes = true;
    }

    /// Whether this replica's extension is the cluster's.
    pub(crate) fn proposes(&self) -> bool {
        self.proposes
    }

    /// Takes the time of an executed batch.
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
            // A lying leader must not hold time back.
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
