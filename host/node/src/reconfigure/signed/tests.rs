//! What a change must be, whoever signed it.

use super::is_lawful;
use quorate_auth::{Ed25519, RequestChecks};
use quorate_types::{MembershipId, ReplicaId};
use quorate_wire::{Member, Membership, Memberships};

/// Members that vote if they are positive and learn if they are negative, each with the key that its number gives.
fn membership(number: u64, members: &[i16]) -> Membership {
    let one = |id: &i16| {
        let replica = ReplicaId::new(id.unsigned_abs());
        let member = if *id > 0 { Member::voter(replica) } else { Member::learner(replica) };
        let key = Some(*Ed25519::public([id.unsigned_abs() as u8; 32]).bytes());
        Member { key, ..member }
    };
    Membership::new(MembershipId::new(number), members.iter().map(one).collect()).expect("a membership")
}

fn judged(before: Membership, now: Membership) -> Result<(), String> {
    is_lawful(&Memberships::change(before, now).expect("the next one"), RequestChecks::Ed25519)
}

/// The membership with one member changed.
fn but(of: &Membership, id: u16, change: impl Fn(&mut Member)) -> Membership {
    let mut members = of.members().to_vec();
    members.iter_mut().filter(|member| member.replica.number() == id).for_each(change);
    Membership::new(of.number(), members).expect("a membership")
}

#[test]
fn who_votes_was_a_member_and_keys_stay() {
    let before = || membership(1, &[1, 2, 3, 4, -5]);
    let now = || membership(2, &[1, 2, 3, 5, -6]);
    assert_eq!(judged(before(), now()), Ok(()));
    let why = |now| judged(before(), now).expect_err("it is against the law");
    assert!(why(membership(2, &[1, 2, 3, 4, 6])).contains("r6 can not vote before it was a learner"));
    assert!(why(but(&now(), 6, |member| member.key = None)).contains("r6 has no public key"));
    let of_another = *Ed25519::public([1; 32]).bytes();
    assert!(why(but(&now(), 6, |member| member.key = Some(of_another))).contains("the same public key"));
    // A point of small order, for which anybody can sign.
    let mut weak = [0; 32];
    weak[0] = 1;
    assert!(why(but(&now(), 6, |member| member.key = Some(weak))).contains("is none"));
    let other = *Ed25519::public([9; 32]).bytes();
    assert!(why(but(&now(), 5, |member| member.key = Some(other))).contains("a member's key stays"));
    // Those of the first membership are in configurations, and perhaps not in what is changed.
    let first = but(&before(), 5, |member| member.key = None);
    assert_eq!(judged(first, now()), Ok(()));
    assert!(is_lawful(&Memberships::one(now()), RequestChecks::Ed25519).is_err(), "it changes nothing");
}
