//! A ledger by itself: decided slots are written, handed on, read back, trimmed and replaced by checkpoints.

use super::{Disk, batch, decided, proof, slot};
use crate::ledger::{Decided, Ledger, RecordedBatch, inconsistent};
use crate::{Effect, Effects, Stored};
use quorate_types::{Halt, Slot, View};

/// No protocol of its own writes anything here.
fn held(_: Stored) -> Result<RecordedBatch, Halt> {
    Err(inconsistent("nobody votes"))
}

/// A ledger that decided the slots 1 to `count`, durably, and the disk that it wrote them to.
fn ledger(count: u64, cache_bytes: Option<usize>) -> (Ledger, Disk) {
    let (mut ledger, mut disk) = (Ledger::new(cache_bytes), Disk::default());
    assert!(ledger.begin() && !ledger.begin(), "the first input comes once");
    for number in 1..=count {
        let mut out = Effects::new();
        ledger.decide(proof(number, number), batch(number), View::FIRST, None, &mut out);
        disk.write(&mut ledger, &mut out);
    }
    (ledger, disk)
}

/// What was handed on by now is not handed on again, and what is not in memory is read back.
#[test]
fn decided_slots_are_handed_on_also_from_the_disk() {
    let (mut ledger, disk) = ledger(9, Some(0));
    let mut out = Effects::new();
    ledger.deliver(&mut out);
    assert_eq!(decided(&mut out), (1..=9).map(|number| (number, number)).collect::<Vec<_>>());
    ledger.evict();
    assert!(ledger.get(slot(3)).is_some_and(|kept| kept.is_none()), "it left the memory");
    assert!(ledger.installed(slot(2), &mut out), "a checkpoint goes back");
    let Some(Effect::Load { load, records }) = out.drain().next() else { panic!("nothing is read back") };
    let stored = records.iter().map(|id| disk.record(*id)).collect();
    assert_eq!(ledger.on_loaded(load, stored, held, &mut out), Ok(None), "delivery asked");
    assert_eq!(decided(&mut out), (3..=9).map(|number| (number, number)).collect::<Vec<_>>());
    ledger.check();
}

/// What was read back for somebody else is given to whoever asked; what is not what was asked for stops the replica.
#[test]
fn answers_are_told_apart() {
    let (mut ledger, disk) = ledger(3, Some(0));
    let mut out = Effects::new();
    let question = ledger.load(slot(2), slot(3), &mut out).expect("there are such slots");
    let stored: Vec<Stored> = (2..=3).map(|number| disk.record(super::id(number))).collect();
    let given = ledger.on_loaded(question.load, stored.clone(), held, &mut out).expect("not for delivery");
    let all = crate::ledger::read_back(&question, given.expect("given back"), held).expect("as asked");
    assert_eq!(all.iter().map(|(proof, _)| proof.slot).collect::<Vec<_>>(), [slot(2), slot(3)]);
    assert!(crate::ledger::read_back(&question, stored[..1].to_vec(), held).is_err(), "one is missing");
    let wrong = vec![stored[1].clone(), stored[0].clone()];
    assert!(crate::ledger::read_back(&question, wrong, held).is_err(), "another order");
}

/// The log goes up to a durable checkpoint, and says so once.
#[test]
fn what_a_checkpoint_holds_is_trimmed() {
    let (mut ledger, _) = ledger(5, Some(1 << 20));
    assert!(!ledger.trim(slot(3)), "it was not handed on");
    ledger.deliver(&mut Effects::new());
    assert!(ledger.trim(slot(3)));
    assert_eq!((ledger.floor(), ledger.last(), ledger.delivered()), (slot(3), slot(5), slot(5)));
    assert_eq!(ledger.proof(slot(3)), Some(&proof(3, 3)));
    assert!(!ledger.trim(slot(2)), "that is gone");
    ledger.check();
}

/// A checkpoint beyond the log leaves nothing of it; the slot after it comes next.
#[test]
fn a_checkpoint_beyond_the_log_begins_it_anew() {
    let (mut ledger, mut disk) = ledger(5, Some(1 << 20));
    let mut out = Effects::new();
    assert!(!ledger.installed(slot(8), &mut out));
    ledger.begin_after(slot(8));
    ledger.decide(proof(9, 9), batch(9), View::FIRST, None, &mut out);
    disk.write(&mut ledger, &mut out);
    ledger.deliver(&mut out);
    assert_eq!((decided(&mut out), ledger.floor()), (vec![(9, 9)], slot(8)));
    ledger.check();
}

/// The batch stands in a vote's record where there is one, and in the decision's where there is none.
#[test]
fn a_batch_is_written_once() {
    let (mut ledger, mut out) = (Ledger::new(None), Effects::new());
    let vote = ledger.persist(super::record(), false, &mut out);
    ledger.decide(proof(1, 1), batch(1), View::FIRST, Some(vote), &mut out);
    ledger.decide(proof(2, 2), batch(2), View::FIRST, None, &mut out);
    let written = out.drain().filter_map(|effect| match effect {
        Effect::Persist { record, vital, .. } => Some((Decided::read(record).ok()?.batch.is_some(), vital)),
        _ => None,
    });
    assert_eq!(written.collect::<Vec<_>>(), [(false, true), (true, false)]);
    assert_eq!(ledger.keep_from(None), Some(super::id(1)));
    assert_eq!(ledger.last(), Slot::new(2));
}
