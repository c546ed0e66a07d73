//! The testimony stepped alone: which statements it takes for contradictions, when, and how often.

use super::world::replica;
use crate::ledger::Proof;
use crate::mod_smart::ModSmartConfig;
use crate::mod_smart::Statements;
use crate::mod_smart::core::Core;
use crate::mod_smart::evidence::{Evidence, EvidenceKind, SignedAccept};
use crate::mod_smart::message::{Collect, ModSmartBody as Body, ModSmartMessage};
use crate::mod_smart::normal::Voting;
use crate::mod_smart::office::Phase;
use crate::mod_smart::testimony::Testimony;
use crate::{Effect, Effects};
use quorate_auth::{Authenticator, Ed25519, Keyed, Signature, Signed, Text};
use quorate_types::{ClusterId, Digest, FaultModel, InstanceId, MembershipId, ReplicaId, Slot, View};

const SEED: u64 = 5;

fn core(model: FaultModel) -> Core {
    let config = ModSmartConfig::new(replica(0), (0..4).map(replica).collect(), model, SEED);
    let mut core = Core::new(config, Box::new(Keyed::new(replica(0), SEED)));
    core.enter(View::FIRST, Signed::new(), Phase::free_after(Slot::ZERO), &mut Effects::new());
    core
}

fn sign(signer: ReplicaId, of: impl Fn(&Statements) -> Text) -> Signature {
    let statements = Statements {
        cluster: ClusterId::new(0),
        membership: MembershipId::FIRST,
        instance: InstanceId::new(1),
    };
    Keyed::new(signer, SEED).sign(&of(&statements))
}

fn accept(signer: ReplicaId, view: u64, slot: u64, value: u8) -> SignedAccept {
    let (view, slot, digest) = (View::new(view), Slot::new(slot), Digest::new([value; 32]));
    let signature = sign(signer, |statements| statements.accept(view, slot, digest));
    SignedAccept { view, slot, digest, signature }
}

type Vote = (u64, u8);

fn collect(from: ReplicaId, view: u64, decided: u64, lock: Option<Vote>, writes: &[Vote]) -> Collect {
    let vote = |(view, value): &Vote| (View::new(*view), Digest::new([*value; 32]));
    let mut collect = Collect {
        from,
        decided: Slot::new(decided),
        lock: lock.as_ref().map(vote),
        writes: writes.iter().map(vote).collect(),
        signature: Signature::NONE,
    };
    collect.signature = sign(from, |statements| statements.collect(View::new(view), &collect));
    collect
}

/// The kinds that are proved, each of which holds for a stranger.
fn proved(out: &mut Effects) -> Vec<(ReplicaId, EvidenceKind)> {
    let kind = |effect: Effect| match effect {
        Effect::Proved(evidence) => {
            assert_eq!(evidence.verify_as_member(&Keyed::new(replica(3), SEED)), Ok(()));
            Some((evidence.accused, evidence.kind))
        }
        _ => None,
    };
    out.drain().filter_map(kind).collect()
}

#[test]
fn the_second_accept_is_proved_once() {
    let (core, mut testimony, mut out) = (core(FaultModel::Byzantine), Testimony::default(), Effects::new());
    let (first, second) = (accept(replica(1), 1, 1, 7), accept(replica(1), 1, 1, 8));
    testimony.accepts(replica(1), first, second, &core, &mut out);
    assert_eq!(proved(&mut out), [(replica(1), EvidenceKind::TwoAccepts)]);
    testimony.accepts(replica(1), first, accept(replica(1), 1, 1, 9), &core, &mut out);
    assert_eq!(proved(&mut out), [], "one of each kind and member");
    testimony.accepts(replica(2), first, second, &core, &mut out);
    assert_eq!(proved(&mut out), [], "another member did not sign them");
}

/// A vote that came over the member's own link convinces this replica; with a wrong signature it convinces nobody else.
#[test]
fn what_is_not_signed_proves_nothing() {
    let (core, mut testimony, mut out) = (core(FaultModel::Byzantine), Testimony::default(), Effects::new());
    let (first, second) = (accept(replica(1), 1, 1, 7), accept(replica(1), 1, 1, 8));
    let unsigned = SignedAccept { signature: Signature::NONE, ..first };
    testimony.accepts(replica(1), unsigned, second, &core, &mut out);
    testimony.accepts(
        replica(1),
        first,
        SignedAccept { signature: first.signature, ..second },
        &core,
        &mut out,
    );
    assert_eq!(proved(&mut out), []);
    testimony.accepts(replica(1), first, second, &core, &mut out);
    assert_eq!(proved(&mut out).len(), 1, "what proves nothing does not use up the one proof");
}

