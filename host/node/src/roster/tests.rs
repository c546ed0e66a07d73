//! What ordered commands do to the membership.

use super::{Done, Roster};
use quorate_types::{MembershipId, ReplicaId};
use quorate_wire::{Member, Membership, Memberships, SystemCommand};

fn membership(number: u64, voters: &[u16]) -> Membership {
    let voters = voters.iter().map(|id| Member::voter(ReplicaId::new(*id))).collect();
    Membership::new(MembershipId::new(number), voters).expect("a membership")
}

fn change(before: &Membership, now: &Membership) -> SystemCommand {
    SystemCommand::Change(Memberships::change(before.clone(), now.clone()).expect("the next one"))
}

fn ended(number: u64) -> SystemCommand {
    SystemCommand::Changed(MembershipId::new(number))
}

#[test]
fn a_change_begins_and_ends() {
    let (first, second) = (membership(1, &[1, 2, 3]), membership(2, &[1, 2, 4]));
    let mut roster = Roster::new(3);
    assert!(matches!(roster.execute(change(&first, &second)), Done::Begun(_)));
    assert_eq!((roster.current(), roster.change().map(Memberships::now)), (None, Some(&second)));
    assert_eq!(roster.count(), 3, "as long as it lasts there are as many as before");
    assert!(matches!(roster.execute(ended(3)), Done::Refused(_)));
    assert_eq!(roster.execute(ended(2)), Done::Ended(MembershipId::new(2)));
    assert_eq!((roster.current(), roster.change()), (Some(&second), None));
    assert!(matches!(roster.execute(ended(2)), Done::Refused(_)), "it ends once");
}

#[test]
fn one_change_at_a_time_and_from_what_is() {
    let (first, second) = (membership(1, &[1, 2, 3]), membership(2, &[1, 2]));
    let (other, third) = (membership(2, &[1, 2, 3, 4]), membership(3, &[1]));
    let mut roster = Roster::new(3);
    assert!(matches!(roster.execute(change(&second, &third)), Done::Refused(_)), "that is not what there is");
    roster.execute(change(&first, &second));
    assert!(matches!(roster.execute(change(&first, &other)), Done::Refused(_)));
    roster.execute(ended(2));
    assert!(matches!(roster.execute(change(&first, &other)), Done::Refused(_)));
    assert!(matches!(roster.execute(change(&other, &third)), Done::Refused(_)));
    assert!(matches!(roster.execute(change(&second, &third)), Done::Begun(_)));
}

#[test]
fn ids_are_never_used_again() {
    let (first, second) = (membership(1, &[1, 2, 3]), membership(2, &[1, 2]));
    let mut roster = Roster::new(3);
    roster.execute(change(&first, &second));
    roster.execute(ended(2));
    assert!(matches!(roster.execute(change(&second, &membership(3, &[1, 2, 3]))), Done::Refused(_)));
    assert!(matches!(roster.execute(change(&second, &membership(3, &[1, 2, 4]))), Done::Begun(_)));
}
