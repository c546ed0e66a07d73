//! What survives a restart.

use super::one::{One, decisions, sent, some};
use super::world::value;
use crate::ledger::inconsistent;
use crate::mod_smart::message::ModSmartBody as Body;
use crate::mod_smart::{RECORD_DECIDED, RECORD_LOCKED, RECORD_VIEW, RECORD_WROTE};
use crate::{Effect, Effects, Input, Order, Stored};
use bytes::Bytes;
use quorate_auth::Signed;
use quorate_types::FaultModel::{Byzantine, Crash};
use quorate_types::{Halt, RecordId, Slot, Time, View};

fn propose(slot: u64, number: u64) -> Body {
    Body::Propose { slot: Slot::new(slot), batch: some(number) }
}

fn wrote(one: &One) -> Vec<Body> {
    let digest = value(&some(7));
    vec![Body::Write { slot: Slot::new(one.order.core.decided().number() + 1), digest }]
}

/// A vote binds the next life, too.
#[test]
pub(super) fn a_vote_is_not_cast_twice() {
    let mut one = One::new(0, 4, Byzantine);
    one.hear(1, 1, propose(1, 7));
    let mut again = One::restored(0, 4, Byzantine, one.disk);
    assert_eq!(sent(&again.hear(1, 1, propose(1, 8)), 2), [], "it wrote something else");
    let mut again = One::restored(0, 4, Byzantine, again.disk);
    again.hear(1, 1, propose(1, 7));
    let out: Vec<_> =
        [1, 2].into_iter().flat_map(|from| again.hear(from, 1, wrote(&again)[0].clone())).collect();
    assert!(sent(&out, 3).iter().any(|body| matches!(body, Body::Accept { .. })), "its vote still counts");
}

/// What is locked is stated when the next view begins, in the next life as well.
#[test]
fn a_lock_survives() {
    let mut one = One::new(0, 4, Byzantine);
    let digest = value(&some(7));
    one.hear(1, 1, propose(1, 7));
    for from in [1, 2] {
        one.hear(from, 1, Body::Write { slot: Slot::new(1), digest });
    }
    let mut again = One::restored(0, 4, Byzantine, one.disk);
    let stops = again.stops(2, &[1, 2, 3]);
    let out = again.hear(3, 2, Body::Certificate { stops });
    let stated = sent(&out, 2).into_iter().find_map(|body| match body {
        Body::StopData { collect, batches, .. } => Some((collect.lock, collect.writes, batches)),
        _ => None,
    });
    let vote = (View::FIRST, digest);
    assert_eq!(stated, Some((Some(vote), vec![vote], vec![some(7)])));
}

/// Everything that was decided is handed on again, with its proofs.
#[test]
fn decisions_survive() {
    for (model, members) in [(Crash, 3), (Byzantine, 4)] {
        let mut one = One::new(0, members, model);
        (1..=5).for_each(|slot| drop(one.decide(1, slot, 1, &some(slot))));
        let mut order = One::fresh(0, members, model);
        for (id, record) in (1..).zip(&one.disk) {
            order.restore(RecordId::new(id), record.clone()).expect("records of ours");
        }
        let mut out = Effects::new();
        order.start(one.now, &mut out);
        order.step(one.now, Input::Deadline, &mut out);
        let effects: Vec<_> = out.drain().collect();
        let want: Vec<_> = (1..=5).map(|slot| (slot, some(slot))).collect();
        assert_eq!(decisions(&effects), want);
        let proof = order.core.ledger.proof(Slot::new(5)).expect("the last proof is in memory").clone();
        assert!(order.core.proves(&proof));
        order.invariants(true);
    }
}

/// A view survives with its certificate, and who restarts in it waits for what binds it.
#[test]
fn a_view_survives() {
    let mut one = One::new(0, 4, Byzantine);
    let stops = one.stops(3, &[1, 2, 3]);
    one.hear(3, 3, Body::Certificate { stops: stops.clone() });
    let mut again = One::restored(0, 4, Byzantine, one.disk);
    assert_eq!(again.order.core.office.view(), View::new(3));
    let out = again.hear(1, 1, Body::Alive { decided: Slot::ZERO, round: 1 });
    assert_eq!(sent(&out, 1), [Body::Certificate { stops }]);
    assert_eq!(sent(&again.hear(3, 3, propose(1, 7)), 1), []);
}

