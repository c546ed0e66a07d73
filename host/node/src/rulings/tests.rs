//! When a ruling goes in a batch of its own, and how many have to say the same.

use super::{ALONE_AFTER, Due, Results, Rulings};
use quorate_types::{Digest, FaultModel, Faults, ReplicaId, Seq, Span, Time};
use quorate_wire::{BatchHeader, Memberships, Ruling, Tokens};

const RULING: Ruling = Ruling::Final { attempt: 0, seq: Seq::new(1), token: Digest::new([1; Digest::BYTES]) };

fn due(awaited: bool) -> Option<Due> {
    Some(Due { ruling: RULING, awaited })
}

fn rulings() -> Rulings {
    Rulings::new(ReplicaId::new(1), Span::from_millis(600), 0)
}

#[test]
fn a_ruling_that_results_wait_for_goes_at_once_unless_slots_are_under_way() {
    let now = Time::ZERO.plus(Span::from_secs(1));
    assert!(rulings().goes_alone(now, due(true), false));
    let mut busy = rulings();
    assert!(!busy.goes_alone(now, due(true), true));
    assert!(busy.goes_alone(now.plus(ALONE_AFTER), due(true), true), "they may be no-ops for ever");
}

#[test]
fn a_ruling_that_nobody_waits_for_waits_for_requests() {
    let (mut rulings, now) = (rulings(), Time::ZERO.plus(Span::from_secs(1)));
    assert!(!rulings.goes_alone(now, due(false), false));
    // It went with a request, and the next one waits as long.
    rulings.is_proposed(now, &BatchHeader { ruling: Some(RULING), ..BatchHeader::default() });
    let later = now.plus(Span::from_secs(1));
    assert!(!rulings.goes_alone(later, due(false), false));
    assert!(rulings.goes_alone(later.plus(ALONE_AFTER), due(false), false), "none comes");
}

/// Where one of four may lie, two may be a liar and one whose threads raced.
#[test]
fn one_more_than_may_lie_is_no_quorum_of_results() {
    let (mut rulings, now) = (rulings(), Time::ZERO.plus(Span::from_secs(1)));
    let founders: Vec<ReplicaId> = (1..=4).map(ReplicaId::new).collect();
    rulings.meet(&Memberships::created(&founders), Faults::of(FaultModel::Byzantine));
    let Ruling::Final { attempt, seq, token } = RULING else { panic!("it is final") };
    for (from, vouches) in [(2, false), (3, false), (4, true)] {
        let tokens = Tokens { attempt, last: Seq::ZERO, list: vec![(seq, token)] };
        rulings.heard(now, ReplicaId::new(from), Results::Tokens(tokens));
        assert_eq!(rulings.may_vouch(now, &RULING), vouches, "r{from} says so, too");
    }
}
