//! What liars sign is turned into proofs against them, and only against them: the world checks each.

use super::How;
use crate::mod_smart::evidence::EvidenceKind;
use crate::mod_smart::tests::chaos;
use crate::mod_smart::tests::world::Plan;
use std::collections::BTreeMap;

/// How often each kind was proved against one liar among four.
fn proved(how: How, plan: Plan, seeds: u64) -> BTreeMap<EvidenceKind, u64> {
    let mut counts = BTreeMap::new();
    for seed in chaos::seeds(seeds) {
        for evidence in chaos::schedule(seed, plan, &[how]).proved {
            *counts.entry(evidence.kind).or_insert(0) += 1;
        }
    }
    counts
}

/// What no honest member signs is proved, by whatever liar; short time-outs give many views, in which statements are compared.
#[test]
fn what_liars_sign_proves_it() {
    use EvidenceKind::*;
    let hasty = Plan { configure: chaos::hasty, ..Plan::byzantine(4) };
    for (how, kinds) in [
        (How::Equivocate, vec![TwoAccepts, AcceptDenied]),
        (How::DoubleVotes, vec![AcceptDenied]),
        (How::Inventive, vec![TwoStatements, ImpossibleStatement]),
        (How::Forgetful, vec![TwoStatements, AcceptDenied]),
    ] {
        let counts = proved(how, hasty, 10);
        assert!(kinds.iter().all(|kind| counts.contains_key(kind)), "{how:?}: {counts:?}");
    }
}

/// Liars that sign nothing false are not proved to lie: what they do is seen on links only, or not at all.
#[test]
fn what_is_not_signed_is_not_proved() {
    for how in [How::Silent, How::Selective, How::Replay, How::Mutate, How::KeepsProofs] {
        assert_eq!(proved(how, Plan::byzantine(4), 5), BTreeMap::new(), "{how:?}");
    }
}
