//! Which record must stay.

use super::{id, record, slot};
use crate::Effects;
use crate::ledger::Records;

/// Records of which the first `count` are durable, and the first `durable` of them written.
fn records(count: u64, durable: u64) -> Records {
    let (mut records, mut out) = (Records::default(), Effects::new());
    for number in 1..=count {
        assert_eq!(records.persist(record(), false, &mut out), id(number), "numbered without a gap");
    }
    records.on_durable(id(durable));
    records
}

#[test]
fn without_a_floor_everything_stays() {
    assert_eq!(Records::default().keep_from([None, None]), None, "there is nothing");
    assert_eq!(records(5, 5).keep_from([Some(id(3)), None]), Some(id(1)));
}

/// A floor counts once it is durable; until then the one before it does.
#[test]
fn the_last_durable_floor_says_what_stays() {
    let (mut records, mut out) = (records(5, 5), Effects::new());
    records.persist_floor(record(), slot(3), &mut out);
    assert_eq!((records.keep_from([None, None]), records.stated()), (Some(id(1)), slot(3)));
    records.on_durable(id(6));
    assert_eq!(records.keep_from([None, None]), Some(id(6)));
    records.persist_floor(record(), slot(4), &mut out);
    assert_eq!(records.keep_from([None, None]), Some(id(6)), "the second one may be lost");
    records.on_durable(id(7));
    assert_eq!(records.keep_from([None, None]), Some(id(7)));
    assert_eq!(records.keep_from([Some(id(2)), None]), Some(id(2)), "the log begins before it");
    assert_eq!(records.keep_from([None, Some(id(4))]), Some(id(4)), "what is open lies before it");
    records.check();
}

/// What the next record replaces stays until that one is durable.
#[test]
fn what_is_replaced_is_held() {
    let (mut records, mut out) = (records(5, 5), Effects::new());
    records.persist_floor(record(), slot(3), &mut out);
    records.on_durable(id(6));
    records.hold([Some(id(4)), None]);
    assert_eq!(records.persist(record(), true, &mut out), id(7));
    assert_eq!(records.keep_from([None, None]), Some(id(4)));
    records.on_durable(id(7));
    assert_eq!(records.keep_from([None, None]), Some(id(6)));
    records.hold_all();
    assert_eq!(records.keep_from([None, None]), Some(id(1)));
}

/// What is being read stays until it was read, whoever waits for it.
#[test]
fn what_is_being_read_stays() {
    let (mut records, mut out) = (records(5, 5), Effects::new());
    records.persist_floor(record(), slot(5), &mut out);
    records.on_durable(id(6));
    let question = records.load(2, 1, vec![id(3), id(2)], &mut out).expect("there are records");
    assert_eq!(records.keep_from([None, None]), Some(id(2)));
    records.loaded(question.load);
    assert_eq!(records.keep_from([None, None]), Some(id(6)));
}

#[test]
#[should_panic(expected = "INV-LEDGER-2")]
fn what_is_not_durable_is_not_read() {
    let _ = records(5, 4).load(5, 1, vec![id(5)], &mut Effects::new());
}

#[test]
#[should_panic(expected = "INV-LEDGER-1")]
fn what_was_not_numbered_does_not_become_durable() {
    records(5, 4).on_durable(id(6));
}

/// An earlier run's records come in order; of its floors the last one counts.
#[test]
fn records_of_an_earlier_run_are_counted() {
    let mut records = Records::default();
    assert!(records.restore(id(2)).is_err(), "the first one is number 1");
    for number in 1..=4 {
        records.restore(id(number)).expect("the next one");
        if number > 2 {
            records.restore_floor(slot(number));
        }
    }
    assert_eq!((records.last(), records.durable(), records.stated()), (id(4), id(4), slot(4)));
    assert_eq!(records.keep_from([None, None]), Some(id(4)));
    assert!(records.restore(id(6)).is_err(), "one is missing");
    assert_eq!((records.pending(id(4)), records.pending(id(5))), (None, Some(id(5))));
    assert!(records.has_floor() && !Records::default().has_floor());
    assert!(!records.on_durable(id(4)), "no news");
}
