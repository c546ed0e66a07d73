//! The client that writes from the beginning of the tour to its end, one small write after the other, each under a key of its own.

use super::store::Store;
use quorate_command::cluster::Cluster;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// All keys of the writer lie between these.
pub(super) const KEYS: [&str; 2] = ["tour/", "tour0"];
/// The pause between two writes.
const PAUSE: Duration = Duration::from_millis(10);

/// The writes that were sent, by their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Sent {
    /// The client was told that they are done.
    pub(super) acknowledged: Vec<u64>,
    /// The client was told that they are not done and never will be.
    pub(super) refused: Vec<u64>,
    /// The client was told nothing.
    pub(super) unknown: Vec<u64>,
    /// The longest time until a write was acknowledged.
    pub(super) longest: Duration,
}

/// The key of a write.
pub(super) fn key(number: u64) -> String {
    format!("{}{number:08}", KEYS[0])
}

/// The value that it writes.
pub(super) fn value(number: u64) -> String {
    format!("write {number}")
}

/// The writer at work.
pub(super) struct Writer {
    stop: Arc<AtomicBool>,
    sent: Arc<Mutex<Sent>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(cluster: &Cluster) -> Outcome<Self> {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::default()));
        let run = {
            let (cluster, stop, sent) = (cluster.clone(), stop.clone(), sent.clone());
            move || write(&cluster, &stop, &sent)
        };
        let thread = std::thread::Builder::new().name("writer".into()).spawn(run).doing("start a thread")?;
        Ok(Self { stop, sent, thread: Some(thread) })
    }

    /// How many writes were acknowledged so far.
    pub(super) fn acknowledged(&self) -> usize {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).acknowledged.len()
    }

    /// Waits for the answer to the last write, and gives all.
    pub(super) fn finish(&mut self) -> Outcome<Sent> {
        self.stop.store(true, Ordering::Release);
        let ended = self.thread.take().map(JoinHandle::join);
        ended.transpose().map_err(|_| Failure::new("the writer failed"))?;
        Ok(std::mem::take(&mut self.sent.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn write(cluster: &Cluster, stop: &AtomicBool, sent: &Mutex<Sent>) {
    let stopped = || stop.load(Ordering::Acquire);
    let mut number = 0;
    while !stopped() {
        let Ok(store) = Store::open(cluster) else {
            std::thread::sleep(PAUSE);
            continue;
        };
        while !stopped() {
            number += 1;
            let begun = Instant::now();
            let put = store.put(&key(number), &value(number));
            let mut sent = sent.lock().unwrap_or_else(PoisonError::into_inner);
            match &put {
                Ok(()) => {
                    sent.acknowledged.push(number);
                    sent.longest = sent.longest.max(begun.elapsed());
                }
                Err(why) if why.unknown => sent.unknown.push(number),
                Err(_) => sent.refused.push(number),
            }
            drop(sent);
            std::thread::sleep(PAUSE);
            // Another session goes on after an error.
            if put.is_err() {
                break;
            }
        }
    }
}
