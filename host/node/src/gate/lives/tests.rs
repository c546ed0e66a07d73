//! Lives that are written down are restored; contradictions are noticed.

use super::*;

fn replica(id: u16) -> ReplicaId {
    ReplicaId::new(id)
}

#[test]
fn lives_come_back_from_their_records() {
    let mut lives = Lives::default();
    let (own, record) = lives.begin(replica(1), 7);
    let other = lives.learn(replica(2), 99);
    assert!(lives.learn(replica(2), 99).is_none(), "known already");
    let mut again = Lives::default();
    for record in [record, other] {
        again.restore(&record.expect("news")).expect("a record of ours");
    }
    assert_eq!(again.begin(replica(1), 8), (own, None), "another start, the same life");
    assert!(again.fits(replica(2), 99) && !again.fits(replica(2), 98) && again.fits(replica(3), 1));
    assert!(again.is_known(replica(2)) && !again.is_known(replica(3)));
}

#[test]
fn a_log_with_two_lives_of_one_member_is_not_trusted() {
    let record = Lives::default().learn(replica(2), 1).expect("news");
    let other = Lives::default().learn(replica(2), 2).expect("news");
    let mut lives = Lives::default();
    lives.restore(&record).expect("the first");
    assert!(matches!(lives.restore(&other), Err(Halt::LogInconsistent { .. })));
    let cut = Record { head: record.head.slice(..5), ..record };
    assert!(matches!(lives.restore(&cut), Err(Halt::LogInconsistent { .. })));
}
