//! Cores: a process is busy as long as what it does takes, and a replica may get little of a core: it has one for a while, then the machine's
//! other work has it.

use super::Processes;
use crate::timeline::Timeline;

impl Processes {
    /// From now on a process has so much to do.
    pub fn works(&mut self, who: usize, work: u64, time: &Timeline) {
        let (mut at, mut left) = (self.has_core(who, time.now()), work);
        while let Some(rest) = self.core_left(who, at).filter(|rest| left > *rest) {
            left -= rest;
            at = self.has_core(who, at + rest);
        }
        self.list[who].busy = at + left;
    }

    /// When a process has a core from that time on.
    pub(super) fn has_core(&self, who: usize, at: u64) -> u64 {
        let Some((_, of)) = self.starved else { return at };
        let waits = self.core_left(who, at) == Some(0);
        if waits { at + of - self.in_round(who, at, of) } else { at }
    }

    /// For how long a process that gets little of a core has it from that time on, if it has it then.
    fn core_left(&self, who: usize, at: u64) -> Option<u64> {
        let is_starved = who < self.replicas && !self.net.is_healed();
        let (runs, of) = self.starved.filter(|_| is_starved)?;
        Some(runs.saturating_sub(self.in_round(who, at, of)))
    }

    /// How long ago its turn at the core began; each has its own.
    fn in_round(&self, who: usize, at: u64, of: u64) -> u64 {
        (at + of * who as u64 / self.replicas as u64) % of
    }
}
