//! The locks of commands: who holds which, and who waits.
//!
//! A leg that fails to get a lock is taken back, with the locks that it took itself. So a circle of waiting commands goes through locks that were
//! taken before the last halt; or in the last leg, if that one had given a lock back and so counts.

use super::request::{Halt, Key, Request};
use bytes::Bytes;
use quorate_types::planted;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Locks {
    held: BTreeMap<Bytes, Key>,
    /// Who waits for which, the oldest request first.
    waiting: BTreeSet<(Bytes, Key)>,
}

impl Locks {
    /// Who keeps this request from the lock.
    pub(super) fn holder(&self, name: &Bytes, asks: Key) -> Option<Key> {
        self.held.get(name).copied().filter(|holder| *holder != asks)
    }

    /// A request has these locks now, and had those. Gives those that became free.
    pub(super) fn change(&mut self, key: Key, had: &BTreeSet<Bytes>, has: &BTreeSet<Bytes>) -> Vec<Bytes> {
        for name in has.difference(had) {
            self.held.insert(name.clone(), key);
        }
        let freed: Vec<Bytes> = had.difference(has).cloned().collect();
        for name in &freed {
            self.held.remove(name);
        }
        freed
    }

    /// A request waits for a lock.
    pub(super) fn wait(&mut self, name: Bytes, key: Key) {
        self.waiting.insert((name, key));
    }

    /// The oldest request that waits for this lock, if it is free. That one does not wait any more.
    pub(super) fn next(&mut self, name: &Bytes) -> Option<Key> {
        if self.held.contains_key(name) {
            return None;
        }
        let first = (name.clone(), Key { seq: 0, index: 0 });
        let (of, key) = self.waiting.range(first..).next().cloned().filter(|(of, _)| of == name)?;
        self.waiting.remove(&(of, key));
        Some(key)
    }

    /// Whether waiting for a lock of this holder would close a circle, for a request that would keep these locks meanwhile.
    /// Source: Kapritsos (Adam), section 4.3.2, where a time-out stands in for this.
    pub(super) fn is_circle(
        &self,
        (asks, keeps): (Key, &BTreeSet<Bytes>),
        holder: Key,
        requests: &BTreeMap<Key, Request>,
    ) -> bool {
        let mut at = holder;
        // Each waits for one lock at most, so there is one way to go; no longer than there are requests.
        for _ in 0..=requests.len() {
            let Some(Halt::Lock(name)) = requests.get(&at).map(|request| &request.halt) else { return false };
            if keeps.contains(name) {
                return !planted("deadlock-unseen");
            }
            match self.holder(name, at) {
                Some(next) if next != asks => at = next,
                _ => return false,
            }
        }
        false
    }

    /// Panics with the name of an invariant that does not hold.
    pub(super) fn invariants(&self, requests: &BTreeMap<Key, Request>) {
        let held: BTreeMap<Bytes, Key> = requests
            .iter()
            .flat_map(|(key, request)| request.locks.iter().map(|name| (name.clone(), *key)))
            .collect();
        assert_eq!(held, self.held, "INV-NESTED-2: a lock is held by one command under way");
    }
}
