//! Members' keys that change with a membership: which one counts where, and who lacks its own.

use super::members::{change, holds, membership};
use super::one::{One, decisions, rejected, sent, some};
use super::world::{replica, value};
use crate::ledger::Proof;
use crate::mod_smart::Statements;
use crate::mod_smart::message::{Complaint, ModSmartBody as Body, ModSmartMessage};
use crate::{Effect, Input, Order, Stored};
use quorate_auth::{Authenticator, Keyed, Secret, Signature, Text};
use quorate_types::FaultModel::Byzantine;
use quorate_types::{AgreedTime, ClusterId, InstanceId, MembershipId, RecordId, Slot, Span, View};
use quorate_wire::{Batch, BatchHeader, Member, Membership, SystemCommand};

const SEED: u64 = 77;
const NEW: [u8; 32] = [9; 32];
/// The first view of the second membership, which member 0 leads.
const SECOND: u64 = (1 << 40) + 4;

/// From the second membership on this member has another key.
fn rekeyed(who: usize) -> Membership {
    let key = |at: usize| (at == who).then_some(NEW);
    let members = (0..4).map(|at| Member { key: key(at), ..Member::voter(replica(at)) });
    Membership::new(MembershipId::new(2), members.collect()).expect("a membership")
}

fn statements(number: u64) -> Statements {
    let (cluster, instance) = (ClusterId::new(0), InstanceId::new(1));
    Statements { cluster, membership: MembershipId::new(number), instance }
}

/// A member's signature with the key that it began with.
fn old(from: usize, text: &Text) -> Signature {
    Keyed::new(replica(from), SEED).sign(text)
}

/// The same with the key of the second membership.
fn new(from: usize, text: &Text) -> Signature {
    let mut keys = Keyed::new(replica(from), SEED);
    keys.know(replica(from), MembershipId::new(2), &NEW);
    keys.sign(text)
}

fn proof(number: u64, view: u64, slot: u64, batch: &Batch, members: &[usize]) -> Proof {
    let (view, slot, digest) = (View::new(view), Slot::new(slot), value(batch));
    let text = statements(number).accept(view, slot, digest);
    Proof { slot, view, digest, accepts: members.iter().map(|id| (replica(*id), old(*id, &text))).collect() }
}

/// Replica `me`, which holds only what it is given, after the first slot gave member `who` another key.
fn after(me: usize, who: usize, disk: Vec<Stored>) -> One {
    let begun = !disk.is_empty();
    let mut order = One::fresh(me, 4, Byzantine);
    order.core.auth = Box::new(Keyed::new(replica(me), SEED).that_must_hold());
    let mut one = One::begun(order, me, 4, Byzantine, disk);
    if !begun {
        let first = change(&membership(1, &[0, 1, 2, 3], &[]), &rekeyed(who));
        let said = holds(one.order.core.members.tenures(), &first, 0);
        let header = BatchHeader { time: AgreedTime::ZERO, count: 0, ..BatchHeader::default() };
        let batch = SystemCommand::Holds(said).batch(header);
        let proof = proof(1, 1, 1, &batch, &[0, 1, 2, 3]);
        one.hear(1 + usize::from(me == 1), 1, Body::Decision { proof, batch });
    }
    assert_eq!(one.order.core.office.view().number(), SECOND);
    one
}

/// What this replica signs or votes for: nothing else shows that it takes part.
fn voted(effects: &[Effect]) -> usize {
    let is_vote = |body: &Body| {
        matches!(
            body,
            Body::Write { .. }
                | Body::Accept { .. }
                | Body::Stop { .. }
                | Body::StopData { .. }
                | Body::Propose { .. }
        )
    };
    (0..4).map(|to| sent(effects, to).iter().filter(|body| is_vote(body)).count()).sum()
}

