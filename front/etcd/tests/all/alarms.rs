//! Alarms that clients set, and what they forbid.

use crate::support::{DeleteReq, OpReq, PutReq, ROOM, Subject, TxnReq};
use quorate_etcd::proto::{Fields, Value, bytes_field, int_field, nested_field};
use quorate_etcd::{Command, EtcdError, Query, SizeNow, has_no_space};

const GET: i64 = 0;
const ACTIVATE: i64 = 1;
const DEACTIVATE: i64 = 2;
const NOSPACE: i64 = 1;
const CORRUPT: i64 = 2;

fn alarm(subject: &mut Subject, action: i64, member: i64, kind: i64) -> Result<Vec<(i64, i64)>, EtcdError> {
    let write = |out: &mut Vec<u8>| {
        [(1, action), (2, member), (3, kind)]
            .into_iter()
            .for_each(|(field, value)| int_field(out, field, value));
    };
    subject.run(Command::Alarm, write).map(|(_, body)| alarms(&body))
}

fn listed(subject: &Subject) -> Vec<(i64, i64)> {
    subject.ask(&Query::Alarms, ROOM).map(|(_, body)| alarms(&body)).expect("an answer")
}

/// Each as its member and its kind.
fn alarms(body: &[u8]) -> Vec<(i64, i64)> {
    let one = |field| {
        let Ok((2, Value::Bytes(message))) = field else { panic!("no alarm: {field:?}") };
        let mut alarm = (0, 0);
        for field in Fields::of(message) {
            match field.expect("a field") {
                (1, value) => alarm.0 = value.int().expect("a number"),
                (2, value) => alarm.1 = value.int().expect("a number"),
                other => panic!("no field of an alarm: {other:?}"),
            }
        }
        alarm
    };
    Fields::of(body).map(one).collect()
}

/// What each kind of command is refused with, if it is.
fn refusals(subject: &mut Subject, round: i64) -> Vec<Option<EtcdError>> {
    let put = PutReq::new(format!("k{round}").as_bytes(), b"v");
    let in_branch = TxnReq { failure: vec![OpReq::Put(put.clone())], ..TxnReq::default() };
    let delete = DeleteReq { key: b"none".to_vec(), end: vec![], prev_kv: false };
    let deletes = TxnReq { success: vec![OpReq::Delete(delete.clone())], ..TxnReq::default() };
    vec![
        subject.put(&put).err(),
        subject.txn(&in_branch).err(),
        subject.run(Command::LeaseGrant, |out| int_field(out, 1, 60)).err(),
        subject.txn(&deletes).err(),
        subject.delete(&delete).err(),
        subject.compact(round).err(),
    ]
}

#[test]
fn what_an_alarm_forbids_is_refused_until_it_is_cleared() {
    let mut subject = Subject::new();
    for number in 0..8 {
        subject.put(&PutReq::new(b"a", &[number])).expect("done");
    }
    assert_eq!(refusals(&mut subject, 2), vec![None; 6]);
    assert_eq!(alarm(&mut subject, ACTIVATE, 7, NOSPACE), Ok(vec![(7, NOSPACE)]));
    let (full, none) = (Some(EtcdError::NoSpace), None);
    assert_eq!(refusals(&mut subject, 3), vec![full, full, full, none, none, none]);
    assert_eq!(alarm(&mut subject, ACTIVATE, 8, NOSPACE), Ok(vec![(8, NOSPACE)]));
    assert_eq!(alarm(&mut subject, ACTIVATE, -1, CORRUPT), Ok(vec![(-1, CORRUPT)]));
    assert_eq!(listed(&subject), vec![(7, NOSPACE), (8, NOSPACE), (-1, CORRUPT)]);
    assert_eq!(refusals(&mut subject, 4), vec![Some(EtcdError::Corrupt); 6]);
    assert_eq!(alarm(&mut subject, DEACTIVATE, -1, CORRUPT), Ok(vec![(-1, CORRUPT)]));
    assert_eq!(alarm(&mut subject, DEACTIVATE, 7, NOSPACE), Ok(vec![(7, NOSPACE)]));
    assert_eq!(refusals(&mut subject, 5)[0], full, "the other member's is still set");
    assert_eq!(alarm(&mut subject, DEACTIVATE, 8, NOSPACE), Ok(vec![(8, NOSPACE)]));
    assert_eq!(refusals(&mut subject, 6), vec![None; 6]);
    assert_eq!(listed(&subject), vec![]);
}

