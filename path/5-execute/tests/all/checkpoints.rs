//! Images: what the executor's part of them holds comes back, and damaged ones are refused without a panic. That equal histories
//! give equal images is tested over random histories in `session_model.rs` and `images.rs`.

use crate::support::{self, Replica, commands, empty, open, open_with};
use proptest::prelude::*;
use quorate_execute::{CheckpointError, ImageParts, SessionLimits};
use quorate_types::{SessionId, SessionKey, Span};
use quorate_wire::ReplyStatus;

fn replica() -> Replica {
    // Those of the file below, and its level: what is usual now may be something else.
    let limits = SessionLimits {
        window: 9,
        ttl: Span::from_nanos(1000),
        reply_bytes_per_request_max: (1 << 20) + (64 << 10),
        ..SessionLimits::default()
    };
    let mut replica = Replica::new(limits);
    replica.executor.set_level(2);
    let id = replica.opened(1, 1);
    replica.run(5, &[open(1, 2), open(2, 1), commands(id, 1, 1, &[b"one"]), commands(id, 2, 1, &[b"two"])]);
    replica.run(6, &[empty(id, 3, 2)]);
    replica
}

/// The cluster's limits come with the state: a replica with other limits in its file decides as the others do.
#[test]
fn limits_travel_in_images() {
    let mut before = replica();
    let after = before.copy();
    assert_eq!(after.executor.sessions().limits(), before.executor.sessions().limits());
    assert_eq!(after.executor.seq(), before.executor.seq());
    assert_eq!(after.executor.time(), before.executor.time());
    assert_eq!(after.count(), 2);
}

/// The level is agreed on with the state: who goes on from an image goes on at the level that it was made at.
#[test]
fn the_level_travels_in_images() {
    let (mut before, mut other) = (replica(), replica());
    before.executor.set_level(7);
    assert_ne!(before.image().system, other.image().system);
    other.executor.set_level(7);
    assert_eq!(before.image().system, other.image().system);
    let mut after = before.copy();
    assert_eq!(after.image().system, before.image().system);
}

/// A session's key is a part of the state, as long as the session lives. Sessions without one are written as they always were.
#[test]
fn keys_of_sessions_travel_in_images() {
    let key = SessionKey::new([9; 32]);
    let mut before = replica();
    let without = before.image().system.len();
    before.run(7, &[open_with(3, 1, key), open(3, 2)]);
    let ids = [(0, 1), (3, 1), (4, 1)].map(|(index, generation)| SessionId { index, generation });
    let mut after = before.copy();
    for replica in [&before, &after] {
        assert_eq!(ids.map(|id| replica.executor.key(id)), [None, Some(key), None]);
    }
    assert_eq!(after.digest(), before.digest());
    assert_eq!(before.image().system.len(), without + 2 * 45 + 32);
    let mut other = replica();
    other.run(7, &[open_with(3, 1, SessionKey::new([8; 32])), open(3, 2)]);
    assert_ne!(other.digest(), before.digest());
    // Opened again it is the same session, with the key that it has.
    after.run(8, &[open_with(3, 1, SessionKey::new([8; 32]))]);
    assert_eq!(after.executor.key(ids[1]), Some(key));
    after.run(9, &[support::close(ids[1], 1)]);
    assert_eq!(after.executor.key(ids[1]), None);
}

/// Kept replies are part of the state: the retry after a restore gets the first answer.
#[test]
fn a_retry_after_a_restore_gets_the_first_answer() {
    let mut before = replica();
    let mut after = before.copy();
    let id = quorate_types::SessionId { index: 0, generation: 1 };
    let retry = [commands(id, 2, 2, &[b"two"]), commands(id, 1, 1, &[b"one"])];
    let seen = after.run(7, &retry);
    assert_eq!(seen, before.run(7, &retry));
    assert_eq!([seen[0].status, seen[1].status], [ReplyStatus::Done, ReplyStatus::ReplyForgotten]);
}

/// What the first version of the program wrote is read, and still written. The file never changes: if there is another version, its
/// bytes get a file of their own.
#[test]
fn an_image_of_version_1_is_read() {
    let byte = |text| u8::from_str_radix(text, 16).expect("hexadecimal");
    let bytes: Vec<u8> = include_str!("../fixtures/system-1.hex").split_whitespace().map(byte).collect();
    let mut before = replica();
    let image = before.image();
    let mut after = Replica::restored(&bytes, &image.objects).expect("an image of version 1");
    assert_eq!(after.digest(), before.digest());
    assert_eq!(bytes, image.system);
}

/// Cut off anywhere, the system part is refused, and the executor stays as it was.
#[test]
fn a_cut_off_image_is_refused() {
    let image = replica().image();
    let mut other = replica();
    let id = other.opened(3, 1);
    other.run(7, &[commands(id, 1, 1, &[b"three"])]);
    let before = other.digest();
    for len in 0..image.system.len() {
        let refused = other.executor.restore_image(&image.system[..len], &image.objects);
        assert!(refused.is_err(), "cut off at {len}");
    }
    let longer = [&image.system[..], &[0]].concat();
    let refused = other.executor.restore_image(&longer, &image.objects);
    assert!(matches!(refused, Err(CheckpointError::Malformed(_))));
    assert_eq!(other.digest(), before);
    assert_eq!(other.count(), 3);
}

proptest! {
    /// Damaged bytes are refused, or are another table that holds its invariants; never a panic.
    #[test]
    fn a_damaged_image_is_no_danger(at in any::<prop::sample::Index>(), value in any::<u8>(), more in any::<u8>()) {
        let ImageParts { system: mut bytes, objects } = replica().image();
        let at = at.index(bytes.len());
        bytes[at] = value;
        let _ = Replica::restored(&bytes, &objects);
        if at + 3 < bytes.len() {
            bytes[at + 3] = more;
        }
        let _ = Replica::restored(&bytes, &objects);
    }
}
