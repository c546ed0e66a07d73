//! What was done to the cluster and when, and the judgement of leases by it.

use crate::etcd_leases::keepers::Told;
use std::time::{Duration, Instant};

/// A lease that nobody renews any more may live on for so long after its time.
const LATE_MAX: Duration = Duration::from_secs(3);
/// And for so long more with each fault meanwhile: without a leader time may stand still.
const LATE_EACH: Duration = Duration::from_secs(4);

/// What the last leader ordered alone, until it noticed that all others were down, may end a lease right after an outage: an election time-out and a heartbeat.
const ALONE: Duration = Duration::from_millis(700);

#[derive(Default)]
pub(crate) struct Timeline {
    faults: Vec<Instant>,
    /// Without a majority; the last one may go on.
    outages: Vec<(Instant, Option<Instant>)>,
}

impl Timeline {
    pub(crate) fn disturbed(&mut self) {
        self.faults.push(Instant::now());
    }

    pub(crate) fn goes_down(&mut self) {
        self.outages.push((Instant::now(), None));
    }

    pub(crate) fn comes_up(&mut self) {
        if let Some((_, end)) = self.outages.last_mut() {
            *end = Some(Instant::now());
        }
    }

    /// The time from one moment to another one, but for outages.
    fn passed(&self, from: Instant, to: Instant) -> Duration {
        let lost = self.outages.iter().map(|(begin, end)| {
            let end = end.unwrap_or(to).min(to);
            end.saturating_duration_since((*begin).max(from))
        });
        to.saturating_duration_since(from).saturating_sub(lost.sum())
    }

    /// Whether an outage began between these moments.
    fn is_within(&self, from: Instant, to: Instant) -> bool {
        self.outages.iter().any(|(begin, _)| (from..to).contains(begin))
    }

    /// What is wrong with the life of a lease.
    pub(crate) fn judge(&self, told: &Told) -> Option<String> {
        let ttl = Duration::from_secs(told.ttl_s as u64);
        let name = format!("lease {:x} of {} s", told.id, told.ttl_s);
        if let Some(gone) = told.gone {
            let lived = self.passed(told.called, gone);
            let alone = if self.is_within(told.called, gone) { ALONE } else { Duration::ZERO };
            if lived + alone < ttl {
                return Some(format!("{name} ended {lived:?} after its last renewal was called"));
            }
        }
        let seen = told.seen?;
        let lived = self.passed(told.tried, seen);
        let faults =
            self.faults.iter().filter(|at| **at + Duration::from_secs(3) >= told.tried && **at <= seen);
        let most = ttl + LATE_MAX + LATE_EACH * faults.count() as u32;
        (lived > most).then(|| format!("{name} was there {lived:?} after its last renewal; at most {most:?}"))
    }
}
