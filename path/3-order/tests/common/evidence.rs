//! Samples of evidence: of each kind one that proves something, and one that does not.

use quorate_auth::{Authenticator, Ed25519, Signature};
use quorate_order::mod_smart::evidence::{Evidence, EvidenceKind, SignedAccept, Statement};
use quorate_order::mod_smart::message::Collect;
use quorate_types::{ClusterId, Digest, InstanceId, MembershipId, ReplicaId, Slot, View};

const SECRET: [u8; 32] = [3; 32];

fn accept(view: u64, slot: u64, value: u8) -> Statement {
    Statement::Accept(SignedAccept {
        view: View::new(view),
        slot: Slot::new(slot),
        digest: Digest::new([value; 32]),
        signature: Signature::NONE,
    })
}

fn collect(view: u64, decided: u64, vote: Option<(u64, u8)>) -> Statement {
    let vote = vote.map(|(view, value)| (View::new(view), Digest::new([value; 32])));
    let (from, decided) = (ReplicaId::new(3), Slot::new(decided));
    let writes = vote.into_iter().collect();
    let signature = Signature::NONE;
    Statement::Collect(View::new(view), Collect { from, decided, lock: vote, writes, signature })
}

fn signed(kind: EvidenceKind, statements: Vec<Statement>) -> Evidence {
    let me = ReplicaId::new(3);
    let key = Ed25519::new(me, SECRET, [(me, Ed25519::public(SECRET))]).expect("a key");
    let mut evidence = Evidence {
        cluster: ClusterId::new(7),
        membership: MembershipId::FIRST,
        instance: InstanceId::new(1),
        accused: ReplicaId::new(3),
        kind,
        statements,
        key: Some(Ed25519::public(SECRET)),
    };
    for at in 0..evidence.statements.len() {
        let signature = key.sign(&evidence.signed_text(&evidence.statements[at]));
        match &mut evidence.statements[at] {
            Statement::Accept(accept) => accept.signature = signature,
            Statement::Collect(_, collect) => collect.signature = signature,
        }
    }
    evidence
}

/// What proves something, by name.
pub(crate) fn proofs() -> Vec<(&'static str, Evidence)> {
    use EvidenceKind::*;
    vec![
        ("two_accepts", signed(TwoAccepts, vec![accept(2, 17, 1), accept(2, 17, 2)])),
        ("two_statements", signed(TwoStatements, vec![collect(3, 16, Some((2, 1))), collect(4, 16, None)])),
        ("accept_denied", signed(AcceptDenied, vec![accept(2, 17, 1), collect(3, 16, Some((1, 2)))])),
        ("impossible_statement", signed(ImpossibleStatement, vec![collect(3, 16, Some((9, 1)))])),
    ]
}

/// The seeds of the corpus.
pub(crate) fn files() -> Vec<(String, Vec<u8>)> {
    let mut all = proofs();
    all.push(("nothing", signed(EvidenceKind::TwoAccepts, vec![accept(2, 17, 1), accept(3, 17, 2)])));
    let keyless = Evidence { key: None, ..all[0].1.clone() };
    all.push(("without_key", keyless));
    all.into_iter().map(|(name, evidence)| (format!("seed_{name}"), evidence.encode().to_vec())).collect()
}
