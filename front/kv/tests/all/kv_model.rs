//! Random commands against an ordered map, and random bytes against the decoders.

use crate::support::{self, checkpoint, encoded, put, query, run};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use quorate_execute::Service;
use quorate_kv::{Compare, Condition, KvCommand, KvError, KvQuery, KvReply, Operation, Scan, fuzzing};
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Few keys and values, so that commands meet.
fn text() -> impl Strategy<Value = &'static [u8]> {
    prop::sample::select(vec![&b""[..], b"a", b"ab", b"b", b"ba", b"c", b"\xff"])
}

fn condition() -> impl Strategy<Value = Condition<'static>> {
    prop_oneof![Just(Condition::Absent), Just(Condition::Present), text().prop_map(Condition::Equals)]
}

fn operation() -> impl Strategy<Value = Operation<'static>> {
    prop_oneof![
        3 => (text(), text()).prop_map(|(key, value)| Operation::Put { key, value }),
        1 => text().prop_map(|key| Operation::Get { key }),
        1 => text().prop_map(|key| Operation::Delete { key }),
    ]
}

fn scan() -> impl Strategy<Value = Scan<'static>> {
    (text(), text(), 0..4u64).prop_map(|(start, end, limit)| Scan { start, end, limit })
}

fn command() -> impl Strategy<Value = KvCommand<'static>> {
    let compare = (text(), condition()).prop_map(|(key, condition)| Compare { key, condition });
    prop_oneof![
        4 => operation().prop_map(KvCommand::One),
        2 => scan().prop_map(KvCommand::Scan),
        2 => (text(), condition(), text())
            .prop_map(|(key, condition, value)| KvCommand::Swap { key, condition, value }),
        2 => (vec(compare, 0..3), vec(operation(), 0..4), vec(operation(), 0..4))
            .prop_map(|(compares, then, otherwise)| KvCommand::Transaction { compares, then, otherwise }),
    ]
}

fn holds(model: &Model, key: &[u8], condition: &Condition<'_>) -> bool {
    let value = model.get(key).map(Vec::as_slice);
    match condition {
        Condition::Absent => value.is_none(),
        Condition::Present => value.is_some(),
        Condition::Equals(expected) => value == Some(expected),
    }
}

/// What the command must answer, as bytes; changes the model.
fn expected(model: &mut Model, command: &KvCommand<'_>) -> Vec<u8> {
    let mut out = vec![];
    match command {
        KvCommand::One(operation) => operate(model, operation, &mut out),
        KvCommand::Scan(scan) => {
            let inside = |key: &[u8]| key >= scan.start && (scan.end.is_empty() || key < scan.end);
            let all: Vec<(&[u8], &[u8])> =
                model.iter().map(|(k, v)| (&k[..], &v[..])).filter(|(key, _)| inside(key)).collect();
            let limit = if scan.limit == 0 { all.len() } else { all.len().min(scan.limit as usize) };
            let next = all.get(limit).map(|(key, _)| *key);
            KvReply::Entries { entries: all[..limit].to_vec(), next }.encode(&mut out);
        }
        KvCommand::Swap { key, condition, value } => {
            if holds(model, key, condition) {
                model.insert(key.to_vec(), value.to_vec());
                KvReply::Swapped.encode(&mut out);
            } else {
                KvReply::NotSwapped { current: model.get(*key).map(Vec::as_slice) }.encode(&mut out);
            }
        }
        KvCommand::Transaction { compares, then, otherwise } => {
            let succeeded = compares.iter().all(|compare| holds(model, compare.key, &compare.condition));
            let list = if succeeded { then } else { otherwise };
            let replies: Vec<Vec<u8>> = list
                .iter()
                .map(|operation| {
                    let mut one = vec![];
                    operate(model, operation, &mut one);
                    one
                })
                .collect();
            let replies = replies.iter().map(|one| KvReply::decode(one).expect("one reply")).collect();
            KvReply::Transaction { succeeded, replies }.encode(&mut out);
        }
    }
    out
}

