//! The writer that shows what a fault does: one session that makes one small write after the other. Tests: `probe/tests.rs`.

use quorate_command::cluster::Cluster;
use quorate_command::failure::{Doing as _, Outcome};
use quorate_kv::{KvCommand, Operation};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// How long it writes before the fault, and again after writes succeed.
const AROUND: Duration = Duration::from_millis(500);
/// How long to wait for writes to succeed again.
const GIVE_UP: Duration = Duration::from_secs(30);
/// Where writes take long, how long it writes before the fault, so that it knows how long they usually take.
const AROUND_SLOW: Duration = Duration::from_secs(5);
/// How many writes tell that.
const USUAL: usize = 3;
/// A shorter time between two writes is no interruption.
const SMOOTH: Duration = Duration::from_millis(50);
/// How often to check whether writes succeed again.
const LOOK: Duration = Duration::from_millis(10);
const PAUSE: Duration = Duration::from_millis(1);
/// The key that the probe writes. It is deleted at the end.
const KEY: &[u8] = b"quorate-chaos-probe";

/// The result of the probe.
pub(crate) enum Gap {
    /// Writes succeed again.
    Measured {
        /// The longest time without a completed write.
        longest: Duration,
        /// No write completed before the fault, so the time begins with the fault.
        from_fault: bool,
    },
    /// Writes did not succeed again in this time.
    NotOver(Duration),
    /// There is no majority to write to.
    NoMajority,
}

impl Gap {
    pub(crate) fn millis(&self) -> Option<u64> {
        match self {
            Self::Measured { longest, .. } => Some(longest.as_millis() as u64),
            Self::NotOver(_) | Self::NoMajority => None,
        }
    }

    pub(super) fn text(&self) -> Option<String> {
        match self {
            Self::Measured { longest, from_fault: false } => {
                Some(format!("longest time without a completed write: {} ms", longest.as_millis()))
            }
            Self::Measured { longest, from_fault: true } => Some(format!(
                "writes did not flow before; the first one completed after {} ms",
                longest.as_millis()
            )),
            Self::NotOver(waited) => Some(format!(
                "writes do not flow steadily {} s after it; `quorate status` says how the cluster is",
                waited.as_secs()
            )),
            Self::NoMajority => None,
        }
    }
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// A session was open: there is somebody who orders.
    opened: AtomicBool,
    completed: Mutex<Vec<Instant>>,
    fault: Mutex<Option<Instant>>,
}

impl Shared {
    /// Whether enough was written, for so long, to tell an interruption from writes that always take long: those between distant replicas.
    fn knows_the_usual(&self, waited: Duration) -> bool {
        let writes = self.completed.lock().unwrap_or_else(PoisonError::into_inner).len();
        writes >= USUAL || !self.opened.load(Ordering::Acquire) || waited >= AROUND_SLOW
    }
}

/// The probe at work.
pub(super) struct Probe {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

impl Probe {
    /// Starts to write, and waits a little.
    pub(super) fn start(cluster: &Cluster) -> Outcome<Self> {
        let builder = cluster.client();
        let client = builder.timeout(GIVE_UP).build_blocking().doing("start a client")?;
        let shared = Arc::new(Shared::default());
        let thread = std::thread::Builder::new()
            .name("probe".into())
            .spawn({
                let shared = shared.clone();
                move || write(&client, &shared)
            })
            .doing("start a thread")?;
        let begun = Instant::now();
        std::thread::sleep(AROUND);
        while !shared.knows_the_usual(begun.elapsed()) {
            std::thread::sleep(LOOK);
        }
        Ok(Self { shared, thread })
    }

    /// Notes that the fault comes now.
    pub(super) fn mark(&self) {
        *self.shared.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Waits until writes succeed again, and says how long they did not.
    pub(super) fn finish(self, majority: bool) -> Gap {
        let gap = if majority { self.wait() } else { Gap::NoMajority };
        self.shared.stop.store(true, Ordering::Release);
        // A write that waits for a majority would keep us; its session expires by itself.
        if matches!(gap, Gap::Measured { .. }) {
            let _ = self.thread.join();
        }
        gap
    }

    fn wait(&self) -> Gap {
        let fault = self.shared.fault.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = fault.unwrap_or_else(Instant::now);
        loop {
            std::thread::sleep(LOOK);
            let now = Instant::now();
            let completed = self.shared.completed.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(gap) = measure(&completed, fault, now) {
                return gap;
            }
            if now.duration_since(fault) > GIVE_UP {
                return Gap::NotOver(GIVE_UP);
            }
        }
    }
}

fn write(client: &quorate::BlockingClient, shared: &Shared) {
    let encode = |operation| {
        let mut bytes = Vec::new();
        KvCommand::One(operation).encode(&mut bytes);
        bytes
    };
    let put = encode(Operation::Put { key: KEY, value: b"probe" });
    let stopped = || shared.stop.load(Ordering::Acquire);
    while !stopped() {
        let Ok(session) = client.open_session() else {
            std::thread::sleep(PAUSE);
            continue;
        };
        shared.opened.store(true, Ordering::Release);
        while !stopped() {
            if session.call_one(&put).is_err() {
                break;
            }
            shared.completed.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
            std::thread::sleep(PAUSE);
        }
        if stopped() {
            let _ = session.call_one(&encode(Operation::Delete { key: KEY }));
        }
        let _ = session.close();
    }
}

/// The longest time between two writes that ended after the fault, once writes have succeeded for a while.
fn measure(completed: &[Instant], fault: Instant, now: Instant) -> Option<Gap> {
    let first_after = completed.partition_point(|at| *at < fault);
    let before = &completed[..first_after];
    // On a slow machine writes are far apart without any fault.
    let usual = before.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default();
    let smooth = SMOOTH.max(usual * 4);
    let from = before.last().copied().unwrap_or(fault);
    let (mut longest, mut flows_since, mut last) = (Duration::ZERO, fault, from);
    for at in &completed[first_after..] {
        let interval = at.saturating_duration_since(last);
        longest = longest.max(interval);
        if interval > smooth {
            flows_since = *at;
        }
        last = *at;
    }
    let steady =
        now.saturating_duration_since(flows_since) >= AROUND && now.saturating_duration_since(last) <= smooth;
    (steady && first_after < completed.len())
        .then_some(Gap::Measured { longest, from_fault: before.is_empty() })
}
