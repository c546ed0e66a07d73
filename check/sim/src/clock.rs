//! A process's own clock: it starts anywhere, runs too fast or too slow, jumps ahead, or stands still. As a monotonic clock it never goes
//! back.

use quorate_types::Time;

const MILLION: i128 = 1_000_000;

/// The relation between virtual time and a process's own time.
#[derive(Clone, Debug)]
pub struct Clock {
    local: u64,
    since: u64,
    /// Parts per million too fast, or too slow when negative.
    drift: i64,
    /// How many faults keep it stopped.
    stopped: u32,
}

impl Clock {
    /// A clock that shows `local` at virtual time `now`.
    pub fn new(local: u64, now: u64, drift: i64) -> Self {
        Self { local, since: now, drift, stopped: 0 }
    }

    /// The time that it shows.
    pub fn read(&self, now: u64) -> Time {
        if self.stopped > 0 {
            return Time::from_nanos(self.local);
        }
        let real = i128::from(now - self.since) * (MILLION + i128::from(self.drift)) / MILLION;
        Time::from_nanos(self.local + real as u64)
    }

    /// The virtual time at which it will show `time`, or now if it already does.
    pub fn when(&self, now: u64, time: Time) -> u64 {
        let Some(wait) = time.nanos().checked_sub(self.local) else { return now };
        if wait > u64::MAX / 4 || self.stopped > 0 {
            return u64::MAX / 2;
        }
        let rate = MILLION + i128::from(self.drift);
        let real = (i128::from(wait) * MILLION + rate - 1) / rate;
        now.max(self.since + real as u64)
    }

    /// Jumps ahead.
    pub fn jump(&mut self, now: u64, by: u64) {
        self.local = self.read(now).nanos() + by;
        self.since = now;
    }

    /// Stands still: its machine is suspended.
    pub fn stop(&mut self, now: u64) {
        self.local = self.read(now).nanos();
        self.stopped += 1;
    }

    /// Continues from where it stood, unless another fault keeps it stopped.
    pub fn go(&mut self, now: u64) {
        self.local = self.read(now).nanos();
        self.since = now;
        self.stopped = self.stopped.saturating_sub(1);
    }

    /// Continues, whatever kept it stopped.
    pub fn go_at_last(&mut self, now: u64) {
        self.go(now);
        self.stopped = 0;
    }

    /// Runs at another rate from now on.
    pub fn set_drift(&mut self, now: u64, drift: i64) {
        self.local = self.read(now).nanos();
        self.since = now;
        self.drift = drift;
    }
}
