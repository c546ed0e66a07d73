//! Single cases: what is refused, and with which text; identifiers; what ends when.

use crate::support::{self, CompareReq, DeleteReq, OpReq, PutReq, ROOM, RangeReq, Subject, TxnReq};
use quorate_etcd::proto::{Fields, Value, bytes_field, int_field, nested_field};
use quorate_etcd::{Command, EtcdError, Query};
use quorate_execute::Service as _;
use quorate_types::Span;

fn get(key: &[u8]) -> RangeReq {
    RangeReq { key: key.to_vec(), ..RangeReq::default() }
}

fn one(key: &[u8], end: &[u8]) -> DeleteReq {
    DeleteReq { key: key.to_vec(), end: end.to_vec(), prev_kv: false }
}

#[test]
fn every_error_has_a_number_of_its_own_and_the_text_of_etcd() {
    let mut numbers: Vec<u8> =
        (0..=u8::MAX).filter(|number| EtcdError::from_number(*number).is_some()).collect();
    numbers.dedup();
    assert_eq!(numbers, (1..=35).collect::<Vec<u8>>());
    assert_eq!(EtcdError::Compacted.text(), "etcdserver: mvcc: required revision has been compacted");
    assert_eq!(EtcdError::Compacted.code(), 11);
    assert_eq!(EtcdError::LeaseNotFound.code(), 5);
    assert_eq!(EtcdError::DuplicateKey.code(), 3);
    assert_eq!(EtcdError::PermissionDenied.text(), "etcdserver: permission denied");
    assert_eq!(EtcdError::PermissionDenied.code(), 7);
    assert_eq!(EtcdError::InvalidAuthToken.code(), 16);
}

#[test]
fn puts_are_refused_as_in_etcd() {
    let mut subject = Subject::new();
    let refused = |subject: &mut Subject, change: &dyn Fn(&mut PutReq)| {
        let mut request = PutReq::new(b"k", b"");
        change(&mut request);
        subject.put(&request).expect_err("refused")
    };
    assert_eq!(refused(&mut subject, &|put| put.key.clear()), EtcdError::EmptyKey);
    assert_eq!(refused(&mut subject, &|put| put.lease = 7), EtcdError::LeaseNotFound);
    assert_eq!(refused(&mut subject, &|put| put.ignore_value = true), EtcdError::KeyNotFound);
    assert_eq!(refused(&mut subject, &|put| put.ignore_lease = true), EtcdError::KeyNotFound);
    let both = |put: &mut PutReq| (put.ignore_value, put.value) = (true, b"v".to_vec());
    assert_eq!(refused(&mut subject, &both), EtcdError::ValueProvided);
    let both = |put: &mut PutReq| (put.ignore_lease, put.lease) = (true, 1);
    assert_eq!(refused(&mut subject, &both), EtcdError::LeaseProvided);
    let long = |put: &mut PutReq| put.value = vec![0; 3 << 19];
    assert_eq!(refused(&mut subject, &long), EtcdError::RequestTooLarge);
    let long = |put: &mut PutReq| put.key = vec![b'k'; 70_000];
    assert_eq!(refused(&mut subject, &long), EtcdError::RequestTooLarge);
    let put = OpReq::Put(PutReq::new(&[b'k'; 70_000], b"v"));
    let txn = TxnReq { success: vec![put], ..TxnReq::default() };
    assert_eq!(subject.txn(&txn).expect_err("refused"), EtcdError::RequestTooLarge);
    // None of it changed anything.
    assert_eq!(subject.put(&PutReq::new(b"k", b"v")).expect("done").revision, 2);
    let longest = vec![b'k'; (64 << 10) - 16];
    assert_eq!(subject.put(&PutReq::new(&longest, b"v")).expect("the longest key").revision, 3);
}

