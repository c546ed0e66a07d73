//! The file of a checkpoint that is being fetched: each byte is written once, a crash loses only time, and the result is the file that
//! would have been written at once.

use std::sync::Arc;

use crate::checkpoint_common::{Disk, Rng};
use quorate_state::checkpoint::{
    Files as _, Growth, Image, Job, Keeper, Manifest, Opened, PartialPiece, Report, Step, encode_chunk,
};
use quorate_state::store::Store;
use quorate_types::Seq;

const PARTIAL: &str = "transfer.partial";
const OUTLINE: &str = "transfer.manifest";

fn open(disk: &mut Disk) -> (Keeper, Opened) {
    Keeper::open(disk, false).expect("the disk can be read")
}

fn settle(keeper: &mut Keeper, disk: &mut Disk) -> Vec<Report> {
    let mut reports = Vec::new();
    while keeper.step(disk) != Step::Idle {
        reports.extend(keeper.reports());
    }
    reports.extend(keeper.reports());
    reports
}

/// An image of some hundred KiB, in several pieces and many chunks.
fn image(border: u64) -> Image {
    image_of(border, border)
}

/// Images of one border have the same keys and lengths; `bytes` decides what their objects and system bytes are.
fn image_of(border: u64, bytes: u64) -> Image {
    let mut rng = Rng::new(bytes);
    let mut store = Store::new();
    for number in 0..400_u64 {
        store.put(&(number * 37).to_be_bytes(), &rng.bytes(3000));
    }
    let system = rng.bytes(150_000).into();
    Image { seq: Seq::new(border * 100), border, system, objects: store.version() }
}

/// What a transfer has of an image when the parts before `upto` are here: no other object is there.
fn growth(image: &Image, manifest: &Arc<Manifest>, upto: u32) -> Growth {
    let mut store = Store::new();
    let chunks = (upto as usize).saturating_sub(manifest.system().len());
    for chunk in &manifest.chunks()[..chunks] {
        for (key, value) in image.objects.entries_at(&chunk.path) {
            store.put(key, value);
        }
    }
    let image = Image { objects: store.version(), ..image.clone() };
    Growth { manifest: manifest.clone(), image, upto }
}

fn pieces(image: &Image, manifest: &Manifest) -> Vec<PartialPiece> {
    let system = image.system.pieces().map(|bytes| PartialPiece::System { bytes });
    let chunks = manifest.chunks().iter().map(|chunk| PartialPiece::Objects {
        path: chunk.path.clone(),
        bytes: encode_chunk(image.objects.entries_at(&chunk.path)),
    });
    system.chain(chunks).collect()
}

/// The file of an image that is written when all of it is here.
fn at_once(image: &Image) -> (String, Vec<u8>) {
    let mut disk = Disk::default();
    let (mut keeper, _) = open(&mut disk);
    keeper.submit(Job::Install { image: image.clone() });
    settle(&mut keeper, &mut disk);
    disk.all().into_iter().next().expect("it is written")
}

fn is_written(reports: &[Report]) -> bool {
    reports.iter().any(|report| matches!(report, Report::Written { .. }))
}

#[test]
fn each_byte_of_a_fetched_checkpoint_is_written_once() {
    let (image, mut rng) = (image(1), Rng::new(1));
    let manifest = Arc::new(Manifest::of(&image));
    let (name, whole) = at_once(&image);
    for round in 0..20 {
        let mut disk = Disk::default();
        let (mut keeper, _) = open(&mut disk);
        let mut upto = manifest.system().len() as u32;
        while upto < manifest.parts() {
            upto = manifest.parts().min(upto + 1 + rng.below(9) as u32);
            keeper.submit(Job::Grow(growth(&image, &manifest, upto)));
            for _ in 0..rng.below(3) {
                let _ = keeper.step(&mut disk);
            }
        }
        if round % 2 == 0 {
            settle(&mut keeper, &mut disk);
            let left = whole.len() as u64 - disk.content(PARTIAL).len() as u64;
            assert!(left < 30_000, "{left} bytes of {} are left for the end", whole.len());
        }
        keeper.submit(Job::Install { image: image.clone() });
        assert!(is_written(&settle(&mut keeper, &mut disk)));
        keeper.submit(Job::ForgetPartial);
        settle(&mut keeper, &mut disk);
        assert!(disk.names() == [name.clone()] && disk.content(&name) == whole, "round {round}");
        let manifest_too = manifest.encode().len() as u64;
        assert_eq!(disk.appended, whole.len() as u64 + manifest_too, "round {round}");
    }
}

