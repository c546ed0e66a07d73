//! Answers in bursts, for programs with thousands of calls under way from one thread: without a future and a wake-up for each call.

use super::{Error, ReadResult, Replies};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The end of one call or read that was submitted with a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The tag that was submitted with it.
    pub tag: u64,
    /// How it ended.
    pub result: Result<Answer, Error>,
}

/// What a completed call or read brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The replies to the commands of a call.
    Replies(Replies),
    /// The answer to a read.
    Read(ReadResult),
}

impl Answer {
    /// The service's answer: to the first command of a call, or to a read.
    pub fn first(&self) -> Option<&[u8]> {
        match self {
            Self::Replies(replies) => replies.first(),
            Self::Read(read) => Some(&read.body),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Shared {
    list: Mutex<Vec<Completed>>,
    filled: Condvar,
}

impl Shared {
    /// Appends a burst, with one wake-up for all of it.
    pub(crate) fn deliver(&self, burst: &mut Vec<Completed>) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        if list.is_empty() {
            std::mem::swap(&mut *list, burst);
        } else {
            list.append(burst);
        }
        drop(list);
        self.filled.notify_all();
    }
}

/// The queue that completed calls arrive in. Cheap to clone; clones are the same queue.
#[derive(Clone, Debug, Default)]
pub struct CompletionQueue {
    pub(crate) shared: Arc<Shared>,
}

impl CompletionQueue {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits until a call is completed, at most for `timeout`, and moves all completed ones into `batch`, which is cleared first. Returns
    /// their number.
    pub fn recv_batch(&self, batch: &mut Vec<Completed>, timeout: Duration) -> usize {
        batch.clear();
        let end = Instant::now() + timeout;
        let mut list = self.shared.list.lock().unwrap_or_else(PoisonError::into_inner);
        while list.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return 0;
            }
            list = self.shared.filled.wait_timeout(list, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::swap(&mut *list, batch);
        batch.len()
    }
}
