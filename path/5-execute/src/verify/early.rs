//! Tokens of batches that were not known to be decided when their executors told them. Such a token counts once its batch is delivered here, if that
//! was decided in the view in which the executor saw it proposed: then everything before it is the same, too.
//!
//! Docs: docs/protocols/verify.md (V16). Tests: early/tests.rs.

use super::Verify;
use quorate_types::{Digest, ReplicaId, Seq, Time, View, planted};
use quorate_wire::EarlyTokens;
use std::collections::BTreeMap;

/// Tokens for seqs further beyond what was delivered here are not kept.
const AHEAD_MAX: u64 = 1024;

/// What was told early.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// By seq and executor: the attempt, the view of the proposal, and the token.
    told: BTreeMap<Seq, BTreeMap<ReplicaId, (u64, View, Digest)>>,
    /// The views in which batches were decided that are delivered, and wait for a ruling.
    views: BTreeMap<Seq, View>,
}

impl Early {
    /// Everything up to here is delivered, and everything up to the ruling was ruled.
    pub(super) fn delivered(&mut self, delivered: Seq, ruled: Seq) {
        if !self.told.is_empty() {
            self.told = self.told.split_off(&delivered.next());
        }
        if !self.views.is_empty() {
            self.views = self.views.split_off(&ruled);
        }
    }
}

impl Verify {
    /// An executor, or this replica, tells what batches did that were proposed in a view. Gives back the tokens that it told for the first time.
    pub fn heard_early(&mut self, now: Time, from: ReplicaId, tokens: &EarlyTokens) -> Vec<(Seq, Digest)> {
        let (attempt, view) = (tokens.attempt, tokens.view);
        if !self.executors.contains(&from) || self.is_now(attempt).is_none() {
            self.refused += tokens.list.len() as u64;
            return Vec::new();
        }
        let (mut first, delivered) = (Vec::new(), self.delivered);
        for (seq, token) in tokens.list.iter().copied() {
            if seq <= delivered {
                self.count_early(from, seq, (attempt, view, token));
                continue;
            }
            if seq.number() > delivered.number().saturating_add(AHEAD_MAX) {
                self.refused += 1;
                continue;
            }
            let told = self.early.told.entry(seq).or_default();
            match told.get(&from) {
                // It tells one token for each attempt, seq and view.
                Some((of, in_view, before)) if (*of, *in_view) == (attempt, view) => {
                    self.refused += u64::from(*before != token);
                }
                _ => {
                    told.insert(from, (attempt, view, token));
                    first.push((seq, token));
                }
            }
        }
        self.look(now);
        first
    }

    /// What this replica told early of batches that are not delivered here.
    pub fn own_early(&self) -> Vec<EarlyTokens> {
        let mut all: Vec<EarlyTokens> = Vec::new();
        for (seq, told) in &self.early.told {
            let Some(&(attempt, view, token)) = told.get(&self.config.me) else { continue };
            match all.last_mut().filter(|last| (last.attempt, last.view) == (attempt, view)) {
                Some(last) => last.list.push((*seq, token)),
                None => all.push(EarlyTokens { attempt, view, list: vec![(*seq, token)] }),
            }
        }
        all
    }

    /// The batch of this seq is delivered, and was decided in this view: what was told of it early counts from now on.
    pub fn placed(&mut self, seq: Seq, view: View) {
        self.early.views.insert(seq, view);
        for (from, told) in self.early.told.remove(&seq).unwrap_or_default() {
            self.count_early(from, seq, told);
        }
    }

    /// Counts what an executor told of a batch that is delivered, if it was about that batch.
    fn count_early(&mut self, from: ReplicaId, seq: Seq, told: (u64, View, Digest)) {
        let (attempt, view, token) = told;
        let is_it = self.early.views.get(&seq) == Some(&view) || planted("another-proposal-counts");
        match self.is_now(attempt).filter(|_| is_it) {
            Some(now) => drop(self.count(from, now, seq, token)),
            None => self.refused += 1,
        }
    }

    /// Whether this is the present attempt, or the next one.
    fn is_now(&self, attempt: u64) -> Option<bool> {
        let next = self.ruled.attempt.checked_add(1);
        (attempt == self.ruled.attempt || Some(attempt) == next).then_some(attempt == self.ruled.attempt)
    }
}

#[cfg(test)]
pub(crate) mod tests;