#[test]
fn transactions_are_refused_as_in_etcd() {
    let mut subject = Subject::new();
    let put = |key: &[u8]| OpReq::Put(PutReq::new(key, b"v"));
    let delete = |key: &[u8], end: &[u8]| OpReq::Delete(one(key, end));
    let txn = |success: Vec<OpReq>| TxnReq { success, ..TxnReq::default() };
    let branches = |success, failure| OpReq::Txn(TxnReq { compare: vec![], success, failure });
    let twice = Err(EtcdError::DuplicateKey);
    assert_eq!(subject.txn(&txn(vec![put(b"a"), put(b"a")])), twice);
    assert_eq!(subject.txn(&txn(vec![put(b"b"), delete(b"a", b"c")])), twice);
    assert_eq!(subject.txn(&txn(vec![put(b"a"), branches(vec![put(b"a")], vec![])])), twice);
    assert!(subject.txn(&txn(vec![branches(vec![put(b"a")], vec![put(b"a")])])).is_ok());
    assert!(subject.txn(&txn(vec![delete(b"a", b"c"), delete(b"b", b"")])).is_ok());
    assert_eq!(subject.txn(&txn((0..129).map(|key| put(&[key])).collect())), Err(EtcdError::TooManyOps));
    assert!(subject.txn(&txn((1..129).map(|key| put(&[key])).collect())).is_ok());
    // Each level has what the one above left.
    let nested = branches((1..128).map(|key| put(&[key])).collect(), vec![]);
    assert!(subject.txn(&txn(vec![nested.clone()])).is_ok());
    assert_eq!(subject.txn(&txn(vec![nested, put(b"z")])), Err(EtcdError::TooManyOps));
}

#[test]
fn an_operation_of_no_kind_is_refused() {
    let mut subject = Subject::new();
    let refused = subject.run(Command::Txn, |out| nested_field(out, 3, |_| ()));
    assert_eq!(refused, Err(EtcdError::KeyNotFound));
}

#[test]
fn compares_within_look_at_the_store_before_the_transaction() {
    let mut subject = Subject::new();
    let absent =
        CompareReq { relation: 0, target: 1, key: b"a".to_vec(), end: vec![], number: 0, value: vec![] };
    let inner = TxnReq {
        compare: vec![absent],
        success: vec![OpReq::Put(PutReq::new(b"seen", b"absent"))],
        failure: vec![],
    };
    let outer =
        TxnReq { success: vec![OpReq::Put(PutReq::new(b"a", b"1")), OpReq::Txn(inner)], ..TxnReq::default() };
    let response = subject.txn(&outer).expect("done");
    assert!(response.responses[1].succeeded);
    assert_eq!(subject.range(&get(b"seen"), ROOM).expect("there").kvs[0].value, b"absent");
}

#[test]
fn a_lease_without_an_id_gets_one_that_is_free_and_positive() {
    let mut subject = Subject::new();
    let mut ids = vec![];
    for _ in 0..20 {
        let (_, body) = subject.run(Command::LeaseGrant, |out| int_field(out, 1, 10)).expect("granted");
        let id = Fields::of(&body).next().expect("an id").expect("a field");
        let (2, Value::Number(id)) = id else { panic!("no id: {id:?}") };
        assert!(id > 0 && id <= i64::MAX as u64);
        ids.push(id);
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 20);
    let long = subject.run(Command::LeaseGrant, |out| int_field(out, 1, 9_000_000_001));
    assert_eq!(long, Err(EtcdError::LeaseTtlTooLarge));
}

