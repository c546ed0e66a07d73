//! Up to which checkpoint the log may be trimmed.

use super::{Own, OwnCheckpoints};
use quorate_state::agreement::Agreement;
use quorate_types::{Digest, FaultModel, ReplicaId, Seq};

/// A state that was wrong before a restart has left wrong checkpoints: sound ones from before are not given up for them.
#[test]
fn a_checkpoint_that_differs_from_what_is_agreed_vouches_for_nothing() {
    let replicas: Vec<ReplicaId> = (1..=3).map(ReplicaId::new).collect();
    let mut agreement = Agreement::new(replicas[0], &replicas, FaultModel::Crash);
    let right = |seq: u64| Digest::new([seq as u8; 32]);
    let own = |seq: u64, digest| Own { seq: Seq::new(seq), digest, log_position: 0 };
    for seq in [4, 6, 7] {
        for from in &replicas[1..] {
            drop(agreement.heard(*from, Seq::new(seq), right(seq), false));
        }
    }
    let all = [own(2, right(2)), own(4, right(4)), own(6, Digest::new([99; 32])), own(8, right(8))];
    let checkpoints = OwnCheckpoints::default();
    let chosen = |agreement: &Agreement, upto: usize| {
        checkpoints.vouched(agreement, all[..upto].iter().rev()).map(|own| own.seq.number())
    };
    assert_eq!(chosen(&agreement, 4), Some(4), "not 8, which is not agreed on yet, and not 6, which differs");
    assert_eq!(chosen(&agreement, 1), Some(2), "what was agreed on long ago is not known any more");
    let nothing = Agreement::new(replicas[0], &replicas, FaultModel::Crash);
    assert_eq!(chosen(&nothing, 4), None);
}

/// With crash faults, a log that grows too long is trimmed by a checkpoint that only this replica has. With Byzantine faults, it is not
/// trimmed by a checkpoint that too few others could agree on without this replica.
#[test]
fn with_byzantine_faults_only_what_a_quorum_reported_is_trimmed_to() {
    let replicas: Vec<ReplicaId> = (1..=4).map(ReplicaId::new).collect();
    let right = |seq: u64| Digest::new([seq as u8; 32]);
    for model in [FaultModel::Crash, FaultModel::Byzantine] {
        let mut checkpoints = OwnCheckpoints::default();
        let mut agreement = Agreement::new(replicas[3], &replicas, model);
        for seq in [10, 20, 30] {
            checkpoints.written(Own { seq: Seq::new(seq), digest: right(seq), log_position: seq * 100 });
            drop(agreement.own(Seq::new(seq), right(seq), true));
        }
        let to = |agreement: &Agreement, log_bytes_max| {
            checkpoints.trim_to(agreement, (0, 4000), log_bytes_max, false).map(|own| own.seq.number())
        };
        let crash = model == FaultModel::Crash;
        assert_eq!(
            (to(&agreement, 9000), to(&agreement, 1000)),
            (None, crash.then_some(20)),
            "nobody else was there"
        );
        drop(agreement.heard(replicas[0], Seq::new(20), right(20), true));
        assert_eq!(to(&agreement, 1000), crash.then_some(20), "one of the two may be a liar");
        drop(agreement.heard(replicas[1], Seq::new(30), right(30), true));
        drop(agreement.heard(replicas[0], Seq::new(30), right(30), true));
        assert_eq!(to(&agreement, 9000), crash.then_some(20), "30 is the newest, and of 20 too few know");
        drop(agreement.heard(replicas[1], Seq::new(20), right(20), true));
        assert_eq!(to(&agreement, 9000), Some(20), "{model:?}");
    }
}

/// A slow disk. While it writes a checkpoint, many borders come, and what members said of its border is forgotten.
#[test]
fn what_was_stable_while_it_was_written_is_trimmed_to() {
    let replicas: Vec<ReplicaId> = (1..=4).map(ReplicaId::new).collect();
    let right = |seq: u64| Digest::new([seq as u8; 32]);
    for (noted, to) in [(true, Some(10)), (false, None)] {
        let mut checkpoints = OwnCheckpoints::default();
        let mut agreement = Agreement::new(replicas[3], &replicas, FaultModel::Byzantine);
        for seq in [10, 90] {
            checkpoints.writes(Seq::new(seq));
        }
        for seq in 10..=90 {
            for from in &replicas[..3] {
                drop(agreement.heard(*from, Seq::new(seq), right(seq), false));
                if noted {
                    checkpoints.note_stable(&agreement);
                }
            }
        }
        for seq in [10, 90] {
            checkpoints.written(Own { seq: Seq::new(seq), digest: right(seq), log_position: 0 });
            checkpoints.not_written(Seq::new(seq));
            checkpoints.note_stable(&agreement);
        }
        let trims = |agreement: &Agreement| checkpoints.trim_to(agreement, (0, 0), u64::MAX, false);
        assert_eq!(trims(&agreement), None, "nobody was told of a checkpoint to fetch instead of the log");
        drop(agreement.own(Seq::new(90), right(90), true));
        assert_eq!(trims(&agreement).map(|own| own.seq.number()), to);
    }
    let mut checkpoints = OwnCheckpoints::default();
    let agreement = Agreement::new(replicas[3], &replicas, FaultModel::Byzantine);
    checkpoints.stable.insert(Seq::new(10), right(10));
    for seq in [10, 20] {
        checkpoints.written(Own { seq: Seq::new(seq), digest: right(99), log_position: 0 });
    }
    assert_eq!(
        checkpoints.trim_to(&agreement, (0, 0), u64::MAX, false),
        None,
        "another digest than the stable one"
    );
}