fn proposed(one: &mut One, slot: u64) -> Vec<Effect> {
    let (slot, batch) = (Slot::new(slot), some(slot));
    let digest = value(&batch);
    let mut effects = one.hear_in(2, 0, SECOND, Body::Propose { slot, batch });
    let me = usize::from(one.order.core.config.me.number());
    for from in (0..4).filter(|from| *from != me) {
        effects.extend(one.hear_in(2, from, SECOND, Body::Write { slot, digest }));
    }
    effects
}

#[test]
pub(super) fn an_old_key_votes_in_no_new_membership() {
    let mut one = after(1, 3, Vec::new());
    let (slot, digest) = (Slot::new(2), value(&some(2)));
    proposed(&mut one, 2);
    let text = statements(2).accept(View::new(SECOND), slot, digest);
    let accept = |from: usize, signature| (from, Body::Accept { slot, digest, signature });
    let (from, body) = accept(0, old(0, &text));
    one.hear_in(2, from, SECOND, body);
    let (from, body) = accept(3, old(3, &text));
    let effects = one.hear_in(2, from, SECOND, body);
    assert_eq!((decisions(&effects).len(), rejected(&effects)), (0, 1), "its key is another one now");
    let (from, body) = accept(3, new(3, &text));
    assert_eq!(decisions(&one.hear_in(2, from, SECOND, body)), [(2, some(2))]);
    let asked = View::new(SECOND + 1);
    let stop = |signature| Body::Stop { asked, why: Complaint::Silence, decided: slot, signature };
    let text = statements(2).stop(asked);
    assert_eq!(rejected(&one.hear_in(2, 3, SECOND, stop(old(3, &text)))), 1);
    assert_eq!(rejected(&one.hear_in(2, 3, SECOND, stop(new(3, &text)))), 0);
}

/// What the members before signed is proved with the keys of then, also after a restart from a checkpoint.
#[test]
fn old_proofs_stay_valid() {
    let one = after(1, 3, Vec::new());
    let anchor = one.order.anchor(Slot::FIRST).expect("known");
    let mut order = One::fresh(1, 4, Byzantine);
    order.restore_anchor(Slot::FIRST, &anchor).expect("an anchor of ours");
    let two = One::begun(order, 1, 4, Byzantine, Vec::new());
    let three = after(1, 3, one.disk.clone());
    for one in [&one, &two, &three] {
        let core = &one.order.core;
        let batch = some(1);
        assert!(core.proves(&proof(1, 1, 1, &batch, &[0, 2, 3])), "of the first membership");
        assert!(!core.proves(&proof(2, SECOND, 2, &batch, &[0, 2, 3])), "with an old key");
        assert!(core.proves(&proof(2, SECOND, 2, &batch, &[0, 1, 2])), "with keys that stay");
    }
}

#[test]
fn who_lacks_its_key_is_silent_and_follows() {
    let mut one = after(3, 3, Vec::new());
    let mut effects = proposed(&mut one, 2);
    effects.extend(one.pass(Span::from_secs(20)));
    assert_eq!(voted(&effects), 0, "{effects:?}");
    let (view, slot) = (View::new(SECOND), Slot::new(2));
    let text = statements(2).accept(view, slot, value(&some(2)));
    let accepts = [0, 1, 2].map(|from| (replica(from), old(from, &text)));
    let proof = Proof { slot, view, digest: value(&some(2)), accepts: accepts.into() };
    let effects = one.hear_in(2, 1, SECOND, Body::Decision { proof, batch: some(2) });
    assert_eq!(decisions(&effects), [(2, some(2))], "it learns what others decide");
    assert!(!one.order.standing().leading && voted(&effects) == 0);
}

