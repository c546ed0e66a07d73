//! INV-SIM-TIME: agreed time is a clock.
//!
//! It never catches up: if a client called something at the moment c, and it was executed at the agreed time t, then whatever is executed
//! later, at the moment e, is executed at t + (e - c) or earlier. So a lease that the call renewed lasts as long as it should, by whatever
//! replica's clock. And once faults are over, agreed time falls back by at most a bound.
//!
//! Clocks may be wrong, which is not the cluster's fault: the highest rate and each jump ahead in the plan are allowed for. With several
//! instances leaders differ by a bound, and what ends at a time ends later by that. Where replicas may lie, time runs up to twice as fast,
//! and ten seconds ahead on top, once for each start of a replica, which forgets how far it was pushed. docs/protocols/merge.md, "Agreed
//! time". A long time in which most replicas are down does not count, since no client could renew a lease in it. What the last leader
//! proposed alone may show in agreed time for a moment afterwards, and not for longer. Only differences count: a cluster made from a backup
//! begins with the time of that.

use super::Failure;
use quorate_execute::LEADERS_APART;

const SECOND: i128 = 1_000_000_000;
const MILLION: i128 = 1_000_000;
/// The instants of one turn differ by at most this.
const TURN: i128 = SECOND / 1000;
/// With several instances leaders differ by at most this.
const APART: i128 = LEADERS_APART.nanos() as i128;
/// For this long after a replica whose clock jumped executed something, earlier proposals of it may be on their way.
const ON_THE_WAY: u64 = 5_000_000_000;
/// How far a liar can push time ahead, or hold it back.
const LIARS: i128 = 10 * SECOND;
/// Agreed time falls back by at most this once faults are over, since the cluster has a leader again by then.
const LAG_MAX: i128 = super::answers::SILENCE_MAX as i128;

/// The deviations of time that a run allows.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Clocks run too fast or too slow by at most this many parts per million.
    pub drift: u64,
    /// Replicas may lie.
    pub liars: bool,
    /// Several leaders propose.
    pub many: bool,
    /// A time in which most replicas are down does not count if it is longer than this, in nanoseconds; none where members change.
    pub outage: Option<u64>,
}

/// A jump ahead of a clock.
#[derive(Clone, Copy, Debug)]
struct Leap {
    by: i128,
    /// Agreed time may show it from this moment on.
    from: u64,
    /// If agreed time ever shows it, it does from this moment on.
    until: u64,
    /// The replica of the clock, as long as it executed nothing since: its next proposal shows the jump.
    who: Option<usize>,
}

/// Times in which too few replicas ran to decide anything.
#[derive(Debug, Default)]
struct Outages {
    /// Since when too few run.
    since: Option<u64>,
    /// Long ones that are over: beginning and end.
    over: Vec<(u64, u64)>,
    /// When something was first executed after the last one; none as long as nothing was.
    resumed: Option<u64>,
}

impl Outages {
    fn runs(&mut self, now: u64, enough: bool, long: u64) {
        match (self.since, enough) {
            (None, false) => self.since = Some(now),
            (Some(since), true) => {
                self.since = None;
                if now - since > long {
                    self.over.push((since, now));
                    self.resumed = None;
                }
            }
            _ => {}
        }
    }

    /// A machine is suspended, and its clock stands still. A stop of before that is short for that clock counts.
    fn suspends(&mut self, now: u64, long: u64) {
        self.since = self.since.map(|since| if now - since > long { since } else { now });
    }

    /// How much of the time until this moment does not count.
    fn lost(&self, at: u64) -> u64 {
        self.over.iter().map(|(begin, end)| at.min(*end).saturating_sub(*begin)).sum()
    }

    /// Something is executed now. Returns whether it may have been proposed in the last outage.
    fn shows(&mut self, now: u64, long: u64) -> bool {
        !self.over.is_empty() && now - *self.resumed.get_or_insert(now) < long
    }
}