#[test]
fn alarms_of_no_kind_and_those_that_are_not_set_change_nothing() {
    let mut subject = Subject::new();
    assert_eq!(alarm(&mut subject, DEACTIVATE, 1, NOSPACE), Ok(vec![]), "it was not set");
    assert_eq!(alarm(&mut subject, ACTIVATE, 1, 0), Ok(vec![]));
    assert_eq!(alarm(&mut subject, ACTIVATE, 1, 77), Ok(vec![]));
    assert_eq!(alarm(&mut subject, GET, 1, NOSPACE), Err(EtcdError::Malformed), "that is asked, not ordered");
    assert_eq!(listed(&subject), vec![]);
    // What a request must be by itself is said first.
    alarm(&mut subject, ACTIVATE, 1, NOSPACE).expect("set");
    assert_eq!(subject.put(&PutReq::new(b"", b"v")).err(), Some(EtcdError::EmptyKey));
    let nothing = subject.run(Command::Txn, |out| nested_field(out, 3, |_| ()));
    assert_eq!(nothing, Err(EtcdError::KeyNotFound));
    assert_eq!(
        subject.run(Command::DeleteRange, |out| bytes_field(out, 2, b"z")).err(),
        Some(EtcdError::EmptyKey)
    );
}

fn upkeep(subject: &mut Subject, revision: i64, member: i64) -> Result<(), EtcdError> {
    subject
        .run(Command::Upkeep, |out| {
            int_field(out, 1, revision);
            int_field(out, 2, member);
        })
        .map(drop)
}

#[test]
fn what_members_do_by_themselves_compacts_and_raises_alarms() {
    let mut subject = Subject::new();
    for number in 0..8 {
        subject.put(&PutReq::new(b"a", &[number])).expect("done");
    }
    let size = |subject: &Subject| {
        let (_, body) = subject.ask(&Query::Size, ROOM).expect("an answer");
        SizeNow::decode(&body).expect("a size")
    };
    assert_eq!((size(&subject).compacted, size(&subject).is_sweeping), (0, false));
    assert_eq!(upkeep(&mut subject, 5, 0), Ok(()));
    assert_eq!((size(&subject).compacted, listed(&subject)), (5, vec![]));
    assert_eq!(upkeep(&mut subject, 5, 0), Err(EtcdError::Compacted), "another member was faster");
    assert_eq!(upkeep(&mut subject, 50, 0), Err(EtcdError::FutureRevision));
    assert_eq!(upkeep(&mut subject, 0, -7), Ok(()));
    assert_eq!(listed(&subject), vec![(-7, NOSPACE)], "a member's number is any 64 bits");
    assert_eq!(subject.put(&PutReq::new(b"a", b"v")).err(), Some(EtcdError::NoSpace));
    let (_, alarms) = subject.ask(&Query::Alarms, ROOM).expect("an answer");
    assert!(has_no_space(&alarms, -7_i64 as u64) && !has_no_space(&alarms, 7));
    assert_eq!(upkeep(&mut subject, 6, 0), Ok(()), "it frees space");
    alarm(&mut subject, ACTIVATE, 1, CORRUPT).expect("set");
    assert_eq!(upkeep(&mut subject, 7, 0), Err(EtcdError::Corrupt));
}

#[cfg(planted)]
#[test]
#[ignore = "a bug is in force in the whole process: run it alone"]
fn planted_alarms_are_found() {
    quorate_types::plant(Some("alarms-forbid-nothing"));
    let found = std::panic::catch_unwind(what_an_alarm_forbids_is_refused_until_it_is_cleared);
    quorate_types::plant(None);
    found.expect_err("what is let through is noticed");
}
