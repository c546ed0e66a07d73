//! Checkpoints: what is forgotten, where a life begins, what is read back.

use super::one::{One, decisions, sent, some};
use crate::mod_smart::message::ModSmartBody as Body;
use crate::mod_smart::message::ModSmartMessage;
use crate::mod_smart::{ModSmart, ModSmartConfig, RECORD_DECIDED};
use crate::{Effect, Effects, Input, Order, Stored};
use quorate_types::FaultModel::{self, Byzantine, Crash};
use quorate_types::{RecordId, Slot};

fn ten(model: FaultModel) -> One {
    let members = if model == Crash { 3 } else { 4 };
    let mut one = One::new(0, members, model);
    (1..=10).for_each(|slot| drop(one.decide(1, slot, 1, &some(slot))));
    one
}

fn restart(one: &One, model: FaultModel, records: &[Stored], slot: u64) -> (ModSmart, Vec<Effect>) {
    let members = if model == Crash { 3 } else { 4 };
    let mut order = One::fresh(0, members, model);
    let anchor = one.order.anchor(one.order.core.decided()).expect("a decided slot");
    order.restore_anchor(Slot::new(slot), &anchor).expect("an anchor of ours");
    for (id, record) in (1..).zip(records) {
        order.restore(RecordId::new(id), record.clone()).expect("records of ours");
    }
    let mut out = Effects::new();
    order.start(one.now, &mut out);
    order.step(one.now, Input::Deadline, &mut out);
    order.invariants(true);
    let effects = out.drain().collect();
    (order, effects)
}

/// The checkpoint that a life begins with may be one that nobody else has, or vouches for: who lacks the slots that lead to it still gets
/// them here.
#[test]
fn what_leads_to_a_checkpoint_is_kept_for_others() {
    for model in [Crash, Byzantine] {
        let one = ten(model);
        for slot in 1..=10 {
            let (order, effects) = restart(&one, model, &one.disk, slot);
            assert_eq!(decisions(&effects).len() as u64, 10 - slot);
            assert_eq!((order.restored().begins_after, order.core.decided()), (Slot::ZERO, Slot::new(10)));
            assert!((1..=10).all(|slot| order.core.ledger.get(Slot::new(slot)).is_some()), "{slot}");
            assert!(order.core.ledger.proof(Slot::new(10)).is_some(), "the last one is in memory");
            assert_eq!(order.keep_from(), Some(RecordId::FIRST));
            // Without the record of slot 3 what lies before is of no use.
            let first = one.disk.iter().position(|record| record.kind == RECORD_DECIDED).expect("slot 1");
            let cut: Vec<_> = one.disk[first + 1..].to_vec();
            let (order, _) = restart(&one, model, &cut, slot);
            assert_eq!(order.restored().begins_after, Slot::new(1), "slot 1 is missing");
        }
    }
}

/// A fetched checkpoint took the place of a damaged one before the first input: nothing from before it is handed on.
#[test]
fn a_life_may_begin_with_another_checkpoint() {
    for model in [Crash, Byzantine] {
        let one = ten(model);
        let members = if model == Crash { 3 } else { 4 };
        let mut order = One::fresh(0, members, model);
        let anchor = one.order.anchor(Slot::new(6)).expect("a decided slot");
        order.restore_anchor(Slot::new(4), &anchor).expect("an anchor of ours");
        for (id, record) in (1..).zip(&one.disk) {
            order.restore(RecordId::new(id), record.clone()).expect("records of ours");
        }
        let mut out = Effects::new();
        order.start(one.now, &mut out);
        order.step(one.now, Input::Installed { slot: Slot::new(6), anchor }, &mut out);
        let effects: Vec<_> = out.drain().collect();
        let slots: Vec<_> = decisions(&effects).iter().map(|(slot, _)| *slot).collect();
        assert_eq!(slots, [7, 8, 9, 10]);
    }
}

/// With a durable checkpoint old records are superfluous, and what is left tells everything after it.
#[test]
fn what_a_checkpoint_holds_is_forgotten() {
    for model in [Crash, Byzantine] {
        let mut one = ten(model);
        assert_eq!(one.order.keep_from(), Some(RecordId::FIRST));
        one.step(Input::Trim { slot: Slot::new(6) });
        assert_eq!(one.order.restored().begins_after, Slot::new(6));
        let keep = one.order.keep_from().expect("there are records");
        assert!(keep > RecordId::new(6), "{keep}");
        for from in 1..=keep.number() {
            let (order, effects) = restart(&one, model, &one.disk[from as usize - 1..], 6);
            assert_eq!(order.core.office.view(), one.order.core.office.view());
            let slots: Vec<_> = decisions(&effects).iter().map(|(slot, _)| *slot).collect();
            assert_eq!(slots, [7, 8, 9, 10], "from record {from}");
        }
        assert_eq!(one.order.anchor(Slot::new(5)), None);
        assert!(one.order.anchor(Slot::new(6)).is_some() && one.order.anchor(Slot::new(11)).is_none());
        let out = one.hear(2, 1, Body::Fetch { slot: Slot::new(3), count: 9 });
        assert!(matches!(sent(&out, 2)[..], [Body::Gone { .. }]), "{out:?}");
    }
}

