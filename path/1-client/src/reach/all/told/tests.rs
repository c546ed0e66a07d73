//! When a later membership is believed.

use super::Told;
use quorate_types::{MembershipId, ReplicaId};
use quorate_wire::{Member, Membership};

fn membership(number: u64, ids: std::ops::RangeInclusive<u16>) -> Membership {
    let members = ids.map(|id| Member::voter(ReplicaId::new(id))).collect();
    Membership::new(MembershipId::new(number), members).expect("a membership")
}

#[test]
fn enough_different_members_must_tell_the_same() {
    let mut told = Told::new(4, 2);
    let (right, wrong) = (membership(2, 1..=5), membership(2, 2..=5));
    assert_eq!(told.tells(0, &wrong), None);
    assert_eq!(told.tells(0, &wrong), None, "one member's word, however often");
    assert_eq!(told.tells(1, &right), None, "the same number, and other members");
    assert_eq!(told.tells(3, &membership(3, 1..=5)), None, "the same members, and another number");
    assert_eq!(told.tells(2, &right), Some(right));
}

#[test]
fn only_the_newest_word_of_each_counts() {
    let mut told = Told::new(4, 2);
    let (second, third) = (membership(2, 1..=5), membership(3, 1..=6));
    assert_eq!(told.tells(0, &second), None);
    assert_eq!(told.tells(0, &third), None);
    assert_eq!(told.tells(1, &second), None, "the first one does not say so any more");
    assert_eq!(told.tells(1, &third), Some(third), "numbers may be skipped");
}

#[test]
fn what_is_not_newer_says_nothing() {
    let mut told = Told::new(4, 2);
    let first = membership(1, 2..=5);
    assert_eq!(told.tells(0, &first), None);
    assert_eq!(told.tells(1, &first), None, "a client begins with these or with later ones");
    assert_eq!(told.follow(MembershipId::new(7), 2, &[true; 4]), None);
    let older = membership(7, 1..=9);
    assert_eq!((told.tells(0, &older), told.tells(1, &older)), (None, None));
}

#[test]
fn words_of_those_that_stay_count_on_and_of_others_not() {
    let mut told = Told::new(4, 2);
    let (second, third) = (membership(2, 1..=5), membership(3, 1..=6));
    told.tells(0, &third);
    told.tells(1, &second);
    assert_eq!(told.tells(2, &second), Some(second));
    // The first one left, and a new one has its place.
    assert_eq!(told.follow(MembershipId::new(2), 2, &[false, true, true, true, false]), None);
    assert_eq!(told.tells(3, &third), None);
    assert_eq!(told.tells(4, &third), Some(third));

    let mut told = Told::new(4, 3);
    let third = membership(3, 1..=4);
    told.tells(0, &third);
    told.tells(1, &third);
    assert_eq!(told.follow(MembershipId::new(2), 2, &[true; 4]), Some(third), "enough by the new count");
}

#[test]
fn who_is_no_contact_tells_nothing() {
    let mut told = Told::new(4, 1);
    assert_eq!(told.tells(4, &membership(u64::MAX - 1, 1..=5)), None);
    assert!(told.tells(3, &membership(u64::MAX - 1, 1..=5)).is_some());
}