#[test]
fn a_transfer_goes_on_after_a_crash() {
    let image = image(2);
    let manifest = Arc::new(Manifest::of(&image));
    let (pieces, (name, whole)) = (pieces(&image, &manifest), at_once(&image));
    let (mut resumed, mut published) = (0, 0);
    for round in 0..150 {
        let (mut rng, mut disk) = (Rng::new(round), Disk::default());
        loop {
            let Ok((mut keeper, opened)) = Keeper::open(&mut disk, false) else {
                disk.crash(&mut rng);
                continue;
            };
            if opened.image.is_some() {
                published += 1;
                break;
            }
            assert!(pieces.starts_with(&opened.partial), "round {round}");
            resumed += usize::from(!opened.partial.is_empty());
            disk.crash_in = rng.one_in(3).then(|| rng.below(40));
            let least = (opened.partial.len() as u32).max(manifest.system().len() as u32);
            let upto = least + rng.below(u64::from(manifest.parts() - least) + 1) as u32;
            keeper.submit(Job::Grow(growth(&image, &manifest, upto)));
            for _ in 0..rng.below(6) {
                let _ = keeper.step(&mut disk);
            }
            if rng.one_in(2) {
                keeper.submit(Job::Install { image: image.clone() });
                settle(&mut keeper, &mut disk);
            }
            if disk.crashed() || rng.one_in(2) {
                disk.crash(&mut rng);
            }
        }
        assert!(disk.content(&name) == whole, "round {round}");
    }
    assert!(resumed > 50 && published == 150, "{resumed} were resumed, {published} published");
}

/// The state that was fetched before is given up: nothing of its file gets into the next one's.
#[test]
fn another_checkpoint_begins_a_new_file() {
    let (one, other) = (image(3), image(4));
    let (first, second) = (Arc::new(Manifest::of(&one)), Arc::new(Manifest::of(&other)));
    for again in [false, true] {
        let mut disk = Disk::default();
        let (mut keeper, _) = open(&mut disk);
        keeper.submit(Job::Grow(growth(&one, &first, 9)));
        settle(&mut keeper, &mut disk);
        if again {
            keeper = open(&mut disk).0;
        }
        keeper.submit(Job::Grow(growth(&other, &second, 6)));
        settle(&mut keeper, &mut disk);
        let (_, opened) = open(&mut disk);
        assert_eq!(opened.partial, pieces(&other, &second)[..6]);
        keeper.submit(Job::Install { image: other.clone() });
        assert!(is_written(&settle(&mut keeper, &mut disk)));
        let (name, whole) = at_once(&other);
        assert!(disk.content(&name) == whole);
    }
}

#[test]
fn what_is_kept_of_a_transfer_is_forgotten() {
    let image = image(5);
    let manifest = Arc::new(Manifest::of(&image));
    let mut disk = Disk::default();
    let (mut keeper, _) = open(&mut disk);
    keeper.submit(Job::Grow(growth(&image, &manifest, 9)));
    settle(&mut keeper, &mut disk);
    assert_eq!(disk.names(), [OUTLINE, PARTIAL]);
    keeper.submit(Job::Grow(growth(&image, &manifest, 12)));
    keeper.submit(Job::ForgetPartial);
    settle(&mut keeper, &mut disk);
    assert!(disk.names().is_empty());
    // Another transfer of the same one begins anew.
    keeper.submit(Job::Grow(growth(&image, &manifest, 8)));
    settle(&mut keeper, &mut disk);
    assert_eq!(open(&mut disk).1.partial.len(), 8);
}

/// The order to forget comes while the end of the file is written, and the next transfer begins.
#[test]
fn a_file_that_is_being_finished_is_not_taken_away() {
    let (one, other) = (image(6), image(7));
    let (first, second) = (Arc::new(Manifest::of(&one)), Arc::new(Manifest::of(&other)));
    let (name, whole) = at_once(&one);
    for steps in 0..40 {
        let mut disk = Disk::default();
        let (mut keeper, _) = open(&mut disk);
        keeper.submit(Job::Grow(growth(&one, &first, 9)));
        settle(&mut keeper, &mut disk);
        keeper.submit(Job::Install { image: one.clone() });
        for _ in 0..steps {
            let _ = keeper.step(&mut disk);
        }
        keeper.submit(Job::ForgetPartial);
        keeper.submit(Job::Grow(growth(&other, &second, 10)));
        let reports = settle(&mut keeper, &mut disk);
        assert!(!reports.iter().any(|report| matches!(report, Report::Failed { .. })), "{reports:?}");
        assert!(disk.content(&name) == whole, "after {steps} steps");
        assert_eq!(open(&mut disk).1.partial, pieces(&other, &second)[..10], "after {steps} steps");
    }
}