/// Agreed time, as batches were executed.
#[derive(Debug)]
pub struct Times {
    bounds: Bounds,
    leaps: Vec<Leap>,
    /// The smallest difference between agreed time and the fastest clock at the moment of the call.
    least: Option<i128>,
    /// The largest difference between agreed time and the slowest clock, since faults are over.
    most: Option<i128>,
    outages: Outages,
    moments: Vec<(u64, u64)>,
}

impl Times {
    /// With nothing executed.
    pub fn new(bounds: Bounds) -> Self {
        let (leaps, outages, moments) = (Vec::new(), Outages::default(), Vec::new());
        Self { bounds, leaps, least: None, most: None, outages, moments }
    }

    /// From now on enough replicas run to decide something, or too few.
    pub fn runs(&mut self, now: u64, enough: bool) {
        if let Some(long) = self.bounds.outage {
            self.outages.runs(now, enough, long);
        }
    }

    /// A machine is suspended.
    pub fn suspends(&mut self, now: u64) {
        if let Some(long) = self.bounds.outage {
            self.outages.suspends(now, long);
        }
    }

    /// A replica's clock jumps ahead.
    pub fn jumps(&mut self, now: u64, who: usize, by: u64) {
        self.leaps.push(Leap { by: by.into(), from: now, until: u64::MAX, who: Some(who) });
    }

    /// A replica executed something, from which it extends agreed time.
    pub fn goes_on(&mut self, now: u64, who: usize) {
        for leap in self.leaps.iter_mut().filter(|leap| leap.who == Some(who)) {
            (leap.until, leap.who) = (now + ON_THE_WAY, None);
        }
    }

    /// A replica starts.
    pub fn starts(&mut self, now: u64) {
        if self.bounds.liars {
            self.leaps.push(Leap { by: LIARS, from: now, until: now, who: None });
        }
    }

    /// When each batch was first executed, and its agreed time.
    pub fn moments(&self) -> &[(u64, u64)] {
        &self.moments
    }

    /// What the fastest clock shows, with the leaps that count by that moment.
    fn fastest(&self, at: u64, when: impl Fn(&Leap) -> u64) -> i128 {
        let ahead: i128 = self.leaps.iter().filter(|leap| when(leap) < at).map(|leap| leap.by).sum();
        let rate = if self.bounds.liars { 2 * MILLION } else { MILLION } + i128::from(self.bounds.drift);
        i128::from(at - self.outages.lost(at)) * rate / MILLION + ahead
    }

    /// What the slowest clock shows.
    fn slowest(&self, at: u64) -> i128 {
        let liars = if self.bounds.liars { MILLION / 10 } else { 0 };
        i128::from(at) * (MILLION - i128::from(self.bounds.drift) - liars) / MILLION
    }

    /// What a client called at the moment `call` was first executed just now, at this agreed time. `healed`: faults are over.
    ///
    /// # Errors
    /// When agreed time caught up, or fell back too far.
    pub fn executed(&mut self, (now, healed): (u64, bool), call: u64, time: u64) -> Result<(), Failure> {
        let agreed = i128::from(time);
        self.moments.push((now, time));
        let slack =
            TURN + if self.bounds.many { APART } else { 0 } + if self.bounds.liars { 2 * LIARS } else { 0 };
        let over = self.least.map_or(0, |least| agreed - self.fastest(now, |leap| leap.from) - least);
        let of_call = agreed - self.fastest(call, |leap| leap.until);
        self.least = Some(self.least.map_or(of_call, |least| least.min(of_call)));
        let shows = self.outages.shows(now, self.bounds.outage.unwrap_or(0));
        if over > slack && !shows {
            return Err(found("caught up by", over));
        }
        if !healed {
            return Ok(());
        }
        let lag = self.most.map_or(0, |most| most - (agreed - self.slowest(call)));
        let own = agreed - self.slowest(now);
        self.most = Some(self.most.map_or(own, |most| most.max(own)));
        let bound = LAG_MAX + TURN + if self.bounds.liars { 2 * LIARS } else { 0 };
        if lag > bound { Err(found("fell back by", lag)) } else { Ok(()) }
    }
}

fn found(what: &str, by: i128) -> Failure {
    Failure::new("time", format!("agreed time {what} {:.3} s", by as f64 / SECOND as f64))
}
