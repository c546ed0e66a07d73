//! Cores: a process is busy as long as its work takes. A replica may get only part of a core: it has one for a while, then the machine's
//! other work has it.

use super::Processes;
use crate::plan::Plan;
use crate::timeline::Timeline;
use crate::work::{Core, SLICE, Work};
use quorate_wire::{Frame, FrameKind, Requests};

/// The cores of all lanes of each replica, if work costs time. Their periods begin at different times.
pub(super) fn cores(plan: &Plan) -> Vec<Vec<Core>> {
    let Some(Work { quota, .. }) = plan.work else { return Vec::new() };
    let all = u64::from(plan.lanes) * plan.replicas as u64;
    let mut phases = (0..all).map(|number| number * quota.1 / all);
    let mut core = || Core::new(quota, phases.next().unwrap_or(0));
    (0..plan.replicas).map(|_| (0..plan.lanes).map(|_| core()).collect()).collect()
}

/// Where work costs time.
impl Processes {
    /// Whether the lanes of this process have cores, so that work costs time.
    pub(super) fn has_cores(&self, who: usize) -> bool {
        who < self.cores.len()
    }

    /// A lane of a process does something that costs this.
    pub fn pay(&mut self, who: usize, lane: u16, now: u64, price: impl Fn(&Work) -> f64) {
        let core = self.cores.get_mut(who).and_then(|lanes| lanes.get_mut(usize::from(lane)));
        if let (Some(core), Some(work)) = (core, &self.work) {
            core.work(now, price(work) as u64);
        }
    }

    /// A lane of a process reads a frame.
    pub fn pay_for(&mut self, who: usize, lane: u16, frame: &Frame, now: u64) {
        self.pay(who, lane, now, |work| match frame.kind {
            FrameKind::Requests => work.prices.call * Requests::new(&frame.payload).count() as f64,
            _ => work.message(frame.payload.len()),
        });
    }

    /// Until when a lane of a process works.
    pub(super) fn works_until(&self, who: usize, lane: u16) -> u64 {
        let core = self.cores.get(who).and_then(|lanes| lanes.get(usize::from(lane)));
        core.map_or(0, Core::busy)
    }

    /// Whether a lane has worked for so long in this turn that it reads no further.
    pub fn has_read_enough(&self, who: usize, lane: u16, now: u64) -> bool {
        self.works_until(who, lane) > now + SLICE
    }

    /// A replica has executed so many slots. Returns how many are new.
    pub fn merged(&mut self, who: usize, slots: u64) -> u64 {
        slots.saturating_sub(std::mem::replace(&mut self.list[who].merged, slots))
    }

    /// How long each lane of each replica worked, in nanoseconds.
    pub fn worked(&self) -> Vec<Vec<u64>> {
        self.cores.iter().map(|lanes| lanes.iter().map(Core::worked).collect()).collect()
    }
}

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
