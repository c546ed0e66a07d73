//! Random commands, on the service and on the model: every response, every revision, every event is the same.

use crate::model::Model;
use crate::support::{CompareReq, DeleteReq, OpReq, PutReq, ROOM, RangeReq, Subject, TxnReq};
use proptest::collection::vec;
use proptest::prelude::*;
use quorate_etcd::proto::{Fields, Value, int_field};
use quorate_etcd::{Command, EtcdError, EventsQuery, Query, check_invariants};
use quorate_types::Span;

/// One step of a history. Revisions are chosen as so many back from the newest, so that most exist.
#[derive(Clone, Debug)]
enum Step {
    Put(PutReq),
    Delete(DeleteReq),
    Txn(TxnReq),
    Range(RangeReq, usize),
    Compact(i64),
    Grant(i64, i64),
    Revoke(i64),
    KeepAlive(i64),
    Pass(u64),
    Events { back: i64, key: Vec<u8>, end: Vec<u8>, flags: (bool, bool, bool), room: usize },
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        1 => Just(b"".to_vec()),
        9 => prop::sample::select(vec!["a", "a\0", "aa", "ab", "b", "c", "c\u{7f}"]).prop_map(|key| key.as_bytes().to_vec()),
    ]
}

fn end() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        2 => Just(b"".to_vec()),
        1 => Just(b"\0".to_vec()),
        2 => prop::sample::select(vec!["a", "ab", "b", "d"]).prop_map(|key| key.as_bytes().to_vec()),
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![Just(vec![]), Just(b"v".to_vec()), Just(b"w".to_vec()), Just(vec![b'x'; 300])]
}

fn lease() -> impl Strategy<Value = i64> {
    prop_oneof![5 => Just(0), 1 => Just(1), 1 => Just(2), 1 => Just(-1)]
}

fn rare() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.15)
}

fn put() -> impl Strategy<Value = PutReq> {
    (key(), value(), lease(), any::<bool>(), rare(), rare()).prop_map(
        |(key, mut value, mut lease, prev_kv, ignore_value, ignore_lease)| {
            // Mostly as it must be: "a" as the key keeps some that are refused.
            if ignore_value && key != b"a" {
                value.clear();
            }
            if ignore_lease && key != b"a" {
                lease = 0;
            }
            PutReq { key, value, lease, prev_kv, ignore_value, ignore_lease }
        },
    )
}

fn delete() -> impl Strategy<Value = DeleteReq> {
    (key(), end(), any::<bool>()).prop_map(|(key, end, prev_kv)| DeleteReq { key, end, prev_kv })
}

/// The revision is still relative.
fn range() -> impl Strategy<Value = RangeReq> {
    let small = || prop_oneof![3 => Just(0i64), 1 => 1..20i64];
    let revision = prop_oneof![2 => Just(i64::MIN), 1 => -1..8i64];
    (key(), end(), -1..4i64, revision, 0..3i64, 0..5i64, rare(), rare(), [small(), small(), small(), small()])
        .prop_map(|(key, end, limit, revision, order, target, keys_only, count_only, bounds)| RangeReq {
            key,
            end,
            limit,
            revision,
            order,
            target,
            keys_only,
            count_only,
            bounds,
        })
}

fn compare() -> impl Strategy<Value = CompareReq> {
    (0..4i64, 0..5i64, key(), end(), 0..4i64, value()).prop_map(
        |(relation, target, key, end, number, value)| CompareReq {
            relation,
            target,
            key,
            end,
            number,
            value,
        },
    )
}

fn operation() -> impl Strategy<Value = OpReq> {
    let leaf = prop_oneof![
        put().prop_map(OpReq::Put),
        delete().prop_map(OpReq::Delete),
        range().prop_map(OpReq::Range),
    ];
    leaf.prop_recursive(2, 8, 2, |inner| {
        (vec(compare(), 0..2), vec(inner.clone(), 0..3), vec(inner, 0..3))
            .prop_map(|(compare, success, failure)| OpReq::Txn(TxnReq { compare, success, failure }))
    })
}

