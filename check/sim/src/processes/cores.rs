//! Cores: a process is busy as long as its work takes. A replica may get only part of a core: it has one for a while, then the machine's
//! other work has it.

use super::Processes;
use crate::timeline::Timeline;

impl Processes {
    /// From now on a process has this much work to do.
    pub fn works(&mut self, who: usize, work: u64, time: &Timeline) {
        let (mut at, mut left) = (self.has_core(who, time.now()), work);
        while let Some(rest) = self.core_left(who, at).filter(|rest| left > *rest) {
            left -= rest;
            at = self.has_core(who, at + rest);
        }
        self.list[who].busy = at + left;
    }

    /// When a process next has a core, from that time on.
    pub(super) fn has_core(&self, who: usize, at: u64) -> u64 {
        let Some((_, of)) = self.starved else { return at };
        let waits = self.core_left(who, at) == Some(0);
        if waits { at + of - self.in_round(who, at, of) } else { at }
    }

    /// How long a process that gets part of a core keeps it from that time on, if it has it then.
    fn core_left(&self, who: usize, at: u64) -> Option<u64> {
        let is_starved = who < self.replicas && !self.net.is_healed();
        let (runs, of) = self.starved.filter(|_| is_starved)?;
        Some(runs.saturating_sub(self.in_round(who, at, of)))
    }

    /// How long ago its period began; each process has its own phase.
    fn in_round(&self, who: usize, at: u64, of: u64) -> u64 {
        (at + of * who as u64 / self.replicas as u64) % of
    }
}
