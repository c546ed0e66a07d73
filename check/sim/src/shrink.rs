//! Makes a failing run smaller: leaves out faults, then operations, as long as the same checker still fails.
//!
//! Delta debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", TSE 2002) on the list of faults. Everything
//! else of the run still follows from its seed, so leaving out a fault changes what comes after it. A smaller run may therefore fail for
//! another reason that the same checker finds.

use crate::campaign::run_plan;
use crate::plan::Plan;
use crate::trace::Level;
use crate::world::Report;

/// A failing run, made smaller.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smaller plan.
    pub plan: Plan,
    /// Its failure.
    pub report: Report,
    /// How many runs it took.
    pub runs: usize,
}

/// Makes `plan` smaller, in at most `runs_max` runs. `None` when it does not fail.
pub fn shrink(plan: &Plan, runs_max: usize) -> Option<Shrunk> {
    shrink_with(plan, runs_max, &mut |plan| run_plan(plan, Level::Hash).0)
}

/// The same, with another way to run a plan.
pub fn shrink_with(plan: &Plan, runs_max: usize, run: &mut dyn FnMut(Plan) -> Report) -> Option<Shrunk> {
    let report = run(plan.clone());
    let checker = report.failure.as_ref()?.checker;
    let mut shrunk = Shrunk { plan: plan.clone(), report, runs: 1 };
    let mut attempt = |shrunk: &mut Shrunk, plan: Plan| {
        shrunk.runs += 1;
        let report = run(plan.clone());
        let same = report.failure.as_ref().is_some_and(|failure| failure.checker == checker);
        if same {
            (shrunk.plan, shrunk.report) = (plan, report);
        }
        same
    };
    shrink_faults(&mut shrunk, runs_max, &mut attempt);
    while shrunk.runs < runs_max && shrunk.plan.workload.operations > 1 {
        let mut plan = shrunk.plan.clone();
        plan.workload.operations /= 2;
        if !attempt(&mut shrunk, plan) {
            break;
        }
    }
    Some(shrunk)
}

fn shrink_faults(shrunk: &mut Shrunk, runs_max: usize, attempt: &mut impl FnMut(&mut Shrunk, Plan) -> bool) {
    let mut size = shrunk.plan.faults.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        let mut removed = false;
        while at < shrunk.plan.faults.len() {
            if shrunk.runs >= runs_max {
                return;
            }
            let mut plan = shrunk.plan.clone();
            plan.faults.drain(at..(at + size).min(plan.faults.len()));
            if attempt(shrunk, plan) {
                removed = true;
            } else {
                at += size;
            }
        }
        // At single faults: again, as long as one can go, since another may be needless now.
        if size > 1 {
            size /= 2;
        } else if !removed {
            size = 0;
        }
    }
}
