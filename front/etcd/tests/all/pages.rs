//! What does not fit a reply: pages of ranges, events and hashes; changes whose response would not fit are not made.

use crate::support::{DeleteReq, OpReq, PutReq, ROOM, RangeReq, Subject, TxnReq};
use quorate_etcd::proto::read_string;
use quorate_etcd::{Command, EtcdError, EventsQuery, HashPage, HashQuery, Query, RangeQuery};
use quorate_types::Span;

const ALL: &[u8] = &[0];

fn all() -> RangeReq {
    RangeReq { key: ALL.to_vec(), end: ALL.to_vec(), ..RangeReq::default() }
}

fn filled(keys: u32) -> Subject {
    let mut subject = Subject::new();
    for key in 0..keys {
        subject.put(&PutReq::new(&key.to_be_bytes(), &[b'v'; 100])).expect("done");
    }
    subject
}

#[test]
fn ranges_by_pages_are_as_whole_ones() {
    let subject = filled(300);
    for request in [
        all(),
        RangeReq { limit: 77, ..all() },
        RangeReq { revision: 150, ..all() },
        RangeReq { target: 3, order: 2, ..all() },
        RangeReq { target: 4, limit: 50, ..all() },
        RangeReq { bounds: [20, 200, 0, 0], ..all() },
        RangeReq { keys_only: true, ..all() },
    ] {
        let whole = subject.range(&request, ROOM).expect("there");
        assert!(whole.kvs.len() >= 50);
        assert_eq!(subject.range(&request, 1500).expect("there"), whole, "{request:?}");
    }
}

#[test]
fn an_entry_that_does_not_fit_is_refused() {
    let mut subject = Subject::new();
    subject.put(&PutReq::new(b"k", &[0; 2000])).expect("done");
    assert_eq!(subject.range(&all(), 1500), Err(EtcdError::ResponseTooLarge));
    let query = EventsQuery { revision: 1, key: ALL, range_end: ALL, ..EventsQuery::default() };
    assert_eq!(subject.events(&query, 1500), Err(EtcdError::ResponseTooLarge));
    // Without the value it does.
    assert_eq!(subject.range(&RangeReq { keys_only: true, ..all() }, 1500).expect("there").count, 1);
}

#[test]
fn what_was_before_an_event_is_left_out_where_both_do_not_fit() {
    let mut subject = Subject::new();
    subject.put(&PutReq::new(b"k", &[1; 1000])).expect("done");
    subject.put(&PutReq::new(b"k", &[2; 1000])).expect("done");
    let query =
        EventsQuery { revision: 3, key: ALL, range_end: ALL, prev_kv: true, ..EventsQuery::default() };
    assert!(subject.events(&query, ROOM).expect("there")[0].2.is_some());
    assert!(subject.events(&query, 1500).expect("there")[0].2.is_none());
}

#[test]
fn a_change_whose_response_does_not_fit_is_not_made() {
    let mut subject = filled(20);
    let before = subject.service.objects().version();
    let delete = DeleteReq { key: ALL.to_vec(), end: ALL.to_vec(), prev_kv: true };
    let txn = TxnReq {
        success: vec![OpReq::Put(PutReq::new(b"new", b"")), OpReq::Range(all())],
        ..TxnReq::default()
    };
    let (mut delete_bytes, mut txn_bytes) = (vec![Command::DeleteRange as u8], vec![Command::Txn as u8]);
    delete.encode(&mut delete_bytes);
    txn.encode(&mut txn_bytes);
    for command in [&delete_bytes, &txn_bytes] {
        assert_eq!(subject.raw(command, 1500), [EtcdError::ResponseTooLarge.number()]);
        assert!(subject.service.objects().version().same_objects(&before));
    }
    assert_eq!(subject.txn(&txn).expect("done").responses[1].kvs.len(), 21);
    assert_eq!(subject.delete(&delete).expect("done").kvs.len(), 21);
}

#[test]
fn several_queries_are_answered_as_each_alone() {
    let subject = filled(20);
    let encoded = |request: RangeReq| {
        let (mut message, mut query) = (vec![], vec![]);
        request.encode(&mut message);
        Query::Range(RangeQuery { continued: false, skip: 0, request: &message }).encode(&mut query);
        query
    };
    let one = |key: u32| encoded(RangeReq { key: key.to_be_bytes().to_vec(), ..RangeReq::default() });
    let queries = vec![one(3), encoded(RangeReq::default()), one(19), encoded(all()), vec![200], vec![]];
    let (_, body) = subject.ask(&Query::Many(&queries), ROOM).expect("answered");
    let mut rest = body.as_slice();
    for query in &queries {
        let reply = read_string(&mut rest).expect("a reply");
        // One of several can not be several itself.
        let alone =
            if query == &[200] { vec![EtcdError::Malformed.number()] } else { subject.ask_raw(query, ROOM) };
        assert_eq!(reply, alone);
    }
    assert!(rest.is_empty());
    // With little room those that do not fit are refused, and the others are answered.
    let (_, body) = subject.ask(&Query::Many(&queries[..3]), 400).expect("answered");
    let mut rest = body.as_slice();
    assert_eq!(read_string(&mut rest), Some(subject.ask_raw(&queries[0], ROOM).as_slice()));
    assert_eq!(read_string(&mut rest), Some([EtcdError::EmptyKey.number()].as_slice()));
    assert_eq!(read_string(&mut rest), Some([EtcdError::ResponseTooLarge.number()].as_slice()));
}

/// The whole hash, and the number of its pages.
fn hash(subject: &Subject, revision: i64) -> (HashPage, usize) {
    let (mut query, mut pages) = (HashQuery { revision, after: None }, 0);
    loop {
        let (_, body) = subject.ask(&Query::Hash(query.clone()), ROOM).expect("there");
        let page = HashPage::decode(&body).expect("a page");
        pages += 1;
        if page.is_whole() {
            return (page, pages);
        }
        query.after = Some(page);
    }
}

#[test]
fn hashes_show_differences_and_not_how_far_sweeping_is() {
    let (mut left, mut right) = (filled(3000), filled(3000));
    assert_eq!(hash(&left, 0), hash(&right, 0));
    right.put(&PutReq::new(&1u32.to_be_bytes(), b"other")).expect("done");
    left.put(&PutReq::new(&1u32.to_be_bytes(), b"value")).expect("done");
    assert_eq!(hash(&left, 3001), hash(&right, 3001));
    assert_ne!(hash(&left, 3002), hash(&right, 3002));
    right.put(&PutReq::new(&1u32.to_be_bytes(), b"value")).expect("done");
    left.put(&PutReq::new(&1u32.to_be_bytes(), b"value")).expect("done");
    for subject in [&mut left, &mut right] {
        subject.put(&PutReq::new(b"after", b"")).expect("done");
        subject.compact(3003).expect("done");
    }
    left.pass(Span::ZERO, 1);
    right.pass(Span::ZERO, 100);
    let (whole, pages) = hash(&left, 0);
    assert!(pages > 2);
    // What was compacted away differs in the version of that key only.
    assert_ne!(whole.hash, SEED_OF_NOTHING);
    assert_eq!(hash(&left, 3003).0, hash(&right, 3003).0);
    assert_eq!(subject_error(&left, 3002), EtcdError::Compacted);
}

/// What an empty list hashes to.
const SEED_OF_NOTHING: u64 = 0xcbf2_9ce4_8422_2325;

fn subject_error(subject: &Subject, revision: i64) -> EtcdError {
    subject.ask(&Query::Hash(HashQuery { revision, after: None }), ROOM).expect_err("refused")
}