fn txn() -> impl Strategy<Value = TxnReq> {
    (vec(compare(), 0..3), vec(operation(), 0..4), vec(operation(), 0..3))
        .prop_map(|(compare, success, failure)| TxnReq { compare, success, failure })
}

fn room() -> impl Strategy<Value = usize> {
    prop_oneof![Just(ROOM), Just(520usize)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => put().prop_map(Step::Put),
        3 => delete().prop_map(Step::Delete),
        4 => txn().prop_map(Step::Txn),
        6 => (range(), room()).prop_map(|(request, room)| Step::Range(request, room)),
        1 => (-1..6i64).prop_map(Step::Compact),
        1 => (1..3i64, -2..30i64).prop_map(|(id, ttl)| Step::Grant(id, ttl)),
        1 => Just(Step::Grant(-1, 5)),
        1 => lease().prop_map(Step::Revoke),
        1 => lease().prop_map(Step::KeepAlive),
        1 => (0..8000u64).prop_map(Step::Pass),
        3 => (-2..9i64, key(), end(), any::<(bool, bool, bool)>(), room())
            .prop_map(|(back, key, end, flags, room)| Step::Events { back, key, end, flags, room }),
    ]
}

/// Relative revisions become real ones.
fn fix_range(request: &mut RangeReq, newest: i64) {
    request.revision = if request.revision == i64::MIN { 0 } else { newest - request.revision };
}

fn fix_txn(txn: &mut TxnReq, newest: i64) {
    for operation in txn.success.iter_mut().chain(&mut txn.failure) {
        match operation {
            OpReq::Range(request) => fix_range(request, newest),
            OpReq::Txn(txn) => fix_txn(txn, newest),
            OpReq::Put(_) | OpReq::Delete(_) => {}
        }
    }
}

fn take(subject: &mut Subject, model: &mut Model, step: Step) {
    match step {
        Step::Put(request) => assert_eq!(subject.put(&request), model.put(&request), "{request:?}"),
        Step::Delete(request) => assert_eq!(subject.delete(&request), model.delete(&request), "{request:?}"),
        Step::Txn(mut request) => {
            fix_txn(&mut request, model.revision());
            let (ours, theirs) = (subject.txn(&request), model.txn(&request));
            // Of several reasons to refuse one, either may be given.
            assert_eq!(ours.is_ok(), theirs.is_ok(), "{request:?}: {ours:?} {theirs:?}");
            if ours.is_ok() {
                assert_eq!(ours, theirs, "{request:?}");
            }
        }
        Step::Range(mut request, room) => {
            fix_range(&mut request, model.revision());
            let (ours, theirs) = (subject.range(&request, room), model.range(&request));
            assert_eq!(ours, theirs, "{request:?}");
        }
        Step::Compact(back) => {
            let revision = model.revision() - back;
            assert_eq!(subject.compact(revision), model.compact(revision), "{revision}");
        }
        Step::Grant(id, ttl) => grant(subject, model, id, ttl),
        Step::Revoke(id) => {
            let ours =
                subject.run(Command::LeaseRevoke, |out| int_field(out, 1, id)).map(|(revision, _)| revision);
            assert_eq!(ours, model.revoke(id).map(|()| model.revision()));
        }
        Step::KeepAlive(id) => {
            let (_, body) =
                subject.run(Command::LeaseKeepAlive, |out| int_field(out, 1, id)).expect("an answer");
            let mut wanted = vec![];
            int_field(&mut wanted, 2, id);
            int_field(&mut wanted, 3, model.keep_alive(id, subject.now));
            assert_eq!(body, wanted);
        }
        Step::Pass(millis) => {
            subject.pass(Span::from_millis(millis), 1);
            model.pass(subject.now);
        }
        Step::Events { back, key, end, flags, room } => {
            let from = (model.revision() - back).max(0);
            let (no_put, no_delete, prev_kv) = flags;
            let query = EventsQuery {
                revision: from,
                sub: 0,
                no_put,
                no_delete,
                prev_kv,
                key: &key,
                range_end: &end,
            };
            // What was before an event is left out where both do not fit.
            let room = if prev_kv { ROOM } else { room };
            assert_eq!(subject.events(&query, room), model.events(from, (&key, &end), flags), "{query:?}");
        }
    }
}

