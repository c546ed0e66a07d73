//! Frames in pieces, of wrong lengths, and words.

use bytes::{BufMut as _, BytesMut};
use proptest::prelude::*;
use quorate_zookeeper::server::{BadFrame, split, word};

#[test]
fn lengths_that_no_frame_has_are_refused() {
    for length in [-1, i32::MIN, 101, i32::MAX] {
        let mut bytes = BytesMut::from(&length.to_be_bytes()[..]);
        assert_eq!(split(&mut bytes, 100), Err(BadFrame { length }));
    }
    let mut bytes = BytesMut::from(&[0, 0, 0, 0, 0, 0][..]);
    assert_eq!(split(&mut bytes, 100).map(|frame| frame.map(|frame| frame.len())), Ok(Some(0)));
    assert_eq!((split(&mut bytes, 100), bytes.len()), (Ok(None), 2));
}

#[test]
fn words_are_four_letters() {
    assert_eq!((word(b"ruok"), word(b"mntr\n")), (Some(*b"ruok"), Some(*b"mntr")));
    assert_eq!((word(b"ruo"), word(&[0, 0, 0, 44]), word(b"RUOK")), (None, None, None));
}

proptest! {
    #[test]
    fn frames_come_in_any_pieces(
        frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..8),
        piece in 1..20_usize,
    ) {
        let mut all = BytesMut::new();
        for frame in &frames {
            all.put_u32(frame.len() as u32);
            all.put_slice(frame);
        }
        let (mut bytes, mut found) = (BytesMut::new(), Vec::new());
        for piece in all.chunks(piece) {
            bytes.extend_from_slice(piece);
            while let Some(frame) = split(&mut bytes, 40).expect("all are short enough") {
                found.push(frame.to_vec());
            }
        }
        prop_assert_eq!(found, frames);
    }
}
