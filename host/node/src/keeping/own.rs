//! This replica's own checkpoints: which are durable, which are being written or given up, and up to which of them the log may be trimmed.
//!
//! INV-NODE-6: the log is trimmed only up to a checkpoint that is durable here, and never up to the newest one. So if the newest checkpoint
//! is rotten, the one before and the log since then still give all data. Tests: `own/tests.rs`.

use quorate_state::agreement::Agreement;
use quorate_state::store::Version;
use quorate_types::{Digest, Seq};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The most versions at borders to keep before their digests are agreed on. A replica that has diverged compares them.
const RECENT_MAX: usize = 2;

/// A durable checkpoint of this replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Own {
    pub(crate) seq: Seq,
    pub(crate) digest: Digest,
    /// Where the log ended when the checkpoint was written: the log before that is older.
    pub(crate) log_position: u64,
}

/// The checkpoints that the keeper has, and those that it was told to write or to give up.
#[derive(Default)]
pub(super) struct OwnCheckpoints {
    /// The durable ones, oldest first.
    durable: VecDeque<Own>,
    /// The seqs of borders that the keeper must write or is writing. It skips those that come while it writes.
    writing: BTreeSet<Seq>,
    /// The keeper was told to give up its checkpoints above these seqs, and has not confirmed it yet.
    giving_up: VecDeque<Seq>,
    /// The agreed digests at the borders of `durable` and `writing`. They are kept here because a slow disk writes while many borders come,
    /// and what members say is kept only for the newest ones.
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

    /// The durable checkpoints, oldest first.
    pub(super) fn durable(&self) -> impl DoubleEndedIterator<Item = &Own> {
        self.durable.iter()
    }

    /// The seq of the newest durable checkpoint; 0 if there is none.
    pub(super) fn newest(&self) -> Seq {
        self.durable.back().map_or(Seq::ZERO, |own| own.seq)
    }

    /// Whether the checkpoint of this seq is durable here.
    pub(super) fn has(&self, seq: Seq) -> bool {
        self.durable.iter().any(|own| own.seq == seq)
    }

    /// Drops the checkpoints before this one, since the state was repaired or the log trimmed.
    pub(super) fn drop_before(&mut self, seq: Seq) {
        self.durable.retain(|own| own.seq >= seq);
    }

    /// Drops an unreadable checkpoint, and later ones that may build on it.
    pub(super) fn drop_from(&mut self, seq: Seq) {
        self.durable.retain(|own| own.seq < seq);
    }

    /// The keeper must write the checkpoint at this border.
    pub(super) fn writes(&mut self, seq: Seq) {
        self.writing.insert(seq);
    }

    /// The first border that the keeper must write or is writing.
    pub(super) fn writing(&self) -> Option<Seq> {
        self.writing.first().copied()
    }

    /// The keeper did not write this one.
    pub(super) fn not_written(&mut self, seq: Seq) {
        self.writing.remove(&seq);
    }

    /// The keeper wrote this one, and skipped those before.
    pub(super) fn wrote_up_to(&mut self, seq: Seq) {
        self.writing.retain(|other| *other > seq);
    }

    /// The keeper was told to give up its checkpoints above this seq.
    pub(super) fn give_up(&mut self, above: Seq) {
        self.giving_up.push_back(above);
    }

    /// The state is wrong: only checkpoints up to this seq are of use, to start from.
    pub(super) fn discard(&mut self, above: Seq) {
        self.durable.retain(|own| own.seq <= above);
        self.give_up(above);
    }

    /// The keeper confirmed the first order to give up checkpoints that was still open.
    pub(super) fn gave_up(&mut self) {
        self.giving_up.pop_front();
    }

    /// Whether the keeper may have reported this checkpoint before it took the order to give it up.
    pub(super) fn gives_up(&self, seq: Seq) -> bool {
        self.giving_up.iter().any(|above| seq > *above)
    }

    /// Keeps the version at a border until its digest is agreed on. Gives back a version that is no longer kept.
    pub(super) fn remember(&mut self, seq: Seq, version: Version) -> Option<Version> {
        self.recent.insert(seq, version);
        if self.recent.len() <= RECENT_MAX { None } else { self.recent.pop_first().map(|(_, old)| old) }
    }

    /// The version at a border, if it is kept.
    pub(super) fn version_at(&self, seq: Seq) -> Option<Version> {
        self.recent.get(&seq).cloned()
    }

    /// Drops the versions up to an agreed border.
    pub(super) fn forget_versions(&mut self, up_to: Seq) -> Vec<Version> {
        let later = self.recent.split_off(&up_to.next());
        std::mem::replace(&mut self.recent, later).into_values().collect()
    }

    /// Drops all versions, since another state replaces the one they belong to.
    pub(super) fn forget_all_versions(&mut self) -> Vec<Version> {
        std::mem::take(&mut self.recent).into_values().collect()
    }

    /// A member said what it has. Digests that are agreed on are noted, and stay.
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

    /// The first checkpoint that the members agree on, as far as this replica knows. One that differs from the agreed one is of no use, and
    /// those before it may be all that there is to start from.
    fn vouched<'a>(
        &self,
        agreement: &Agreement,
        mut newest_first: impl Iterator<Item = &'a Own>,
    ) -> Option<Own> {
        if !agreement.trusts_one() {
            // It counts only if others can agree on it without this replica, or could but have a later one for replicas that lag.
            let held = |own: &Own| agreement.own_report(own.seq).is_some_and(|said| said.held);
            let offers = self.durable.iter().any(|own| held(own) && agreement.is_stable(own.seq, own.digest));
            let was = |own: &Own| offers && self.stable.get(&own.seq) == Some(&own.digest);
            return newest_first.find(|own| agreement.is_stable(own.seq, own.digest) || was(own)).copied();
        }
        let (agreed, _) = agreement.newest()?;
        let sound = |own: &&Own| agreement.agreed(own.seq).is_none_or(|digest| digest == own.digest);
        newest_first.find(|own| own.seq <= agreed && sound(own)).copied()
    }

    /// The checkpoint up to which the log may be trimmed. It is never the newest one, and it is agreed on, unless the log since the last
    /// agreed one is too long.
    ///
    /// With a damaged log the newest one counts, too: the log before it is of no use. `log`: the bytes at which the log begins and ends.
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
        // The log must not grow without end. With crash faults a replica may trust its own disk, agreed or not. With Byzantine faults
        // others could not be told to trust it, and the disk fills up instead.
        if !agreement.trusts_one() {
            return vouched;
        }
        let kept_since = vouched.map_or(0, |own| own.log_position).max(log.0);
        if log.1.saturating_sub(kept_since) > log_bytes_max {
            return self.durable.iter().rev().find(older).copied().or(vouched);
        }
        vouched
    }

    /// The seq above which a replica that diverged at this border gives up its checkpoints. If its log begins only after the checkpoint
    /// `gone`, some must stay: if the replica stopped before the repair is durable, nothing would lead to its log. It would start from what
    /// it has, hear again that it has diverged, and be repaired then.
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
