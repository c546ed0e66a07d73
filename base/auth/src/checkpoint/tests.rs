//! What a proof of a checkpoint proves, and to whom; and that nothing else passes.

use super::{CHECKPOINT_PROOF_BYTES_MAX, CheckpointProof, KnownKeys, NoProof, checkpoint_statement};
use crate::chain::accept_statement;
use crate::{Ed25519, PublicKey, Secret, Signature, fuzzing, put_signed};
use bytes::Bytes;
use quorate_types::{ClusterId, Digest, InstanceId, MembershipId, ReplicaId, Seq, Slot, View};
use quorate_wire::MEMBERS_MAX;
use std::fs;
use std::path::Path;

const CLUSTER: ClusterId = ClusterId::new(7);
const SECOND: MembershipId = MembershipId::new(2);
/// So many signatures are needed of four members, of which one may lie.
const NEEDED: usize = 2;

fn id(number: u16) -> ReplicaId {
    ReplicaId::new(number)
}

fn secret(number: u16) -> [u8; 32] {
    std::array::from_fn(|at| (at as u8).wrapping_mul(13) ^ number as u8)
}

fn key(number: u16) -> PublicKey {
    Ed25519::public(secret(number))
}

fn of() -> (ClusterId, Seq, Digest) {
    (CLUSTER, Seq::new(90), Digest::new([5; 32]))
}

/// The keys of four members.
fn keys() -> KnownKeys {
    (1..=4).map(|number| (id(number), vec![key(number)])).collect()
}

/// What these members, each with the key of another number, sign of a checkpoint.
fn signed_as((cluster, seq, digest): (ClusterId, Seq, Digest), signers: &[(u16, u16)]) -> CheckpointProof {
    let text = checkpoint_statement(cluster, SECOND, (seq, digest));
    let sign = |(number, with): &(u16, u16)| (id(*number), Secret::new(secret(*with)).sign(&text.bytes));
    let signed = signers.iter().map(sign).collect();
    CheckpointProof { cluster, membership: SECOND, seq, digest, signed }
}

fn signed(signers: &[u16]) -> CheckpointProof {
    signed_as(of(), &signers.iter().map(|number| (*number, *number)).collect::<Vec<_>>())
}

fn judge(proof: &CheckpointProof) -> Result<Vec<ReplicaId>, NoProof> {
    proof.verify(of(), &keys(), NEEDED)
}

fn too_few(right: usize, unknown: &[u16], wrong: &[u16]) -> Result<Vec<ReplicaId>, NoProof> {
    let ids = |numbers: &[u16]| numbers.iter().map(|number| id(*number)).collect();
    Err(NoProof::TooFew { right, needed: NEEDED, unknown: ids(unknown), wrong: ids(wrong) })
}

#[test]
fn enough_signatures_of_known_members_prove_a_checkpoint() {
    assert_eq!(judge(&signed(&[1, 3])), Ok(vec![id(1), id(3)]));
    assert_eq!(judge(&signed(&[1, 2, 3, 4])).map(|right| right.len()), Ok(4));
    // Who is not known, or signed something else, neither counts nor stands in the way.
    let mixed = signed_as(of(), &[(1, 1), (2, 9), (3, 3), (8, 8)]);
    assert_eq!(judge(&mixed), Ok(vec![id(1), id(3)]));
    let bytes = mixed.encode();
    assert_eq!(CheckpointProof::decode(&bytes), Ok(mixed));
}

#[test]
fn forged_and_foreign_signatures_prove_nothing() {
    assert_eq!(judge(&signed(&[])), too_few(0, &[], &[]));
    assert_eq!(judge(&signed(&[1])), too_few(1, &[], &[]), "one of four may lie");
    assert_eq!(
        judge(&signed_as(of(), &[(1, 1), (2, 1), (3, 1)])),
        too_few(1, &[], &[2, 3]),
        "one signs for all"
    );
    assert_eq!(judge(&signed_as(of(), &[(1, 1), (7, 7), (8, 8)])), too_few(1, &[7, 8], &[]));
    let (cluster, seq, digest) = of();
    let all = [(1, 1), (2, 2), (3, 3)];
    for (of, why) in [
        ((ClusterId::new(8), seq, digest), NoProof::OtherCluster(ClusterId::new(8))),
        ((cluster, Seq::new(91), digest), NoProof::OtherSeq(Seq::new(91))),
        ((cluster, seq, Digest::new([6; 32])), NoProof::OtherDigest(Digest::new([6; 32]))),
    ] {
        let theirs = signed_as(of, &all);
        assert_eq!(judge(&theirs), Err(why));
        // Taken for this checkpoint, the signatures are of something else.
        let (cluster, seq, digest) = self::of();
        let moved = CheckpointProof { cluster, seq, digest, ..theirs };
        assert_eq!(judge(&moved), too_few(0, &[], &[1, 2, 3]));
    }
    let moved = CheckpointProof { membership: MembershipId::FIRST, ..signed(&[1, 2, 3]) };
    assert_eq!(judge(&moved), too_few(0, &[], &[1, 2, 3]), "in another membership other keys may count");
    let bare = CheckpointProof { signed: vec![(id(1), Signature::NONE), (id(2), Signature::NONE)], ..moved };
    assert_eq!(judge(&bare), too_few(0, &[], &[1, 2]));
}

