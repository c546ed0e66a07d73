//! Files of every format that was ever written are read. Those in `fixtures/format-1` were written by the first one, and never change: a
//! program reads the formats of the two versions before it (docs/formats/versions.md).

use quorate_state::checkpoint::fuzzing::MemoryFiles;
use quorate_state::checkpoint::{Image, Keeper, SystemPart};
use quorate_state::store::Store;
use quorate_types::Seq;

/// What the second of the two checkpoints holds.
fn expected() -> Image {
    let mut store = Store::new();
    for number in 0..40_u8 {
        store.put(&[b'k', number], &vec![number; 20 + usize::from(number)]);
    }
    store.put(b"k\x05", b"changed");
    store.remove(b"k\x07");
    Image { seq: Seq::new(200), border: 2, system: system(9), objects: store.version() }
}

fn system(byte: u8) -> SystemPart {
    SystemPart { order: vec![byte; 30].into(), execution: vec![byte; 70].into() }
}

/// A full checkpoint, and a differential one on top of it.
#[test]
fn files_of_format_1_are_read() {
    let full = include_bytes!("../fixtures/format-1/00000000000000000100.full");
    let differential = include_bytes!("../fixtures/format-1/00000000000000000200.diff");
    let mut files = MemoryFiles::default();
    files.files.insert("00000000000000000100.full".into(), full.to_vec());
    files.files.insert("00000000000000000200.diff".into(), differential.to_vec());
    let (_, opened) = Keeper::open(&mut files, false).expect("files that are read");
    let image = opened.image.expect("a checkpoint");
    let expected = expected();
    assert_eq!((image.seq, image.border, &image.system), (expected.seq, expected.border, &expected.system));
    assert_eq!(image.digest(), expected.digest());
    assert_eq!(opened.found.len(), 2, "both can be started from");
}
