//! What contradicts itself, and what an honest member may say; the bytes; and that nothing else passes.

use super::{Evidence, EvidenceKind, SignedAccept, Statement};
use crate::mod_smart::message::{Collect, WRITES_MAX};
use bytes::Bytes;
use quorate_auth::{Authenticator, Ed25519, PublicKey, Signature};
use quorate_types::{ClusterId, Digest, InstanceId, MembershipId, Random, ReplicaId, Slot, View};
use quorate_wire::EVIDENCE_MAX;

const ACCUSED: ReplicaId = ReplicaId::new(3);

fn key(of: u16) -> Ed25519 {
    let me = ReplicaId::new(of);
    Ed25519::new(me, [of as u8; 32], [(me, public(of))]).expect("a key")
}

fn public(of: u16) -> PublicKey {
    Ed25519::public([of as u8; 32])
}

fn accept(view: u64, slot: u64, value: u8) -> Statement {
    let digest = Digest::new([value; 32]);
    Statement::Accept(SignedAccept {
        view: View::new(view),
        slot: Slot::new(slot),
        digest,
        signature: Signature::NONE,
    })
}

type Vote = (u64, u8);

fn collect(view: u64, decided: u64, lock: Option<Vote>, writes: &[Vote]) -> Statement {
    let vote = |(view, value): &Vote| (View::new(*view), Digest::new([*value; 32]));
    let collect = Collect {
        from: ACCUSED,
        decided: Slot::new(decided),
        lock: lock.as_ref().map(vote),
        writes: writes.iter().map(vote).collect(),
        signature: Signature::NONE,
    };
    Statement::Collect(View::new(view), collect)
}

/// These statements, signed by this member for this cluster.
fn signed_by(signer: u16, kind: EvidenceKind, statements: Vec<Statement>) -> Evidence {
    let mut evidence = Evidence {
        cluster: ClusterId::new(77),
        membership: MembershipId::FIRST,
        instance: InstanceId::new(1),
        accused: ACCUSED,
        kind,
        statements,
        key: Some(public(signer)),
    };
    for at in 0..evidence.statements.len() {
        let signature = key(signer).sign(&evidence.signed_text(&evidence.statements[at]));
        match &mut evidence.statements[at] {
            Statement::Accept(accept) => accept.signature = signature,
            Statement::Collect(_, collect) => collect.signature = signature,
        }
    }
    evidence
}

fn signed(kind: EvidenceKind, statements: Vec<Statement>) -> Evidence {
    signed_by(3, kind, statements)
}

/// One of each kind that proves something.
fn proofs() -> Vec<Evidence> {
    use EvidenceKind::*;
    vec![
        signed(TwoAccepts, vec![accept(2, 17, 1), accept(2, 17, 2)]),
        // It decided less than what it accepted shows; locked less; voted otherwise in that view.
        signed(AcceptDenied, vec![accept(2, 17, 1), collect(3, 15, None, &[])]),
        signed(AcceptDenied, vec![accept(2, 17, 1), collect(3, 16, None, &[(2, 1)])]),
        signed(AcceptDenied, vec![accept(2, 17, 1), collect(4, 16, Some((1, 1)), &[(1, 1)])]),
        signed(AcceptDenied, vec![accept(2, 17, 1), collect(3, 16, Some((2, 2)), &[(2, 2)])]),
        signed(AcceptDenied, vec![accept(2, 17, 1), collect(2, 16, Some((2, 2)), &[(2, 2)])]),
        // Two statements of one view, of which none follows the other; and of two views.
        signed(TwoStatements, vec![collect(3, 16, None, &[]), collect(3, 16, None, &[(2, 1)])]),
        signed(TwoStatements, vec![collect(3, 16, Some((2, 1)), &[(2, 1)]), collect(3, 16, None, &[])]),
        signed(TwoStatements, vec![collect(3, 16, Some((2, 1)), &[]), collect(4, 16, Some((1, 1)), &[])]),
        signed(TwoStatements, vec![collect(3, 16, None, &[]), collect(4, 16, Some((2, 1)), &[(2, 1)])]),
        signed(
            TwoStatements,
            vec![collect(3, 16, Some((3, 1)), &[(3, 1)]), collect(3, 16, Some((3, 2)), &[])],
        ),
        signed(TwoStatements, vec![collect(3, 16, None, &[]), collect(4, 15, None, &[])]),
        signed(TwoStatements, vec![collect(3, 16, None, &[(1, 1)]), collect(5, 16, None, &[(4, 2)])]),
        // Votes in later views, in a view twice, of a value twice, in no view.
        signed(ImpossibleStatement, vec![collect(3, 16, Some((4, 1)), &[(4, 1)])]),
        signed(ImpossibleStatement, vec![collect(3, 16, None, &[(2, 1), (2, 2)])]),
        signed(ImpossibleStatement, vec![collect(3, 16, Some((2, 1)), &[(2, 2)])]),
        signed(ImpossibleStatement, vec![collect(3, 16, None, &[(1, 1), (2, 1)])]),
        signed(ImpossibleStatement, vec![collect(3, 16, None, &[(0, 1)])]),
    ]
}