/// A torn end: whatever was not synced is gone, from some record on. Nothing that is left contradicts itself.
#[test]
fn every_beginning_of_the_records_restores() {
    for (model, members) in [(Crash, 3), (Byzantine, 4)] {
        let mut one = One::new(0, members, model);
        (1..=3).for_each(|slot| drop(one.decide(1, slot, 1, &some(slot))));
        one.hear(1, 1, propose(4, 7));
        let stops = one.stops(2, &[0, 1, 2]);
        one.hear(2, 2, Body::Certificate { stops });
        for count in 0..=one.disk.len() {
            let again = One::restored(0, members, model, one.disk[..count].to_vec());
            again.order.invariants(true);
            assert!(again.order.core.decided() <= Slot::new(3));
        }
    }
}

fn record(kind: u8, head: &[u64], digest: bool, payload: Bytes) -> Stored {
    let mut bytes: Vec<u8> = head.iter().flat_map(|word| word.to_le_bytes()).collect();
    if digest {
        bytes.extend_from_slice(value(&some(7)).bytes());
    }
    Stored { kind, head: bytes.into(), payload }
}

fn view_record(view: u64) -> Stored {
    let mut payload = Vec::new();
    quorate_auth::write_signed(&mut payload, &Signed::new());
    record(RECORD_VIEW, &[view], false, payload.into())
}

/// The batch of a vote may have been trimmed with the records before: of a slot that was decided with another value it is not needed.
#[test]
fn a_vote_for_what_was_not_decided_needs_no_batch() {
    let mut one = One::new(0, 4, Byzantine);
    (1..=2).for_each(|slot| drop(one.decide(1, slot, 1, &some(slot))));
    let decided = one.disk.iter().position(|record| record.kind == RECORD_DECIDED).expect("a decision");
    let mut disk = one.disk.clone();
    disk.insert(decided, record(RECORD_WROTE, &[1, 1], true, Bytes::new()));
    let again = One::restored(0, 4, Byzantine, disk);
    assert_eq!(again.order.core.decided(), Slot::new(2));
}

/// Records that do not fit together are a reason to stop.
#[test]
fn a_log_that_contradicts_itself_halts() {
    let batch = some(7).bytes().clone();
    let wrote = |slot, view| record(RECORD_WROTE, &[slot, view], true, batch.clone());
    let wrong: [(&str, Vec<Stored>); 7] = [
        ("an older view", vec![view_record(2), view_record(2)]),
        ("a vote of an older view", vec![view_record(2), wrote(1, 1)]),
        ("a vote of a view that was not entered", vec![view_record(1), wrote(1, 2)]),
        ("no batch", vec![view_record(1), record(RECORD_WROTE, &[1, 1], true, Bytes::new())]),
        ("a short head", vec![Stored { kind: RECORD_LOCKED, head: Bytes::new(), payload: Bytes::new() }]),
        ("an unknown kind", vec![Stored { kind: 77, head: Bytes::new(), payload: Bytes::new() }]),
        (
            "a decision without a proof",
            vec![view_record(1), record(RECORD_DECIDED, &[1, 1], false, Bytes::new())],
        ),
    ];
    for (why, records) in wrong {
        let mut order = One::fresh(0, 4, Byzantine);
        let all = (1..).zip(records);
        let restored = all.into_iter().try_for_each(|(id, record)| order.restore(RecordId::new(id), record));
        let mut out = Effects::new();
        if restored.is_ok() {
            order.start(Time::from_nanos(1), &mut out);
        }
        let halts = out.drain().any(|effect| matches!(effect, Effect::Halt(Halt::LogInconsistent { .. })));
        assert!(halts || matches!(restored, Err(Halt::LogInconsistent { .. })), "{why}");
    }
    assert!(matches!(inconsistent("x"), Halt::LogInconsistent { .. }));
}

/// Records are lost in the middle: what is behind a later decision is known; else nobody knows how this replica voted.
#[test]
fn votes_before_a_decision_do_not_matter_any_more() {
    let mut one = One::new(0, 4, Byzantine);
    (1..=4).for_each(|slot| drop(one.decide(1, slot, 1, &some(slot))));
    one.hear(1, 1, propose(5, 5));
    let last = one.disk.iter().rposition(|record| record.kind == RECORD_DECIDED).expect("a decision");
    for at in 1..one.disk.len() {
        let mut order = One::fresh(0, 4, Byzantine);
        let mut kept: Vec<_> = one.disk.clone();
        kept.remove(at);
        for (id, record) in (1..).zip(kept) {
            if id == at as u64 + 1 {
                order.restore_gap(1);
            }
            order.restore(RecordId::new(id), record).expect("what was lost is no contradiction");
        }
        let gap_at_end = at == one.disk.len() - 1;
        if gap_at_end {
            order.restore_gap(1);
        }
        assert_eq!(order.restored().knows_vote, at < last, "record {at} of {}", one.disk.len());
        if order.restored().knows_vote {
            assert!(order.restored().needs_checkpoint, "slots are missing");
            let anchor = One::new(0, 4, Byzantine).order.anchor(Slot::ZERO).expect("the same at all");
            assert!(!order.covers(Slot::ZERO, &anchor));
            let slot = order.core.ledger.floor();
            assert!(order.covers(slot, &anchor));
            order.restore_installed(slot, &anchor).expect("it continues what is left");
            let mut out = Effects::new();
            order.start(one.now, &mut out);
            assert_eq!(order.core.decided(), Slot::new(4));
            order.invariants(true);
        }
    }
}

