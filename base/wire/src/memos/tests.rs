use super::{Memos, MemosWanted, STEPS_MAX, SentMemo};
use crate::FRAME_HEADER;
use bytes::Bytes;
use quorate_types::{Digest, Reject, Seq};

fn payload(bytes: Vec<u8>) -> Bytes {
    Bytes::from(bytes).slice(FRAME_HEADER..)
}

fn wanted(after: u64, up_to: u64, from: u64) -> MemosWanted {
    MemosWanted { after: Seq::new(after), up_to: Seq::new(up_to), from: Seq::new(from) }
}

#[test]
fn a_question_is_about_seqs_behind_those_that_are_there() {
    for good in [wanted(0, 1, 1), wanted(3, 9, 4), wanted(3, 9, 9)] {
        assert_eq!(MemosWanted::decode(payload(good.frame().to_vec())), Ok(good));
    }
    for bad in [wanted(3, 3, 4), wanted(3, 9, 3), wanted(3, 9, 10), wanted(u64::MAX, 9, 4)] {
        assert!(MemosWanted::decode(payload(bad.frame().to_vec())).is_err(), "{bad:?}");
    }
    assert!(wanted(3, 9, 4).wants_steps() && !wanted(3, 9, 5).wants_steps());
}

#[test]
fn no_more_is_taken_than_a_message_has() {
    let step = (Seq::new(1), Digest::new([0; 32]));
    let memo = SentMemo { seq: Seq::new(1), before: Digest::new([0; 32]), body: Bytes::from_static(b"body") };
    let many = Memos {
        wanted: wanted(0, 5000, 1),
        steps: vec![step; STEPS_MAX],
        through: Seq::new(5000),
        list: vec![memo; 2],
    };
    let bytes = many.frame().to_vec();
    assert_eq!(Memos::decode(payload(bytes.clone())), Ok(many.clone()));
    // The count of the steps, and that of the memos.
    for at in [32, 36 + STEPS_MAX * 40] {
        let mut announced = bytes.clone();
        announced[FRAME_HEADER + at..][..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(Memos::decode(payload(announced)), Err(Reject::TooLarge { .. })));
    }
    for cut in [1, 7, 60] {
        assert!(Memos::decode(payload(bytes[..bytes.len() - cut].to_vec())).is_err());
    }
}