fn grant(subject: &mut Subject, model: &mut Model, id: i64, ttl: i64) {
    let ours = subject.run(Command::LeaseGrant, |out| {
        int_field(out, 1, ttl);
        int_field(out, 2, id);
    });
    let mut wanted = vec![];
    let theirs = model.grant(id, ttl, subject.now).map(|ttl| {
        int_field(&mut wanted, 2, id);
        int_field(&mut wanted, 3, ttl);
        (model.revision(), wanted)
    });
    assert_eq!(ours, theirs);
}

/// Everything that can be asked for.
fn compare_all(subject: &Subject, model: &Model) {
    check_invariants(subject.service.objects());
    for revision in model.compacted().max(1)..=model.revision() {
        let request = RangeReq { key: vec![0], end: vec![0], revision, ..RangeReq::default() };
        assert_eq!(subject.range(&request, ROOM), model.range(&request));
    }
    let query = EventsQuery {
        revision: model.compacted(),
        key: &[0],
        range_end: &[0],
        prev_kv: true,
        ..Default::default()
    };
    let theirs = model.events(model.compacted(), (&[0], &[0]), (false, false, true));
    assert_eq!(subject.events(&query, ROOM), theirs);
}

fn compare_leases(subject: &mut Subject, model: &Model) {
    let (_, body) = subject.ask(&Query::Leases, ROOM).expect("an answer");
    let mut ours: Vec<i64> = Fields::of(&body)
        .map(|field| match field {
            Ok((2, Value::Bytes(message))) => {
                Fields::of(message).next().map_or(0, |field| field.unwrap().1.int().unwrap())
            }
            other => panic!("no lease: {other:?}"),
        })
        .collect();
    ours.sort_unstable();
    assert_eq!(ours, model.leases());
    for id in [1, 2, -1, 9] {
        let (_, body) = subject
            .run(Command::LeaseTimeToLive, |out| {
                int_field(out, 1, id);
                int_field(out, 2, 1);
            })
            .expect("an answer");
        let mut wanted = vec![];
        int_field(&mut wanted, 2, id);
        match model.time_to_live(id, subject.now) {
            None => int_field(&mut wanted, 3, -1),
            Some((left, granted)) => {
                int_field(&mut wanted, 3, left);
                int_field(&mut wanted, 4, granted);
                model
                    .keys_of(id)
                    .iter()
                    .for_each(|key| quorate_etcd::proto::message_field(&mut wanted, 5, key));
            }
        }
        assert_eq!(body, wanted);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn as_the_model(steps in vec(step(), 0..80)) {
        let (mut subject, mut model) = (Subject::new(), Model::new());
        let mut last = vec![];
        for step in steps {
            last.push(step.clone());
            take(&mut subject, &mut model, step);
        }
        compare_all(&subject, &model);
        compare_leases(&mut subject, &model);
        // However far sweeping is, it shows nowhere.
        subject.pass(Span::ZERO, 1000);
        model.pass(subject.now);
        compare_all(&subject, &model);
    }
}

#[test]
fn an_empty_store_is_at_revision_1() {
    let subject = Subject::new();
    let all = RangeReq { key: vec![0], end: vec![0], ..RangeReq::default() };
    assert_eq!(subject.range(&all, ROOM).expect("nothing").revision, 1);
    assert_eq!(subject.range(&RangeReq { revision: 2, ..all }, ROOM), Err(EtcdError::FutureRevision));
}
