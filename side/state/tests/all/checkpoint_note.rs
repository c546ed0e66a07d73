//! A note beside the image in one file: whatever is in it, the image is the same, and every bit that turns over is noticed.

use crate::checkpoint_common::{Disk, Rng};
use crate::checkpoint_single::{examine, file_of, image, with};
use bytes::Bytes;
use quorate_state::checkpoint::{
    Image, Job, Keeper, Kind, NOTE_BYTES_MAX, Single, Step, SystemPart, add_note,
};
use quorate_state::store::Store;
use quorate_types::Seq;

const NAME: &str = "any name";

/// The file of this image with a note.
fn noted(image: &Image, note: &[u8]) -> Vec<u8> {
    let mut disk = with(file_of(image));
    add_note(&mut disk, NAME, note).expect("it is a full checkpoint");
    disk.content(NAME)
}

fn note_of(bytes: Vec<u8>) -> Result<Option<Bytes>, String> {
    let disk = &mut with(bytes);
    let single = Single::open(disk, NAME).map_err(|why| why.to_string())?;
    single.note(disk).map_err(|why| why.to_string())
}

#[test]
fn a_note_is_read_back_and_changes_no_image() {
    let mut rng = Rng::new(11);
    for (objects, len) in [(0, 1), (60, 0), (60, 500), (3000, NOTE_BYTES_MAX)] {
        let image = image(&mut rng, objects);
        assert_eq!(note_of(file_of(&image)), Ok(None));
        let note = rng.bytes(len);
        let bytes = noted(&image, &note);
        assert_eq!(bytes.len(), file_of(&image).len() + 8 + len, "a record more");
        assert_eq!(note_of(bytes.clone()), Ok(Some(note.into())));
        let loaded = examine(&mut with(bytes)).expect("it is whole");
        assert_eq!((loaded.digest(), loaded.objects.len()), (image.digest(), image.objects.len()));
    }
}

/// As programs that know no notes look at it: nothing is wrong.
#[test]
fn a_keeper_takes_such_a_file_for_a_checkpoint() {
    let image = image(&mut Rng::new(12), 300);
    let mut disk = Disk::default();
    disk.put(&format!("{:020}.full", image.seq.number()), noted(&image, b"a note"));
    let (mut keeper, opened) = Keeper::open(&mut disk, false).expect("it is one");
    assert_eq!(opened.image.expect("it is loaded").digest(), image.digest());
    keeper.submit(Job::Scrub);
    while keeper.step(&mut disk) != Step::Idle {}
    let reports: Vec<String> = keeper.reports().map(|report| format!("{report:?}")).collect();
    assert!(!reports.iter().any(|report| report.starts_with("Rot")), "{reports:?}");
}

#[test]
fn every_bit_that_turns_over_is_noticed() {
    let note = b"what somebody says of it";
    let bytes = noted(&image(&mut Rng::new(13), 20), note);
    let at = bytes.windows(note.len()).position(|part| part == note).expect("it is there");
    for at in at - 8..at + note.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(note_of(damaged).is_err(), "byte {at} of {}", bytes.len());
    }
}

/// What was captured ahead of a border and changed until then is no note of anybody.
#[test]
fn records_that_a_replica_left_there_are_read_over() {
    let (mut disk, mut store, mut rng) = (Disk::default(), Store::new(), Rng::new(14));
    let (mut keeper, _) = Keeper::open(&mut disk, false).expect("an empty disk");
    let mut change = |store: &mut Store, from: u64| {
        for key in from..400 {
            store.put(&key.to_be_bytes(), &rng.bytes(300));
        }
    };
    change(&mut store, 0);
    keeper.submit(Job::Ahead { border: 1, version: store.version() });
    while keeper.step(&mut disk) != Step::Idle {}
    change(&mut store, 390);
    let image =
        Image { seq: Seq::new(9), border: 1, system: SystemPart::from("system"), objects: store.version() };
    keeper.submit(Job::Border { image, write: Some(Kind::Full) });
    while keeper.step(&mut disk) != Step::Idle {}
    let bytes = disk.content(&disk.names()[0]);
    assert!(note_of(bytes.clone()).is_ok_and(|note| note.is_none_or(|note| !note.starts_with(b"note"))));
    let mut copy = with(bytes);
    add_note(&mut copy, NAME, b"note").expect("it is full");
    assert_eq!(note_of(copy.content(NAME)), Ok(Some("note".into())));
}

#[test]
fn only_a_sound_full_checkpoint_gets_a_note() {
    let bytes = file_of(&image(&mut Rng::new(15), 50));
    let mut footers = bytes.clone();
    let len = footers.len();
    (footers[len - 100], footers[len - 5000]) = (1, 1);
    for wrong in [b"something else".to_vec(), bytes[..len - 1].to_vec(), footers] {
        let mut disk = with(wrong.clone());
        assert!(add_note(&mut disk, NAME, b"note").is_err());
        assert_eq!(disk.content(NAME), wrong, "it is as it was");
    }
}
