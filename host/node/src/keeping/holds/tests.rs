use super::{Holds, IDLE};
use crate::keeping::own::Own;
use quorate_types::{Digest, ReplicaId, Seq, Span, Time};

const A: ReplicaId = ReplicaId::new(1);
const B: ReplicaId = ReplicaId::new(2);
const MAX: u64 = 1000;
const NOW: Time = Time::from_nanos(1);

fn seq(number: u64) -> Seq {
    Seq::new(number)
}

/// Checkpoints at seqs 10, 20 and so on, with 100 bytes of log between two of them.
fn own(count: u64) -> Vec<Own> {
    let own = |at: u64| Own { seq: seq(10 * at), digest: Digest::new([0; 32]), log_position: 100 * at };
    (1..=count).map(own).collect()
}

/// The seq up to which the log is trimmed, if all checkpoints but the newest would do.
fn trimmed(holds: &Holds, own: &[Own], begin: u64) -> Option<u64> {
    let (to, end) = (own[own.len() - 2], own[own.len() - 1].log_position);
    holds.hold_back(to, own.iter(), (begin, end), MAX).map(|own| own.seq.number())
}

#[test]
fn the_log_stays_from_what_is_fetched_until_its_members_are_there() {
    let (mut holds, own) = (Holds::default(), own(8));
    assert_eq!(trimmed(&holds, &own, 0), Some(70));
    holds.asked(NOW, A, seq(50), true);
    holds.asked(NOW, B, seq(30), true);
    assert_eq!((trimmed(&holds, &own, 0), holds.fetched()), (Some(30), vec![seq(30), seq(50)]));
    // The member has the checkpoint, and goes on with the log.
    holds.reached(B, seq(30), seq(80));
    assert_eq!((trimmed(&holds, &own, 0), holds.fetched()), (Some(30), vec![seq(50)]));
    holds.reached(B, seq(60), seq(80));
    assert_eq!(trimmed(&holds, &own, 0), Some(50));
    holds.reached(A, seq(40), seq(80));
    assert_eq!(trimmed(&holds, &own, 0), Some(50), "it was there before it asked");
    holds.left(A);
    assert_eq!((trimmed(&holds, &own, 0), holds.fetched()), (Some(60), vec![]));
    holds.reached(B, seq(80), seq(80));
    assert_eq!(trimmed(&holds, &own, 0), Some(70));
}

#[test]
fn who_asks_for_another_checkpoint_has_given_up_the_one_before() {
    let (mut holds, own) = (Holds::default(), own(8));
    holds.asked(NOW, A, seq(20), true);
    holds.asked(NOW, A, seq(40), true);
    assert_eq!((trimmed(&holds, &own, 0), holds.fetched()), (Some(40), vec![seq(40)]));
    holds.asked(NOW, A, seq(90), false);
    assert_eq!((trimmed(&holds, &own, 0), holds.fetched()), (Some(70), vec![]));
    // Between two checkpoints of this replica: the older one.
    holds.asked(NOW, A, seq(45), true);
    assert_eq!(trimmed(&holds, &own, 0), Some(40));
    // Older than all: nothing may be trimmed.
    holds.asked(NOW, A, seq(5), true);
    assert_eq!(trimmed(&holds, &own, 0), None);
}

#[test]
fn the_log_does_not_grow_beyond_its_limit_for_anybody() {
    let mut holds = Holds::default();
    holds.asked(NOW, A, seq(10), true);
    assert_eq!(trimmed(&holds, &own(11), 0), Some(10));
    assert_eq!(trimmed(&holds, &own(12), 0), Some(110));
    // What counts is what is there.
    assert_eq!(trimmed(&holds, &own(12), 300), Some(10));
}

/// A backup that was stopped while its connection stays open.
#[test]
fn who_asks_for_nothing_has_given_up() {
    let (mut holds, own) = (Holds::default(), own(8));
    holds.asked(NOW, A, seq(30), true);
    holds.asked(NOW.plus(Span::from_secs(10)), B, seq(50), true);
    assert_eq!(holds.deadline(), Some(NOW.plus(IDLE)));
    holds.expire(NOW.plus(Span::from_secs(299)));
    assert_eq!(holds.fetched(), [seq(30), seq(50)]);
    holds.expire(NOW.plus(IDLE));
    assert_eq!((holds.fetched(), trimmed(&holds, &own, 0)), (vec![seq(50)], Some(50)));
    // A peer that asks goes on.
    holds.asked(NOW.plus(IDLE), B, seq(50), true);
    holds.expire(NOW.plus(IDLE).plus(Span::from_secs(20)));
    assert_eq!(holds.fetched(), [seq(50)]);
    // A peer that has the whole checkpoint needs the log, however long it takes to execute that.
    holds.reached(B, seq(50), seq(80));
    holds.expire(NOW.plus(IDLE).plus(IDLE));
    assert_eq!((holds.deadline(), trimmed(&holds, &own, 0)), (None, Some(50)));
}
