//! Under which numbers operators are served; which checkpoints are kept.

use super::{Agreement, OPERATORS_MAX, Own, free_number, vouched};
use quorate_types::{ConnId, Digest, ReplicaId, Seq};
use std::collections::BTreeMap;

#[test]
fn no_operator_is_taken_for_a_member() {
    let high: Vec<ReplicaId> = [65_534, 65_533, 65_520].into_iter().map(ReplicaId::new).collect();
    let mut operators = BTreeMap::new();
    while let Some(number) = free_number(&operators, |id| high.contains(&id)) {
        assert!(!high.contains(&number), "{number} is a member");
        let conn = ConnId::new(operators.len() as u64);
        assert_eq!(operators.insert(number, conn), None, "{number} is served already");
    }
    assert_eq!(operators.len(), OPERATORS_MAX);
}

/// A state that was wrong before a restart left wrong checkpoints behind: those from before are not given up for them.
#[test]
fn a_checkpoint_that_differs_from_what_is_agreed_vouches_for_nothing() {
    let replicas: Vec<ReplicaId> = (1..=3).map(ReplicaId::new).collect();
    let mut agreement = Agreement::new(replicas[0], &replicas, 2);
    let right = |seq: u64| Digest::new([seq as u8; 32]);
    let own = |seq: u64, digest| Own { seq: Seq::new(seq), digest, log_position: 0 };
    for seq in [4, 6, 7] {
        for from in &replicas[1..] {
            drop(agreement.heard(*from, Seq::new(seq), right(seq), false));
        }
    }
    let all = [own(2, right(2)), own(4, right(4)), own(6, Digest::new([99; 32])), own(8, right(8))];
    let chosen = |upto: usize| vouched(all[..upto].iter().rev(), &agreement).map(|own| own.seq.number());
    assert_eq!(chosen(4), Some(4), "not 8, which is not agreed on yet, and not 6, which differs");
    assert_eq!(chosen(1), Some(2), "what was agreed on long ago is not known any more");
    assert_eq!(vouched(all.iter().rev(), &Agreement::new(replicas[0], &replicas, 2)), None);
}
