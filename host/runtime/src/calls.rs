//! How long the calls of fronts' clients took, as fronts measure it: for the status and the metrics of their replica. Tests: `calls/tests.rs`.

use quorate_types::{Durations, Span};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(test)]
mod tests;

/// The calls of one front's clients, by their kinds.
#[derive(Debug)]
pub struct Calls {
    kinds: &'static [&'static str],
    each: Vec<(Mutex<Durations>, AtomicU64)>,
}

impl Calls {
    fn new(kinds: &'static [&'static str]) -> Self {
        Self { kinds, each: kinds.iter().map(|_| Default::default()).collect() }
    }

    /// A call of this kind, by its place in the list, took so long, and did what it should.
    ///
    /// # Panics
    /// When there is no such kind.
    pub fn took(&self, kind: usize, span: Span) {
        lock(&self.each[kind].0).add(span);
    }

    /// The same for a call that was answered with an error.
    ///
    /// # Panics
    /// When there is no such kind.
    pub fn failed(&self, kind: usize, span: Span) {
        self.took(kind, span);
        self.each[kind].1.fetch_add(1, Ordering::Relaxed);
    }

    /// All calls of this kind, where the front counts them itself.
    ///
    /// # Panics
    /// When there is no such kind.
    pub fn all(&self, kind: usize, took: Durations) {
        *lock(&self.each[kind].0) = took;
    }

    /// How long all calls of a kind took, for each kind.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, Durations)> {
        self.kinds.iter().zip(&self.each).map(|(kind, (took, _))| (*kind, *lock(took)))
    }

    fn status(&self) -> Vec<CallStatus> {
        let failed = self.each.iter().map(|(_, failed)| failed.load(Ordering::Relaxed));
        let status = |((call, took), failed)| CallStatus { call, failed, took };
        self.each().zip(failed).map(status).filter(|status| status.took.count() > 0).collect()
    }
}

/// What the status says of one kind of calls.
#[derive(Debug, Serialize)]
pub(crate) struct CallStatus {
    call: &'static str,
    /// How many of them were answered with an error.
    failed: u64,
    took: Durations,
}

/// The calls of all fronts of a replica.
#[derive(Clone, Debug, Default)]
pub struct FrontCalls(Arc<Mutex<BTreeMap<&'static str, Arc<Calls>>>>);

impl FrontCalls {
    /// Those of a front, which has these kinds.
    pub fn of(&self, front: &'static str, kinds: &'static [&'static str]) -> Arc<Calls> {
        lock(&self.0).entry(front).or_insert_with(|| Arc::new(Calls::new(kinds))).clone()
    }

    /// What the status says of them: only kinds that were called.
    pub(crate) fn status(&self) -> BTreeMap<&'static str, Vec<CallStatus>> {
        lock(&self.0).iter().map(|(front, calls)| (*front, calls.status())).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