/// With crash faults nothing is signed, and whatever is said looks right.
#[test]
fn where_nobody_lies_nobody_is_accused() {
    let (core, mut testimony, mut out) = (core(FaultModel::Crash), Testimony::default(), Effects::new());
    testimony.accepts(replica(1), accept(replica(1), 1, 1, 7), accept(replica(1), 1, 1, 8), &core, &mut out);
    testimony.hear(View::new(3), &collect(replica(1), 3, 0, Some((9, 1)), &[]), &core, &mut out);
    assert_eq!(proved(&mut out), []);
}

/// Two accepts for one slot in different views are what an honest member may do; a decision that holds the second is no evidence.
#[test]
pub(super) fn accepts_of_two_views_accuse_nobody() {
    let (core, mut testimony, mut out) = (core(FaultModel::Byzantine), Testimony::default(), Effects::new());
    testimony.keep([(replica(1), accept(replica(1), 1, 1, 7))].into_iter());
    let later = accept(replica(1), 2, 1, 8);
    let accepts = vec![(replica(1), later.signature)];
    let proof = Proof { slot: later.slot, view: later.view, digest: later.digest, accepts };
    testimony.decided(&proof, &Voting::default(), &core, &mut out);
    assert_eq!(proved(&mut out), []);
    let same = accept(replica(1), 1, 1, 8);
    let proof = Proof { view: same.view, accepts: vec![(replica(1), same.signature)], ..proof };
    testimony.decided(&proof, &Voting::default(), &core, &mut out);
    assert_eq!(proved(&mut out), [(replica(1), EvidenceKind::TwoAccepts)]);
}

/// A member that accepted may not say later that it locked nothing, whichever of both is heard first.
#[test]
fn who_accepted_does_not_forget_it() {
    let forgets = collect(replica(2), 4, 0, Some((1, 7)), &[(1, 7)]);
    let accept = accept(replica(2), 3, 1, 8);
    for accept_first in [true, false] {
        let (core, mut testimony, mut out) =
            (core(FaultModel::Byzantine), Testimony::default(), Effects::new());
        if accept_first {
            testimony.keep([(replica(2), accept)].into_iter());
        }
        testimony.hear(View::new(4), &forgets, &core, &mut out);
        if !accept_first {
            assert_eq!(proved(&mut out), []);
            let accepts = vec![(replica(2), accept.signature)];
            let proof = Proof { slot: accept.slot, view: accept.view, digest: accept.digest, accepts };
            testimony.decided(&proof, &Voting::default(), &core, &mut out);
        }
        assert_eq!(proved(&mut out), [(replica(2), EvidenceKind::AcceptDenied)], "{accept_first}");
    }
}

#[test]
fn statements_of_one_member_are_compared() {
    let (core, mut testimony, mut out) = (core(FaultModel::Byzantine), Testimony::default(), Effects::new());
    let honest = collect(replica(2), 4, 0, Some((3, 7)), &[(3, 7)]);
    testimony.hear(View::new(4), &honest, &core, &mut out);
    testimony.hear(View::new(4), &honest, &core, &mut out);
    testimony.hear(
        View::new(6),
        &collect(replica(2), 6, 0, Some((5, 8)), &[(3, 7), (5, 8)]),
        &core,
        &mut out,
    );
    assert_eq!(proved(&mut out), [], "it voted in between");
    testimony.hear(View::new(4), &honest, &core, &mut out);
    assert_eq!(proved(&mut out), [], "an old one may come late, and the newest is kept");
    testimony.hear(View::new(7), &collect(replica(2), 7, 0, Some((3, 7)), &[(3, 7)]), &core, &mut out);
    assert_eq!(proved(&mut out), [(replica(2), EvidenceKind::TwoStatements)]);
    assert!(testimony.is_bounded(4));
    testimony.forget();
    testimony.hear(View::new(7), &collect(replica(2), 7, 0, None, &[]), &core, &mut out);
    assert_eq!(proved(&mut out), [], "nothing of an earlier membership is compared");
}

