use super::{WORTH_JOINING, join};
use crate::FrameKind;
use crate::batch::{Batch, BatchHeader};
use crate::frame::{OutFrame, Payload};
use proptest::prelude::*;

proptest! {
    #[test]
    fn joined_checksums_are_those_of_the_whole(first in prop::collection::vec(any::<u8>(), 0..300), second in prop::collection::vec(any::<u8>(), 0..3000)) {
        let whole = crc32c::crc32c_append(crc32c::crc32c(&first), &second);
        prop_assert_eq!(join(crc32c::crc32c(&first), crc32c::crc32c(&second), second.len() as u64), whole);
    }
}

#[test]
fn lengths_beyond_a_frame_are_right_as_well() {
    let zeros = vec![0; 1 << 20];
    let (first, mib) = (crc32c::crc32c(b"before"), crc32c::crc32c(&zeros));
    // The same by steps of a MiB.
    let mut whole = first;
    let mut second = crc32c::crc32c(&[]);
    for _ in 0..5000 {
        whole = crc32c::crc32c_combine(whole, mib, zeros.len());
        second = crc32c::crc32c_combine(second, mib, zeros.len());
    }
    assert_eq!(join(first, second, 5000 << 20), whole);
}

/// A frame is the same whether the checksums of its payloads are known or not, and a batch's is known only where that is worth it.
#[test]
fn frames_do_not_depend_on_what_is_known() {
    for len in [1, WORTH_JOINING - 1, WORTH_JOINING, 100_000] {
        let mut bytes = Vec::new();
        Batch::begin(&mut bytes);
        bytes.resize(len.max(bytes.len()), 7);
        let payload = Batch::seal(bytes, BatchHeader::default()).payload();
        assert_eq!(payload.crc.is_some(), len >= WORTH_JOINING);
        let unknown = Payload::from(payload.bytes.clone());
        let known = Payload { crc: Some(crc32c::crc32c(&payload.bytes)), ..payload.clone() };
        let frame = |payload: &Payload| {
            OutFrame::with_payloads(FrameKind::Order, b"head", vec![payload.clone(), payload.clone()])
        };
        assert_eq!(frame(&payload), frame(&unknown), "{len} bytes");
        assert_eq!(frame(&known), frame(&unknown), "{len} bytes");
    }
}