/// As many votes as a statement names, from one of this view on.
fn writes(from: u8) -> Vec<Vote> {
    (from..from + WRITES_MAX as u8).map(|at| (u64::from(at) + 4, at)).collect()
}

#[test]
fn contradictions_prove() {
    for evidence in proofs() {
        assert_eq!(evidence.verify(&public(3)), Ok(()), "{evidence:?}");
        assert_eq!(Evidence::decode(evidence.encode()), Ok(evidence.clone()));
        assert!(evidence.encode().len() <= EVIDENCE_MAX);
    }
}

/// What an honest member may sign, in the order in which it may; with the rule that says so.
#[test]
fn what_honest_members_sign_proves_nothing() {
    use EvidenceKind::*;
    let honest = [
        (TwoAccepts, vec![accept(2, 17, 1), accept(2, 17, 1)]),
        // Another view may take another value, and another slot does.
        (TwoAccepts, vec![accept(2, 17, 1), accept(3, 17, 2)]),
        (TwoAccepts, vec![accept(2, 17, 1), accept(2, 18, 2)]),
        // It accepted after it said so: in the same view, or a later one.
        (AcceptDenied, vec![accept(3, 17, 1), collect(3, 16, None, &[])]),
        (AcceptDenied, vec![accept(4, 17, 1), collect(3, 16, None, &[])]),
        // The lock is the one of the accept, or a later one; or the slot is decided.
        (AcceptDenied, vec![accept(2, 17, 1), collect(3, 16, Some((2, 1)), &[(2, 1)])]),
        (AcceptDenied, vec![accept(2, 17, 1), collect(5, 16, Some((4, 2)), &[(2, 1), (4, 2)])]),
        (AcceptDenied, vec![accept(2, 17, 1), collect(3, 17, None, &[])]),
        // It locked nothing of a slot that it had not reached then.
        (AcceptDenied, vec![accept(4, 17, 1), collect(3, 15, None, &[])]),
        // After a restart in a view that had begun it has voted in it.
        (TwoStatements, vec![collect(3, 16, None, &[(1, 1)]), collect(3, 16, Some((3, 1)), &[(3, 1)])]),
        (TwoStatements, vec![collect(3, 16, Some((3, 1)), &[(3, 1)]), collect(3, 16, None, &[(1, 1)])]),
        (ImpossibleStatement, vec![collect(3, 16, Some((3, 1)), &[(3, 1)])]),
        // It decided a slot in between, and votes on another one.
        (TwoStatements, vec![collect(3, 16, Some((2, 1)), &[(2, 1)]), collect(3, 17, None, &[])]),
        (TwoStatements, vec![collect(3, 17, None, &[]), collect(3, 16, Some((2, 1)), &[(2, 1)])]),
        // A value that is written again gets the later view; one that was written long ago is forgotten.
        (
            TwoStatements,
            vec![collect(3, 16, None, &[(1, 1), (2, 2)]), collect(5, 16, None, &[(2, 2), (4, 1)])],
        ),
        (TwoStatements, vec![collect(20, 16, None, &writes(1)), collect(21, 16, None, &writes(2))]),
        (TwoStatements, vec![collect(3, 16, None, &[(1, 1)]), collect(3, 16, None, &[(1, 1)])]),
        // A lock whose write was forgotten, and one whose value was written again.
        (ImpossibleStatement, vec![collect(9, 16, Some((2, 1)), &[(8, 1), (7, 2)])]),
        (ImpossibleStatement, vec![collect(9, 16, Some((2, 1)), &[(8, 3), (7, 2)])]),
    ];
    for (kind, statements) in honest {
        let evidence = signed(kind, statements);
        assert!(evidence.verify(&public(3)).is_err(), "{evidence:?}");
    }
}

