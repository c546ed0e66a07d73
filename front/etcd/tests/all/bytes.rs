//! Bytes from outside: whatever they are, the service answers; and the encoding is what it is said to be.

use crate::support::{PutReq, ROOM, Subject};
use proptest::collection::vec;
use proptest::prelude::*;
use quorate_etcd::proto::{
    Fields, Malformed, Value, bytes_field, int_field, nested_field, number, number_len,
};
use quorate_etcd::{Command, Done, EtcdError, EventsPage, HashPage, RangePage, Reply, check_invariants};

#[test]
fn fields_as_the_encoding_says() {
    // From its public description: field 1 with 150, field 2 with "testing".
    let message = [0x08, 0x96, 0x01, 0x12, 0x07, b't', b'e', b's', b't', b'i', b'n', b'g'];
    let mut ours = vec![];
    int_field(&mut ours, 1, 150);
    bytes_field(&mut ours, 2, b"testing");
    assert_eq!(ours, message);
    let fields: Vec<_> = Fields::of(&message).collect();
    assert_eq!(fields, [Ok((1, Value::Number(150))), Ok((2, Value::Bytes(b"testing")))]);
    assert_eq!(Fields::of(&message[..5]).last(), Some(Err(Malformed)));
    // Other kinds are skipped, groups refused.
    let other = [0x09, 1, 2, 3, 4, 5, 6, 7, 8, 0x0d, 1, 2, 3, 4];
    assert_eq!(Fields::of(&other).collect::<Vec<_>>(), [Ok((1, Value::Other)), Ok((1, Value::Other))]);
    assert_eq!(Fields::of(&[0x0b]).collect::<Vec<_>>(), [Err(Malformed)]);
    // A negative number has ten bytes.
    let mut negative = vec![];
    int_field(&mut negative, 1, -1);
    assert_eq!(negative.len(), 11);
}

#[test]
fn messages_within_have_short_and_long_lengths() {
    for len in [0, 1, 127, 128, 20_000] {
        let mut out = vec![9];
        nested_field(&mut out, 3, |out| out.extend(vec![7; len]));
        let field = Fields::of(&out[1..]).next();
        assert_eq!(field, Some(Ok((3, Value::Bytes(&vec![7; len])))));
        assert_eq!(out.len(), 2 + number_len(len as u64) + len);
    }
}

#[test]
fn deep_transactions_are_refused() {
    let mut message = vec![];
    for _ in 0..3000 {
        let mut outer = vec![];
        nested_field(&mut outer, 2, |out| nested_field(out, 4, |out| out.extend_from_slice(&message)));
        message = outer;
    }
    let done = Subject::new().run(Command::Txn, |out| out.extend_from_slice(&message));
    assert_eq!(done, Err(EtcdError::TooManyOps));
}

#[test]
fn wide_transactions_are_refused() {
    let message = [0x12, 0x00].repeat(400_000);
    let done = Subject::new().run(Command::Txn, |out| out.extend_from_slice(&message));
    assert_eq!(done, Err(EtcdError::TooManyOps));
}

fn subject() -> Subject {
    let mut subject = Subject::new();
    for key in 0..20 {
        subject.put(&PutReq::new(&[b'k', key % 5], &[key; 50])).expect("done");
    }
    subject
}

proptest! {
    #[test]
    fn numbers_come_back(value: u64) {
        let mut bytes = vec![];
        number(&mut bytes, value);
        prop_assert_eq!(bytes.len(), number_len(value));
        let mut rest = bytes.as_slice();
        prop_assert_eq!(quorate_etcd::proto::read_number(&mut rest), Some(value));
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn any_bytes_are_answered(kind in prop_oneof![126..212u8, Just(250u8)], bytes in vec(any::<u8>(), 0..80)) {
        let mut subject = subject();
        let mut command = vec![kind];
        command.extend_from_slice(&bytes);
        let reply = subject.raw(&command, ROOM);
        prop_assert!(!reply.is_empty());
        let answer = subject.ask_raw(&command, ROOM);
        prop_assert!(!answer.is_empty());
        check_invariants(subject.service.objects());
    }

    #[test]
    fn nearly_right_bytes_are_answered(
        kind in prop_oneof![129..152u8, 193..210u8, Just(250u8)],
        fields in vec((0..12u32, prop_oneof![
            any::<i64>().prop_map(|value| { let mut out = vec![]; number(&mut out, value as u64); (0u8, out) }),
            vec(prop::sample::select(vec![0u8, 1, 2, 8, 10, 18, b'k']), 0..12).prop_map(|bytes| (2u8, bytes)),
        ]), 0..6),
    ) {
        let mut subject = subject();
        let (mut command, mut query) = (vec![kind], vec![kind, 0, 0]);
        for (field, (wire, bytes)) in fields {
            for out in [&mut command, &mut query] {
                number(out, u64::from(field) << 3 | u64::from(wire));
                if wire == 2 {
                    number(out, bytes.len() as u64);
                }
                out.extend_from_slice(&bytes);
            }
        }
        prop_assert!(!subject.raw(&command, ROOM).is_empty());
        prop_assert!(!subject.ask_raw(&query, ROOM).is_empty());
        check_invariants(subject.service.objects());
    }

    #[test]
    fn replies_and_pages_of_any_bytes(bytes in vec(any::<u8>(), 0..40)) {
        if let Ok(Done { revision, body }) = Reply::decode(&bytes) {
            let _ = (RangePage::decode(body), EventsPage::decode(revision, body), HashPage::decode(body));
        }
    }
}
