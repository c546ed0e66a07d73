//! INV-SIM-TIME: agreed time is a clock.
//!
//! It never catches up: what a client called at the moment c was executed at the agreed time t. Whatever is executed later, at the moment e, is
//! executed at t + (e - c) or earlier. So a lease that was renewed by that call lasts as long as it should, by whatever replica's clock.
//! And once faults are over it does not fall back by more than a bound.
//!
//! Clocks may be wrong, and that is their fault: the highest rate and each jump ahead that the plan has are added. With several instances
//! leaders are apart by a bound, and what ends at a time ends by so much later.
//! Where replicas may lie, time goes up to twice as fast, and ten seconds ahead beside, once for each start of a replica, which forgets how
//! far it was pushed. docs/protocols/merge.md, "Agreed time".
//! A time in which most replicas are down counts for nothing, if it is long: nobody could renew a lease. What the last leader proposed alone may show in
//! agreed time for a moment afterwards, and not for longer.
//! Only differences count: a cluster from a backup begins with that one's time.

use super::Failure;
use quorate_execute::LEADERS_APART;

const SECOND: i128 = 1_000_000_000;
const MILLION: i128 = 1_000_000;
/// What the instants of one turn differ by.
const TURN: i128 = SECOND / 1000;
/// With several instances leaders are apart by so much.
const APART: i128 = LEADERS_APART.nanos() as i128;
/// For so long after a replica whose clock jumped executed something, batches that it proposed before that may be on their way.
const ON_THE_WAY: u64 = 5_000_000_000;
/// How far a liar pushes, or holds back.
const LIARS: i128 = 10 * SECOND;
/// Agreed time falls back by no more once faults are over: nobody need be without a leader for longer.
const LAG_MAX: i128 = super::answers::SILENCE_MAX as i128;

/// What may be wrong with time in a run.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How many parts per million clocks run too fast or too slow, at most.
    pub drift: u64,
    /// Replicas may lie.
    pub liars: bool,
    /// Several leaders propose.
    pub many: bool,
    /// A time in which most replicas are down does not count if it is longer than this, in nanoseconds; nothing where members change.
    pub outage: Option<u64>,
}

/// A clock is ahead for no reason.
#[derive(Clone, Copy, Debug)]
struct Leap {
    by: i128,
    /// Agreed time may show it from this moment on,
    from: u64,
    /// and does from this one on, if it ever does.
    until: u64,
    /// Whose clock, as long as that replica executed nothing since: what it proposes next shows it.
    who: Option<usize>,
}

/// Times in which too few replicas ran to agree on anything.
#[derive(Debug, Default)]
struct Outages {
    /// Too few run since this moment.
    since: Option<u64>,
    /// Long ones that are over: from when to when.
    over: Vec<(u64, u64)>,
    /// When something was executed first after the last one; none as long as nothing was.
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

    /// How much of the time until that moment does not count.
    fn lost(&self, at: u64) -> u64 {
        self.over.iter().map(|(begin, end)| at.min(*end).saturating_sub(*begin)).sum()
    }

    /// Something is executed: whether what was proposed in the last outage may still show.
    fn shows(&mut self, now: u64, long: u64) -> bool {
        !self.over.is_empty() && now - *self.resumed.get_or_insert(now) < long
    }
}

/// Agreed time as it was executed.
#[derive(Debug)]
pub struct Times {
    bounds: Bounds,
    leaps: Vec<Leap>,
    /// The least difference between agreed time and what the fastest clock showed when a client called.
    least: Option<i128>,
    /// The largest one between agreed time and the slowest clock, since faults are over.
    most: Option<i128>,
    outages: Outages,
    moments: Vec<(u64, u64)>,
}

impl Times {
    /// Nothing was executed yet.
    pub fn new(bounds: Bounds) -> Self {
        let (leaps, outages, moments) = (Vec::new(), Outages::default(), Vec::new());
        Self { bounds, leaps, least: None, most: None, outages, moments }
    }

    /// From now on enough replicas run to agree on something, or too few.
    pub fn runs(&mut self, now: u64, enough: bool) {
        if let Some(long) = self.bounds.outage {
            self.outages.runs(now, enough, long);
        }
    }

    /// A replica's clock jumps ahead.
    pub fn jumps(&mut self, now: u64, who: usize, by: u64) {
        self.leaps.push(Leap { by: by.into(), from: now, until: u64::MAX, who: Some(who) });
    }

    /// A replica executed something: it goes on from that.
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

    /// When each batch was executed first, and its time.
    pub fn moments(&self) -> &[(u64, u64)] {
        &self.moments
    }

    /// What the fastest clock shows, with the leaps that these have before that moment.
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

    /// What a client called at the moment `call` was executed first just now, at this agreed time. `healed`: faults are over.
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