/// The statements of one kind under the name of another one, too few, too many, or in the wrong order.
#[test]
fn each_kind_has_its_statements() {
    for evidence in proofs() {
        for kind in EvidenceKind::ALL.into_iter().filter(|kind| *kind != evidence.kind) {
            assert!(Evidence { kind, ..evidence.clone() }.verify(&public(3)).is_err());
        }
        let mut more = evidence.clone();
        more.statements.push(more.statements[0].clone());
        assert!(more.verify(&public(3)).is_err());
        let none = Evidence { statements: vec![], ..evidence.clone() };
        assert!(none.verify(&public(3)).is_err());
        assert!(Evidence::decode(none.encode()).is_err());
    }
}

/// A proof of one cluster, membership, instance, member, view, slot or value is none of another one: all of these are signed.
#[test]
fn everything_is_signed() {
    for evidence in proofs() {
        let refused = |other: Evidence| assert!(other.verify(&public(3)).is_err(), "{other:?}");
        refused(Evidence { cluster: ClusterId::new(78), ..evidence.clone() });
        refused(Evidence { membership: MembershipId::new(2), ..evidence.clone() });
        refused(Evidence { instance: InstanceId::new(2), ..evidence.clone() });
        assert!(evidence.verify(&public(2)).is_err(), "another member's key");
        for at in 0..evidence.statements.len() {
            let mut later = evidence.clone();
            match &mut later.statements[at] {
                Statement::Accept(accept) => accept.digest = Digest::new([9; 32]),
                Statement::Collect(_, collect) => collect.writes.push((View::new(1), Digest::new([9; 32]))),
            }
            refused(later);
            let mut moved = evidence.clone();
            match &mut moved.statements[at] {
                Statement::Accept(accept) => accept.slot = accept.slot.next(),
                Statement::Collect(_, collect) => collect.decided = collect.decided.next(),
            }
            refused(moved);
        }
    }
    // Somebody who is no member, or another member, signs it in the accused one's name.
    for signer in [2, 9] {
        let forged = signed_by(signer, EvidenceKind::TwoAccepts, vec![accept(2, 17, 1), accept(2, 17, 2)]);
        assert!(forged.verify(&public(3)).is_err());
    }
    // What another member said about itself.
    let mut evidence = signed(EvidenceKind::ImpossibleStatement, vec![collect(3, 16, Some((4, 1)), &[])]);
    evidence.accused = ReplicaId::new(4);
    assert!(evidence.verify(&public(3)).is_err());
}

/// Digests that change places, signatures that change places.
#[test]
fn nothing_can_be_exchanged() {
    let evidence = signed(EvidenceKind::TwoAccepts, vec![accept(2, 17, 1), accept(2, 17, 2)]);
    let [Statement::Accept(one), Statement::Accept(other)] = evidence.statements[..] else {
        panic!("accepts")
    };
    let with = |one, other| Evidence {
        statements: vec![Statement::Accept(one), Statement::Accept(other)],
        ..evidence.clone()
    };
    assert_eq!(with(other, one).verify(&public(3)), Ok(()), "their order does not matter");
    let swapped =
        with(SignedAccept { digest: other.digest, ..one }, SignedAccept { digest: one.digest, ..other });
    assert!(swapped.verify(&public(3)).is_err());
}

/// Bytes that are cut or changed are refused; with a right checksum they are read, and prove nothing.
#[test]
fn damaged_bytes_are_refused() {
    let mut random = Random::new(11);
    for evidence in proofs() {
        let bytes = evidence.encode();
        for len in 0..bytes.len() {
            assert!(Evidence::decode(bytes.slice(..len)).is_err(), "cut to {len}");
        }
        let content = bytes.len() - 8;
        for at in 0..bytes.len() {
            let mut flipped = bytes.to_vec();
            flipped[at] ^= 1 << random.below(8);
            assert!(Evidence::decode(Bytes::from(flipped.clone())).is_err(), "byte {at}");
            if at < content {
                let sum = blake3::hash(&flipped[..content]);
                flipped[content..].copy_from_slice(&sum.as_bytes()[..8]);
                if let Ok(other) = Evidence::decode(flipped.into()) {
                    // The key that the file names, and the accused's id where it is not signed, are compared with what is known.
                    let known = other.key == Some(public(3)) && other.accused == ACCUSED;
                    assert!(!known || other.verify(&public(3)).is_err(), "byte {at}: {other:?}");
                }
            }
        }
    }
}