/// A replica that begins with a checkpoint of this slot, and these records.
fn after_checkpoint(slot: u64, model: quorate_types::FaultModel, members: usize, disk: &[Stored]) -> One {
    let mut order = One::fresh(0, members, model);
    let anchor = order.anchor(Slot::ZERO).expect("it begins there");
    order.restore_anchor(Slot::new(slot), &anchor).expect("an anchor of ours");
    One::begun(order, 0, members, model, disk.to_vec())
}

/// Records of three decided slots and a vote on the fourth, and those of the fourth's decision.
fn four_decided(model: quorate_types::FaultModel, members: usize) -> (Vec<Stored>, Vec<Stored>) {
    let mut one = One::new(0, members, model);
    (1..=4).for_each(|slot| drop(one.decide(1, slot, 1, &some(slot))));
    let decided = one.disk.iter().rposition(|record| record.kind == RECORD_DECIDED).expect("four were");
    (one.disk[..decided].to_vec(), one.disk[decided..].to_vec())
}

/// A checkpoint became durable before the record that its last slot is decided, and the power failed: nobody else may know of that
/// decision, or vouch for that checkpoint. The vote still counts, and the slot is decided again, and not handed on again.
#[test]
fn a_checkpoint_ahead_of_the_log_takes_no_vote_back() {
    for (model, members) in [(Crash, 3), (Byzantine, 4)] {
        let (disk, lost) = four_decided(model, members);
        assert_eq!(lost.len(), 1);
        let mut again = after_checkpoint(4, model, members, &disk);
        assert_eq!(again.order.core.decided(), Slot::new(3), "as far as its log says");
        assert_eq!(again.order.status().decided, Slot::new(4), "as far as it was handed on");
        assert_eq!(
            again.order.anchor(Slot::new(4)),
            again.order.anchor(Slot::new(3)),
            "the checkpoint's slot has one"
        );
        let stops = again.stops(2, &(1..members).collect::<Vec<_>>());
        let out = again.hear(1, 2, Body::Certificate { stops });
        let stated = sent(&out, 2).into_iter().find_map(|body| match body {
            Body::StopData { collect, batches, .. } => Some((collect.decided, collect.lock, batches)),
            _ => None,
        });
        assert_eq!(
            stated,
            Some((Slot::new(3), Some((View::FIRST, value(&some(4)))), vec![some(4)])),
            "{model:?}"
        );
        let proof = again.proof(1, 4, &some(4), &[0, 1, 2]);
        let out = again.hear(1, 2, Body::Decision { proof, batch: some(4) });
        assert_eq!((decisions(&out), again.order.core.decided()), (vec![], Slot::new(4)), "it was executed");
        let proof = again.proof(1, 5, &some(5), &[0, 1, 2]);
        let out = again.hear(1, 2, Body::Decision { proof, batch: some(5) });
        assert_eq!(decisions(&out), [(5, some(5))]);
        // What was decided again survives as any other.
        let again = after_checkpoint(4, model, members, &again.disk);
        assert_eq!(again.order.core.decided(), Slot::new(5));
    }
}

/// However much of the log is lost behind the checkpoint: what is left says where to go on.
#[test]
fn a_checkpoint_ahead_of_any_part_of_the_log_restores() {
    for (model, members) in [(Crash, 3), (Byzantine, 4)] {
        let (disk, _) = four_decided(model, members);
        for count in 1..=disk.len() {
            let decided = disk[..count].iter().filter(|record| record.kind == RECORD_DECIDED).count() as u64;
            let mut again = after_checkpoint(4, model, members, &disk[..count]);
            // With nothing but the view the log may as well begin with the checkpoint.
            let begun = count > 1;
            assert_eq!(
                again.order.core.decided().number(),
                if begun { decided } else { 4 },
                "{count} records, {model:?}"
            );
            for slot in again.order.core.decided().number() + 1..=5 {
                let proof = again.proof(1, slot, &some(slot), &[0, 1, 2]);
                let out = again.hear(1, 1, Body::Decision { proof, batch: some(slot) });
                assert_eq!(decisions(&out).len(), usize::from(slot == 5), "{slot} of {count} records");
            }
        }
    }
}

