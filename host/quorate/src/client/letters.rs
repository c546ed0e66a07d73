//! Letters on their way to the program: a queue of bounded bytes between the client's thread and whoever reads them.

use bytes::Bytes;
use quorate_types::SessionId;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// What a queued letter counts beside its body.
const LETTER_COST: usize = 64;

/// A letter of the service to a session of this client ([`ClientBuilder::letters`](super::ClientBuilder::letters)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedLetter {
    /// The session ([`Session::id`](super::Session::id)).
    pub session: SessionId,
    /// Its number in the session, from 1. Letters of one session come in this order, none twice.
    pub number: u64,
    /// How many letters of the session were lost right before this one: the client was not connected for too long, or this queue was full.
    /// The service may be able to tell what was in them.
    pub missed: u64,
    /// What the service says.
    pub body: Bytes,
}

#[derive(Debug, Default)]
struct State {
    list: VecDeque<ReceivedLetter>,
    bytes: usize,
    /// How many letters of a session found no room since the last one that did.
    lost: BTreeMap<SessionId, u64>,
    wakers: Vec<Waker>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    filled: Condvar,
    bytes_max: usize,
}

/// The queue in which letters arrive. Cheap to clone; clones are the same queue. Several clients may share one.
#[derive(Clone, Debug)]
pub struct LetterQueue {
    shared: Arc<Shared>,
}

impl LetterQueue {
    /// An empty queue for at most `bytes_max` bytes of letters; each counts 64 bytes more than its body, and one always fits. A letter that
    /// finds no room is lost, and the next one of its session says so.
    pub fn new(bytes_max: usize) -> Self {
        Self { shared: Arc::new(Shared { state: Mutex::default(), filled: Condvar::new(), bytes_max }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next letter, if one is there.
    pub fn try_recv(&self) -> Option<ReceivedLetter> {
        self.state().take()
    }

    /// Waits on this thread for the next letter, at most for `timeout`.
    pub fn recv(&self, timeout: Duration) -> Option<ReceivedLetter> {
        let end = Instant::now() + timeout;
        let mut state = self.state();
        loop {
            if let Some(letter) = state.take() {
                return Some(letter);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            state = self.shared.filled.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The next letter. It waits for as long as it takes, also after the last client has ended.
    pub fn next(&self) -> NextLetter<'_> {
        NextLetter { queue: self }
    }

    /// Puts a letter there, or notes that it was lost.
    pub(super) fn put(&self, mut letter: ReceivedLetter) {
        let mut state = self.state();
        let cost = LETTER_COST + letter.body.len();
        if state.bytes > 0 && state.bytes + cost > self.shared.bytes_max {
            *state.lost.entry(letter.session).or_default() += letter.missed + 1;
            return;
        }
        letter.missed += state.lost.remove(&letter.session).unwrap_or(0);
        state.bytes += cost;
        state.list.push_back(letter);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.shared.filled.notify_one();
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl State {
    fn take(&mut self) -> Option<ReceivedLetter> {
        let letter = self.list.pop_front()?;
        self.bytes -= LETTER_COST + letter.body.len();
        Some(letter)
    }
}

/// Waits for the next letter of a [`LetterQueue`]. Dropping it takes nothing.
#[derive(Debug)]
#[must_use = "it waits only while it is polled"]
pub struct NextLetter<'q> {
    queue: &'q LetterQueue,
}

impl Future for NextLetter<'_> {
    type Output = ReceivedLetter;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<ReceivedLetter> {
        let mut state = self.queue.state();
        if let Some(letter) = state.take() {
            return Poll::Ready(letter);
        }
        if !state.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            state.wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests;
