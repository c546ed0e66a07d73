//! The parts that stand by themselves; whole nodes are in check/sim.

use super::*;

const LIMITS: HeardLimits = HeardLimits { bytes_max: 4096, client_bytes_max: 1024, window: 16 };

fn at(seconds: u64) -> Time {
    Time::ZERO.plus(Span::from_secs(seconds))
}

#[test]
fn a_leader_may_not_let_time_run_away() {
    let mut vouching = Vouching::new(FaultModel::Byzantine, 4, 1, LIMITS);
    let step = Span::from_secs(6);
    assert!(vouching.may_be_ahead(at(100), step), "clocks differ");
    vouching.pulled(at(100), step);
    assert!(!vouching.may_be_ahead(at(100), step), "twelve seconds in no time");
    assert!(vouching.may_be_ahead(at(100), Span::from_secs(4)));
    assert!(vouching.may_be_ahead(at(100), Span::ZERO), "what is not ahead is always welcome");
    assert!(vouching.may_be_ahead(at(103), step), "in the long run twice as fast as real time");
    // Who catches up sees years in a moment, and is not deaf for years after that.
    vouching.pulled(at(103), Span::from_secs(1 << 30));
    assert!(!vouching.may_be_ahead(at(104), step));
    assert!(vouching.may_be_ahead(at(109), step));
}

#[test]
fn the_instance_of_a_request_is_nobodys_choice() {
    let header = |kind, index, number| RequestHeader {
        session: SessionId { index, generation: 9 },
        number: RequestNumber::new(number),
        lowest_unanswered: RequestNumber::FIRST,
        kind,
        len: 0,
    };
    for number in 1..20 {
        assert_eq!(instance_of(&header(RequestKind::Commands, 6, number), 4), 2);
        assert_eq!(instance_of(&header(RequestKind::OpenSession, 0, number), 4), number as usize % 4);
        assert_eq!(instance_of(&header(RequestKind::CloseSession, 6, number), 1), 0);
    }
}

#[test]
fn evidence_is_counted_by_member() {
    let mut vouching = Vouching::new(FaultModel::Byzantine, 4, 1, LIMITS);
    vouching.note(ReplicaId::new(2), &Reject::NotAllowed("one"));
    vouching.note(ReplicaId::new(2), &Reject::NotAllowed("two"));
    let evidence = &vouching.evidence[&ReplicaId::new(2)];
    assert_eq!(evidence.count, 2);
    assert!(evidence.what.contains("two"));
}
