//! This replica's own checkpoints: which are durable, which are being written or given up, and up to which of them the log may go.
//!
//! INV-NODE-6: the log is trimmed only up to a checkpoint that is durable here, and never up to the newest one: with the one before it
//! and the log since, a rotten newest checkpoint costs time and no data. Tests: `own/tests.rs`.

use quorate_state::agreement::Agreement;
use quorate_state::store::Version;
use quorate_types::{Digest, Seq};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Versions at borders that are not agreed yet are kept up to this many: a replica that has diverged compares them.
const RECENT_MAX: usize = 2;

/// A checkpoint of this replica that is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Own {
    pub(crate) seq: Seq,
    pub(crate) digest: Digest,
    /// Where the log stood when it was written: what lies before is older.
    pub(crate) log_position: u64,
}

/// What the keeper has, and what it was told.
#[derive(Default)]
pub(super) struct OwnCheckpoints {
    /// Oldest first.
    durable: VecDeque<Own>,
    /// The borders that the keeper is to write, or works at: their seqs. It skips those that come while it writes.
    writing: BTreeSet<Seq>,
    /// The keeper was told to give up its checkpoints above these seqs, and did not say yet that it did.
    giving_up: VecDeque<Seq>,
    /// What was stable at the borders of `durable` and `writing`: a slow disk writes while many borders come, and what the members say is
    /// known of the newest only.
    stable: BTreeMap<Seq, Digest>,
    /// The state at borders whose digest is not agreed on yet.
    recent: BTreeMap<Seq, Version>,
}

impl OwnCheckpoints {
    /// A checkpoint became durable.
    pub(super) fn written(&mut self, own: Own) {
        self.durable.retain(|other| other.seq < own.seq);
        self.durable.push_back(own);
    }

    /// Those that are durable, oldest first.
    pub(super) fn durable(&self) -> impl DoubleEndedIterator<Item = &Own> {
        self.durable.iter()
    }

    /// The seq of the newest durable one; 0 when there is none.
    pub(super) fn newest(&self) -> Seq {
        self.durable.back().map_or(Seq::ZERO, |own| own.seq)
    }

    /// Whether the checkpoint of this seq is durable here.
    pub(super) fn has(&self, seq: Seq) -> bool {
        self.durable.iter().any(|own| own.seq == seq)
    }

    /// The state was repaired, or the log trimmed: those before this one are for nobody.
    pub(super) fn drop_before(&mut self, seq: Seq) {
        self.durable.retain(|own| own.seq >= seq);
    }

    /// Nothing can be read of this one, nor of what may build on it.
    pub(super) fn drop_from(&mut self, seq: Seq) {
        self.durable.retain(|own| own.seq < seq);
    }

    /// The keeper is to write what it has at this border.
    pub(super) fn writes(&mut self, seq: Seq) {
        self.writing.insert(seq);
    }

    /// The first border that the keeper is at.
    pub(super) fn writing(&self) -> Option<Seq> {
        self.writing.first().copied()
    }

    /// The keeper did not write it.
    pub(super) fn not_written(&mut self, seq: Seq) {
        self.writing.remove(&seq);
    }

    /// The keeper wrote this one, and skipped those before.
    pub(super) fn wrote_up_to(&mut self, seq: Seq) {
        self.writing.retain(|other| *other > seq);
    }

    /// The keeper is told to give up what is above this seq.
    pub(super) fn give_up(&mut self, above: Seq) {
        self.giving_up.push_back(above);
    }

    /// The state is wrong: only what lies up to this seq is of use, to start from.
    pub(super) fn discard(&mut self, above: Seq) {
        self.durable.retain(|own| own.seq <= above);
        self.give_up(above);
    }

    /// The keeper gave up what it was told to, the first time that it did not say so yet.
    pub(super) fn gave_up(&mut self) {
        self.giving_up.pop_front();
    }

    /// Whether what the keeper says of a checkpoint crossed the word that it goes.
    pub(super) fn gives_up(&self, seq: Seq) -> bool {
        self.giving_up.iter().any(|above| seq > *above)
    }