/// The last proof stays, also when everything is in the checkpoint: it is what the next view begins with.
#[test]
pub(super) fn the_proof_of_the_last_slot_stays() {
    let mut one = ten(Byzantine);
    one.step(Input::Trim { slot: Slot::new(10) });
    let keep = one.order.keep_from().expect("the floor's record");
    let (order, effects) = restart(&one, Byzantine, &one.disk[keep.number() as usize - 1..], 10);
    assert_eq!(decisions(&effects), []);
    let proof = order.core.ledger.proof(Slot::new(10)).expect("it was written down").clone();
    assert!(order.core.proves(&proof));
}

/// An open vote needs its record, however far the checkpoint reaches.
#[test]
fn the_records_of_open_votes_stay() {
    let mut one = ten(Byzantine);
    one.hear(1, 1, Body::Propose { slot: Slot::new(11), batch: some(11) });
    one.step(Input::Trim { slot: Slot::new(10) });
    let keep = one.order.keep_from().expect("records");
    let (order, _) = restart(&one, Byzantine, &one.disk[keep.number() as usize - 1..], 10);
    assert_eq!(order.voting.open.writes, one.order.voting.open.writes);
    assert_eq!(order.voting.open.writes.len(), 1);
}

/// A log that begins after its checkpoint is a reason to stop; unless it is known that a later checkpoint was lost.
#[test]
fn a_log_that_begins_too_late_halts() {
    let mut one = ten(Byzantine);
    one.step(Input::Trim { slot: Slot::new(6) });
    let keep = one.order.keep_from().expect("records").number() as usize;
    let anchor = one.order.anchor(Slot::new(6)).expect("known");
    let restore = |outdated: bool| {
        let mut order = One::fresh(0, 4, Byzantine);
        order.restore_anchor(Slot::new(3), &anchor).expect("an anchor of ours");
        if outdated {
            order.restore_outdated();
        }
        let all = (1..).zip(&one.disk[keep - 1..]);
        let result =
            all.into_iter().try_for_each(|(id, record)| order.restore(RecordId::new(id), record.clone()));
        (order, result)
    };
    assert!(restore(false).1.is_err());
    let (mut order, result) = restore(true);
    assert_eq!(result, Ok(()));
    assert!(order.restored().knows_vote && order.restored().needs_checkpoint);
    assert!(!order.covers(Slot::new(5), &anchor) && order.covers(Slot::new(6), &anchor));
    order.restore_installed(Slot::new(8), &anchor).expect("it continues");
    let mut out = Effects::new();
    order.start(one.now, &mut out);
    order.step(one.now, Input::Deadline, &mut out);
    let effects: Vec<_> = out.drain().collect();
    assert_eq!(decisions(&effects).iter().map(|(slot, _)| *slot).collect::<Vec<_>>(), [9, 10]);
}

#[test]
fn a_checkpoint_leads_forward_and_back() {
    let mut one = ten(Byzantine);
    let anchor = one.order.anchor(Slot::new(4)).expect("known");
    let out = one.step(Input::Installed { slot: Slot::new(4), anchor: anchor.clone() });
    assert_eq!(decisions(&out).iter().map(|(slot, _)| *slot).collect::<Vec<_>>(), [5, 6, 7, 8, 9, 10]);
    one.hear(1, 1, Body::Propose { slot: Slot::new(11), batch: some(11) });
    let out = one.step(Input::Installed { slot: Slot::new(20), anchor });
    assert_eq!(decisions(&out), []);
    assert_eq!((one.order.core.decided(), one.order.voting.open.writes.len()), (Slot::new(20), 0));
    let out = one.decide(1, 21, 1, &some(21));
    assert_eq!(decisions(&out), [(21, some(21))]);
    let keep = one.order.keep_from().expect("records").number() as usize;
    let (order, effects) = restart(&one, Byzantine, &one.disk[keep - 1..], 20);
    assert_eq!((order.core.decided(), decisions(&effects)), (Slot::new(21), vec![(21, some(21))]));
}