#[test]
fn leases_end_by_agreed_time_and_take_their_keys_with_them() {
    let mut subject = Subject::new();
    for id in [5, 6] {
        subject
            .run(Command::LeaseGrant, |out| {
                int_field(out, 1, 4);
                int_field(out, 2, id);
            })
            .expect("granted");
    }
    for (key, lease) in [(b"b", 5), (b"a", 5), (b"c", 6)] {
        subject.put(&PutReq { lease, ..PutReq::new(key, b"v") }).expect("done");
    }
    // It gives the key up; a keep-alive puts the end off.
    subject.put(&PutReq { ignore_value: true, ..PutReq::new(b"b", b"") }).expect("done");
    subject.pass(Span::from_secs(3), 1);
    subject.run(Command::LeaseKeepAlive, |out| int_field(out, 1, 6)).expect("answered");
    assert_eq!(subject.service.next_deadline(), Some(subject.now.plus(Span::from_secs(1))));
    subject.pass(Span::from_secs(1), 1);
    assert!(subject.range(&get(b"a"), ROOM).expect("answered").kvs.is_empty());
    assert_eq!(subject.range(&get(b"b"), ROOM).expect("answered").kvs.len(), 1);
    assert_eq!(subject.range(&get(b"c"), ROOM).expect("answered").kvs[0].lease, 6);
    assert_eq!(subject.range(&get(b"a"), ROOM).expect("answered").revision, 6);
    subject.pass(Span::from_secs(3), 1);
    assert!(subject.range(&get(b"c"), ROOM).expect("answered").kvs.is_empty());
    assert_eq!(subject.service.next_deadline(), None);
}

#[test]
fn compaction_gives_memory_back_by_and_by() {
    let mut subject = Subject::new();
    for round in 0..3000u32 {
        subject.put(&PutReq::new(&[b'k', (round % 7) as u8], &round.to_le_bytes())).expect("done");
    }
    subject.delete(&one(&[b'k', 0], b"")).expect("done");
    subject.put(&PutReq::new(b"last", b"")).expect("done");
    let before = subject.service.objects().len();
    subject.compact(3003).expect("done");
    assert_eq!(subject.compact(3003), Err(EtcdError::Compacted));
    assert_eq!(subject.compact(3004), Err(EtcdError::FutureRevision));
    assert!(subject.service.next_deadline().is_some_and(|deadline| deadline <= subject.now));
    subject.pass(Span::ZERO, 1);
    let after_one = subject.service.objects().len();
    assert!(after_one < before && after_one > before - 1500, "a bounded number at once");
    subject.pass(Span::ZERO, 10);
    assert_eq!(subject.service.next_deadline(), None);
    // Six keys and the last one, each with head and entry, and the numbers.
    assert_eq!(subject.service.objects().len(), 15);
}

#[test]
fn transactions_that_only_read_can_be_asked() {
    let mut subject = Subject::new();
    subject.put(&PutReq::new(b"a", b"1")).expect("done");
    let mut message = vec![];
    nested_field(&mut message, 2, |out| OpReq::Range(get(b"a")).encode(out));
    assert!(Command::Txn.only_reads(&message));
    let (revision, body) = subject.ask(&Query::Txn(&message), ROOM).expect("answered");
    let response = support::Response::txn(&body);
    assert!(response.succeeded);
    assert_eq!((revision, response.responses[0].kvs[0].value.as_slice()), (2, &b"1"[..]));
    nested_field(&mut message, 3, |out| OpReq::Put(PutReq::new(b"a", b"2")).encode(out));
    assert!(!Command::Txn.only_reads(&message));
    assert!(subject.ask(&Query::Txn(&message), ROOM).is_err());
}

#[test]
fn members_announce_where_they_listen() {
    let mut subject = Subject::new();
    let announce = |subject: &mut Subject, member: i64, urls: &[&str]| {
        let write = |out: &mut Vec<u8>| {
            int_field(out, 1, member);
            urls.iter().for_each(|url| bytes_field(out, 2, url.as_bytes()));
        };
        subject.run(Command::Announce, write).expect("noted").0
    };
    let count = |subject: &Subject| {
        let (_, body) = subject.ask(&Query::Announced, ROOM).expect("answered");
        Fields::of(&body).count()
    };
    announce(&mut subject, 1, &["http://a:1"]);
    announce(&mut subject, 2, &["http://b:1", "http://b:2"]);
    announce(&mut subject, 1, &["http://a:2"]);
    assert_eq!(count(&subject), 2);
    // It is no change of a key, and one can be taken back.
    assert_eq!(announce(&mut subject, 2, &[]), 1);
    assert_eq!(count(&subject), 1);
}

