//! Under which numbers operators are served; which checkpoints are kept.

use super::{Agreement, Checkpoints, Installing, OPERATORS_MAX, Own, Why, free_number};
use crate::members::tests::joins;
use crate::system::tests::system;
use quorate_state::checkpoint::Image;
use quorate_state::store::Store;
use quorate_types::{ConnId, Digest, FaultModel, ReplicaId, Seq, Span, Time};
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
    let mut agreement = Agreement::new(replicas[0], &replicas, FaultModel::Crash);
    let right = |seq: u64| Digest::new([seq as u8; 32]);
    let own = |seq: u64, digest| Own { seq: Seq::new(seq), digest, log_position: 0 };
    for seq in [4, 6, 7] {
        for from in &replicas[1..] {
            drop(agreement.heard(*from, Seq::new(seq), right(seq), false));
        }
    }
    let all = [own(2, right(2)), own(4, right(4)), own(6, Digest::new([99; 32])), own(8, right(8))];
    let mut checkpoints = Checkpoints::new(&joins());
    checkpoints.agreement = agreement;
    let chosen = |upto: usize| checkpoints.vouched(all[..upto].iter().rev()).map(|own| own.seq.number());
    assert_eq!(chosen(4), Some(4), "not 8, which is not agreed on yet, and not 6, which differs");
    assert_eq!(chosen(1), Some(2), "what was agreed on long ago is not known any more");
    checkpoints.agreement = Agreement::new(replicas[0], &replicas, FaultModel::Crash);
    assert_eq!(checkpoints.vouched(all.iter().rev()), None);
}

/// Once its log was trimmed, others may have the oldest checkpoint that is left after a restart, and none that may never have been agreed on.
#[test]
fn a_restart_stands_for_the_oldest_checkpoint_that_is_left() {
    let held = |gone: u64, trimmed: u64| {
        let mut checkpoints = Checkpoints::new(&joins());
        checkpoints.gone = Seq::new(gone);
        for seq in [35, 37].map(Seq::new) {
            let digest = Digest::new([seq.number() as u8; 32]);
            checkpoints.own.push_back(Own { seq, digest, log_position: 0 });
            drop(checkpoints.agreement.own(seq, digest, true));
        }
        checkpoints.stand_for(Seq::new(trimmed), None);
        [35, 37].map(|seq| checkpoints.agreement.own_report(Seq::new(seq)).is_some_and(|own| own.held))
    };
    assert_eq!(held(33, 33), [true, false]);
    assert_eq!(held(37, 37), [true, true], "those before it were about to go");
    assert_eq!(held(37, 33), [true, false], "the log ended before 37, and was not given up for it");
    assert_eq!(held(0, 0), [false, false], "the log has all that led to them");
}

/// A replica that fetched the checkpoint of 1000, which there was no room for, and goes on by the log meanwhile.
fn waits_for_room(why: Why) -> Checkpoints {
    let mut checkpoints = Checkpoints::new(&joins());
    let system = system();
    let objects = Store::new().version();
    let image = Image { seq: system.seq, border: system.border, system: system.encode(), objects };
    checkpoints.installing = Some(Installing { image, system, digest: Digest::new([7; 32]), why });
    checkpoints.install_at = Some(Time::ZERO.plus(Span::from_secs(2)));
    checkpoints
}

/// The log begins after the later one of its own: with the one that was fetched in its place it could not start again.
#[test]
fn what_was_fetched_does_not_replace_what_the_log_brought_since() {
    let mut checkpoints = waits_for_room(Why::Behind);
    assert!(checkpoints.transfers() && !checkpoints.drop_late(Seq::new(999)));
    assert_eq!(checkpoints.next_install().map(|image| image.seq), Some(Seq::new(1000)), "still of use");
    checkpoints.written(Own { seq: Seq::new(1400), digest: Digest::new([1; 32]), log_position: 0 });
    assert!(checkpoints.drop_late(Seq::new(1400)), "the log brought it further");
    assert!(checkpoints.next_install().is_none() && !checkpoints.transfers());
    assert_eq!((checkpoints.install_at, checkpoints.deadline()), (None, None), "nothing is tried again");
}