/// A key that an operator wrote down for two replicas is that of one; and a replica may have several keys.
#[test]
fn each_key_counts_once_and_old_keys_may_be_known_too() {
    let mut keys = keys();
    keys.insert(id(2), vec![key(1)]);
    let twice = signed_as(of(), &[(1, 1), (2, 1)]);
    assert_eq!(twice.verify(of(), &keys, NEEDED), too_few(1, &[], &[2]));
    keys.insert(id(2), vec![key(2), key(20)]);
    for with in [2, 20] {
        assert_eq!(signed_as(of(), &[(1, 1), (2, with)]).verify(of(), &keys, NEEDED), Ok(vec![id(1), id(2)]));
    }
    // Where no number is known, nothing is proved by nobody.
    assert!(signed(&[]).verify(of(), &keys, 0).is_err());
    assert!(signed(&[1]).verify(of(), &KnownKeys::new(), 0).is_err());
}

/// No statement of the protocol, and nothing that clients sign, can be taken for it.
#[test]
fn a_statement_is_of_no_use_for_another_purpose() {
    let (cluster, seq, digest) = of();
    let own = checkpoint_statement(cluster, SECOND, (seq, digest)).bytes;
    let at = (View::new(90), Slot::new(90), digest);
    let accept = accept_statement(cluster, SECOND, InstanceId::new(1), at);
    assert_eq!((own.len(), &own[..8], &accept[..4]), (72, &b"qck/att1"[..], &b"qms/"[..]));
    let mut others = vec![own];
    for (membership, seq, digest) in [(MembershipId::FIRST, seq, digest), (SECOND, Seq::new(1), digest)] {
        others.push(checkpoint_statement(cluster, membership, (seq, digest)).bytes);
    }
    others.push(checkpoint_statement(ClusterId::new(1), SECOND, (seq, digest)).bytes);
    others.push(checkpoint_statement(cluster, SECOND, (seq, Digest::new([1; 32]))).bytes);
    others.sort();
    others.dedup();
    assert_eq!(others.len(), 5, "each part of it is signed");
}

#[test]
fn reasons_say_what_is_wrong() {
    let why = |proof: &CheckpointProof| judge(proof).expect_err("no proof").to_string();
    assert_eq!(why(&signed(&[1])), "1 signature is right, and 2 are needed");
    assert_eq!(
        why(&signed_as(of(), &[(1, 9), (2, 9), (8, 8)])),
        "0 signatures are right, and 2 are needed; not of the key that is known: r1, r2; no key is known of r8"
    );
    let foreign = signed_as((ClusterId::new(8), Seq::new(90), Digest::new([5; 32])), &[(1, 1)]);
    assert!(why(&foreign).starts_with("its proof is of another cluster"));
}

#[test]
fn the_longest_proof_has_the_bytes_that_are_allowed() {
    let all: Vec<u16> = (1..=MEMBERS_MAX as u16).collect();
    let bytes = signed(&all).encode();
    assert_eq!(bytes.len(), CHECKPOINT_PROOF_BYTES_MAX);
    assert!(CheckpointProof::decode(&bytes).is_ok());
}

#[test]
fn damage_is_told_from_a_proof_that_does_not_hold() {
    let bytes = signed(&[1, 2]).encode();
    for at in 0..bytes.len() {
        let mut damaged = bytes.to_vec();
        damaged[at] ^= 4;
        assert!(CheckpointProof::decode(&damaged.into()).is_err(), "byte {at}");
        assert!(CheckpointProof::decode(&bytes.slice(..at)).is_err(), "cut after {at}");
    }
}

/// The files of the corpus, which pin the format.
#[test]
fn corpus() {
    let proof = signed(&[1, 3]);
    let again = |list: &crate::Signed| {
        let (mut content, mut own) = (proof.encode().to_vec(), Vec::new());
        put_signed(&mut own, &proof.signed);
        content.truncate(content.len() - 8 - own.len());
        put_signed(&mut content, list);
        CheckpointProof::sealed(content)
    };
    assert_eq!(again(&proof.signed), proof.encode());
    let (one, three) = (proof.signed[0], proof.signed[1]);
    let (twice, turned) = (again(&vec![one, one]), again(&vec![three, one]));
    assert!(CheckpointProof::decode(&twice).is_err(), "who signs twice is read once");
    assert!(CheckpointProof::decode(&turned).is_err(), "there is one order");
    let seeds: [(&str, Bytes); 5] = [
        ("proof", proof.encode()),
        ("too_few", signed(&[1]).encode()),
        ("of_nobody", signed(&[]).encode()),
        ("signed_twice", twice),
        ("turned", turned),
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/checkpoint_proof");
    fs::create_dir_all(&folder).expect("the corpus can be created");
    for (name, bytes) in seeds {
        let path = folder.join(format!("seed_{name}"));
        if std::env::var_os("QUORATE_APPROVE").is_some() {
            fs::write(&path, &bytes).expect("a seed can be written");
        }
        let found = fs::read(&path).unwrap_or_default();
        assert!(found == bytes, "{path:?} is out of date; write it anew with QUORATE_APPROVE=1");
    }
    for file in fs::read_dir(folder).expect("the corpus is there") {
        fuzzing::checkpoint_proof(&fs::read(file.expect("an entry").path()).expect("a readable file"));
    }
}