/// Keys that had a value of so many bytes and lost it, all with one delete; then compacted at its revision.
fn compacted_at_a_delete(keys: usize, bytes: usize) -> Subject {
    let mut subject = Subject::new();
    for key in 0..keys {
        subject.put(&PutReq::new(format!("k{key:05}").as_bytes(), &vec![7; bytes])).expect("done");
    }
    let revision = subject.delete(&one(b"k", b"l")).expect("done").revision;
    subject.compact(revision).expect("done");
    sweep(&mut subject);
    subject
}

fn sweep(subject: &mut Subject) {
    let mut rounds = 0;
    while subject.service.next_deadline() == Some(quorate_types::AgreedTime::ZERO) {
        subject.pass(Span::from_millis(1), 1);
        rounds += 1;
        assert!(rounds < 1_000, "it ends");
    }
}

#[test]
fn a_compaction_at_a_delete_keeps_the_deletion_alone() {
    let (keys, bytes) = (2_500, 300);
    let mut subject = compacted_at_a_delete(keys, bytes);
    let revision = keys as i64 + 2;
    assert!(subject.service.objects().bytes() < (keys * bytes) as u64 / 2, "the values are gone");
    // A watch that begins there sees it, without what was before; and so does a range.
    let query = quorate_etcd::EventsQuery {
        revision,
        key: b"k",
        range_end: b"l",
        prev_kv: true,
        ..Default::default()
    };
    let events = subject.events(&query, ROOM).expect("not compacted");
    assert_eq!(events.len(), keys);
    assert!(events.iter().all(|(deletes, _, before)| *deletes && before.is_none()));
    let range = |revision| RangeReq { end: b"l".to_vec(), revision, ..get(b"k") };
    assert_eq!(subject.range(&range(revision), ROOM).expect("there").kvs, vec![]);
    assert_eq!(subject.range(&range(revision - 1), ROOM).err(), Some(EtcdError::Compacted));
    // A key has a value again, and the next compaction takes the deletions, too.
    let next = subject.put(&PutReq::new(b"k00000", b"again")).expect("done").revision;
    subject.compact(next).expect("done");
    sweep(&mut subject);
    assert_eq!(subject.range(&range(next), ROOM).expect("there").kvs.len(), 1);
    quorate_etcd::check_invariants(subject.service.objects());
    assert_eq!(subject.service.objects().len(), 3, "the numbers, a head and its entry");
}

#[test]
fn a_compaction_while_another_ones_own_entries_are_looked_at_misses_none() {
    let mut subject = Subject::new();
    for key in 0..2_500 {
        subject.put(&PutReq::new(format!("k{key:05}").as_bytes(), b"v")).expect("done");
    }
    let deleted = subject.delete(&one(b"k", b"l")).expect("done").revision;
    subject.compact(deleted).expect("done");
    // Into the middle of the deletions.
    (0..4).for_each(|_| subject.pass(Span::from_millis(1), 1));
    let next = subject.put(&PutReq::new(b"other", b"v")).expect("done").revision;
    subject.compact(next).expect("done");
    sweep(&mut subject);
    assert_eq!(subject.service.objects().len(), 3, "the numbers, a head and its entry");
}

#[cfg(planted)]
#[test]
#[ignore = "a bug is in force in the whole process: run it alone"]
fn planted_compaction_is_found() {
    quorate_types::plant(Some("sweep-before-revision"));
    let found = std::panic::catch_unwind(a_compaction_at_a_delete_keeps_the_deletion_alone);
    quorate_types::plant(None);
    found.expect_err("what stays is noticed");
}