    /// Keeps the version at a border until its digest is agreed on. Gives back one that is kept no longer.
    pub(super) fn remember(&mut self, seq: Seq, version: Version) -> Option<Version> {
        self.recent.insert(seq, version);
        if self.recent.len() <= RECENT_MAX { None } else { self.recent.pop_first().map(|(_, old)| old) }
    }

    /// The version at a border, if it is still here.
    pub(super) fn version_at(&self, seq: Seq) -> Option<Version> {
        self.recent.get(&seq).cloned()
    }

    /// Versions up to an agreed border are not needed any more.
    pub(super) fn forget_versions(&mut self, up_to: Seq) -> Vec<Version> {
        let later = self.recent.split_off(&up_to.next());
        std::mem::replace(&mut self.recent, later).into_values().collect()
    }

    /// Another state takes the place of what all versions are of.
    pub(super) fn forget_all_versions(&mut self) -> Vec<Version> {
        std::mem::take(&mut self.recent).into_values().collect()
    }

    /// A member said what it has. What is stable stays so.
    pub(super) fn note_stable(&mut self, agreement: &Agreement) {
        let kept: Vec<Seq> =
            self.durable.iter().map(|own| own.seq).chain(self.writing.iter().copied()).collect();
        self.stable.retain(|seq, _| kept.contains(seq));
        for seq in kept {
            if let Some(digest) = agreement.agreed(seq).filter(|digest| agreement.is_stable(seq, *digest)) {
                self.stable.insert(seq, digest);
            }
        }
    }

    /// The first of them that the members agree on, as far as this replica knows. One that differs from what is agreed is of no use, and
    /// those before it may be all that there is to start from.
    fn vouched<'a>(
        &self,
        agreement: &Agreement,
        mut newest_first: impl Iterator<Item = &'a Own>,
    ) -> Option<Own> {
        if !agreement.trusts_one() {
            // Only what others can agree on without this replica; or could, if there is a later one for whoever is behind.
            let held = |own: &Own| agreement.own_report(own.seq).is_some_and(|said| said.held);
            let offers = self.durable.iter().any(|own| held(own) && agreement.is_stable(own.seq, own.digest));
            let was = |own: &Own| offers && self.stable.get(&own.seq) == Some(&own.digest);
            return newest_first.find(|own| agreement.is_stable(own.seq, own.digest) || was(own)).copied();
        }
        let (agreed, _) = agreement.newest()?;
        let sound = |own: &&Own| agreement.agreed(own.seq).is_none_or(|digest| digest == own.digest);
        newest_first.find(|own| own.seq <= agreed && sound(own)).copied()
    }

    /// The checkpoint up to which the log may be trimmed: never the newest, and an agreed one, unless the log since the last
    /// agreed one is too long.
    ///
    /// With a damaged log the newest one counts, too: what lies before it is of no use. `log`: where the log begins and ends.
    pub(super) fn trim_to(
        &self,
        agreement: &Agreement,
        log: (u64, u64),
        log_bytes_max: u64,
        damaged: bool,
    ) -> Option<Own> {
        let newest = self.durable.back()?.seq;
        let older = |own: &&Own| damaged || own.seq < newest;
        let vouched = self.vouched(agreement, self.durable.iter().rev().filter(older));
        // In bytes the log may not grow without end, agreed or not: with crash faults a replica may trust its own disk. With Byzantine faults
        // nobody could be told to trust it, too, and the disk fills up instead.
        if !agreement.trusts_one() {
            return vouched;
        }
        let kept_since = vouched.map_or(0, |own| own.log_position).max(log.0);
        if log.1.saturating_sub(kept_since) > log_bytes_max {
            return self.durable.iter().rev().find(older).copied().or(vouched);
        }
        vouched
    }

    /// What a replica that diverged at this border gives up: its checkpoints above the result. Where its log begins only after the slot
    /// of a checkpoint, `gone`, not all: if it stopped before the repair is durable, it would have a log that nothing leads to. It starts
    /// again from what it has, hears once more that it has diverged, and is repaired then.
    pub(super) fn diverged_above(&self, seq: Seq, gone: Seq) -> Seq {
        if gone == Seq::ZERO {
            return seq.previous();
        }
        let least = self.durable.iter().map(|own| own.seq).find(|own| *own >= gone);
        seq.previous().max(least.unwrap_or(gone))
    }
}

#[cfg(test)]
mod tests;
