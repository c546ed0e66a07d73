use super::{Ruling, TOKENS_MAX, Tokens};
use crate::{Batch, BatchHeader, RequestKind};
use bytes::Bytes;
use quorate_types::{AgreedTime, Digest, Reject, Seq, Slot};

fn sealed(header: BatchHeader) -> Batch {
    let mut bytes = Vec::new();
    Batch::begin(&mut bytes);
    let request = crate::RequestHeader {
        session: quorate_types::SessionId::NONE,
        number: quorate_types::RequestNumber::FIRST,
        lowest_unanswered: quorate_types::RequestNumber::FIRST,
        kind: RequestKind::Empty,
        len: 0,
        proof: crate::RequestProof::None,
    };
    request.write_to(&mut bytes);
    Batch::seal(bytes, BatchHeader { count: 1, ..header })
}

fn rulings() -> [Ruling; 2] {
    let token = Digest::new(std::array::from_fn(|at| at as u8));
    [Ruling::Final { attempt: 3, seq: Seq::new(12), token }, Ruling::Redo { attempt: 4 }]
}

#[test]
fn a_batch_has_a_base_and_a_ruling_or_one_of_them() {
    for ruling in rulings().map(Some).into_iter().chain([None]) {
        for base in [None, Some(AgreedTime::from_nanos(77))] {
            for border in [false, true] {
                let header = BatchHeader { base, border, ruling, seed: 9, ..BatchHeader::default() };
                let batch = sealed(header);
                let read = Batch::decode(batch.bytes().clone()).expect("a batch");
                assert_eq!(read.header(), BatchHeader { count: 1, ..header });
                assert_eq!(read.requests().flatten().count(), 1);
            }
        }
    }
}

#[test]
fn a_ruling_that_is_cut_off_is_no_part_of_a_request() {
    let [ruling, _] = rulings();
    let whole =
        Batch::seal(vec![0; Batch::HEADER], BatchHeader { ruling: Some(ruling), ..BatchHeader::default() });
    for len in Batch::HEADER..whole.bytes().len() {
        assert_eq!(
            Batch::decode(whole.bytes().slice(..len)),
            Err(Reject::Malformed("batch: header")),
            "{len} bytes"
        );
    }
}

#[test]
fn a_no_op_rules_nothing() {
    let mut bytes = Batch::no_op(Slot::new(5)).bytes().to_vec();
    bytes[20] |= crate::batch::RULED;
    bytes.extend([0; Ruling::BYTES]);
    assert!(Batch::decode(bytes.into()).is_err());
}

#[test]
fn no_more_tokens_are_taken_than_a_message_has() {
    let many =
        Tokens { attempt: 0, last: Seq::new(3), list: vec![(Seq::new(1), Digest::new([0; 32])); TOKENS_MAX] };
    let bytes = many.frame().to_vec();
    let payload = |bytes: Vec<u8>| Bytes::from(bytes).slice(crate::FRAME_HEADER..);
    assert_eq!(Tokens::decode(payload(bytes.clone())), Ok(many));
    let mut announced = bytes;
    announced[crate::FRAME_HEADER + 16..][..4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(Tokens::decode(payload(announced)), Err(Reject::TooLarge { .. })));
}
