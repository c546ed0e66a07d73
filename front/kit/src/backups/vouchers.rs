//! Which replica reports which digest for a checkpoint. A digest is agreed once a majority of the members reports it, at least two where
//! there are two: one replica alone may have diverged.
//!
//! Replicas agree by the same rule (`quorate_state::agreement`). An operator's program is no member and has no state to compare.

use quorate_state::agreement::{BORDERS_MAX, Offer, needed};
use quorate_types::{Digest, FaultModel, Faults, ReplicaId, Seq};
use std::collections::{BTreeMap, BTreeSet};

/// A replica's report on a border.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Report {
    digest: Digest,
    held: bool,
}

/// The replicas' reports.
#[derive(Debug)]
pub(super) struct Vouchers {
    needed: usize,
    said: BTreeMap<ReplicaId, BTreeMap<Seq, Report>>,
}

impl Vouchers {
    /// No reports of these members yet.
    pub(super) fn new(members: impl IntoIterator<Item = ReplicaId>) -> Self {
        let said: BTreeMap<_, _> = members.into_iter().map(|member| (member, BTreeMap::new())).collect();
        // A majority is more than enough with Byzantine faults, and there are as many honest members.
        Self { needed: needed(Faults::of(FaultModel::Crash), said.len()), said }
    }

    /// How many must report the same digest.
    pub(super) fn needed(&self) -> usize {
        self.needed
    }

    /// Notes a replica's report on a border. Only its newest borders are kept.
    pub(super) fn heard(&mut self, from: ReplicaId, seq: Seq, digest: Digest, held: bool) {
        let Some(reports) = self.said.get_mut(&from) else { return };
        reports.insert(seq, Report { digest, held });
        if reports.len() > BORDERS_MAX {
            reports.pop_first();
        }
    }

    /// Notes that a replica does not hold this checkpoint (any more).
    pub(super) fn not_held(&mut self, from: ReplicaId, seq: Seq, digest: Digest) {
        let report = self.said.get_mut(&from).and_then(|reports| reports.get_mut(&seq));
        if let Some(report) = report.filter(|report| report.digest == digest) {
            report.held = false;
        }
    }

    /// The replicas that report this digest for this border.
    pub(super) fn of(&self, seq: Seq, digest: Digest) -> Vec<ReplicaId> {
        self.at(seq).filter(|(_, report)| report.digest == digest).map(|(from, _)| from).collect()
    }

    /// The agreed checkpoints from `at_least` on that some replica holds, the newest first.
    pub(super) fn offers(&self, at_least: Seq) -> Vec<Offer> {
        let mut offers = Vec::new();
        for seq in self.seqs(at_least) {
            let Some(digest) = self.agreed(seq) else { continue };
            let held = self.at(seq).filter(|(_, report)| report.digest == digest && report.held);
            let holders: Vec<ReplicaId> = held.map(|(from, _)| from).collect();
            if !holders.is_empty() {
                offers.push(Offer { seq, digest, holders });
            }
        }
        offers
    }

    /// The newest border from `at_least` on that is agreed, whether a replica holds its checkpoint or not.
    pub(super) fn newest(&self, at_least: Seq) -> Option<Seq> {
        self.seqs(at_least).find(|seq| self.agreed(*seq).is_some())
    }

    /// The reports on the newest border, if they differ so much that no digest can get enough of them.
    pub(super) fn differ(&self, at_least: Seq) -> Option<(Seq, Vec<(ReplicaId, Digest)>)> {
        let seq = self.seqs(at_least).next()?;
        let said: Vec<_> = self.at(seq).map(|(from, report)| (from, report.digest)).collect();
        let best = said.iter().map(|(_, digest)| self.of(seq, *digest).len()).max().unwrap_or(0);
        (best + self.said.len() - said.len() < self.needed).then_some((seq, said))
    }

    fn agreed(&self, seq: Seq) -> Option<Digest> {
        let digests: BTreeSet<Digest> = self.at(seq).map(|(_, report)| report.digest).collect();
        digests.into_iter().find(|digest| self.of(seq, *digest).len() >= self.needed)
    }

    fn at(&self, seq: Seq) -> impl Iterator<Item = (ReplicaId, Report)> + '_ {
        self.said.iter().filter_map(move |(from, reports)| Some((*from, *reports.get(&seq)?)))
    }

    /// All borders that were reported, the newest first.
    fn seqs(&self, at_least: Seq) -> impl Iterator<Item = Seq> + use<> {
        let seqs = self.said.values().flat_map(|reports| reports.range(at_least..).map(|(seq, _)| *seq));
        seqs.collect::<BTreeSet<Seq>>().into_iter().rev()
    }
}

#[cfg(test)]
mod tests;