/// The bytes that are kept are those that are checked.
#[test]
fn what_is_proved_survives_a_file() {
    let (core, mut testimony, mut out) = (core(FaultModel::Byzantine), Testimony::default(), Effects::new());
    testimony.hear(View::new(3), &collect(replica(1), 3, 4, Some((9, 1)), &[(9, 1)]), &core, &mut out);
    let Some(Effect::Proved(evidence)) = out.drain().next() else { panic!("it is proved") };
    assert_eq!(Evidence::decode(evidence.encode()), Ok(*evidence.clone()));
    assert_eq!(evidence.file_name(), "r1-impossible-statement-i1-v3-s5.proof");
}

/// With real signatures the evidence holds the key, as the members know it.
#[test]
fn the_key_is_in_the_evidence() {
    let secret = |of: usize| [of as u8 + 1; 32];
    let keys = (0..4).map(|of| (replica(of), Ed25519::public(secret(of))));
    let real = |of: usize| Ed25519::new(replica(of), secret(of), keys.clone()).expect("keys of ours");
    let mut core = core(FaultModel::Byzantine);
    core.auth = Box::new(real(0));
    let statements = Statements {
        cluster: ClusterId::new(0),
        membership: MembershipId::FIRST,
        instance: InstanceId::new(1),
    };
    let accept = |value: u8| {
        let mut accept = accept(replica(2), 1, 1, value);
        accept.signature = real(2).sign(&statements.accept(accept.view, accept.slot, accept.digest));
        accept
    };
    let (mut testimony, mut out) = (Testimony::default(), Effects::new());
    testimony.accepts(replica(2), accept(7), accept(8), &core, &mut out);
    let Some(Effect::Proved(evidence)) = out.drain().next() else { panic!("it is proved") };
    assert_eq!(evidence.key, Some(Ed25519::public(secret(2))));
    assert_eq!(evidence.verify(&Ed25519::public(secret(2))), Ok(()));
}

/// A member that accepted something else than was decided may have sent others the right accept: they are asked, once, and not for ever.
#[test]
fn others_are_asked_what_an_odd_member_accepted() {
    let (mut core, mut testimony, mut out) =
        (core(FaultModel::Byzantine), Testimony::default(), Effects::new());
    core.ledger.on_durable(core.ledger.records().last());
    let asked = |out: &mut Effects| {
        let slot = |effect: Effect| match effect {
            Effect::Send { to, message, .. } => match message.get::<ModSmartMessage>()?.body {
                Body::Fetch { slot, count: 1 } => Some((to, slot)),
                _ => None,
            },
            _ => None,
        };
        out.drain().filter_map(slot).collect::<Vec<_>>()
    };
    let (odd, right) = (accept(replica(1), 1, 1, 9), accept(replica(1), 1, 1, 7));
    testimony.note_odd([(replica(1), odd)].into_iter());
    testimony.note_odd([(replica(1), accept(replica(1), 1, 2, 9))].into_iter());
    testimony.tick(&core, &mut out);
    assert_eq!(asked(&mut out), [(replica(2), Slot::new(1)), (replica(3), Slot::new(1))]);
    testimony.tick(&core, &mut out);
    assert_eq!(asked(&mut out), []);
    let shown = |signed: SignedAccept| {
        let accepts = vec![(replica(1), signed.signature)];
        Proof { slot: signed.slot, view: signed.view, digest: signed.digest, accepts }
    };
    testimony.shown(&shown(accept(replica(1), 1, 2, 7)), &core, &mut out);
    testimony.shown(&shown(SignedAccept { signature: odd.signature, ..right }), &core, &mut out);
    assert_eq!(proved(&mut out), [], "of another slot, and with a wrong signature");
    testimony.shown(&shown(right), &core, &mut out);
    assert_eq!(proved(&mut out), [(replica(1), EvidenceKind::TwoAccepts)]);
    // What is not signed is not asked about; and each member costs so many questions, not more.
    let unsigned = SignedAccept { signature: Signature::NONE, ..accept(replica(2), 1, 1, 9) };
    testimony.note_odd([(replica(2), unsigned)].into_iter());
    testimony.tick(&core, &mut out);
    assert_eq!(asked(&mut out), []);
    let mut questions = 0;
    for slot in 0..400 {
        testimony.note_odd([(replica(3), accept(replica(3), 1, slot, 9))].into_iter());
        testimony.tick(&core, &mut out);
        questions += asked(&mut out).len();
    }
    assert_eq!(questions, 16 * 2);
    assert!(testimony.is_bounded(4));
}
