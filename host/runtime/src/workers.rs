//! The workers: threads for work that any thread can do, so that a lane does not: they check signatures under requests, and others run
//! commands.
//!
//! The main lane gives work out and goes on. The answer comes through its mailbox, as those of the disk's threads do. Each piece of work is
//! answered once: a piece that is dropped says that nobody did it, and the lane does it then. That is so when the queue is full, and when
//! the work panics, after which the worker goes on with the next piece. How much is out at once is the node's matter (`ChecksAway`), and the queue has a
//! limit of its own. Tests: `workers/tests.rs`.

use crate::disk_thread::{Completion, Mailbox};
use crossbeam_channel::{Receiver, Sender, bounded};
use quorate_admit::ChecksAway;
use quorate_auth::CheckWork;
use quorate_execute::{Stopwatch, Work};
use serde::Serialize;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

#[cfg(test)]
mod tests;

/// How many signatures may be out for each worker: some ten milliseconds of its time.
const CHECKS_EACH: usize = 512;
/// Fewer signatures than this a lane checks by itself.
const CHECKS_MIN: usize = 4;
/// How many pieces of work may wait for each worker.
const JOBS_EACH: usize = 64;

/// How many signatures this many workers take.
pub(crate) fn checks_away(workers: u16) -> ChecksAway {
    ChecksAway { least: CHECKS_MIN, most: usize::from(workers) * CHECKS_EACH }
}

/// Work that any thread can do.
enum Job {
    /// Check signatures.
    Check(Check),
    /// Run commands.
    Execute(Execute),
    /// Panic with this.
    #[cfg(test)]
    Panic(Check),
}

impl Job {
    fn run(self) {
        match self {
            Self::Check(check) => check.run(),
            Self::Execute(execute) => execute.run(),
            #[cfg(test)]
            Self::Panic(_check) => panic!("on purpose"),
        }
    }
}

/// Signatures to check, and the lane that waits for the answer.
struct Check {
    /// `None` once it is answered.
    work: Option<CheckWork>,
    mailbox: Mailbox,
    tally: Arc<Tally>,
}

/// Commands to run, and the lane that waits for the answer.
struct Execute {
    /// `None` once it is answered.
    work: Option<Work>,
    mailbox: Mailbox,
    tally: Arc<Tally>,
}

impl Execute {
    fn run(mut self) {
        let Some(work) = &self.work else { return };
        let done = work.run(&mut Watch::default());
        self.tally.ran.fetch_add(work.len() as u64, Ordering::Relaxed);
        // Freed after the answer: it may be the last owner of an old version.
        let _work = self.work.take();
        self.mailbox.send(Completion::Worked(done));
    }
}

impl Drop for Execute {
    fn drop(&mut self) {
        if let Some(work) = &self.work {
            self.mailbox.send(Completion::Worked(work.undone()));
        }
    }
}

/// The time that passes on this thread's clock.
#[derive(Debug)]
pub(crate) struct Watch(Instant);

impl Default for Watch {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Stopwatch for Watch {
    fn nanos(&mut self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// What workers did so far.
#[derive(Debug, Default)]
struct Tally {
    /// Signatures that they checked.
    checked: AtomicU64,
    /// Requests that they ran.
    ran: AtomicU64,
    panics: AtomicU64,
}

impl Check {
    fn run(mut self) {
        let Some(work) = &self.work else { return };
        let (id, right) = (work.id, Some(work.run()));
        self.tally.checked.fetch_add(work.claims.len() as u64, Ordering::Relaxed);
        self.work = None;
        self.mailbox.send(Completion::Checked { id, right });
    }
}

impl Drop for Check {
    fn drop(&mut self) {
        if let Some(work) = &self.work {
            self.mailbox.send(Completion::Checked { id: work.id, right: None });
        }
    }
}

/// The workers for the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct WorkersStatus {
    /// How many there are.
    pub(crate) count: usize,
    /// How many pieces of work wait.
    pub(crate) waiting: usize,
    /// How many signatures they checked.
    pub(crate) checked: u64,
    /// How many requests they ran.
    pub(crate) ran: u64,
    /// How many pieces of work panicked.
    pub(crate) panics: u64,
}

impl WorkersStatus {
    /// The problem to report when work panicked.
    pub(crate) fn problem(&self) -> Option<String> {
        (self.panics > 0).then(|| {
            format!(
                "the workers of this replica panicked {} times, and a lane did that work: what they wrote to its standard error says why",
                self.panics
            )
        })
    }
}

/// The lane's end of the workers. Dropping it ends them after their queued work.
pub(crate) struct Workers {
    jobs: Sender<Job>,
    mailbox: Mailbox,
    tally: Arc<Tally>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts this many, with this name.
    pub(crate) fn start(name: &str, count: u16, mailbox: Mailbox) -> io::Result<Self> {
        // Without workers the queue has no room either, and the lane does all by itself.
        let (jobs, receiver) = bounded(usize::from(count) * JOBS_EACH);
        let tally = Arc::<Tally>::default();
        let start = |number| {
            let (jobs, tally) = (receiver.clone(), tally.clone());
            let thread = std::thread::Builder::new().name(format!("{name}-{number}"));
            thread.spawn(move || work(&jobs, &tally))
        };
        let threads = (1..=count).map(start).collect::<io::Result<_>>()?;
        Ok(Self { jobs, mailbox, tally, threads })
    }

    /// Has signatures checked. The mailbox gets the answer in any case.
    pub(crate) fn check(&self, work: CheckWork) {
        // What is not taken is dropped, which is an answer, too.
        let (mailbox, tally) = (self.mailbox.clone(), self.tally.clone());
        drop(self.jobs.try_send(Job::Check(Check { work: Some(work), mailbox, tally })));
    }

    /// Has commands run. The mailbox gets the answer in any case.
    pub(crate) fn execute(&self, work: Work) {
        let (mailbox, tally) = (self.mailbox.clone(), self.tally.clone());
        drop(self.jobs.try_send(Job::Execute(Execute { work: Some(work), mailbox, tally })));
    }

    pub(crate) fn status(&self) -> WorkersStatus {
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let (checked, ran, panics) =
            (load(&self.tally.checked), load(&self.tally.ran), load(&self.tally.panics));
        WorkersStatus { count: self.threads.len(), waiting: self.jobs.len(), checked, ran, panics }
    }

    /// Ends the workers.
    pub(crate) fn stop(self) {
        drop(self.jobs);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

/// The workers of a replica.
pub(crate) struct Crew {
    /// They check signatures.
    pub(crate) workers: Workers,
    /// They run commands.
    pub(crate) executors: Workers,
}

impl Crew {
    /// Ends all of them. Nobody waits for a command that does not end.
    pub(crate) fn stop(self) {
        self.workers.stop();
        let Workers { jobs, threads, .. } = self.executors;
        drop(jobs);
        threads.into_iter().filter(JoinHandle::is_finished).for_each(|thread| drop(thread.join()));
    }
}

/// The life of a worker.
fn work(jobs: &Receiver<Job>, tally: &Tally) {
    for job in jobs {
        // A job owns all that it changes, so nothing is left half done.
        if catch_unwind(AssertUnwindSafe(|| job.run())).is_err() {
            tally.panics.fetch_add(1, Ordering::Relaxed);
        }
    }
}
