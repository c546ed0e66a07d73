//! `[execution]`: how delivered commands are executed. Each replica chooses for itself where they run, since the result is the same; whether
//! results are verified, and whether they may differ, is the same on all replicas. Tests: config/tests.rs.

use super::{ConfigError, invalid, range};
use crate::cells::Locked;
use crate::config::lanes::{Auto, cores_here};
use crate::workers::Watch;
use quorate_execute::{
    Ahead, AheadLimits, Execution, Executor, InOrder, Sequential, Service, Speculative, Verified,
};
use serde::{Deserialize, Serialize};

/// More threads than this only cost memory.
const WORKERS_MAX: u16 = 1024;

/// Handing a request over costs some ten microseconds.
const LONG_US: u32 = 40;
/// Requests that take longer on average always go.
const LONG_US_MAX: u32 = 1_000_000;
const EXTRA_MAX: u32 = 1_000_000;

/// How commands run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecutorKind {
    /// One after the other, on the main lane.
    #[default]
    Sequential,
    /// At the same time, on workers, with the effect of one after the other.
    Ordered,
    /// In waves of commands that name different keys, on workers and in one memory. Results are verified.
    Speculative,
}

/// How many threads run commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "workers is a number from 1, or \"auto\"")]
pub enum ExecutorCount {
    /// This many.
    Count(u16),
    /// One for each core.
    Auto(Auto),
}

impl Default for ExecutorCount {
    fn default() -> Self {
        Self::Auto(Auto::Auto)
    }
}

/// `[execution]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExecutionConfig {
    /// How commands run.
    pub executor: ExecutorKind,
    /// How many threads run them, if they run at the same time.
    pub workers: ExecutorCount,
    /// Requests that take this many microseconds on average go to workers, and stay there while they take half of it; with 0 all go.
    pub long_us: u32,
    /// Replicas compare what commands did before a client sees it.
    pub verify: bool,
    /// Where results are verified, members only crash and results come again: batches run before they are decided, while there is one instance.
    pub early: bool,
    /// After so many results in a row on which all replicas agreed in time, all of them have to. Never if 0.
    pub extra_protection: u32,
}

impl Default for ExecutionConfig {
    fn default() -> Self {
        Self {
            executor: ExecutorKind::default(),
            workers: ExecutorCount::default(),
            long_us: LONG_US,
            verify: false,
            early: true,
            extra_protection: 0,
        }
    }
}

impl ExecutionConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn check(&self, may_lie: bool) -> Result<(), ConfigError> {
        if self.extra_protection > 0 && may_lie {
            return invalid(
                "execution: extra_protection lets all replicas agree, and where members may lie one could always differ: leave it out, or choose \
                 a fault model in which they only crash",
            );
        }
        if let ExecutorCount::Count(count) = self.workers {
            range("execution: workers", count, 1..=WORKERS_MAX, "1024, or \"auto\"")?;
        }
        if self.executor == ExecutorKind::Speculative && !self.verify {
            return invalid(
                "execution: with executor = \"speculative\" replicas may come to different results, which only verify = true mends: set verify = \
                 true, or executor = \"ordered\", whose results are always those of one command after the other",
            );
        }
        if self.extra_protection > 0 && !self.verify {
            return invalid(
                "execution: extra_protection says after how many results all replicas have to agree, and without verify = true nothing is \
                 compared: set verify = true, or leave extra_protection out",
            );
        }
        range("execution: extra_protection", self.extra_protection, 0..=EXTRA_MAX, "1000000")?;
        range("execution: long_us", self.long_us, 0..=LONG_US_MAX, "1000000")
    }

    /// Whether batches run before they are decided, where members only crash.
    pub(super) fn is_early(&self, instances: u16) -> bool {
        self.early && self.verify && instances == 1 && self.executor != ExecutorKind::Speculative
    }

    /// How many threads there are for it.
    pub(crate) fn worker_count(&self) -> u16 {
        match (self.executor, self.workers) {
            (ExecutorKind::Sequential, _) => 0,
            (_, ExecutorCount::Count(count)) => count,
            (_, ExecutorCount::Auto(_)) => cores_here(),
        }
    }

    /// Whether this service can run so.
    pub(crate) fn fits(&self, service: &dyn Service) -> Result<(), ConfigError> {
        let is_parallel = service.parallel().is_some() && service.store().is_some();
        if self.executor != ExecutorKind::Sequential && !is_parallel {
            return invalid(
                "execution: another executor than \"sequential\" is for services whose commands may run at the same time (ParallelService), and this \
                 one does not say so: set executor = \"sequential\", or write it as one",
            );
        }
        if self.verify && service.twin().is_none() {
            return invalid(
                "execution: verify = true is for services of which a replica can have two, one that runs ahead and one with what is final \
                 (Service::twin; every ParallelService is one), and this one does not say so: set verify = false, or let it have a twin",
            );
        }
        Ok(())
    }

    /// The part of the settings that is the same on all replicas.
    pub(super) fn agreed(&self) -> &'static str {
        match (self.verify, self.executor, self.extra_protection > 0) {
            (false, ..) => "",
            (true, ExecutorKind::Speculative, false) => " verified speculative",
            (true, ExecutorKind::Speculative, true) => " verified speculative protected",
            (true, _, false) => " verified",
            (true, _, true) => " verified protected",
        }
    }

    /// Executes from this state on.
    pub(crate) fn execution(&self, executor: Executor) -> Box<dyn Execution> {
        if !self.verify {
            return self.unverified(executor);
        }
        match Verified::new(executor, |ahead| self.unverified(ahead)) {
            Ok(mut verified) => {
                if !self.early {
                    verified.waits_for_delivery();
                }
                Box::new(verified)
            }
            Err(_) => unreachable!("the service has a twin, as was checked at the start"),
        }
    }

    fn unverified(&self, executor: Executor) -> Box<dyn Execution> {
        if self.executor == ExecutorKind::Sequential {
            return Box::new(Sequential::new(executor));
        }
        let (workers, long) = (usize::from(self.worker_count()), u64::from(self.long_us) * 1000);
        let ahead = Ahead { workers, long, limits: AheadLimits::default() };
        let watch = Box::new(Watch::default());
        if self.executor == ExecutorKind::Speculative {
            return match Speculative::new(executor, ahead, watch, Box::new(Locked::make)) {
                Ok(speculative) => Box::new(speculative),
                Err(executor) => Box::new(Sequential::new(*executor)),
            };
        }
        match InOrder::new(executor, ahead, watch) {
            Ok(in_order) => Box::new(in_order),
            Err(executor) => Box::new(Sequential::new(*executor)),
        }
    }
}
