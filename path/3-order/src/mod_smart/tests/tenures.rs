//! Which membership holds in which slot, what an anchor says of it, and what begins another one.

use super::members::{change, holds, membership};
use super::world::replica;
use crate::Anchor;
use crate::mod_smart::tenures::{Tenures, number_of, views_from, views_to};
use quorate_types::FaultModel::{self, Byzantine, Crash};
use quorate_types::{InstanceId, MembershipId, Slot, View};
use quorate_wire::Holds;
use std::collections::BTreeMap;

fn created(members: usize, model: FaultModel) -> Tenures {
    let members: Vec<_> = (0..members).map(replica).collect();
    Tenures::created(&members, InstanceId::new(1), model.into(), true)
}

/// Of three replicas; slot 5 brings a fourth as a learner, slot 9 makes it take the place of the first.
fn changed() -> (Tenures, BTreeMap<Slot, Holds>) {
    let mut tenures = created(3, Crash);
    let mut changes = BTreeMap::new();
    let all =
        [membership(1, &[0, 1, 2], &[]), membership(2, &[0, 1, 2], &[3]), membership(3, &[1, 2, 3], &[])];
    for (slot, pair) in [(Slot::new(5), &all[0..2]), (Slot::new(9), &all[1..3])] {
        let holds = holds(&tenures, &change(&pair[0], &pair[1]), 2);
        let next = tenures.next(&holds, slot).expect("it continues the present one");
        changes.insert(slot, holds);
        tenures.push_after(next, &changes[&slot]);
    }
    (tenures, changes)
}

#[test]
fn views_of_memberships_have_nothing_in_common() {
    assert_eq!(views_from(MembershipId::FIRST), View::FIRST);
    for number in 1..5 {
        let number = MembershipId::new(number);
        assert_eq!((number_of(views_from(number)), number_of(views_to(number))), (number, number));
        assert_eq!(views_to(number).next(), views_from(number.next()));
    }
}

#[test]
fn a_slot_has_one_membership() {
    let (tenures, _) = changed();
    let of = |slot| tenures.of(Slot::new(slot)).number().number();
    assert_eq!([1, 5, 6, 9, 10, 99].map(of), [1, 1, 2, 2, 3, 3]);
    let begins: Vec<_> = tenures.all().iter().map(|tenure| tenure.begins.number()).collect();
    // The leader that was named leads first: the member at place (view mod 3), from 0.
    assert_eq!(begins, [1, (1 << 40) + 1, (2 << 40) + 2]);
}

#[test]
fn an_anchor_tells_what_the_slots_behind_it_need() {
    let (tenures, _) = changed();
    for (slot, names) in
        [(0, vec![1]), (4, vec![1]), (5, vec![1, 2]), (8, vec![2]), (9, vec![2, 3]), (20, vec![3])]
    {
        let slot = Slot::new(slot);
        let anchor = tenures.anchor(slot).expect("known");
        let read = Tenures::read(&created(3, Crash), slot, &anchor).expect("an anchor of ours");
        let numbers: Vec<_> = read.all().iter().map(|tenure| tenure.number().number()).collect();
        assert_eq!(numbers, names, "at {slot}");
        let (now, whole) = (read.now(), tenures.of(slot.next()));
        assert_eq!((now.since, now.begins, &now.members), (whole.since, whole.begins, &whole.members));
        assert_eq!(read.of(slot).number(), tenures.of(slot).number(), "who proves {slot}");
        assert_eq!(read.anchor(slot), Some(anchor), "the same from whoever began with it");
    }
}

#[test]
fn anchors_of_something_else_are_refused() {
    let (tenures, _) = changed();
    let (at, inside) =
        (tenures.anchor(Slot::new(9)).expect("known"), tenures.anchor(Slot::new(8)).expect("known"));
    let refused = |slot, anchor| Tenures::read(&created(3, Crash), Slot::new(slot), anchor).is_err();
    assert!(refused(8, &at), "a membership that begins later");
    assert!(refused(10, &at), "two memberships, and one of them over");
    assert!(refused(5, &inside), "who proves the slot is missing");
    let nothing = Anchor::decode(&[]).expect("an anchor");
    assert!(refused(0, &nothing), "another protocol");
}

