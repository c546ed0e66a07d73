//! The effects of ordered commands on the membership.

use super::{Done, Roster};
use quorate_types::{MembershipId, ReplicaId};
use quorate_wire::{Member, Membership, Memberships, SystemCommand};
use std::sync::Arc;

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
fn nobody_is_left_out_for_a_change_that_is_not_over() {
    let (first, second) = (membership(1, &[1, 2, 3]), membership(2, &[2, 4]));
    let founders = || [1, 2, 3].map(ReplicaId::new).into_iter();
    let ids =
        |roster: &Roster| roster.audience(founders()).into_iter().map(ReplicaId::number).collect::<Vec<_>>();
    let mut roster = Roster::new(3);
    assert_eq!(ids(&roster), [1, 2, 3]);
    roster.execute(change(&first, &second));
    assert_eq!(ids(&roster), [1, 2, 3, 4]);
    roster.execute(ended(2));
    assert_eq!(ids(&roster), [2, 4]);
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

/// After a restart from a checkpoint the logs may be many changes further on than execution. Any replica that was a member in one of them
/// may be the only one that can lead an instance that the others wait for.
#[test]
fn changes_that_were_not_executed_are_known_from_the_logs() {
    let of = |number: u64, voters: &[u16]| Arc::new(Memberships::one(membership(number, voters)));
    let (third, fourth) = (of(3, &[4]), of(4, &[5]));
    let mut roster = Roster::new(3);
    let named = vec![of(1, &[1, 2, 3]), of(2, &[2]), third.clone(), fourth.clone(), third.clone()];
    let numbers = |roster: &Roster, named: &[Arc<Memberships>]| {
        let all = roster.unexecuted(named.to_vec());
        all.iter().map(|memberships| memberships.now().number().number()).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&roster, &named), [1, 2, 3, 4], "none was executed; each once");
    roster.execute(change(&membership(1, &[1, 2, 3]), &membership(2, &[2])));
    roster.execute(ended(2));
    assert_eq!(numbers(&roster, &named), [2, 3, 4]);
    assert_eq!(numbers(&roster, &[fourth]), [2, 4], "what holds is known where no log names it any more");
    assert!(numbers(&roster, &named[..2]).is_empty(), "execution knows all that the logs name");
}