#[test]
fn who_is_given_its_key_takes_part() {
    for restarted in [false, true] {
        let mut one = after(3, 3, Vec::new());
        if restarted {
            one = after(3, 3, one.disk.clone());
        }
        one.step(Input::Hold(Secret::new([1; 32])));
        assert_eq!(voted(&proposed(&mut one, 2)), 0, "another key is of no use");
        let effects = one.step(Input::Hold(Secret::new(NEW)));
        let accept =
            effects.iter().chain(&one.pass(Span::from_millis(500))).find_map(|effect| match effect {
                Effect::Send { message, .. } => {
                    message.get().and_then(|message: &ModSmartMessage| match &message.body {
                        Body::Accept { signature, .. } => Some(*signature),
                        _ => None,
                    })
                }
                _ => None,
            });
        let text = statements(2).accept(View::new(SECOND), Slot::new(2), value(&some(2)));
        assert_eq!(accept, Some(new(3, &text)), "with the key of this membership, after {effects:?}");
    }
}

/// Votes that this replica cast with its key bind it still after a life without the key.
#[test]
fn a_life_without_the_key_forgets_no_vote() {
    let mut one = after(3, 3, Vec::new());
    one.step(Input::Hold(Secret::new(NEW)));
    assert!(voted(&proposed(&mut one, 2)) > 0);
    let mut without = after(3, 3, one.disk.clone());
    assert_eq!(voted(&without.pass(Span::from_secs(5))), 0);
    for from in [0, 1, 2] {
        let write = Body::Write { slot: Slot::new(2), digest: value(&some(2)) };
        assert_eq!(voted(&without.hear_in(2, from, SECOND, write)), 0, "it stands by no vote");
    }
    let other = Body::Propose { slot: Slot::new(2), batch: some(7) };
    without.hear_in(2, 0, SECOND, other);
    let effects = without.step(Input::Hold(Secret::new(NEW)));
    let taken = without.order.core.decided().next();
    assert_eq!(taken, Slot::new(2));
    assert_eq!(without.order.voting.open.taken(View::new(SECOND)), Some(value(&some(2))), "{effects:?}");
}

/// Whoever is in a later view, and did not know what binds it, does not vote there before it is told.
#[test]
fn a_key_that_comes_late_frees_nobody_from_what_binds_the_view() {
    let mut one = after(3, 3, Vec::new());
    let asked = View::new(SECOND + 1);
    let text = statements(2).stop(asked);
    let stops = [0, 1, 2].map(|from| (replica(from), old(from, &text)));
    one.hear_in(2, 1, SECOND + 1, Body::Certificate { stops: stops.into() });
    assert_eq!(one.order.core.office.view(), asked);
    let effects = one.step(Input::Hold(Secret::new(NEW)));
    assert!(!one.order.core.has_begun(), "it is to be shown");
    assert!(voted(&effects) > 0, "it says what it knows");
    let propose = Body::Propose { slot: Slot::new(2), batch: some(2) };
    let votes = one.hear_in(2, 1, SECOND + 1, propose);
    assert_eq!(voted(&votes), 0);
    assert_eq!(one.order.core.ledger.records().last(), RecordId::new(one.disk.len() as u64));
}

/// No leader gives a member another key by itself: a replica votes for the change that its host was told of, key by key.
#[test]
fn a_leader_changes_no_key_by_itself() {
    for (key, taken) in [([8; 32], false), (NEW, true)] {
        let mut one = One::new(0, 4, Byzantine);
        let ordered = change(&membership(1, &[0, 1, 2, 3], &[]), &rekeyed(3));
        let mut members = ordered.now().members().to_vec();
        members[3].key = Some(key);
        let now = Membership::new(MembershipId::new(2), members).expect("a membership");
        let proposed =
            holds(one.order.core.members.tenures(), &change(&membership(1, &[0, 1, 2, 3], &[]), &now), 1);
        let batch = SystemCommand::Holds(proposed).batch(BatchHeader { count: 1, ..BatchHeader::default() });
        one.step(Input::Membership(ordered));
        let effects = one.hear(1, 1, Body::Propose { slot: Slot::FIRST, batch });
        let wrote = sent(&effects, 1).iter().any(|body| matches!(body, Body::Write { .. }));
        assert_eq!(wrote, taken, "{effects:?}");
    }
}
