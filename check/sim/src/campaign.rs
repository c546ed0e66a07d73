//! Many runs: seeds spread over threads, each run in one thread. Panics are caught and reported like any other failure.

use crate::checks::Failure;
use crate::guest::Guest;
use crate::plan::{Plan, Profile};
use crate::trace::{Level, Trace};
use crate::world::{Report, World};
use std::any::Any;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;

thread_local! {
    /// Where the last panic of this thread happened; set while a run is under way.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    static QUIET: RefCell<bool> = const { RefCell::new(false) };
}
static HOOK: Once = Once::new();

/// Panics inside runs appear in their report and are not printed.
fn catch_panics() {
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if QUIET.with(|quiet| *quiet.borrow()) {
                let at =
                    info.location().map_or_else(String::new, |at| format!("{}:{}", at.file(), at.line()));
                PANIC.with(|panic| *panic.borrow_mut() = Some(at));
            } else {
                before(info);
            }
        }));
    });
}

/// Runs one plan.
pub fn run_plan(plan: Plan, level: Level) -> (Report, Trace) {
    run_world(World::new(plan, level))
}

/// Runs one plan with a guest, which is of [`Plan::with_guest`] or [`Plan::alone`].
pub fn run_guest(plan: Plan, guest: Box<dyn Guest>, level: Level) -> (Report, Trace) {
    run_world(World::new(plan, level).hosting(guest))
}

fn run_world(mut world: World) -> (Report, Trace) {
    catch_panics();
    QUIET.with(|quiet| *quiet.borrow_mut() = true);
    let ended = panic::catch_unwind(AssertUnwindSafe(|| world.run()));
    QUIET.with(|quiet| *quiet.borrow_mut() = false);
    let report = ended.unwrap_or_else(|panic| {
        let failure = match panic.downcast::<Failure>() {
            Ok(failure) => *failure,
            Err(panic) => Failure::new("panic", panicked(&*panic)),
        };
        Report { failure: Some(failure), ..world.report() }
    });
    (report, world.trace().clone())
}

/// Ends a run with what this check found, from wherever that is seen.
pub fn fail(checker: &'static str, text: impl Into<String>) -> ! {
    panic::panic_any(Failure::new(checker, text))
}

/// What a panic of a run said, and where.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text =
        text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned());
    let at = PANIC.with(|panic| panic.borrow_mut().take()).unwrap_or_default();
    format!("{text} ({at})")
}

/// Runs one seed.
pub fn run_seed(seed: u64, profile: &Profile, level: Level) -> (Report, Trace) {
    run_plan(Plan::new(seed, profile), level)
}

/// At most one of so many runs may have a history that is too hard to judge.
const UNJUDGED_SHARE: u64 = 1000;

/// The seeds to run, and how.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The profile of all runs.
    pub profile: Profile,
    /// The first seed.
    pub first: u64,
    /// How many.
    pub count: u64,
    /// Threads.
    pub jobs: usize,
    /// Stop after this many failures.
    pub failures_max: usize,
}

/// What a campaign found.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Runs that ended.
    pub runs: u64,
    /// Virtual nanoseconds of all runs together.
    pub time: u64,
    /// Events of all runs together.
    pub events: u64,
    /// Commands that were executed.
    pub commands: u64,
    /// Operations that clients began.
    pub operations: u64,
    /// Runs whose history was too hard to judge.
    pub unjudged: u64,
    /// The failures, by seed.
    pub failures: Vec<Report>,
}

/// Runs all seeds. `tell` is called for each run when it ends.
pub fn run(campaign: &Campaign, tell: impl FnMut(&Summary, &Report)) -> Summary {
    run_where(campaign, |_| true, tell)
}

/// Runs the seeds for which `wanted` is true.
pub fn run_where(
    campaign: &Campaign,
    wanted: impl Fn(u64) -> bool + Sync,
    mut tell: impl FnMut(&Summary, &Report),
) -> Summary {
    let next = AtomicU64::new(campaign.first);
    let end = campaign.first.saturating_add(campaign.count);
    let stop = AtomicBool::new(false);
    let (sender, reports) = mpsc::channel();
    let mut summary = Summary::default();
    std::thread::scope(|scope| {
        for _ in 0..campaign.jobs.max(1) {
            let (sender, next, stop, wanted) = (sender.clone(), &next, &stop, &wanted);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed < end && !wanted(seed) {
                        continue;
                    }
                    if seed >= end || sender.send(run_seed(seed, &campaign.profile, Level::Hash).0).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for report in reports {
            summary.add(&report);
            tell(&summary, &report);
            if summary.failures.len() >= campaign.failures_max {
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
    summary.failures.sort_by_key(|report| report.seed);
    summary
}

impl Summary {
    /// Whether nothing failed, and enough was judged to say so.
    pub fn is_clean(&self) -> bool {
        self.failures.is_empty() && !self.is_unjudged()
    }

    /// Whether more than one history in a thousand was too hard to judge, so that the campaign proves too little. A single one does not
    /// make a campaign fail.
    pub fn is_unjudged(&self) -> bool {
        self.unjudged > (self.runs / UNJUDGED_SHARE).max(1)
    }

    fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.time += report.time;
        self.events += report.events;
        self.commands += report.commands as u64;
        self.operations += report.operations as u64;
        self.unjudged += u64::from(report.unjudged.is_some());
        if report.failure.is_some() {
            self.failures.push(report.clone());
        }
    }
}
