//! Quorums of one membership and of two at once; what is no membership.

use super::{MEMBERS_MAX, Member, Membership, Memberships};
use bytes::Bytes;
use quorate_types::{Incarnation, MembershipId, ReplicaId};

fn id(number: u16) -> ReplicaId {
    ReplicaId::new(number)
}

fn membership(number: u64, voters: &[u16], learners: &[u16]) -> Membership {
    let voters = voters.iter().map(|number| Member::voter(id(*number)));
    let learners = learners.iter().map(|number| Member::learner(id(*number)));
    Membership::new(MembershipId::new(number), voters.chain(learners).collect()).expect("a membership")
}

fn agree(memberships: &Memberships, who: &[u16]) -> bool {
    memberships.has_quorum(0, |replica| who.contains(&replica.number()))
}

#[test]
fn learners_count_for_nothing() {
    let one = Memberships::one(membership(2, &[1, 2, 3], &[4, 5]));
    assert!(agree(&one, &[1, 3]) && !agree(&one, &[1, 4, 5]));
    assert!(one.is_voter(id(3)) && !one.is_voter(id(4)));
    assert_eq!(one.replicas().len(), 5);
}

#[test]
fn a_change_needs_both_majorities() {
    let both = Memberships::change(membership(4, &[1, 2, 3], &[4, 5]), membership(5, &[3, 4, 5], &[]));
    let both = both.expect("the next one");
    assert!(!agree(&both, &[1, 2, 3]) && !agree(&both, &[3, 4, 5]) && agree(&both, &[2, 3, 4]));
    assert!(both.is_voter(id(1)) && both.is_voter(id(5)) && !both.keeps_voters());
    assert!(agree(&both.ended(), &[4, 5]) && !both.ended().is_voter(id(1)));
}

/// Any quorum of a change shares a replica with any quorum of either side: compared with all sets.
#[test]
fn quorums_of_adjacent_memberships_intersect() {
    let sets: Vec<Vec<u16>> =
        (1u16..32).map(|bits| (0..5).filter(|at| bits >> at & 1 == 1).collect()).collect();
    for old in &sets {
        for new in &sets {
            let (before, now) = (membership(1, old, &[]), membership(2, new, &[]));
            let both = Memberships::change(before.clone(), now.clone()).expect("the next one");
            for side in [Memberships::one(before), Memberships::one(now)] {
                for one in sets.iter().filter(|set| agree(&both, set)) {
                    for other in sets.iter().filter(|set| agree(&side, set)) {
                        assert!(one.iter().any(|id| other.contains(id)), "{one:?} and {other:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn bytes_come_back_and_others_are_refused() {
    let mut member = Member::learner(id(9));
    (member.address, member.incarnation, member.life) = ("a.example:7400".into(), Incarnation::new(3), 5);
    let now = Membership::new(MembershipId::new(8), vec![member, Member::voter(id(2))]).expect("one");
    let both = Memberships::change(membership(7, &[2, 3], &[]), now).expect("the next one");
    assert_eq!(Memberships::decode(both.encode()).expect("its bytes"), both);
    for len in 0..both.encode().len() {
        assert!(Memberships::decode(both.encode().slice(..len)).is_err(), "{len}");
    }
    let mut longer = both.encode().to_vec();
    longer.push(0);
    assert!(Memberships::decode(Bytes::from(longer)).is_err());
    assert!(Memberships::change(membership(7, &[1], &[]), membership(9, &[1], &[])).is_err());
    assert!(Membership::new(MembershipId::FIRST, vec![Member::learner(id(1))]).is_err());
    assert!(Membership::new(MembershipId::FIRST, vec![Member::voter(id(1)), Member::voter(id(1))]).is_err());
    let many = (0..=MEMBERS_MAX as u16).map(|number| Member::voter(id(number))).collect();
    assert!(Membership::new(MembershipId::FIRST, many).is_err());
}