/// What it executed is not what the others have, however far it came.
#[test]
fn a_wrong_state_goes_back() {
    let mut checkpoints = waits_for_room(Why::Diverged);
    assert!(!checkpoints.drop_late(Seq::new(1400)));
    assert_eq!(checkpoints.next_install().map(|image| image.seq), Some(Seq::new(1000)));
}

/// With crash faults a log that grows too long is trimmed by a checkpoint that only this replica has; with Byzantine faults by none that too
/// few others could agree on without it.
#[test]
fn with_byzantine_faults_only_what_a_quorum_reported_is_trimmed_to() {
    let replicas: Vec<ReplicaId> = (1..=4).map(ReplicaId::new).collect();
    let right = |seq: u64| Digest::new([seq as u8; 32]);
    for model in [FaultModel::Crash, FaultModel::Byzantine] {
        let mut checkpoints = Checkpoints::new(&joins());
        checkpoints.agreement = Agreement::new(replicas[3], &replicas, model);
        for seq in [10, 20, 30] {
            checkpoints.written(Own { seq: Seq::new(seq), digest: right(seq), log_position: seq * 100 });
            drop(checkpoints.agreement.own(Seq::new(seq), right(seq), true));
        }
        let to = |checkpoints: &Checkpoints, log_bytes_max| {
            checkpoints.trim_to((0, 4000), log_bytes_max, false).map(|own| own.seq.number())
        };
        let crash = model == FaultModel::Crash;
        assert_eq!(
            (to(&checkpoints, 9000), to(&checkpoints, 1000)),
            (None, crash.then_some(20)),
            "nobody else was there"
        );
        drop(checkpoints.agreement.heard(replicas[0], Seq::new(20), right(20), true));
        assert_eq!(to(&checkpoints, 1000), crash.then_some(20), "one of the two may be a liar");
        drop(checkpoints.agreement.heard(replicas[1], Seq::new(30), right(30), true));
        drop(checkpoints.agreement.heard(replicas[0], Seq::new(30), right(30), true));
        assert_eq!(to(&checkpoints, 9000), crash.then_some(20), "30 is the newest, and of 20 too few know");
        drop(checkpoints.agreement.heard(replicas[1], Seq::new(20), right(20), true));
        assert_eq!(to(&checkpoints, 9000), Some(20), "{model:?}");
    }
}

/// A slow disk: so many borders come while it writes that nobody knows any more what was said of the one that it writes.
#[test]
fn what_was_stable_while_it_was_written_is_trimmed_to() {
    let replicas: Vec<ReplicaId> = (1..=4).map(ReplicaId::new).collect();
    let right = |seq: u64| Digest::new([seq as u8; 32]);
    for (noted, to) in [(true, Some(10)), (false, None)] {
        let mut checkpoints = Checkpoints::new(&joins());
        checkpoints.agreement = Agreement::new(replicas[3], &replicas, FaultModel::Byzantine);
        checkpoints.writing.extend([10, 90].map(Seq::new));
        for seq in 10..=90 {
            for from in &replicas[..3] {
                drop(checkpoints.agreement.heard(*from, Seq::new(seq), right(seq), false));
                if noted {
                    checkpoints.note_stable();
                }
            }
        }
        for seq in [10, 90] {
            checkpoints.written(Own { seq: Seq::new(seq), digest: right(seq), log_position: 0 });
            checkpoints.writing.remove(&Seq::new(seq));
            checkpoints.note_stable();
        }
        let trims = |checkpoints: &Checkpoints| checkpoints.trim_to((0, 0), u64::MAX, false);
        assert_eq!(trims(&checkpoints), None, "nobody was told of a checkpoint to fetch instead of the log");
        drop(checkpoints.agreement.own(Seq::new(90), right(90), true));
        assert_eq!(trims(&checkpoints).map(|own| own.seq.number()), to);
    }
    let mut checkpoints = Checkpoints::new(&joins());
    checkpoints.agreement = Agreement::new(replicas[3], &replicas, FaultModel::Byzantine);
    checkpoints.stable.insert(Seq::new(10), right(10));
    for seq in [10, 20] {
        checkpoints.written(Own { seq: Seq::new(seq), digest: right(99), log_position: 0 });
    }
    assert_eq!(checkpoints.trim_to((0, 0), u64::MAX, false), None, "another digest than the stable one");
}
