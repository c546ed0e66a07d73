//! An oracle that knows the rule grants what is shown, and nothing else.

use super::world::replica;
use crate::ledger::Proof;
use crate::mod_smart::{Referee, Statements};
use crate::visigoth::{Claim, Grant, Missing, Refusal, Register};
use quorate_auth::{Authenticator, Keyed, Signature, Signed};
use quorate_types::{ClusterId, Digest, InstanceId, MembershipId, ReplicaId, Slot, Trust, View};

const TAG: u64 = 5;

const fn statements(instance: u16) -> Statements {
    let (cluster, membership) = (ClusterId::new(1), MembershipId::FIRST);
    Statements { cluster, membership, instance: InstanceId::new(instance) }
}

fn key(at: usize) -> Keyed {
    Keyed::new(replica(at), 9)
}

fn ids(set: &[usize]) -> Vec<ReplicaId> {
    set.iter().copied().map(replica).collect()
}

/// u = 2, s = 1, o = 1: five members.
fn judge(register: &Register, claim: Claim) -> Result<Register, Refusal> {
    let (voters, trust) = (ids(&[1, 2, 3, 4, 5]), Trust::new(5, 2, 1, 1).expect("five are enough"));
    Referee { statements: statements(1), voters: &voters, trust, auth: &key(1) }.judge(register, claim)
}

fn says(view: u64, tag: u64, from: usize, misses: &[usize]) -> Missing {
    let misses = ids(misses);
    let signature = key(from).sign(&statements(1).misses(View::new(view), tag, &misses));
    Missing { from: replica(from), misses, signature }
}

/// All of the set miss all others.
fn claim(view: u64, set: &[usize]) -> Claim {
    let others: Vec<usize> = (1..=5).filter(|at| !set.contains(at)).collect();
    let said = set.iter().map(|at| says(view, TAG, *at, &others)).collect();
    Claim { view: View::new(view), tag: TAG, set: ids(set), said, proof: None }
}

/// These accepted a value in this view, as members of this instance.
fn proof(instance: u16, view: u64, by: &[usize]) -> Option<Proof> {
    let (slot, view, digest) = (Slot::new(3), View::new(view), Digest::new([1; 32]));
    let text = statements(instance).accept(view, slot, digest);
    let accepts: Signed = by.iter().map(|at| (replica(*at), key(*at).sign(&text))).collect();
    Some(Proof { slot, view, digest, accepts })
}

fn unshown(result: Result<Register, Refusal>) -> bool {
    matches!(result, Err(Refusal::Unshown(_)))
}

#[test]
fn what_the_members_signed_is_granted_once() {
    let first = judge(&Register::default(), claim(2, &[1, 2, 3])).expect("it is shown");
    assert_eq!(first.grants(), [Grant { view: View::new(2), set: ids(&[1, 2, 3]) }]);
    assert_eq!(judge(&first, claim(2, &[1, 2, 3])), Ok(first.clone()), "the same again changes nothing");
    assert!(
        matches!(judge(&first, claim(3, &[3, 4, 5])), Err(Refusal::Misses(_))),
        "they share one, who may lie"
    );
    assert!(judge(&first, claim(3, &[2, 3, 4])).is_ok());
}

#[test]
pub(super) fn what_nobody_said_is_refused() {
    let refused = |claim| unshown(judge(&Register::default(), claim));
    let with = |missing: Missing| {
        let mut claim = claim(2, &[1, 2, 3]);
        claim.said[2] = missing;
        claim
    };
    assert!(refused(with(Missing { signature: Signature::NONE, ..says(2, TAG, 3, &[4, 5]) })), "not signed");
    assert!(refused(with(says(1, TAG, 3, &[4, 5]))), "said in another view");
    assert!(refused(with(says(2, TAG + 1, 3, &[4, 5]))), "the answer to another question");
    let stolen = Missing { from: replica(3), ..says(2, TAG, 4, &[5]) };
    assert!(refused(with(stolen)), "somebody else's");
    assert!(refused(with(says(2, TAG, 3, &[]))), "3 hears both of the others");
    assert!(
        judge(&Register::default(), with(says(2, TAG, 3, &[4]))).is_ok(),
        "5 may be slow, towards others"
    );
    assert!(refused(with(says(2, TAG, 3, &[3, 4, 5]))), "nobody misses itself");
    assert!(refused(with(says(2, TAG, 3, &[4, 5, 6]))), "6 is no member");
}

#[test]
fn strangers_few_and_views_that_can_not_be_are_refused() {
    let none = |claim| judge(&Register::default(), claim) == Err(Refusal::NoQuorum);
    assert!(none(claim(2, &[1, 2])), "too few");
    assert!(none(claim(2, &[1, 2, 6])), "6 is no member");
    assert!(none(claim(0, &[1, 2, 3])), "there is no such view");
    assert!(none(claim(1 << 50, &[1, 2, 3])), "a view of another membership");
}

/// The floor frees later views of what earlier ones granted, so whoever raises it shows a decision.
#[test]
pub(super) fn only_what_was_decided_raises_the_floor() {
    let first = judge(&Register::default(), claim(2, &[1, 2, 3])).expect("it is shown");
    let later = |proof| judge(&first, Claim { proof, ..claim(4, &[3, 4, 5]) });
    assert!(matches!(later(None), Err(Refusal::Misses(_))));
    assert!(later(proof(1, 3, &[1, 2, 3, 4])).is_ok(), "all but the slow ones accepted");
    assert!(unshown(later(proof(1, 3, &[3, 4, 5]))), "these were not granted in view 3");
    assert!(unshown(later(proof(2, 3, &[1, 2, 3, 4]))), "another instance");
    assert!(unshown(later(proof(1, 0, &[1, 2, 3, 4]))), "there is no such view");
    let forged = proof(1, 3, &[1, 2, 3, 4]).map(|mut proof| {
        proof.accepts[3].1 = proof.accepts[2].1;
        proof
    });
    assert!(unshown(later(forged)));
    let twice = proof(1, 3, &[1, 2, 3]).map(|mut proof| {
        proof.accepts.push(proof.accepts[2]);
        proof
    });
    assert!(unshown(later(twice)), "three of them are not four");

    // What a granted set decided in its own view says nothing about what was granted in that view.
    assert!(matches!(later(proof(1, 2, &[1, 2, 3])), Err(Refusal::Misses(_))));
    let second = judge(&first, claim(3, &[2, 3, 4])).expect("they share two");
    let shown = Claim { proof: proof(1, 3, &[2, 3, 4]), ..claim(4, &[3, 4, 5]) };
    assert_eq!(judge(&second, shown).map(|register| register.floor()), Ok(View::new(3)));
}
