//! The client follows the cluster into another era, in which replicas are trusted in another way.
//!
//! Each replica of a later era than the first says so when the client connects. As many must say the same of an era that one of them tells the
//! truth, under the faults of the era that the client knows and under those of the one that it is told of: one where replicas only crash,
//! f+1 where they may lie. Until then no connection to a replica of another era is used, since its answers follow other rules. Then everything is counted anew by the rules of the new era, and everything without an answer is sent again.
//! That is harmless: sessions and their replies outlive the era, so the cluster runs each number of a session once.
//! Rules: docs/protocols/eras.md, E13 to E15. Tests: tests/eras.rs.

use quorate_types::{ReplicaId, Trust, planted};
use quorate_wire::{Era, EraNotice};
use std::collections::BTreeMap;

/// What members say of later eras: the newest word of each.
#[derive(Debug, Default)]
pub(crate) struct Eras {
    words: BTreeMap<ReplicaId, EraNotice>,
}

impl Eras {
    /// A member of the era with this number says which era it is in. Gives that era if it is to be believed now. [E13, E14]
    pub(crate) fn tells(
        &mut self,
        (present, trust): (u64, Trust),
        from: ReplicaId,
        notice: EraNotice,
    ) -> Option<Era> {
        if notice.era.number <= present {
            return None;
        }
        self.words.insert(from, notice.clone());
        let same = |word: &&EraNotice| **word == notice;
        let theirs = notice.era.faults.counted().among(trust.members()).truth();
        let needed = if planted("client-era-of-one") { 1 } else { trust.truth().max(theirs) as usize };
        (self.words.values().filter(same).count() >= needed).then_some(notice.era)
    }

    /// This is the present era from now on: words about it and earlier ones are of no use.
    pub(crate) fn follow(&mut self, number: u64) {
        self.words.retain(|_, word| word.era.number > number);
    }
}