/// Batches leave the memory, and are read back for whoever asks, and for delivery.
#[test]
fn what_left_the_memory_is_read_back() {
    let config = || ModSmartConfig { cache_bytes: 200, ..One::config(0, 4, Byzantine) };
    let full = ten(Byzantine);
    let mut order = ModSmart::new(config(), Box::new(quorate_auth::Trusting));
    for (id, record) in (1..).zip(&full.disk) {
        order.restore(RecordId::new(id), record.clone()).expect("records of ours");
    }
    let (mut out, mut decided) = (Effects::new(), Vec::new());
    order.start(full.now, &mut out);
    order.step(full.now, Input::Deadline, &mut out);
    let mut questions = 0;
    loop {
        let effects: Vec<_> = out.drain().collect();
        decided.extend(decisions(&effects));
        let load = effects.iter().find_map(|effect| match effect {
            Effect::Load { load, records } => Some((*load, records.clone())),
            _ => None,
        });
        let Some((load, records)) = load else { break };
        questions += 1;
        let records = records.iter().map(|id| full.disk[id.number() as usize - 1].clone()).collect();
        order.step(full.now, Input::Loaded { load, records }, &mut out);
        order.invariants(true);
    }
    assert_eq!(decided, (1..=10).map(|slot| (slot, some(slot))).collect::<Vec<_>>());
    assert!(questions > 0);
}

/// Records that are read back must be what was asked for.
#[test]
fn wrong_records_halt() {
    let config = || ModSmartConfig { cache_bytes: 0, ..One::config(0, 4, Byzantine) };
    let full = ten(Byzantine);
    let mut order = ModSmart::new(config(), Box::new(quorate_auth::Trusting));
    for (id, record) in (1..).zip(&full.disk) {
        order.restore(RecordId::new(id), record.clone()).expect("records of ours");
    }
    let mut out = Effects::new();
    order.start(full.now, &mut out);
    order.step(full.now, Input::Deadline, &mut out);
    assert!(out.drain().any(|effect| matches!(effect, Effect::Load { load: 1, .. })));
    order.step(full.now, Input::Loaded { load: 1, records: full.disk[..3].to_vec() }, &mut out);
    assert!(out.drain().any(|effect| matches!(effect, Effect::Halt(_))));
}

/// What a replica states about a checkpoint that was installed waits for the record that its log begins after it.
#[test]
pub(super) fn a_statement_waits_for_what_it_says_of_the_log() {
    let mut one = One::new(0, 4, Byzantine);
    let stops = one.stops(2, &[1, 2, 3]);
    one.hear(2, 2, Body::Certificate { stops });
    one.autosync = false;
    let anchor = one.order.anchor(Slot::ZERO).expect("it begins there");
    let out = one.step(Input::Installed { slot: Slot::new(5), anchor });
    let last = RecordId::new(one.disk.len() as u64);
    let said = out.iter().find_map(|effect| match effect {
        Effect::Send { message, after, .. } => {
            match message.get().map(|message: &ModSmartMessage| &message.body) {
                Some(Body::StopData { collect, .. }) => Some((collect.decided, *after)),
                _ => None,
            }
        }
        _ => None,
    });
    assert_eq!(said, Some((Slot::new(5), Some(last))));
}

/// A replica enters a view that is bound to a value, and lacks slots before. The checkpoint that brings those slots does not hold the bound
/// one: its value still binds.
#[test]
fn a_checkpoint_before_the_bound_slot_leaves_it_bound() {
    let mut one = One::new(0, 3, Crash);
    let (bound, other) = (some(5), some(6));
    let digest = super::world::value(&bound);
    let collects = vec![one.collect(1, 2, 4, Some((1, digest)), &[]), one.collect(2, 2, 4, None, &[])];
    let stops = one.stops(2, &[1, 2]);
    one.hear(2, 2, Body::Sync { stops, collects, last: None, value: Some(bound) });
    let anchor = one.order.anchor(Slot::ZERO).expect("it begins there");
    let out = one.step(Input::Installed { slot: Slot::new(4), anchor });
    let mut accepted = sent(&out, 1);
    accepted.extend(sent(&one.hear(2, 2, Body::Propose { slot: Slot::new(5), batch: other }), 1));
    let accepted: Vec<_> = accepted
        .into_iter()
        .filter_map(|body| match body {
            Body::Accept { slot, digest, .. } => Some((slot.number(), digest)),
            _ => None,
        })
        .collect();
    assert_eq!(accepted, [(5, digest)]);
}
