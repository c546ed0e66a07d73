//! The thread that writes, reads and checks checkpoints, so that a lane never waits for that.
//!
//! It paces itself, so that the disk and the cores stay free for the log and the clients: it works for one part in [`SHARE`] of the time,
//! counting its waits for the disk and for a core, and writes no more bytes per second than configured. So a checkpoint is spread over a
//! long time, and takes longer on a busy machine. If the next border is reached before the file of the last one is written, only the limit
//! in bytes holds, since the log grows meanwhile. Answers to other replicas, and work that is waited for, are not delayed. Tests:
//! `keeper_thread/tests.rs`.

use crate::disk_thread::{Completion, Mailbox, Watch};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use quorate_state::checkpoint::{Files, Job, Keeper, Report, Step};
use quorate_state::store::Version;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// The thread works for one part in this many of the time, unless checkpoints are written without a limit.
const SHARE: u32 = 8;

/// The longest that the thread sleeps at once to pace itself.
const NAP: Duration = Duration::from_millis(50);

enum Order {
    Job(Job),
    /// A version that is not needed any more: it is freed here, which may take long.
    Release(Version),
    /// Answer when there is no work left.
    Wait(Sender<()>),
}

/// The lane's end of the thread. Dropping it ends the thread, which leaves its work unfinished.
pub(crate) struct KeeperThread {
    orders: Sender<Order>,
    ending: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl KeeperThread {
    /// `rate`: bytes per second for checkpoints; `None`: no limit of any kind.
    pub(crate) fn start(
        keeper: Keeper,
        files: Box<dyn Files + Send>,
        rate: Option<u64>,
        mailbox: Mailbox,
    ) -> io::Result<Self> {
        // Bounded by what the lane asks for: a border now and then, and reads that are limited in number.
        let (orders, receiver) = unbounded();
        let ending = Arc::new(AtomicBool::new(false));
        let stop = ending.clone();
        let thread = std::thread::Builder::new().name("keeper".into()).spawn(move || {
            let _watch =
                Watch { mailbox: mailbox.clone(), why: "the thread that keeps checkpoints panicked" };
            let pace = Pace { rate, owed: Duration::ZERO, urgent: false };
            Worker { keeper, files, orders: receiver, mailbox: &mailbox, waiting: Vec::new(), pace, stop }
                .run();
        })?;
        Ok(Self { orders, ending, thread })
    }

    /// Gives the thread a job.
    pub(crate) fn submit(&self, job: Job) {
        // Sending fails only when the thread ended, which it reported as a failure before.
        drop(self.orders.send(Order::Job(job)));
    }

    /// Frees a version on the thread.
    pub(crate) fn release(&self, version: Version) {
        drop(self.orders.send(Order::Release(version)));
    }

    /// Returns when the thread has no work left; it does that work without pacing.
    pub(crate) fn wait(&self) {
        let (sender, receiver) = bounded(1);
        if self.orders.send(Order::Wait(sender)).is_ok() {
            let _ = receiver.recv();
        }
    }

    /// Ends the thread. Unfinished work is done again after the next start.
    pub(crate) fn stop(self) {
        self.ending.store(true, Ordering::Release);
        drop(self.orders);
        let _ = self.thread.join();
    }
}

/// How long to pause after work.
struct Pace {
    rate: Option<u64>,
    owed: Duration,
    /// The work is waited for: full speed.
    urgent: bool,
}

impl Pace {
    fn worked(&mut self, bytes: u64, took: Duration, behind: bool) {
        let Some(rate) = self.rate.filter(|_| !self.urgent) else { return };
        let due = Duration::from_nanos((u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1))) as u64);
        let share = if behind { Duration::ZERO } else { took * (SHARE - 1) };
        self.owed += due.saturating_sub(took).max(share);
    }
}

struct Worker<'a> {
    keeper: Keeper,
    files: Box<dyn Files + Send>,
    orders: Receiver<Order>,
    mailbox: &'a Mailbox,
    waiting: Vec<Sender<()>>,
    pace: Pace,
    stop: Arc<AtomicBool>,
}

impl Worker<'_> {
    fn run(mut self) {
        while !self.stop.load(Ordering::Acquire) {
            while let Ok(order) = self.orders.try_recv() {
                self.take(order);
            }
            let before = Instant::now();
            match self.keeper.step(&mut *self.files) {
                Step::Worked { awaited: true, .. } => self.tell(),
                Step::Worked { bytes, .. } => {
                    self.pace.worked(bytes, before.elapsed(), self.keeper.is_behind());
                    self.tell();
                    self.hold_back();
                }
                Step::Idle => {
                    self.tell();
                    self.pace.urgent = false;
                    for waiting in self.waiting.drain(..) {
                        let _ = waiting.send(());
                    }
                    match self.orders.recv() {
                        Ok(order) => self.take(order),
                        Err(_) => return,
                    }
                }
            }
        }
    }

    fn take(&mut self, order: Order) {
        match order {
            Order::Job(job) => {
                // Until it is durable this replica does nothing else of use.
                self.pace.urgent |= matches!(job, Job::Install { .. });
                self.keeper.submit(job);
            }
            Order::Release(version) => drop(version),
            Order::Wait(waiting) => {
                self.pace.urgent = true;
                self.waiting.push(waiting);
            }
        }
    }

    fn tell(&mut self) {
        let reports: Vec<Report> = self.keeper.reports().collect();
        reports.into_iter().for_each(|report| self.mailbox.send(Completion::Kept(report)));
    }

    /// Pauses in naps; urgent jobs are done in between.
    fn hold_back(&mut self) {
        if self.pace.owed < Duration::from_millis(1) {
            return;
        }
        let until = Instant::now() + std::mem::take(&mut self.pace.owed);
        while !self.pace.urgent && !self.stop.load(Ordering::Acquire) {
            while let Ok(order) = self.orders.try_recv() {
                self.take(order);
            }
            // Also jobs from before the pause: a part that waits for one may ask for nothing else meanwhile.
            while self.keeper.step_awaited(&mut *self.files) != Step::Idle {
                self.tell();
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            match self.orders.recv_timeout(left.min(NAP)) {
                Ok(order) => self.take(order),
                Err(RecvTimeoutError::Timeout) if left > NAP => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}