fn operate(model: &mut Model, operation: &Operation<'_>, out: &mut Vec<u8>) {
    match operation {
        Operation::Put { key, value } => {
            let replaced = model.insert(key.to_vec(), value.to_vec()).is_some();
            KvReply::Put { replaced }.encode(out);
        }
        Operation::Get { key } => KvReply::Value(model.get(*key).map(Vec::as_slice)).encode(out),
        Operation::Delete { key } => KvReply::Deleted { existed: model.remove(*key).is_some() }.encode(out),
    }
}

proptest! {
    /// Every reply is what an ordered map gives, and the state at the end comes through a checkpoint.
    #[test]
    fn the_service_is_an_ordered_map(commands in vec(command(), 1..60)) {
        let (mut kv, mut model) = (support::kv(), Model::new());
        for command in &commands {
            let before = model.clone();
            prop_assert_eq!(run(&mut kv, command), expected(&mut model, command), "{:?} on {:?}", command, before);
        }
        prop_assert_eq!(kv.objects().len(), model.len() as u64);
        let mut restored = support::kv();
        restored.restore(&mut &checkpoint(&kv)[..]).expect("a good checkpoint");
        let all = query(&restored, &KvQuery::Scan(Scan { start: b"", end: b"", limit: 0 }));
        let entries = model.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        prop_assert_eq!(KvReply::decode(&all), Ok(KvReply::Entries { entries, next: None }));
    }

    /// What is encoded decodes to the same; cut off or lengthened it does not decode.
    #[test]
    fn commands_come_back(command in command()) {
        let bytes = encoded(&command);
        prop_assert_eq!(KvCommand::decode(&bytes), Ok(command));
        for len in 0..bytes.len() {
            prop_assert!(KvCommand::decode(&bytes[..len]).is_err());
        }
        prop_assert!(KvCommand::decode(&[&bytes[..], &[0]].concat()).is_err());
        fuzzing::decode(&bytes);
    }

    /// Replies of every form come back, too.
    #[test]
    fn replies_come_back(map in btree_map(vec(any::<u8>(), 0..5), vec(any::<u8>(), 0..300), 0..5), max in any::<u64>(), flag in any::<bool>()) {
        let entries: Vec<(&[u8], &[u8])> = map.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        let some = entries.first().map(|entry| entry.1);
        let replies = vec![
            KvReply::Put { replaced: flag },
            KvReply::Value(some),
            KvReply::Deleted { existed: flag },
        ];
        let all = [
            replies.clone(),
            vec![
                KvReply::Error(KvError::Malformed),
                KvReply::Error(KvError::KeyTooLong { max }),
                KvReply::Error(KvError::ValueTooLong { max }),
                KvReply::Error(KvError::TooManyOperations { max }),
                KvReply::Entries { entries, next: some },
                KvReply::Swapped,
                KvReply::NotSwapped { current: some },
                KvReply::Transaction { succeeded: flag, replies },
            ],
        ]
        .concat();
        for reply in all {
            let mut bytes = vec![];
            reply.encode(&mut bytes);
            prop_assert_eq!(KvReply::decode(&bytes), Ok(reply));
            fuzzing::decode(&bytes);
        }
    }

    /// The fuzz target's body over random bytes that begin like something.
    #[test]
    fn decoders_take_any_bytes(first in 0..10u8, rest in vec(prop_oneof![0..6u8, any::<u8>()], 0..60)) {
        fuzzing::decode(&[&[first][..], &rest].concat());
        fuzzing::decode(&rest);
    }
}

/// What counts most on the wire is small.
#[test]
fn a_small_put_is_small() {
    assert_eq!(encoded(&put(&[1; 16], &[2; 16])).len(), 35);
}

/// A list that announces more than there is costs nothing; neither do numbers that overflow.
#[test]
fn announced_counts_reserve_nothing() {
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    assert!(KvCommand::decode(&[&[6][..], &huge].concat()).is_err());
    assert!(KvCommand::decode(&[&[2][..], &huge].concat()).is_err());
    assert!(KvReply::decode(&[&[6, 1][..], &huge].concat()).is_err());
    let over = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
    assert!(KvCommand::decode(&[&[4, 0, 0][..], &huge].concat()).is_ok(), "the largest limit of a scan");
    assert!(KvCommand::decode(&[&[4, 0, 0][..], &over].concat()).is_err());
    let longer = [0x80; 11];
    assert!(KvCommand::decode(&[&[4, 0, 0][..], &longer, &[0]].concat()).is_err());
}
