//! Replicas that sign, lag, refuse and lie: what becomes of a proof.

use super::Gathering;
use quorate::client::{Authentication, ClientFile};
use quorate_auth::{KnownKeys, Secret, checkpoint_statement};
use quorate_types::{ClusterId, Digest, FaultModel, MembershipId, ReplicaId, Seq, Visigoth};
use quorate_wire::{AttestAnswer, Attested};

const CLUSTER: ClusterId = ClusterId::new(7);
const OF: (Seq, Digest) = (Seq::new(90), Digest::new([5; 32]));
const FIRST: MembershipId = MembershipId::FIRST;

fn r(number: u16) -> ReplicaId {
    ReplicaId::new(number)
}

fn secret(number: u16) -> Secret {
    Secret::new([number as u8; 32])
}

fn cluster(members: u16, fault_model: FaultModel) -> ClientFile {
    let key = |number: u16| (r(number), *secret(number).public().bytes());
    ClientFile {
        cluster: CLUSTER,
        members: (1..=members).map(|number| (r(number), format!("r{number}:1"))).collect(),
        learners: Vec::new(),
        membership: Some(FIRST),
        keys: (1..=members).map(key).collect(),
        fault_model,
        faults: None,
        era: 1,
        weighted: false,
        authentication: Authentication::Links,
        tls: None,
    }
}

fn gathering(members: u16) -> Gathering {
    Gathering::new(&cluster(members, FaultModel::Byzantine), OF)
}

/// What the holder of this key answers.
fn signed(with: u16, membership: MembershipId, cluster: ClusterId, of: (Seq, Digest)) -> Attested {
    let signature = secret(with).sign(&checkpoint_statement(cluster, membership, of).bytes);
    let signature = signature.bytes().to_vec().into();
    Attested { seq: OF.0, digest: OF.1, answer: AttestAnswer::Signed { membership, signature } }
}

fn honest(with: u16) -> Attested {
    signed(with, FIRST, CLUSTER, OF)
}

#[test]
fn as_many_are_needed_as_may_lie_and_one_more() {
    let few = Visigoth { u: 2, s: 2, o: 1, t_ms: 0 };
    for (members, model, needed) in [
        (4, FaultModel::Byzantine, 2),
        (6, FaultModel::Byzantine, 2),
        (7, FaultModel::Byzantine, 3),
        (6, FaultModel::Visigoth(few), 2),
    ] {
        let mut gathering = Gathering::new(&cluster(members, model), OF);
        for number in 1..=members {
            assert_eq!(
                gathering.proof().is_some(),
                usize::from(number - 1) >= needed,
                "{number} of {members}"
            );
            gathering.heard(r(number), Ok(honest(number)));
        }
        let proof = gathering.proof().expect("all signed");
        assert_eq!(
            (proof.signed.len(), gathering.missing()),
            (usize::from(members), vec![]),
            "all of them are in it"
        );
        let keys: KnownKeys = (1..=members).map(|id| (r(id), vec![secret(id).public()])).collect();
        assert!(proof.verify((CLUSTER, OF.0, OF.1), &keys, needed).is_ok());
    }
}

/// A replica that signs anything else than an honest one, or for another one, is not in the proof, and named.
#[test]
fn a_liar_makes_no_proof_and_spoils_none() {
    let lies = [
        honest(2),
        signed(1, MembershipId::new(2), ClusterId::new(8), OF),
        signed(1, FIRST, CLUSTER, (Seq::new(91), OF.1)),
        signed(1, FIRST, CLUSTER, (OF.0, Digest::new([6; 32]))),
        Attested { seq: Seq::new(91), ..honest(1) },
        Attested { digest: Digest::new([6; 32]), ..honest(1) },
        Attested { answer: AttestAnswer::Signed { membership: FIRST, signature: "".into() }, ..honest(1) },
    ];
    for lie in lies {
        let mut gathering = gathering(4);
        gathering.heard(r(1), Ok(lie.clone()));
        gathering.heard(r(2), Ok(honest(2)));
        assert_eq!(gathering.proof(), None, "{lie:?}");
        let why = gathering.too_few().to_string();
        assert!(why.contains("r1: its signature is wrong") || why.contains("another checkpoint"), "{why}");
        assert!(why.contains("r2: signed, in membership 1") && why.contains("--unproved"), "{why}");
        gathering.heard(r(3), Ok(honest(3)));
        assert_eq!(gathering.proof().expect("two signed").signers(), [r(2), r(3)]);
    }
}

#[test]
fn who_was_behind_is_asked_again() {
    let mut gathering = gathering(4);
    gathering.heard(r(1), Err("no answer in time".into()));
    gathering.heard(r(2), Ok(Attested { answer: AttestAnswer::Refused("not yet".into()), ..honest(2) }));
    gathering.heard(r(3), Ok(honest(3)));
    assert_eq!(gathering.missing(), [r(1), r(2), r(4)]);
    let why = gathering.too_few().to_string();
    assert!(why.contains("r1: no answer in time") && why.contains("r2: not yet"), "{why}");
    gathering.heard(r(2), Ok(honest(2)));
    assert_eq!(gathering.proof().expect("two signed").signers(), [r(2), r(3)]);
    assert!(!gathering.too_few().to_string().contains("not yet"), "it signed since");
}

/// While the membership changes, replicas sign in the old one and in the new one: those do not count together.
#[test]
fn signatures_of_different_memberships_are_not_mixed() {
    let (mut gathering, second) = (gathering(4), MembershipId::new(2));
    gathering.heard(r(1), Ok(honest(1)));
    gathering.heard(r(2), Ok(signed(2, second, CLUSTER, OF)));
    assert_eq!(gathering.proof(), None);
    gathering.heard(r(3), Ok(honest(3)));
    assert_eq!(gathering.proof().expect("two of the first").membership, FIRST);
    gathering.heard(r(4), Ok(signed(4, second, CLUSTER, OF)));
    let proof = gathering.proof().expect("two of the second, too");
    assert_eq!((proof.membership, proof.signers()), (second, vec![r(2), r(4)]), "the newest counts");
}

#[test]
fn learners_and_strangers_do_not_count() {
    let mut file = cluster(5, FaultModel::Byzantine);
    file.learners = vec![r(5)];
    let mut gathering = Gathering::new(&file, OF);
    gathering.heard(r(5), Ok(honest(5)));
    gathering.heard(r(9), Ok(honest(9)));
    gathering.heard(r(1), Ok(honest(1)));
    assert_eq!((gathering.proof(), gathering.missing()), (None, vec![r(2), r(3), r(4)]));
}

/// A file of before has no keys: then the signatures are gathered, and whoever has keys checks them later.
#[test]
fn without_keys_signatures_are_gathered_unchecked() {
    let mut file = cluster(4, FaultModel::Byzantine);
    file.keys.clear();
    let mut gathering = Gathering::new(&file, OF);
    gathering.heard(r(1), Ok(honest(9)));
    gathering.heard(r(2), Ok(honest(2)));
    let proof = gathering.proof().expect("two signed something");
    let keys: KnownKeys = [(r(1), vec![secret(1).public()]), (r(2), vec![secret(2).public()])].into();
    assert!(proof.verify((CLUSTER, OF.0, OF.1), &keys, 2).is_err());
    // With some keys, only who has one counts.
    let mut file = cluster(4, FaultModel::Byzantine);
    file.keys.remove(&r(1));
    let mut gathering = Gathering::new(&file, OF);
    gathering.heard(r(1), Ok(honest(1)));
    assert!(gathering.too_few().to_string().contains("r1: its public key is not known here"));
}
