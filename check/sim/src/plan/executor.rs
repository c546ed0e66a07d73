//! Which replicas run commands side by side, and how late their workers answer.

use super::{Fault, Kind, MS, Plan, Profile};
use crate::cells::Interleaved;
use crate::liars::ABOUT_RESULTS;
use crate::random::Rng;
use quorate_execute::{
    Ahead, AheadLimits, Cells, Execution, Executor, InOrder, Sequential, Speculative, Stopwatch,
};
use quorate_log::SyncMode;
use std::sync::Arc;

/// How most replicas execute commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExecutorKind {
    /// One after the other.
    #[default]
    Sequential,
    /// At the same time, with the effect of one after the other.
    Ordered,
    /// In waves that share their memory; results are verified.
    Speculative,
}

impl ExecutorKind {
    /// Its name as an option.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Ordered => "ordered",
            Self::Speculative => "speculative",
        }
    }
}

/// Commands run at the same time, with the effect of one after the other. Some replicas run them one after the other all the same, so their
/// states are compared with those of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SideBySide {
    /// How many workers a replica has.
    pub workers: usize,
    /// An answer comes after at most this many nanoseconds.
    pub wait: u64,
    /// In this many of 1000 cases it comes after at most `stall` nanoseconds.
    pub stalls: u64,
    /// The longest wait for such an answer, in nanoseconds.
    pub stall: u64,
    /// In this many of 1000 cases nobody runs them, and says so.
    pub gives_back: u64,
    /// Requests that take so long on average go to workers, in nanoseconds.
    pub at_least: u64,
    /// Limits of what runs before its turn.
    pub limits: AheadLimits,
    /// The longest time that a stopwatch shows, in nanoseconds.
    pub long: u64,
    /// Where commands of a wave share their memory: in this many of 1000 cases one reads before the others write.
    pub early: Option<u64>,
}

/// Replicas compare results before they are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verifying {
    /// In this many of 1000 batches commands race at a replica.
    pub races: u64,
    /// After so many rulings on which all replicas agreed, all have to. Never if 0.
    pub extra: u32,
    /// Leaders tell at once what is decided.
    pub tells_at_once: bool,
    /// At most replicas, batches run before they are decided.
    pub early: bool,
}

impl SideBySide {
    /// Whether a replica runs commands so.
    pub fn is_for(&self, who: usize) -> bool {
        who % 3 != 2
    }

    /// How its commands run.
    pub fn ahead(&self) -> Ahead {
        Ahead { workers: self.workers, long: self.at_least, limits: self.limits }
    }

    /// Executes so from a state on.
    pub fn execution(&self, executor: Executor, rng: Rng) -> Box<dyn Execution> {
        let (watch, chances) = (Box::new(self.watch(rng.clone())), rng);
        let execution = match self.early {
            None => {
                InOrder::new(executor, self.ahead(), watch).map(|inner| Box::new(inner) as Box<dyn Execution>)
            }
            Some(early) => {
                let cells = move || Arc::new(Interleaved::new(early, chances.clone())) as Arc<dyn Cells>;
                let made = Speculative::new(executor, self.ahead(), watch, Box::new(cells));
                made.map(|inner| Box::new(inner) as Box<dyn Execution>)
            }
        };
        execution.unwrap_or_else(|executor| Box::new(Sequential::new(*executor)))
    }

    /// Draws after how long workers answer, and whether they ran the commands.
    pub fn draw(&self, rng: &mut Rng) -> (u64, bool) {
        let most = if rng.chance(self.stalls) { self.stall } else { self.wait };
        (rng.range(0, most), !rng.chance(self.gives_back))
    }

    /// A stopwatch that shows whatever it likes.
    pub fn watch(&self, rng: Rng) -> Watch {
        Watch { rng, long: self.long, now: 0 }
    }
}

/// A stopwatch that shows whatever it likes: where commands run must not matter.
#[derive(Debug)]
pub struct Watch {
    rng: Rng,
    long: u64,
    now: u64,
}

impl Stopwatch for Watch {
    fn nanos(&mut self) -> u64 {
        self.now += self.rng.below(self.long);
        self.now
    }
}

/// Draws it; what only sequential execution does is left out.
pub(super) fn plan_executor(plan: &mut Plan, profile: &Profile, rng: &mut Rng) {
    let verify = profile.verify || profile.executor == ExecutorKind::Speculative;
    if profile.executor != ExecutorKind::Sequential || verify {
        plan.service.kind = Kind::InStore;
        (plan.service.watched, plan.service.hears, plan.service.side_by_side) = (false, true, true);
    }
    if verify {
        // A replica that goes back to a checkpoint needs the log behind it; without one at rest, only another leader has it. Where members come and go
        // there may be none.
        let may_race = plan.replicas == plan.founders || plan.log.sync != SyncMode::Memory;
        let races = rng.pick(&[0, 0, 10, 100, 400]);
        let extra = Rng::of(plan.seed, 9092).pick(&[0, 0, 1, 5, 30]);
        // Both of a pair have to agree anyway, and it only waits longer.
        let extra = if plan.fault_model.may_lie() || plan.replicas < 3 { 0 } else { extra };
        let tells_at_once = Rng::of(plan.seed, 9093).chance(500);
        let early = profile.executor != ExecutorKind::Speculative
            && !plan.fault_model.may_lie()
            && Rng::of(plan.seed, 9094).chance(500);
        let races = if may_race { races } else { 0 };
        plan.verified = Some(Verifying { races, extra, tells_at_once, early });
        for liar in &mut plan.liars {
            if rng.chance(700) {
                liar.tricks.push(rng.pick(&ABOUT_RESULTS));
            }
        }
    }
    if profile.executor == ExecutorKind::Sequential {
        return;
    }
    plan.faults.retain(|(_, fault)| !matches!(fault, Fault::Corrupt { .. }));
    plan.executor = Some(SideBySide {
        workers: rng.pick(&[1, 2, 16]),
        wait: rng.spread(MS / 100, 10 * MS),
        stalls: rng.pick(&[0, 10, 100]),
        stall: rng.spread(MS, 400 * MS),
        gives_back: rng.pick(&[0, 0, 20, 300]),
        at_least: rng.pick(&[0, 40_000]),
        limits: AheadLimits {
            planned: rng.pick(&[4, 100, 4096]),
            held_bytes: rng.pick(&[500, 1 << 20]),
            finals: rng.pick(&[2, 100]),
            items: rng.pick(&[3, 4096]),
            bytes: rng.pick(&[1000, 64 << 20]),
        },
        long: rng.pick(&[MS, MS, MS, MS / 10]),
        early: (profile.executor == ExecutorKind::Speculative).then(|| rng.pick(&[0, 100, 500])),
    });
}
