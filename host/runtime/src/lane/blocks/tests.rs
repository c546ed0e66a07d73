//! Which blocks are used again.

use super::*;
use quorate_wire::{FrameKind, FrameReader, OutFrame};
use std::sync::Arc;

#[test]
fn a_block_of_about_the_size_is_used_again() {
    let blocks = Blocks::default();
    assert_eq!(blocks.take(1 << 16), None);
    blocks.give(vec![1; 1 << 16]);
    assert_eq!(blocks.take((1 << 16) + 1), None, "it is too small");
    assert_eq!(blocks.take(1 << 14), None, "much of it would lie idle");
    assert_eq!(blocks.take(1 << 15).map(|block| block.len()), Some(1 << 16));
    assert_eq!(blocks.take(1 << 15), None, "once");
}

#[test]
fn a_lane_keeps_only_so_many() {
    let blocks = Blocks::default();
    (0..100).for_each(|_| blocks.give(vec![0; 1 << 18]));
    let kept = (0..100).filter(|_| blocks.take(1 << 18).is_some()).count();
    assert_eq!(kept, KEPT_BYTES_MAX >> 18);
    blocks.give(vec![0; 1 << 18]);
    assert!(blocks.take(1 << 18).is_some(), "what was taken does not count");
}

/// Payloads stay what they were while the reader goes on, and their memory comes back with the last of them.
#[test]
fn memory_comes_back_with_the_last_payload() {
    let blocks = Arc::new(Blocks::default());
    let mut reader = FrameReader::new(1 << 20);
    reader.use_memory(blocks.clone());
    let frame = |byte: u8| OutFrame::new(FrameKind::Order, &[byte; 40_000], vec![]).to_vec();
    let mut arrive = |byte| {
        for part in frame(byte).chunks(7_000) {
            let space = reader.space(1 << 16);
            space[..part.len()].copy_from_slice(part);
            reader.filled(part.len());
        }
        reader.frame().expect("the stream is sound").expect("it is there").payload
    };
    let (first, second) = (arrive(1), arrive(2));
    assert!(first.iter().all(|byte| *byte == 1) && second.iter().all(|byte| *byte == 2));
    let (part, held) = (first.slice(5..6), first.len());
    drop(first);
    assert_eq!((part[0], held), (1, 40_000));
    assert!(blocks.take(1 << 16).is_none(), "a part of it is still held");
    drop(part);
    let block = blocks.take(1 << 16).expect("it came back");
    assert!(block.len() >= 1 << 16);
    assert!(second.iter().all(|byte| *byte == 2));
}

/// Two large frames must not end the use of memory of the usual size.
#[test]
fn blocks_that_nobody_wants_make_room() {
    let blocks = Blocks::default();
    (0..2).for_each(|_| blocks.give(vec![0; 2 << 20]));
    (0..4).for_each(|_| blocks.give(vec![0; 1 << 20]));
    blocks.give(vec![0; 256 << 10]);
    assert!(blocks.take(256 << 10).is_some());
}