/// Without room, or where writing fails, the checkpoint is written at once when there is.
#[test]
fn a_transfer_that_can_not_be_kept_only_loses_time() {
    let image = image(8);
    let manifest = Arc::new(Manifest::of(&image));
    let (name, whole) = at_once(&image);
    for room in [Some(1000), Some(300_000), None] {
        let mut disk = Disk::default();
        (disk.capacity, disk.fail_append) = (room, room.is_none());
        let (mut keeper, _) = open(&mut disk);
        for upto in [8, 12, 20] {
            keeper.submit(Job::Grow(growth(&image, &manifest, upto)));
            settle(&mut keeper, &mut disk);
        }
        assert!(disk.names().is_empty(), "what is of no use takes no room");
        disk.capacity = None;
        keeper.submit(Job::Install { image: image.clone() });
        assert!(is_written(&settle(&mut keeper, &mut disk)));
        assert!(disk.content(&name) == whole);
    }
}

/// Nothing that a disk does to the file brings a wrong part back.
#[test]
fn damaged_parts_of_a_transfer_are_not_taken() {
    let image = image(9);
    let manifest = Arc::new(Manifest::of(&image));
    let pieces = pieces(&image, &manifest);
    let mut sound = Disk::default();
    let (mut keeper, _) = open(&mut sound);
    keeper.submit(Job::Grow(growth(&image, &manifest, 15)));
    settle(&mut keeper, &mut sound);
    let mut rng = Rng::new(9);
    for name in [PARTIAL, OUTLINE] {
        for _ in 0..60 {
            let mut disk = sound.clone();
            disk.flip(name, rng.below(disk.content(name).len() as u64) as usize, rng.next() as u32);
            let (mut keeper, opened) = open(&mut disk);
            assert!(pieces[..15].starts_with(&opened.partial));
            // A manifest may be damaged where it says nothing of these parts.
            assert!(opened.partial.len() < 15 || name == OUTLINE);
            keeper.submit(Job::Grow(growth(&image, &manifest, 15)));
            settle(&mut keeper, &mut disk);
            assert_eq!(open(&mut disk).1.partial, pieces[..15]);
        }
    }
    // The file of the program before had other contents under the same name.
    let mut disk = Disk::default();
    disk.put(PARTIAL, b"QPRT\x01\0\0\0and records".to_vec());
    assert!(open(&mut disk).1.partial.is_empty() && disk.len(PARTIAL).is_err());
}

/// A record may be whole and of the right length, and yet not what was fetched: it is of another state. Only the manifest tells.
#[test]
fn whole_records_of_another_state_are_not_taken() {
    let (image, other) = (image_of(10, 1), image_of(10, 2));
    let (manifest, of_other) = (Arc::new(Manifest::of(&image)), Arc::new(Manifest::of(&other)));
    let pieces = pieces(&image, &manifest);
    let [mut disk, foreign] = [(&image, &manifest), (&other, &of_other)].map(|(image, manifest)| {
        let mut disk = Disk::default();
        let (mut keeper, _) = open(&mut disk);
        keeper.submit(Job::Grow(growth(image, manifest, 15)));
        settle(&mut keeper, &mut disk);
        disk
    });
    let (sound, foreign) = (disk.content(PARTIAL), foreign.content(PARTIAL));
    // Where each record begins: behind the file's header of 24 bytes, and 8 bytes before each part.
    let mut at = 24;
    for part in 0..15 {
        let len = 8 + manifest.part_len(part).expect("a part");
        assert_eq!(of_other.part_len(part), manifest.part_len(part));
        let record = at..at + len;
        let mut bytes = sound.clone();
        bytes[record.clone()].copy_from_slice(&foreign[record]);
        disk.put(PARTIAL, bytes);
        let (mut keeper, opened) = open(&mut disk);
        assert!(opened.partial == pieces[..part as usize], "part {part}");
        assert!(disk.content(PARTIAL) == sound[..at], "it is cut off before part {part}");
        // What was cut off is fetched again.
        keeper.submit(Job::Grow(growth(&image, &manifest, 15)));
        settle(&mut keeper, &mut disk);
        assert!(disk.content(PARTIAL) == sound);
        at += len;
    }
    assert_eq!(at, sound.len());
}
