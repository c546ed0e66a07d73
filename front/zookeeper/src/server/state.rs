//! The state that a server shows its clients: the version that it adopted last, and what was told that no version shows yet.
//!
//! A version is adopted only after everything that was told up to it has been handed on. So an event comes before the data that it
//! announces, and before the answer to the write that caused it. Tests: `state/tests.rs`, tests/all/server.rs.

use crate::feed::Heard;
use crate::service::{Told, What, last_zxid};
use crate::sessions;
use quorate_execute::{Published, StateView, Store};
use quorate_types::{Time, planted};
use std::collections::VecDeque;

/// The state that clients see.
#[derive(Default)]
pub(super) struct State {
    /// The version, and its last transaction. None before the first one.
    adopted: Option<(Store, i64)>,
    /// Whether this replica answers reads now. If it does not, clients see nothing.
    is_open: bool,
    /// What was told behind the adopted version.
    told: VecDeque<Told>,
    /// If something is missing: the last transaction of what is.
    gap: Option<i64>,
    /// A transaction of which the cluster spoke and that no adopted version shows, and since when.
    behind: Option<(i64, Time)>,
}

/// What to do with a new version.
pub(super) enum Step {
    /// This was told up to it.
    On(Vec<Told>),
    /// It is the first one.
    First,
    /// What led to it was not told as a whole.
    Jump {
        /// The state that clients have seen before.
        before: Store,
        /// What was told behind the part that is missing, and is new to clients.
        told: Vec<Told>,
    },
    /// It is older than what clients have seen.
    Back,
}

impl State {
    /// Keeps what was told.
    pub(super) fn hear(&mut self, heard: Heard) {
        if heard.gap.is_some() {
            self.told.clear();
            self.gap = heard.gap;
        }
        for told in heard.list {
            if told.what == What::Replaced {
                // What was told of the former state does not count.
                self.told.clear();
            }
            self.told.push_back(told);
        }
    }

    /// Adopts a version, if it is another one.
    pub(super) fn adopt(&mut self, newest: Option<&Published>) -> Option<Step> {
        let was_open = std::mem::replace(&mut self.is_open, newest.is_some());
        let store = Store::from_version(&newest?.objects);
        let zxid = last_zxid(&StateView::reading(&store));
        let seen = self.zxid();
        let before = self.adopted.replace((store, zxid));
        let mut told = Vec::new();
        let is_due = |told: &Told| told.zxid <= zxid || planted("zk-watch-on-older-version");
        while self.told.front().is_some_and(is_due) {
            told.extend(self.told.pop_front());
        }
        let jumps = self.gap.is_some() || told.iter().any(|told| told.what == What::Replaced);
        self.gap = self.gap.filter(|gap| *gap > zxid);
        self.behind = self.behind.filter(|(wanted, _)| *wanted > zxid);
        if zxid < seen {
            return Some(Step::Back);
        }
        match before {
            Some((before, _)) if jumps && !planted("zk-version-kept-after-transfer") => {
                // A replica may have gone back, and have done again what clients have seen.
                told.retain(|told| told.zxid > seen);
                Some(Step::Jump { before, told })
            }
            Some(_) => (zxid > seen || !was_open).then_some(Step::On(told)),
            None => Some(Step::First),
        }
    }

    /// The cluster says that it has this transaction.
    pub(super) fn exists(&mut self, zxid: i64, now: Time) {
        if zxid > self.zxid() {
            self.behind.get_or_insert((zxid, now));
        }
    }

    /// Since when it is known that the replica lacks something that the cluster has.
    pub(super) fn behind_since(&self) -> Option<Time> {
        self.behind.map(|(_, since)| since)
    }

    /// The last transaction that clients have seen.
    pub(super) fn zxid(&self) -> i64 {
        self.adopted.as_ref().map_or(0, |(_, zxid)| *zxid)
    }

    /// Whether there was ever a version.
    pub(super) fn has_any(&self) -> bool {
        self.adopted.is_some()
    }

    /// What clients may read now.
    pub(super) fn view(&self) -> Option<StateView<'_>> {
        let (store, _) = self.adopted.as_ref().filter(|_| self.is_open || planted("zk-read-of-diverged"))?;
        Some(StateView::reading(store))
    }

    /// Whether clients may see a state that has this transaction.
    pub(super) fn shows(&self, zxid: i64) -> bool {
        (self.is_open || planted("zk-read-of-diverged"))
            && self.adopted.as_ref().is_some_and(|(_, adopted)| *adopted >= zxid)
    }

    /// The attachment of a session, as clients may know it.
    pub(super) fn attachment(&self, session: i64) -> Option<i32> {
        sessions::attachment(&self.view()?, session)
    }
}

#[cfg(test)]
mod tests;
