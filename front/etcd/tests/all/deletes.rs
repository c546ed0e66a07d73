//! Deletes of more keys than one round has: of a range, and at the end of a lease.

use crate::support::{DeleteReq, PutReq, ROOM, RangeReq, Subject};
use quorate_etcd::proto::int_field;
use quorate_etcd::{Command, EventsQuery, Query, check_invariants};

/// Two rounds, and a part of a third.
const MANY: u32 = 20_500;
const ALL: &[u8] = &[0];

fn name(number: u32) -> Vec<u8> {
    [b"k/".as_slice(), &number.to_be_bytes()].concat()
}

/// A store with so many keys, which have these leases in turns, and two others beside them. Gives the revision of the last put.
fn filled(leases: &[i64]) -> (Subject, i64) {
    let mut subject = Subject::new();
    for lease in leases.iter().filter(|lease| **lease != 0) {
        let grant = |out: &mut Vec<u8>| {
            [(1, 1000), (2, *lease)].iter().for_each(|(at, value)| int_field(out, *at, *value))
        };
        subject.run(Command::LeaseGrant, grant).expect("granted");
    }
    for other in [b"k".as_slice(), b"k0"] {
        subject.put(&PutReq::new(other, b"stays")).expect("done");
    }
    for (number, lease) in (0..MANY).zip(leases.iter().cycle()) {
        let put = PutReq { lease: *lease, ..PutReq::new(&name(number), &number.to_be_bytes()) };
        subject.put(&put).expect("done");
    }
    let revision = revision(&subject);
    (subject, revision)
}

fn revision(subject: &Subject) -> i64 {
    subject.ask(&Query::Size, ROOM).expect("an answer").0
}

/// All is as after deletes one by one: what is left, what was there before, and the events in the order of the keys.
fn are_deleted(subject: &Subject, before: i64, deleted: &[u32]) {
    assert_eq!(revision(subject), before + 1, "all of it is one revision");
    check_invariants(subject.service.objects());
    let all = RangeReq { key: ALL.to_vec(), end: ALL.to_vec(), ..RangeReq::default() };
    let left = subject.range(&all, ROOM).expect("there").kvs;
    assert_eq!(left.len(), 2 + MANY as usize - deleted.len());
    let as_of = RangeReq { revision: before, ..all };
    assert_eq!(subject.range(&as_of, ROOM).expect("there").kvs.len(), 2 + MANY as usize);
    let query = EventsQuery {
        revision: before + 1,
        key: ALL,
        range_end: ALL,
        prev_kv: true,
        ..EventsQuery::default()
    };
    let events = subject.events(&query, ROOM).expect("there");
    assert_eq!(events.len(), deleted.len());
    for ((is_delete, kv, old), number) in events.into_iter().zip(deleted) {
        assert!(is_delete);
        assert_eq!((kv.key, kv.modified), (name(*number), before + 1));
        assert_eq!(old.expect("it had a value").value, number.to_be_bytes());
    }
}

#[test]
fn a_large_range_goes_at_once() {
    let (mut subject, revision) = filled(&[0, 0, 7]);
    let delete = DeleteReq { key: b"k/".to_vec(), end: b"k0".to_vec(), prev_kv: false };
    let done = subject.delete(&delete).expect("done");
    assert_eq!(done.count, i64::from(MANY));
    are_deleted(&subject, revision, &(0..MANY).collect::<Vec<_>>());
    assert_eq!(subject.delete(&delete).expect("done").count, 0, "there is nothing left");
}

#[test]
fn the_keys_of_a_lease_go_at_once() {
    let (mut subject, revision) = filled(&[0, 7]);
    subject.run(Command::LeaseRevoke, |out| int_field(out, 1, 7)).expect("revoked");
    are_deleted(&subject, revision, &(0..MANY).filter(|number| number % 2 == 1).collect::<Vec<_>>());
}
