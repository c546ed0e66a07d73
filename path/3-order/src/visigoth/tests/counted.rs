//! Who counts: nobody before the log says so, and nobody that was away meanwhile.

use crate::visigoth::Counted;
use quorate_types::{ReplicaId, Span, Time};

const T: Span = Span::from_millis(20);

fn id(number: u16) -> ReplicaId {
    ReplicaId::new(number)
}

fn at(millis: u64) -> Time {
    Time::ZERO.plus(Span::from_millis(millis))
}

#[test]
pub(crate) fn a_member_counts_once_the_log_names_its_tag() {
    let mut counted = Counted::new(1);
    let tag = counted.asks().expect("it does not count yet");
    counted.decided(&[(id(2), tag), (id(1), tag + 1)], id(1));
    assert!(!counted.counts(), "another one's tag, or an old one");
    counted.decided(&[(id(2), 5), (id(1), tag)], id(1));
    assert!(counted.counts());
    assert_eq!(counted.asks(), None);
    counted.decided(&[(id(2), 6)], id(1));
    assert!(counted.counts(), "others come back");
    counted.lose();
    assert!(!counted.counts());
    assert_ne!(counted.asks(), Some(tag), "what the log says of before is no use");
    assert_ne!(Counted::new(2).asks(), Some(tag), "another start");
}

#[test]
fn who_had_no_turn_for_longer_than_t_does_not_count() {
    let mut counted = Counted::new(1);
    assert_eq!(counted.due(T), None);
    assert!(!counted.has_turn(at(500), T), "the first turn");
    assert_eq!(counted.due(T), Some(at(510)));
    let tag = counted.asks().expect("it does not count yet");
    counted.decided(&[(id(1), tag)], id(1));
    assert!(!counted.has_turn(at(520), T));
    assert!(counted.counts());
    assert!(counted.has_turn(at(541), T));
    assert!(!counted.counts());
}

#[test]
fn a_leader_proposes_whoever_asked_it() {
    let mut counted = Counted::new(1);
    assert_eq!(counted.proposes(), None);
    counted.asked(id(2), 5);
    counted.asked(id(3), 6);
    assert_eq!(counted.proposes(), Some(vec![(id(2), 5), (id(3), 6)]));
    counted.asked(id(3), 7);
    counted.decided(&[(id(2), 5), (id(3), 6)], id(1));
    assert_eq!(counted.proposes(), Some(vec![(id(3), 7)]), "it was away again");
    counted.asked(id(2), 5);
    assert_eq!(counted.proposes(), Some(vec![(id(3), 7)]), "it lags, and gets there");
    counted.enter();
    assert_eq!(counted.proposes(), None, "another view: who still wants it says so");
}
