//! What comes of the runs: how many passed, or the one that failed, made smaller.

use super::Simulation;
use quorate_sim::checks::Failure;
use quorate_sim::shrink::shrink_with;
use quorate_sim::world::Report;
use quorate_sim::{Fault, Level, Plan, html};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Runs that may be spent on making a failing one smaller.
const SHRINK_RUNS: usize = 60;

/// Runs in which nothing went wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// How many.
    pub runs: u64,
    /// Commands that were executed in all of them.
    pub commands: u64,
    /// How long they took in virtual time, all together.
    pub virtual_time: Duration,
}

impl Passed {
    pub(super) fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.commands += report.commands as u64;
        self.virtual_time += Duration::from_nanos(report.time);
    }
}

/// A run that failed. As text, also in the form for `Debug`, it says what went wrong, in which cluster, with which faults, and how to see it
/// again.
pub struct Failed {
    /// The seed.
    pub seed: u64,
    /// The check that found it: `agreement` where replicas differ, `invariant`, `client` for what a client found, `panic` for a service that
    /// panicked, and others that docs/testing.md names.
    pub check: &'static str,
    /// What is wrong.
    pub why: String,
    /// The cluster and its clients.
    pub cluster: String,
    /// The faults that it takes, with their times in nanoseconds.
    pub faults: Vec<(u64, String)>,
    /// Whether it failed again when it was repeated. If not, the service depends on more than its commands.
    pub repeats: bool,
    /// Where it is drawn.
    pub page: Option<PathBuf>,
}

/// The first run with this plan failed: makes it smaller, and draws it.
pub(super) fn explain(simulation: &Simulation, plan: Plan) -> Failed {
    let shrunk = shrink_with(&plan, SHRINK_RUNS, &mut |plan| simulation.once(plan, Level::Hash).0);
    let (plan, repeats) = shrunk.map_or((plan, false), |shrunk| (shrunk.plan, true));
    let level = if simulation.page.is_some() { Level::All } else { Level::Hash };
    let (report, trace) = simulation.once(plan.clone(), level);
    let page = simulation.page.clone().filter(|file| {
        let written = std::fs::write(file, html::page(&plan, &report, &trace));
        written.inspect_err(|why| eprintln!("{} can not be written: {why}", file.display())).is_ok()
    });
    let lost = Failure::new("agreement", "it failed, and did not when it was repeated");
    let failure = report.failure.unwrap_or(lost);
    let fault = |(at, fault): &(u64, Fault)| (*at, fault.to_string());
    Failed {
        seed: plan.seed,
        check: failure.checker,
        why: failure.text,
        cluster: plan.summary(),
        faults: plan.faults.iter().map(fault).collect(),
        repeats,
        page,
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {}: {}", self.seed, self.check, self.why)?;
        writeln!(f, "  in a cluster of: {}", self.cluster)?;
        for (at, fault) in &self.faults {
            writeln!(f, "  at {:.6} s: {fault}", *at as f64 / 1e9)?;
        }
        if !self.repeats {
            writeln!(
                f,
                "  the run did not fail in the same way when it was repeated: something depends on more than commands and \
                 `random`, such as a clock, a thread, an address or the order of a hash map"
            )?;
        }
        match &self.page {
            Some(file) => write!(f, "  it is drawn in {}", file.display()),
            None => {
                write!(f, "  again: QUORATE_SEED={} cargo test; QUORATE_PAGE=run.html draws it", self.seed)
            }
        }
    }
}

impl fmt::Debug for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Failed {}