#[test]
fn forgotten_slots_take_their_memberships_along() {
    let (mut tenures, _) = changed();
    tenures.forget(Slot::new(9));
    assert_eq!(tenures.all().len(), 2, "slot 9 was decided by the second");
    tenures.forget(Slot::new(10));
    assert_eq!(tenures.all().len(), 1);
}

#[test]
fn what_was_decided_since_tells_the_rest() {
    let (tenures, changes) = changed();
    let same = |told: &Tenures| {
        let of = |tenures: &Tenures| -> Vec<_> {
            tenures.all().iter().map(|t| (t.number(), t.since, t.begins, t.members.clone())).collect()
        };
        assert_eq!(of(told), of(&tenures));
    };
    for slot in [0, 5, 7, 9, 12] {
        let slot = Slot::new(slot);
        let anchor = tenures.anchor(slot).expect("known");
        let told = Tenures::read(&created(3, Crash), slot, &anchor).expect("an anchor of ours");
        same(&told.replayed(slot, Slot::new(20), &changes));
    }
    let begun = created(3, Crash).replayed(Slot::ZERO, Slot::new(8), &changes);
    assert_eq!(begun.now().number().number(), 2, "slot 9 is not decided here");
}

#[test]
fn who_joins_learns_who_began() {
    let (tenures, changes) = changed();
    let guess: Vec<_> = [2, 3].map(replica).to_vec();
    let joins = Tenures::created(&guess, InstanceId::new(1), Crash.into(), false);
    assert_eq!(joins.anchor(Slot::new(3)), tenures.anchor(Slot::new(3)), "the same anchor without knowing");
    let told = joins.replayed(Slot::ZERO, Slot::new(20), &changes);
    for slot in [1, 5, 6, 9, 10] {
        let slot = Slot::new(slot);
        assert_eq!(told.of(slot).members, tenures.of(slot).members, "{slot}");
        assert_eq!(told.anchor(slot), tenures.anchor(slot), "{slot}");
    }
}

/// T15, T16: who asks for two changes at once, or for too few members, changes nothing.
#[test]
fn what_does_not_continue_the_present_membership_changes_nothing() {
    let (old, new) = (membership(1, &[0, 1, 2, 3, 4], &[]), membership(2, &[0, 1, 2, 3], &[]));
    let tenures = created(5, Byzantine);
    assert!(tenures.fits(&change(&old, &new)));
    let few = membership(2, &[0, 1, 2], &[]);
    assert!(!tenures.fits(&change(&old, &few)), "three survive nobody who lies");
    assert!(created(5, Crash).fits(&change(&old, &few)));
    let others = membership(1, &[0, 1, 2, 3], &[]);
    assert!(!tenures.fits(&change(&others, &new)), "it begins with others");
    let (second, third) = (membership(2, &[0, 1, 2, 3, 4], &[5]), membership(3, &[0, 1, 2, 3], &[]));
    assert!(!tenures.fits(&change(&second, &third)), "what it begins with is not there");
    let right = holds(&tenures, &change(&old, &new), 0);
    let slot = Slot::new(3);
    assert!(tenures.next(&right, slot).is_some());
    assert!(tenures.next(&Holds { since: Slot::FIRST, ..right.clone() }, slot).is_none());
    assert!(tenures.next(&Holds { begins: View::new(2), ..right.clone() }, slot).is_none());
    let mut after = tenures.clone();
    after.push_after(tenures.next(&right, slot).expect("it continues the present one"), &right);
    assert!(after.next(&right, Slot::new(4)).is_none(), "once is enough");
}