/// The others gave up what the log here lacks: the checkpoint that is here already serves.
#[test]
fn a_checkpoint_ahead_of_the_log_is_not_fetched_again() {
    for (model, members) in [(Crash, 3), (Byzantine, 4)] {
        let (disk, _) = four_decided(model, members);
        let mut again = after_checkpoint(6, model, members, &disk);
        assert_eq!(again.order.core.decided(), Slot::new(3));
        let gone = |one: &One, slot| Body::Gone {
            slot: Slot::new(slot),
            proof: Some(one.proof(1, slot, &some(slot), &[0, 1, 2])),
        };
        let body = gone(&again, 5);
        let out = again.hear(1, 1, body);
        assert!(!out.iter().any(|effect| matches!(effect, Effect::Behind { .. })), "{out:?}");
        assert_eq!(again.order.core.decided(), Slot::new(6), "{model:?}");
        let body = gone(&again, 9);
        let out = again.hear(1, 1, body);
        assert!(out.contains(&Effect::Behind { slot: Slot::new(9) }), "that one is too early: {out:?}");
        let again = after_checkpoint(6, model, members, &again.disk);
        assert_eq!(again.order.core.decided(), Slot::new(6), "the log says where it begins");
    }
}

/// The checkpoint ahead of the log may be the one to forget by: what the log lacks of it is not forgotten, nor is a vote.
#[test]
fn a_checkpoint_ahead_of_the_log_is_trimmed_to_as_far_as_that_goes() {
    let (disk, _) = four_decided(Crash, 3);
    let mut again = after_checkpoint(4, Crash, 3, &disk);
    again.step(Input::Trim { slot: Slot::new(4) });
    assert_eq!(
        (again.order.restored().begins_after, again.order.core.decided()),
        (Slot::new(3), Slot::new(3))
    );
    let again = after_checkpoint(4, Crash, 3, &again.disk);
    assert_eq!(again.order.voting.open.lock, Some((View::FIRST, value(&some(4)))));
}

/// What leads to the checkpoint is in the log: nobody need be given that checkpoint on this replica's word.
#[test]
fn what_leads_to_the_checkpoint_was_not_forgotten() {
    let (mut disk, lost) = four_decided(Crash, 3);
    let forgotten = |slot, disk: &[Stored]| {
        let mut order = One::fresh(0, 3, Crash);
        let anchor = order.anchor(Slot::ZERO).expect("it begins there");
        order.restore_anchor(Slot::new(slot), &anchor).expect("an anchor of ours");
        for (id, record) in (1..).zip(disk) {
            order.restore(RecordId::new(id), record.clone()).expect("records of ours");
        }
        let before = order.restored().begins_after;
        order.start(quorate_types::Time::ZERO, &mut Effects::new());
        assert_eq!(order.restored().begins_after, before, "the start changes nothing");
        before.number()
    };
    assert_eq!(forgotten(4, &disk), 0, "three slots, and a vote on the fourth");
    disk.extend(lost);
    assert_eq!((forgotten(4, &disk), forgotten(2, &disk), forgotten(6, &disk)), (0, 0, 0));
    assert_eq!(forgotten(4, &[]), 4, "there is nothing else");
    let mut one = One::restored(0, 3, Crash, disk);
    one.step(Input::Deadline);
    one.step(Input::Trim { slot: Slot::new(2) });
    assert_eq!((forgotten(4, &one.disk), forgotten(2, &one.disk)), (2, 2));
}

/// Who accepted a slot may be one of the quorum that decided it: reads wait for it here, in a later view and in the next life, too.
/// [mod_smart L148]
#[test]
pub(super) fn reads_wait_for_what_was_accepted() {
    let confirmed = |one: &mut One| {
        let effects = one.step(Input::Read(7));
        let slots = effects.iter().filter_map(|effect| match effect {
            Effect::ReadConfirmed { read: 7, slot } => Some(slot.number()),
            _ => None,
        });
        slots.collect::<Vec<u64>>()
    };
    let mut one = One::new(0, 4, Byzantine);
    one.decide(1, 1, 1, &some(1));
    assert_eq!(confirmed(&mut one), [1]);
    let digest = value(&some(7));
    one.hear(1, 1, propose(2, 7));
    one.hear(1, 1, Body::Write { slot: Slot::new(2), digest });
    assert_eq!(
        confirmed(&mut one),
        [1],
        "nobody decides it without what this replica did not send yet, or others did"
    );
    one.hear(2, 1, Body::Write { slot: Slot::new(2), digest });
    assert_eq!(confirmed(&mut one), [2]);
    let mut again = One::restored(0, 4, Byzantine, one.disk);
    assert_eq!(confirmed(&mut again), [2]);
    let stops = again.stops(2, &[1, 2, 3]);
    again.hear(3, 2, Body::Certificate { stops });
    assert_eq!(confirmed(&mut again), [2]);
}
